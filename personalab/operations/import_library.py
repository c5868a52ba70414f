"""How do a card and a lorebook come into the library?

What came is kept beside the definition as it came; nothing is converted. The same thing brought again changes nothing,
another one of the same name gets an id of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from personalab.archive.books import read_book
from personalab.archive.cards import Card, book_of, character_of, read_card
from personalab.archive.charx import read_charx
from personalab.archive.detecting import Format
from personalab.archive.loading import MAX_CARD_BYTES, MAX_CARRIER_BYTES, load_json
from personalab.archive.naming import id_for, numbered
from personalab.archive.png import read_card_png
from personalab.errors import BadRecord, StorageError, UserError
from personalab.operations.entries import find_entry
from personalab.operations.imports import Imported, ImportWishes, Outcome, Told
from personalab.storage.files import dump_json, read_bytes
from personalab.storage.stories import Kind, StoryFiles
from personalab.story.ids import check_id
from personalab.story.library import Background, Character

_CARRIERS: dict[Format, str] = {"card_png": "card.png", "charx": "card.charx"}


# --- cards


@dataclass(frozen=True, slots=True)
class _Brought:
    """A card that was read: its own JSON, the file it came in, and what it is here."""

    raw: bytes
    card: Card
    character: Character
    book: Mapping[str, Any] | None
    carrier: tuple[str, bytes] | None


def bring_card(
    stories: StoryFiles, wishes: ImportWishes, shown: str, found: Format, file: BinaryIO
) -> Imported:
    """Make a character of a card, whole or not at all."""
    brought = _read_card(found, file)
    name = brought.character.name
    wanted = wishes.new_id or id_for("char", name, Path(shown).stem)
    with stories.library_lock():

        def is_same(entry_id: str) -> bool:
            return _is_same_card(stories, brought, entry_id, closely=wishes.overwrite)

        entry_id, outcome = _place(stories, "characters", wanted, wishes, is_same)
        if outcome != "same":
            character = replace(brought.character, character_id=entry_id)
            old = _left_behind(stories, brought, entry_id) if outcome == "replaced" else {}
            stories.save_character(character, {**old, **_beside(brought)})
    return Imported(shown, found, "character", entry_id, name, outcome)


def _read_card(found: Format, file: BinaryIO) -> _Brought:
    file.seek(0)
    match found:
        case "card_png":
            raw = read_card_png(file)
        case "charx":
            raw = read_charx(file)
        case _:
            raw = file.read(MAX_CARD_BYTES + 1)
    card = read_card(load_json(raw))
    character = character_of(card, "new")
    book = book_of(card)
    if book is not None:
        read_book(book, character.name)
    carrier = None
    if found in _CARRIERS:
        file.seek(0)
        carrier = (_CARRIERS[found], file.read(MAX_CARRIER_BYTES + 1))
    return _Brought(raw, card, character, book, carrier)


def _is_same_card(stories: StoryFiles, brought: _Brought, entry_id: str, *, closely: bool) -> bool:
    """Tell whether a character came from this very card; ``closely``, whether nothing was changed since, too."""
    kept = _kept(stories, "characters", entry_id, "card.json")
    if kept is None or not (kept == brought.raw or _meaning(kept) == brought.card.data):
        return False
    if not closely:
        return True
    book = _kept(stories, "characters", entry_id, "lorebook.json")
    fresh = replace(brought.character, character_id=entry_id)
    has_book = brought.book is None or (book is not None and _meaning(book) == brought.book)
    return has_book and _character(stories, entry_id) == fresh.fields()


def _character(stories: StoryFiles, entry_id: str) -> dict[str, Any] | None:
    try:
        return stories.character(entry_id).fields()
    except (StorageError, UserError):
        return None


def _beside(brought: _Brought) -> dict[str, bytes | None]:
    """List the files that come to stand beside a character."""
    beside: dict[str, bytes | None] = {"card.json": brought.raw}
    if brought.carrier is not None:
        name, content = brought.carrier
        beside[name] = content
    if brought.book is not None:
        beside["lorebook.json"] = dump_json(brought.book)
    return beside


def _left_behind(stories: StoryFiles, brought: _Brought, entry_id: str) -> dict[str, bytes | None]:
    """List what goes with an old card; a lorebook of someone's own stays where the new one brings none."""
    gone: dict[str, bytes | None] = dict.fromkeys(_CARRIERS.values())
    if brought.book is None and _came_with_its_card(stories, entry_id):
        gone["lorebook.json"] = None
    return gone


