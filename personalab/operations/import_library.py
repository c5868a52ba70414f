"""Import of cards, lorebooks and backgrounds into the library, and links between cards and the World Info they name.

The original file is kept next to the definition, unconverted. Importing the same thing again changes nothing,
except that a missing picture is added; a different one of the same name gets an id of its own.

SillyTavern's cards may name a World Info (``extensions.world``) without containing it. Here a lorebook of
that name is stored with a background; linking copies it to the character, because the book belongs to the
character in every story. If the library has no such lorebook, the import report asks for it. An existing
lorebook of a character is never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from personalab.archive.books import (
    book_as,
    check_book_has_content,
    read_book,
    shape_of,
    with_name,
)
from personalab.archive.cards import (
    Card,
    book_of,
    card_of,
    character_of,
    check_card_has_content,
    marked_id,
    read_card,
    without_id,
)
from personalab.archive.charx import read_charx, with_main_icon
from personalab.archive.foreign_files import (
    MAX_CARD_BYTES,
    MAX_CARRIER_BYTES,
    Format,
    id_for,
    id_of_bytes,
    load_json,
    object_at,
)
from personalab.archive.png import read_card_png, without_cards
from personalab.data_files import dump_json, replace_file
from personalab.errors import BadRecord, PersonaLabError, UserError
from personalab.operations.import_places import ImportCandidate, ImportTargets
from personalab.operations.imports import (
    CONFLICT_OPTIONS,
    Imported,
    ImportFile,
    ImportNote,
    ImportReport,
    NamedWorld,
    Outcome,
)
from personalab.operations.library import (
    background_content,
    find_entry,
    read_background,
)
from personalab.story.records import Background, Character, is_id

_CARRIERS: dict[Format, str] = {"card_png": "card.png", "charx": "card.charx"}


# --- cards


@dataclass(frozen=True, slots=True)
class _ParsedCard:
    """A card that was read: its own JSON, the file it came in, and what it is here."""

    raw: bytes
    card: Card
    character: Character
    book: Mapping[str, Any] | None
    carrier: tuple[str, bytes] | None


def import_card(library: ImportTargets, file: ImportFile) -> Imported:
    """Make a character of a card, whole or not at all."""
    parsed, stories = _read_card(file), library.files
    name = parsed.character.name
    ids = [*filter(None, [marked_id(parsed.card)]), id_for("char", name)]
    notes: tuple[ImportNote, ...] = ()
    with stories.library_lock():
        entry_id, outcome = library.place(_card_candidate(library, parsed), ids)
        if outcome in ("new", "exists") and library.options.new_id is None:
            entry_id, outcome, notes = library.placeholders.settle(parsed.character, entry_id, outcome)
        if outcome == "exists":
            return _conflict(library, file, entry_id, name)
        if outcome == "same":
            outcome, notes = _complete(library, parsed, entry_id)
        else:
            character = replace(parsed.character, character_id=entry_id)
            old = _left_behind(library, parsed, entry_id) if outcome == "replaced" else {}
            stories.save_character(character, {**old, **_beside(parsed)})
            library.saved("characters", entry_id, parsed.raw)
    return replace(file.became("character", entry_id, name, outcome), notes=notes)


def _conflict(library: ImportTargets, file: ImportFile, entry_id: str, name: str) -> Imported:
    """Leave a character alone whose id a card carries that says something else, and offer what can be done."""
    left = file.became("character", entry_id, name, "exists")
    if library.options.on_conflict == "skip":
        return left.with_note("card_left_out", character_id=entry_id)
    return replace(left, options=CONFLICT_OPTIONS).with_note("card_conflict", character_id=entry_id)


def _read_card(file: ImportFile) -> _ParsedCard:
    stream = file.stream
    stream.seek(0)
    match file.format:
        case "card_png":
            raw = read_card_png(stream)
        case "charx":
            raw = read_charx(stream)
        case _:
            raw = stream.read(MAX_CARD_BYTES + 1)
    card = read_card(load_json(raw))
    check_card_has_content(card)
    character = character_of(card, "new")
    book = book_of(card)
    if book is not None:
        read_book(book, character.name)
    carrier = None
    if file.format in _CARRIERS:
        stream.seek(0)
        carrier = (_CARRIERS[file.format], stream.read(MAX_CARRIER_BYTES + 1))
    return _ParsedCard(raw, card, character, book, carrier)


def _card_candidate(library: ImportTargets, parsed: _ParsedCard) -> ImportCandidate:
    """Identify a card by its own content and by its content as exported, whichever id it has."""
    version, closely = parsed.card.version, library.options.overwrite

    def looks(entry_id: str) -> Iterator[object]:
        kept = library.kept_json("characters", entry_id)
        if kept is not None and not closely:
            yield without_id(kept)
        character = library.files.character(entry_id)
        book = library.kept_json("characters", entry_id, "lorebook.json")
        # A V1 card that something was added to is V1 no more.
        leaving = card_of(character, kept, book, None if version == "v1" else version)
        yield without_id(leaving)
        if (pictured := with_main_icon(leaving)) is not None and version == "v3":
            yield without_id(pictured[0])

    def is_namesake(entry_id: str) -> bool:
        found = library.files.listed("characters", entry_id).record
        return isinstance(found, Character) and found.name == parsed.character.name

    def meaning() -> object:
        return without_id(parsed.card.data)

    return ImportCandidate(
        "characters", parsed.raw, meaning, looks, is_namesake, version, marked=marked_id(parsed.card)
    )


def _complete(
    library: ImportTargets, parsed: _ParsedCard, entry_id: str
) -> tuple[Outcome, tuple[ImportNote, ...]]:
    """Bring the file that a card came in, where there is none; another one goes only when asked."""
    if parsed.carrier is None or not _is_same_card(library, parsed, entry_id):
        return "same", ()
    name, content = parsed.carrier
    here = library.kept("characters", entry_id, name, MAX_CARRIER_BYTES)
    if here is not None and _is_same_picture(name, here, content):
        return "same", ()
    if here is not None and not library.options.overwrite:
        return "same", (ImportNote("picture_kept", {}),)
    path = library.files.beside("characters", entry_id, name)
    replace_file(path, content, library.files.shown(path))
    return ("completed" if here is None else "replaced"), ()


def _is_same_card(library: ImportTargets, parsed: _ParsedCard, entry_id: str) -> bool:
    is_held = library.kept("characters", entry_id) == parsed.raw
    return is_held or library.kept_json("characters", entry_id) == parsed.card.data


def _is_same_picture(name: str, here: bytes, content: bytes) -> bool:
    if here == content or name != "card.png":
        return here == content
    try:
        return without_cards(here) == without_cards(content)
    except BadRecord:
        return False


def _beside(parsed: _ParsedCard) -> dict[str, bytes | None]:
    """List the files to store next to a character."""
    beside: dict[str, bytes | None] = {"card.json": parsed.raw}
    if parsed.carrier is not None:
        name, content = parsed.carrier
        beside[name] = content
    if parsed.book is not None:
        beside["lorebook.json"] = dump_json(parsed.book)
    return beside


def _left_behind(library: ImportTargets, parsed: _ParsedCard, entry_id: str) -> dict[str, bytes | None]:
    """List what goes with an old card; a lorebook of someone's own stays where the new one brings none."""
    gone: dict[str, bytes | None] = dict.fromkeys(_CARRIERS.values())
    if parsed.book is None and _came_with_its_card(library, entry_id):
        gone["lorebook.json"] = None
    return gone


