"""Summaries: points of a long session, the session that follows it, and when a summary or learning is due after a turn.

The model receives the session in pieces and answers with points as JSON: a short summary for the next
session, and a detailed plot for readers who ask how it came about, each with the turns it is based on. The
answer is validated here, because a model may answer anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from personalab.config import Config, SummaryOrder
from personalab.dialogue import (
    AnswerSchema,
    Message,
    indented,
    indented_block,
    is_in,
    list_in,
    list_schema,
    number_range_schema,
    object_schema,
    text_schema,
    whole_numbers,
)
from personalab.errors import Invalid, UserError
from personalab.ports import HeldLock, StoryStore
from personalab.story.prompt import turn_text
from personalab.story.records import InstanceState
from personalab.story.transcript import (
    AssistantLine,
    Line,
    Metadata,
    Summary,
    Transcript,
    Turn,
    UserLine,
    told_turns,
    usable_reply,
)
from personalab.texts import PromptLanguage, fill

MAX_POINTS = 40
"""More points of one piece are a retelling, not a summary."""
MAX_SUMMARY = 2_000
MAX_PLOT = 20_000

Count = Callable[[str], int]
Templates = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """One thing that happened: in short, in detail, and in which turns."""

    summary: str
    plot: str
    first_turn: int
    last_turn: int

    @classmethod
    def read(cls, data: object) -> PlotPoint:
        """Read it from its JSON value."""
        match data:
            case {"summary": str(summary), "plot": str(plot), "turns": [int(first), int(last)]}:
                return cls(summary, plot, first, last)
            case _:
                raise Invalid("point_incomplete")

    def fields(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {"summary": self.summary, "plot": self.plot, "turns": [self.first_turn, self.last_turn]}


@dataclass(frozen=True, slots=True)
class SummaryPart:
    """Turns that a model can read at once."""

    turns: tuple[Turn, ...]
    text: str

    @property
    def first(self) -> int:
        """The number of its first turn."""
        return self.turns[0].number

    @property
    def last(self) -> int:
        """The number of its last turn."""
        return self.turns[-1].number


# --- what the model reads


def turns_to_summarize(transcript: Transcript) -> list[Turn]:
    """Pick the turns something happened in: those with an answer that is more than an error."""
    return [turn for turn in transcript.turns if turn.answer is not None]


def as_material(turn: Turn) -> Turn:
    """Return a turn's words alone, none of whose lines can be taken for a heading or another speaker."""
    user = replace(turn.user, content=indented(turn.user.content)) if turn.user is not None else None
    replies = [replace(line, content=indented(line.content)) for line in turn.replies]
    return Turn(turn.number, user, replies)


