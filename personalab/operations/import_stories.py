"""Import of chats and archives as stories that can be continued, with the character and background they name.

An imported story never replaces another one. A conversation that was imported before is recognized by its
digest, even if it was played since; a story of ours is recognized if its content is unchanged. The character and
the background that a story is played with are saved where their ids are free.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from personalab.archive.books import read_book
from personalab.archive.cards import clean_name, read_card
from personalab.archive.chats import each_line_of, read_chat
from personalab.archive.foreign_files import MAX_CARD_BYTES, MAX_RECORD_BYTES, id_for, load_json, numbered
from personalab.archive.instances import (
    ForeignConversation,
    InstanceFiles,
    LibraryEntry,
    carries_instance,
    instance_of,
    sessions_of,
)
from personalab.archive.veloca_lines import SessionLines
from personalab.data_files import dump_json, read_bytes
from personalab.errors import BadRecord, PersonaLabError, StorageError, UserError, as_reason
from personalab.operations.imports import Imported, ImportFile, ImportNote, ImportOptions
from personalab.ports import Clock
from personalab.storage.exchange import all_or_nothing
from personalab.storage.instance_files import read_instance, write_instance
from personalab.storage.stories import Kind, StoryFiles
from personalab.storage.veloca import VelocaStore
from personalab.storage.veloca_files import place_of
from personalab.story.records import (
    MAX_NAME,
    Background,
    Character,
    InstanceState,
    PlotState,
    display_name,
    initial_state,
    is_id,
    placeholder,
)
from personalab.story.transcript import Line, Metadata, dump_line

FIRST_SESSION = "sess_001"
_NOT_YET = "new"
"""Stands for the id until one is chosen."""
_PIECE_BYTES = 1024 * 1024
_SHOWN_NAMES = 10
ORIGIN = "imported_from"
"""Where an instance's state names the conversation it came from."""


@dataclass
class StoryImports:
    """The stories that are here, and whom they are told with, as far as a batch has looked."""

    files: StoryFiles
    options: ImportOptions
    now: Clock
    brought: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """The instances that came from conversations, by their digests and characters."""
    _known: tuple[dict[str, str], ...] = field(default_factory=lambda: ({}, {}, {}, {}))
    """Characters by name, by what they are called, and by both whatever the case; of several the first."""
    _seen: set[tuple[Kind, str]] = field(default_factory=set[tuple[Kind, str]])

    def look(self) -> None:
        """Take in what is new, whoever brought it; the caller holds the library's lock."""
        for entry_id in self._fresh("instances"):
            record = self.files.listed("instances", entry_id).record
            if isinstance(record, InstanceState):
                match record.source.get(ORIGIN):
                    case {"digest": str(digest)}:
                        self.brought.setdefault((digest, record.character_id), entry_id)
                    case _:
                        pass
        for entry_id in self._fresh("characters"):
            record = self.files.listed("characters", entry_id).record
            if isinstance(record, Character):
                names = (
                    record.name,
                    display_name(record),
                    record.name.casefold(),
                    display_name(record).casefold(),
                )
                for known, name in zip(self._known, names, strict=True):
                    known.setdefault(name, entry_id)

    def _fresh(self, kind: Kind) -> list[str]:
        folder = self.files.root / kind
        found = os.listdir(folder) if folder.is_dir() else []
        fresh = sorted(name for name in found if (kind, name) not in self._seen and is_id(name))
        self._seen.update((kind, name) for name in fresh)
        return fresh

    @cached_property
    def free_ids(self) -> Iterator[str]:
        """The ids conversations get, in order: what was taken once in this batch is not asked for again."""
        return (f"inst_{number:03}" for number in count(1))

    def _named(self, name: str) -> str | None:
        wanted = (name, name, name.casefold(), name.casefold())
        found = (known.get(each) for known, each in zip(self._known, wanted, strict=True))
        return next((entry_id for entry_id in found if entry_id is not None), None)

    def character(self, name: str, was: str | None = None) -> tuple[Character, bool]:
        """Find whose conversation it is, or make a character of that name, who is not saved yet.

        ``was`` is the id it had where the conversation left: here it may be someone else's.
        """
        if self.options.character is not None:
            return self.files.character(self.options.character), False
        here = self.files.listed("characters", was).record if was is not None else None
        if isinstance(here, Character) and name.casefold() in (
            here.name.casefold(),
            display_name(here).casefold(),
        ):
            return here, False
        if (found := self._named(name)) is not None:
            return self.files.character(found), False
        taken = set(self.files.names("characters"))
        free = next(entry_id for entry_id in numbered(id_for("char", name)) if entry_id not in taken)
        return placeholder(free, name), True


