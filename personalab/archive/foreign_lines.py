"""Times and turn numbers of lines that come from other programs.

A time without a zone is read as UTC, because no field names the writer's zone. A line keeps its turn number as
long as the lines are in their original order. From the first line that was added, duplicated or moved, a number
that does not increase is replaced: of two turns with the same number only one could be found, and of two replies
to one turn only one counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from personalab.story.transcript import MAX_TURN, OPENING_TURN, AssistantLine, Line, UserLine

# --- times, in the formats that SillyTavern has used over the years


_MILLISECONDS_FROM = 10**11
"""A smaller number counts seconds: as milliseconds it would be a day before 1974."""
_DIGITS = re.compile(r"\d{1,17}(?:\.\d{1,9})?", re.ASCII)
_WORN = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})\s*@\s*(\d{1,2})h\s*(\d{1,2})m\s*(\d{1,2})s(?:\s*(\d{1,3})ms)?", re.ASCII
)
_SPOKEN = re.compile(
    r"([A-Za-z]{3,9})\.? (\d{1,2}),? (\d{4}),? (\d{1,2}):(\d{1,2})(?::(\d{1,2}))? ?([AaPp])\.?[Mm]\.?",
    re.ASCII,
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LONGEST = 64
_EARLIEST_YEAR = 1000
"""Earlier years are not written with four digits everywhere."""


def moment_of(sent: object) -> datetime | None:
    """Read a time in any of its forms; ``None`` where it is none of them."""
    try:
        if isinstance(sent, int | float) and not isinstance(sent, bool):
            moment = _counted(float(sent))
        elif isinstance(sent, str) and len(sent) <= _LONGEST:
            moment = _written(sent.strip())
        else:
            return None
    except (ValueError, OverflowError, OSError):
        return None
    return moment if moment.year >= _EARLIEST_YEAR else None


def time_of(sent: object) -> str:
    """Return a time as our lines have it, in UTC to the second; blank where it cannot be read."""
    moment = moment_of(sent)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment is not None else ""


def sent_at(timestamp: str) -> str:
    """Return one of our times as SillyTavern writes a message's today; one that cannot be read stays as it is."""
    moment = moment_of(timestamp)
    return with_milliseconds(moment) if moment is not None else timestamp


def begun_at(timestamp: str) -> str:
    """Return one of our times as SillyTavern writes the beginning of a chat."""
    moment = moment_of(timestamp)
    if moment is None:
        return timestamp
    return f"{moment:%Y-%m-%d@%Hh%Mm%Ss}{moment.microsecond // 1000:03}ms"


def with_milliseconds(moment: datetime) -> str:
    """Write a time in ISO 8601 with milliseconds, in UTC."""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def _counted(number: float) -> datetime:
    return datetime.fromtimestamp(number / 1000 if number >= _MILLISECONDS_FROM else number, UTC)


def _written(text: str) -> datetime:
    if _DIGITS.fullmatch(text):
        return _counted(float(text))
    if worn := _WORN.fullmatch(text):
        year, month, day, hour, minute, second, milliseconds = (int(part or 0) for part in worn.groups())
        return datetime(year, month, day, hour, minute, second, milliseconds * 1000, tzinfo=UTC)
    if spoken := _SPOKEN.fullmatch(text):
        return _spoken(spoken)
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _spoken(found: re.Match[str]) -> datetime:
    month = _MONTHS.index(found[1][:3].lower()) + 1
    hour = int(found[4]) % 12 + (12 if found[7] in "Pp" else 0)
    return datetime(int(found[3]), month, int(found[2]), hour, int(found[5]), int(found[6] or 0), tzinfo=UTC)


# --- turn numbers


MAX_GIVEN_TURN = MAX_TURN // 2
"""Maximum number taken from an imported file; a greater one is replaced, because the story could not continue."""


@dataclass(slots=True)
class Numbering:
    """The turn that messages have come to."""

    turn: int = OPENING_TURN
    begun: bool = False
    waiting: bool = False
    """Whether the person spoke last."""
    disturbed: bool = False
    """Whether the lines are no longer in their original order."""
    place: int = -1
    """Where the last line that has its number stood."""
    was: int | None = None
    """The original number of the current turn; none if it has a message without one."""

    def said(self) -> int:
        """Number what the person says."""
        self.disturbed, self.was = True, None
        return self._said()

    def replied(self) -> int:
        """Number a reply: one without a question gets a turn of its own, because only one reply of a turn counts."""
        self.disturbed, self.was = True, None
        return self._replied()

    def take(self, lines: Sequence[Line], place: int | None) -> Iterator[Line]:
        """Go on with lines that have their numbers and belong together; ``place`` is where they stood, if known."""
        moved = place is None or place <= self.place
        for line in lines:
            if not isinstance(line, UserLine | AssistantLine):
                yield line
                continue
            self.disturbed = self.disturbed or moved or line.turn > MAX_GIVEN_TURN
            number = self._number(line, moved=moved) if self.disturbed else line.turn
            self.turn, self.begun = max(self.turn, number), True
            self.was, self.waiting = line.turn, isinstance(line, UserLine)
            self.place, moved = self.place if place is None else place, False
            yield line if number == line.turn else replace(line, turn=number)

    def _number(self, line: UserLine | AssistantLine, *, moved: bool) -> int:
        reply = isinstance(line, AssistantLine)
        if reply and self.was == line.turn and not moved:
            return self.turn
        grown = line.turn > self.turn or not self.begun
        if grown and line.turn <= MAX_GIVEN_TURN:
            return line.turn
        return self._replied() if reply else self._said()

    def _said(self) -> int:
        self.turn, self.begun, self.waiting = self.turn + 1, True, True
        return self.turn

    def _replied(self) -> int:
        if not self.waiting and self.begun:
            self.turn += 1
        self.begun, self.waiting = True, False
        return self.turn
