"""What does a story want taken care of after a turn? Nothing, unless a person switched it on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from personalab.config import Config

CareTask = Literal["memorize", "summarize"]


def care_due(config: Config, tokens: Mapping[str, Any] | None) -> list[CareTask]:
    """Tell what may be due after a turn whose prompt had so many tokens; a caller's own reply has none counted."""
    if tokens is None:
        return []
    due: list[CareTask] = []
    if config.auto_memorize_turns > 0:
        due.append("memorize")
    if config.auto_summarize and tokens.get("middle", 0) > config.middle_section_warning_tokens:
        due.append("summarize")
    return due
