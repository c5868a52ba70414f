"""Read settings, background and templates together; each that cannot be read has a careful default."""

from __future__ import annotations

from typing import Any

from nodes.chat_turn.state import TurnEmitter, TurnState
from personalab.story.open_turn import OpenTurn, OpenTurns


async def load_state(
    state: TurnState, *, turn: OpenTurn, turns: OpenTurns, emitter: TurnEmitter
) -> dict[str, Any]:
    """Load what the turn can do without, and say what is missing."""
    emitter.warn((await turns.load(turn)).notices)
    await turn.log.flush()
    return {}
