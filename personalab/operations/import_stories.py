"""How do chats and archives become stories that go on here?

A story never takes another one's place. A conversation that was brought before is known by its digest, whatever was
played since; a story of ours, by being the same still.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import BinaryIO

from personalab.archive.chats import lines_of, read_chat
from personalab.archive.detecting import MAX_RECORD_BYTES, Format
from personalab.archive.instances import (
    Conversation,
    InstanceFiles,
    carries_instance,
    instance_of,
    sessions_of,
)
from personalab.archive.loading import load_json
from personalab.archive.naming import id_for, numbered
from personalab.archive.veloca_lines import SessionLines
from personalab.errors import BadRecord, PersonaLabError, UserError
from personalab.operations.import_along import bring_along
from personalab.operations.imports import Imported, ImportWishes, Told
from personalab.ports import Clock
from personalab.storage.exchange import all_or_nothing
from personalab.storage.instance_files import read_instance, write_instance
from personalab.storage.stories import StoryFiles
from personalab.storage.veloca import VelocaStore
from personalab.storage.veloca_files import place_of
from personalab.story.instance import InstanceState, PlotState
from personalab.story.library import Character, began_as
from personalab.story.lines import Line, Metadata, dump_line

FIRST_SESSION = "sess_001"
_NOT_YET = "new"
"""Stands for the id until one is chosen."""
_PIECE_BYTES = 1024 * 1024
ORIGIN = "imported_from"
"""Where an instance's state names the conversation it came from."""


@dataclass
class Stories:
    """The stories a batch brings, and whom it knows by name; made anew for each batch."""

    files: StoryFiles
    wishes: ImportWishes
    now: Clock

    @cached_property
    def brought(self) -> dict[tuple[str, str], str]:
        """The instances that came from conversations, by their digests and characters."""
        found: dict[tuple[str, str], str] = {}
        for listed in self.files.all_instances():
            if isinstance(listed.record, InstanceState):
                match listed.record.source.get(ORIGIN):
                    case {"digest": str(digest)}:
                        found.setdefault((digest, listed.record.character_id), listed.entry_id)
                    case _:
                        pass
        return found

    @cached_property
    def free_ids(self) -> Iterator[str]:
        """The ids conversations get, in order: what was taken once in this batch is not asked for again."""
        return (f"inst_{number:03}" for number in count(1))

    @cached_property
    def _by_name(self) -> dict[str, str]:
        """The characters by their names, told apart by case only where need be; of several the first by id."""
        listed = [entry.record for entry in self.files.characters()]
        known = [record for record in listed if isinstance(record, Character)]
        folded = {record.name.casefold(): record.character_id for record in reversed(known)}
        return {**folded, **{record.name: record.character_id for record in reversed(known)}}

    def character(self, name: str) -> tuple[Character, bool]:
        """Find whose conversation it is, or make a character of that name, who is not saved yet."""
        if self.wishes.character is not None:
            return self.files.character(self.wishes.character), False
        found = self._by_name.get(name) or self._by_name.get(name.casefold())
        if found is not None:
            return self.files.character(found), False
        taken = set(self.files.names("characters"))
        free = next(entry_id for entry_id in numbered(id_for("char", name)) if entry_id not in taken)
        return Character(free, name, name), True

    def know(self, character: Character) -> None:
        """Remember a character that was made."""
        self._by_name.setdefault(character.name.casefold(), character.character_id)


