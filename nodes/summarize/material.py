"""The material of a summary: a story's session with its character, settings and templates."""

from __future__ import annotations

from dataclasses import dataclass, replace

from personalab.config import Config
from personalab.errors import UserError
from personalab.services import Services
from personalab.story.instance import CharacterState, InstanceState
from personalab.story.macros import player_name
from personalab.story.transcript import Transcript
from personalab.texts import Language


@dataclass(frozen=True, slots=True)
class SummaryMaterial:
    """A story's session with what it takes to tell it."""

    instance: InstanceState
    character: CharacterState
    transcript: Transcript
    config: Config
    templates: dict[str, str]
    language: Language
    """The story's language."""


def read_material(services: Services, instance_id: str, *, last_turn: int | None = None) -> SummaryMaterial:
    """Read the current session; with ``last_turn``, refuse one that has gone on since."""
    instance = services.stories.instance(instance_id)
    character = services.stories.character_state(instance_id)
    transcript = services.stories.session(instance_id, instance.current_session_id).view()
    preferences = services.preferences.read()
    language = character.language or preferences.config.language
    templates, _ = services.preferences.templates(language)
    newest = transcript.last.number if transcript.last else 0
    if last_turn is not None and newest != last_turn:
        raise UserError("session_went_on", session_id=instance.current_session_id, turn=newest)
    names = services.stories.people(instance, character, player_name(preferences.config, language))
    character = replace(character, base_persona=names.fill(character.base_persona))
    return SummaryMaterial(instance, character, transcript, preferences.config, templates, language)