def _came_with_its_card(library: ImportTargets, entry_id: str) -> bool:
    book = library.kept_json("characters", entry_id, "lorebook.json")
    card = library.kept_json("characters", entry_id)
    if book is None or card is None:
        return False
    try:
        return book_of(read_card(card)) == book
    except BadRecord:
        return False


# --- lorebooks


@dataclass(frozen=True, slots=True)
class _Book:
    """A lorebook that was read; its name is blank where neither it nor its file tells one."""

    raw: bytes
    data: dict[str, Any]
    name: str


def import_book(library: ImportTargets, file: ImportFile) -> Imported:
    """Add a lorebook to a character or a background, or make a background of it."""
    file.stream.seek(0)
    raw = file.stream.read(MAX_CARD_BYTES + 1)
    data = object_at(load_json(raw), "lorebook")
    read = read_book(data, file.called)
    check_book_has_content(read)
    book, stories = _Book(raw, data, read.name), library.files
    with stories.library_lock():
        if library.options.into is not None:
            return _give_book(library, file, book)
        wanted = id_for("bg", book.name) if book.name else id_of_bytes("bg", raw)
        entry_id, outcome = library.place(_book_candidate(library, book), [wanted])
        if outcome != "same":
            fresh = Background(entry_id, book.name or entry_id)
            world = stories.background(entry_id) if outcome == "replaced" else fresh
            stories.save_background(world, {"lorebook.json": raw})
            library.saved("backgrounds", entry_id, raw)
    return file.became("background", entry_id, book.name or entry_id, outcome)