# --- conversations of elsewhere


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A conversation that is to become a story; its sessions name an id that is not chosen yet."""

    created_at: str
    sessions: tuple[SessionLines, ...]
    digest: str


def bring_chat(stories: Stories, shown: str, file: BinaryIO) -> Imported:
    """Make a story of a chat, and a character if nobody has the name of the one who speaks."""
    file.seek(0)
    told_by = hashlib.blake2b(digest_size=16)
    while piece := file.read(_PIECE_BYTES):
        told_by.update(piece)
    file.seek(0)
    chat = read_chat(file)
    name = chat.character_name.strip() or Path(shown).stem
    lines = lines_of(chat, _NOT_YET, FIRST_SESSION, stories.now())
    sessions = (SessionLines(FIRST_SESSION, tuple(lines)),)
    arrival = _Arrival(chat.created_at or stories.now(), sessions, told_by.hexdigest())
    with stories.files.library_lock(), all_or_nothing() as made:
        character, is_new = stories.character(name)
        told: tuple[Told, ...] = ()
        if is_new:
            stories.files.save_character(character)
            made.append(stories.files.root / "characters" / character.character_id)
            told = (Told("character_made", {"character_id": character.character_id, "name": name}),)
        imported = _settle(stories, shown, "chat", character, arrival, made)
    if is_new:
        stories.know(character)
    return replace(imported, told=told)


def _settle(
    stories: Stories, shown: str, found: Format, character: Character, arrival: _Arrival, made: list[Path]
) -> Imported:
    """Make a story of a conversation, unless it was brought before."""
    known = stories.brought.get((arrival.digest, character.character_id))
    if known is not None and stories.wishes.new_id in (None, known):
        return Imported(shown, found, "instance", known, character.name, "same")
    current = arrival.sessions[-1].session_id
    state = InstanceState(_NOT_YET, character.character_id, None, current, arrival.created_at, PlotState())
    origin = {"file": Path(shown).name, "digest": arrival.digest}
    files = InstanceFiles({**state.fields(), ORIGIN: origin}, began_as(character).fields(), arrival.sessions)
    instance_id = _write(stories, files, stories.free_ids, made)
    stories.brought[arrival.digest, character.character_id] = instance_id
    return Imported(shown, found, "instance", instance_id, character.name, "new")


def _write(stories: Stories, files: InstanceFiles, free: Iterator[str], made: list[Path]) -> str:
    """Write a story under the id that was wished for, or the first free one."""
    wished, folder = stories.wishes.new_id, stories.files.instances
    for instance_id in [wished] if wished is not None else free:
        if wished is None and (folder / instance_id).exists():
            continue
        try:
            write_instance(stories.files, files, instance_id)
        except UserError as error:
            if error.code != "instance_exists" or wished is not None:
                raise
            continue
        made.append(folder / instance_id)
        return instance_id
    raise AssertionError("ids have no end")


# --- archives


def bring_archive(stories: Stories, shown: str, file: BinaryIO, path: Path | None = None) -> list[Imported]:
    """Make a story again of an archive of ours, or a story of each session of another one."""
    doc = _document(file, path)
    if carries_instance(doc):
        return [_bring_story(stories, shown, instance_of(doc))]
    if stories.wishes.character is None:
        raise UserError("character_needed")
    conversations = sessions_of(doc)
    if not conversations:
        raise BadRecord("nothing_in_archive")
    if stories.wishes.new_id is not None and len(conversations) > 1:
        raise UserError("id_for_many", count=len(conversations))
    character = stories.files.character(stories.wishes.character)
    with all_or_nothing() as made:
        return [
            _settle(stories, shown, "veloca", character, _arrival(conversation), made)
            for conversation in conversations
        ]


def _document(file: BinaryIO, path: Path | None) -> object:
    """Read an archive, with what stands in its journal where it is in use."""
    if path is not None and place_of(path).journal.exists():
        with VelocaStore(path) as store:
            return store.document()
    file.seek(0)
    return load_json(file.read(MAX_RECORD_BYTES + 1), limit=MAX_RECORD_BYTES)


def _arrival(conversation: Conversation) -> _Arrival:
    sessions = conversation.sessions(_NOT_YET)
    told = hashlib.blake2b(digest_size=16)
    for line in (line for session in sessions for line in session.lines):
        told.update(dump_line(line))
    return _Arrival(conversation.created_at, sessions, told.hexdigest())


def _bring_story(stories: Stories, shown: str, files: InstanceFiles) -> Imported:
    """Bring a story of ours, and those it is played with, where there is nobody of that id yet."""
    origin, name = files.instance_id, files.character_name
    imported = Imported(shown, "veloca", "instance", origin, name, "new")
    with stories.files.library_lock(), all_or_nothing() as made:
        if (known := _known(stories, files)) is not None:
            return replace(imported, entry_id=known, outcome="same")
        told = bring_along(stories.files, files, made)
        instance_id = _write(stories, files, numbered(origin), made)
    if instance_id != origin:
        told = (*told, Told("id_changed", {"instance_id": origin}))
    return replace(imported, entry_id=instance_id, told=told)


def _known(stories: Stories, files: InstanceFiles) -> str | None:
    """Find the story under the ids it would come in, if it is there as it is."""
    wished = stories.wishes.new_id
    fresh = _bare(files)
    for instance_id in [wished] if wished is not None else numbered(files.instance_id):
        if not (stories.files.instances / instance_id).exists():
            return None
        try:
            if _bare(read_instance(stories.files, instance_id)) == fresh:
                return instance_id
        except PersonaLabError:
            continue
    return None


def _bare(files: InstanceFiles) -> InstanceFiles:
    """Leave out whom it is played with and what it is called, to compare the rest."""

    def nameless(line: Line) -> Line:
        is_own = isinstance(line, Metadata) and line.instance_id == files.instance_id
        return replace(line, instance_id="") if is_own else line

    return replace(
        files,
        state={**files.state, "instance_id": _NOT_YET},
        sessions=tuple(
            replace(session, lines=tuple(nameless(line) for line in session.lines))
            for session in files.sessions
        ),
        character=None,
        background=None,
    )
