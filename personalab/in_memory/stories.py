"""Stories, library, settings and archives in memory, shared by any number of processes, and their ports.

Every method may wait or fail through ``gate``, as those of a database do.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from personalab.archive.veloca import CompactedDialogue, new_id, to_milliseconds
from personalab.archive.veloca_archive import Archive, find_entry, find_session
from personalab.archive.veloca_compaction import CompactionMaterial, check_unchanged, compacted, material_of
from personalab.config import Config, DirectorModule, LoreModule, MemoryModule, RecallModule
from personalab.errors import NotFound, StorageError, UserError
from personalab.ports import Clock, HeldLock, Preferences
from personalab.story.events import Notice
from personalab.story.lore import Lorebook
from personalab.story.persona_history import PersonaHistory
from personalab.story.records import (
    Background,
    Character,
    CharacterState,
    InstanceState,
    PlotState,
    check_id,
    display_name,
    initial_state,
)
from personalab.story.summary import PlotPoint
from personalab.story.transcript import AssistantLine, Line, Metadata
from personalab.tasks import complete
from personalab.texts import Language, PromptLanguage

if TYPE_CHECKING:
    from personalab.in_memory.locks import HeldMemoryLearning, HeldMemoryLock


_DEFAULTS = Preferences(Config(), DirectorModule(), RecallModule(), MemoryModule(), LoreModule())


@dataclass(slots=True)
class StoredSession:
    """What of a session is durable."""

    lines: list[Line]
    open_reply: AssistantLine | None = None
    points: tuple[PlotPoint, ...] = ()


@dataclass(slots=True)
class Story:
    """All of a story, with who holds its locks."""

    state: InstanceState
    character: CharacterState
    sessions: dict[str, StoredSession]
    history: PersonaHistory = field(default_factory=PersonaHistory)
    aside: dict[str, StoredSession] = field(default_factory=dict[str, StoredSession])
    """Sessions that were set aside, by their places."""
    holder: HeldMemoryLock | None = None
    learner: HeldMemoryLearning | None = None
    fence: int = 0
    hold: tuple[int, float] | None = None

    def held_turn(self) -> int | None:
        """Find the turn for whose reply the story is held."""
        return self.hold[0] if self.hold and time.monotonic() < self.hold[1] else None


def _utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


async def _open_gate(operation: str) -> None:
    """Let every operation pass at once."""


@dataclass(slots=True)
class InMemoryStories:
    """Stories, library and settings that any number of processes share."""

    templates: Mapping[PromptLanguage, dict[str, str]]
    preferences: Preferences = _DEFAULTS
    characters: dict[str, Character] = field(default_factory=dict[str, Character])
    backgrounds: dict[str, Background] = field(default_factory=dict[str, Background])
    lorebooks: dict[str, Lorebook] = field(default_factory=dict[str, Lorebook])
    """Books by the id of their character or background."""
    gate: Callable[[str], Awaitable[None]] = _open_gate
    """Called with the name of each operation before it; may wait, and may raise a ``StorageError``."""
    stories: dict[str, Story] = field(default_factory=dict[str, Story])
    archives: dict[str, Archive] = field(default_factory=dict[str, Archive])
    """Archives of conversations, by their names."""
    now: Clock = _utc_now

    def create(
        self,
        instance_id: str,
        character: Character,
        background: Background | None,
        now: str,
        opening: AssistantLine | None = None,
    ) -> InstanceState:
        """Create a story with its first session."""
        if check_id(instance_id, "instance_id") in self.stories:
            raise UserError("instance_exists", instance_id=instance_id)
        self.characters[character.character_id] = character
        if background is not None:
            self.backgrounds[background.background_id] = background
        background_id = background.background_id if background else None
        state = InstanceState(
            instance_id, character.character_id, background_id, "sess_001", now, PlotState()
        )
        first: list[Line] = [Metadata(instance_id, "sess_001", now), *([opening] if opening else [])]
        self.stories[instance_id] = Story(state, initial_state(character), {"sess_001": StoredSession(first)})
        return state

    def story(self, instance_id: str) -> Story:
        """Find a story."""
        found = self.stories.get(check_id(instance_id, "instance_id"))
        if found is None:
            raise NotFound("no_instance", instance_id=instance_id)
        return found

    def session(self, instance_id: str, session_id: str) -> StoredSession:
        """Find a session of a story."""
        found = self.story(instance_id).sessions.get(check_id(session_id, "session_id"))
        if found is None:
            raise StorageError("file_missing", file=f"{instance_id}/{session_id}")
        return found

    def lines(self, instance_id: str, session_id: str = "sess_001") -> list[Line]:
        """Return a session's whole lines."""
        return list(self.session(instance_id, session_id).lines)


