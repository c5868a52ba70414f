"""Routes for memories: show, search, edit, undo, learn and forget.

Names of agents and users may be any text, so they are query parameters, not parts of the path.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query

from graph.memorize import learn_story
from personalab.errors import NotFound
from personalab.memory.changes import Change
from personalab.memory.records import MAX_NAME, ContentType, empty_memory, saved_response
from personalab.operations.memory import (
    MAX_HITS,
    add_entry,
    edit_entry,
    forget_memory,
    get_conversation,
    get_memory,
    memory_changes,
    remove_entry,
    save_conversation,
    search_conversations,
    search_memory,
    undo_change,
    user_or_player,
)
from personalab.services import Services
from personalab.story.records import Character, InstanceState
from personalab.tasks import end_tasks
from web.api.jobs import started
from web.api.memory_shapes import (
    UUID,
    Acquaintance,
    Acquaintances,
    Changed,
    ConversationResponse,
    Conversations,
    ForgetResponse,
    Hits,
    MemoryChanges,
    MemoryHitResponse,
    MemoryResponse,
    SaveConversation,
    SavedConversation,
    Undoing,
    WholeConversation,
    Wording,
    Writing,
    change_told,
    changed,
    lists_told,
)
from web.desk import ContextDep
from web.shapes import InstanceId, JobStarted

router = APIRouter(prefix="/api", tags=["memory"])

ContentId = Annotated[str, Path(pattern=UUID, description="The entry's id")]
ConversationId = Annotated[str, Path(pattern=UUID)]
Count = Annotated[int, Query(ge=1, le=MAX_HITS)]
SearchText = Annotated[str, Query(min_length=1, max_length=2_000)]
_PAGE = 200
_REASONS = 200
"""Maximum changes searched for why something is known."""


@dataclass(frozen=True, slots=True)
class AgentAndUser:
    """Who knows about whom."""

    agent_id: str
    user_id: str


async def _pair(
    desk: ContextDep,
    agent_id: Annotated[
        str, Query(min_length=1, max_length=MAX_NAME, description="Who knows: a character's id, or any name")
    ],
    user_id: Annotated[
        str | None, Query(min_length=1, max_length=MAX_NAME, description="About whom; the player if left out")
    ] = None,
) -> AgentAndUser:
    return AgentAndUser(agent_id, await user_or_player(desk.services, user_id))


Between = Annotated[AgentAndUser, Depends(_pair)]


# --- looking


@router.get("/memories")
async def list_memories(
    desk: ContextDep,
    after: Annotated[
        str | None, Query(pattern=UUID, description="The last memory_id of the page before")
    ] = None,
) -> Acquaintances:
    """List who knows about whom, page by page."""
    services = desk.services
    found = await services.memories.memories(limit=_PAGE, after=(after or "").lower())
    module = (await asyncio.to_thread(services.preferences.read)).memory
    rows: list[dict[str, Any]] = [{key: getattr(one, key) for key in one.__slots__} for one in found]
    following = found[-1].memory_id if len(found) == _PAGE else None
    if following is None:
        rows += [row async for row in _strangers(services, module.user_id)]
    names = await asyncio.to_thread(_names, services, {row["agent_id"] for row in rows})
    known = [Acquaintance(**row, agent_name=names.get(row["agent_id"]) or row["agent_id"]) for row in rows]
    return Acquaintances(memories=known, after=following, player=module.user_id, enabled=module.enabled)


async def _strangers(services: Services, player: str) -> AsyncGenerator[dict[str, Any]]:
    """Find the characters of stories who know nothing about the player yet."""
    for agent_id in sorted(await asyncio.to_thread(_stories, services)):
        if await services.memories.memory(agent_id, player, newest=0) is None:
            nothing = {"memory_id": None, "updated_at": None, "entries": 0, "conversations": 0}
            yield {"agent_id": agent_id, "user_id": player, **nothing}


@router.get("/memory")
async def show_memory(
    desk: ContextDep,
    pair: Between,
    newest: Annotated[
        int | None,
        Query(ge=1, le=100_000, description="Only so many of each list, the newest; all if left out"),
    ] = None,
) -> MemoryResponse:
    """Show what an agent knows about a user, which may be nothing."""
    services, names = desk.services, {"agent_id": pair.agent_id, "user_id": pair.user_id}
    module = (await asyncio.to_thread(services.preferences.read)).memory
    changes: list[Change] = []
    try:
        memory = await get_memory(services, **names, newest=newest)
        changes = await services.memories.changes(**names, limit=_REASONS)
        fields = memory.fields()
    except NotFound:
        memory = empty_memory("", **names, now="")
        fields = {**memory.fields(), **dict.fromkeys(("memory_id", "created_at", "updated_at"))}
    known = await asyncio.to_thread(_names, services, {pair.agent_id})
    is_player = pair.user_id == module.user_id
    stories = (await asyncio.to_thread(_stories, services)).get(pair.agent_id, []) if is_player else []
    about = {"is_player": is_player, "enabled": module.enabled, "stories": stories}
    name = known.get(pair.agent_id, pair.agent_id)
    return MemoryResponse.model_validate(
        {**fields, **lists_told(memory, changes), **about, "agent_name": name}
    )


@router.get("/memory/changes")
async def list_changes(desk: ContextDep, pair: Between, limit: Count = 50) -> MemoryChanges:
    """List what changed in a memory, the newest first."""
    found = await memory_changes(desk.services, pair.agent_id, pair.user_id, limit=limit)
    return MemoryChanges(changes=[change_told(change) for change in found])


@router.get("/memory/search")
async def search(
    desk: ContextDep,
    pair: Between,
    query: SearchText,
    content_type: Annotated[list[ContentType] | None, Query(max_length=3)] = None,
    limit: Count = 20,
) -> Hits:
    """Find what is known, by meaning and by words."""
    found = await search_memory(
        desk.services, query, pair.agent_id, pair.user_id, limit=limit, types=content_type or ()
    )
    return Hits(hits=[MemoryHitResponse(**{**hit.fields(), **hit.entry.fields()}) for hit in found])


@router.get("/memory/conversations")
async def list_conversations(
    desk: ContextDep,
    pair: Between,
    query: Annotated[str | None, Query(min_length=1, max_length=2_000)] = None,
    before: Annotated[str | None, Query(pattern=UUID, description="The last one of the page before")] = None,
    limit: Count = 20,
) -> Conversations:
    """List the conversations a memory was learned from, or find those that fit a query."""
    services, names = desk.services, (pair.agent_id, pair.user_id)
    if query is not None:
        hits = await search_conversations(services, query, *names, limit=limit)
        found = [hit.conversation for hit in hits]
    else:
        found = await services.memories.conversations(*names, limit=limit, before=before and before.lower())
    return Conversations(conversations=[ConversationResponse(**one.listing()) for one in found])


@router.get("/memory/conversations/{conversation_id}")
async def show_conversation(
    desk: ContextDep,
    conversation_id: ConversationId,
    first: Annotated[int, Query(ge=0, le=10**6, description="The first message of the page")] = 0,
    count: Annotated[int, Query(ge=1, le=_PAGE)] = 50,
) -> WholeConversation:
    """Show what was said in a conversation, page by page."""
    found = await get_conversation(desk.services, conversation_id.lower())
    shown = list(found.messages[first : first + count])
    result = dict(found.pipeline_result) if found.pipeline_result is not None else None
    return WholeConversation(**found.listing(), messages=shown, pipeline_result=result)


# --- changing


@router.post("/memory/conversations", status_code=201)
async def save(desk: ContextDep, asked: SaveConversation) -> SavedConversation:
    """Save a conversation without learning from it; saving the same one again changes nothing."""
    request = asked.model_dump(exclude_none=True)
    return SavedConversation(**saved_response(await save_conversation(desk.services, request)))


@router.post("/memory/entries", status_code=201)
async def write_entry(desk: ContextDep, pair: Between, asked: Writing) -> Changed:
    """Write something down by hand; nothing changes where it is known."""
    made = await add_entry(desk.services, pair.agent_id, pair.user_id, asked.content_type, asked.text)
    return changed(made)


@router.put("/memory/entries/{content_id}")
async def reword_entry(desk: ContextDep, pair: Between, content_id: ContentId, asked: Wording) -> Changed:
    """Word an entry differently; what it said stays in the history."""
    names = (pair.agent_id, pair.user_id)
    return changed(await edit_entry(desk.services, *names, content_id, asked.text, was=asked.was))


@router.delete("/memory/entries/{content_id}")
async def forget_entry(desk: ContextDep, pair: Between, content_id: ContentId) -> Changed:
    """Take an entry out; it stays in the history until the whole memory is forgotten."""
    return changed(await remove_entry(desk.services, pair.agent_id, pair.user_id, content_id))


@router.post("/memory/undo")
async def undo(desk: ContextDep, pair: Between, asked: Undoing) -> Changed:
    """Take the newest change back that was not taken back yet."""
    only = asked.change_id and asked.change_id.lower()
    return changed(await undo_change(desk.services, pair.agent_id, pair.user_id, only=only))


@router.delete("/memory")
async def forget(desk: ContextDep, pair: Between) -> ForgetResponse:
    """Forget a user for good: all that is known, its history and its conversations."""
    await forget_memory(desk.services, pair.agent_id, pair.user_id)
    return ForgetResponse(agent_id=pair.agent_id, user_id=pair.user_id)


# --- learning


@router.post("/instances/{instance_id}/learn", status_code=202)
async def learn(desk: ContextDep, instance_id: InstanceId) -> JobStarted:
    """Let a story's character learn about the player from the turns it has not learned from yet."""
    await asyncio.to_thread(desk.services.stories.instance, instance_id)
    asked = asyncio.Event()

    async def stop() -> None:
        asked.set()

    work = _learning(desk.services, instance_id, asked.is_set)
    return started(desk.jobs.begin("learn", instance_id, work, stop=stop, told=_learned))


