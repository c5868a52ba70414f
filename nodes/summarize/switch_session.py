"""The last, atomic step: it makes the new session the current one."""

from __future__ import annotations

from typing import Any

from nodes.summarize.state import SummaryState
from personalab.leases import Lease
from personalab.ports import StoryStore
from personalab.story import summary


async def switch_session(state: SummaryState, *, stories: StoryStore, lease: Lease) -> dict[str, Any]:
    """Switch; from here on the story goes on in the new session."""
    await summary.switch_session(
        stories,
        lease.lock,
        state.get("instance_id", ""),
        state.get("new_session_id", ""),
        expected=state.get("session_id", ""),
    )
    return {"status": "done"}
