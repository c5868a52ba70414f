"""The findings of the doctor, with the message and the remedy of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from personalab.texts import Language, Text, render

Level = Literal["problem", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be; a note needs no action."""

    code: str
    file: str
    line: int | None = None
    params: dict[str, Any] = field(default_factory=dict[str, Any])
    fixable: bool = False
    fixed: bool = False
    level: Level = "problem"

    def message(self, language: Language) -> str:
        """Return what is wrong."""
        return render(MESSAGES[self.code], language, **self.params)

    def remedy(self, language: Language) -> str:
        """Return what to do."""
        if self.fixable:
            return getattr(_FIX, language)
        text = REMEDIES.get(self.code)
        if text is None:
            return ""
        return render(text, language, file=self.file, **self.params)

    def as_json(self, language: Language) -> dict[str, Any]:
        """Return the form that leaves the process, with the message in both languages."""
        return {
            "code": self.code,
            "level": self.level,
            "file": self.file,
            "line": self.line,
            "message": self.message(language),
            "messages": {"zh": self.message("zh"), "en": self.message("en")},
            "remedy": "" if self.fixed else self.remedy(language),
            "fixable": self.fixable,
            "fixed": self.fixed,
        }


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """Everything that was found."""

    findings: list[Finding]
    files: int
    """How many files were looked at."""

    @property
    def healthy(self) -> bool:
        """Whether no problem is left."""
        return all(finding.fixed or finding.level == "note" for finding in self.findings)

    def as_json(self, language: Language) -> dict[str, Any]:
        """Return the form that leaves the process."""
        findings = [finding.as_json(language) for finding in self.findings]
        return {"healthy": self.healthy, "files": self.files, "findings": findings}


_FIX = Text("运行 personalab doctor --fix", "run personalab doctor --fix")

MESSAGES: dict[str, Text] = {
    "missing": Text("缺少这个文件", "the file is missing"),
    "broken": Text("无法读取：{reason}", "cannot be read: {reason}"),
    "config_broken": Text("无法读取：{reason}", "cannot be read: {reason}"),
    "not_a_file": Text("不是普通文件", "is not a regular file"),
    "not_a_folder": Text("不是可读的文件夹：{reason}", "is not a folder that can be read: {reason}"),
    "config_value": Text(
        "这些设置不可用，正使用默认值：{fields}",
        "these settings cannot be used, their defaults hold: {fields}",
    ),
    "id_mismatch": Text("{field} 是 {value}，应为 {expected}", "{field} is {value}, it should be {expected}"),
    "bad_name": Text(
        "名称不能用作 ID，程序不会读取它", "the name cannot be an id, so the program ignores it"
    ),
    "leftover": Text("未完成的写入留下的临时文件", "left behind by a write that was never finished"),
    "stop_leftover": Text("遗留的停止请求", "a request to stop that nobody waits for"),
    "line_broken": Text("这一行无法读取：{reason}", "the line cannot be read: {reason}"),
    "torn_line": Text("最后一行没有写完", "the last line was never finished"),
    "no_metadata": Text("缺少 metadata 行", "the metadata line is missing"),
    "metadata_late": Text("metadata 行不在第一行", "the metadata line is not the first"),
    "root_readable": Text(
        "其他用户可以读取数据目录；如不希望如此，用 chmod 700 收紧权限",
        "other users can read the data root; run chmod 700 on it if they should not",
    ),
    "session_loop": Text(
        "continued_from 指向 {session_id}，会话首尾相接，程序忽略这个链接",
        "continued_from names {session_id}, which makes the sessions a loop; the link is ignored",
    ),
    "turn_order": Text("第 {turn} 轮出现在第 {previous} 轮之后", "turn {turn} comes after turn {previous}"),
    "turn_gap": Text("轮次从 {previous} 跳到 {turn}", "the turns jump from {previous} to {turn}"),
    "session_missing": Text(
        "当前会话 {session_id} 的文件不存在", "the current session {session_id} has no file"
    ),
    "background_missing": Text(
        "背景 {background_id} 不存在", "the background {background_id} does not exist"
    ),
    "busy": Text("故事正在被写入，无法修复", "the story is being written, so it was not repaired"),
    "not_repaired": Text("修复失败：{reason}", "the repair failed: {reason}"),
    "index_other_embedder": Text(
        "事件库由另一个嵌入模型（{embedder}）生成",
        "the event library was made by another embedder ({embedder})",
    ),
    "index_unreadable": Text("事件库无法读取{reason}", "the event library cannot be read{reason}"),
    "memory_broken": Text("记忆的数据库已损坏：{reason}", "the database of memories is damaged: {reason}"),
    "memory_saved": Text(
        "从损坏的数据库里救出 {memories} 份记忆（{entries} 条）和 {conversations} 段对话；原文件在 {file}",
        "saved of the damaged file: {memories} memories with {entries} entries, {conversations} conversations; "
        "the old file is {file}",
    ),
    "beside_broken": Text("无法读取：{reason}", "cannot be read: {reason}"),
    "archive_broken": Text("档案有问题：{reason}", "something is wrong with the archive: {reason}"),
    "memory_unusable": Text("记忆无法使用：{reason}", "the memories cannot be used: {reason}"),
    "memory_aside": Text(
        "有 {count} 条无法读取的记录放在 set_aside 表里",
        "{count} records that cannot be read stand in the table set_aside",
    ),
}

