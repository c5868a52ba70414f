"""Routes for summaries and persona growth: start, inspect and undo."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Query
from pydantic import Field

from graph.summarize import stream_summary
from graph.update_memory import stream_update
from nodes.summarize import SummaryInput
from nodes.update_memory import UpdateInput
from personalab.dialogue import well_formed
from personalab.errors import NotFound
from personalab.operations.personas import persona_history, undo_persona
from personalab.operations.summaries import undo_summary
from personalab.providers.temporary_model import CachingModel, temporary_model
from personalab.results import Readable, ResultModel
from personalab.storage.story_lock import running
from personalab.story.persona_history import revision_of
from personalab.story.records import check_id
from web.api.jobs import started
from web.desk import AppContext, ContextDep
from web.jobs import Job
from web.shapes import InstanceId, JobStarted, RequestModel

router = APIRouter(prefix="/api/instances/{instance_id}", tags=["growth"])

_RESULT = ("instance_id", "session_id", "new_session_id", "status", "turns", "kept_turns", "points")
_GROWN = ("before", "evolved_persona", "changes", "diff", "revision", "memory", "warnings", "usage")


class Growing(RequestModel):
    """How a session is summed up, or a character grows."""

    dry_run: bool = Field(default=False, description="Only show what it would become; nothing is written")
    as_shown: bool = Field(
        default=False,
        description="Write what the last preview showed; where the story has gone on since, the model is asked anew",
    )


class UndoneSummary(ResultModel):
    """A summary that was taken back."""

    instance_id: str
    session_id: str = Field(description="The session that the story goes on in again")
    turns: int = Field(description="How many turns came after the summary; they are set aside, not deleted")


class PersonaChangeResponse(ResultModel):
    """One way in which a character changed."""

    change: Readable
    turns: list[int] = Field(description="The turns it rests on")


class RevisionResponse(ResultModel):
    """One step of a character's growth."""

    revision: int
    time: Readable
    before: Readable
    after: Readable
    by: Literal["hand", "model"]
    model: Readable | None = None
    session_id: Readable | None = None
    turns: list[int] | None = Field(
        default=None, description="The first and the last turn that it looked back on"
    )
    changes: list[PersonaChangeResponse]


class Persona(ResultModel):
    """Who a character is in a story, and how it came to be."""

    instance_id: str
    revision: int
    base_persona: Readable
    evolved_persona: Readable
    edited_by_hand: bool = Field(description="Whether someone wrote another text since the last revision")
    count: int = Field(description="How many revisions there are")
    revisions: list[RevisionResponse] = Field(description="The newest of them, the oldest first")
    withdrawn: list[RevisionResponse] = Field(description="What was taken back, the newest ones")


class UndoneGrowth(ResultModel):
    """Who the character is again."""

    instance_id: str
    revision: int
    evolved_persona: Readable


@router.post("/summary", status_code=202)
async def sum_up(desk: ContextDep, instance_id: InstanceId, asked: Growing) -> JobStarted:
    """Turn the current session into points and go on in a new one.

    The job's result: ``status`` (``done`` or ``preview``), ``session_id``, ``new_session_id``, ``points`` (each with
    ``summary``, ``plot`` and its first and last turn as ``turns``), ``kept_turns``, ``warnings``.
    """
    await _check_story(desk, instance_id)

    def work(model: str) -> AsyncGenerator[Any]:
        call: SummaryInput = {"instance_id": instance_id, "dry_run": asked.dry_run}
        return stream_summary(desk.services, call, model=model)

    return _begin(desk, "summary", "summarize", instance_id, work, fresh=not asked.as_shown)


@router.post("/summary/undo")
async def undo_last_summary(desk: ContextDep, instance_id: InstanceId) -> UndoneSummary:
    """Make the session before the last summary current again."""
    undone = await undo_summary(desk.services, instance_id)
    session_id = undone.current_session_id
    return UndoneSummary(instance_id=instance_id, session_id=session_id, turns=undone.turns)


@router.post("/persona", status_code=202)
async def grow(desk: ContextDep, instance_id: InstanceId, asked: Growing) -> JobStarted:
    """Let the character grow by the last turns and learn about the player.

    The job's result: ``status`` (``done``, ``unchanged`` or ``preview``), ``before``, ``evolved_persona``, ``changes``
    (each with its ``turns``), ``diff`` (by sentences), ``revision``, ``memory`` (what was learned), ``warnings``.
    """
    await _check_story(desk, instance_id)

    def work(model: str) -> AsyncGenerator[Any]:
        call: UpdateInput = {"instance_id": instance_id, "dry_run": asked.dry_run}
        return stream_update(desk.services, call, model=model)

    return _begin(desk, "persona", "update-memory", instance_id, work, fresh=not asked.as_shown)


