"""Lossless conversion between whole stories and Veloca files.

Each session becomes a Veloca session, each spoken line an entry, and each summary a compacted dialogue.
Everything that Veloca has no field for is stored in fields named ``personalab``, so that nothing is lost on
the way back. Changes that another program made to the file are read as changes of the story.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from personalab.archive.foreign_files import object_at, text_at
from personalab.archive.foreign_lines import Numbering, time_of
from personalab.archive.veloca import ARRAYS, NORMAL, OWN, CompactedDialogue, arrays_of
from personalab.archive.veloca_lines import (
    FOREIGN,
    SessionLines,
    foreign_line,
    foreign_summary,
    read_records,
    records_of,
    sessions_in,
)
from personalab.errors import BadRecord, Reason, UserError, as_reason
from personalab.story.records import CharacterState, InstanceState, is_id
from personalab.story.transcript import Line, Metadata

FORMAT = 1
STATE_FILES = ("instance_state.json", "character_state.json")
ROOT_FILE = "veloca.json"
"""The document that keeps what another program wrote at the root of a Veloca file."""
_FORBIDDEN = frozenset('/\\:*?"<>|')
_LONGEST_NAME = 200
_NOTHING: Mapping[str, Any] = {}
_NO_PIECES: Mapping[str, bytes] = {}


@dataclass(frozen=True, slots=True)
class LibraryEntry:
    """A character or a background included with a story, so that it can be played elsewhere."""

    entry_id: str
    definition: Mapping[str, Any]
    """``definition.json`` or ``background.json``."""
    beside: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """The JSON files next to it: its card, its lorebook."""


@dataclass(frozen=True, slots=True)
class InstanceFiles:
    """Everything of an instance, and the character and the background it is played with."""

    state: Mapping[str, Any]
    """``instance_state.json``."""
    character_state: Mapping[str, Any]
    sessions: tuple[SessionLines, ...]
    documents: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """What else is JSON in its folder, by the path there: plots, how the character grew."""
    pieces: Mapping[str, bytes] = field(default_factory=lambda: _NO_PIECES)
    """What else lies there: what was torn, broken or set aside."""
    character: LibraryEntry | None = None
    background: LibraryEntry | None = None

    @property
    def instance_id(self) -> str:
        """The id it had where it comes from."""
        return InstanceState.read(self.state).instance_id

    @property
    def character_name(self) -> str:
        """What the character is called."""
        definition = self.character.definition if self.character else _NOTHING
        told: object = self.character_state.get("name") or definition.get("name")
        return told if isinstance(told, str) and told else InstanceState.read(self.state).character_id


# --- out


def archive_of(files: InstanceFiles) -> dict[str, Any]:
    """Make a Veloca document of a story."""
    state = InstanceState.read(files.state)
    root = _root_in(files)
    documents = {name: value for name, value in files.documents.items() if not root or name != ROOT_FILE}
    carried: dict[str, Any] = {
        "format": FORMAT,
        "instance": dict(files.state),
        "character_state": dict(files.character_state),
        "documents": documents,
        "pieces": {name: _packed(content) for name, content in files.pieces.items()},
        "character": _entry_fields(files.character),
        "background": _entry_fields(files.background),
    }
    return {**records_of(files.sessions, state, files.character_name), OWN: carried, **root}


def _root_in(files: InstanceFiles) -> Mapping[str, Any]:
    """Return the root's other fields, unless they would take the place of ours."""
    found: object = files.documents.get(ROOT_FILE)
    root = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    return {} if {*ARRAYS, OWN} & set(root) else root


def _entry_fields(entry: LibraryEntry | None) -> dict[str, Any] | None:
    if entry is None:
        return None
    return {"id": entry.entry_id, "definition": dict(entry.definition), "beside": dict(entry.beside)}


# --- in


def carries_instance(doc: object) -> bool:
    """Return whether a Veloca document was made from a story of ours."""
    own = cast("dict[str, Any]", doc).get(OWN) if isinstance(doc, dict) else None
    return isinstance(own, dict) and "instance" in own and "character_state" in own


