"""Reading a whole story from its folder, and writing one into a new folder."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from personalab.archive.instances import STATE_FILES, InstanceFiles, LibraryEntry, is_other_file
from personalab.archive.veloca_lines import SessionLines
from personalab.data_files import (
    MAX_JSON_BYTES,
    dump_json,
    make_folder,
    read_bytes,
    read_json,
    replace_file,
    sync_folder,
    without_bom,
    write_json,
    writing,
)
from personalab.errors import BadRecord, NotFound, Reason, StorageError, UserError, as_reason
from personalab.storage.reply_line import recover
from personalab.storage.stories import BESIDE, Kind, StoryFiles
from personalab.story.records import CharacterState, InstanceState, check_id, object_of
from personalab.story.transcript import AssistantLine, Line, Metadata, UserLine, dump_line, parse_line

MAX_INSTANCE_BYTES = 64 * 1024 * 1024
"""A story that leaves is held in memory whole."""
_TRIES = 3
T = TypeVar("T")


# --- out


def read_instance(stories: StoryFiles, instance_id: str) -> InstanceFiles:
    """Read all of a story, while it may be played: its state first, so that what comes after it is at most a draft."""
    folder = stories.instances / check_id(instance_id, "instance_id")
    if not folder.is_dir():
        raise NotFound("no_instance", instance_id=instance_id)
    state = _object(stories, folder / "instance_state.json", InstanceState.read)
    character_state = _object(stories, folder / "character_state.json", CharacterState.read)
    _check_size(folder, instance_id)
    sessions: list[SessionLines] = []
    documents: dict[str, Any] = {}
    pieces: dict[str, bytes] = {}
    for session_id in stories.session_ids(instance_id):
        lines, torn = _lines(folder / "sessions" / f"{session_id}.jsonl", stories)
        sessions.append(SessionLines(session_id, tuple(lines)))
        if torn:
            pieces[f"sessions/{session_id}.torn"] = torn
    for path, name in _others(folder):
        content = read_bytes(path, stories.shown(path), MAX_INSTANCE_BYTES)
        value = _json_object(content) if name.endswith(".json") else None
        if value is None:
            pieces[name] = content + pieces.get(name, b"")
        else:
            documents[name] = value
    found = InstanceState.read(state)
    return InstanceFiles(
        state,
        character_state,
        tuple(sessions),
        documents,
        pieces,
        _entry(stories, "characters", found.character_id),
        _entry(stories, "backgrounds", found.background_id),
    )


def _object(stories: StoryFiles, path: Path, read: Callable[[object], T]) -> dict[str, Any]:
    shown = stories.shown(path)
    try:
        data = object_of(read_json(path, shown))
        read(data)
    except ValueError as error:
        raise StorageError("file_broken", file=shown, reason=as_reason(error)) from error
    return data


def _check_size(folder: Path, instance_id: str) -> None:
    paths = [*(folder / "sessions").glob("*.jsonl"), *(path for path, _ in _others(folder))]
    size = sum(path.stat().st_size for path in paths if path.exists())
    if size > MAX_INSTANCE_BYTES:
        raise StorageError(
            "instance_too_large", instance_id=instance_id, actual=size, limit=MAX_INSTANCE_BYTES
        )


def _others(folder: Path) -> Iterator[tuple[Path, str]]:
    """Find the plain files of an instance that are neither its state nor a session, by their paths there."""
    for place in (folder, folder / "sessions"):
        for path in sorted(place.iterdir()) if place.is_dir() else []:
            name = path.relative_to(folder).as_posix()
            if is_other_file(name) and path.is_file() and not path.is_symlink():
                yield path, name


def _json_object(content: bytes) -> dict[str, Any] | None:
    """Read a JSON object; ``None`` for what is none, or would not be the same when written again."""
    if len(content) > MAX_JSON_BYTES:
        return None
    try:
        value: object = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _lines(path: Path, stories: StoryFiles) -> tuple[list[Line], bytes]:
    """Read a session's lines, and what of a last one that was never finished is no line."""
    shown = stories.shown(path)
    for tries_left in range(_TRIES - 1, -1, -1):
        try:
            return _parsed(read_bytes(path, shown, MAX_INSTANCE_BYTES), shown)
        except StorageError as error:
            # A line that cannot be read is looked at again, for its writer may just be at it.
            if error.code != "line_broken" or not tries_left:
                raise
    raise RuntimeError("unreachable")


