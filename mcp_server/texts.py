"""Texts of the MCP server, in Chinese and in English."""

from __future__ import annotations

from mcp_server.texts_lab import LAB_DESCRIPTIONS, LAB_TEXTS, LAB_TITLES
from personalab.texts import Language, Text, render


def tell(code: str, language: Language, /, **params: object) -> str:
    """Return a text of this entrance; a code without a text gives nothing."""
    text = TEXTS.get(code)
    return render(text, language, **params) if text else ""


INSTRUCTIONS = Text(
    """PersonaLab：与角色一起经历一个故事。每一轮都写入用户磁盘上的会话文件；角色设定、故事大纲、历史回忆和进度由服务器管理。

怎样玩：
1. 用 persona_library 看有哪些角色、背景和进行中的故事；没有故事就用 persona_new_instance 开一个（先问用户选哪个角色和背景），也可以先用 persona_save_character / persona_save_background 写新的。
2. 用户对角色说的每一句话，原样作为一轮：
   - 服务器有模型（或你的客户端支持采样）时：persona_chat(instance_id, text)，把结果里的回复原样给用户看。
   - 否则由你来写：persona_begin_turn(instance_id, text) 会给出完整提示词；你严格按提示词以角色身份写出回复（含其中要求的 [PROGRESS:…] 标记），再用 persona_end_turn(instance_id, turn, reply) 存下全文，然后把同样的回复给用户看。不要跳过 persona_end_turn，否则这一轮没有回答。
   persona_chat 的警告提到 rehearsal（内置替身）时，请改用后一种方式。
3. 给每次 persona_chat / persona_begin_turn 一个新的 request_id；超时后用同一个 request_id 再调用一次，会得到同一轮，不会重复。
4. 不要替用户说话，不要自己编故事的结果；想不起来的事用 persona_recall 查。persona_read 从最新一轮往回读；persona_prompt 显示故事进展和提示词的用量（支持界面的客户端会画成面板）。
5. 回复失败或中断时用 persona_retry；出错信息会说明该怎么做。
6. 警告说对话太长时，问过用户后用 persona_summarize 汇总；过一段时间用 persona_update_memory，让角色成长并记住用户。结果是 awaiting_answer 时由你来写：按其中的提示词写出 JSON，用同样的参数加 answer 再调用，直到完成。
7. 角色对用户的了解（也可不带故事使用）：memory_save_conversation、memory_get、memory_search、memory_edit；memory_forget 不能撤销，先问用户。""",
    """PersonaLab: live through a story with a character. Every turn is written to session files on the user's disk; persona, outline, memories and progress are kept by the server.

How to play:
1. persona_library shows characters, backgrounds and stories under way. If there is no story, begin one with persona_new_instance (ask the user which character and background), or first write new ones with persona_save_character / persona_save_background.
2. Each thing the user says to the character is one turn, passed on word for word:
   - If the server has a model (or your client supports sampling): persona_chat(instance_id, text), and show the user the reply as it is.
   - Otherwise you write: persona_begin_turn(instance_id, text) hands you the whole prompt; write the character's reply strictly by it (with the [PROGRESS:…] markers it asks for), save the full text with persona_end_turn(instance_id, turn, reply), then show the user that same reply. Never skip persona_end_turn: the turn would stay unanswered.
   When a warning of persona_chat names the rehearsal stand-in, use the second way.
3. Give each persona_chat / persona_begin_turn a fresh request_id; after a time-out call again with the same one: you get the same turn, never a second one.
4. Don't speak for the user or invent what happened; look it up with persona_recall. persona_read goes back from the newest turn; persona_prompt shows where the story stands and what the prompt costs (hosts that can, draw it as a panel).
5. If a reply failed or was interrupted use persona_retry; errors say what to do.
6. When a warning says that the conversation is long, ask the user and use persona_summarize; now and then persona_update_memory, so that the character grows and remembers the user. If a result is awaiting_answer, you write: make the JSON its prompt asks for and call again with the same arguments and answer, until it is done.
7. What characters know about the user (works without a story, too): memory_save_conversation, memory_get, memory_search, memory_edit; memory_forget cannot be undone, ask the user first.""",
)

