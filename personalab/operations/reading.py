"""Paging through a session, newest turns first, within a size budget.

A page begins with the newest turn. A turn that does not fit is left for the next page; one that is too long
for any page is cut, and the next page continues inside it. The cursor names the place to continue from.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from personalab.errors import StorageError, UserError
from personalab.results.stories import SessionPage
from personalab.services import Services
from personalab.story.records import check_id
from personalab.story.transcript import (
    MAX_REQUEST_ID_CHARACTERS,
    AssistantLine,
    Summary,
    Transcript,
    Turn,
    UserLine,
    line_fields,
)

Cut = Callable[[str, int], str]
"""Gives the beginning of a text that costs no more than so much."""
Cost = Callable[[str], int]

_CURSOR = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,63}):([0-9]{1,9}):([0-9]{1,9}):([0-9]{1,9})")
_LINE_COST = 40
"""What a line's role, turn, time and flags cost."""
_REASONING_SHARE = 4
"""A page spends at most this part of its budget on the reasoning of one reply."""


@dataclass(frozen=True, slots=True)
class PageCursor:
    """Where to go on: a turn by its position, a line of it, a character of that line's text."""

    session_id: str
    position: int
    line: int = 0
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.session_id}:{self.position}:{self.line}:{self.offset}"


async def read_newest(
    services: Services,
    instance_id: str,
    session_id: str | None,
    cursor: str | None,
    *,
    budget: int,
    cost: Cost,
    cut: Cut,
    reasoning: bool = False,
) -> SessionPage:
    """Read a session's newest turns, or go on from a cursor, within a budget; long reasoning is cut."""
    check_id(instance_id, "instance_id")
    if session_id is not None:
        check_id(session_id, "session_id")
    start = _parsed(cursor, session_id)

    def read() -> SessionPage:
        chosen = start.session_id if start else session_id
        if chosen is None:
            chosen = services.stories.instance(instance_id).current_session_id
        transcript = _transcript(services, instance_id, chosen)
        groups = _groups(transcript, reasoning=reasoning)
        place = start or PageCursor(chosen, len(groups) - 1)
        if start is not None and not _is_there(groups, start):
            raise UserError("bad_cursor", value=str(cursor)[:80])
        entries, following = _page(groups, place, budget, cost, cut)
        return SessionPage(
            instance_id=instance_id,
            session_id=chosen,
            continued_from=services.stories.session_before(instance_id, chosen),
            turns=len(transcript.turns),
            entries=entries,
            cursor=str(following) if following else None,
        )

    return await asyncio.to_thread(read)


def place_of_reply(services: Services, instance_id: str, session_id: str, turn: int, offset: int) -> str:
    """Return the cursor that goes on inside the newest reply of a turn."""
    turns = services.stories.session(instance_id, session_id).view().turns
    position = next((at for at in range(len(turns) - 1, -1, -1) if turns[at].number == turn), 0)
    return str(PageCursor(session_id, position, max(len(turn_lines(turns[position])) - 1, 0), offset))


def _parsed(cursor: str | None, session_id: str | None) -> PageCursor | None:
    if cursor is None:
        return None
    found = _CURSOR.fullmatch(cursor)
    if found is None or (session_id is not None and found[1] != session_id):
        raise UserError("bad_cursor", value=cursor[:80])
    return PageCursor(found[1], int(found[2]), int(found[3]), int(found[4]))


def _transcript(services: Services, instance_id: str, session_id: str) -> Transcript:
    try:
        return services.stories.session(instance_id, session_id).view()
    except StorageError as error:
        current = services.stories.instance(instance_id).current_session_id
        if error.code == "file_missing" and session_id != current:
            raise UserError("no_session", instance_id=instance_id, session_id=session_id) from error
        raise


