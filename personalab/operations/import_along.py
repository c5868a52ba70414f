"""Import of the character and background that an imported story is played with, where their ids are free."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from personalab.archive.books import read_book
from personalab.archive.cards import clean_name, read_card
from personalab.archive.foreign_files import MAX_CARD_BYTES, load_json
from personalab.archive.instances import InstanceFiles, LibraryEntry
from personalab.errors import BadRecord, PersonaLabError, StorageError, as_reason
from personalab.operations.imports import ImportNote
from personalab.storage.files import dump_json, read_bytes
from personalab.storage.stories import Kind, StoryFiles
from personalab.story.library import MAX_NAME, Background, Character

_READERS: Mapping[str, Callable[[object], object]] = {
    "card.json": read_card,
    "lorebook.json": lambda data: read_book(data, "lorebook"),
}
"""What may come along beside a definition, and how it is checked."""
T = TypeVar("T")


def bring_along(stories: StoryFiles, files: InstanceFiles, made: list[Path]) -> tuple[ImportNote, ...]:
    """Save a story's character and background, and report existing ones that are kept; the caller holds the lock."""
    told: list[ImportNote] = []
    if (entry := files.character) is not None:
        character = _read(entry, "character", Character.read)
        character = replace(character, name=clean_name(character.name)[:MAX_NAME] or entry.entry_id)
        named = {"character_id": entry.entry_id}
        if _is_free(stories, "characters", entry.entry_id, made):
            stories.save_character(character, _beside(entry))
            told.append(ImportNote("character_brought", named))
        elif not _is_same(stories, "characters", entry, character.fields(), stories.character):
            told.append(ImportNote("character_kept", named))
    if (entry := files.background) is not None:
        background = _read(entry, "background", Background.read)
        named = {"background_id": entry.entry_id}
        if _is_free(stories, "backgrounds", entry.entry_id, made):
            stories.save_background(background, _beside(entry))
            told.append(ImportNote("background_brought", named))
        elif not _is_same(stories, "backgrounds", entry, background.fields(), stories.background):
            told.append(ImportNote("background_kept", named))
    return tuple(told)


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