ARCHIVE_INSTRUCTIONS = Text(
    """
8. 文件的导入和导出：用户把角色卡（PNG、JSON、CHARX）、世界书、SillyTavern 聊天或 Veloca 文件放进数据目录的 exchange 文件夹，用 archive_import(name) 导入；archive_export 把故事、角色或背景写到同一个文件夹，告诉用户文件名。archive_compact 把存档（Veloca）里较早的消息压缩成摘要。""",
    """
8. Files in and out: the user puts character cards (PNG, JSON, CHARX), lorebooks, SillyTavern chats or Veloca files into the folder exchange of the data root, and archive_import(name) brings them in; archive_export writes a story, a character or a background into the same folder: tell the user the file's name. archive_compact turns the older entries of an archived conversation (Veloca) into a summary.""",
)
"""What is added where these tools are there."""

TITLES = {
    "persona_chat": Text("说一句话，角色回答", "Say something to the character"),
    "persona_begin_turn": Text("开始一轮，由你写回复", "Begin a turn that you answer"),
    "persona_end_turn": Text("存下你写的回复", "Save the reply you wrote"),
    "persona_retry": Text("重新回答上一轮", "Answer the last turn again"),
    "persona_stop": Text("停止正在写的回复", "Stop the running reply"),
    "persona_read": Text("阅读对话记录", "Read a story back"),
    "persona_library": Text("角色、背景和故事", "Characters, backgrounds, stories"),
    "persona_new_instance": Text("开始一个故事", "Begin a story"),
    "persona_save_character": Text("保存角色", "Save a character"),
    "persona_save_background": Text("保存背景", "Save a background"),
    "persona_switch_background": Text("更换背景", "Move a story to another background"),
    "persona_summarize": Text("汇总长对话", "Sum up a long session"),
    "persona_update_memory": Text("让角色成长并记住你", "Let the character grow and remember"),
    "persona_recall": Text("回忆发生过的事", "Look up what happened"),
    "persona_prompt": Text("故事进展和提示词", "Where the story stands; the next prompt"),
    "persona_settings": Text("查看或修改设置", "Show or change settings"),
    "memory_save_conversation": Text("保存对话，从中学习", "Save a conversation, learn from it"),
    "memory_get": Text("查看对一个人的记忆", "What is known about someone"),
    "memory_search": Text("在记忆里查找", "Search memories"),
    "memory_edit": Text("修改记忆", "Mend a memory"),
    "memory_forget": Text("彻底忘记一个人", "Forget someone for good"),
    "archive_import": Text("导入文件", "Bring a file in"),
    "archive_export": Text("导出为文件", "Take something out as a file"),
    "archive_compact": Text("压缩存档的对话", "Compact an archived conversation"),
    **LAB_TITLES,
}

DESCRIPTIONS = {
    "persona_chat": "One whole turn: send what the user says, get the character's reply. Use it for every message to the character, unless you write the replies yourself (persona_begin_turn).",
    "persona_begin_turn": "Use it when you, the host's model, write the character's reply: saves what the user says and returns the prompt to write by. Follow with persona_end_turn.",
    "persona_end_turn": "Save the reply you wrote for a turn begun with persona_begin_turn; the same text again is harmless.",
    "persona_retry": "Answer the last turn again, when its reply failed, was empty, was interrupted or never came.",
    "persona_stop": "Stop the reply that is being written for a story, also by another client; what is written stays.",
    "persona_read": "Read a story's session, the newest turn first; pass cursor to go on to older turns.",
    "persona_library": "List characters, backgrounds and stories, or show one entry whole (kind and entry_id). Use it first, to find ids.",
    "persona_new_instance": "Begin a new story with a character, in a background or in none.",
    "persona_save_character": "Write a new character, or change one (replace: true; what you leave out stays).",
    "persona_save_background": "Write a new world with its story outline, or change one (replace: true; what you leave out stays).",
    "persona_switch_background": "Move a story to another background, or to none (null); its place in the plot is kept.",
    "persona_summarize": "Turn a long session into plot points and go on in a new one, when a warning says it is long. On awaiting_answer, write the JSON its prompt asks for and call again with answer.",
    "persona_update_memory": "Let the character grow by the last turns and learn about the player; show how it grew (history). On awaiting_answer, write the JSON its prompt asks for and call again with answer.",
    "persona_recall": "Search what happened earlier in a story, when someone refers to it or you need a fact.",
    "persona_prompt": "Show where a story stands (outline, progress, warnings) and what the next turn would send, by section with token counts. Use it to look, not to play.",
    "persona_settings": "Show all settings with their ranges; change some (changes) or restore the defaults (reset).",
    "memory_save_conversation": "Save a conversation between an agent and a user, and learn from it (learn: true). On awaiting_answer, write the JSON its prompt asks for and call again with answer.",
    "memory_get": "Show what an agent knows about a user: profile, events, mind, with content_ids; or what changed; or a conversation.",
    "memory_search": "Search what an agent knows about a user, or their saved conversations.",
    "memory_edit": "Mend what an agent knows about a user: add (content_type, text), replace (content_id, text), remove (content_id), or undo the last change.",
    "memory_forget": "Delete all an agent knows about a user, with history and conversations. Cannot be undone: ask the user first.",
    "archive_import": "Bring in a character card, lorebook, chat or Veloca file: by its name in the folder exchange, or by its content.",
    "archive_export": "Write a story, character or background to a file in the folder exchange, for other programs; progress markers and reasoning only if asked.",
    "archive_compact": "Sum up the old part of an archived conversation (Veloca). On awaiting_answer, write the JSON its prompt asks for and call again with answer.",
    **LAB_DESCRIPTIONS,
}