def _groups(transcript: Transcript, *, reasoning: bool) -> list[list[dict[str, Any]]]:
    """Return each turn's lines; summaries after the last turn are the newest group."""
    groups = [plain_lines(turn, reasoning=reasoning) for turn in transcript.turns]
    if transcript.trailing:
        groups.append([_plain(note) for note in transcript.trailing])
    return groups


def _is_there(groups: list[list[dict[str, Any]]], place: PageCursor) -> bool:
    if place.position >= len(groups) or place.line >= len(groups[place.position]):
        return False
    return place.offset == 0 or place.offset < len(groups[place.position][place.line]["content"])


def plain_lines(turn: Turn, *, reasoning: bool = False) -> list[dict[str, Any]]:
    """Return a turn's lines without other programs' additions, and mark an unanswered one."""
    found = [_plain(line, reasoning=reasoning) for line in _said(turn)]
    if turn.user is not None and not turn.replies:
        found[-1]["unanswered"] = True
    return found


def _plain(line: Summary | UserLine | AssistantLine, *, reasoning: bool = False) -> dict[str, Any]:
    if isinstance(line, Summary):
        return {"type": "summary", "content": line.content}
    if isinstance(line, AssistantLine) and not reasoning:
        line = replace(line, reasoning="")
    request_id = line.extra.get("request_id")
    named = isinstance(request_id, str) and len(request_id) <= MAX_REQUEST_ID_CHARACTERS
    bare = replace(line, timestamp=line.timestamp[:40], extra={"request_id": request_id} if named else {})
    return line_fields(bare)


def turn_lines(turn: Turn) -> list[dict[str, Any]]:
    """Return a turn's lines as they are in the file."""
    return [line_fields(line) for line in _said(turn)]


def _said(turn: Turn) -> list[Summary | UserLine | AssistantLine]:
    return [*turn.notes, *([turn.user] if turn.user is not None else []), *turn.replies]


def _page(
    groups: list[list[dict[str, Any]]], place: PageCursor, budget: int, cost: Cost, cut: Cut
) -> tuple[list[dict[str, Any]], PageCursor | None]:
    entries: list[dict[str, Any]] = []
    left = budget
    line, offset = place.line, place.offset
    for position in range(place.position, -1, -1):
        lines = groups[position]
        share = budget // _REASONING_SHARE
        needed = sum(cost(entry["content"]) + _beside(entry, cost, share) for entry in lines[line:])
        if needed > left and entries:
            return entries, PageCursor(place.session_id, position, line, offset)
        for number in range(line, len(lines)):
            rest = lines[number]["content"][offset:]
            entry = _with_reasoning(lines[number], offset, cut, min(share, left // 2))
            shown = cut(rest, left - _beside(entry, cost, share))
            entry["content"] = shown
            if offset or len(shown) < len(rest):
                entry["part"] = [offset, offset + len(shown), len(lines[number]["content"])]
            entries.append(entry)
            left -= cost(shown) + _beside(entry, cost, share)
            if len(shown) < len(rest):
                return entries, PageCursor(place.session_id, position, number, offset + len(shown))
            offset = 0
            if left <= _LINE_COST and number + 1 < len(lines):
                return entries, PageCursor(place.session_id, position, number + 1)
        line = 0
    return entries, None


def _with_reasoning(entry: dict[str, Any], offset: int, cut: Cut, share: int) -> dict[str, Any]:
    """Copy a line with what its share allows of its reasoning, on the page where its text begins."""
    made = {name: value for name, value in entry.items() if name != "reasoning"}
    if offset == 0 and (whole := entry.get("reasoning")):
        shown = cut(whole, share)
        made["reasoning"] = shown if len(shown) == len(whole) else f"{shown}…"
    return made


def _beside(entry: dict[str, Any], cost: Cost, share: int) -> int:
    """Count what a line costs beside its text."""
    named = cost(entry["request_id"]) if "request_id" in entry else 0
    thoughts = min(cost(entry["reasoning"]), share + 1) if "reasoning" in entry else 0
    return _LINE_COST + named + thoughts
