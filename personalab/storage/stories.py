"""Paths of everything in a data root, and how it is read and saved."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from personalab.data_files import (
    dump_json,
    locked_file,
    make_folder,
    read_json,
    read_start,
    replace_file,
    without_bom,
    write_json,
    writing,
)
from personalab.errors import (
    NotFound,
    PersonaLabError,
    Reason,
    StorageError,
    UserError,
    as_reason,
)
from personalab.storage.sessions import Session, SessionCache, SessionWriter
from personalab.story.macros import Names
from personalab.story.records import (
    Background,
    Character,
    CharacterState,
    InstanceState,
    PlotState,
    check_id,
    display_name,
    initial_state,
    is_id,
    object_of,
    one_line,
    rows_of,
)
from personalab.story.summary import SESSION_NAME, PlotPoint, closes_loop, previous_session, session_order
from personalab.story.transcript import AssistantLine, Line, Metadata, dump_line, parse_line

T = TypeVar("T")
Kind = Literal["characters", "backgrounds", "instances"]
CARD = "card.json"
BESIDE = (CARD, "card.png", "card.charx", "lorebook.json")
"""What may stand beside a character or a background: its card as it came, the file it came in, its lorebook."""
NOTHING: Mapping[str, bytes | None] = {}
_LONGEST_METADATA = 64 * 1024


@dataclass(frozen=True, slots=True)
class StoryListing:
    """One entry of the library: its id and either the record or why it cannot be read."""

    entry_id: str
    record: Character | Background | InstanceState | None
    error: PersonaLabError | None = None


class StoryFiles:
    """Characters, backgrounds, instances and sessions under one data root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cache = SessionCache()

    @property
    def instances(self) -> Path:
        """The folder of all instances."""
        return self.root / "instances"

    # --- the library

    def character(self, character_id: str) -> Character:
        """Read a character."""
        path = self.root / "characters" / check_id(character_id, "character_id") / "definition.json"
        if not path.exists():
            raise NotFound("no_character", character_id=character_id)
        return self._record(path, lambda data: Character.read(character_id, data))

    def background(self, background_id: str) -> Background:
        """Read a background."""
        path = self.root / "backgrounds" / check_id(background_id, "background_id") / "background.json"
        if not path.exists():
            raise NotFound("no_background", background_id=background_id)
        return self._record(path, lambda data: Background.read(background_id, data))

    def save_character(self, character: Character, beside: Mapping[str, bytes | None] = NOTHING) -> None:
        """Write a character's definition, a new one whole or not at all.

        ``beside`` are files of ``BESIDE`` that stand in its folder, ``None`` for one that is to go.
        """
        place = ("characters", character.character_id)
        self._save_entry(*place, "definition.json", character.fields(), beside)

    def save_background(self, background: Background, beside: Mapping[str, bytes | None] = NOTHING) -> None:
        """Write a background, a new one whole or not at all."""
        place = ("backgrounds", background.background_id)
        self._save_entry(*place, "background.json", background.fields(), beside)

    def beside(self, kind: Kind, entry_id: str, name: str) -> Path:
        """Find a file that may stand beside a character or a background."""
        if name not in BESIDE:
            raise ValueError(f"{name} is none of {BESIDE}")
        return self.root / kind / check_id(entry_id, "id") / name

    def library_lock(self) -> locked_file:
        """Take turns at changing characters and backgrounds."""
        return locked_file(self.root / ".lock", "characters")

    def _save_entry(
        self,
        kind: Kind,
        entry_id: str,
        name: str,
        fields: Mapping[str, Any],
        beside: Mapping[str, bytes | None],
    ) -> None:
        folder = self.root / kind / check_id(entry_id, "id")
        shown = f"{kind}/{entry_id}/{name}"
        if not set(BESIDE).issuperset(beside):
            raise ValueError(f"{sorted(beside)} are not all of {BESIDE}")
        # The card comes last: an import that broke off before it is not taken for done.
        files = {**beside, name: dump_json(fields)}
        if CARD in files:
            files[CARD] = files.pop(CARD)
        if folder.is_dir():
            for other, content in files.items():
                _replace(folder / other, content, f"{kind}/{entry_id}/{other}")
            return
        fresh = folder.with_name(f".new-{secrets.token_hex(6)}")
        with writing(shown):
            make_folder(fresh)
            try:
                for other, content in files.items():
                    if content is not None:
                        replace_file(fresh / other, content, shown)
                os.rename(fresh, folder)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)

    def characters(self) -> list[StoryListing]:
        """List the characters by id, the unreadable ones too."""
        return [self.listed("characters", name) for name in self.names("characters")]

    def backgrounds(self) -> list[StoryListing]:
        """List the backgrounds by id, the unreadable ones too."""
        return [self.listed("backgrounds", name) for name in self.names("backgrounds")]

    def all_instances(self) -> list[StoryListing]:
        """List the instances by id, the unreadable ones too."""
        return [self.listed("instances", name) for name in self.names("instances")]

    def names(self, kind: Kind) -> list[str]:
        """List the ids of a kind, in order."""
        folder = self.root / kind
        found = [entry.name for entry in folder.iterdir() if entry.is_dir()] if folder.is_dir() else []
        return sorted(name for name in found if is_id(name))

    def listed(self, kind: Kind, entry_id: str) -> StoryListing:
        """Read one entry of the library, or why it cannot be read."""
        reading: dict[Kind, Callable[[str], Character | Background | InstanceState]] = {
            "characters": self.character,
            "backgrounds": self.background,
            "instances": self.instance,
        }
        try:
            return StoryListing(entry_id, reading[kind](entry_id))
        except PersonaLabError as error:
            return StoryListing(entry_id, None, error)

    # --- instances

    def instance(self, instance_id: str) -> InstanceState:
        """Read an instance's state."""
        return self._record(self._state_path(instance_id, "instance_state.json"), InstanceState.read)

    def character_state(self, instance_id: str) -> CharacterState:
        """Read who the character is in an instance."""
        return self._record(self._state_path(instance_id, "character_state.json"), CharacterState.read)

    def people(self, instance: InstanceState, character: CharacterState, player: str) -> Names:
        """Tell who the two of a story are; one from before names were kept asks the library."""
        return Names(one_line(character.name) or self.character_name(instance.character_id), player)

    def character_name(self, character_id: str) -> str:
        """Return the name of a character in the library; its id where it cannot be read."""
        listed = self.listed("characters", character_id).record
        return display_name(listed) if isinstance(listed, Character) else character_id

    def save_instance(self, state: InstanceState, *, sync: bool = False) -> None:
        """Replace an instance's state."""
        path = self._state_path(state.instance_id, "instance_state.json")
        write_json(path, state.fields(), self.shown(path), sync=sync)

    def save_character_state(self, instance_id: str, state: CharacterState) -> None:
        """Replace who the character is in an instance."""
        path = self._state_path(instance_id, "character_state.json")
        write_json(path, state.fields(), self.shown(path), sync=True)

    def _state_path(self, instance_id: str, name: str) -> Path:
        folder = self.instances / check_id(instance_id, "instance_id")
        if not folder.is_dir():
            raise NotFound("no_instance", instance_id=instance_id)
        return folder / name

    def create_instance(
        self,
        character: Character,
        background: Background | None,
        instance_id: str | None,
        now: str,
        opening: AssistantLine | None = None,
    ) -> InstanceState:
        """Make an instance with its first session, all of it or nothing; it may open with a line of the character."""
        fresh = self.instances / f".new-{secrets.token_hex(6)}"
        with writing("instances"):
            make_folder(fresh / "sessions")
        try:
            while True:
                chosen = check_id(instance_id or self._free_id(), "instance_id")
                state = InstanceState(
                    chosen,
                    character.character_id,
                    background.background_id if background else None,
                    "sess_001",
                    now,
                    PlotState(),
                )
                self._fill_instance(fresh, state, character, opening)
                try:
                    if (self.instances / chosen).exists():
                        raise FileExistsError
                    os.rename(fresh, self.instances / chosen)
                    return state
                except OSError as error:
                    if not (self.instances / chosen).exists():
                        raise StorageError(
                            "not_writable", file="instances", reason=as_reason(error)
                        ) from error
                    if instance_id is not None:
                        raise UserError("instance_exists", instance_id=chosen) from None
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def _fill_instance(
        self, folder: Path, state: InstanceState, character: Character, opening: AssistantLine | None
    ) -> None:
        persona = initial_state(character)
        shown = f"instances/{state.instance_id}"
        first = dump_line(Metadata(state.instance_id, state.current_session_id, state.created_at))
        if opening is not None:
            first += dump_line(opening)
        write_json(folder / "instance_state.json", state.fields(), shown)
        write_json(folder / "character_state.json", persona.fields(), shown)
        replace_file(folder / "sessions" / "sess_001.jsonl", first, shown)

    def _free_id(self) -> str:
        taken = {entry.name for entry in self.instances.iterdir()} if self.instances.is_dir() else set[str]()
        number = 1
        while f"inst_{number:03}" in taken:
            number += 1
        return f"inst_{number:03}"

    # --- sessions

    def session_path(self, instance_id: str, session_id: str) -> Path:
        """Find a session's file; one with the older name ``session_001.jsonl`` is found, too."""
        folder = self._state_path(instance_id, "sessions")
        path = folder / f"{check_id(session_id, 'session_id')}.jsonl"
        older = SESSION_NAME.fullmatch(session_id)
        if older and not path.exists():
            for prefix in ("session", "sess"):
                other = folder / f"{prefix}_{older[1]}.jsonl"
                if other.exists():
                    return other
        return path

    def session(self, instance_id: str, session_id: str, *, keep: bool = True) -> Session:
        """Read a session, from memory where its file has not changed; ``keep`` it there for the next reader."""
        path = self.session_path(instance_id, session_id)
        if not path.exists() and (path.parent.parent / "instance_state.json").exists():
            raise StorageError("file_missing", file=self.shown(path))
        return self.cache.load(path, self.shown(path), keep=keep)

    def is_warm(self, instance_id: str, session_id: str) -> bool:
        """Return whether reading a session will be quick."""
        return self.cache.is_warm(self.session_path(instance_id, session_id))

    def writer(self, instance_id: str, session_id: str) -> SessionWriter:
        """Open a session for writing; the caller holds the instance's lock."""
        session = self.session(instance_id, session_id)
        return SessionWriter(session, self.shown(session.path))

    def session_ids(self, instance_id: str) -> list[str]:
        """List an instance's sessions, the oldest first."""
        folder = self._state_path(instance_id, "sessions")
        names = [path.stem for path in folder.glob("*.jsonl")] if folder.is_dir() else []
        return sorted((name for name in names if is_id(name)), key=session_order)

    def session_before(self, instance_id: str, session_id: str) -> str | None:
        """Find the session that a session continues; ``None`` for the first one, also of a loop."""
        start = self.session_path(instance_id, session_id).stem
        return previous_session(start, lambda found: self._link(instance_id, found))

    def closes_loop(self, instance_id: str, session_id: str) -> bool:
        """Return whether a session claims to continue one that came after it, or itself."""
        start = self.session_path(instance_id, session_id).stem
        return closes_loop(start, lambda found: self._link(instance_id, found))

    def _link(self, instance_id: str, session_id: str) -> str | None:
        """Read which session another one names as the one before it, if there is such a session."""
        path = self.session_path(instance_id, session_id)
        try:
            first = read_start(path, self.shown(path), _LONGEST_METADATA).split(b"\n", 1)[0]
            line = parse_line(without_bom(first))
        except (StorageError, ValueError):
            return None
        before = line.continued_from if isinstance(line, Metadata) else None
        if before is None or not is_id(before):
            return None
        found = self.session_path(instance_id, before)
        return found.stem if found.is_file() else None

    def create_session(
        self, instance_id: str, session_id: str, lines: Sequence[Line], points: Sequence[PlotPoint]
    ) -> None:
        """Write a session that is not current yet, and the plots beside it; existing files are set aside."""
        path = self.session_path(instance_id, session_id)
        self.set_session_aside(instance_id, session_id)
        plots = _plots(path)
        write_json(plots, {"points": [point.fields() for point in points]}, self.shown(plots))
        replace_file(path, map(dump_line, lines), self.shown(path))

    def set_session_aside(self, instance_id: str, session_id: str) -> str:
        """Move a session that is not current out of the way, with its plots; name its new place."""
        path = self.session_path(instance_id, session_id)
        place = ""
        for found in (_plots(path), path):
            if not found.exists():
                continue
            free = _free_name(found)
            with writing(self.shown(found)):
                os.rename(found, free)
            place = self.shown(free)
        self.cache.forget(path)
        return place

    def plot_points(self, instance_id: str, session_id: str) -> list[PlotPoint]:
        """Read the plots beside a session; none where there is no file."""
        path = _plots(self.session_path(instance_id, session_id))
        return self._record(path, _points) if path.exists() else []

    # --- all of them

    def shown(self, path: Path) -> str:
        """Name a file as an error may show it: below the data root."""
        try:
            return path.relative_to(self.root).as_posix()
        except ValueError:
            return path.name

    def _record(self, path: Path, read: Callable[[object], T]) -> T:
        data = read_json(path, self.shown(path))
        try:
            return read(data)
        except ValueError as error:
            raise StorageError("file_broken", file=self.shown(path), reason=as_reason(error)) from error


def _replace(path: Path, content: bytes | None, shown: str) -> None:
    if content is not None:
        replace_file(path, content, shown)
        return
    with writing(shown):
        path.unlink(missing_ok=True)


def _plots(session: Path) -> Path:
    return session.with_name(f"{session.stem}.plots.json")


def _points(data: object) -> list[PlotPoint]:
    return [PlotPoint.read(row) for row in rows_of(object_of(data), "points")]


def _free_name(path: Path) -> Path:
    """Find a free name next to it."""
    for number in range(1, 10_000):
        name = path.with_name(f"{path.name}.aside{number}")
        if not name.exists():
            return name
    raise StorageError("not_writable", file=path.name, reason=Reason("too_many_set_aside"))