_RESTORE = Text("请修正它，或从备份恢复", "mend it, or restore it from a backup")

REMEDIES: dict[str, Text] = {
    "missing": Text("请从备份恢复它", "restore it from a backup"),
    "broken": _RESTORE,
    "not_a_file": Text("请移走它，换成普通文件", "move it away and put a regular file there"),
    "not_a_folder": Text("请检查它和它的权限", "check it and its permissions"),
    "config_broken": Text(
        "请修正它，或用 personalab settings reset 恢复默认设置",
        "mend it, or restore the defaults with personalab settings reset",
    ),
    "config_value": Text(
        "用 personalab settings set 重新设置，或 personalab settings reset",
        "set them with personalab settings set, or reset them all",
    ),
    "id_mismatch": Text(
        "请改正文件里的 {field}，或文件（夹）的名称",
        "correct {field} in the file, or the name of the file or folder",
    ),
    "bad_name": Text("改用字母、数字、_ 和 - 组成的名称", "rename it with letters, digits, _ and -"),
    "line_broken": _RESTORE,
    "torn_line": _RESTORE,
    "turn_order": Text("请检查这一行的 turn，并手工改正", "check this line's turn and correct it by hand"),
    "session_missing": Text(
        "请从备份恢复会话文件，或用 personalab new 新建",
        "restore a session file from a backup, or begin a new story with personalab new",
    ),
    "background_missing": Text(
        "用 personalab switch-background 换一个背景，或恢复它",
        "choose another with personalab switch-background, or restore it",
    ),
    "busy": Text(
        "等它结束，或用 personalab stop 停止，然后再试",
        "wait for it or end it with personalab stop, then try again",
    ),
    "not_repaired": Text(
        "请检查权限和剩余空间后再试", "check the permissions and the free space, then try again"
    ),
    "index_other_embedder": Text("运行 personalab reindex", "run personalab reindex"),
    "index_unreadable": Text("运行 personalab reindex", "run personalab reindex"),
    "memory_broken": Text(
        "请从备份恢复它；--fix 会救出还能读的内容，原文件改名保留",
        "restore it from a backup; --fix saves what can be read, and keeps the old file under another name",
    ),
    "memory_unusable": Text("请按上面说的处理", "do as it says"),
    "beside_broken": Text(
        "修正该文件，或用 personalab import 重新导入；没有它故事也能继续",
        "mend the file, or bring it in again with personalab import; stories go on without it",
    ),
    "archive_broken": Text(
        "用 personalab archive verify --file 查看，用 personalab archive restore --file 从备份恢复",
        "see personalab archive verify --file; personalab archive restore --file brings a backup back",
    ),
}
