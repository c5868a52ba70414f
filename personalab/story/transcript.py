"""A session's lines, grouped into turns.

A transcript grows line by line, so that a long session is parsed, rendered and counted once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from personalab.errors import UserError
from personalab.story.director import has_speech
from personalab.story.lines import (
    MAX_TURN,
    NO_REPLY,
    AssistantLine,
    Line,
    Metadata,
    Summary,
    UserLine,
    without_error_note,
)
from personalab.texts import Language, say


def usable_reply(line: AssistantLine) -> str | None:
    """Return what later prompts may show of a reply, without its error note; ``None`` if no words are left."""
    content = line.content
    if line.error:
        content = without_error_note(content)
    if line.empty or content == NO_REPLY or not has_speech(content):
        return None
    return content


def shown_reply(content: str, language: Language) -> str:
    """Word a stored reply for its reader: the note for an empty one is the same in every file."""
    return say("no_reply", language) if content == NO_REPLY else content


@dataclass(slots=True)
class Turn:
    """One number: what the person said and every reply that was tried."""

    number: int
    user: UserLine | None = None
    replies: list[AssistantLine] = field(default_factory=list[AssistantLine])
    notes: list[Summary] = field(default_factory=list[Summary])
    """Summaries directly before this turn in the file."""
    memo: dict[object, object] = field(default_factory=dict[object, object])
    """What was worked out of this turn; emptied when a line is added to it."""

    @property
    def last_reply(self) -> AssistantLine | None:
        """The newest reply, good or not."""
        return self.replies[-1] if self.replies else None

    @property
    def answer(self) -> str | None:
        """What the character's answer is in later prompts, if there is one."""
        for line in reversed(self.replies):
            if (text := usable_reply(line)) is not None:
                return text
        return None

    @property
    def characters(self) -> int:
        """How long everything is that was said in the turn, the summaries before it included."""
        said = [*self.notes, *self.replies, *([self.user] if self.user else [])]
        return sum(len(line.content) for line in said)

    def unanswered(self) -> Turn:
        """Return the turn as it stood before anyone tried to answer it."""
        return replace(self, replies=[], memo={}) if self.replies else self

    @property
    def settled(self) -> bool:
        """Whether the turn has a whole reply, so that it cannot be tried again."""
        last = self.last_reply
        if last is None or not last.closed or last.interrupted or last.error:
            return False
        return usable_reply(last) is not None


@dataclass(slots=True)
class Transcript:
    """A session's lines in order, grouped into turns."""

    metadata: Metadata | None = None
    turns: list[Turn] = field(default_factory=list[Turn])
    trailing: list[Summary] = field(default_factory=list[Summary])
    """Summaries after the last turn: they belong to the turn that comes next."""

    def add(self, line: Line) -> None:
        """Take in the next line of the file."""
        match line:
            case Metadata():
                self.metadata = self.metadata or line
            case Summary():
                self.trailing.append(line)
            case UserLine():
                turn = self._open(line.turn)
                if turn.user is not None:
                    turn = self._new(line.turn)
                turn.user = line
                turn.memo.clear()
            case AssistantLine():
                turn = self._open(line.turn)
                turn.replies.append(line)
                turn.memo.clear()
            case _:
                pass

    def extend(self, lines: Iterable[Line]) -> None:
        """Take in several lines."""
        for line in lines:
            self.add(line)

    def copy(self) -> Transcript:
        """Return a transcript that can grow while this one stays; settled turns are shared."""
        turns = list(self.turns)
        if turns:
            last = turns[-1]
            turns[-1] = replace(last, replies=list(last.replies), memo=dict(last.memo))
        return Transcript(self.metadata, turns, list(self.trailing))

    def _open(self, number: int) -> Turn:
        if self.turns and self.turns[-1].number == number:
            return self.turns[-1]
        return self._new(number)

    def _new(self, number: int) -> Turn:
        turn = Turn(number, notes=self.trailing)
        self.trailing = []
        self.turns.append(turn)
        return turn

    @property
    def last(self) -> Turn | None:
        """The newest turn."""
        return self.turns[-1] if self.turns else None

    @property
    def next_turn(self) -> int:
        """The number of the turn that comes next."""
        number = max((turn.number for turn in self.turns), default=0) + 1
        if number > MAX_TURN:
            raise UserError("turns_used_up", limit=MAX_TURN)
        return number

    def requested(self, request_id: str) -> Turn | None:
        """Find the newest turn that a call with this ``request_id`` began."""
        for turn in reversed(self.turns):
            if turn.user is not None and turn.user.extra.get("request_id") == request_id:
                return turn
        return None

    def summaries(self) -> Iterator[Summary]:
        """Every summary of the session, in order."""
        for turn in self.turns:
            yield from turn.notes
        yield from self.trailing


def taken_over(turns: Sequence[Turn], older: Transcript) -> int:
    """Count the first turns that are an older session's last answered ones under new numbers."""
    before = [_said(turn) for turn in older.turns if turn.answer is not None]
    now = [_said(turn) for turn in turns[: len(before)]]
    for count in range(len(now), 0, -1):
        if now[:count] == before[-count:]:
            return count
    return 0


def left_behind(turns: Sequence[Turn], older: Transcript) -> Turn | None:
    """Find the turn that an older session ends with, unanswered, if nothing has been said since."""
    last = older.last
    if last is None or last.user is None or last.answer is not None:
        return None
    return last if taken_over(turns, older) == len(turns) else None


def told_turns(transcript: Transcript) -> list[Turn]:
    """Pick the turns that were answered, and the last one if it still waits for its answer."""
    told = [turn for turn in transcript.turns if turn.user is not None or turn.answer is not None]
    return [turn for turn in told if turn.answer is not None or turn is told[-1]]


def _said(turn: Turn) -> tuple[str, str]:
    line = turn.user or turn.last_reply
    return (line.content, line.timestamp) if line else ("", "")