def instance_of(doc: object) -> InstanceFiles:
    """Make the story again that a Veloca document was made of, with what was changed in it."""
    arrays = arrays_of(doc)
    if not carries_instance(doc):
        raise BadRecord("character_needed")
    own = object_at(cast("dict[str, Any]", doc)[OWN], OWN)
    state = _checked(own, "instance", InstanceState.read)
    if state.get("background_id") and not is_id(state["background_id"]):
        raise BadRecord("field_wrong", field=f"{OWN}.instance.background_id", reason=Reason("not_id"))
    character_state = _checked(own, "character_state", CharacterState.read)
    sessions = tuple(sessions_in(read_records(arrays), state["instance_id"]))
    if not sessions:
        raise BadRecord("nothing_in_archive")
    if state["current_session_id"] not in {session.session_id for session in sessions}:
        state = {**state, "current_session_id": sessions[-1].session_id}
    documents = object_at(own.get("documents", {}), f"{OWN}.documents")
    rest = {name: value for name, value in cast("dict[str, Any]", doc).items() if name not in (*ARRAYS, OWN)}
    if rest:
        documents = {**documents, ROOT_FILE: rest}
    pieces = object_at(own.get("pieces", {}), f"{OWN}.pieces")
    for name in (*documents, *pieces):
        if not is_other_file(name):
            raise BadRecord(
                "field_wrong",
                field=f"{OWN}.documents",
                reason=Reason("field_no_file_name", field=repr(name[:80])),
            )
    return InstanceFiles(
        state,
        character_state,
        sessions,
        {name: object_at(value, f"{OWN}.documents.{name}") for name, value in documents.items()},
        {name: _unpacked(value, f"{OWN}.pieces.{name}") for name, value in pieces.items()},
        _entry_in(own, "character"),
        _entry_in(own, "background"),
    )


def _checked(own: Mapping[str, Any], name: str, read: Callable[[object], object]) -> dict[str, Any]:
    try:
        read(own[name])
    except (UserError, ValueError) as error:
        raise BadRecord("field_wrong", field=f"{OWN}.{name}", reason=as_reason(error)) from error
    return cast("dict[str, Any]", own[name])


def _entry_in(own: Mapping[str, Any], name: str) -> LibraryEntry | None:
    value = own.get(name)
    if value is None:
        return None
    where = f"{OWN}.{name}"
    found = object_at(value, where)
    if not is_id(found.get("id")):
        raise BadRecord("field_wrong", field=f"{where}.id", reason=Reason("not_id"))
    definition = object_at(found.get("definition"), f"{where}.definition")
    return LibraryEntry(found["id"], definition, object_at(found.get("beside", {}), f"{where}.beside"))


# --- other files


def _packed(content: bytes) -> dict[str, str]:
    try:
        return {"text": content.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode("ascii")}


def _unpacked(value: object, where: str) -> bytes:
    found = object_at(value, where)
    if "base64" not in found:
        return text_at(found, "text", f"{where}.", None).encode("utf-8", "backslashreplace")
    try:
        return base64.b64decode(text_at(found, "base64", f"{where}.", None), validate=True)
    except ValueError as error:
        raise BadRecord("field_wrong", field=f"{where}.base64", reason=Reason("not_base64")) from error


def is_other_file(name: str) -> bool:
    """Return whether a path in an instance's folder may name one of its other files."""
    folder, _, file = name.rpartition("/")
    ours = name.lower() in (*STATE_FILES, "sessions") or (
        folder == "sessions" and file.lower().endswith(".jsonl")
    )
    plain = file.isprintable() and not set(file) & _FORBIDDEN and file == file.strip(" .")
    fits = 0 < len(file.encode("utf-8", "replace")) <= _LONGEST_NAME
    return folder in ("", "sessions") and not ours and plain and fits


# --- conversations of another program


@dataclass(frozen=True, slots=True)
class ForeignConversation:
    """A session of a Veloca file that is not of ours: each compaction of it begins another part."""

    name: str
    created_at: str
    parts: tuple[tuple[Line, ...], ...]
    record: Mapping[str, Any]

    @property
    def lines(self) -> tuple[Line, ...]:
        """All that is said in it, and the summaries."""
        return tuple(line for part in self.parts for line in part)

    def sessions(self, instance_id: str) -> tuple[SessionLines, ...]:
        """Make the sessions of a story of it, each the continuation of the one before."""
        made: list[SessionLines] = []
        for number, part in enumerate(self.parts, start=1):
            extra = {FOREIGN: dict(self.record)} if number == 1 else {}
            before = made[-1].session_id if made else None
            begun = Metadata(instance_id, f"sess_{number:03}", self.created_at, before, extra)
            made.append(SessionLines(begun.session_id, (begun, *part)))
        return tuple(made)


def sessions_of(doc: object) -> list[ForeignConversation]:
    """Return the conversations of a Veloca document that are in use and not empty."""
    records = read_records(arrays_of(doc))
    made: list[ForeignConversation] = []
    for session in records.sessions:
        entries = records.entries.get(session.session_id, ())
        if session.status != NORMAL or not entries:
            continue
        triggered: dict[str, list[CompactedDialogue]] = {}
        for dialogue in records.dialogues.get(session.session_id, ()):
            triggered.setdefault(dialogue.trigger_entry_id, []).append(dialogue)
        parts: list[list[Line]] = [[]]
        numbering = Numbering()
        for entry in entries:
            if entry.entry_id in triggered:
                if parts[-1]:
                    parts.append([])
                    numbering = Numbering()
                parts[-1] += [foreign_summary(dialogue) for dialogue in triggered[entry.entry_id]]
            parts[-1].append(foreign_line(entry, numbering))
        told = tuple(tuple(part) for part in parts)
        made.append(ForeignConversation(session.name, time_of(session.create_at), told, session.fields()))
    return made
