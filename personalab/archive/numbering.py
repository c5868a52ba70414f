"""Which turn do messages belong to that come without a number?"""

from __future__ import annotations

from dataclasses import dataclass

from personalab.story.lines import OPENING_TURN, AssistantLine, Line, UserLine


@dataclass(slots=True)
class Numbering:
    """The turn that messages have come to."""

    turn: int = OPENING_TURN
    begun: bool = False
    waiting: bool = False
    """Whether the person spoke last."""

    def said(self) -> int:
        """Number what the person says."""
        self.turn, self.begun, self.waiting = self.turn + 1, True, True
        return self.turn

    def replied(self) -> int:
        """Number a reply: one that answers nobody has a turn of its own, for of one turn only one reply counts."""
        if not self.waiting and self.begun:
            self.turn += 1
        self.begun, self.waiting = True, False
        return self.turn

    def take(self, line: Line) -> None:
        """Go on after a line that has its number."""
        if isinstance(line, UserLine | AssistantLine):
            self.turn, self.begun = max(self.turn, line.turn), True
            self.waiting = isinstance(line, UserLine)
