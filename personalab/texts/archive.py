"""What is said about archives, cards, lorebooks and chats that come in and go out?"""

from __future__ import annotations

from personalab.texts.forms import Text

ARCHIVE: dict[str, Text] = {
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
    "file_refused": Text("{file} 无法导入：{reason}", "{file} cannot be imported: {reason}"),
    "too_large": Text("有 {actual} 字节，上限是 {limit}", "it has {actual} bytes, the limit is {limit}"),
    "too_deep": Text("JSON 嵌套超过 {limit} 层", "its JSON is nested more than {limit} levels deep"),
    "not_utf8": Text("不是 UTF-8 文本（第 {place} 字节）", "it is not UTF-8 text (byte {place})"),
    "not_json": Text("不是 JSON：{reason}", "it is not JSON: {reason}"),
    "field_wrong": Text("字段 {field} 不对：{reason}", "the field {field} is wrong: {reason}"),
}
