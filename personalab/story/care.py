"""Automatic work that is due after a turn, if a person enabled it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from personalab.config import Config
from personalab.story.instance import InstanceState

CareTask = Literal["memorize", "summarize"]
UNDONE = "summary_undone"
"""Where an instance's state notes the session, and its last turn, whose summary was taken back."""


def care_due(
    config: Config, tokens: Mapping[str, Any] | None, *, remembers: bool, turn: int, is_continued: bool
) -> list[CareTask]:
    """Return what may be due after a turn, given its prompt's tokens; a caller's own reply has no token count."""
    if tokens is None:
        return []
    due: list[CareTask] = []
    if remembers and config.auto_memorize_turns > 0:
        due.append("memorize")
    # The turns a session took over may be too long by themselves: as many new ones have to come first.
    is_long = tokens.get("middle", 0) > config.middle_section_warning_tokens
    if config.auto_summarize and is_long and not (is_continued and turn <= 2 * config.summary_last_n_turns):
        due.append("summarize")
    return due


def undone_lately(instance: InstanceState, turn: int, kept: int) -> bool:
    """Return whether a summary of this session was undone within the last few turns."""
    match instance.source.get(UNDONE):
        case {"session_id": str(session_id), "turn": int(undone)}:
            return session_id == instance.current_session_id and turn <= undone + 2 * kept
        case _:
            return False