# --- conversations of elsewhere


@dataclass(frozen=True, slots=True)
class _Conversation:
    """A conversation that is to become a story; its sessions name an id that is not chosen yet."""

    created_at: str
    sessions: tuple[SessionLines, ...]
    digest: str
    streamed: Callable[[], Mapping[str, Iterable[Line]]] = dict[str, Iterable[Line]]
    """Yields the lines of sessions that are not held in memory, reading them each time."""


def import_chat(stories: StoryImports, file: ImportFile) -> Imported:
    """Make a story of a chat, and a character if nobody has the name of the one who speaks."""
    stream = file.stream
    stream.seek(0)
    digest = hashlib.blake2b(digest_size=16)
    while piece := stream.read(_PIECE_BYTES):
        digest.update(piece)
    stream.seek(0)
    chat = read_chat(stream)
    name = (clean_name(chat.character_name) or file.called)[:MAX_NAME]
    if not name and stories.options.character is None:
        raise UserError("chat_nameless")
    now = stories.now()
    conversation = _Conversation(
        chat.created_at or now,
        (SessionLines(FIRST_SESSION, ()),),
        digest.hexdigest(),
        lambda: {FIRST_SESSION: each_line_of(chat, _NOT_YET, FIRST_SESSION, now)},
    )
    notes: list[ImportNote] = []
    with stories.files.library_lock(), all_or_nothing() as made:
        stories.look()
        character, is_new = stories.character(name, chat.character_id)
        if is_new:
            stories.files.save_character(character)
            made.append(stories.files.root / "characters" / character.character_id)
            notes.append(ImportNote("character_made", {"character_id": character.character_id, "name": name}))
        imported = _save_conversation(stories, file, character, conversation, made)
    if chat.others:
        names = ", ".join(sorted(chat.others)[:_SHOWN_NAMES]) + (
            "…" if len(chat.others) > _SHOWN_NAMES else ""
        )
        notes.append(ImportNote("several_speak", {"names": names, "name": character.name}))
    return replace(imported, notes=tuple(notes))


def _save_conversation(
    stories: StoryImports,
    file: ImportFile,
    character: Character,
    conversation: _Conversation,
    made: list[Path],
) -> Imported:
    """Make a story of a conversation, unless it was brought before."""
    known = stories.brought.get((conversation.digest, character.character_id))
    if known is not None and stories.options.new_id in (None, known):
        return file.became("instance", known, character.name, "same")
    current = conversation.sessions[-1].session_id
    state = InstanceState(
        _NOT_YET, character.character_id, None, current, conversation.created_at, PlotState()
    )
    origin = {"file": Path(file.shown).name, "digest": conversation.digest}
    files = InstanceFiles(
        {**state.fields(), ORIGIN: origin}, initial_state(character).fields(), conversation.sessions
    )
    instance_id = _write(stories, files, stories.free_ids, made, conversation.streamed)
    return file.became("instance", instance_id, character.name, "new")


def _write(
    stories: StoryImports,
    files: InstanceFiles,
    free: Iterator[str],
    made: list[Path],
    streamed: Callable[[], Mapping[str, Iterable[Line]]] = dict[str, Iterable[Line]],
) -> str:
    """Write a story under the id that was wished for, or the first free one."""
    wished, folder = stories.options.new_id, stories.files.instances
    for instance_id in [wished] if wished is not None else free:
        if wished is None and (folder / instance_id).exists():
            continue
        try:
            write_instance(stories.files, files, instance_id, streamed())
        except UserError as error:
            if error.code != "instance_exists" or wished is not None:
                raise
            continue
        made.append(folder / instance_id)
        return instance_id
    raise AssertionError("ids have no end")


# --- archives


def import_archive(stories: StoryImports, file: ImportFile) -> list[Imported]:
    """Make a story again of an archive of ours, or a story of each session of another one."""
    doc = _document(file)
    if carries_instance(doc):
        return [_import_story(stories, file, instance_of(doc))]
    if stories.options.character is None:
        raise UserError("character_needed")
    conversations = sessions_of(doc)
    if not conversations:
        raise BadRecord("nothing_in_archive")
    if stories.options.new_id is not None and len(conversations) > 1:
        raise UserError("id_for_many", count=len(conversations))
    character = stories.files.character(stories.options.character)
    digested = [_digested(conversation) for conversation in conversations]
    with stories.files.library_lock(), all_or_nothing() as made:
        stories.look()
        return [_save_conversation(stories, file, character, conversation, made) for conversation in digested]


