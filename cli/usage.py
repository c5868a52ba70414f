"""One-sentence messages for errors in a command line."""

from __future__ import annotations

import re
from typing import Any

import typer

from cli.output import one_line
from cli.texts import tell
from personalab.texts import Language

_CHINESE: tuple[tuple[str, str], ...] = (
    (r"No such command '(.*?)'\. Did you mean (.*)\?", r"没有命令 “\1”，是不是 \2？"),
    (r"No such command '(.*?)'", r"没有命令 “\1”"),
    (r"No such option: (\S+) \(Possible options: (.*)\)", r"没有选项 \1（相近的有：\2）"),
    (r"No such option: (.*)", r"没有选项 \1"),
    (r"Missing (?:argument|option|parameter) '(.*)'", r"缺少 \1"),
    (r"Got unexpected extra argument(?:\(s\)|s)? \((.*)\)", r"多出了 \1"),
    (r"Option '(.*)' requires an argument", r"选项 \1 需要一个值"),
    (r"Option '(.*)' does not take a value", r"选项 \1 不带值"),
    (r"Invalid value for (.*?): .*valid integer.*", r"\1 应为整数"),
    (r"Invalid value for (.*?): .*greater than or equal to (\S+)", r"\1 不能小于 \2"),
    (r"Invalid value for (.*?): .*less than or equal to (\S+)", r"\1 不能大于 \2"),
    (r"Invalid value for (.*?): .*?('.*') is not one of (.*)", r"\1 不能是 \2，可用：\3"),
    (r"Invalid value for (.*?): .*", r"\1 的值不可用"),
)
"""What typer says, as far as our commands can make it say so, and the same in Chinese."""


def word_refusal(error: typer.TyperException, language: Language) -> str:
    """Return a sentence about typer's error; nothing where it has shown the help already."""
    reason = one_line(error.format_message()).replace(": Value error, ", ": ").rstrip(".")
    if not reason:
        return ""
    context: Any = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "personalab"
    if language == "zh":
        reason = _in_chinese(reason)
    said = tell("usage", language, reason=reason, command=command)
    if hasattr(error, "option_name") and command.split()[-1] in ("say", "prompt", "recall"):
        said += tell("dashes", language, command=command)
    return said


def _in_chinese(reason: str) -> str:
    for pattern, words in _CHINESE:
        if found := re.fullmatch(pattern, reason):
            return found.expand(words)
    return tell("usage_other", "zh")
