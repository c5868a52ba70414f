"""Export of session lines as records of a Veloca file.

A record of ours names in its field ``personalab`` the session and line it represents, and carries the rest of
that line. The text is stored in the record alone, so an edit of the record is an edit of the line. What
another program wrote into a record is written out again.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from personalab.archive.chat_times import moment_of, with_milliseconds
from personalab.archive.veloca import (
    COMPACTED,
    NORMAL,
    NOT_COMPACTED,
    OWN,
    UNUSED,
    ArchiveEntry,
    ArchiveSession,
    Array,
    CompactedDialogue,
)
from personalab.archive.veloca_kept import (
    is_foreign,
    kept_in,
    kept_time,
    name_of,
    said_at,
    told_of,
    unknown_of,
)
from personalab.story.records import InstanceState
from personalab.story.transcript import (
    AssistantLine,
    Line,
    Metadata,
    OtherLine,
    Summary,
    Transcript,
    Turn,
    UserLine,
    line_fields,
    taken_over,
    told_turns,
    usable_reply,
)

_NAMESPACE = uuid.UUID("6f0c9a53-5a4e-5d0a-9c1e-3f1f0c7b2a11")
_NO_TIME = "1970-01-01T00:00:00.000Z"


@dataclass(frozen=True, slots=True)
class SessionLines:
    """A session's file: its name without the ending, and its lines."""

    session_id: str
    lines: tuple[Line, ...]

    @property
    def metadata(self) -> Metadata | None:
        """Its first line, which says where it comes from."""
        return next((line for line in self.lines if isinstance(line, Metadata)), None)


def records_of(
    sessions: Sequence[SessionLines], state: InstanceState, character_name: str
) -> dict[Array, list[dict[str, Any]]]:
    """Make the three arrays of a Veloca file."""
    told = [_LinkedSession(session, state) for session in sessions]
    by_name = {one.session.session_id: one for one in told}
    for one in told:
        older = by_name.get(one.continued_from or "")
        if older is not None and older is not one and one.continued_from != state.current_session_id:
            older.cover(one)
    arrays: dict[Array, list[dict[str, Any]]] = {"sessions": [], "entries": [], "compacted_dialogues": []}
    before: _LinkedSession | None = None
    for one in told:
        arrays["entries"] += one.entries()
        older = by_name.get(one.continued_from or "")
        dialogues, carried = one.dialogues(older if older is not None and older is not one else before)
        arrays["compacted_dialogues"] += dialogues
        name = f"{character_name} · {state.instance_id} · {one.session.session_id}"
        arrays["sessions"].append(one.record(name, carried))
        before = one
    return arrays