def cut_into_pieces(
    turns: Sequence[Turn], templates: Templates, count: Count, budget: int
) -> list[SummaryPart]:
    """Group turns so that each piece fits; a turn that alone is too long is a piece, cut to what fits."""
    pieces: list[SummaryPart] = []
    gathered: list[tuple[Turn, str]] = []
    used = 0
    for turn in turns:
        text = turn_text(as_material(turn), templates)
        cost = count(text)
        if gathered and used + cost > budget:
            pieces.append(_piece(gathered))
            gathered, used = [], 0
        if cost > budget:
            text = text[: max(1, len(text) * budget // cost)]
        gathered.append((turn, text))
        used += cost
    if gathered:
        pieces.append(_piece(gathered))
    return pieces


def _piece(gathered: Sequence[tuple[Turn, str]]) -> SummaryPart:
    return SummaryPart(
        tuple(turn for turn, _ in gathered), "".join(text for _, text in gathered).rstrip("\n")
    )


def summary_messages(
    piece: SummaryPart, before: Iterable[str], persona: str, templates: Templates
) -> list[Message]:
    """Ask for the points of a piece; what happened before it comes along, so that names and threads go on."""
    known = "\n".join(f"- {indented(text)}" for text in before)
    asked = fill(
        templates["summarize"],
        first=piece.first,
        last=piece.last,
        max_points=MAX_POINTS,
        persona=indented_block(persona) or "–",
        before=known or "–",
        conversation=piece.text,
    )
    return [{"role": "system", "content": templates["summarize_system"]}, {"role": "user", "content": asked}]


# --- what the model answers


def points_schema(first: int, last: int) -> AnswerSchema:
    """Return the JSON schema of the points that ``read_points`` reads."""
    turns = number_range_schema(first, last)
    point = object_schema(
        summary=text_schema(at_most=MAX_SUMMARY),
        plot=text_schema(at_most=MAX_PLOT),
        turns=list_schema(turns, at_least=2, at_most=2),
    )
    points = list_schema(point, at_least=1, at_most=MAX_POINTS)
    return AnswerSchema("plot_points", object_schema(points=points))


def read_points(answer: str, first: int, last: int, language: PromptLanguage) -> list[PlotPoint]:
    """Read the points of an answer, in the order of their turns; ``ValueError`` says what is wrong with it."""
    points = [
        _point(data, place, first, last) for place, data in enumerate(list_in(answer, "points"), start=1)
    ]
    if not points:
        raise Invalid("no_points")
    if len(points) > MAX_POINTS:
        raise Invalid("points_over", count=len(points), limit=MAX_POINTS)
    for place, point in enumerate(points, start=1):
        if not is_in(language, point.summary):
            raise Invalid("point_language", place=place, language=language)
    return sorted(points, key=lambda point: (point.first_turn, point.last_turn))


def _point(data: object, place: int, first: int, last: int) -> PlotPoint:
    if not isinstance(data, dict):
        raise Invalid("point_not_object", place=place)
    given = cast("dict[str, Any]", data)
    texts = {"summary": MAX_SUMMARY, "plot": MAX_PLOT}
    for name, limit in texts.items():
        value = given.get(name)
        if not isinstance(value, str) or not value.strip():
            raise Invalid("point_without", place=place, field=name)
        if len(value) > limit:
            raise Invalid("point_field_too_long", field=name, place=place, count=len(value), limit=limit)
    turns: object = given.get("turns")
    begin, end = (first, last) if turns is None and first == last else _range(turns)
    if not first <= begin <= end <= last:
        shown = json.dumps(given.get("turns"), ensure_ascii=False, default=str)[:80]
        raise Invalid("point_turns", place=place, value=shown, first=first, last=last)
    return PlotPoint(given["summary"].strip(), given["plot"].strip(), begin, end)


def _range(turns: object) -> tuple[int, int]:
    """Read the first and the last turn, which may be one; an empty range if none are named."""
    try:
        numbers = whole_numbers(turns)
    except ValueError:
        return 1, 0
    return (numbers[0], numbers[-1]) if 1 <= len(numbers) <= 2 else (1, 0)


# --- the session that follows


def opening_lines(
    metadata: Metadata,
    points: Sequence[PlotPoint],
    kept: Sequence[Turn],
    order: SummaryOrder,
    before: Iterable[Summary] = (),
) -> list[Line]:
    """Write the beginning of the next session: where it comes from, what happened, the last turns anew from 1.

    Without new points, what was summarised ``before`` is said again.
    """
    told: list[Line] = [
        Summary(point.summary, {"turns": [point.first_turn, point.last_turn]}) for point in points
    ] or [Summary(note.content) for note in before]
    said = [line for number, turn in enumerate(kept, start=1) for line in _renumbered(turn, number)]
    return [metadata, *told, *said] if order == "summary_first" else [metadata, *said, *told]


def _renumbered(turn: Turn, number: int) -> list[UserLine | AssistantLine]:
    """Return a turn's words under another number: what was said, and the answer that counts."""
    lines: list[UserLine | AssistantLine] = []
    if turn.user is not None:
        lines.append(replace(turn.user, turn=number))
    answers = [line for line in turn.replies if usable_reply(line) is not None]
    if answers:
        lines.append(replace(answers[-1], turn=number))
    return lines


def last_turns(transcript: Transcript, count: int) -> list[Turn]:
    """Pick the newest turns to carry over; one that still waits for its answer is the last of them."""
    return told_turns(transcript)[-count:] if count > 0 else []


@dataclass(frozen=True, slots=True)
class Carried:
    """The turns that the next session begins with."""

    turns: tuple[Turn, ...]
    left_behind: tuple[Turn, ...] = ()
    """Unanswered turns that together fit into no prompt of the next session."""


def carried_turns(transcript: Transcript, most: int, cost: Callable[[Turn], int], room: int) -> Carried:
    """Keep the newest turns that fit the room the next session has for them, so that a summary always helps."""
    unanswered = [turn for turn in transcript.turns if turn.user is not None and turn.answer is None]
    blocked = sum(map(cost, unanswered)) > room
    kept: list[Turn] = []
    for turn in reversed(last_turns(transcript, most)):
        if (needed := cost(turn)) <= room:
            kept.insert(0, turn)
            room -= needed
        elif turn.answer is not None:
            break
    left = [turn for turn in unanswered if not any(turn is other for other in kept)]
    return Carried(tuple(kept), tuple(left) if blocked else ())


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


PostTurnTask = Literal["memorize", "summarize"]
UNDONE = "summary_undone"
"""Where an instance's state notes the session, and its last turn, whose summary was taken back."""


def due_after_turn(
    config: Config, tokens: Mapping[str, Any] | None, *, remembers: bool, turn: int, is_continued: bool
) -> list[PostTurnTask]:
    """Return what may be due after a turn, given its prompt's tokens; a caller's own reply has no token count."""
    if tokens is None:
        return []
    due: list[PostTurnTask] = []
    if remembers and config.auto_memorize_turns > 0:
        due.append("memorize")
    # The turns a session took over may be too long by themselves: as many new ones have to come first.
    is_long = tokens.get("middle", 0) > config.middle_section_warning_tokens
    if config.auto_summarize and is_long and not (is_continued and turn <= 2 * config.summary_last_n_turns):
        due.append("summarize")
    return due


def was_undone_recently(instance: InstanceState, turn: int, kept: int) -> bool:
    """Return whether a summary of this session was undone within the last few turns."""
    match instance.source.get(UNDONE):
        case {"session_id": str(session_id), "turn": int(undone)}:
            return session_id == instance.current_session_id and turn <= undone + 2 * kept
        case _:
            return False
