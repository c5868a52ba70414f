"""The application API: every operation that entrances call beside graphs, from typed arguments to typed results.

Operations are imported when they are called, so that an entrance starts without them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from personalab.operations.reading import Cost, Cut
    from personalab.operations.recall import Depth
    from personalab.results.settings import SettingValues
    from personalab.results.stories import (
        BackgroundSummary,
        BegunStoryResult,
        CharacterSummary,
        RecalledEvent,
        SavedBackground,
        SavedCharacter,
        SessionExcerpt,
        SessionPage,
        StopResult,
        StoryResult,
    )
    from personalab.services import Services
    from personalab.storage.stories import StoryListing
    from personalab.story.records import InstanceState
    from personalab.texts import PromptLanguage


@dataclass(frozen=True, slots=True)
class Application:
    """The operations on one data root."""

    services: Services

    # --- the library

    def summarize_character(self, listed: StoryListing) -> CharacterSummary:
        """Describe a character for a list."""
        from personalab.operations.library import character_summary

        return character_summary(listed, self.services.preferences.language())

    def summarize_background(self, listed: StoryListing) -> BackgroundSummary:
        """Describe a background for a list."""
        from personalab.operations.library import background_summary

        return background_summary(listed, self.services.preferences.language())

    async def save_character(
        self,
        character_id: str,
        *,
        name: str | None = None,
        base_persona: str | None = None,
        language: PromptLanguage | Literal[""] | None = None,
        greetings: Sequence[str] | None = None,
        overwrite: bool = False,
    ) -> SavedCharacter:
        """Create a character, or change what is given of one that exists; a blank ``language`` is the reader's."""
        from personalab.operations.library import save_character
        from personalab.results.stories import SavedCharacter

        saved = await save_character(
            self.services,
            character_id,
            name=name,
            base_persona=base_persona,
            language=language,
            greetings=greetings,
            overwrite=overwrite,
        )
        names = {"id": character_id, "character_id": character_id, "name": saved.entry.name}
        return SavedCharacter(**names, created=saved.created)

    async def save_background(
        self,
        background_id: str,
        *,
        name: str | None = None,
        world_setting: str | None = None,
        story_outline: Sequence[str] | None = None,
        overwrite: bool = False,
    ) -> SavedBackground:
        """Create a background, or change what is given of one that exists."""
        from personalab.operations.library import save_background
        from personalab.results.stories import SavedBackground

        saved = await save_background(
            self.services,
            background_id,
            name=name,
            world_setting=world_setting,
            story_outline=story_outline,
            overwrite=overwrite,
        )
        names = {"id": background_id, "background_id": background_id, "name": saved.entry.name}
        return SavedBackground(**names, created=saved.created)

    # --- stories

    async def begin_story(
        self,
        character_id: str,
        background_id: str | None = None,
        instance_id: str | None = None,
        *,
        greeting: int | None = None,
    ) -> BegunStoryResult:
        """Begin a story with a character, in a background or in none.

        It opens with the character's first greeting, if there is one; ``greeting`` chooses another, 0 none.
        """
        from personalab.operations.instances import new_instance, opening_line, story_result
        from personalab.results.stories import BegunStoryResult

        place = (character_id, background_id, instance_id)
        state = await new_instance(self.services, *place, greeting=greeting)
        opening = await asyncio.to_thread(opening_line, self.services, state.instance_id)
        return BegunStoryResult(**dict(story_result(state)), opening=opening)

    def describe_story(self, state: InstanceState) -> StoryResult:
        """Describe a story by its state."""
        from personalab.operations.instances import story_result

        return story_result(state)

    async def switch_background(self, instance_id: str, background_id: str | None) -> StoryResult:
        """Move a story to another background, or to none; its place in the plot is kept."""
        from personalab.operations.instances import story_result, switch_background

        return story_result(await switch_background(self.services, instance_id, background_id))

    async def stop(self, instance_id: str) -> StopResult:
        """Stop what is being done in a story, whichever process does it."""
        from personalab.results.stories import StopResult

        return StopResult(instance_id=instance_id, stopped=await self.services.leases.stop(instance_id))

    # --- sessions

    async def read_turns(
        self,
        instance_id: str,
        session_id: str | None = None,
        *,
        before: int | None = None,
        count: int | None = None,
    ) -> SessionExcerpt:
        """Read a session's newest turns, or those before a turn."""
        from personalab.operations.instances import PAGE_TURNS, read_session

        most = PAGE_TURNS if count is None else count
        return await read_session(self.services, instance_id, session_id, before=before, count=most)

    async def read_page(
        self,
        instance_id: str,
        session_id: str | None,
        cursor: str | None,
        *,
        budget: int,
        cost: Cost,
        cut: Cut,
        reasoning: bool = False,
    ) -> SessionPage:
        """Read a session's newest turns, or go on from a cursor, within a budget; long reasoning is cut."""
        from personalab.operations.reading import read_newest

        return await read_newest(
            self.services,
            instance_id,
            session_id,
            cursor,
            budget=budget,
            cost=cost,
            cut=cut,
            reasoning=reasoning,
        )

    async def recall(
        self, instance_id: str, query: str, depth: Depth = "auto", limit: int = 10
    ) -> list[RecalledEvent]:
        """Search a story's events, best first; ``auto`` chooses the depth as a turn would."""
        from personalab.operations.recall import look_up
        from personalab.results.stories import RecalledEvent

        found = await look_up(self.services, instance_id, query, depth, limit)
        return [RecalledEvent(**event) for event in found]

    # --- settings

    def settings(self) -> SettingValues:
        """Read every setting."""
        return _setting_values(self.services.preferences.values())

    def change_settings(self, changes: Mapping[str, Any]) -> SettingValues:
        """Save some settings, all of them or none."""
        return _setting_values(self.services.preferences.change(changes))

    def reset_settings(self, changes: Mapping[str, Any] | None = None) -> SettingValues:
        """Restore the defaults but for some changes, also where the file cannot be read any more."""
        return _setting_values(self.services.preferences.reset(changes))


def _setting_values(values: dict[str, Any]) -> SettingValues:
    from personalab.results.settings import SettingValues

    return SettingValues(values)
