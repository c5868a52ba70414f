"""The steps that summarize a session and begin the next one, with their state and material."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal

from langgraph.channels import EphemeralValue
from typing_extensions import TypedDict  # pydantic reads schemas from it on Python 3.11

from nodes.chat_turn.assemble_prompt import material_of
from nodes.structured_output import ReportProgress, StructuredModel
from personalab.config import Config
from personalab.errors import PersonaLabError, UserError
from personalab.i18n import ABOUT
from personalab.leases import Lease
from personalab.ports import ReplyModel, SessionStore, StoryPorts, StoryStore, TokenCounter
from personalab.services import Services
from personalab.story import summary
from personalab.story.director import mark_outline
from personalab.story.events import Notice
from personalab.story.macros import player_name
from personalab.story.open_turn import Scene, names_of
from personalab.story.prompt import NEAR_LIMIT_SHARE, Count, assemble, turn_tokens
from personalab.story.recall import point_events, turn_event
from personalab.story.records import CharacterState, InstanceState
from personalab.story.summary import (
    Carried,
    PlotPoint,
    carried_turns,
    cut_into_pieces,
    next_session_id,
    opening_lines,
    points_schema,
    read_points,
    summary_messages,
    turns_to_summarize,
)
from personalab.story.transcript import Metadata, Transcript, UserLine, taken_over
from personalab.texts import PromptLanguage

_log = logging.getLogger("personalab.summary")
_AT_ONCE = 50
"""Number of turns written before other tasks may run: Chroma blocks the interpreter meanwhile."""


class SummaryInput(TypedDict, total=False):
    """A call of the graph; with ``dry_run`` the points are shown and nothing is written."""

    instance_id: str
    dry_run: Annotated[bool, EphemeralValue]


class SummaryOutput(TypedDict, total=False):
    """The result of a call."""

    instance_id: str
    session_id: str
    """The session that was summarised."""
    new_session_id: str
    """The one that follows it."""
    status: Literal["running", "done", "preview", "error"]
    points: list[dict[str, Any]]
    kept_turns: int
    warnings: list[dict[str, Any]]
    usage: dict[str, int] | None
    error: dict[str, Any] | None


class SummaryState(SummaryInput, SummaryOutput, total=False):
    """What the steps hand on."""

    lease: str
    preview: bool
    turns_indexed: bool
    """Whether the turns are in the library already."""
    has_news: bool
    """Whether anything happened that the session did not take over from the one before."""
    left_behind: list[int]
    """The turns that stay behind unanswered, because they are too long."""
    last_turn: int
    """The newest turn when the session was read: if another one came, the summary is not of it."""


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


async def read_session(state: SummaryState, *, services: Services) -> dict[str, Any]:
    """Find what there is to tell, and name the session that will follow.

    A session without news is summarised only to leave turns behind that are too long for any prompt.
    """
    instance_id = state.get("instance_id", "")
    material = await read_material(services.story_ports, instance_id)
    session_id = material.instance.current_session_id
    counter = await services.counter()
    scene = await load_scene(services, instance_id)
    carried = await asyncio.to_thread(carry_turns, scene, material, (), counter.count)
    news = await _has_news(services.story_ports.sessions, material)
    if not news and not carried.left_behind:
        raise UserError("nothing_to_summarize", instance_id=instance_id, session_id=session_id)
    last = material.transcript.last
    return {
        "preview": bool(state.get("dry_run")),
        "session_id": session_id,
        "new_session_id": next_session_id(session_id),
        "last_turn": last.number if last else 0,
        "has_news": news,
        "kept_turns": len(carried.turns),
    }


async def _has_news(sessions: SessionStore, material: SummaryMaterial) -> bool:
    """Return whether anything happened that the session did not take over from the previous one."""
    instance_id, session_id = material.instance.instance_id, material.instance.current_session_id
    fresh = material.transcript.turns
    before = await sessions.previous(instance_id, session_id)
    if before is not None:
        older = await sessions.transcript(instance_id, before, open_reply=True)
        fresh = fresh[taken_over(fresh, older) :]
    return any(turn.user is not None and turn.answer is not None for turn in fresh)


async def draft_points(
    state: SummaryState,
    *,
    services: Services,
    lease: Lease,
    model: ReplyModel,
    counter: TokenCounter,
    report_progress: ReportProgress,
) -> dict[str, Any]:
    """Draft the points of every piece; an unusable answer is requested once more, then refused."""
    material = await read_material(
        services.story_ports, state.get("instance_id", ""), last_turn=state.get("last_turn")
    )
    turns = turns_to_summarize(material.transcript) if state.get("has_news", True) else []
    budget = material.config.max_total_tokens // 4
    pieces = await asyncio.to_thread(cut_into_pieces, turns, material.templates, counter.count, budget)
    asker = StructuredModel(
        model,
        material.templates["json_repair"],
        refusal="provider.bad_summary",
        stopped="summary_stopped",
        stop_asked=lease.stop_requested,
    )
    told = [note.content for note in material.transcript.summaries()]
    points: list[PlotPoint] = []
    for number, piece in enumerate(pieces):
        report_progress(number, len(pieces))
        asked = summary_messages(
            piece,
            [*told, *(point.summary for point in points)],
            material.character.base_persona,
            material.templates,
        )
        read = partial(read_points, first=piece.first, last=piece.last, language=material.language)
        points += (await asker.ask(asked, read, points_schema(piece.first, piece.last))).value
    report_progress(len(pieces), len(pieces))
    usage = asker.usage
    return {
        "points": [point.fields() for point in points],
        "usage": dict(usage) if usage else None,
        "status": "preview" if state.get("preview") else "running",
    }


async def store_summary(state: SummaryState, *, services: Services, lease: Lease) -> dict[str, Any]:
    """Write the session and its plots; until the story is switched to it they change nothing."""
    instance_id, fresh = state.get("instance_id", ""), state.get("new_session_id", "")
    points = [PlotPoint.read(data) for data in state.get("points", [])]
    counter = await services.counter()
    scene = await load_scene(services, instance_id)
    ports = services.story_ports
    material = await read_material(ports, instance_id, last_turn=state.get("last_turn"))
    carried = await asyncio.to_thread(carry_turns, scene, material, points, counter.count)
    first = Metadata(instance_id, fresh, services.now(), material.instance.current_session_id)
    before = material.transcript.summaries()
    lines = opening_lines(first, points, carried.turns, material.config.summary_order, before)
    await ports.sessions.create(instance_id, fresh, lines, points, lease.lock)
    behind = [turn.number for turn in carried.left_behind]
    return {"kept_turns": len(carried.turns), "left_behind": behind}


async def index_turns(state: SummaryState, *, services: Services) -> bool:
    """Write the turns into the library; return whether that worked. If not, it is tried again later."""
    try:
        material = await read_material(
            services.story_ports, state.get("instance_id", ""), last_turn=state.get("last_turn")
        )
        instance = material.instance
        place = (
            instance.instance_id,
            instance.current_session_id,
            instance.character_id,
            instance.background_id or "",
        )
        events = [event for turn in material.transcript.turns if (event := turn_event(turn, *place)).text]
        for at in range(0, len(events), _AT_ONCE):
            await services.library.write(events[at : at + _AT_ONCE])
    except Exception as error:  # noqa: BLE001 (an error of any library must not fail a summary)
        _log.warning("the event library could not take the turns yet", exc_info=error)
        return False
    return True


async def index_summary(state: SummaryState, *, services: Services) -> dict[str, Any]:
    """Write the session's points into the library, in place of what an earlier try left there; turns if need be."""
    material = await read_material(
        services.story_ports, state.get("instance_id", ""), last_turn=state.get("last_turn")
    )
    instance = material.instance
    background = instance.background_id or ""
    place = (instance.instance_id, instance.current_session_id, instance.character_id)
    points = [PlotPoint.read(data) for data in state.get("points", [])]
    told = [(point.summary, point.plot, (point.first_turn, point.last_turn)) for point in points]
    events = point_events(told, *place, background)
    if not state.get("turns_indexed"):
        turns = (turn_event(turn, *place, background) for turn in material.transcript.turns)
        events += [event for event in turns if event.text]
    session = instance.current_session_id
    notices: list[Notice] = []
    if behind := state.get("left_behind"):
        turns = ABOUT.say("comma", material.config.language).join(map(str, behind))
        notices.append(Notice("turns_left_behind", {"turns": turns, "session_id": session}))
    try:
        await services.library.remove(instance.instance_id, session_id=session, kinds=("summary", "plot"))
        await services.library.write(events)
    except Exception as error:  # noqa: BLE001 (an error of any library must not fail a summary)
        _log.warning("the event library could not take the summary", exc_info=error)
        reason = error if isinstance(error, PersonaLabError) else type(error).__name__
        notices.append(Notice("summary_not_indexed", {"reason": reason}))
    return {"warnings": [dict(notice.event(None, material.config.language)) for notice in notices]}


async def switch_session(state: SummaryState, *, stories: StoryStore, lease: Lease) -> dict[str, Any]:
    """Switch; from here on the story goes on in the new session."""
    await summary.switch_session(
        stories,
        lease.lock,
        state.get("instance_id", ""),
        state.get("new_session_id", ""),
        expected=state.get("session_id", ""),
    )
    return {"status": "done"}
