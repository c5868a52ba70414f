"""Write the user's line, after everything the turn needs was found."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, get_args

from nodes.chat_turn.state import Action, TurnState
from personalab.errors import Busy, UserError
from personalab.leases import MAX_HOLD_SECONDS
from personalab.ports import Clock
from personalab.reasoning import split_reasoning
from personalab.story.director import has_speech
from personalab.story.open_turn import OpenTurn, OpenTurns
from personalab.story.records import check_id
from personalab.story.transcript import MAX_REQUEST_ID_CHARACTERS, Turn

MAX_INPUT_CHARACTERS = 200_000
REPEATED_SECONDS = 600.0
"""So long a repeated call waits for the turn that it began before."""


async def append_input(state: TurnState, *, turns: OpenTurns, now: Clock) -> dict[str, Any]:
    """Begin the turn: a new user line, or the one that still waits for its answer."""
    action = _checked_action(state.get("action") or "say")
    instance_id = check_id(state.get("instance_id"), "instance_id")
    hold = _checked_hold(state.get("hold_seconds"))
    answered: list[Turn] = []
    request_id: str | None = None
    if action in ("say", "begin"):
        text = _checked_text(state.get("user_input"), "blank_input")
        request_id = _checked_request(state.get("request_id"))

        async def prepare(turn: OpenTurn) -> None:
            known = turn.transcript.requested(request_id) if request_id else None
            if known is None:
                _check_not_held(turn, instance_id, await turns.held_turn(instance_id))
                if action == "say":  # from here on, leaving the turn closes an interrupted reply
                    turn.model_asked_at = now()
                await turn.say(text, now(), request_id)
            elif known.user is None or known.user.content != text:
                raise UserError("request_id_reused", request_id=request_id, turn=known.number)
            elif known.last_reply is not None:
                answered.append(known)
            elif known is not turn.transcript.last:
                raise UserError("turn_overtaken", turn=known.number)
            turn.number = known.number if known else turn.number

    elif action in ("retry", "begin_again"):

        async def prepare(turn: OpenTurn) -> None:
            await _resume(turn, turn.transcript.last, instance_id)

    else:
        reply, number = _checked_reply(state.get("caller_reply")), state.get("turn")
        begun_by = _checked_request(state.get("request_id"))
        is_cut = bool(state.get("caller_is_model"))

        async def prepare(turn: OpenTurn) -> None:
            waiting = _waiting(turn, number, reply, instance_id, begun_by, is_cut=is_cut)
            if waiting.settled:
                answered.append(waiting)
                turn.number = waiting.number
            else:
                await _resume(turn, waiting, instance_id)

    turn = await _begun(turns, instance_id, action, prepare, request_id)
    update: dict[str, Any] = {
        "lease": turn.lease.lease_id,
        "mode": "begin" if action == "begin_again" else action,
        "brought": state.get("caller_reply", "") if action == "end" else "",
        "brought_truncated": action == "end" and bool(state.get("caller_truncated")),
        "brought_by_model": action == "end" and bool(state.get("caller_is_model")),
        "is_wordless_before": action == "begin_again" and bool(state.get("wordless_before")),
        "hold": hold,
        "session_id": turn.instance.current_session_id,
        "turn": turn.number,
        "attempt": len(answered[0].replies) if answered else _tried(turn) + 1,
        "plot_state": turn.instance.plot_state.fields(),
    }
    if action in ("say", "retry"):
        turn.model_asked_at = now()
    last = answered[0].last_reply if answered else None
    if last is not None:
        await turn.lease.release()
        return {
            **update,
            "status": last.status,
            "reply": last.content,
            "reasoning": last.reasoning,
            "truncated": last.truncated,
        }
    return update


async def _begun(
    turns: OpenTurns,
    instance_id: str,
    action: Action,
    prepare: Callable[[OpenTurn], Awaitable[None]],
    request_id: str | None,
) -> OpenTurn:
    """Begin the turn; a repeated call waits until the turn it began before has been answered."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + turns.wait
    while True:
        try:
            return await turns.begin(instance_id, action, prepare)
        except Busy as error:
            if error.code == "awaiting_client":
                await _until_free(turns, instance_id, deadline, error)
                continue
            if request_id is None or not await turns.is_requested(instance_id, request_id):
                raise
        return await turns.begin(instance_id, action, prepare, wait=REPEATED_SECONDS)