def check_lock(story: Story, lock: HeldLock) -> None:
    """Refuse a write under a lock that another one has come after, or that has ended."""
    if story.holder is None or story.holder.fence != lock.fence:
        raise StorageError("lock_lost", instance_id=story.state.instance_id)


class InMemoryStoryStore:
    """Implements ``StoryStore``."""

    def __init__(self, shared: InMemoryStories) -> None:
        self._shared = shared

    async def instance(self, instance_id: str) -> InstanceState:
        """Read a story's state."""
        await self._shared.gate("instance")
        return self._shared.story(instance_id).state

    async def save_instance(self, state: InstanceState, lock: HeldLock, *, sync: bool = False) -> None:
        """Replace a story's state."""

        async def save() -> None:
            await self._shared.gate("save_instance")
            story = self._shared.story(state.instance_id)
            check_lock(story, lock)
            story.state = state

        await complete(save())

    async def character_state(self, instance_id: str) -> CharacterState:
        """Read who the character is in a story."""
        await self._shared.gate("character_state")
        return self._shared.story(instance_id).character

    async def persona(self, instance_id: str) -> tuple[CharacterState, PersonaHistory]:
        """Read who the character is, with the changes that led there."""
        await self._shared.gate("persona")
        story = self._shared.story(instance_id)
        return story.character, story.history

    async def save_persona(
        self, instance_id: str, state: CharacterState, history: PersonaHistory | None, lock: HeldLock
    ) -> None:
        """Replace who the character is, with the changes that led there."""

        async def save() -> None:
            await self._shared.gate("save_persona")
            story = self._shared.story(instance_id)
            check_lock(story, lock)
            story.character, story.history = state, history or story.history

        await complete(save())

    async def character_name(self, character_id: str) -> str:
        """Return the name of a character in the library."""
        found = self._shared.characters.get(character_id)
        return display_name(found) if found else character_id

    async def background(self, background_id: str) -> Background:
        """Read a background of the library."""
        await self._shared.gate("background")
        found = self._shared.backgrounds.get(background_id)
        if found is None:
            raise NotFound("no_background", background_id=background_id)
        return found

    async def lorebooks(
        self, character_id: str, background_id: str | None
    ) -> tuple[tuple[Lorebook, ...], list[Notice]]:
        """Read the character's lorebook, then the background's."""
        await self._shared.gate("lorebooks")
        books = (self._shared.lorebooks.get(owner) for owner in (character_id, background_id) if owner)
        return tuple(book for book in books if book is not None), []


class InMemorySettings:
    """Implements ``SettingsStore``."""

    def __init__(self, shared: InMemoryStories) -> None:
        self._shared = shared

    async def preferences(self) -> Preferences:
        """Read all settings."""
        await self._shared.gate("preferences")
        return self._shared.preferences

    async def language(self) -> Language:
        """Read the reader's language."""
        return self._shared.preferences.config.language

    async def templates(self, language: PromptLanguage) -> tuple[dict[str, str], list[Notice]]:
        """Read the prompt templates of a language."""
        await self._shared.gate("templates")
        return self._shared.templates[language], []


class InMemoryArchive:
    """Implements ``ConversationArchive``."""

    def __init__(self, shared: InMemoryStories, name: str) -> None:
        self._shared = shared
        self.name = name

    async def material(self, session: str, trigger: str | None) -> CompactionMaterial:
        """Read what a compaction before the trigger would sum up now."""
        await self._shared.gate("material")
        archive = self._archive()
        session_id = find_session(archive.sessions(), session, self.name).session_id
        entry_id = find_entry(archive.entries(), trigger, self.name).entry_id if trigger is not None else None
        return material_of(archive, session_id, entry_id)

    async def compact(
        self, session_id: str, trigger_entry_id: str, summary: str, *, seen: str
    ) -> CompactedDialogue:
        """Write a summary and mark the entries it replaces."""

        async def write() -> CompactedDialogue:
            await self._shared.gate("compact")
            archive = self._archive()
            material = material_of(archive, session_id, trigger_entry_id)
            check_unchanged(material, seen)
            records = compacted(material, summary, new_id(), to_milliseconds(self._shared.now()))
            archive.put_records(records)
            return cast("CompactedDialogue", records[-1])

        return await complete(write())

    def _archive(self) -> Archive:
        found = self._shared.archives.get(self.name)
        if found is None:
            raise NotFound("no_archive", file=self.name)
        return found
