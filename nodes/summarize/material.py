"""The material of a summary: a story's session with its character, settings and templates."""

from __future__ import annotations

from dataclasses import dataclass, replace

from personalab.config import Config
from personalab.errors import UserError
from personalab.ports import StoryPorts
from personalab.story.macros import player_name
from personalab.story.open_turn import names_of
from personalab.story.records import CharacterState, InstanceState
from personalab.story.transcript import Transcript
from personalab.texts import PromptLanguage


@dataclass(frozen=True, slots=True)
class SummaryMaterial:
    """A story's session with what it takes to tell it."""

    instance: InstanceState
    character: CharacterState
    transcript: Transcript
    config: Config
    templates: dict[str, str]
    language: PromptLanguage
    """The story's language."""


async def read_material(
    ports: StoryPorts, instance_id: str, *, last_turn: int | None = None
) -> SummaryMaterial:
    """Read the current session; with ``last_turn``, refuse one that has gone on since."""
    instance = await ports.stories.instance(instance_id)
    character = await ports.stories.character_state(instance_id)
    transcript = await ports.sessions.transcript(instance_id, instance.current_session_id, open_reply=True)
    preferences = await ports.settings.preferences()
    language = character.language or preferences.config.prompt_language
    templates, _ = await ports.settings.templates(language)
    newest = transcript.last.number if transcript.last else 0
    if last_turn is not None and newest != last_turn:
        raise UserError("session_went_on", session_id=instance.current_session_id, turn=newest)
    names = await names_of(ports.stories, instance, character, player_name(preferences.config, language))
    character = replace(character, base_persona=names.fill(character.base_persona))
    return SummaryMaterial(instance, character, transcript, preferences.config, templates, language)
