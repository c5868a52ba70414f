"""Conversion between session lines and records of a Veloca file.

A record of ours names in its field ``personalab`` the session and line it represents, and carries the rest of
that line. The text is stored in the record alone, so an edit of the record is an edit of the line.

What another program wrote is stored in the field ``veloca`` of the line that the record becomes, under its
original names, and written out again: all of a foreign record, and of one of our own records what has changed
since it was written.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from personalab.archive.foreign_lines import Numbering, moment_of, time_of, with_milliseconds
from personalab.archive.veloca import (
    COMPACTED,
    KNOWN_FIELDS,
    MAX_COUNT,
    NORMAL,
    NOT_COMPACTED,
    OWN,
    UNUSED,
    ArchiveEntry,
    ArchiveSession,
    Array,
    CompactedDialogue,
    check_tools,
    read_leniently,
)
from personalab.errors import BadRecord, Reason
from personalab.reasoning import split_reasoning
from personalab.story.records import InstanceState, check_id
from personalab.story.transcript import (
    AssistantLine,
    Line,
    Metadata,
    OtherLine,
    Summary,
    Transcript,
    Turn,
    UserLine,
    dump_object,
    line_fields,
    parse_line,
    taken_over,
    told_turns,
    usable_reply,
)

# --- data of another program


FOREIGN = "veloca"
_SAMPLE_ID = "00000000-0000-4000-8000-000000000000"
_SAMPLE_TIME = "1970-01-01T00:00:00.000Z"
Said = UserLine | AssistantLine
Keeping = TypeVar("Keeping", bound=UserLine | AssistantLine | Summary | Metadata)


def object_in(value: object) -> Mapping[str, Any]:
    """Take a value as an object; what is none has nothing in it."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def kept_in(line: Line | None) -> Mapping[str, Any]:
    """Return what is kept in a line."""
    return {} if line is None or isinstance(line, OtherLine) else object_in(line.extra.get(FOREIGN))


def is_foreign(summary: Summary) -> bool:
    """Return whether a summary was made by another program."""
    return "trigger_entry_id" in kept_in(summary)


# --- out


def unknown_of(fields: Mapping[str, Any], array: Array) -> dict[str, Any]:
    """Return the fields that are neither the format's nor ours."""
    return {name: value for name, value in fields.items() if name not in KNOWN_FIELDS[array] and name != OWN}


def told_of(line: Said) -> tuple[int | float, Mapping[str, Any] | None]:
    """Find the tokens and the tool calls that a line tells of, if they are such."""
    kept, usage = kept_in(line), object_in(line.extra.get("usage"))
    tokens = kept.get("token_consumption", usage.get("total_tokens", 0))
    counts = isinstance(tokens, int | float) and not isinstance(tokens, bool) and 0 <= tokens <= MAX_COUNT
    sample = ArchiveEntry(_SAMPLE_ID, _SAMPLE_ID, "", "user", 0, 0, None, _SAMPLE_TIME, 1).fields()
    try:
        tools = ArchiveEntry.read({**sample, "tools": kept.get("tools")}).tools
        check_tools(tools)
    except BadRecord:
        tools = None
    return (tokens if counts else 0), tools


def kept_time(line: Line | None) -> str:
    """Return the time of a record as it is kept; blank where it is none."""
    told = kept_in(line).get("create_at")
    try:
        ArchiveSession.read({"session_id": _SAMPLE_ID, "name": "", "create_at": told})
    except BadRecord:
        return ""
    return cast("str", told)


def said_at(line: Said) -> str:
    """Return the time of a line as its record has it: the kept one while it still fits; blank if there is none."""
    moment = moment_of(line.timestamp)
    if moment is None:
        return ""
    kept = kept_time(line)
    return kept if kept and time_of(kept) == time_of(line.timestamp) else with_milliseconds(moment)


def name_of(metadata: Metadata | None, otherwise: str) -> str:
    """Return a session's name as another program set it."""
    kept: object = kept_in(metadata).get("name")
    return kept if isinstance(kept, str) else otherwise


# --- and back


def keeping_entry(line: Said, entry: ArchiveEntry, own: Mapping[str, Any]) -> Said:
    """Keep in a line what is not as we wrote it in its record; ``own`` is our mark in it."""
    kept = dict(kept_in(line))
    tokens, tools = told_of(line)
    if entry.token_consumption != tokens:
        kept["token_consumption"] = entry.token_consumption
    if entry.tools != tools:
        kept["tools"] = entry.tools
    was, now = own.get("compacted") is True, entry.is_compaction == COMPACTED
    if now and not was:
        kept["is_compaction"] = COMPACTED
    elif was and not now:
        kept.pop("is_compaction", None)
    when, before = time_of(entry.create_at), said_at(line)
    if when and before and entry.create_at != before:
        kept["create_at"] = entry.create_at
        line = replace(line, timestamp=when)
    return _keeping(line, _with_unknown(kept, entry.extra, "entries"))