class _LinkedSession:
    """A session, with what its lines mean for each other."""

    def __init__(self, session: SessionLines, state: InstanceState) -> None:
        self.session = session
        metadata = session.metadata
        self.continued_from = metadata.continued_from if metadata else None
        begun = (metadata.created_at if metadata else "") or state.created_at
        place = f"{state.instance_id}/{session.session_id}/{begun}"
        self.uuid = uuid.uuid5(_NAMESPACE, place.encode("utf-8", "backslashreplace").decode("utf-8"))
        self.transcript = Transcript()
        self.turn_at: dict[int, Turn] = {}
        for place, line in enumerate(session.lines):
            self.transcript.add(line)
            if isinstance(line, UserLine | AssistantLine):
                self.turn_at[place] = self.transcript.turns[-1]
        self.times = _times(session.lines, begun)
        self.summed_up_to = max(
            (place for place, line in enumerate(session.lines) if _sums_up(line)), default=-1
        )
        self.covered: frozenset[int] = frozenset()
        self.fresh_from = 0

    def cover(self, newer: _LinkedSession) -> None:
        """Record the turns that are only in the summary of the following session."""
        count = taken_over(newer.transcript.turns, self.transcript)
        told = told_turns(self.transcript)
        if told and told[-1].answer is None:
            if _same_words(newer.transcript.turns[count:], told[-1]):
                count += 1
            else:
                told.pop()
        newer.fresh_from = count
        if any(isinstance(line, Summary) for line in newer.session.lines):
            kept = {id(turn) for turn in told[len(told) - count :]}
            self.covered = frozenset(id(turn) for turn in self.transcript.turns) - kept

    def entry_id(self, place: int) -> str:
        """Name the entry of a line."""
        return str(uuid.uuid5(self.uuid, f"entry {place}"))

    def entries(self) -> list[dict[str, Any]]:
        """Make an entry of each line that someone says."""
        return [self._entry(place, turn) for place, turn in self.turn_at.items()]

    def _entry(self, place: int, turn: Turn) -> dict[str, Any]:
        line = cast("UserLine | AssistantLine", self.session.lines[place])
        status = NORMAL
        fields = line_fields(line)
        del fields["content"]
        own: dict[str, Any] = {"line": place, "fields": fields}
        if isinstance(line, AssistantLine):
            answers = [one for one in turn.replies if usable_reply(one) is not None]
            status = NORMAL if answers and answers[-1] is line else UNUSED
            if line.empty or line.error:
                own["content"] = line.content
        own["status"] = status
        compacted = self._is_compacted(place, turn)
        if compacted:
            own["compacted"] = True
        tokens, tools = told_of(line)
        entry = ArchiveEntry(
            self.entry_id(place),
            str(self.uuid),
            line.content,
            "user" if isinstance(line, UserLine) else "assistant",
            tokens,
            status,
            tools,
            self.times[place],
            COMPACTED if compacted else NOT_COMPACTED,
            {**unknown_of(kept_in(line), "entries"), OWN: own},
        )
        return entry.fields()

    def _is_compacted(self, place: int, turn: Turn) -> bool:
        """Return whether a line is covered by a summary: of the following session, or of another program."""
        if id(turn) in self.covered:
            return True
        kept = kept_in(self.session.lines[place])
        return place < self.summed_up_to and kept.get("is_compaction") == COMPACTED

    def dialogues(self, before: _LinkedSession | None) -> tuple[list[dict[str, Any]], set[int]]:
        """Make a compacted dialogue of each summary; tell which have no entry that could be their trigger."""
        made: list[dict[str, Any]] = []
        carried: set[int] = set()
        for place, line in enumerate(self.session.lines):
            if not isinstance(line, Summary):
                continue
            trigger = self._trigger(place, before)
            if trigger is None:
                carried.add(place)
                continue
            fields = line_fields(line)
            del fields["content"]
            when = kept_time(line) or self.times[place]
            own = {
                "session_id": self.session.session_id,
                "line": place,
                "fields": fields,
                "status": NORMAL,
                "create_at": when,
            }
            record_id = str(uuid.uuid5(self.uuid, f"summary {place}"))
            extra = {**unknown_of(kept_in(line), "compacted_dialogues"), OWN: own}
            dialogue = CompactedDialogue(record_id, trigger, line.content, when, NORMAL, extra)
            made.append(dialogue.fields())
        return made, carried

    def _trigger(self, place: int, before: _LinkedSession | None) -> str | None:
        """Find the entry a model goes on from: what was taken over is still seen, whichever order they stand in."""
        fresh = {id(turn) for turn in self.transcript.turns[self.fresh_from :]}
        entries = list(self.turn_at)
        ours = not _sums_up(self.session.lines[place])
        if entries and ours and not any(at < place and id(self.turn_at[at]) in fresh for at in entries):
            return self.entry_id(entries[0])
        following = [at for at in entries if at > place]
        if following or entries:
            return self.entry_id(following[0] if following else entries[-1])
        return before.entry_id(max(before.turn_at)) if before is not None and before.turn_at else None

    def record(self, name: str, carried: set[int]) -> dict[str, Any]:
        """Make the session's own record, with the lines that have no record of theirs."""
        rest = [
            [place, line_fields(line)]
            for place, line in enumerate(self.session.lines)
            if isinstance(line, Metadata | OtherLine) or place in carried
        ]
        first = self.session.metadata
        begun = kept_time(first) or (self.times[0] if self.times else _NO_TIME)
        name = name_of(first, name)
        own = {"session_id": self.session.session_id, "lines": rest, "name": name, "create_at": begun}
        extra = {**unknown_of(kept_in(first), "sessions"), OWN: own}
        return ArchiveSession(str(self.uuid), name, NORMAL, begun, extra).fields()


def _same_words(turns: Sequence[Turn], last: Turn) -> bool:
    if not turns or turns[0].user is None or last.user is None:
        return False
    return (turns[0].user.content, turns[0].user.timestamp) == (last.user.content, last.user.timestamp)


def _times(lines: Sequence[Line], begun: str) -> list[str]:
    """Return a time for every line: one without takes its neighbour's."""
    known = [said_at(line) if isinstance(line, UserLine | AssistantLine) else "" for line in lines]
    first = moment_of(begun)
    last = with_milliseconds(first) if first else next((time for time in known if time), _NO_TIME)
    times: list[str] = []
    for time in known:
        last = time or last
        times.append(last)
    return times


def _sums_up(line: Line) -> bool:
    """Return whether a line is a summary that another program made of the preceding lines."""
    return isinstance(line, Summary) and is_foreign(line)