def _parsed(raw: bytes, shown: str) -> tuple[list[Line], bytes]:
    lines: list[Line] = []
    *whole, last = without_bom(raw).split(b"\n")
    for number, text in enumerate(whole, start=1):
        if not text.strip():
            continue
        try:
            lines.append(parse_line(text))
        except ValueError as error:
            raise StorageError("line_broken", file=shown, line=number, reason=as_reason(error)) from error
    torn = last.strip(b"\x00").strip()
    if not torn:
        return lines, b""
    line = _open_line(torn, lines)
    return ([*lines, line], b"") if line is not None else (lines, torn + b"\n")


def _open_line(torn: bytes, before: list[Line]) -> Line | None:
    """Read a line that is being written, or was when its writer died: a reply is interrupted there."""
    said = [line for line in before if isinstance(line, UserLine | AssistantLine)]
    try:
        line = parse_line(torn)
    except ValueError:
        line = recover(torn, said[-1].turn if said else 1)
    if not isinstance(line, AssistantLine):
        return line
    return line.abandoned(said[-1].timestamp if said else "")


def _entry(stories: StoryFiles, kind: Kind, entry_id: str | None) -> LibraryEntry | None:
    """Read what the story is played with; what is not there, or cannot be read, does not go along."""
    file = "definition.json" if kind == "characters" else "background.json"
    if entry_id is None:
        return None
    try:
        path = stories.root / kind / check_id(entry_id, "id") / file
        definition = object_of(read_json(path, stories.shown(path)))
    except (UserError, StorageError, ValueError):
        return None
    beside: dict[str, Any] = {}
    for name in BESIDE:
        path = stories.beside(kind, entry_id, name)
        if name.endswith(".json") and path.is_file():
            try:
                beside[name] = object_of(read_json(path, stories.shown(path)))
            except (StorageError, ValueError):
                continue
    return LibraryEntry(entry_id, definition, beside)


# --- in


def write_instance(
    stories: StoryFiles,
    files: InstanceFiles,
    instance_id: str,
    streamed: Mapping[str, Iterable[Line]] | None = None,
) -> None:
    """Lay a story into a new folder, all of it or nothing; its lines name the new id.

    ``streamed`` gives the lines of sessions that are read while they are written, instead of their own.
    """
    target = stories.instances / check_id(instance_id, "instance_id")
    state = _state(files, instance_id)
    fresh = stories.instances / f".new-{secrets.token_hex(6)}"
    shown = f"instances/{instance_id}"
    with writing(shown):
        make_folder(fresh / "sessions")
    try:
        write_json(fresh / STATE_FILES[0], state, f"{shown}/{STATE_FILES[0]}")
        write_json(fresh / STATE_FILES[1], files.character_state, f"{shown}/{STATE_FILES[1]}")
        for session in files.sessions:
            name = f"sessions/{check_id(session.session_id, 'session_id')}.jsonl"
            given = (streamed or {}).get(session.session_id, session.lines)
            lines = _renamed(given, files.instance_id, instance_id)
            replace_file(fresh / name, map(dump_line, lines), f"{shown}/{name}")
        for name, content in _other_files(files).items():
            replace_file(fresh / name, content, f"{shown}/{name}")
        _move(fresh, target, instance_id)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _state(files: InstanceFiles, instance_id: str) -> dict[str, Any]:
    """Check that what is to be written can be played; give its state under the new id."""
    try:
        state = InstanceState.read({**files.state, "instance_id": instance_id})
        CharacterState.read(files.character_state)
    except ValueError as error:
        raise BadRecord("bad_record", field="instance", reason=as_reason(error)) from error
    names = [session.session_id for session in files.sessions]
    if state.current_session_id not in names:
        raise BadRecord("bad_record", field="current_session_id", reason=Reason("no_such_session"))
    return {**files.state, "instance_id": instance_id}


def _renamed(lines: Iterable[Line], old: str, new: str) -> Iterator[Line]:
    for line in lines:
        mine = isinstance(line, Metadata) and line.instance_id == old
        yield replace(line, instance_id=new) if mine else line


def _other_files(files: InstanceFiles) -> Mapping[str, bytes]:
    found = {name: dump_json(value) for name, value in files.documents.items()} | dict(files.pieces)
    for name in found:
        if not is_other_file(name):
            raise BadRecord("bad_record", field=name[:80], reason=Reason("no_file_name"))
    return found


def _move(fresh: Path, target: Path, instance_id: str) -> None:
    """Rename a folder to its final name, if that is free."""
    try:
        if target.exists():
            raise FileExistsError
        os.rename(fresh, target)
        sync_folder(target.parent)
    except OSError as error:
        if target.exists() and fresh.exists():
            raise UserError("instance_exists", instance_id=instance_id) from None
        raise StorageError("not_writable", file="instances", reason=as_reason(error)) from error
