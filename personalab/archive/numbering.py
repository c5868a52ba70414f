"""Turn numbers for imported messages that lack one or whose order has changed.

A line keeps its number as long as the lines are in their original order. From the first line that was added,
duplicated or moved, a number that does not increase is replaced: of two turns with the same number only one
could be found, and of two replies to one turn only one counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from personalab.story.transcript import MAX_TURN, OPENING_TURN, AssistantLine, Line, UserLine

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
