"""Texts of the terminal program, in Chinese and in English.

The texts of the product's errors and warnings are in ``personalab.texts``.
"""

from __future__ import annotations

from cli.lab_texts import LAB_TEXTS
from personalab.texts import Language, Text, render


def tell(code: str, language: Language, /, **params: object) -> str:
    """Return one of the terminal's sentences."""
    return render(TEXTS[code], language, **params)


TEXTS: dict[str, Text] = {
    **LAB_TEXTS,
    # --- what went wrong at the entrance itself
    "usage": Text("{reason}（用法：{command} --help）", "{reason} (see {command} --help)"),
    "usage_other": Text("命令行不正确", "The command line cannot be read"),
    "dashes": Text(
        "；要说的话以 - 开头时，在它前面加 --：{command} 故事ID -- 文字",
        "; if your words begin with -, put -- before them: {command} INSTANCE -- TEXT",
    ),
    "no_output": Text("无法输出到标准输出：{reason}", "Cannot write to standard output: {reason}"),
    "unexpected": Text(
        "程序出错（{kind}）；加上 --debug 或设置 PERSONALAB_DEBUG=1 可以看到细节",
        "The program failed ({kind}); run it with --debug or PERSONALAB_DEBUG=1 to see why",
    ),
    "not_ready": Text(
        "缺少程序的一部分（{name}）；请重新安装：make install",
        "A part of the program is missing ({name}); install it again: make install",
    ),
    "not_together": Text("这些选项不能一起用：{names}", "These options contradict each other: {names}"),
    "need_character": Text(
        "请用 --character 指定角色；有：{known}", "Name a character with --character; there are: {known}"
    ),
    "need_instance": Text(
        "有 {count} 个故事，请指定一个：personalab chat 故事ID；有：{known}",
        "There are {count} stories; name one: personalab chat INSTANCE; there are: {known}",
    ),
    "no_characters": Text(
        "数据目录 {root} 里没有可用的角色；请放入 characters/角色/definition.json，或换一个 PERSONALAB_DATA",
        "{root} has no usable character; add characters/ID/definition.json, or set PERSONALAB_DATA",
    ),
    "one_background": Text(
        "请给出一个背景，或用 --none 表示没有背景", "Give a background, or --none for no background"
    ),
    "no_section": Text(
        "下一轮的提示词没有 “{name}” 这一段；有：{known}",
        "The next prompt has no section '{name}'; there are: {known}",
    ),
    # --- warnings and endings
    "warning": Text("注意：{message}", "Note: {message}"),
    "interrupted": Text("（已中断）", "(interrupted)"),
    "empty": Text("（没有回复，可以重试）", "(no reply; you can retry)"),
    "truncated": Text(
        "（回复达到长度上限，可能没有说完）",
        "(The reply hit the model's length limit and may be incomplete)",
    ),
    "stopped": Text("已停止 {instance_id}（{task}）", "Stopped {instance_id} ({task})"),
    "task_say": Text("回复", "a reply"),
    "task_retry": Text("回复", "a reply"),
    "task_begin": Text("回复", "a reply"),
    "task_end": Text("回复", "a reply"),
    "task_switch-background": Text("更换背景", "a change of background"),
    "task_update-memory": Text("更新记忆", "an update of the character's memory"),
    "task_undo-memory": Text("撤销更新记忆", "an undoing of the character's last change"),
    "task_doctor": Text("检查和修复", "a repair"),
    # --- the library
    "characters": Text("角色", "Characters"),
    "backgrounds": Text("背景", "Backgrounds"),
    "instances": Text("故事", "Stories"),
    "none_yet": Text(
        "（还没有；用 personalab new 或 personalab chat 开始）",
        "(none yet; begin with personalab new or chat)",
    ),
    "nothing": Text("（无）", "(none)"),
    "points": Text("{count} 个大纲点", "{count} outline points"),
    "no_background": Text("无背景", "no background"),
    "made": Text(
        "已开始故事 {instance_id}：{character}，{background}。接着聊：personalab chat {instance_id}",
        "Began the story {instance_id}: {character}, {background}. Go on with: personalab chat {instance_id}",
    ),
    "switched": Text(
        "{instance_id} 的背景现在是：{background}", "The background of {instance_id} is now: {background}"
    ),
    # --- reading
    "turn": Text("第 {turn} 轮", "Turn {turn}"),
    "you": Text("你", "You"),
    "summary": Text("摘要", "Summary"),
    "older": Text(
        "更早的内容：personalab read {instance_id} --session {session_id} --before {turn}",
        "Older turns: personalab read {instance_id} --session {session_id} --before {turn}",
    ),
    "no_turns": Text("（这个会话还没有内容）", "(nothing has been said in this session yet)"),
    "continued": Text("接续会话 {session_id}", "continues {session_id}"),
    # --- recall
    "nothing_found": Text(
        "没有找到。刚聊过的内容在会话里，不在事件库中；personalab reindex 会从会话文件重建事件库",
        "Nothing was found. Recent turns stand in the session; personalab reindex makes all findable",
    ),
    "source": Text("出处：{session_id}，{turns}", "from {session_id}, {turns}"),
    "turns_range": Text("第 {first}–{last} 轮", "turns {first}–{last}"),
    "turns_one": Text("第 {first} 轮", "turn {first}"),
    "turns_unknown": Text("轮次未知", "turns unknown"),
    "reason": Text("原因：{reason}", "why: {reason}"),
    # --- the prompt
    "prompt_head": Text(
        "第 {turn} 轮将发送的提示词（{encoding}）", "What turn {turn} would send ({encoding})"
    ),
    "zone_head": Text("头部", "head"),
    "zone_middle": Text("中部", "middle"),
    "zone_total": Text("合计", "total"),
    "tokens_of": Text("{value} / {limit} token", "{value} / {limit} tokens"),
    "see_section": Text(
        "看一段的文字：--section 名称；看全文：--text；看消息：--messages",
        "See a section's text with --section NAME, the whole text with --text, the messages with --messages",
    ),
    # --- settings
    "default_is": Text("默认 {value}", "default {value}"),
    "range_is": Text("可用 {range}", "{range}"),
    "setting_rag_fallback_threshold": Text(
        "连续多少次回复没有进度标记后提醒模型", "replies without a marker before the model is reminded"
    ),
    "setting_summary_last_n_turns": Text("汇总后保留的最后轮数", "last turns that a summary keeps"),
    "setting_max_total_tokens": Text("提示词总长度上限", "most tokens of a prompt"),
    "setting_middle_section_warning_tokens": Text(
        "对话部分超过多少 token 时建议汇总", "tokens of the conversation from which a summary is suggested"
    ),
    "setting_conversation_max_tokens": Text(
        "不加载全部对话时的 token 上限", "most tokens of the conversation unless all of it is loaded"
    ),
    "setting_summary_order": Text("摘要和最后几轮的顺序", "order of summaries and last turns"),
    "setting_conversation_load_all": Text(
        "提示词包含会话的全部对话", "load the whole session into the prompt"
    ),
    "setting_language": Text("界面语言", "language of menus and messages"),
    "setting_durability": Text("fsync：断电也不丢字，但更慢", "fsync survives power loss, but is slower"),
    "setting_auto_summarize": Text("对话太长时自动汇总", "summarize long sessions automatically"),
    "setting_auto_memorize_turns": Text(
        "每隔多少轮自动更新记忆，0 为关闭", "turns between automatic memory updates; 0 for never"
    ),
    "setting_player_name": Text("你的名字，替换 {{user}}", "your name, for {{user}}"),
    "setting_show_markers": Text(
        "显示回复中的 [PROGRESS:…] 标记；文件里始终保留",
        "show [PROGRESS:…] markers in replies; files always keep them",
    ),
    "setting_on_disconnect": Text(
        "关闭页面后是否继续写回复", "whether a reply continues when the page is closed"
    ),
    "saved": Text("已保存，从下一轮起生效", "Saved; it holds from the next turn on"),
    "reset": Text("已恢复默认设置（语言保留不变）", "The defaults are restored; the language is kept"),
    "reset_anew": Text(
        "设置文件无法读取，已用默认设置重建（包括语言）",
        "The settings could not be read; they are made anew with the defaults, the language too",
    ),
    "on": Text("开", "on"),
    "off": Text("关", "off"),
    "director": Text("导演", "director"),
    "recall": Text("回忆", "recall"),
    "player_memory": Text("对玩家的了解", "memory of the player"),
    # --- upkeep
    "summarising": Text("正在汇总 {done}/{total}", "Summarising {done}/{total}"),
    "summary_done": Text(
        "会话 {old} 汇总成 {count} 个情节点，故事在 {new} 里继续（保留最后 {kept} 轮）；撤销：personalab summarize {instance_id} --undo",
        "{old} became {count} points; the story goes on in {new}, with the last {kept} turns. Undo: personalab summarize {instance_id} --undo",
    ),
    "summary_preview": Text(
        "预览：会话 {old} 会变成 {count} 个情节点，在 {new} 里继续（保留最后 {kept} 轮）；什么都没有写入",
        "Preview: {old} would become {count} points and go on in {new}, with the last {kept} turns; nothing was written",
    ),
    "summary_undone": Text(
        "已撤销汇总，当前会话是 {session_id}", "The summary is undone; the current session is {session_id}"
    ),
    # --- memory
    "memory_profile": Text("档案", "Profile"),
    "memory_event": Text("事件", "Events"),
    "memory_mind": Text("心理", "Mind"),
    "memory_row": Text(
        "{agent_id} 对 {user_id}：{entries} 条记忆，{conversations} 段对话，{updated_at}",
        "{agent_id} about {user_id}: {entries} entries, {conversations} conversations, {updated_at}",
    ),
    "no_memories": Text(
        "（还没有记忆；personalab update-memory 故事ID 会让角色记住你）",
        "(no memories yet; personalab update-memory INSTANCE lets a character remember you)",
    ),
    "no_conversations": Text("（没有保存的对话）", "(no saved conversations)"),
    "no_changes": Text("（还没有改动）", "(no changes yet)"),
    "nothing_known": Text(
        "没有找到；换个说法，或用 --conversations 搜索对话",
        "Nothing was found; word it differently, or search what was said with --conversations",
    ),
    "entry_by_hand": Text("{kind} · 手动写的", "{kind} · written by hand"),
    "entry_place": Text("{kind} · 来自对话 {source}", "{kind} · from conversation {source}"),
    "conversation_place": Text(
        "{created_at} · {turn_count} 条消息 · {conversation_id}",
        "{created_at} · {turn_count} messages · {conversation_id}",
    ),
    "conversation_saved": Text(
        "已保存对话 {conversation_id}（{message_count} 条消息）；学习：personalab memory learn {conversation_id}",
        "Saved the conversation {conversation_id} ({message_count} messages). Learn from it: personalab memory learn {conversation_id}",
    ),
    "bad_request_file": Text("无法读取 {file}：{reason}", "{file} cannot be read: {reason}"),
    "learning": Text("正在学习 {done}/{total}", "Learning {done}/{total}"),
    "learned": Text("{agent_id} 的记忆有 {count} 处改动", "{count} changes in what {agent_id} knows"),
    "learned_turns": Text(
        "从 {turns} 轮对话中了解玩家，记忆有 {count} 处改动",
        "Learned about the player from {turns} turns: {count} changes in the memory",
    ),
    "would_learn": Text(
        "还会从 {turns} 轮对话中了解玩家（预览时不进行）",
        "It would also learn about the player from {turns} turns (not done in a preview)",
    ),
    "left_out_turns": Text("更早的 {count} 轮没有用来学习", "{count} older turns were left out of it"),
    "learned_before": Text(
        "这段对话先前已经学过，什么都没有改变",
        "This conversation was learned from before; nothing was changed",
    ),
    "not_taken": Text("没有采用：{what}（{reason}）", "Not taken: {what} ({reason})"),
    "known_before": Text("什么都没有改变：这一条已经有了", "Nothing was changed: that is known already"),
    "origin_memorize": Text("学习", "learned"),
    "origin_edit": Text("手动", "by hand"),
    "origin_undo": Text("撤销", "undone"),
    "say_yes": Text(
        "要彻底忘记 {user_id} 请加上 --yes：这不能撤销",
        "Add --yes to forget {user_id} for good: it cannot be undone",
    ),
    "forget_ask": Text(
        "{agent_id} 将彻底忘记 {user_id}（{count} 条记忆和所有保存的对话），不能撤销。确定吗？(y/N)",
        "{agent_id} will forget {user_id} for good ({count} entries and all saved conversations). Sure? (y/N)",
    ),
    "not_forgotten": Text("什么都没有改变", "Nothing was changed"),
    "forgotten": Text("{agent_id} 已经忘记 {user_id}", "{agent_id} has forgotten {user_id}"),
    "growing": Text("正在更新记忆 {done}/{total}", "Updating the memory {done}/{total}"),
    "grown": Text(
        "角色的成长人格已更新（第 {revision} 版）；撤销：personalab update-memory {instance_id} --undo",
        "The character has grown (revision {revision}). Undo: personalab update-memory {instance_id} --undo",
    ),
    "not_grown": Text(
        "最近的对话没有改变角色的成长人格；什么都没有写入",
        "The last turns changed nothing in the character; nothing was written",
    ),
    "growth_preview": Text(
        "预览：{count} 处改变；什么都没有写入", "Preview: {count} changes; nothing was written"
    ),
    "growth_undone": Text(
        "已撤销，成长人格回到第 {revision} 版", "Undone; the character is back at revision {revision}"
    ),
    "no_growth": Text("（角色还没有成长）", "(the character has not grown yet)"),
    "revision": Text("第 {revision} 版", "Revision {revision}"),
    "edited_revision": Text("手工修改", "edited by hand"),
    "edited_since": Text(
        "第 {revision} 版之后，成长人格被手工修改过",
        "The persona was edited by hand since revision {revision}",
    ),
    "withdrawn_revisions": Text("另有 {count} 次改变已撤回", "{count} more were withdrawn"),
    "turns_aside": Text(
        "汇总之后说过的 {turns} 轮不再属于故事，保存在 {aside}",
        "The {turns} turns said since the summary are no longer in the story; they are kept in {aside}",
    ),
    "reindexing": Text(
        "重建事件库 {done}/{total} {name}", "Rebuilding the event library {done}/{total} {name}"
    ),
    "reindexed": Text(
        "事件库已重建：{summary} 条摘要，{plot} 条情节，{turn} 轮对话；{memory} 条记忆已重新索引",
        "The event library is rebuilt: {summary} summaries, {plot} plots, {turn} turns; {memory} memories are indexed anew",
    ),
    "skipped": Text("跳过：{message}", "Left out: {message}"),
    "checking": Text("检查 {name}", "Checking {name}"),
    "all_well": Text("检查了 {files} 个文件，一切正常", "{files} files checked, all is well"),
    "checked": Text(
        "检查了 {files} 个文件：{problems} 个问题，已修复 {fixed} 个，{left} 个还在",
        "{files} files checked; problems: {problems}, fixed: {fixed}, left: {left}",
    ),
    "can_fix": Text(
        "运行 personalab doctor --fix 可修复其中 {count} 个", "personalab doctor --fix mends {count} of them"
    ),
    "mark_fixed": Text("已修复", "fixed"),
    "mark_problem": Text("问题", "problem"),
    "mark_note": Text("提示", "note"),
    # --- import and export
    "importing": Text("正在导入 {done}/{total} {name}", "Importing {done}/{total} {name}"),
    "import_new": Text("新建", "new"),
    "import_same": Text("没变", "same"),
    "import_replaced": Text("覆盖", "replaced"),
    "import_completed": Text("补全", "completed"),
    "import_joined": Text("接上聊天", "joined"),
    "import_exists": Text("有冲突", "exists"),
    "import_choose": Text(
        "角色 {id}（{name}）已经在库里，与 {file} 不同", "The character {id} ({name}) differs from {file}"
    ),
    "import_choice_skip": Text("保留现有的，不导入", "Keep the one here, skip the file"),
    "import_choice_update": Text("用文件更新现有的角色", "Update the character from the file"),
    "import_choice_copy": Text("另存为新角色", "Import as another character"),
    "import_choose_flag": Text(
        "{count} 张卡与现有的角色冲突，没有导入；要更新请加 --update，要另存为新角色请加 --copy",
        "{count} cards conflict with characters here and were not imported; add --update to update these characters, "
        "or --copy to import the cards as others",
    ),
    "import_given": Text("得到世界书", "book given"),
    "kind_character": Text("角色", "character"),
    "kind_background": Text("背景", "background"),
    "kind_instance": Text("故事", "story"),
    "import_skipped": Text("跳过 {file}：{message}", "Skipped {file}: {message}"),
    "import_counts": Text(
        "导入 {imported} 项，跳过 {skipped} 项", "Imported: {imported}, skipped: {skipped}"
    ),
    "import_nothing": Text("没有找到文件，什么都没有导入", "No files were found; nothing came in"),
    "import_not_indexed": Text(
        "导入的故事还不能被回忆起（{message}）；运行 personalab reindex",
        "What came in cannot be recalled yet ({message}); run personalab reindex",
    ),
    "exported": Text("已写入 {file}（{format}，{size} 字节）", "Wrote {file} ({format}, {size} bytes)"),
    "export_left_out": Text(
        "{format} 里没有：{names}（图片用 card-png 或 charx 导出，世界书用 lorebook 导出）",
        "{format} has no room for: {names} (export pictures as card-png or charx, lorebooks as lorebook)",
    ),
    "one_session": Text(
        "{format} 只装得下一个会话；其余的：{others}（加 --session 分别导出，或用 veloca、markdown 导出全部）",
        "{format} holds one session; the others are: {others} (export each with --session, or all as veloca or markdown)",
    ),
    # --- archives (Veloca)
    "archive_no_sessions": Text(
        "（还没有会话；用 personalab archive new 名称{file} 新建）",
        "(no sessions yet; begin one with personalab archive new NAME{file})",
    ),
    "archive_session": Text(
        "{entries} 条消息 · {tokens} token · {create_at}", "{entries} entries · {tokens} tokens · {create_at}"
    ),
    "archive_no_entries": Text("（没有消息）", "(no entries)"),
    "archive_unread": Text(
        "存档中有 {count} 条记录无法读取，未列出；用 personalab archive verify{file} 查看",
        "{count} records of the archive cannot be read and are not shown: personalab archive verify{file} lists them",
    ),
    "archive_deleted": Text("{text}（已删除）", "{text} (deleted)"),
    "archive_compacted": Text("已压缩", "compacted"),
    "archive_tokens": Text("共 {total} token", "{total} tokens in all"),
    "archive_begun": Text("已新建会话 {record_id}", "Began the session {record_id}"),
    "archive_appended": Text("已追加 {record_id}", "Appended {record_id}"),
    "archive_edited": Text("已修改 {record_id}", "Changed {record_id}"),
    "archive_marked": Text(
        "已删除 {record_id}；恢复：personalab archive undelete {record_id}{file}",
        "Deleted {record_id}. Bring it back: personalab archive undelete {record_id}{file}",
    ),
    "archive_unmarked": Text("已恢复 {record_id}", "Brought back {record_id}"),
    "archive_compacted_done": Text(
        "较早的 {count} 条消息压缩成了以上摘要；撤销：personalab archive undo {session}{file}",
        "The {count} older entries became this summary. Undo: personalab archive undo {session}{file}",
    ),
    "archive_preview": Text(
        "预览：较早的 {count} 条消息会变成以上摘要；什么都没有写入",
        "Preview: the {count} older entries would become this summary; nothing was written",
    ),
    "archive_undone": Text(
        "已撤销压缩，{count} 条消息恢复原样", "The compaction is undone; {count} entries are back"
    ),
    "archive_sound": Text(
        "存档完好：{sessions} 个会话，{entries} 条消息，{compacted_dialogues} 份摘要",
        "The archive is sound: {sessions} sessions, {entries} entries, {compacted_dialogues} summaries",
    ),
    "archive_unsound": Text(
        "存档有问题；可用 personalab archive restore 从备份恢复（现有文件会保留）",
        "The archive is not sound; personalab archive restore goes back to a backup (the present file is kept)",
    ),
    "archive_folded": Text("日志已合并进 {file}", "The journal is folded into {file}"),
    "archive_nothing_to_fold": Text(
        "{file} 已是最新，日志是空的", "{file} is up to date; there is nothing in its journal"
    ),
    "archive_no_backups": Text("（还没有备份）", "(no backups yet)"),
    "archive_backup": Text(
        "{number}. {name} · {modified} · {size} 字节", "{number}. {name} · {modified} · {size} bytes"
    ),
    "archive_backup_broken": Text(
        "{number}. {name} · {modified} · 不能用", "{number}. {name} · {modified} · cannot be used"
    ),
    "archive_restored": Text(
        "已恢复 {path}（备份 {backup}，从日志补回 {replayed} 条记录）",
        "Restored {path} (from {backup}, and {replayed} records from journals)",
    ),
    "archive_went_back": Text("{path} 已回到备份 {backup}", "{path} is what the backup {backup} was"),
    "archive_whole": Text(
        "{path} 是完好的，什么都没有改变；要回到某个备份请用 --backup 指定",
        "{path} is whole, nothing was changed; name a backup with --backup to go back to it",
    ),
    "archive_set_aside": Text("原来的文件保存在 {path}", "What was there is kept in {path}"),
    "archive_lost_lines": Text(
        "日志中有 {count} 行已损坏，无法补回",
        "{count} damaged lines of the journal could not be brought back",
    ),
    "archive_say_yes": Text(
        "要从备份恢复请加上 --yes（现有文件会改名保留）",
        "Add --yes to go back to a backup (the present file is kept under another name)",
    ),
    "archive_ask": Text(
        "{file} 将回到第 {backup} 号备份，此后的改动都不再算数（现有文件会改名保留）。确定吗？(y/N)",
        "{file} will go back to backup {backup}, without what came after it (the present file is kept under another name). Sure? (y/N)",
    ),
    "archive_ask_whole": Text(
        "{file} 若已损坏，将用备份和日志重建（损坏的文件会改名保留）。确定吗？(y/N)",
        "{file}, if it is broken, will be made again from its backups and journals (the broken file is kept under another name). Sure? (y/N)",
    ),
    # --- MCP clients
    "bad_url": Text(
        "“{url}” 不是可用的地址；例如 http://127.0.0.1:8765/mcp，其中不要带密码或密钥",
        "'{url}' is not a usable address; give one like http://127.0.0.1:8765/mcp, without a password or key in it",
    ),
    "claude_no_http": Text(
        "Claude Desktop 的配置文件只接受命令，不接受地址；请去掉 --http",
        "Claude Desktop's file takes a command, not an address; leave --http out",
    ),
    "claude_left_out": Text(
        "没有列出 Claude Desktop：它的配置文件不接受地址；用 personalab mcp-config claude",
        "Claude Desktop is left out: its file takes no address; use personalab mcp-config claude",
    ),
    "paste_claude": Text(
        "把下面的内容放进 {path}（没有就新建；文件里已有 mcpServers 时只加 personalab 这一项），然后退出并重新打开 Claude Desktop",
        "Put this into {path} (make it if it is missing; where it has mcpServers already, add only personalab to them), then quit Claude Desktop and open it again",
    ),
    "or_bundle": Text(
        "不想改文件也可以：运行 make mcpb，再用 Claude Desktop 打开 dist/ 里的 .mcpb 文件",
        "Or edit nothing: run make mcpb and open the .mcpb file in dist/ with Claude Desktop",
    ),
    "paste_vscode": Text(
        "把下面的内容放进你打开的文件夹的 {path}（或运行命令 “MCP: Open User Configuration”，对所有文件夹有效），再点击文件里 personalab 上方的 Start",
        "Put this into {path} of the folder you open (or, for all folders, where the command 'MCP: Open User Configuration' leads), then click Start above personalab in it",
    ),
    "paste_cursor": Text(
        "把下面的内容放进 {path}（只给一个项目用，则放进该项目的 .cursor/mcp.json），然后重新打开 Cursor",
        "Put this into {path} (for one project only, into its .cursor/mcp.json), then open Cursor again",
    ),
    "key_not_printed": Text(
        "你的 OPENAI_API_KEY 不会显示在这里；把它写进 {place}，或自己加到上面的 env 里",
        "Your OPENAI_API_KEY is not printed; put it into {place}, or add it to env above yourself",
    ),
    "key_into_env": Text(
        "你的 OPENAI_API_KEY 不会显示在这里；请自己加到上面的 env 里",
        "Your OPENAI_API_KEY is not printed; add it to env above yourself",
    ),
    "token_not_printed": Text(
        "令牌不会显示在这里：VS Code 会询问，Cursor 从环境变量 PERSONALAB_TOKEN 读取",
        "The token is not printed: VS Code asks for it, Cursor reads it from the variable PERSONALAB_TOKEN",
    ),
    # --- choosing a story
    "pick_language": Text("语言 / Language", "Language / 语言"),
    "language_name": Text("中文", "English"),
    "other_language": Text("English (switch the language)", "中文（切换语言）"),
    "welcome": Text("欢迎来到 PersonaLab。", "Welcome to PersonaLab."),
    "pick_instance": Text("继续哪个故事？", "Which story do you go on with?"),
    "new_story": Text("开始新的故事", "begin a new story"),
    "pick_character": Text("和谁开始一个故事？", "With whom do you begin a story?"),
    "pick_background": Text("在哪个背景里？", "In which background?"),
    "lore_constant": Text("总是加入", "always in"),
    "lore_decorator": Text("由作者的标记加入", "in by its author's mark"),
    "lore_key": Text("关键词“{key}”（{ago} 条消息之前）", "key “{key}” ({ago} messages ago)"),
    "lore_pattern": Text("关键词“{key}”", "key “{key}”"),
    "lore_key_now": Text("关键词“{key}”（最新的一条消息）", "key “{key}” (in the newest message)"),
    "lore_kept": Text("以前出现过关键词“{key}”", "key “{key}” occurred before"),
    "lore_recursion": Text("被条目“{caller}”的“{key}”引出", "called up by “{key}” in “{caller}”"),
    "lore_left_out": Text("；没有加入：{reason}", "; left out: {reason}"),
    "lore_budget": Text("超出 max_tokens", "over max_tokens"),
    "lore_book_budget": Text("超出这本书的 token_budget", "over the book's token_budget"),
    "lore_group": Text("同组的另一条已经加入", "another entry of its group is in"),
    "lore_duplicate": Text("内容与另一条相同", "another entry says the same"),
    "lore_empty": Text("没有内容", "it has no text"),
    "lore_pattern_wrong": Text("正则表达式有误", "its pattern is wrong"),
    "lore_pattern_slow": Text("正则表达式太慢", "its pattern is too slow"),
    "lore_search": Text("查找关键词", "the search for its keys"),
    "lore_search_slow": Text("太慢，这本书没有查完", "too slow, not all of the book was searched"),
    "lorebooks": Text("世界书：", "Lorebooks:"),
    "pick_greeting": Text("用哪个开场白？", "Which greeting opens it?"),
    "without_greeting": Text("不用开场白", "no greeting"),
    "without_background": Text("不用背景", "no background"),
    "choice": Text("输入数字（回车 = {default}）：", "A number (Enter = {default}): "),
    "bad_choice": Text("请输入 1 到 {count} 之间的数字", "Type a number from 1 to {count}"),
    "auto_made": Text(
        "开始新故事 {instance_id}（{character}，{background}）",
        "Began {instance_id} ({character}, {background})",
    ),
    # --- the chat
    "model": Text("模型：{model}", "Model: {model}"),
    "rehearsal": Text(
        "模型：rehearsal。这是内置的替身，只会按规则应答，不是真正的模型\n"
        "设置 OPENAI_API_KEY，或 PERSONALAB_MODEL=openai:模型名，就会由真正的模型来回复",
        "Model: rehearsal. This is a built-in stand-in that answers by rule, not a real model\n"
        "Set OPENAI_API_KEY, or PERSONALAB_MODEL=openai:NAME, and a real one answers",
    ),
    "point": Text(
        "大纲 {index}/{count}：{content}（{status}）", "Outline {index}/{count}: {content} ({status})"
    ),
    "completed": Text("已完成", "completed"),
    "in_progress": Text("进行中", "in progress"),
    "pending": Text("未开始", "not begun"),
    "no_outline": Text("这个故事没有大纲", "This story has no outline"),
    "hint": Text("/help 查看命令，Ctrl-D 离开", "/help lists the commands, Ctrl-D leaves"),
    "prefer_english": Text("Prefer English? Type: /settings language en", ""),
    "thinking": Text("{name} 正在回复…", "{name} is answering…"),
    "reasoning_now": Text("正在思考…（{count} 字）", "Thinking… ({count} characters)"),
    "reasoning_folded": Text(
        "💭 思考过程 {count} 字，输入 /reasoning 查看",
        "💭 Reasoning, {count} characters; type /reasoning to see it",
    ),
    "no_reasoning": Text("上一条回复没有思考过程", "The last reply has no reasoning"),
    "queued": Text("已排队：{text}", "queued: {text}"),
    "unanswered": Text(
        "第 {turn} 轮还没有完整的回复；输入 /retry 再试一次，或直接继续",
        "Turn {turn} has no whole reply; type /retry to try again, or just go on",
    ),
    "ctrl_c": Text("按 Ctrl-D 或输入 /quit 离开", "Ctrl-D or /quit leaves"),
    "nothing_to_stop": Text("没有正在进行的回复", "Nothing is being answered"),
    "wait_first": Text("回复正在进行，先 /stop 或等它结束", "A reply is being written; /stop it or wait"),
    "unknown_command": Text(
        "没有命令 {name}；/help 查看命令", "There is no command {name}; /help lists them"
    ),
    "settings_usage": Text("用法：/settings [名称 值]", "Use: /settings [name value]"),
    "bye": Text(
        "再见。接着聊：personalab chat {instance_id}", "Goodbye. Go on with: personalab chat {instance_id}"
    ),
    "help": Text(
        "/stop      停止正在进行的回复（Ctrl-C 也可以，已输入的文字会保留）\n"
        "/retry     上一轮失败或中断时重新回答\n"
        "/prompt    下一轮会发送什么\n"
        "/reasoning 查看上一条回复的思考过程\n"
        "/outline   故事大纲和进度\n"
        "/settings  查看设置；/settings 名称 值 修改\n"
        "/quit      离开（Ctrl-D 也可以）\n"
        "Alt-Enter  换行；↑ 找回以前的输入；回复时输入的话会排队",
        "/stop      stop the reply that is being written (or Ctrl-C, which keeps what you are typing)\n"
        "/retry     answer the last turn again if it failed or was interrupted\n"
        "/prompt    what the next turn would send\n"
        "/reasoning show the last reply's reasoning\n"
        "/outline   the story's outline and where it stands\n"
        "/settings  show the settings; /settings NAME VALUE changes one\n"
        "/quit      leave (or Ctrl-D)\n"
        "Alt-Enter  begin a new line; ↑ finds what you typed before; what you type during a reply waits",
    ),
}
