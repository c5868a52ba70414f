"""Texts for people, in Chinese and in English.

Errors and warnings carry a code; their texts are defined here once, so that every entrance uses the same
words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from personalab.texts.actions import action_text
from personalab.texts.archive import ARCHIVE
from personalab.texts.forms import LANGUAGES, Language, Text, fill
from personalab.texts.lab import LAB
from personalab.texts.web import WEB

__all__ = ["LANGUAGES", "TEXTS", "Language", "Text", "fill", "in_language", "render", "say"]


@runtime_checkable
class Worded(Protocol):
    """Something that can say itself in either language."""

    def message(self, language: Language) -> str:
        """Return the message."""
        ...


def say(code: str, language: Language, /, **params: object) -> str:
    """Return the text of a code; a code without a text gives nothing."""
    text = TEXTS.get(code)
    return render(text, language, **params) if text else ""


def render(text: Text, language: Language, /, **params: object) -> str:
    """Fill a text with its parameters, in its language; actions are named as the current entrance does."""
    template = _ACTION.sub(lambda found: getattr(action_text(found[1]), language), getattr(text, language))
    return fill(template, **in_language(params, language))


def in_language(params: Mapping[str, object], language: Language) -> dict[str, object]:
    """Word the reasons and errors among a text's parameters in the text's language."""
    return {
        name: value.message(language) if isinstance(value, Worded) else value
        for name, value in params.items()
    }


_ACTION = re.compile(r"\{do:(\w+)\}")

TEXTS: dict[str, Text] = {
    **ARCHIVE,
    **LAB,
    **WEB,
    # --- what a person gave us
    "bad_id": Text(
        "{what} “{value}” 不能用作 ID：只能用字母、数字、下划线和连字符，以字母或数字开头，最长 64 个字符，不能是系统保留名（如 con、nul）",
        "{what} '{value}' cannot be an id: use letters, digits, _ and -, begin with a letter or digit, at most 64, no device names (con, nul)",
    ),
    "id_missing": Text("缺少 {what}；请给出要使用的 ID", "{what} is missing; give the id of the one to use"),
    "no_story_chosen": Text(
        "没有指定故事：请在 assistant 的 context（或 config 的 configurable）里设置 instance_id。现有的故事：{stories}",
        "No story is chosen: set instance_id in the assistant's context (or in its config). Stories: {stories}",
    ),
    "no_story_yet": Text(
        "还没有故事；请先用网页或 {do:new_story} 新建一个",
        "There is no story yet; create one in the browser or with {do:new_story}",
    ),
    "no_human_message": Text(
        "messages 里没有等待回复的用户消息；请发送一条",
        "messages contains no human message that waits for a reply; send one",
    ),
    "only_text": Text(
        "消息里有 {kind} 类型的内容，这里只支持文本；请去掉后重新发送",
        "The message contains content of type {kind}, but only text is supported; remove it and send again",
    ),
    "context_not_text": Text(
        "上下文（context）中的 {field} 应为文本，收到的是 {kind}；请改为文本，或去掉它",
        "{field} in the context must be a string, not {kind}; pass a string or leave it out",
    ),
    "blank_input": Text("输入是空的，请写点什么", "The input is blank; write something"),
    "input_too_long": Text(
        "输入有 {actual} 个字符，上限是 {limit}，请缩短后再试",
        "The input has {actual} characters, the limit is {limit}; shorten it and try again",
    ),
    "no_reply": Text("(无回复)", "(no reply)"),
    "nothing_to_retry": Text(
        "实例 {instance_id} 没有可以重试的轮次：最后一轮已有完整回复",
        "Instance {instance_id} has no turn to retry: its last turn has a whole reply",
    ),
    "turn_left_behind": Text(
        "第 {turn} 轮太长，放不进提示词，汇总时留在了会话 {session_id} 里，没有回复；请改短后重新发送，"
        "或在设置里提高“Prompt总长度上限”后撤销汇总再重试",
        "Turn {turn} was too long for the prompt, so the summary left it unanswered in session {session_id}. "
        "Send it again in fewer words, or raise max_total_tokens, undo the summary and retry",
    ),
    "nothing_pending": Text(
        "实例 {instance_id} 的第 {turn} 轮不在等待回复（当前最后一轮是 {last}）；请开始新的一轮",
        "Turn {turn} of instance {instance_id} is not waiting for a reply (its last turn is {last}); begin a new turn",
    ),
    "already_answered": Text(
        "第 {turn} 轮已有另一条回复，不能再写入不同的内容；请用新的一轮继续",
        "Turn {turn} has another reply already; go on with a new turn instead",
    ),
    "blank_reply": Text(
        "回复里没有正文；除了 [PROGRESS:…] 标记和思考过程，还要有角色说的话",
        "The reply has no words; besides [PROGRESS:…] markers and reasoning it needs something the character says",
    ),
    "bad_request_id": Text(
        "request_id 不可用：应为 1–{limit} 个字符的文本",
        "request_id cannot be used: give a text of 1–{limit} characters",
    ),
    "request_id_reused": Text(
        "request_id “{request_id}” 已用于第 {turn} 轮的另一句话；说新的话请换一个 request_id",
        "request_id '{request_id}' was used for other words, in turn {turn}; use a new one to say something new",
    ),
    "bad_cursor": Text(
        "cursor “{value}” 不可用；请原样使用上一次结果里的 cursor，或省略它从头读起",
        "The cursor '{value}' cannot be used; pass the one of the last result as it is, or none to begin anew",
    ),
    "entry_exists": Text(
        "{what} {entry_id} 已经存在；要修改它请设 replace 为 true，或换一个 ID",
        "{what} {entry_id} exists already; to change it set replace to true, or choose another id",
    ),
    "field_missing": Text("缺少 {field}；请给出它的内容", "{field} is missing; give its text"),
    "bad_record": Text("{field} 不可用：{reason}", "{field} cannot be used: {reason}"),
    "field_too_long": Text(
        "{field} 太长：{actual}，上限 {limit}", "{field} is too long: {actual}, at most {limit}"
    ),
    "unknown_section": Text(
        "提示词里没有 “{section}” 这一段；有：{known}",
        "The prompt has no section '{section}'; there are: {known}",
    ),
    "nothing_to_summarize": Text(
        "实例 {instance_id} 的会话 {session_id} 里还没有可以汇总的对话",
        "The session {session_id} of instance {instance_id} has nothing to summarise yet",
    ),
    "session_went_on": Text(
        "会话 {session_id} 在此期间有了新的内容（第 {turn} 轮）；什么都没有改变，请再试一次",
        "The session {session_id} went on meanwhile (turn {turn}); nothing was changed, try again",
    ),
    "session_switched": Text(
        "当前会话已经换成 {session_id}；什么都没有改变，请再试一次",
        "The current session is {session_id} by now; nothing was changed, try again",
    ),
    "work_stopped": Text("已停止；什么都没有改变", "Stopped; nothing was changed"),
    "summary_stopped": Text("汇总已停止；什么都没有改变", "The summary was stopped; nothing was changed"),
    "nothing_to_undo": Text(
        "实例 {instance_id} 的会话 {session_id} 不是由汇总而来，没有可以撤销的汇总",
        "The session {session_id} of instance {instance_id} does not come from a summary: there is none to undo",
    ),
    "nothing_to_learn": Text(
        "实例 {instance_id} 的会话 {session_id} 里还没有得到回复的对话，角色还没有什么可以因之成长；先聊几轮再试",
        "The session {session_id} of instance {instance_id} has no answered turn yet that the character could grow by; play some turns first",
    ),
    "persona_changed": Text(
        "实例 {instance_id} 的成长人格在此期间被改动了；什么都没有写入，请再试一次",
        "The evolved persona of instance {instance_id} was changed meanwhile; nothing was written, try again",
    ),
    "persona_too_long": Text(
        "角色人格太长（{actual} 个 token，更新记忆最多 {limit}）；请缩短 character_state.json 里的人格，或提高 max_total_tokens",
        "The persona is too long to grow ({actual} tokens, {limit} at most); shorten it in character_state.json, or raise max_total_tokens",
    ),
    "no_growth_to_undo": Text(
        "实例 {instance_id} 的成长人格没有可以撤销的改变",
        "The evolved persona of instance {instance_id} has no change to undo",
    ),
    "no_change_to_undo": Text(
        "{agent_id} 对 {user_id} 的记忆没有可以撤销的改动",
        "What {agent_id} knows about {user_id} has no change left to undo",
    ),
    "unknown_toolset": Text(
        "没有工具集 “{names}”；可用：{known}", "There is no toolset '{names}'; there are: {known}"
    ),
    "unknown_action": Text(
        "不认识的动作 “{value}”，可用：{known}", "Unknown action '{value}'; there are: {known}"
    ),
    "unknown_setting": Text(
        "没有名为 “{field}” 的设置；可用：{known}", "There is no setting '{field}'; there are: {known}"
    ),
    "setting_out_of_range": Text(
        "{field} 不能是 {value}：应为 {range}", "{field} cannot be {value}: it must be {range}"
    ),
    "instance_exists": Text(
        "实例 {instance_id} 已经存在，请换一个 ID", "Instance {instance_id} exists already; choose another id"
    ),
    "clock_too_early": Text(
        "系统时间是 {now}，早于 1970 年，无法运行；请先校准系统时间",
        "The system clock says {now}, which is before 1970; set the clock, then try again",
    ),
    "unreadable_env": Text(
        "环境变量 {name} 的值 “{value}” 不可用：{reason}",
        "{name} is '{value}', which cannot be used: {reason}",
    ),
    "tracing.hidden": Text(
        "LangSmith 追踪已开启：每次运行的步骤和用时会发送出去，文本不会。PERSONALAB_TRACING=off 停止发送，PERSONALAB_TRACING=full 连同文本一起发送",
        "LangSmith tracing is on: the steps and timings of each run are sent, texts are not. PERSONALAB_TRACING=off stops it, PERSONALAB_TRACING=full sends texts as well",
    ),
    "tracing.full": Text(
        "LangSmith 追踪已开启：你说的话、角色的回复和完整的提示词都会发送出去。PERSONALAB_TRACING=hidden 隐藏文本，PERSONALAB_TRACING=off 停止发送",
        "LangSmith tracing is on: your words, the replies and the whole prompts are sent. PERSONALAB_TRACING=hidden hides texts, PERSONALAB_TRACING=off stops it",
    ),
    "bad_usage": Text("用法不对：{reason}；见 --help", "Bad usage: {reason}; see --help"),
    "no_streams": Text(
        "标准输入或标准输出已关闭，无法通信；请由 MCP 客户端启动，或用 --http",
        "stdin or stdout is closed, so nobody can be talked to; let an MCP client start this, or use --http",
    ),
    "token_needed": Text(
        "地址 {host} 能从别的机器访问：请先设置 PERSONALAB_TOKEN，或用 127.0.0.1",
        "{host} can be reached from other machines: set PERSONALAB_TOKEN first, or use 127.0.0.1",
    ),
    "port_not_free": Text(
        "无法在 {host} 的端口 {port} 上监听：{reason}；请换一个 --port（0 会自动选择）或 --host",
        "Cannot listen on port {port} of {host}: {reason}; choose another --port (0 takes a free one) or --host",
    ),
    # --- what does not exist
    "no_instance": Text(
        "没有实例 {instance_id}；用 {do:list_library} 查看，或用 {do:new_story} 新建",
        "There is no instance {instance_id}; see {do:list_library}, or make one with {do:new_story}",
    ),
    "no_character": Text(
        "没有角色 {character_id}；用 {do:list_library} 查看有哪些",
        "There is no character {character_id}; see {do:list_library} for those there are",
    ),
    "no_background": Text(
        "没有背景 {background_id}；用 {do:list_library} 查看有哪些",
        "There is no background {background_id}; see {do:list_library} for those there are",
    ),
    "no_session": Text(
        "实例 {instance_id} 没有会话 {session_id}", "Instance {instance_id} has no session {session_id}"
    ),
    "no_conversation": Text(
        "没有保存过对话 {conversation_id}；用 {do:list_conversations} 查看有哪些",
        "There is no saved conversation {conversation_id}; see {do:list_conversations} for those there are",
    ),
    "no_memory": Text(
        "{agent_id} 对 {user_id} 还没有任何记忆；用 {do:list_memories} 查看有哪些",
        "{agent_id} knows nothing about {user_id} yet; see {do:list_memories} for the memories there are",
    ),
    "no_entry": Text(
        "{agent_id} 对 {user_id} 的记忆里没有条目 {content_id}；用 {do:get_memory} 查看",
        "What {agent_id} knows about {user_id} has no entry {content_id}; see {do:get_memory}",
    ),
    "nothing_running": Text(
        "实例 {instance_id} 没有正在进行的轮次，不需要停止",
        "No turn of instance {instance_id} is running: there is nothing to stop",
    ),
    # --- who else is writing
    "busy": Text(
        "故事 {instance_id} 正忙（进程 {pid} 正在写入），等了 {seconds} 秒；请稍后再试，或用 {do:stop} 停止它",
        "The story {instance_id} is busy (process {pid} is writing it); waited {seconds} s. Try again later, or end it with {do:stop}",
    ),
    "file_busy": Text(
        "另一个进程正在修改 {file}，等了 {seconds} 秒；请稍后再试",
        "Another process is changing {file}; waited {seconds} s. Try again later",
    ),
    "awaiting_client": Text(
        "故事 {instance_id} 的第 {turn} 轮正由一个客户端的模型写回复；请稍后再试，若那是你自己先前的调用，请用同一个 request_id 再调用，或用 {do:stop} 结束等待",
        "A client's model is writing the reply of turn {turn} of {instance_id}; try again later. If that was an earlier call of yours, repeat it with the same request_id, or end the wait: {do:stop}",
    ),
    "learning_busy": Text(
        "已有进程正在从故事 {instance_id} 中学习；请稍后再试",
        "Someone is learning from the story {instance_id} already; try again later",
    ),
    "empty_conversation": Text(
        "对话 {conversation_id} 里没有消息，没有可以学习的内容",
        "The conversation {conversation_id} has no messages: there is nothing to learn from",
    ),
    "memory_busy": Text(
        "{agent_id} 对 {user_id} 的记忆正被别的进程修改；什么都没有改变，请稍后再试",
        "Someone else keeps changing what {agent_id} knows about {user_id}; nothing was changed, try again later",
    ),
    "server_ending": Text(
        "服务器正在关闭；什么都没有写入，请稍后再试",
        "The server is shutting down; nothing was written, try again later",
    ),
    "too_many_turns": Text(
        "服务器同时进行的轮次已满（{limit}）；什么都没有写入，请稍后再试",
        "The server is at its limit of {limit} turns at once; nothing was written, try again later",
    ),
    "turn_overtaken": Text(
        "第 {turn} 轮开始后会话又有了新内容，这一轮不能再继续；请重新输入（若有 request_id，请换一个）",
        "The session has gone on since turn {turn} began; this turn cannot be continued, say it again (with a new request_id, if it had one)",
    ),
    # --- files
    "file_missing": Text(
        "缺少文件 {file}；请从备份恢复它，或重新建立它所属的内容",
        "The file {file} is missing; restore it from a backup, or make what it belongs to anew",
    ),
    "file_broken": Text(
        "文件 {file} 无法读取：{reason}；请修正它，或运行 {do:doctor_fix}",
        "The file {file} cannot be read: {reason}; mend it, or run {do:doctor_fix}",
    ),
    "turns_used_up": Text(
        "这个会话的轮次已到上限（{limit}），不能再添加新的一轮；请先汇总会话，在新会话里继续，或改正会话文件里的 turn",
        "The session has reached the highest turn number ({limit}), so no turn can be added; summarize it to continue in a new session, or correct the turn numbers in its file",
    ),
    "not_regular": Text(
        "{file} 不是普通文件（而是管道、设备、套接字或文件夹）；请把它移走，如果原来的文件有内容，再从备份恢复",
        "{file} is not a regular file (but a pipe, a device, a socket or a folder); move it away, and restore the file from a backup if it held data",
    ),
    "locks_unsupported": Text(
        "{folder} 所在的文件系统不支持文件锁，无法防止两个进程同时写入；请把数据目录移到本地磁盘，并用 PERSONALAB_DATA 指定它",
        "The file system of {folder} does not support file locks, so two processes could write at once; move the data root to a local disk and set PERSONALAB_DATA to it",
    ),
    "link_refused": Text(
        "{file} 是符号链接，可能指向数据目录之外，因此不会使用；请换成真正的文件或文件夹",
        "{file} is a symbolic link and may lead out of the data root, so it is not used; replace it with a real file or folder",
    ),
    "story_not_indexed": Text(
        "故事 {instance_id} 无法编入索引：{reason}；它的文件没有改动，其余故事不受影响；请用 {do:doctor} 检查它的会话文件",
        "The story {instance_id} cannot be indexed: {reason}; its files are as they were, and the other stories are indexed; look at its session files with {do:doctor}",
    ),
    "line_broken": Text(
        "文件 {file} 第 {line} 行无法读取：{reason}；请修正它，或运行 {do:doctor_fix}",
        "Line {line} of {file} cannot be read: {reason}; mend it, or run {do:doctor_fix}",
    ),
    "disk_full": Text(
        "磁盘已满，无法写入 {file}；请腾出空间后重试，已写入的内容都在",
        "The disk is full, {file} cannot be written; free some room and try again, what was written is kept",
    ),
    "not_writable": Text(
        "无法写入 {file}：{reason}；请检查数据目录的权限，或用 PERSONALAB_DATA 指定另一个目录",
        "{file} cannot be written: {reason}; check the data root's permissions, or set PERSONALAB_DATA to another folder",
    ),
    "session_changed": Text(
        "会话文件 {file} 刚刚被别的程序改动，这一轮没有写入；请再说一次",
        "The session file {file} was changed by another program just now; nothing was written, say it again",
    ),
    "lock_lost": Text(
        "{instance_id} 已由另一个进程接手，这里的内容没有写入；请重新加载后再试",
        "Another process has taken over {instance_id} and nothing was written here; load it again and retry",
    ),
    "session_gone": Text(
        "会话文件 {file} 在这一轮进行中被删除，且无法恢复：{reason}",
        "The session file {file} was deleted during the turn and could not be restored: {reason}",
    ),
    "memory_too_new": Text(
        "记忆库 {file} 由更新版本的 PersonaLab 写成（格式 {found}，本版本只懂 {known}）；请升级 PersonaLab",
        "The memory store {file} was written by a newer PersonaLab (format {found}, this one knows {known}); upgrade PersonaLab",
    ),
    "memory_store_busy": Text(
        "记忆库 {file} 一直被别的进程占用；什么都没有改变，请稍后再试",
        "Another process keeps the memory store {file} busy; nothing was changed, try again later",
    ),
    "memory_id_other": Text(
        "{agent_id} 对 {user_id} 的记忆是 {memory_id}；请用这个 memory_id，或省略它",
        "What {agent_id} knows about {user_id} is the memory {memory_id}; name that one, or none",
    ),
    "memory_id_taken": Text(
        "memory_id {memory_id} 是另一对 agent 和 user 的记忆；请去掉 memory_id，或填写他们自己的",
        "The memory_id {memory_id} is the memory of another agent and user; leave memory_id out, or give their own",
    ),
    "conversation_taken": Text(
        "conversation_id {conversation_id} 已经属于另一段对话；请换一个 conversation_id",
        "The conversation_id {conversation_id} is another conversation's already; give this one another id",
    ),
    "memory_index_unreadable": Text(
        "记忆的向量索引无法读取：{reason}；请运行 {do:reindex} 重建它（它由记忆生成，不会丢失内容）",
        "The vectors of the memories cannot be read: {reason}; rebuild them with {do:reindex} (they are made from the memories, nothing is lost)",
    ),
    "memory_other_embedder": Text(
        "记忆的向量现在由 {indexed} 生成，而本进程使用的是 {configured}；请让所有进程使用同一个 PERSONALAB_EMBEDDINGS，然后重启",
        "The vectors of the memories are made by {indexed} by now, but this process uses {configured}; let all processes use the same PERSONALAB_EMBEDDINGS and restart them",
    ),
    "database_driver": Text(
        "使用 PostgreSQL 需要 Python 包 psycopg 和 pgvector，请安装它们：pip install 'personalab[postgres]'",
        "PostgreSQL needs the Python packages psycopg and pgvector; install them: pip install 'personalab[postgres]'",
    ),
    "database_address": Text(
        "PERSONALAB_DATABASE 不是 PostgreSQL 的地址；请写成 postgresql://用户:密码@主机:5432/数据库，密码中的特殊字符用 % 编码",
        "PERSONALAB_DATABASE is no address of PostgreSQL; write postgresql://user:password@host:5432/database, with special characters of the password %-encoded",
    ),
    "database_unreachable": Text(
        "无法连接 PostgreSQL {where}：{reason}；请确认服务器已启动、地址和网络无误，再重试",
        "PostgreSQL at {where} cannot be reached: {reason}; see that the server runs and that address and network are right, then retry",
    ),
    "database_login": Text(
        "PostgreSQL {where} 拒绝了登录；请检查 PERSONALAB_DATABASE 中的用户和密码",
        "PostgreSQL at {where} refused the login; check the user and the password in PERSONALAB_DATABASE",
    ),
    "database_missing": Text(
        "PostgreSQL 没有数据库 {where}；请用 createdb 建立它，或检查 PERSONALAB_DATABASE",
        "PostgreSQL has no database {where}; make it with createdb, or check PERSONALAB_DATABASE",
    ),
    "database_no_vector": Text(
        "数据库 {where} 缺少扩展 vector，也无法自动建立；请在服务器上安装 pgvector，并由管理员在该数据库执行 CREATE EXTENSION vector",
        "The database {where} lacks the extension vector, and it cannot be made from here; install pgvector on the server, and let an administrator run CREATE EXTENSION vector in that database",
    ),
    "database_old_vector": Text(
        "数据库 {where} 的扩展 vector 是 {version}，需要 0.8 以上；请升级 pgvector，并由管理员执行 ALTER EXTENSION vector UPDATE",
        "The extension vector of the database {where} is {version}, and 0.8 or later is needed; upgrade pgvector and let an administrator run ALTER EXTENSION vector UPDATE",
    ),
    "database_newer": Text(
        "数据库 {where} 的表由更新的 PersonaLab 建立（版本 {found}，本程序认识到 {known}）；请升级 PersonaLab",
        "The tables of the database {where} were made by a newer PersonaLab (version {found}, this one knows {known}); upgrade PersonaLab",
    ),
    "database_lost": Text(
        "与 PostgreSQL {where} 的连接在途中断开，无法确定最后一步是否已保存；请查看后再重试",
        "The connection to PostgreSQL at {where} broke in mid-work, and it is not known whether the last step was kept; look, then try again",
    ),
    "database_busy": Text(
        "PostgreSQL {where} 太忙；什么都没有改变，请稍后再试",
        "PostgreSQL at {where} is too busy; nothing was changed, try again later",
    ),
    "database_failed": Text(
        "PostgreSQL {where} 报错：{reason}；什么都没有改变",
        "PostgreSQL at {where} failed: {reason}; nothing was changed",
    ),
    "database_dimension": Text(
        "PostgreSQL 不能保存 {dimension} 维的向量（至多 {limit} 维）；请换一个嵌入模型",
        "PostgreSQL cannot keep vectors of {dimension} numbers (at most {limit}); choose another embedder",
    ),
    "database_other_embedder": Text(
        "数据库 {where} 的向量已改由另一个嵌入模型生成；请让所有进程使用同一个 PERSONALAB_EMBEDDINGS 并重新启动",
        "The vectors of the database {where} are another embedder's by now; let all processes use one PERSONALAB_EMBEDDINGS and restart them",
    ),
    # --- models
    "provider.unknown": Text(
        "不认识的模型 “{model}”：{reason}；请检查 PERSONALAB_MODEL（例如 openai:gpt-4o-mini 或 rehearsal）",
        "Unknown model '{model}': {reason}; check PERSONALAB_MODEL (for example openai:gpt-4o-mini, or rehearsal)",
    ),
    "provider.not_installed": Text(
        "模型 {model} 需要 Python 包 {package}，请安装它：pip install {package}",
        "The model {model} needs the Python package {package}; install it: pip install {package}",
    ),
    "provider.no_key": Text(
        "模型 {model} 需要密钥：请设置 {variable}，或用 PERSONALAB_MODEL=rehearsal 试用",
        "The model {model} needs a key: set {variable}, or try the product with PERSONALAB_MODEL=rehearsal",
    ),
    "provider.wrong_key": Text(
        "模型服务拒绝了密钥（{status}），请检查 API key 和权限",
        "The model's service refused the key ({status}); check the API key and its permissions",
    ),
    "provider.rate_limit": Text(
        "模型服务限流，重试 {tries} 次后仍被拒绝，请稍后再试",
        "The model's service limits the rate and still refused after {tries} tries; try again later",
    ),
    "provider.connection": Text(
        "与模型服务的连接中断，请检查网络和 OPENAI_BASE_URL 后重试",
        "The connection to the model's service broke; check the network and OPENAI_BASE_URL, then retry",
    ),
    "provider.proxy": Text(
        "不支持 {kind} 代理；请在 HTTP_PROXY、HTTPS_PROXY 或 ALL_PROXY 中设置 http 或 https 代理，或把模型服务加入 NO_PROXY",
        "Proxies of the kind {kind} are not supported; set an http or https proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY, or add the model's service to NO_PROXY",
    ),
    "provider.redirect": Text(
        "模型服务把请求转到了 {url}（{status}）；请检查 OPENAI_BASE_URL",
        "The model's service redirects requests to {url} ({status}); check OPENAI_BASE_URL",
    ),
    "provider.mid_stream": Text(
        "模型服务在回复途中报错：{reason}", "The model's service reported an error in mid-reply: {reason}"
    ),
    "provider.no_finish": Text(
        "模型的回复在结束前断开了（没有结束标志），请重试",
        "The model's reply stopped before its end (no finish reason); retry",
    ),
    "provider.stall": Text(
        "模型 {seconds} 秒没有任何输出，已放弃等待，请重试",
        "The model sent nothing for {seconds} s and was given up; retry",
    ),
    "provider.context_overflow": Text(
        "提示词超过了模型能接受的长度，请执行汇总，或调低 max_total_tokens",
        "The prompt is longer than the model takes; run a summary, or lower max_total_tokens",
    ),
    "provider.not_found": Text(
        "模型服务没有模型 {model}，请检查 PERSONALAB_MODEL",
        "The model's service has no model {model}; check PERSONALAB_MODEL",
    ),
    "provider.bad_answer": Text(
        "模型服务的回应无法理解：{reason}",
        "The model's service answered something that cannot be read: {reason}",
    ),
    "provider.refused": Text(
        "模型服务拒绝了请求（{status}）：{reason}",
        "The model's service refused the request ({status}): {reason}",
    ),
    "provider.server": Text(
        "模型服务出错（{status}），请稍后重试", "The model's service failed ({status}); try again later"
    ),
    "provider.filtered": Text(
        "模型服务的内容过滤截断了回复", "The provider's content filter cut the reply off"
    ),
    "provider.unusable_answer": Text(
        "模型的回答两次都不能用：{reason}；什么都没有改变，请再试一次，或换一个模型",
        "The model answered twice with something that cannot be used: {reason}; nothing was changed, try again or choose another model",
    ),
    "provider.bad_summary": Text(
        "模型给出的汇总不能用：{reason}；已要求改正一次。什么都没有改变，请再试一次或换一个模型",
        "The model's summary cannot be used: {reason}; it was asked to mend it once. Nothing was changed: try again, or another model",
    ),
    "provider.bad_persona": Text(
        "模型给出的成长人格不能用：{reason}；已要求改正一次。什么都没有改变，请再试一次或换一个模型",
        "The model's evolved persona cannot be used: {reason}; it was asked to mend it once. Nothing was changed: try again, or another model",
    ),
    "provider.client": Text(
        "客户端的模型没有回答：{reason}；请再试一次，或由你来写回复",
        "The client's model did not answer: {reason}; try again, or write the reply yourself",
    ),
    "provider.failed": Text("模型出错：{reason}", "The model failed: {reason}"),
    "provider.open_timeout": Text(
        "模型 “{model}” 在 {seconds} 秒内没有打开；请稍后重试，若仍如此请检查模型文件所在的磁盘",
        "The model '{model}' did not open within {seconds} s; try again later, and if it stays so check the disk that holds its file",
    ),
    "provider.open_busy": Text(
        "已有 {count} 个模型正在打开，暂时不能打开 “{model}”；请稍后重试",
        "{count} models are being opened already, so '{model}' has to wait; try again later",
    ),
    "model_not_configured": Text(
        "{field}：服务器没有配置模型 “{model}”；请省略这一项以使用已配置的模型，或请服务器的管理者设置 PERSONALAB_MODEL（实验室用 {do:set_lab_cli} default_model）",
        "{field}: the model '{model}' is not configured on this server; leave the field out to use the configured one, or have the server's owner set PERSONALAB_MODEL (for the lab: {do:set_lab_cli} default_model)",
    ),
    "provider.no_model_file": Text(
        "模型文件 {file} 不可用：{reason}；请检查 PERSONALAB_MODEL 中 local: 后面的路径",
        "The model file {file} cannot be used: {reason}; check the path after local: in PERSONALAB_MODEL",
    ),
    "provider.bad_model_file": Text(
        "llama.cpp 无法加载 {file}；请换一个完整的 GGUF 聊天模型文件",
        "llama.cpp cannot load {file}; use a whole GGUF file of a chat model",
    ),
    "provider.bad_script": Text(
        "脚本文件 {file} 不可用：{reason}；请修正它",
        "The script {file} cannot be used: {reason}; mend it",
    ),
    "provider.script_ended": Text(
        "{model} 的 {count} 条回复已经用完；请添加回复，或让它循环",
        "All {count} replies of {model} are used up; add more, or let it loop",
    ),
    "unknown_encoding": Text(
        "没有词表 “{value}”，可用：{known}", "There is no vocabulary '{value}'; there are: {known}"
    ),
    # --- the event library
    "library_unreadable": Text(
        "事件库无法读取：{reason}；请运行 {do:reindex} 重建它（它由会话文件生成，不会丢失内容）",
        "The event library cannot be read: {reason}; rebuild it with {do:reindex} (it is made from the sessions, nothing is lost)",
    ),
    "other_embedder": Text(
        "事件库由 {indexed} 生成，而当前配置的是 {configured}；请运行 {do:reindex} 重建，或改回 PERSONALAB_EMBEDDINGS",
        "The event library was made by {indexed}, but {configured} is configured; rebuild it with {do:reindex}, or set PERSONALAB_EMBEDDINGS back",
    ),
    "embedder.unknown": Text(
        "不认识的嵌入模型 “{setting}”：{reason}；请检查 PERSONALAB_EMBEDDINGS（例如 offline 或 openai:text-embedding-3-small）",
        "Unknown embedder '{setting}': {reason}; check PERSONALAB_EMBEDDINGS (for example offline, or openai:text-embedding-3-small)",
    ),
    "embedder.no_key": Text(
        "嵌入模型 {setting} 需要密钥：请设置 {variable}，或用 PERSONALAB_EMBEDDINGS=offline",
        "The embedder {setting} needs a key: set {variable}, or use PERSONALAB_EMBEDDINGS=offline",
    ),
    "embedder.not_found": Text(
        "服务没有嵌入模型 {setting}，请检查 PERSONALAB_EMBEDDINGS",
        "The service has no embedder {setting}; check PERSONALAB_EMBEDDINGS",
    ),
    # --- the prompt
    "prompt_too_long": Text(
        "Prompt总长度超过限制（{actual} > {limit}），请执行汇总或调整配置",
        "The prompt is too long ({actual} > {limit}); run a summary or change the settings",
    ),
    # --- why something was recalled
    "recall.words": Text("词语匹配：{words}（第 {rank} 位）", "words: {words} (place {rank})"),
    "recall.meaning": Text("语义相近 {similarity}（第 {rank} 位）", "meaning {similarity} (place {rank})"),
    # --- warnings: the message, and what can be done
    "warning.middle_section_overflow": Text("当前对话历史过长", "The conversation's history is getting long"),
    "warning.middle_section_overflow.suggestion": Text("建议执行汇总功能", "Run a summary"),
    "warning.total_near_limit": Text("Prompt总长度接近上限", "The prompt is close to its limit"),
    "warning.total_near_limit.suggestion": Text("建议执行汇总功能", "Run a summary"),
    "warning.head_overflow": Text("头部区域过长", "The head of the prompt is too long"),
    "warning.head_overflow.suggestion": Text(
        "建议精简角色人格、背景设定或故事大纲", "Shorten the persona, the background or the outline"
    ),
    "warning.progress_unreadable": Text(
        "看不懂进度标记 {marker}；应为 [PROGRESS:序号:in_progress] 或 [PROGRESS:序号:completed]",
        "The marker {marker} cannot be read; write [PROGRESS:N:in_progress] or [PROGRESS:N:completed]",
    ),
    "warning.progress_out_of_range": Text(
        "回复中的进度标记 {marker} 不在大纲范围内（共 {length} 点），已忽略",
        "The reply's marker {marker} is outside the outline ({length} points) and was ignored",
    ),
    "warning.config_unreadable": Text(
        "{file} 缺失或无法读取：{reason}；本轮使用默认数值，所有功能关闭",
        "{file} is missing or cannot be read: {reason}; this turn uses default numbers with all features off",
    ),
    "warning.config_unreadable.suggestion": Text(
        "请修正该文件，或用 {do:reset_settings} 重建",
        "Mend the file, or make it anew: {do:reset_settings}",
    ),
    "warning.config_value": Text(
        "{file} 中这些设置不可用，已使用默认值：{fields}",
        "These settings in {file} cannot be used, their defaults hold: {fields}",
    ),
    "warning.director_switch": Text(
        "{file} 缺失或无法读取：{reason}；导演功能关闭",
        "{file} is missing or cannot be read: {reason}; the director is off",
    ),
    "warning.director_switch.suggestion": Text(
        '写入 {"enabled": true} 即可打开', 'Write {"enabled": true} into it to switch the director on'
    ),
    "care.summarize.begun": Text(
        "对话已经很长，正在自动汇总……", "The conversation has grown long; summing it up…"
    ),
    "care.summarize.done": Text(
        "已自动汇总：{old} 变成 {count} 个情节点，故事在 {new} 里继续；撤销：{do:undo_summary}",
        "Summed up by itself: {old} became {count} points, the story goes on in {new}. Undo: {do:undo_summary}",
    ),
    "care.summarize.error": Text("自动汇总没有成功：{reason}", "Could not sum up by itself: {reason}"),
    "care.memorize.begun": Text("正在从最近 {turns} 轮里学习……", "Learning from the last {turns} turns…"),
    "care.memorize.done": Text(
        "已从最近 {turns} 轮里学习，对你的记忆有 {count} 处改动；查看：{do:memory_history}，撤销：{do:undo_memory}",
        "Learned from the last {turns} turns: {count} changes in what is known about you. See: {do:memory_history}, undo: {do:undo_memory}",
    ),
    "care.memorize.error": Text("自动学习没有成功：{reason}", "Could not learn by itself: {reason}"),
    "warning.memory_not_learned": Text(
        "没能从对话中了解玩家：{reason}", "Could not learn about the player from the turns: {reason}"
    ),
    "warning.memory_not_learned.suggestion": Text("稍后再更新一次记忆", "update the memory again later"),
    "warning.memory_switch": Text(
        "{file} 无法读取（{reason}）：这一轮不使用对玩家的了解",
        "{file} cannot be read ({reason}): this turn does without what is known about the player",
    ),
    "warning.memory_switch.suggestion": Text(
        "修正该文件，或删除它以使用默认值", "mend the file, or delete it to use the default"
    ),
    "warning.memory_unavailable": Text(
        "对玩家的了解暂时无法使用：{reason}", "What is known about the player cannot be used now: {reason}"
    ),
    "warning.recall_switch": Text(
        "{file} 无法读取：{reason}；回忆功能关闭", "{file} cannot be read: {reason}; recall is off"
    ),
    "warning.background_unreadable": Text(
        "背景 {background_id} 缺失或无法读取：{reason}；本轮没有背景和大纲",
        "The background {background_id} is missing or cannot be read: {reason}; this turn has none, and no outline",
    ),
    "warning.background_unreadable.suggestion": Text(
        "请修正该文件，或用 {do:switch_background} 换一个背景",
        "Mend the file, or choose another with {do:switch_background}",
    ),
    "warning.recall_unavailable": Text(
        "历史事件库不可用：{reason}", "The event library cannot be used: {reason}"
    ),
    "warning.recall_unavailable.suggestion": Text(
        "运行 {do:reindex} 重建索引", "Rebuild it with {do:reindex}"
    ),
    "warning.summary_not_indexed": Text(
        "汇总已完成，但没有写入历史事件库：{reason}",
        "The summary is done, but the event library could not take it: {reason}",
    ),
    "warning.summary_not_indexed.suggestion": Text(
        "运行 {do:reindex} 重建索引", "Rebuild it with {do:reindex}"
    ),
    "warning.turns_left_behind": Text(
        "太长而放不进提示词的轮次留在了会话 {session_id} 里，没有回复：第 {turns} 轮",
        "Too long for the prompt and left unanswered in session {session_id}: turn {turns}",
    ),
    "warning.turns_left_behind.suggestion": Text(
        "改短后重新发送，或提高“Prompt总长度上限”", "Send it again in fewer words, or raise max_total_tokens"
    ),
    "warning.session_restored": Text(
        "会话文件在这一轮进行中被删除或替换，已写回这一轮的回复",
        "The session file was deleted or replaced during the turn; this turn's reply was written back",
    ),
    "warning.session_set_aside": Text(
        "会话文件末尾有一段无法读取的内容，已移到旁边的 .torn 文件",
        "The end of the session file could not be read; it was moved into a .torn file beside it",
    ),
    "warning.session_repaired": Text(
        "上一条回复没有写完，已修复并标记为中断",
        "The last reply had not been finished; it was repaired and marked as interrupted",
    ),
    "warning.template_unreadable": Text(
        "提示词模板 {file} 无法读取：{reason}；使用自带模板",
        "The prompt template {file} cannot be read: {reason}; the shipped one is used",
    ),
}