async def _until_free(turns: OpenTurns, instance_id: str, deadline: float, busy: Busy) -> None:
    """Wait while a story is held for a client, less and less impatiently."""
    loop, pause = asyncio.get_running_loop(), 0.02
    while await turns.held_turn(instance_id) is not None:
        if turns.closing or loop.time() >= deadline:
            raise busy
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 0.25)


def _tried(turn: OpenTurn) -> int:
    """Count the replies that were tried before."""
    last = turn.transcript.last
    return len(last.replies) if last is not None and last.number == turn.number else 0


def _check_not_held(turn: OpenTurn, instance_id: str, held: int | None) -> None:
    """Refuse a new turn while a client's model is writing the reply of the last one."""
    last = turn.transcript.last
    if held is not None and last is not None and last.number == held and not last.settled:
        raise Busy("awaiting_client", instance_id=instance_id, turn=held)


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


def _checked_reply(text: object) -> str:
    """Check a caller's reply; one that holds only markers, blanks or thoughts is blank."""
    reply = _checked_text(text, "blank_reply")
    if not has_speech(split_reasoning(reply)[1]):
        raise UserError("blank_reply")
    return reply


def _checked_request(request_id: object) -> str | None:
    if request_id is None:
        return None
    if not isinstance(request_id, str) or not 0 < len(request_id) <= MAX_REQUEST_ID_CHARACTERS:
        raise UserError("bad_request_id", limit=MAX_REQUEST_ID_CHARACTERS)
    return request_id


def _checked_hold(seconds: object) -> float:
    if seconds is None:
        return 0.0
    if isinstance(seconds, int | float) and 0 <= seconds <= MAX_HOLD_SECONDS:
        return float(seconds)
    raise UserError(
        "setting_out_of_range", field="hold_seconds", value=str(seconds)[:40], range=f"0–{MAX_HOLD_SECONDS:g}"
    )


async def _resume(turn: OpenTurn, last: Turn | None, instance_id: str) -> None:
    if last is None or last.user is None or last.settled:
        if (behind := await turn.left_behind()) is not None:
            session_id, number = behind
            raise UserError("turn_left_behind", turn=number, session_id=session_id)
        raise UserError("nothing_to_retry", instance_id=instance_id)
    turn.number = last.number


def _waiting(
    turn: OpenTurn, number: object, reply: str, instance_id: str, request_id: str | None, *, is_cut: bool
) -> Turn:
    """Find the turn a reply is brought for.

    One answered already is fine if the text is the same, or if the call that began it was repeated: the first answer
    stands then.
    """
    last = turn.transcript.last
    wanted = number if number is not None else (last.number if last else 0)
    found = next((known for known in reversed(turn.transcript.turns) if known.number == wanted), None)
    if found is None or found.user is None or (found is not last and not found.settled):
        raise UserError(
            "nothing_pending", instance_id=instance_id, turn=wanted, last=last.number if last else 0
        )
    answer = found.last_reply
    repeated = request_id is not None and found.user.extra.get("request_id") == request_id
    if (
        found.settled
        and answer is not None
        and not repeated
        and not _is_same_reply(answer.content, reply, is_cut=is_cut)
    ):
        raise UserError("already_answered", turn=wanted)
    return found


def _is_same_reply(content: str, reply: str, *, is_cut: bool) -> bool:
    """Return whether a reply that is brought again is the stored one, which is kept without its thoughts.

    With ``is_cut`` it was stored without lines for the player, too.
    """
    brought, content = split_reasoning(reply)[1].strip(), content.strip()
    return brought == content or (is_cut and brought.startswith(f"{content}\n"))
