"""What is said about skills, baselines, projects and their scores?"""

from __future__ import annotations

from personalab.texts.forms import Text

LAB: dict[str, Text] = {
    # --- any file of the workspace
    "lab_bad_record": Text(
        "{file} 的字段 {field} 不对：{reason}；请修正该文件",
        "{file}: the field {field} is wrong: {reason}; mend the file",
    ),
    "lab_not_strict": Text(
        "{file} 没有写入：字段 {field} 不符合格式（{reason}）",
        "{file} was not written: its field {field} is not of the format ({reason})",
    ),
}
