"""Choice of ids for imports, detection of what was imported before, and cards that arrive after their chats.

An earlier import is recognized by its bytes, whatever its id is now, and otherwise by its content among the
ids it could have. The library is listed once per batch; of its files only those of the same size are read,
each once, and remembered by a digest.

A chat whose character is unknown creates a placeholder: a character with a name and nothing else. The card of
that name fills the placeholder, so that the chat and the card belong to one character, and the stories that
began with the placeholder get the card's persona. Changes that a story has made to the persona since then are
kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, takewhile
from typing import Any, cast

from personalab.archive.foreign_files import MAX_CARD_BYTES, load_json, numbered
from personalab.data_files import read_bytes
from personalab.errors import BadRecord, PersonaLabError, StorageError, UserError
from personalab.operations.imports import Imported, ImportNote, ImportOptions, ImportReport, Outcome
from personalab.services import Services
from personalab.storage.stories import Kind, StoryFiles
from personalab.story.records import (
    NO_INSTRUCTIONS,
    Character,
    CharacterState,
    InstanceState,
    check_id,
    display_name,
    initial_state,
    is_id,
    is_placeholder,
)
from personalab.tasks import run_uncancellable

# --- placeholders


_SHOWN_IDS = 10
_FILLS: tuple[Outcome, ...] = ("joined", "same", "completed", "replaced")
"""After these a story may still have to get the persona: the last attempt may have been interrupted."""


@dataclass
class Placeholders:
    """The placeholders of a library; listed once for a batch, in which all cards come before the chats."""

    files: StoryFiles

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for entry_id in self.files.names("characters"):
            if self._is_free(entry_id):
                found.setdefault(self.files.character(entry_id).name.casefold(), []).append(entry_id)
        return found

    def _is_free(self, entry_id: str) -> bool:
        """Return whether an entry is a placeholder without a card or a lorebook."""
        beside = (
            self.files.beside("characters", entry_id, name)
            for name in ("card.json", "lorebook.json", "card.png", "card.charx")
        )
        if any(path.exists() for path in beside):
            return False
        record = self.files.listed("characters", entry_id).record
        return isinstance(record, Character) and is_placeholder(record)

    def settle(
        self, character: Character, entry_id: str, outcome: Outcome
    ) -> tuple[str, Outcome, tuple[ImportNote, ...]]:
        """Choose the placeholder that a new card fills; where several characters may be meant, none is touched.

        ``entry_id`` and ``outcome`` are what becomes of the card otherwise. The caller holds the library's lock.
        """
        names = _names(character)
        found = [one for name in sorted(names) for one in self._by_name.get(name, ()) if self._is_free(one)]
        if outcome == "exists" and entry_id in found:
            return entry_id, "joined", ()
        if outcome == "exists" or not found:
            return entry_id, outcome, ()
        meant = sorted({*found, *self._namesakes(names)})
        if len(meant) == 1:
            return found[0], "joined", ()
        shown = ", ".join(meant[:_SHOWN_IDS]) + ("…" if len(meant) > _SHOWN_IDS else "")
        return entry_id, outcome, (ImportNote("chats_ambiguous", {"name": character.name, "ids": shown}),)

    def _namesakes(self, names: set[str]) -> list[str]:
        records = (self.files.listed("characters", one).record for one in self.files.names("characters"))
        return [
            record.character_id
            for record in records
            if isinstance(record, Character) and _names(record) & names
        ]


def _names(character: Character) -> set[str]:
    return {character.name.casefold(), display_name(character).casefold()}


async def join_stories(services: Services, report: ImportReport) -> None:
    """Set the persona of an imported card in stories that began with a placeholder, and note it."""
    places = {
        entry.entry_id: place
        for place, entry in enumerate(report.imported)
        if entry.kind == "character" and entry.outcome in _FILLS
    }
    if not places:
        return
    waiting = await asyncio.to_thread(_waiting, services.stories, places)
    for character, instance_ids in waiting:
        place = places[character.character_id]
        report.imported[place] = await _joined(services, report.imported[place], character, instance_ids)


def _waiting(stories: StoryFiles, wanted: Mapping[str, int]) -> list[tuple[Character, list[str]]]:
    """List the stories that still have the persona of a placeholder, by their characters."""
    found: dict[str, list[str]] = {}
    for listed in stories.all_instances():
        if isinstance(listed.record, InstanceState) and listed.record.character_id in wanted:
            found.setdefault(listed.record.character_id, []).append(listed.entry_id)
    waiting: list[tuple[Character, list[str]]] = []
    for character_id, instance_ids in found.items():
        character = stories.character(character_id)
        lacking = [one for one in instance_ids if _lacks_persona(stories, one, character)]
        if lacking:
            waiting.append((character, lacking))
    return waiting


def _lacks_persona(stories: StoryFiles, instance_id: str, character: Character) -> bool:
    try:
        return _is_bare(stories.character_state(instance_id), character)
    except PersonaLabError:
        return False


def _is_bare(state: CharacterState, character: Character) -> bool:
    """Return whether a story began with no more than the character's name."""
    is_bare = state.base_persona.casefold() in _names(character) and state.instructions == NO_INSTRUCTIONS
    return is_bare and state.base_persona != character.base_persona