@router.get("/persona")
async def read_persona(
    desk: ContextDep,
    instance_id: InstanceId,
    newest: Annotated[int, Query(ge=0, le=200, description="So many revisions, the newest")] = 20,
) -> Persona:
    """Tell who the character is, and every change that led there."""
    found = await persona_history(desk.services, instance_id)
    return Persona(
        instance_id=instance_id,
        revision=found["revision"],
        base_persona=found["base_persona"],
        evolved_persona=found["evolved_persona"],
        edited_by_hand=found["edited_by_hand"],
        count=len(found["revisions"]),
        revisions=_revisions(found["revisions"], newest),
        withdrawn=_revisions(found["withdrawn"], newest),
    )


@router.post("/persona/undo")
async def undo_growth(desk: ContextDep, instance_id: InstanceId) -> UndoneGrowth:
    """Give the character back who it was before the last change."""
    state = await undo_persona(desk.services, instance_id)
    return UndoneGrowth(
        instance_id=instance_id, revision=revision_of(state), evolved_persona=state.evolved_persona
    )


# --- the work itself


async def _check_story(desk: AppContext, instance_id: str) -> None:
    """Refuse a story that is not there before anything is begun."""
    await asyncio.to_thread(desk.services.stories.instance, check_id(instance_id, "instance_id"))


def _begin(
    desk: AppContext,
    kind: str,
    task: str,
    instance_id: str,
    work: Callable[[str], AsyncGenerator[Any]],
    *,
    fresh: bool,
) -> JobStarted:
    async def answered() -> AsyncGenerator[Any]:
        model = await desk.services.model()
        answers = desk.previews.answers(kind, instance_id, fresh=fresh)
        with temporary_model(desk.services.models, CachingModel(model, answers)) as name:
            async with aclosing(work(name)) as parts:
                async for part in parts:
                    if "type" not in part and part.get("status") != "preview":
                        desk.previews.forget(kind, instance_id)
                    yield part

    job = desk.jobs.begin(kind, instance_id, _placed(desk, answered()), told=_told)
    job.stop = lambda: _stop(desk, job, task)
    return started(job)


async def _placed(desk: AppContext, stream: AsyncGenerator[Any]) -> AsyncGenerator[Any]:
    """Run a graph in one of the server's places."""
    async with desk.places.place(), aclosing(stream) as parts:
        async for part in parts:
            yield part


async def _stop(desk: AppContext, job: Job, task: str) -> None:
    """Stop the work through its lease; while it only waits for one that another writer holds, end the waiting."""
    folder = desk.services.stories.instances / job.subject
    holder = await asyncio.to_thread(running, folder) or {}
    if (holder.get("pid"), holder.get("task")) != (os.getpid(), task):
        job.task.cancel()
        return
    try:
        await desk.services.leases.stop(job.subject)
    except NotFound:  # it has just ended on its own
        return


def _told(result: Mapping[str, Any]) -> dict[str, Any]:
    """Choose what a client learns of a result."""
    known = {name: result[name] for name in (*_RESULT, *_GROWN) if name in result}
    return json.loads(well_formed(json.dumps(known, ensure_ascii=False)))


def _revisions(rows: Sequence[Mapping[str, Any]], newest: int) -> list[RevisionResponse]:
    return [_revision(row) for row in rows[len(rows) - min(newest, len(rows)) :]]


def _revision(row: Mapping[str, Any]) -> RevisionResponse:
    """Describe a revision; other values in its file may have any shape, and are included only where they fit."""
    return RevisionResponse(
        revision=row["revision"],
        time=row["time"],
        before=row["before"],
        after=row["after"],
        by="hand" if row.get("by") == "hand" else "model",
        model=_text(row.get("model")),
        session_id=_text(row.get("session_id")),
        turns=_pair(row.get("turns")),
        changes=[
            PersonaChangeResponse(change=one["change"], turns=one["turns"]) for one in row.get("changes", [])
        ],
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _pair(value: object) -> list[int] | None:
    rows = cast("list[object]", value) if isinstance(value, list) else []
    numbers = [number for number in rows if isinstance(number, int)]
    return numbers if len(numbers) == len(rows) == 2 else None
