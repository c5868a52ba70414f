"""Follow the reply's markers, save where the story stands, and report that the turn is over."""

from __future__ import annotations

from typing import Any

from nodes.chat_turn.state import TurnEmitter, TurnState
from personalab.story.events import DoneEvent, Notice
from personalab.story.open_turn import OpenTurn
from personalab.story.summary import PostTurnTask, due_after_turn
from personalab.tasks import complete


async def process_progress(state: TurnState, *, turn: OpenTurn, emitter: TurnEmitter) -> dict[str, Any]:
    """Update the plot state; interrupted, empty and failed replies count, too."""
    reply = state.get("reply", "")
    progress = await complete(turn.record_progress(reply))
    emitter.warn(progress.warnings)
    if turn.restored:
        emitter.warn([Notice("session_restored", {})])
    line = turn.turn.last_reply
    plot_state = progress.plot_state.fields()
    done: DoneEvent = {
        "type": "done",
        "turn": turn.number,
        "attempt": state.get("attempt", 1),
        "session_id": turn.instance.current_session_id,
        "content": reply,
        "interrupted": bool(line and line.interrupted),
        "empty": bool(line and line.empty),
        "error": bool(line and line.error),
        "truncated": bool(line and line.truncated),
        "plot_state": plot_state,
        "tokens": state.get("tokens") or {},
        "usage": state.get("usage"),  # pyright: ignore[reportAssignmentType] (the shape is Usage)
    }
    emitter.emit(done)
    return {"plot_state": plot_state, "warnings": turn.warnings, "care_due": _due(state, turn)}


def _due(state: TurnState, turn: OpenTurn) -> list[PostTurnTask]:
    preferences, opening = turn.data.preferences, turn.transcript.metadata
    return due_after_turn(
        preferences.config,
        state.get("tokens"),
        remembers=preferences.memory.enabled,
        turn=turn.number,
        is_continued=opening is not None and opening.continued_from is not None,
    )
