"""The sessions of a story: their names and order, which one continues which, and the switch to another one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from personalab.errors import UserError
from personalab.ports import HeldLock, StoryStore
from personalab.story.instance import InstanceState

SESSION_NAME = re.compile(r"(?:sess|session)_(\d{3,9})")
_MAX_DIGITS = 9

Link = Callable[[str], str | None]
"""Finds the session that a session names as the one before it, if there is such a session."""


def session_order(session_id: str) -> tuple[int, str]:
    """Return the key by which sessions are sorted, the oldest first."""
    number = SESSION_NAME.fullmatch(session_id)
    return (int(number[1]) if number else 10**_MAX_DIGITS, session_id)


def next_session_id(session_id: str) -> str:
    """Return the next session's id: one higher than the current one."""
    digits = session_id.rpartition("_")[2]
    number = int(digits) + 1 if digits.isdigit() and len(digits) <= _MAX_DIGITS else 1
    return f"sess_{number:03}"


def previous_session(session_id: str, link: Link) -> str | None:
    """Find the session that a session continues; ``None`` for the first one, also of a loop."""
    return None if closes_loop(session_id, link) else link(session_id)


def closes_loop(session_id: str, link: Link) -> bool:
    """Return whether a session claims to continue one that came after it, or itself.

    Sessions can only be linked in a loop by an edit. Of those in the loop, the first by its number began.
    """
    chain = [session_id]
    while (before := link(chain[-1])) is not None and before not in chain:
        chain.append(before)
    return before == session_id and session_id == min(chain, key=session_order)


async def switch_session(
    stories: StoryStore,
    lock: HeldLock,
    instance_id: str,
    session_id: str,
    *,
    expected: str,
    note: Mapping[str, Any] | None = None,
) -> InstanceState:
    """Make another session the current one, if the expected one still is; ``note`` is kept in the story's state."""
    state = await stories.instance(instance_id)
    if state.current_session_id != expected:
        raise UserError("session_switched", session_id=state.current_session_id)
    fresh = replace(state, current_session_id=session_id, source={**state.source, **(note or {})})
    await stories.save_instance(fresh, lock)
    return fresh