async def _learning(
    services: Services, instance_id: str, stop_asked: Callable[[], bool]
) -> AsyncGenerator[dict[str, Any]]:
    """Learn from a story; yield how far it is and, last, what came of it."""
    news: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    def report_progress(done: int, total: int) -> None:
        news.put_nowait({"type": "progress", "done": done, "total": total, "stage": "memorize"})

    learning = asyncio.create_task(
        learn_story(services, instance_id, model=None, report_progress=report_progress, stop_asked=stop_asked)
    )
    learning.add_done_callback(lambda _: news.put_nowait(None))
    try:
        while (part := await news.get()) is not None:
            yield part
        yield (await learning).fields()
    finally:
        await end_tasks([learning])


def _learned(found: dict[str, Any]) -> dict[str, Any]:
    """Summarize what was learned."""
    kept = {name: found[name] for name in ("turns", "left_out")}
    return {**kept, "steps": len(found["steps"]), "dropped": len(found["dropped"])}


# --- wording


def _names(services: Services, agents: set[str]) -> dict[str, str]:
    """Find the names of those agents that are characters."""
    known = agents.intersection(services.stories.names("characters"))
    records = [services.stories.listed("characters", agent_id).record for agent_id in known]
    return {record.character_id: record.name for record in records if isinstance(record, Character)}


def _stories(services: Services) -> dict[str, list[str]]:
    """Find the stories of each character."""
    found: dict[str, list[str]] = {}
    for listed in services.stories.all_instances():
        if isinstance(listed.record, InstanceState):
            found.setdefault(listed.record.character_id, []).append(listed.entry_id)
    return found