def _document(file: ImportFile) -> object:
    """Read an archive, including its journal if it is in use."""
    if file.path is not None and place_of(file.path).journal.exists():
        with VelocaStore(file.path) as store:
            return store.document()
    file.stream.seek(0)
    return load_json(file.stream.read(MAX_RECORD_BYTES + 1), limit=MAX_RECORD_BYTES)


def _digested(conversation: ForeignConversation) -> _Conversation:
    sessions = conversation.sessions(_NOT_YET)
    digest = hashlib.blake2b(digest_size=16)
    for line in (line for session in sessions for line in session.lines):
        digest.update(dump_line(line))
    return _Conversation(conversation.created_at, sessions, digest.hexdigest())


def _import_story(stories: StoryImports, file: ImportFile, files: InstanceFiles) -> Imported:
    """Bring a story of ours, and those it is played with, where there is nobody of that id yet."""
    origin, name = files.instance_id, files.character_name
    imported = file.became("instance", origin, name, "new")
    with stories.files.library_lock(), all_or_nothing() as made:
        if (known := _known(stories, files)) is not None:
            return replace(imported, entry_id=known, outcome="same")
        notes = import_library_entries(stories.files, files, made)
        instance_id = _write(stories, files, numbered(origin), made)
    if instance_id != origin:
        notes = (*notes, ImportNote("id_changed", {"instance_id": origin}))
    return replace(imported, entry_id=instance_id, notes=notes)


def _known(stories: StoryImports, files: InstanceFiles) -> str | None:
    """Find the story under the ids it would come in, if it is there as it is."""
    wished = stories.options.new_id
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


# --- the character and the background of a story


_READERS: Mapping[str, Callable[[object], object]] = {
    "card.json": read_card,
    "lorebook.json": lambda data: read_book(data, "lorebook"),
}
"""What may come along beside a definition, and how it is checked."""
T = TypeVar("T")


def import_library_entries(
    stories: StoryFiles, files: InstanceFiles, made: list[Path]
) -> tuple[ImportNote, ...]:
    """Save a story's character and background, and report existing ones that are kept; the caller holds the lock."""
    notes: list[ImportNote] = []
    if (entry := files.character) is not None:
        character = _read(entry, "character", Character.read)
        character = replace(character, name=clean_name(character.name)[:MAX_NAME] or entry.entry_id)
        named = {"character_id": entry.entry_id}
        if _is_free(stories, "characters", entry.entry_id, made):
            stories.save_character(character, _beside(entry))
            notes.append(ImportNote("character_brought", named))
        elif not _is_same(stories, "characters", entry, character.fields(), stories.character):
            notes.append(ImportNote("character_kept", named))
    if (entry := files.background) is not None:
        background = _read(entry, "background", Background.read)
        named = {"background_id": entry.entry_id}
        if _is_free(stories, "backgrounds", entry.entry_id, made):
            stories.save_background(background, _beside(entry))
            notes.append(ImportNote("background_brought", named))
        elif not _is_same(stories, "backgrounds", entry, background.fields(), stories.background):
            notes.append(ImportNote("background_kept", named))
    return tuple(notes)


def _read(entry: LibraryEntry, where: str, read: Callable[[str, object], T]) -> T:
    try:
        return read(entry.entry_id, dict(entry.definition))
    except ValueError as error:
        raise BadRecord(
            "field_wrong", field=f"personalab.{where}.definition", reason=as_reason(error)
        ) from error


def _is_free(stories: StoryFiles, kind: Kind, entry_id: str, made: list[Path]) -> bool:
    folder = stories.root / kind / entry_id
    if folder.exists():
        return False
    made.append(folder)
    return True


def _beside(entry: LibraryEntry) -> dict[str, bytes | None]:
    for name, check in _READERS.items():
        if name in entry.beside:
            check(entry.beside[name])
    return {name: dump_json(entry.beside[name]) for name in _READERS if name in entry.beside}


def _is_same(
    stories: StoryFiles,
    kind: Kind,
    entry: LibraryEntry,
    fields: dict[str, Any],
    read: Callable[[str], Character | Background],
) -> bool:
    """Return whether the existing entry equals the imported one, lorebook included."""
    try:
        here = read(entry.entry_id).fields()
    except PersonaLabError:
        return False
    return here == fields and _kept_book(stories, kind, entry.entry_id) == entry.beside.get("lorebook.json")


def _kept_book(stories: StoryFiles, kind: Kind, entry_id: str) -> object:
    path = stories.beside(kind, entry_id, "lorebook.json")
    try:
        return load_json(read_bytes(path, stories.shown(path), MAX_CARD_BYTES))
    except (StorageError, BadRecord):
        return None
