"""Read settings, background and templates together; each that cannot be read has a careful default."""

from __future__ import annotations

from typing import Any

from nodes.chat_turn.saying import Say
from nodes.chat_turn.state import TurnState
from personalab.storage.turns import OpenTurn, OpenTurns
from personalab.tasks import run_uncancellable


async def load_state(state: TurnState, *, turn: OpenTurn, turns: OpenTurns, say: Say) -> dict[str, Any]:
    """Load what the turn can do without, and say what is missing."""
    say.warn(turns.load(turn).notices)
    if turn.sync:
        await run_uncancellable(turn.writer.sync)
    return {}
