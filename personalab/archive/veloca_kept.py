"""Data of another program in the records of a Veloca file, preserved across import and export.

It is stored in the field ``veloca`` of the line that the record becomes, under its original names: all of a
foreign record, and of one of our own records what has changed since it was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

from personalab.archive.chat_times import moment_of, time_of, with_milliseconds
from personalab.archive.veloca import (
    COMPACTED,
    KNOWN_FIELDS,
    MAX_COUNT,
    OWN,
    ArchiveEntry,
    ArchiveSession,
    Array,
    CompactedDialogue,
    check_tools,
)
from personalab.errors import BadRecord
from personalab.story.transcript import AssistantLine, Line, Metadata, OtherLine, Summary, UserLine

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
