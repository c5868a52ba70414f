"""One-sentence messages for errors in a command line."""

from __future__ import annotations

import re
from typing import Any

import typer

from cli.output import one_line
from cli.texts import tell
from personalab.i18n import Language

_PATTERNS: tuple[tuple[str, str], ...] = (
    (r"No such command '(?P<name>.*?)'\. Did you mean (?P<near>.*)\?", "usage_command_like"),
    (r"No such command '(?P<name>.*?)'", "usage_command"),
    (r"No such option: (?P<name>\S+) \(Possible options: (?P<near>.*)\)", "usage_option_like"),
    (r"No such option: (?P<name>.*)", "usage_option"),
    (r"Missing (?:argument|option|parameter) '(?P<name>.*)'", "usage_missing"),
    (r"Got unexpected extra argument(?:\(s\)|s)? \((?P<name>.*)\)", "usage_extra"),
    (r"Option '(?P<name>.*)' requires an argument", "usage_no_value"),
    (r"Option '(?P<name>.*)' does not take a value", "usage_takes_no_value"),
    (r"Invalid value for (?P<name>.*?): .*valid integer.*", "usage_whole"),
    (r"Invalid value for (?P<name>.*?): .*greater than or equal to (?P<limit>\S+)", "usage_too_small"),
    (r"Invalid value for (?P<name>.*?): .*less than or equal to (?P<limit>\S+)", "usage_too_large"),
    (r"Invalid value for (?P<name>.*?): .*?(?P<value>'.*') is not one of (?P<known>.*)", "usage_choice"),
    (r"Invalid value for (?P<name>.*?): (?P<reason>.*)", "usage_value"),
    (r"(?P<reason>.*)", "usage_other"),
)
"""What typer says, as far as our commands can make it say so, and the code of our text for it."""


def word_refusal(error: typer.TyperException, language: Language) -> str:
    """Return a sentence about typer's error; nothing where it has shown the help already."""
    reason = one_line(error.format_message()).replace(": Value error, ", ": ").rstrip(".")
    if not reason:
        return ""
    context: Any = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "personalab"
    said = tell("usage", language, reason=_worded(reason, language), command=command)
    if hasattr(error, "option_name") and command.split()[-1] in ("say", "prompt", "recall"):
        said += tell("dashes", language, command=command)
    return said


def _worded(reason: str, language: Language) -> str:
    for pattern, code in _PATTERNS:
        if found := re.fullmatch(pattern, reason):
            return tell(code, language, **found.groupdict())
    return reason