def keeping_dialogue(line: Summary, dialogue: CompactedDialogue, own: Mapping[str, Any]) -> Summary:
    """Keep in a summary what is not as we wrote it in its record."""
    kept = dict(kept_in(line))
    if dialogue.create_at != own.get("create_at", dialogue.create_at):
        kept["create_at"] = dialogue.create_at
    return _keeping(line, _with_unknown(kept, dialogue.extra, "compacted_dialogues"))


def keeping_session(line: Metadata, session: ArchiveSession) -> Metadata:
    """Keep in the first line of a session what is not as we wrote it in its record."""
    kept, own = dict(kept_in(line)), object_in(session.extra.get(OWN))
    if session.name != own.get("name", session.name):
        kept["name"] = session.name
    if session.create_at != own.get("create_at", session.create_at):
        kept["create_at"] = session.create_at
    return _keeping(line, _with_unknown(kept, session.extra, "sessions"))


def _with_unknown(kept: dict[str, Any], extra: Mapping[str, Any], array: Array) -> dict[str, Any]:
    before, now = unknown_of(kept, array), unknown_of(extra, array)
    if now == before:
        return kept
    return {name: value for name, value in kept.items() if name not in before} | now


def _keeping(line: Keeping, kept: Mapping[str, Any]) -> Keeping:
    """Put what is kept into a line; one that has the same already stays as it is."""
    if kept == kept_in(line):
        return line
    extra = {name: value for name, value in line.extra.items() if name != FOREIGN}
    return replace(line, extra={**extra, FOREIGN: dict(kept)} if kept else extra)


# --- export


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


# --- import