def _book_candidate(library: ImportTargets, book: _Book) -> ImportCandidate:
    """Identify a book by its own content and by its content as exported."""
    shape = shape_of(book.data)

    def looks(entry_id: str) -> Iterator[object]:
        kept = library.kept_json("backgrounds", entry_id)
        if kept is not None:
            yield kept
            name = library.files.background(entry_id).name
            yield with_name(book_as(kept, shape, name), name)

    def is_namesake(entry_id: str) -> bool:
        found = _world(library, entry_id)
        return found is not None and found.name == book.name

    def is_its_own(entry_id: str) -> bool:
        # One that describes a world was written by a person, who gave it the book.
        found = _world(library, entry_id)
        return found is not None and not found.world_setting and not found.story_outline

    return ImportCandidate("backgrounds", book.raw, lambda: book.data, looks, is_namesake, shape, is_its_own)


def _world(library: ImportTargets, entry_id: str) -> Background | None:
    found = library.files.listed("backgrounds", entry_id).record
    return found if isinstance(found, Background) else None


def _give_book(library: ImportTargets, file: ImportFile, book: _Book) -> Imported:
    stories = library.files
    kind, entry_id = find_entry(stories, library.options.into or "", ("characters", "backgrounds"))
    kept = library.kept(kind, entry_id, "lorebook.json")
    outcome: Outcome = "given"
    if kept is not None and library.kept_json(kind, entry_id, "lorebook.json") == book.data:
        outcome = "same"
    elif kept is not None and not library.options.overwrite:
        raise UserError("book_taken", entry_id=f"{kind}/{entry_id}")
    exchanged = kept is not None and outcome == "given"
    note = ImportNote("book_exchanged" if exchanged else "book_given", {"book": book.name or file.shown})
    beside = {"lorebook.json": book.raw} if outcome == "given" else None
    if kind == "characters":
        character = stories.character(entry_id)
        if beside is not None:
            stories.save_character(character, beside)
        return replace(file.became("character", entry_id, character.name, outcome), notes=(note,))
    world = stories.background(entry_id)
    if beside is not None:
        stories.save_background(world, beside)
        library.saved("backgrounds", entry_id, book.raw)
    return replace(file.became("background", entry_id, world.name, outcome), notes=(note,))


# --- worlds


def import_background(library: ImportTargets, file: ImportFile) -> Imported:
    """Make a background of a world with its outline; a lorebook that the old one of its name has stays."""
    file.stream.seek(0)
    raw = file.stream.read(MAX_CARD_BYTES + 1)
    data = object_at(load_json(raw), "background")
    marked = data.get("background_id")
    ids = [marked] if isinstance(marked, str) and is_id(marked) else []
    fallback = ids[0] if ids else file.called or id_of_bytes("bg", raw)
    world = read_background(data, fallback)
    world = replace(world, name=world.name.strip() or fallback)
    stories = library.files
    with stories.library_lock():
        wanted = [*ids, id_for("bg", world.name)]
        entry_id, outcome = library.place(_background_candidate(library, raw, world), wanted)
        if outcome != "same":
            stories.save_background(replace(world, background_id=entry_id))
            library.saved("backgrounds", entry_id, raw)
    return file.became("background", entry_id, world.name, outcome)


def _background_candidate(library: ImportTargets, raw: bytes, world: Background) -> ImportCandidate:
    """Identify a background by its content, whichever id it has."""

    def looks(entry_id: str) -> Iterator[object]:
        if (found := _world(library, entry_id)) is not None:
            yield background_content(found)

    def is_namesake(entry_id: str) -> bool:
        found = _world(library, entry_id)
        return found is not None and found.name == world.name

    return ImportCandidate(
        "backgrounds",
        raw,
        lambda: background_content(world),
        looks,
        is_namesake,
        "background",
        lambda entry_id: False,
    )