async def _joined(
    services: Services, entry: Imported, character: Character, instance_ids: list[str]
) -> Imported:
    done = 0
    for instance_id in instance_ids:
        try:
            await _give_persona(services, instance_id, character)
            done += 1
        except PersonaLabError as error:
            entry = entry.with_note("chat_not_joined", instance_id=instance_id, reason=error)
    return entry.with_note("chats_joined", count=done) if done else entry


async def _give_persona(services: Services, instance_id: str, character: Character) -> None:
    def work() -> None:
        state = services.stories.character_state(instance_id)
        if not _is_bare(state, character):
            return
        begun = initial_state(character)
        fresh = replace(
            state,
            base_persona=begun.base_persona,
            language=begun.language,
            name=begun.name,
            instructions=begun.instructions,
        )
        services.stories.save_character_state(instance_id, fresh)

    wait = services.settings.busy_seconds
    async with services.leases.holding(instance_id, "import", wait=wait):
        await run_uncancellable(work)


# --- places


_KEPT: dict[Kind, str] = {"characters": "card.json", "backgrounds": "lorebook.json"}
"""The original file next to an entry."""
_Sizes = dict[int, list[str]]
Looks = Callable[[str], Iterable[object]]
"""Gives what an entry says, in each of the forms in which it may come again."""


@dataclass(frozen=True, slots=True)
class ImportCandidate:
    """Something that seeks its place: its bytes, what it says, and how one is known that is there already."""

    kind: Kind
    raw: bytes
    meaning: Callable[[], object]
    looks: Looks
    is_namesake: Callable[[str], bool]
    """Whether the entry of an id has the same name, and so may be meant."""
    variant: str
    """Looks of different variants are remembered apart."""
    is_its_own: Callable[[str], bool] = lambda entry_id: True
    """Whether an entry with these original bytes was made from them."""
    marked: str | None = None
    """The id that it carries because it left from here."""


