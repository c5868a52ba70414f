"""Texts about imported and exported archives, cards, lorebooks and chats."""

from __future__ import annotations

from personalab.texts.forms import Text

ARCHIVE: dict[str, Text] = {
    "player": Text("玩家", "User"),
    "no_greeting": Text(
        "角色 {character_id} 没有第 {number} 个开场白：共有 {count} 个，0 表示不用开场白",
        "The character {character_id} has no greeting {number}: it has {count}; 0 is for none",
    ),
    # --- what a turn is warned of
    "warning.lorebook_switch": Text(
        "{file} 无法读取：{reason}；世界书关闭", "{file} cannot be read: {reason}; lorebooks are off"
    ),
    "warning.lorebook_switch.suggestion": Text(
        "修正该文件，或删除它以使用默认值", "mend the file, or delete it to use the default"
    ),
    "warning.lorebook_unreadable": Text(
        "世界书 {file} 无法读取：{reason}；本轮不用它",
        "The lorebook {file} cannot be read: {reason}; this turn does without it",
    ),
    "warning.lorebook_unreadable.suggestion": Text(
        "修正该文件，或重新导入", "Mend the file, or import it again"
    ),
    # --- any file that comes in
    "too_large": Text("有 {actual} 字节，上限是 {limit}", "it has {actual} bytes, the limit is {limit}"),
    "too_many_parts": Text(
        "JSON 里有 {actual} 个零碎的部分，太多了", "its JSON has {actual} tiny parts, far too many"
    ),
    "too_deep": Text("JSON 嵌套超过 {limit} 层", "its JSON is nested more than {limit} levels deep"),
    "not_utf8": Text("不是 UTF-8 文本（第 {place} 字节）", "it is not UTF-8 text (byte {place})"),
    "not_json": Text("不是 JSON：{reason}", "it is not JSON: {reason}"),
    "field_wrong": Text("字段 {field} 不对：{reason}", "the field {field} is wrong: {reason}"),
    # --- what comes in and goes out
    "file_empty": Text("文件是空的", "the file is empty"),
    "format_unknown": Text(
        "不是能导入的文件：{reason}。可以导入角色卡（PNG、JSON、CHARX）、世界书（JSON）、SillyTavern 聊天（JSONL）和 Veloca 文件（JSON）",
        "it is nothing that can be imported: {reason}. What can be: character cards (PNG, JSON, CHARX), lorebooks (JSON), SillyTavern chats (JSONL) and Veloca files (JSON)",
    ),
    "file_unreadable": Text("无法打开：{reason}", "it cannot be opened: {reason}"),
    "link_outside": Text(
        "这个链接指向文件夹之外，没有跟随；要导入它请直接写出它的路径",
        "this link leads out of the folder and is not followed; name its target itself to import it",
    ),
    "too_many_files": Text(
        "一次最多导入 {limit} 个文件；请分几次导入",
        "At most {limit} files come in at once; import them in parts",
    ),
    "id_for_many": Text(
        "一个 ID 只能给一样东西，这里有 {count} 样；请去掉 ID，或一次只导入一个文件",
        "One id names one thing, and there are {count}; leave the id out, or import one file alone",
    ),
    "id_taken": Text(
        "{entry_id} 已经存在；请换一个 ID，或选择覆盖（--overwrite）",
        "{entry_id} exists already; choose another id, or ask for it to be replaced (--overwrite)",
    ),
    "book_taken": Text(
        "{entry_id} 已经有另一本世界书；要换掉它请选择覆盖（--overwrite）",
        "{entry_id} has another lorebook already; ask for it to be replaced (--overwrite)",
    ),
    "no_library_entry": Text(
        "没有 {entry_id}（找过 {kinds}）；用 {do:list_library} 查看有哪些",
        "There is no {entry_id} among {kinds}; see {do:list_library} for what there is",
    ),
    "entry_ambiguous": Text(
        "{entry_id} 不止一个，请写明是哪一个：{choices}",
        "{entry_id} is more than one thing; say which: {choices}",
    ),
    "character_needed": Text(
        "这个 Veloca 文件没有说明对话是和谁进行的；请用 --character（character_id）指定一个角色",
        "This Veloca file does not say with whom the conversations were; name a character with --character (character_id)",
    ),
    "nothing_in_archive": Text(
        "这个 Veloca 文件里没有可以导入的会话", "This Veloca file has no session that could come in"
    ),
    "format_not_for": Text(
        "{entry_id} 不能导出为 {format}；可用：{known}",
        "{entry_id} cannot be exported as {format}; there are: {known}",
    ),
    "option_not_for": Text(
        "{option} 不适用于 {format}，只适用于：{known}",
        "{option} does not go with {format}, only with: {known}",
    ),
    "charx_is_v3": Text(
        "CHARX 只有 V3 版本，不能是 {version}", "A CHARX file holds a V3 card, never {version}"
    ),
    "no_lorebook": Text("{entry_id} 没有世界书", "{entry_id} has no lorebook"),
    "export_exists": Text(
        "{file} 已经存在，没有覆盖；请换一个名字，或加上 --overwrite",
        "{file} exists already and was left alone; choose another name, or add --overwrite",
    ),
    "export_not_plain": Text(
        "{file} 不是普通文件，没有改动它；请换一个名字，要写到标准输出请用 --out -",
        "{file} is no plain file and was left alone; choose another name, or --out - for standard output",
    ),
    "export_unwritable": Text(
        "无法写入 {file}：{reason}；请换一个位置（--out）",
        "{file} cannot be written: {reason}; choose another place (--out)",
    ),
    "import.book_given": Text("得到了世界书 “{book}”", "has the lorebook '{book}' now"),
    "import.book_exchanged": Text(
        "世界书换成了 “{book}”", "has the lorebook '{book}' now, in place of another one"
    ),
    "import.picture_kept": Text(
        "已有的图片或 CHARX 与文件里的不同，保留了已有的；要换掉它请加 --overwrite",
        "the picture or CHARX here is another one and was kept; add --overwrite to replace it",
    ),
    "import.several_speak": Text(
        "有好几个人说话：{names} 的话前面加上了名字，都算作 {name} 的回复",
        "several speak in it: the words of {names} have their names before them and count as replies of {name}",
    ),
    "import.character_made": Text(
        "新建了角色 {character_id}（{name}）：还没有人设，请补上",
        "made the character {character_id} ({name}), who has no persona yet: write one",
    ),
    "import.character_brought": Text(
        "角色 {character_id} 一起导入了", "brought the character {character_id} along"
    ),
    "import.background_brought": Text(
        "背景 {background_id} 一起导入了", "brought the background {background_id} along"
    ),
    "import.character_kept": Text(
        "已有的角色 {character_id} 与文件里的不同，保留了已有的；故事仍按文件里的人格继续",
        "the character {character_id} here differs from the file's and was kept; the story goes on with the persona in the file",
    ),
    "import.background_kept": Text(
        "已有的背景 {background_id} 与文件里的不同，保留了已有的",
        "the background {background_id} here differs from the file's and was kept",
    ),
    "import.id_changed": Text("原来的 ID 是 {instance_id}", "it was {instance_id} where it comes from"),
    "import.chats_joined": Text(
        "之前导入的 {count} 个聊天现在用这张角色卡的人设",
        "chats that were imported before it and now have its persona: {count}",
    ),
    "import.chat_not_joined": Text(
        "故事 {instance_id} 还没有换上这张角色卡的人设：{reason}；稍后再导入一次这张卡即可",
        "the story {instance_id} does not have its persona yet: {reason}; import the card again later",
    ),
    "import.chats_ambiguous": Text(
        "有好几个角色叫 “{name}”（{ids}），没有把之前的聊天接到这张卡上；要接上，请用其中一个 ID 导入并覆盖它",
        "several characters are called '{name}' ({ids}), so no earlier chats were joined to this card; to join them, "
        "import it under one of these ids and overwrite that character",
    ),
    "import.card_conflict": Text(
        "这张卡带着角色 {character_id} 的 ID，内容与现有的不同；什么都没有改变。可以更新现有角色（update）、另存为新角色（copy）或跳过（skip）",
        "it carries the id of the character {character_id}, who differs from it; nothing was changed. Choose update to "
        "replace that character, copy to add another one, or skip",
    ),
    "import.card_left_out": Text(
        "与现有的角色 {character_id} 不同，按你的选择没有导入",
        "it differs from the character {character_id} and was skipped, as you chose",
    ),
    "import.world_linked": Text(
        "卡里指定的世界书 “{world}” 已接上（来自背景 {background_id}）",
        "linked the lorebook '{world}' that it names (from the background {background_id})",
    ),
    "import.world_missing": Text(
        "卡里指定了世界书 “{world}”，库里没有；导入同名的世界书会自动接上，也可以把任何世界书给 {character_id}",
        "it names the lorebook '{world}', which is not in the library: import the book of that name and it is linked, "
        "or import any book into {character_id}",
    ),
    "import.world_ambiguous": Text(
        "卡里指定了世界书 “{world}”，库里有好几本（{ids}）；请把要用的那本导入给 {character_id}",
        "it names the lorebook '{world}', and there are several ({ids}): import the one you want into {character_id}",
    ),
    "import.world_given": Text(
        "已接到指定这本世界书的角色：{ids}", "linked to the characters whose cards name it: {ids}"
    ),
    # --- cards, and the pictures and archives that carry them
    "not_a_card": Text(
        "不是角色卡：没有角色卡的字段（description、first_mes 等）",
        "it is not a character card: it has none of a card's fields (description, first_mes, …)",
    ),
    "card_blank": Text(
        "不是角色卡：{fields} 都是空的，只有名字；如果是别的程序的角色，请在那里导出为 V2 角色卡",
        "it is not a character card: {fields} are all blank, there is but a name; a character of another program is to be exported there as a V2 card",
    ),
    "book_blank": Text(
        "世界书的 {count} 个条目都没有 {field}，永远不会出现；能读取的是角色卡的 character_book、V3 世界书和 SillyTavern World Info",
        "none of the lorebook's {count} entries has {field}, so none would ever come up; what is read: the character_book of a card, V3 lorebooks and SillyTavern World Info",
    ),
    "chat_nameless": Text(
        "这个聊天没有说明是和谁进行的；请用 --character（character_id）指定一个角色",
        "the chat does not say with whom it was; name a character with --character (character_id)",
    ),
    "not_png": Text("不是 PNG 图片", "it is not a PNG picture"),
    "png_without_card": Text(
        "这张 PNG 图片里没有角色卡；请用发布者提供的原图，截图或转存的图片不含角色卡",
        "this PNG holds no character card; use the picture as its author published it, not a screenshot or a copy",
    ),
    "png_cut_off": Text(
        "PNG 不完整：在第 {place} 字节处结束，没有数据块 {chunk}；请重新下载",
        "the PNG is cut off: it ends at byte {place} without the chunk {chunk}; download it again",
    ),
    "png_broken": Text(
        "PNG 已损坏：第 {place} 字节处不是数据块", "the PNG is broken: there is no chunk at byte {place}"
    ),
    "png_chunk_too_long": Text(
        "PNG 不完整：第 {place} 字节处的数据块 {chunk} 声称有 {claimed} 字节，文件只剩 {left} 字节；请重新下载",
        "the PNG is cut off: the chunk {chunk} at byte {place} claims {claimed} bytes, the file has {left} left; download it again",
    ),
    "png_too_many_chunks": Text("PNG 的数据块超过 {limit} 个", "the PNG has more than {limit} chunks"),
    "png_text_too_long": Text(
        "PNG 的文本块 {chunk} 有 {actual} 字节，上限是 {limit}",
        "the PNG's text chunk {chunk} has {actual} bytes, the limit is {limit}",
    ),
    "png_chunk_wrong": Text(
        "PNG 的文本块 {chunk} 不对：{reason}", "the PNG's text chunk {chunk} is wrong: {reason}"
    ),
    "zip_broken": Text("zip 已损坏：{reason}；请重新下载", "the zip is broken: {reason}; download it again"),
    "zip_too_many": Text("zip 的成员超过 {limit} 个", "the zip has more than {limit} members"),
    "zip_member": Text(
        "zip 的成员 “{member}” 不对：{reason}", "the zip's member '{member}' is wrong: {reason}"
    ),
    "zip_bomb": Text(
        "zip 解压后有 {actual} 字节，上限是 {limit}",
        "the zip unpacks to {actual} bytes, the limit is {limit}",
    ),
    "charx_without_card": Text(
        "这个 CHARX 压缩包的根目录里没有 card.json", "this CHARX archive has no card.json at its root"
    ),
    # --- how a card's fields are named in a persona
    "card.personality": Text("性格：{text}", "Personality: {text}"),
    "card.scenario": Text("场景：{text}", "Scenario: {text}"),
    "card.examples": Text("对话示例：\n{text}", "Example dialogue:\n{text}"),
    # --- chats of SillyTavern
    "chat_empty": Text("这个聊天文件里没有消息", "the chat has no messages"),
    "chat_too_large": Text("聊天超过 {limit} 字节的上限", "the chat has more than {limit} bytes"),
    "chat_too_many_lines": Text("聊天超过 {limit} 行的上限", "the chat has more than {limit} lines"),
    "chat_line_too_large": Text(
        "第 {line} 行太长，上限是 {limit} 字节", "line {line} is too long: at most {limit} bytes"
    ),
    "chat_line_too_deep": Text(
        "第 {line} 行的 JSON 嵌套超过 {limit} 层",
        "the JSON of line {line} is nested more than {limit} levels deep",
    ),
    "chat_too_many_parts": Text(
        "到第 {line} 行为止，聊天的 JSON 里有 {actual} 个零碎的部分，太多了",
        "up to line {line} the JSON of the chat has {actual} tiny parts, far too many",
    ),
    "chat_line_not_utf8": Text(
        "第 {line} 行不是 UTF-8 文本（第 {place} 字节）", "line {line} is not UTF-8 text (byte {place})"
    ),
    "chat_line_not_json": Text("第 {line} 行不是 JSON：{reason}", "line {line} is not JSON: {reason}"),
    "chat_line_no_object": Text("第 {line} 行不是 JSON 对象", "line {line} is not a JSON object"),
    "chat_field_wrong": Text(
        "第 {line} 行的字段 {field} 不对：{reason}", "the field {field} of line {line} is wrong: {reason}"
    ),
    # --- a transcript's own words
    "transcript.session": Text("会话 {session_id}", "Session {session_id}"),
    "transcript.opening": Text("开场", "Opening"),
    "transcript.turn": Text("第 {turn} 轮", "Turn {turn}"),
    "transcript.summary": Text("前情提要", "What happened before"),
    "transcript.interrupted": Text("（已中断）", "(interrupted)"),
    "transcript.truncated": Text("（达到长度上限，可能没有说完）", "(cut off at the length limit)"),
    "transcript.reasoning": Text("思考过程", "Reasoning"),
    "transcript.error": Text("（因出错而中断）", "(cut off by an error)"),
    "transcript.empty": Text("（没有回复）", "(no reply)"),
    # --- a Veloca archive
    "archive_broken": Text(
        "存档 {file} 无法读取：{reason}；它没有被改动。最新的完好备份是 {backup}，请运行 {do:archive_restore} --file {file}",
        "The archive {file} cannot be read: {reason}; it was left as it is. The newest good backup is {backup}: run {do:archive_restore} --file {file}",
    ),
    "archive_broken_alone": Text(
        "存档 {file} 无法读取：{reason}；它没有被改动，旁边也没有完好的备份。请换上你自己保存的副本，或换一个文件名",
        "The archive {file} cannot be read: {reason}; it was left as it is, and there is no good backup beside it. Put a copy of your own in its place, or use another file",
    ),
    "archive_gone": Text(
        "存档 {file} 不见了，但它的备份还在；请运行 {do:archive_restore} --file {file}，若要从头开始，请移走它的 .journal 和 .bak 文件",
        "The archive {file} is gone, but its backups are there: run {do:archive_restore} --file {file}, or move its .journal and .bak files away to begin anew",
    ),
    "archive_journal_broken": Text(
        "日志 {file} 第 {line} 行被改动或损坏；什么都没有改变，请运行 {do:archive_restore} --file {archive}",
        "Line {line} of the journal {file} was changed or damaged; nothing was done. Run {do:archive_restore} --file {archive}",
    ),
    "archive_line_damaged": Text(
        "日志 {file} 第 {line} 行被改动或损坏", "line {line} of the journal {file} was changed or damaged"
    ),
    "archive_unreadable": Text(
        "无法读取 {file}：{reason}；请检查它和所在目录的权限",
        "{file} cannot be read: {reason}; check its permissions and those of its folder",
    ),
    "archive_input_error": Text("无法读取：{reason}", "it cannot be read: {reason}"),
    "archive_no_regular_file": Text("它不是普通文件", "it is no regular file"),
    "archive_other_json": Text(
        "它不是 Veloca 存档：没有 sessions、entries、compacted_dialogues 中的任何一个",
        "it is no Veloca archive: it has none of sessions, entries, compacted_dialogues",
    ),
    "archive_no_folder": Text(
        "无法打开存档 {file}：没有目录 {folder}，请先建立它",
        "The archive {file} cannot be opened: there is no folder {folder}; make it first",
    ),
    "archive_not_a_file": Text(
        "{file} 不是普通文件，不能用作存档；请给出一个 JSON 文件的路径",
        "{file} is no regular file and cannot be an archive; give the path of a JSON file",
    ),
    "archive_full": Text(
        "存档 {file} 超过了 {limit} 字节的上限；请另用一个文件开始新的存档",
        "The archive {file} is beyond its limit of {limit} bytes; begin a new one in another file",
    ),
    "archive_closed": Text(
        "存档 {file} 已经关闭；请重新打开它", "The archive {file} has been closed; open it again"
    ),
    "archive_no_record": Text(
        "存档里没有 {what} {record_id}；用 {do:archive} 查看有哪些",
        "The archive has no {what} {record_id}; see {do:archive} for what there is",
    ),
    "archive_id_taken": Text(
        "ID {record_id} 已经有一条记录在用；请换一个，或不给出 ID",
        "The id {record_id} is another record's already; give another one, or none",
    ),
    "archive_session_deleted": Text(
        "会话 {session_id} 已删除；要继续用它，请先恢复：{do:archive_undelete} {session_id}",
        "The session {session_id} is deleted; bring it back to use it again: {do:archive_undelete} {session_id}",
    ),
    "archive_fixed_field": Text(
        "{field} 不能这样修改；请新建一条记录，压缩用 undo 撤销",
        "{field} cannot be changed like this; create another record, or undo the compaction",
    ),
    "archive_nothing_to_compact": Text(
        "会话 {session_id} 里没有可以压缩的消息：触发消息之前没有未压缩的消息，或只剩最近几条；先聊几句再试",
        "The session {session_id} has nothing to compact: no message before the trigger is uncompacted, or only the last few are left. Go on with it first",
    ),
    "archive_trigger_other": Text(
        "触发消息 {entry_id} 不属于会话 {session_id}；请选这个会话里的消息",
        "The trigger entry {entry_id} is not of the session {session_id}; choose one of its entries",
    ),
    "archive_trigger_deleted": Text(
        "触发消息 {entry_id} 已不使用；请选一条还在用的消息",
        "The trigger entry {entry_id} is not in use any more; choose one that is",
    ),
    "archive_trigger_early": Text(
        "触发消息 {entry_id} 在已有压缩的触发消息 {latest} 之前；请选更晚的消息，或先撤销那次压缩",
        "The trigger entry {entry_id} comes before {latest}, up to which all is compacted; choose a later one, or undo that compaction first",
    ),
    "archive_already_undone": Text(
        "压缩 {dialogue_id} 已经撤销过了，没有什么可以撤销",
        "The compaction {dialogue_id} was undone already: there is nothing to undo",
    ),
    "archive_changed": Text(
        "会话 {session_id} 在汇总期间被改动了；什么都没有写入，请再试一次",
        "The session {session_id} was changed while it was summed up; nothing was written, try again",
    ),
    "archive_no_backup": Text(
        "存档 {file} 旁边没有完好的备份，无法恢复；请换上你自己保存的副本",
        "There is no good backup beside {file} to restore it from; put a copy of your own in its place",
    ),
    "archive_backup_missing": Text(
        "没有第 {number} 号备份；用 {do:archive_backups} 查看有哪些",
        "There is no backup {number}; see {do:archive_backups} for those there are",
    ),
    "archive_backup_broken": Text(
        "备份 {file} 无法使用：{reason}；请选另一个，或不指定",
        "The backup {file} cannot be used: {reason}; choose another one, or none",
    ),
    # --- what is done with an archive, and the folder that clients exchange files through
    "no_archive": Text(
        "数据目录里没有存档 {file}；请给出已有存档的名称，或先在其中开始一个会话（{do:archive_new}）",
        "The data root has no archive {file}; give the name of one that is there, or begin a session first ({do:archive_new})",
    ),
    "no_archive_file": Text(
        "没有存档 {file}；用 {do:archive_new} 名称 --file {file} 新建",
        "There is no archive {file}; begin one with {do:archive_new} NAME --file {file}",
    ),
    "bad_archive_name": Text(
        "“{value}” 不能用作存档名：应为数据目录 archive 文件夹里的文件名，由字母、数字、_ 和 - 组成，以 .json 结尾",
        "'{value}' cannot name an archive: give the name of a file in the data root's folder archive, made of letters, digits, _ and -, ending in .json",
    ),
    "no_archive_session": Text(
        "存档 {file} 里没有会话 {session_id}（ID 至少写前 8 位）；有：{known}",
        "The archive {file} has no session {session_id} (give at least 8 characters of its id); there are: {known}",
    ),
    "no_archive_entry": Text(
        "存档 {file} 里没有 {entry_id}（ID 至少写前 8 位）；用 {do:archive_entries} 会话 查看",
        "The archive {file} has no {entry_id} (give at least 8 characters of its id); see {do:archive_entries} SESSION",
    ),
    "archive_ambiguous": Text(
        "有 {count} 个 ID 以 “{value}” 开头；请多写几位", "{count} ids begin with '{value}'; give more of it"
    ),
    "archive_undone_stays": Text(
        "摘要 {dialogue_id} 的压缩撤销后不能恢复；请重新压缩：{do:archive_compact}",
        "The compaction {dialogue_id} was undone and stays so; compact again: {do:archive_compact}",
    ),
    "archive_nothing_to_undo": Text(
        "会话 {session_id} 没有可以撤销的压缩", "The session {session_id} has no compaction to undo"
    ),
    "bad_file_name": Text(
        "“{value}” 不是可用的文件名：只写数据目录 {folder} 文件夹里的文件名，不要带路径",
        "'{value}' is not a usable file name: give the plain name of a file in the data root's folder {folder}, without a path",
    ),
    "no_exchange_file": Text(
        "数据目录的 {folder} 文件夹里没有文件 {name}；有：{known}",
        "The data root's folder {folder} has no file {name}; there are: {known}",
    ),
    # --- stories as Veloca files
    "instance_too_large": Text(
        "实例 {instance_id} 的文件共有 {actual} 字节，上限是 {limit}；请分会话导出",
        "The files of instance {instance_id} have {actual} bytes, the limit is {limit}; export its sessions one by one",
    ),
}