# --- the World Info that a card names


_ARRIVED: tuple[Outcome, ...] = ("new", "replaced", "joined")
_SHOWN = 10


def link_worlds(library: ImportTargets, report: ImportReport) -> None:
    """Link the books and the cards of a batch with each other and with what was there before, and note it."""
    cards = {
        entry.entry_id: place
        for place, entry in enumerate(report.imported)
        if entry.kind == "character" and entry.outcome in _ARRIVED
    }
    books = {
        entry.entry_id: place
        for place, entry in enumerate(report.imported)
        if entry.format in ("lorebook", "world_info")
        and entry.kind == "background"
        and entry.outcome in _ARRIVED
    }
    if not cards and not books:
        return
    with library.files.library_lock():
        linking = _Linking(library)
        for character_id, place in cards.items():
            if (world := linking.wanted_by(character_id)) is not None:
                report.imported[place] = linking.offer(report.imported[place], world)
        if books:
            _link_others(linking, report, books, set(cards))


def _link_others(linking: _Linking, report: ImportReport, books: dict[str, int], done: set[str]) -> None:
    """Link new books to the existing characters that name them."""
    given: dict[str, list[str]] = {}
    for character_id in linking.library.files.names("characters"):
        world = linking.wanted_by(character_id) if character_id not in done else None
        found = linking.backgrounds(world) if world is not None else []
        if len(found) == 1 and found[0] in books and linking.link(character_id, found[0]):
            given.setdefault(found[0], []).append(character_id)
    for background_id, character_ids in given.items():
        place = books[background_id]
        report.imported[place] = report.imported[place].with_note("world_given", ids=_listed(character_ids))


@dataclass
class _Linking:
    """The lorebooks of a library by their names; the caller holds the library's lock."""

    library: ImportTargets

    @cached_property
    def _books(self) -> dict[str, list[str]]:
        files, found = self.library.files, dict[str, list[str]]()
        for entry_id in files.names("backgrounds"):
            record = files.listed("backgrounds", entry_id).record
            if (
                isinstance(record, Background)
                and files.beside("backgrounds", entry_id, "lorebook.json").is_file()
            ):
                found.setdefault(_key(record.name), []).append(entry_id)
        return found

    def backgrounds(self, world: str) -> list[str]:
        """List the backgrounds that have a lorebook of a name."""
        return self._books.get(_key(world), [])

    def wanted_by(self, character_id: str) -> str | None:
        """Return the World Info that a character's card names, if the character has no lorebook."""
        if self.library.files.beside("characters", character_id, "lorebook.json").exists():
            return None
        raw = self.library.kept("characters", character_id)
        if raw is None or b'"world"' not in raw:
            return None
        try:
            return read_card(self.library.kept_json("characters", character_id)).world or None
        except BadRecord:
            return None

    def offer(self, entry: Imported, world: str) -> Imported:
        """Link the book that a card names, or say what is needed for it."""
        found = self.backgrounds(world)
        if len(found) == 1 and self.link(entry.entry_id, found[0]):
            linked = replace(entry, world=NamedWorld(world, "linked", tuple(found)))
            return linked.with_note("world_linked", world=world, background_id=found[0])
        if found:
            unclear = replace(entry, world=NamedWorld(world, "ambiguous", tuple(found[:_SHOWN])))
            return unclear.with_note(
                "world_ambiguous", world=world, ids=_listed(found), character_id=entry.entry_id
            )
        missing = replace(entry, world=NamedWorld(world, "missing"))
        return missing.with_note("world_missing", world=world, character_id=entry.entry_id)

    def link(self, character_id: str, background_id: str) -> bool:
        """Copy a background's lorebook to a character; a character that cannot be read gets none."""
        files = self.library.files
        raw = self.library.kept("backgrounds", background_id)
        if raw is None:
            return False
        try:
            files.save_character(files.character(character_id), {"lorebook.json": raw})
        except PersonaLabError:
            return False
        return True


def _key(name: str) -> str:
    return " ".join(name.split()).casefold()


def _listed(ids: Iterable[str]) -> str:
    known = list(ids)
    return ", ".join(known[:_SHOWN]) + ("…" if len(known) > _SHOWN else "")
