"""Import of the records of a Veloca file as lines of sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from personalab.archive.chat_times import time_of
from personalab.archive.numbering import Numbering
from personalab.archive.veloca import (
    NORMAL,
    OWN,
    UNUSED,
    ArchiveEntry,
    ArchiveSession,
    Array,
    CompactedDialogue,
)
from personalab.archive.veloca_kept import (
    FOREIGN,
    keeping_dialogue,
    keeping_entry,
    keeping_session,
    object_in,
)
from personalab.archive.veloca_lenient import read_leniently
from personalab.archive.veloca_lines import SessionLines
from personalab.errors import BadRecord, Reason
from personalab.reasoning import split_reasoning
from personalab.story.records import check_id
from personalab.story.transcript import (
    AssistantLine,
    Line,
    Metadata,
    OtherLine,
    Summary,
    UserLine,
    dump_object,
    parse_line,
)

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
