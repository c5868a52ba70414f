"""The turns that the session after a summary begins with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from nodes.chat_turn.assemble_prompt import material_of
from nodes.summarize.material import SummaryMaterial
from personalab.services import Services
from personalab.story.director import mark_outline
from personalab.story.open_turn import Scene
from personalab.story.prompt import NEAR_LIMIT_SHARE, Count, assemble, turn_tokens
from personalab.story.summary import Carried, PlotPoint, carried_turns, opening_lines
from personalab.story.transcript import Metadata, Transcript, UserLine


async def load_scene(services: Services, instance_id: str) -> Scene:
    """Load what the next prompt is made of, before any session."""
    stories = services.story_ports.stories
    instance = await stories.instance(instance_id)
    character = await stories.character_state(instance_id)
    scene = Scene(instance, character, Transcript(), 1)
    await services.turns.load(scene)
    return scene


def carry_turns(
    scene: Scene, material: SummaryMaterial, points: Sequence[PlotPoint], count: Count
) -> Carried:
    """Choose the turns to carry over: the newest that leave room for the rest of the next prompt."""
    config = material.config
    room = int(config.max_total_tokens * NEAR_LIMIT_SHARE) - _rest(scene, material, points, count)
    cost = partial(turn_tokens, templates=material.templates, count=count, most=config.max_total_tokens)
    return carried_turns(material.transcript, config.summary_last_n_turns, cost, room)


def _rest(scene: Scene, material: SummaryMaterial, points: Sequence[PlotPoint], count: Count) -> int:
    """Count the next session's prompt without the turns that are carried over."""
    instance, transcript = material.instance, Transcript()
    first = Metadata(instance.instance_id, instance.current_session_id, "")
    before = material.transcript.summaries()
    transcript.extend(opening_lines(first, points, (), material.config.summary_order, before))
    transcript.add(UserLine("…", 1, ""))
    scene = replace(scene, instance=instance, transcript=transcript)
    data = scene.data
    outline = mark_outline(data.background, instance.plot_state)
    director = {"outline": outline} if data.preferences.director.enabled else None
    prompt = assemble(material_of({"director": director}, scene), data.templates, count, material.config)
    return prompt.zone_tokens("head") + prompt.zone_tokens("middle")
