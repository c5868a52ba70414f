"""The last, atomic step: it makes the new session the current one."""

from __future__ import annotations

from typing import Any

from nodes.summarize.state import SummaryState
from personalab.services import Services
from personalab.tasks import run_uncancellable


async def switch_session(state: SummaryState, *, services: Services) -> dict[str, Any]:
    """Switch; from here on the story goes on in the new session."""
    instance_id, old = state.get("instance_id", ""), state.get("session_id", "")

    def switch() -> None:
        services.summaries.switch(instance_id, state.get("new_session_id", ""), expected=old)

    await run_uncancellable(switch)
    return {"status": "done"}
