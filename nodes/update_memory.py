"""The steps that update a character's persona, with their state."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any, Literal

from langgraph.channels import EphemeralValue
from typing_extensions import TypedDict  # pydantic reads schemas from it on Python 3.11

from nodes.structured_output import ReportProgress, StructuredModel
from nodes.summarize import read_material
from personalab.errors import UserError
from personalab.leases import Lease
from personalab.ports import Clock, ReplyModel, StoryPorts, TokenCounter
from personalab.services import Services
from personalab.story.persona import (
    diff,
    evolution_schema,
    evolve_messages,
    read_evolution,
    turns_to_learn_from,
)
from personalab.story.persona_history import grow_persona, revision_of


class UpdateInput(TypedDict, total=False):
    """A call of the graph; with ``dry_run`` the new persona is shown and nothing is written."""

    instance_id: str
    dry_run: Annotated[bool, EphemeralValue]


class UpdateOutput(TypedDict, total=False):
    """The result of a call."""

    instance_id: str
    session_id: str
    """The session that was looked back on."""
    turns: list[int]
    """The first and the last turn that were."""
    status: Literal["running", "done", "unchanged", "preview", "error"]
    before: str
    evolved_persona: str
    changes: list[dict[str, Any]]
    """Each with the turns it rests on."""
    diff: list[dict[str, str]]
    """Sentence by sentence: ``op`` (``same``, ``add`` or ``remove``) and ``text``."""
    revision: int
    """The character's current revision."""
    memory: dict[str, Any] | None
    """What was learned about the player: ``turns``, ``steps`` (what changed), ``dropped``, ``conversations``."""
    warnings: list[dict[str, Any]]
    usage: dict[str, int] | None
    error: dict[str, Any] | None


class UpdateState(UpdateInput, UpdateOutput, total=False):
    """What the steps hand on."""

    lease: str
    preview: bool
    last_turn: int
    """The newest turn when the session was read: if another one came, the character knows more by now."""
    model: str
    """Who answered."""


async def read_turns(state: UpdateState, *, ports: StoryPorts) -> dict[str, Any]:
    """Find the turns to look back on, and who the character is by now."""
    instance_id = state.get("instance_id", "")
    material = await read_material(ports, instance_id)
    character, _ = await ports.stories.persona(instance_id)
    session_id = material.instance.current_session_id
    turns = turns_to_learn_from(material.transcript)
    if not turns:
        raise UserError("nothing_to_learn", instance_id=instance_id, session_id=session_id)
    last = material.transcript.last
    return {
        "preview": bool(state.get("dry_run")),
        "session_id": session_id,
        "turns": [turns[0].number, turns[-1].number],
        "last_turn": last.number if last else 0,
        "before": character.evolved_persona,
        "evolved_persona": character.evolved_persona,
        "revision": revision_of(character),
    }


async def evolve_persona(
    state: UpdateState,
    *,
    services: Services,
    lease: Lease,
    model: ReplyModel,
    counter: TokenCounter,
    report_progress: ReportProgress,
) -> dict[str, Any]:
    """Ask for the new persona; an unusable answer is requested once more, then refused."""
    material = await read_material(
        services.story_ports, state.get("instance_id", ""), last_turn=state.get("last_turn")
    )
    turns = turns_to_learn_from(material.transcript)
    base, old = material.character.base_persona, state.get("before", "")
    budget = material.config.max_total_tokens // 2
    report_progress(0, 1)
    asked = await asyncio.to_thread(
        evolve_messages, base, old, turns, material.templates, counter.count, budget
    )
    asker = StructuredModel(
        model,
        material.templates["json_repair"],
        refusal="provider.bad_persona",
        stop_asked=lease.stop_requested,
    )
    shown = {turn.number for turn in turns}
    read = partial(read_evolution, shown=shown, base=base, old=old, language=material.language)
    found = (await asker.ask(asked, read, evolution_schema(shown))).value
    report_progress(1, 1)
    return {
        "evolved_persona": found.evolved_persona,
        "changes": [change.fields() for change in found.changes],
        "diff": await asyncio.to_thread(diff, old, found.evolved_persona),
        "model": model.name,
        "usage": dict(asker.usage) if asker.usage else None,
    }


async def save_persona(state: UpdateState, *, ports: StoryPorts, lease: Lease, now: Clock) -> dict[str, Any]:
    """Save the new persona, unless only a preview is wanted or nothing has changed."""
    instance_id = state.get("instance_id", "")
    material = await read_material(ports, instance_id, last_turn=state.get("last_turn"))
    if material.instance.current_session_id != state.get("session_id"):
        raise UserError("session_switched", session_id=material.instance.current_session_id)
    if state.get("preview") or not state.get("changes"):
        return {"status": "preview" if state.get("preview") else "unchanged"}
    why = {name: state.get(name) for name in ("changes", "session_id", "turns", "model")}
    text, before = state.get("evolved_persona", ""), state.get("before", "")
    fresh = await grow_persona(ports.stories, lease.lock, instance_id, text, why, now(), expected=before)
    return {"revision": revision_of(fresh), "status": "done"}
