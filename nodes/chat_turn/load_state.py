"""Read settings, background and templates together; each that cannot be read has a careful default."""

from __future__ import annotations

import asyncio
from typing import Any

from nodes.chat_turn.saying import Say
from nodes.chat_turn.state import TurnState
from personalab.ports import TokenCounter
from personalab.storage.turns import Loaded, OpenTurn, OpenTurns


async def load_state(
    state: TurnState, *, turn: OpenTurn, turns: OpenTurns, counter: TokenCounter, say: Say
) -> dict[str, Any]:
    """Load what the turn can do without, and say what is missing."""

    def load() -> Loaded:
        counter.count("")  # the first count reads the vocabulary: better here than in the event loop
        return turns.load(turn, repaired=turn.writer.repaired)

    loaded = await asyncio.to_thread(load)
    return {"load_warnings": say.warnings(loaded.notices)}