def _came_with_its_card(stories: StoryFiles, entry_id: str) -> bool:
    book = _kept(stories, "characters", entry_id, "lorebook.json")
    card = _kept(stories, "characters", entry_id, "card.json")
    if book is None or card is None:
        return False
    try:
        return book_of(read_card(load_json(card))) == _meaning(book)
    except BadRecord:
        return False


# --- lorebooks


def bring_book(
    stories: StoryFiles, wishes: ImportWishes, shown: str, found: Format, file: BinaryIO
) -> Imported:
    """Give a lorebook to a character or a background, or make a background of it."""
    file.seek(0)
    raw = file.read(MAX_CARD_BYTES + 1)
    data = load_json(raw)
    name = read_book(data, Path(shown).stem).name
    with stories.library_lock():
        if wishes.into is not None:
            return _give_book(
                stories, wishes, raw, data, Imported(shown, found, "background", "", name, "new")
            )

        def is_same(entry_id: str) -> bool:
            kept = _kept(stories, "backgrounds", entry_id, "lorebook.json")
            return kept is not None and _meaning(kept) == data

        wanted = wishes.new_id or id_for("bg", name, Path(shown).stem)
        entry_id, outcome = _place(stories, "backgrounds", wanted, wishes, is_same)
        if outcome != "same":
            world = stories.background(entry_id) if outcome == "replaced" else Background(entry_id, name)
            stories.save_background(world, {"lorebook.json": raw})
    return Imported(shown, found, "background", entry_id, name, outcome)


def _give_book(
    stories: StoryFiles, wishes: ImportWishes, raw: bytes, data: object, book: Imported
) -> Imported:
    kind, entry_id = find_entry(stories, wishes.into or "", ("characters", "backgrounds"))
    kept = _kept(stories, kind, entry_id, "lorebook.json")
    outcome: Outcome = "new" if kept is None else "replaced"
    if kept is not None and _meaning(kept) == data:
        outcome = "same"
    elif kept is not None and not wishes.overwrite:
        raise UserError("book_taken", entry_id=f"{kind}/{entry_id}")
    told = (Told("book_given", {"book": book.name}),)
    if kind == "characters":
        character = stories.character(entry_id)
        if outcome != "same":
            stories.save_character(character, {"lorebook.json": raw})
        return replace(
            book, kind="character", entry_id=entry_id, name=character.name, outcome=outcome, told=told
        )
    world = stories.background(entry_id)
    if outcome != "same":
        stories.save_background(world, {"lorebook.json": raw})
    return replace(book, entry_id=entry_id, name=world.name, outcome=outcome, told=told)


# --- both


def _place(
    stories: StoryFiles, kind: Kind, wanted: str, wishes: ImportWishes, is_same: Callable[[str], bool]
) -> tuple[str, Outcome]:
    """Choose the id something comes in under, and tell what becomes of the entry that has it."""
    for entry_id in numbered(check_id(wanted, "id")):
        if not (stories.root / kind / entry_id).exists():
            return entry_id, "new"
        if is_same(entry_id):
            return entry_id, "same"
        if wishes.overwrite:
            return entry_id, "replaced"
        if wishes.new_id is not None:
            raise UserError("id_taken", entry_id=entry_id)
    raise AssertionError("ids have no end")


def _kept(stories: StoryFiles, kind: Kind, entry_id: str, name: str) -> bytes | None:
    """Read what stands beside an entry; ``None`` where nothing does, or nothing that can be read."""
    path = stories.beside(kind, entry_id, name)
    try:
        return read_bytes(path, stories.shown(path), MAX_CARD_BYTES)
    except StorageError:
        return None


def _meaning(raw: bytes) -> object:
    try:
        return load_json(raw)
    except BadRecord:
        return None
