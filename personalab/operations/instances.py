"""Operations that create a story, move it to another background and read its sessions."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from personalab.errors import UserError
from personalab.operations.reading import turn_lines
from personalab.results.stories import PlotResult, SessionExcerpt, StoryResult
from personalab.services import Services
from personalab.story.macros import Names, player_name
from personalab.story.records import Character, InstanceState, check_id, display_name
from personalab.story.transcript import OPENING_TURN, AssistantLine, line_fields
from personalab.tasks import run_uncancellable

PAGE_TURNS = 50
"""How many turns are read at once, if nothing else is asked for."""


async def new_instance(
    services: Services,
    character_id: str,
    background_id: str | None = None,
    instance_id: str | None = None,
    *,
    greeting: int | None = None,
) -> InstanceState:
    """Create a story with a character, in a background or in none.

    It opens with the character's first greeting, if there is one; ``greeting`` chooses another, 0 none.
    """
    if instance_id is not None:
        check_id(instance_id, "instance_id")

    def make() -> InstanceState:
        character = services.stories.character(character_id)
        background = services.stories.background(background_id) if background_id is not None else None
        now = services.now()
        opening = _opening(services, character, greeting, now)
        return services.stories.create_instance(character, background, instance_id, now, opening)

    return await asyncio.to_thread(make)


def _opening(
    services: Services, character: Character, greeting: int | None, now: str
) -> AssistantLine | None:
    """Word the greeting that was chosen, with the names of the two."""
    chosen = min(1, len(character.greetings)) if greeting is None else greeting
    if not 0 <= chosen <= len(character.greetings):
        params = {"character_id": character.character_id, "count": len(character.greetings)}
        raise UserError("no_greeting", number=chosen, **params)
    if not chosen or not character.greetings[chosen - 1].strip():
        return None
    config = services.preferences.read().config
    names = Names(display_name(character), player_name(config, character.language or config.prompt_language))
    text = names.fill(character.greetings[chosen - 1])
    return AssistantLine(text, OPENING_TURN, now, extra={"greeting": chosen})


def opening_line(services: Services, instance_id: str) -> str:
    """Return the line a story opened with, blank if the person speaks first."""
    state = services.stories.instance(instance_id)
    turns = services.stories.session(instance_id, state.current_session_id).view().turns
    return (turns[0].answer or "") if turns and turns[0].number == OPENING_TURN else ""


def story_result(state: InstanceState) -> StoryResult:
    """Describe a story by its state."""
    return StoryResult(
        instance_id=state.instance_id,
        character_id=state.character_id,
        background_id=state.background_id,
        session_id=state.current_session_id,
        current_session_id=state.current_session_id,
        created_at=state.created_at,
        plot_state=PlotResult(**state.plot_state.fields()),
    )


async def switch_background(services: Services, instance_id: str, background_id: str | None) -> InstanceState:
    """Move a story to another background (or to none); its place in the plot is kept."""
    check_id(instance_id, "instance_id")
    if background_id is not None:
        await asyncio.to_thread(services.stories.background, background_id)
    wait = services.settings.busy_seconds
    async with services.leases.holding(instance_id, "switch-background", wait=wait):

        def save() -> InstanceState:
            state = replace(services.stories.instance(instance_id), background_id=background_id)
            services.stories.save_instance(state)
            return state

        return await run_uncancellable(save)


async def read_session(
    services: Services,
    instance_id: str,
    session_id: str | None = None,
    *,
    before: int | None = None,
    count: int = PAGE_TURNS,
) -> SessionExcerpt:
    """Read a session's newest turns, or those before a turn; what is being written is shown as far as it is."""
    check_id(instance_id, "instance_id")

    def read() -> SessionExcerpt:
        chosen = session_id
        if chosen is None:
            chosen = services.stories.instance(instance_id).current_session_id
        transcript = services.stories.session(instance_id, chosen).view()
        turns = transcript.turns if before is None else [t for t in transcript.turns if t.number < before]
        shown = turns[-count:] if count > 0 else []
        entries = [entry for turn in shown for entry in turn_lines(turn)]
        if before is None:
            entries += [line_fields(note) for note in transcript.trailing]
        older = shown[0].number if shown and len(turns) > len(shown) else None
        continued = services.stories.session_before(instance_id, chosen)
        return SessionExcerpt(
            instance_id=instance_id,
            session_id=chosen,
            continued_from=continued,
            entries=entries,
            older=older,
        )

    return await asyncio.to_thread(read)
