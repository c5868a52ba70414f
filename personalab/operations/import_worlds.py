"""Links between cards and the World Info that they name.

SillyTavern's cards may name a World Info (``extensions.world``) without containing it. Here a lorebook of
that name is stored with a background; linking copies it to the character, because the book belongs to the
character in every story. If the library has no such lorebook, the import report asks for it. An existing
lorebook of a character is never changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from personalab.archive.cards import read_card
from personalab.errors import BadRecord, PersonaLabError
from personalab.operations.import_places import ImportTargets
from personalab.operations.imports import Imported, ImportReport, NamedWorld, Outcome
from personalab.story.library import Background

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