TEXTS: dict[str, Text] = {
    # --- arguments
    "faults": Text("{faults}。{takes}", "{faults}. {takes}"),
    "fault": Text("`{name}`：{fault}", "`{name}`: {fault}"),
    "unknown_argument": Text("没有这样的参数：{names}", "there is no such argument: {names}"),
    "takes": Text("参数：{names}（带 ? 的可省略）", "It takes: {names} (those with ? may be left out)."),
    "fault.missing": Text("缺少这个参数", "it is missing"),
    "fault.string_type": Text("应为文本", "it must be a text"),
    "fault.int_type": Text("应为整数", "it must be a whole number"),
    "fault.int_parsing": Text("应为整数", "it must be a whole number"),
    "fault.int_from_float": Text("应为整数", "it must be a whole number"),
    "fault.int_parsing_size": Text("数字太大", "the number is too large"),
    "fault.bool_type": Text("应为 true 或 false", "it must be true or false"),
    "fault.bool_parsing": Text("应为 true 或 false", "it must be true or false"),
    "fault.dict_type": Text("应为 JSON 对象", "it must be a JSON object"),
    "fault.list_type": Text("应为列表", "it must be a list"),
    "fault.literal_error": Text("应为 {expected}", "it must be {expected}"),
    "fault.string_too_short": Text(
        "太短，至少 {min_length} 个字符", "it is too short: at least {min_length}"
    ),
    "fault.string_too_long": Text(
        "太长，最多 {max_length} 个字符", "it is too long: at most {max_length} characters"
    ),
    "fault.too_long": Text("太长，最多 {max_length} 项", "it is too long: at most {max_length} items"),
    "fault.greater_than_equal": Text("应不小于 {ge}", "it must be at least {ge}"),
    "fault.less_than_equal": Text("应不大于 {le}", "it must be at most {le}"),
    # --- errors of this entrance
    "internal": Text(
        "{tool} 出了内部错误（{error}）；已写入的内容不受影响，请再试一次，若仍出错请查看服务器日志",
        "{tool} failed inside ({error}); what is written is safe. Try again; if it goes on, see the server's log",
    ),
    "unknown_tool": Text("没有工具 {tool}；可用：{known}", "There is no tool {tool}; there are: {known}"),
    "unknown_prompt": Text(
        "没有提示 {prompt}；可用：{known}", "There is no prompt {prompt}; there are: {known}"
    ),
    "too_many_subscriptions": Text(
        "订阅太多（上限 {limit}）；请先取消一些", "Too many subscriptions, at most {limit}; end some first"
    ),
    "too_many_handshakes": Text(
        "新建会话过于频繁；请 {seconds} 秒后再试，或沿用已有的会话",
        "Too many new sessions; try again in {seconds} s, or keep using an open one",
    ),
    "too_many_sessions": Text(
        "所有会话都有调用在进行，暂时不能新建；请 {seconds} 秒后再试",
        "Every open session has a call running, so no other can be opened; try again in {seconds} s",
    ),
    "unknown_resource": Text("没有资源 {uri}", "There is no resource {uri}"),
    "no_text_sampled": Text(
        "客户端的模型没有给出文字；第 {turn} 轮仍在等待回复：可用 persona_retry，或用 persona_end_turn 自己写",
        "The client's model gave no text; turn {turn} still waits: use persona_retry, or write it with persona_end_turn",
    ),
    "one_of": Text("这些参数不能一起用：{names}", "These arguments do not go together: {names}"),
    "nothing_asked": Text(
        "{tool} 现在没有在等你的回答；请先不带 answer 和 cursor 调用一次",
        "{tool} is not waiting for an answer of yours; first call it without answer and cursor",
    ),
    "too_many_rounds": Text(
        "问了 {count} 次仍没有完成，已放弃；已存下的不会丢失。请再调用一次，或给服务器配置模型（OPENAI_API_KEY）",
        "Not done after {count} answers: given up; what is stored stays. Call again, or give the server a model (OPENAI_API_KEY)",
    ),
    # --- results
    "answer_now": Text(
        "这一步由你来写：严格按下面的提示词写出它要的 JSON，然后调用 {again}answer=…)。",
        "You write this step: make exactly the JSON that the prompt below asks for, then call {again}answer=…).",
    ),
    "prompt_goes_on": Text(
        '提示词很长，这是其中一部分；先用 {again}cursor="{cursor}") 读下去，读完再回答。',
        'The prompt is long, this is a part of it; read on with {again}cursor="{cursor}"), and answer when you have read it all.',
    ),
    "prompt_before": Text(
        '（前面的部分你已经看过；{again}cursor="{first}") 从头再看）',
        '(You have seen what comes before; {again}cursor="{first}") shows it again)',
    ),
    "step": Text("{done}/{total}", "{done}/{total}"),
    "summary_done": Text(
        '会话 {session_id} 汇总成 {count} 个情节点，故事在 {new_session_id} 里继续（保留最后 {kept_turns} 轮）；撤销：persona_summarize(instance_id="{instance_id}", undo=true)',
        '{session_id} became {count} points; the story goes on in {new_session_id}, with the last {kept_turns} turns. Undo: persona_summarize(instance_id="{instance_id}", undo=true)',
    ),
    "summary_preview": Text(
        "预览：会话 {session_id} 会变成 {count} 个情节点，在 {new_session_id} 里继续（保留最后 {kept_turns} 轮）；什么都没有写入",
        "Preview: {session_id} would become {count} points and go on in {new_session_id}, with the last {kept_turns} turns; nothing was written",
    ),
    "turns_aside": Text(
        "汇总之后说过的 {turns} 轮不再属于故事，保存在 {aside}",
        "The {turns} turns said since the summary are no longer in the story; they are kept in {aside}",
    ),
    "summary_undone": Text(
        "已撤销汇总，当前会话是 {session_id}", "The summary is undone; the current session is {session_id}"
    ),
    "older_points": Text("（较早的 {count} 点从略）", "({count} earlier points are left out)"),
    "growth.done": Text(
        '角色的成长人格已更新（第 {revision} 版，{count} 处改变）；撤销：persona_update_memory(instance_id="{instance_id}", undo=true)',
        'The character has grown (revision {revision}, {count} changes). Undo: persona_update_memory(instance_id="{instance_id}", undo=true)',
    ),
    "growth.unchanged": Text(
        "最近的对话没有改变角色的成长人格", "The last turns changed nothing in who the character is"
    ),
    "growth.preview": Text(
        "预览：{count} 处改变；什么都没有写入", "Preview: {count} changes; nothing was written"
    ),
    "growth.unfinished": Text(
        '还没有完成：请再调用 persona_update_memory(instance_id="{instance_id}") 继续',
        'Not finished: call persona_update_memory(instance_id="{instance_id}") again to go on',
    ),
    "growth_undone": Text(
        '已撤销，成长人格回到第 {revision} 版（对玩家的记忆不变；那要用 memory_edit(action="undo") 撤销）',
        'Undone; the character is back at revision {revision} (what it knows about the player stays; memory_edit(action="undo") takes that back)',
    ),
    "no_growth": Text("（角色还没有成长）", "(the character has not grown yet)"),
    "persona_now": Text("成长人格：{text}", "Evolved persona: {text}"),
    "persona_cut": Text(
        '（没有显示全；全文：persona_prompt(instance_id="{instance_id}", section="evolved_persona")）',
        '(Not shown whole; see persona_prompt(instance_id="{instance_id}", section="evolved_persona"))',
    ),
    "edited_since": Text(
        "第 {revision} 版之后，成长人格被手工修改过",
        "The persona was edited by hand since revision {revision}",
    ),
    "revision": Text("第 {revision} 版 · {time} · {by}", "Revision {revision} · {time} · {by}"),
    "learned": Text(
        '{agent_id} 从 {turns} 轮对话里学习，对 {user_id} 的记忆有 {count} 处改动（还有 {left} 轮没学）；撤销最后一次：memory_edit(agent_id="{agent_id}", action="undo")',
        '{agent_id} learned from {turns} turns: {count} changes in what it knows about {user_id} ({left} turns left). Undo the last: memory_edit(agent_id="{agent_id}", action="undo")',
    ),
    "would_learn": Text("还会从 {turns} 轮对话里学习", "It would learn from {turns} turns, too"),
    "conversation_saved": Text(
        "已保存对话 {conversation_id}（{message_count} 条消息）",
        "Saved the conversation {conversation_id} ({message_count} messages)",
    ),
    "saved_not_learned": Text(
        '没能从中学习：{reason}。再试：memory_save_conversation(agent_id="{agent_id}", conversation_id="{conversation_id}", learn=true)',
        'Could not learn from it: {reason}. Try again: memory_save_conversation(agent_id="{agent_id}", conversation_id="{conversation_id}", learn=true)',
    ),
    "learned_from": Text(
        "{agent_id} 对 {user_id} 的记忆有 {count} 处改动",
        "{count} changes in what {agent_id} knows about {user_id}",
    ),
    "learned_before": Text(
        "这段对话先前已经学过，什么都没有改变",
        "This conversation was learned from before; nothing was changed",
    ),
    "not_taken": Text("没有采用：{what}（{reason}）", "Not taken: {what} ({reason})"),
    "more_steps": Text("（另有 {count} 处从略）", "({count} more are left out)"),
    "list.profile": Text("档案", "Profile"),
    "list.event": Text("事件", "Events"),
    "list.mind": Text("心理", "Mind"),
    "memory_head": Text(
        "{agent_id} 对 {user_id} 的了解：共 {count} 条，更新于 {updated_at}",
        "What {agent_id} knows about {user_id}: {count} entries, updated {updated_at}",
    ),
    "changes_head": Text(
        "{agent_id} 对 {user_id} 的记忆的最近 {count} 次改动，从最新的开始",
        "The last {count} changes in what {agent_id} knows about {user_id}, the newest first",
    ),
    "conversation_head": Text(
        "{agent_id} 与 {user_id} 的对话 {conversation_id}，{created_at}，{turn_count} 条消息",
        "The conversation {conversation_id} of {agent_id} and {user_id}, {created_at}, {turn_count} messages",
    ),
    "origin.memorize": Text("学习", "learned"),
    "origin.edit": Text("手动", "by hand"),
    "origin.undo": Text("撤销", "undone"),
    "nothing_known": Text(
        '没有找到；换个说法，或用 where="conversations" 搜索对话',
        'Nothing was found; word it differently, or search what was said with where="conversations"',
    ),
    "by_hand": Text("手动写的", "written by hand"),
    "entry_place": Text("{short_id} · {kind} · 来自 {source}", "{short_id} · {kind} · from {source}"),
    "conversation_place": Text(
        "{created_at} · {turn_count} 条消息 · {conversation_id}",
        "{created_at} · {turn_count} messages · {conversation_id}",
    ),
    "memory_changed": Text(
        "{agent_id} 对 {user_id} 的记忆有 {count} 处改动",
        "{count} changes in what {agent_id} knows about {user_id}",
    ),
    "known_before": Text("什么都没有改变：这一条已经有了", "Nothing was changed: that is known already"),
    "forgotten": Text("{agent_id} 已经忘记 {user_id}", "{agent_id} has forgotten {user_id}"),
    # --- files and archives
    "bad_base64": Text(
        "content_base64 不是 base64：{reason}；文本文件请用 content",
        "content_base64 is not base64: {reason}; give a text file as content",
    ),
    "imported_count": Text("导入了 {count} 项，跳过 {skipped} 个", "Imported: {count}, left out: {skipped}"),
    "not_imported": Text("- 跳过 {file}：{reason}", "- left out {file}: {reason}"),
    "outcome.new": Text("新的", "new"),
    "outcome.same": Text("已有相同的", "there already:"),
    "outcome.replaced": Text("已替换", "replaced"),
    "outcome.completed": Text("已补全", "completed"),
    "outcome.joined": Text("已接上之前的聊天", "joined to earlier chats:"),
    "outcome.exists": Text("有冲突，没有导入", "conflicts with one that is here, not imported:"),
    "outcome.given": Text("世界书已给", "lorebook given to"),
    "kind.character": Text("角色", "character"),
    "kind.background": Text("背景", "background"),
    "kind.instance": Text("故事", "story"),
    "exported": Text(
        "已写入数据目录的 {folder} 文件夹：{name}（{format}，{size} 字节）",
        "Written to the folder {folder} of the data root: {name} ({format}, {size} bytes)",
    ),
    "export_left_out": Text(
        "它没有带上：{names}；图片用 card-png 或 charx 导出，世界书用 lorebook 导出",
        "It does not carry: {names}; export pictures as card-png or charx, lorebooks as lorebook",
    ),
    "other_sessions": Text(
        "不在其中的会话：{names}（用 session_id 指定）",
        "Sessions that are not in it: {names} (name one with session_id)",
    ),
    "text_begins": Text("它的开头：", "It begins:"),
    "compacted": Text(
        '会话 {session_id} 较早的 {entries} 条消息压缩成了下面的摘要；撤销：archive_compact(session_id="{session_id}", archive="{archive}", undo=true)',
        'The {entries} older entries of {session_id} became the summary below. Undo: archive_compact(session_id="{session_id}", archive="{archive}", undo=true)',
    ),
    "compaction_undone": Text(
        "已撤销会话 {session_id} 最近一次压缩，{entries} 条消息恢复原样",
        "The last compaction of {session_id} is undone; {entries} entries are back",
    ),
    "footer": Text(
        "[第 {turn} 轮 · {session_id} · {status}{plot}]", "[turn {turn} · {session_id} · {status}{plot}]"
    ),
    "footer_plot": Text(
        " · 大纲第 {index} 点 {status} · 连续 {count} 次回复无进度",
        " · outline point {index} {status} · replies without progress: {count}",
    ),
    "warning": Text("注意：{message}", "Note: {message}"),
    "thought": Text("（思考：{text}）", "(Reasoning: {text})"),
    "truncated": Text(
        "（回复达到长度上限，可能没有说完）",
        "(The reply hit the model's length limit and may be incomplete)",
    ),
    "error_line": Text("出错：{message}", "Error: {message}"),
    "retry_hint": Text(
        '可用 persona_retry(instance_id="{instance_id}") 重新回答这一轮',
        'persona_retry(instance_id="{instance_id}") answers this turn again',
    ),
    "reply_cut": Text(
        '（回复共 {total} 个字符，这里是前 {shown} 个；其余用 persona_read(instance_id="{instance_id}", cursor="{cursor}") 读取）',
        '(The reply has {total} characters, these are the first {shown}; read the rest with persona_read(instance_id="{instance_id}", cursor="{cursor}"))',
    ),
    "rehearsal": Text(
        "没有配置模型，客户端也不支持采样或拒绝了采样：以上回复来自内置替身 rehearsal，不是真正的模型。请改用 persona_begin_turn / persona_end_turn 由你来写，或设置 OPENAI_API_KEY",
        "No model is configured, and the client offers no sampling or refused it: this reply is by the built-in stand-in 'rehearsal', not by a real model. Use persona_begin_turn / persona_end_turn to write it yourself, or set OPENAI_API_KEY",
    ),
    "rehearsal_chosen": Text(
        "PERSONALAB_MODEL 设为 rehearsal：以上回复来自内置替身，不是真正的模型。请改用 persona_begin_turn / persona_end_turn 由你来写，或把 PERSONALAB_MODEL 改成真正的模型",
        "PERSONALAB_MODEL is set to rehearsal: this reply is by the built-in stand-in, not by a real model. Use persona_begin_turn / persona_end_turn to write it yourself, or set PERSONALAB_MODEL to a real model",
    ),
    "write_now": Text(
        '第 {turn} 轮在等你的回复。请按下面的提示词以角色身份写回复（进度标记的 status 是 in_progress 或 completed），然后调用 persona_end_turn(instance_id="{instance_id}", turn={turn}, reply=…)，再把同样的回复给用户看。',
        'Turn {turn} waits for your reply. Write it as the character, by the prompt below (the status of a progress marker is in_progress or completed); then call persona_end_turn(instance_id="{instance_id}", turn={turn}, reply=…) and show the user the same reply.',
    ),
    "omitted_characters": Text(
        '（最新一条消息太长，省去了开头的 {count} 个字符；全文用 persona_read(instance_id="{instance_id}") 读取）',
        '(The newest message is too long: {count} characters of its beginning are left out; persona_read(instance_id="{instance_id}") gives it whole)',
    ),
    "omitted_messages": Text(
        '（为了不超长，省去了较早的 {count} 条消息；需要时用 persona_read(instance_id="{instance_id}") 读取）',
        '({count} older messages are left out to keep this short; read them with persona_read(instance_id="{instance_id}") if you need them)',
    ),
    "system_cut": Text(
        "（为了不超长，这里省去 {count} 个字符）", "({count} characters are left out here to keep this short)"
    ),
    "failed_before": Text("这一轮的回复先前失败了", "The reply of this turn failed before"),
    "answered_before": Text(
        "这个 request_id 的第 {turn} 轮已经有回复：", "Turn {turn} of this request_id has its reply already:"
    ),
    "task.say": Text("回复", "the reply"),
    "task.retry": Text("回复", "the reply"),
    "task.summarize": Text("汇总", "the summary"),
    "task.update-memory": Text("记忆更新", "the update of its memory"),
    "task.undo-summary": Text("汇总的撤销", "the undoing of a summary"),
    "task.undo-memory": Text("记忆更新的撤销", "the undoing of a memory update"),
    "freed": Text(
        "故事 {instance_id} 不再等待客户端的模型；如果它的回复在新的一轮之前到来，仍会被采用",
        "The story {instance_id} no longer waits for the client's model; its reply is still taken if it comes before a new turn",
    ),
    "unanswered": Text("没有回复", "unanswered"),
    "said": Text("{who}：{text}", "{who}: {text}"),
    "stopped": Text("已停止 {instance_id} 的 {task}", "Stopped {task} of {instance_id}"),
    "nothing_here": Text("（空）", "(nothing)"),
    "page_head": Text(
        "{instance_id} · {session_id} · 共 {turns} 轮，从最新的开始",
        "{instance_id} · {session_id} · {turns} turns, the newest first",
    ),
    "page_more": Text('更早的：cursor="{cursor}"', 'Older ones: cursor="{cursor}"'),
    "page_next": Text('还有更多：cursor="{cursor}"', 'There is more: cursor="{cursor}"'),
    "page_continued": Text("上一个会话：{session_id}", "The session before: {session_id}"),
    "turn_head": Text("第 {turn} 轮", "Turn {turn}"),
    "part": Text("（第 {first}–{last} 个字符，共 {total}）", "(characters {first}–{last} of {total})"),
    "by_user": Text("用户", "User"),
    "by_character": Text("角色", "Character"),
    "by_summary": Text("前情", "Summary"),
    "characters": Text("角色", "Characters"),
    "backgrounds": Text("背景", "Backgrounds"),
    "instances": Text("故事", "Stories"),
    "points": Text("大纲 {count} 点", "{count} outline points"),
    "unreadable": Text("无法读取：{reason}", "cannot be read: {reason}"),
    "begun": Text(
        "故事 {instance_id} 开始了：角色 {character_id}，背景 {background_id}。用 persona_chat 或 persona_begin_turn 说第一句话。",
        "The story {instance_id} has begun: character {character_id}, background {background_id}. Say the first thing with persona_chat or persona_begin_turn.",
    ),
    "opens_with": Text(
        "角色的开场白，请原样给用户看：\n{opening}",
        "It opens with these words; show them to the user as they are:\n{opening}",
    ),
    "none": Text("无", "none"),
    "saved_new": Text("已新建 {what} {entry_id}", "Made {what} {entry_id}"),
    "saved_old": Text("已修改 {what} {entry_id}", "Changed {what} {entry_id}"),
    "moved": Text(
        "故事 {instance_id} 的背景现在是 {background_id}；大纲进度不变（第 {index} 点 {status}）",
        "The story {instance_id} now has the background {background_id}; its place in the plot is kept (point {index}, {status})",
    ),
    "found": Text("找到 {count} 条", "Found {count}"),
    "not_found": Text(
        "没有找到相关的事；换个说法，或换一个 depth",
        "Nothing was found; word it differently or choose another depth",
    ),
    "item_place": Text(
        "{kind} · {session_id} · 第 {turns} 轮 · {reason}", "{kind} · {session_id} · turns {turns} · {reason}"
    ),
    "prompt_head": Text(
        "{character} · {background} · 下一轮是第 {turn} 轮",
        "{character} · {background} · the next turn is {turn}",
    ),
    "prompt_outline": Text("大纲（{done}/{total}）", "Outline ({done}/{total})"),
    "prompt_counter": Text(
        "连续 {count} 次回复无进度（从 {threshold} 次起提醒）",
        "replies without progress: {count} (the director reminds from {threshold} on)",
    ),
    "prompt_lore": Text("世界书条目（+ 已加入，- 未加入）：", "Lorebook entries (+ in, - left out):"),
    "prompt_tokens": Text(
        "提示词 {total} / {limit} token（{encoding}）", "Prompt: {total} of {limit} tokens ({encoding})"
    ),
    "prompt_section": Text("{title}（{name}）：{tokens} token", "{title} ({name}): {tokens} tokens"),
    "prompt_more": Text(
        '没有显示全的段落：persona_prompt(instance_id="{instance_id}", section=…)',
        'Sections not shown whole: persona_prompt(instance_id="{instance_id}", section=…)',
    ),
    "changed": Text("已保存", "Saved"),
    "setting_row": Text("{name} = {value}（{range}）", "{name} = {value} ({range})"),
    # --- resources and prompts
    "resource.instance": Text("故事 {id}：{character}", "Story {id}: {character}"),
    "resource.character": Text("角色 {name}", "Character {name}"),
    "resource.background": Text("背景 {name}", "Background {name}"),
    "session_cut": Text("（较早的内容从略；共 {turns} 轮）", "(older turns are left out; {turns} in all)"),
    "prompt.play": Text("开始或继续一个故事", "Begin a story, or go on with one"),
    "prompt.recap": Text("讲讲故事到现在发生了什么", "Tell what has happened in a story so far"),
    "play_new": Text(
        "请用 PersonaLab 开始一个新故事：角色 {character}，背景 {background}。用 persona_new_instance 建立，然后问我的第一句话，之后我说的每句话都是一轮。",
        "Begin a new story with PersonaLab: character {character}, background {background}. Make it with persona_new_instance, then ask for my first words; each thing I say from then on is one turn.",
    ),
    "play_choose": Text(
        "请用 PersonaLab 开始一个故事。这是现有的角色、背景和故事，请让我选一个（或新写一个），然后开始；之后我说的每句话都是一轮。",
        "Begin a story with PersonaLab. These are the characters, backgrounds and stories there are; let me choose (or write a new one) and begin. Each thing I say from then on is one turn.",
    ),
    "play_on": Text(
        "请用 PersonaLab 继续故事 {instance_id}。这是最近的几轮；先用一两句话提醒我进行到哪里，然后等我说话，我说的每句话都是一轮。",
        "Go on with the PersonaLab story {instance_id}. These are its latest turns; remind me in a sentence or two where we are, then wait for my words: each thing I say is one turn.",
    ),
    "how_writer": Text(
        "回复由服务器的模型写：用 persona_chat。", "The server's model writes the replies: use persona_chat."
    ),
    "how_sampling": Text(
        "服务器没有模型，会请你的客户端的模型来写：用 persona_chat。",
        "The server has no model and asks your client's own to write the replies: use persona_chat.",
    ),
    "in_background": Text("背景：{background}。", "Background: {background}."),
    "how_host": Text(
        "服务器没有模型，回复由你来写：用 persona_begin_turn，再用 persona_end_turn。",
        "The server has no model, so you write the replies: persona_begin_turn, then persona_end_turn.",
    ),
    "recap_ask": Text(
        "请根据下面的记录，用几段话讲讲故事 {instance_id} 到现在发生了什么：人物、地点、约定和还没解决的事。只讲记录里有的。",
        "From the record below, tell in a few paragraphs what has happened in the story {instance_id} so far: people, places, promises, and what is still open. Tell only what stands there.",
    ),
    **LAB_TEXTS,
}