@dataclass
class ImportTargets:
    """The characters and backgrounds a batch adds to; created for each batch."""

    files: StoryFiles
    options: ImportOptions
    _sizes: dict[Kind, _Sizes] = field(default_factory=dict[Kind, _Sizes])
    _held: dict[tuple[Kind, bytes], list[str]] = field(default_factory=dict[tuple[Kind, bytes], list[str]])
    _looks: dict[tuple[Kind, str], dict[str, frozenset[bytes]]] = field(
        default_factory=dict[tuple[Kind, str], dict[str, frozenset[bytes]]]
    )

    @cached_property
    def placeholders(self) -> Placeholders:
        """The characters that chats made."""
        return Placeholders(self.files)

    def place(self, candidate: ImportCandidate, ids: Sequence[str]) -> tuple[str, Outcome]:
        """Choose an id, the first of these that can be had, and tell what becomes of the entry that has it."""
        if self.options.new_id is not None:
            return self._requested(candidate, self.options.new_id)
        held = self._holding(candidate)
        taken = list(
            dict.fromkeys([*held, *(one for entry_id in ids for one in self._taken(candidate, entry_id))])
        )
        if held and not self.options.overwrite:
            return held[0], "same"
        said = _digest(candidate.meaning()) if taken else b""
        for entry_id in taken:
            if self._says(candidate, entry_id, said):
                return entry_id, "same"
        if self.options.overwrite:
            for entry_id in taken:
                if entry_id in held or candidate.is_namesake(entry_id):
                    return entry_id, "replaced"
        elif (marked := self._conflicting(candidate)) is not None:
            return marked, "replaced" if self.options.on_conflict == "update" else "exists"
        return self._free(candidate, ids), "new"

    def _conflicting(self, candidate: ImportCandidate) -> str | None:
        """Find the entry whose id an arrival carries though it says something else, unless a copy is wanted."""
        is_here = candidate.marked is not None and self._exists(candidate.kind, candidate.marked)
        return candidate.marked if is_here and self.options.on_conflict != "copy" else None

    def _requested(self, candidate: ImportCandidate, entry_id: str) -> tuple[str, Outcome]:
        if not self._exists(candidate.kind, check_id(entry_id, "id")):
            return entry_id, "new"
        is_held = self.kept(candidate.kind, entry_id) == candidate.raw and not self.options.overwrite
        if is_held or self._says(candidate, entry_id, _digest(candidate.meaning())):
            return entry_id, "same"
        if self.options.overwrite:
            return entry_id, "replaced"
        raise UserError("id_taken", entry_id=entry_id)

    def _free(self, candidate: ImportCandidate, ids: Sequence[str]) -> str:
        """Take the first id that is free, or else the last with a number."""
        candidates = chain(ids, numbered(ids[-1]))
        return next(one for one in candidates if not self._exists(candidate.kind, one))

    def saved(self, kind: Kind, entry_id: str, raw: bytes) -> None:
        """Remember what was saved in this batch."""
        self._looks.pop((kind, entry_id), None)
        self._held.setdefault((kind, _fingerprint(raw)), []).append(entry_id)

    # --- what is there

    def _exists(self, kind: Kind, entry_id: str) -> bool:
        return (self.files.root / kind / entry_id).exists()

    def _taken(self, candidate: ImportCandidate, entry_id: str) -> Iterable[str]:
        return takewhile(lambda one: self._exists(candidate.kind, one), numbered(check_id(entry_id, "id")))

    def _holding(self, candidate: ImportCandidate) -> list[str]:
        """List the entries with exactly these original bytes."""
        kind, raw = candidate.kind, candidate.raw
        for entry_id in self._unread(kind).pop(len(raw), []):
            if (kept := self.kept(kind, entry_id)) is not None:
                self._held.setdefault((kind, _fingerprint(kept)), []).append(entry_id)
        found = self._held.get((kind, _fingerprint(raw)), [])
        held = (one for one in dict.fromkeys(found) if self.kept(kind, one) == raw)
        return [entry_id for entry_id in held if candidate.is_its_own(entry_id)]

    def _unread(self, kind: Kind) -> _Sizes:
        """List the files next to entries that were not read yet, by size."""
        if kind not in self._sizes:
            sizes = self._sizes[kind] = {}
            folder = self.files.root / kind
            for entry_id in sorted(filter(is_id, os.listdir(folder))) if folder.is_dir() else []:
                try:
                    size = os.stat(folder / entry_id / _KEPT[kind]).st_size
                except OSError:
                    continue
                sizes.setdefault(size, []).append(entry_id)
        return self._sizes[kind]

    def _says(self, candidate: ImportCandidate, entry_id: str, said: bytes) -> bool:
        """Return whether an entry has the same content; a remembered match is verified before it counts."""
        known = self._looks.setdefault((candidate.kind, entry_id), {})
        if candidate.variant in known and said not in known[candidate.variant]:
            return False
        try:
            known[candidate.variant] = frozenset(map(_digest, candidate.looks(entry_id)))
        except PersonaLabError:
            known[candidate.variant] = frozenset()
        return said in known[candidate.variant]

    def kept(self, kind: Kind, entry_id: str, name: str = "", limit: int = MAX_CARD_BYTES) -> bytes | None:
        """Read what stands beside an entry, as it came unless named; ``None`` where nothing does that can be read."""
        path = self.files.beside(kind, entry_id, name or _KEPT[kind])
        try:
            return read_bytes(path, self.files.shown(path), limit)
        except StorageError:
            return None

    def kept_json(self, kind: Kind, entry_id: str, name: str = "") -> dict[str, Any] | None:
        """Read a JSON object next to an entry."""
        raw = self.kept(kind, entry_id, name)
        try:
            found = load_json(raw) if raw is not None else None
        except BadRecord:
            return None
        return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _digest(value: object) -> bytes:
    """Compute a digest of a JSON value that depends on its content, not on how it is written."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return _fingerprint(text.encode("ascii"))


def _fingerprint(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()
