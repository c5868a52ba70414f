"""Cards that arrive after the chats held with their characters.

A chat whose character is unknown creates a placeholder: a character with a name and nothing else. The card of
that name fills the placeholder, so that the chat and the card belong to one character, and the stories that
began with the placeholder get the card's persona. Changes that a story has made to the persona since then are
kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from personalab.errors import PersonaLabError
from personalab.operations.imports import Imported, ImportNote, ImportReport, Outcome
from personalab.services import Services
from personalab.storage.stories import StoryFiles
from personalab.story.records import (
    NO_INSTRUCTIONS,
    Character,
    CharacterState,
    InstanceState,
    display_name,
    initial_state,
    is_placeholder,
)
from personalab.tasks import run_uncancellable

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
