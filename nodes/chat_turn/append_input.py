"""Write the user's line, after everything the turn needs was found."""

from __future__ import annotations

from typing import Any, get_args

from nodes.chat_turn.state import Action, TurnState
from personalab.errors import UserError
from personalab.ports import Clock
from personalab.storage.turns import OpenTurn, OpenTurns
from personalab.story.ids import check_id
from personalab.story.transcript import Turn

MAX_INPUT_CHARACTERS = 200_000


async def append_input(state: TurnState, *, turns: OpenTurns, now: Clock) -> dict[str, Any]:
    """Begin the turn: a new user line, or the one that still waits for its answer."""
    action = _checked_action(state.get("action") or "say")
    instance_id = check_id(state.get("instance_id"), "instance_id")
    settled: list[Turn] = []
    if action in ("say", "begin"):
        text = _checked_text(state.get("user_input"), "blank_input")

        def prepare(turn: OpenTurn) -> None:
            turn.say(text, now())

    elif action == "retry":

        def prepare(turn: OpenTurn) -> None:
            _resume(turn, turn.transcript.last, instance_id)

    else:
        reply, number = _checked_text(state.get("caller_reply"), "blank_reply"), state.get("turn")

        def prepare(turn: OpenTurn) -> None:
            waiting = _waiting(turn, number, reply, instance_id)
            if waiting.settled:
                settled.append(waiting)
                turn.number = waiting.number
            else:
                _resume(turn, waiting, instance_id)

    turn = await turns.begin(instance_id, action, prepare)
    update: dict[str, Any] = {
        "lease": turn.lease.lease_id,
        "mode": action,
        "brought": state.get("caller_reply", "") if action == "end" else "",
        "session_id": turn.instance.current_session_id,
        "turn": turn.number,
        "plot_state": turn.instance.plot_state.fields(),
    }
    if settled:
        last = settled[0].last_reply
        turn.lease.release()
        return {**update, "status": "done", "reply": last.content if last else ""}
    return update


def _checked_action(action: object) -> Action:
    for known in get_args(Action):
        if action == known:
            return known
    raise UserError("unknown_action", value=str(action)[:40], known=", ".join(get_args(Action)))


def _checked_text(text: object, blank: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise UserError(blank)
    if len(text) > MAX_INPUT_CHARACTERS:
        raise UserError("input_too_long", actual=len(text), limit=MAX_INPUT_CHARACTERS)
    return text


def _resume(turn: OpenTurn, last: Turn | None, instance_id: str) -> None:
    if last is None or last.user is None or last.settled:
        raise UserError("nothing_to_retry", instance_id=instance_id)
    turn.number = last.number


def _waiting(turn: OpenTurn, number: object, reply: str, instance_id: str) -> Turn:
    """Find the turn a reply is brought for; one answered with the same text already is fine."""
    last = turn.transcript.last
    wanted = number if number is not None else (last.number if last else 0)
    found = next((known for known in reversed(turn.transcript.turns) if known.number == wanted), None)
    if found is None or found.user is None or (found is not last and not found.settled):
        raise UserError(
            "nothing_pending", instance_id=instance_id, turn=wanted, last=last.number if last else 0
        )
    answer = found.last_reply
    if found.settled and answer is not None and answer.content != reply:
        raise UserError("already_answered", turn=wanted)
    return found