Key = tuple[int, int, int]
"""Where a line stands: at or behind which line of ours, and the how manieth there."""


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a file, by the session they belong to."""

    sessions: tuple[ArchiveSession, ...]
    entries: Mapping[str, Sequence[ArchiveEntry]]
    dialogues: Mapping[str, Sequence[CompactedDialogue]]
    """Those that came from another program, by the session of their trigger."""
    own: Mapping[str, Sequence[CompactedDialogue]]
    """Our own records, by the name of their session."""


def read_records(arrays: Mapping[Array, Sequence[Any]]) -> Records:
    """Read the arrays of a file; the first record that is wrong is named."""
    rows = enumerate(arrays["sessions"])
    sessions = [
        cast("ArchiveSession", read_leniently("sessions", row, f"sessions[{at}].")) for at, row in rows
    ]
    entries: dict[str, list[ArchiveEntry]] = {}
    session_of: dict[str, str] = {}
    for at, row in enumerate(arrays["entries"]):
        entry = cast("ArchiveEntry", read_leniently("entries", row, f"entries[{at}]."))
        entries.setdefault(entry.session_id, []).append(entry)
        session_of[entry.entry_id] = entry.session_id
    dialogues: dict[str, list[CompactedDialogue]] = {}
    own: dict[str, list[CompactedDialogue]] = {}
    for at, row in enumerate(arrays["compacted_dialogues"]):
        where = f"compacted_dialogues[{at}]."
        dialogue = cast("CompactedDialogue", read_leniently("compacted_dialogues", row, where))
        name = object_in(dialogue.extra.get(OWN)).get("session_id")
        if isinstance(name, str):
            own.setdefault(name, []).append(dialogue)
        elif (session_id := session_of.get(dialogue.trigger_entry_id)) and dialogue.status == NORMAL:
            dialogues.setdefault(session_id, []).append(dialogue)
    return Records(tuple(sessions), entries, dialogues, own)


def sessions_in(records: Records, instance_id: str) -> list[SessionLines]:
    """Make the sessions of a file of ours again; one that was added to it comes last."""
    made: list[SessionLines] = []
    added: list[ArchiveSession] = []
    for session in records.sessions:
        name = object_in(session.extra.get(OWN)).get("session_id")
        if session.status != NORMAL:
            continue
        if name is None:
            added.append(session)
        else:
            made.append(SessionLines(check_id(name, "session_id"), _lines_in(session, name, records)))
    for session in added:
        name = _free_name({one.session_id for one in made})
        begun = Metadata(instance_id, name, time_of(session.create_at), extra={FOREIGN: session.fields()})
        made.append(SessionLines(name, (begun, *_lines_in(session, "", records))))
    names = [one.session_id.lower() for one in made]
    if len(set(names)) < len(names):
        raise BadRecord("field_wrong", field=f"sessions.{OWN}.session_id", reason=Reason("duplicate"))
    return made


def _free_name(taken: set[str]) -> str:
    number = 1
    while f"sess_{number:03}" in taken:
        number += 1
    return f"sess_{number:03}"


def _lines_in(session: ArchiveSession, name: str, records: Records) -> tuple[Line, ...]:
    """Put the lines of a session in order: ours where they stood, others behind the record they follow."""
    rows: list[tuple[Key, Line | ArchiveEntry]] = []
    carried: object = object_in(session.extra.get(OWN)).get("lines")
    for row in cast("list[object]", carried) if isinstance(carried, list) else []:
        if (found := _carried_in(row)) is not None:
            rows.append(found)
    place_of: dict[str, Key] = {}
    last: Key = (-1, 1, 0)
    taken: set[int] = set()
    for entry in records.entries.get(session.session_id, ()):
        placed = _entry_in(entry)
        if placed is not None and placed[0] in taken:
            placed = None  # a copy of the existing entry
        if placed is not None:
            taken.add(placed[0])
        last = (placed[0], 0, 0) if placed is not None else (last[0], 1, last[2] + 2)
        place_of[entry.entry_id] = last
        if placed is None:
            rows.append((last, entry))
        elif placed[1] is not None:
            rows.append((last, placed[1]))
    for dialogue in records.own.get(name, ()):
        if (found := _dialogue_in(dialogue)) is not None:
            rows.append(found)
    for dialogue in records.dialogues.get(session.session_id, ()):
        first, second, third = place_of[dialogue.trigger_entry_id]
        rows.append(((first, second, third - 1), foreign_summary(dialogue)))
    rows.sort(key=lambda row: row[0])
    lines = list(_numbered(rows))
    first = next((at for at, line in enumerate(lines) if isinstance(line, Metadata)), None)
    if first is not None:
        lines[first] = keeping_session(cast("Metadata", lines[first]), session)
    return tuple(lines)


def _carried_in(row: object) -> tuple[Key, Line] | None:
    match cast("Any", row):
        case [int(place), fields]:
            line = _parsed(object_in(fields))
            return ((place, 0, 0), line) if line is not None else None
        case _:
            return None


def _numbered(rows: Iterable[tuple[Key, Line | ArchiveEntry]]) -> Iterator[Line]:
    numbering = Numbering()
    for key, row in rows:
        if isinstance(row, ArchiveEntry):
            yield foreign_line(row, numbering)
        else:
            yield from numbering.take([row], key[0])


def _parsed(fields: Mapping[str, Any]) -> Line | None:
    try:
        return parse_line(dump_object(fields))
    except ValueError:
        return None


def _entry_in(entry: ArchiveEntry) -> tuple[int, Line | None] | None:
    """Make an entry's line again, none if it was deleted since; ``None`` for an entry that is not ours."""
    own = object_in(entry.extra.get(OWN))
    place, fields = own.get("line"), own.get("fields")
    if not isinstance(place, int) or not isinstance(fields, dict) or entry.role == "system":
        return None
    if entry.status == UNUSED and own.get("status") == NORMAL:
        return place, None
    whole = {"role": entry.role, **cast("dict[str, Any]", fields), "content": entry.message}
    line = _parsed(whole) if whole["role"] == entry.role else None
    if not isinstance(line, UserLine | AssistantLine):
        return None
    if isinstance(line, AssistantLine) and "content" in own and own["content"] != line.content:
        line = replace(line, empty=False, error=False)
    return place, keeping_entry(line, entry, own)


def _dialogue_in(dialogue: CompactedDialogue) -> tuple[Key, Line] | None:
    own = object_in(dialogue.extra.get(OWN))
    place, fields = own.get("line"), own.get("fields")
    if dialogue.status == UNUSED or not isinstance(place, int) or not isinstance(fields, dict):
        return None
    line = _parsed({**cast("dict[str, Any]", fields), "content": dialogue.summary})
    if isinstance(line, Summary):
        line = keeping_dialogue(line, dialogue, own)
    return ((place, 0, 0), line) if line is not None else None


# --- records of another program


def foreign_line(entry: ArchiveEntry, numbering: Numbering) -> Line:
    """Make a line of an entry; one without a speaker, or not in use, is kept and never used."""
    if entry.status == UNUSED or entry.role == "system":
        return OtherLine({"type": FOREIGN, "entry": entry.fields()})
    rest = {name: value for name, value in entry.fields().items() if name not in ("message", "role")}
    when, extra = time_of(entry.create_at), {FOREIGN: rest}
    if entry.role == "user":
        return UserLine(entry.message, numbering.said(), when, extra)
    reasoning, text = split_reasoning(entry.message)
    return AssistantLine(text, numbering.replied(), when, extra=extra, reasoning=reasoning)


def foreign_summary(dialogue: CompactedDialogue) -> Summary:
    """Make a summary of a compacted dialogue."""
    rest = {name: value for name, value in dialogue.fields().items() if name != "summary"}
    return Summary(dialogue.summary, {FOREIGN: rest})
