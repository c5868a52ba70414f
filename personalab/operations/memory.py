"""Operations on memories: saving conversations, reading, searching, editing, undo and deletion."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from personalab.errors import BadRecord, Busy, NotFound, UserError
from personalab.memory.changes import Change, MemoryRevision, Operation, revise, undo
from personalab.memory.records import (
    CONTENT_TYPES,
    ContentType,
    Conversation,
    Memory,
    MemoryEntry,
    check_entry,
    check_name,
    check_type,
    clean,
    read_request,
)
from personalab.memory.search import MAX_QUERY, ConversationHit, MemoryHit, MemorySearch
from personalab.services import Services

_TRIES = 8
MAX_HITS = 100


async def user_or_player(services: Services, user_id: str | None) -> str:
    """Return about whom: the user who is named, or the player."""
    if user_id is not None:
        return user_id
    return (await asyncio.to_thread(services.preferences.read)).memory.user_id


async def save_conversation(services: Services, request: object) -> Conversation:
    """Save a conversation as it is given, without learning from it; the same one again changes nothing."""
    return await services.memories.save_conversation(read_request(request, services.now()))


async def get_memory(services: Services, agent_id: str, user_id: str, *, newest: int | None = None) -> Memory:
    """Read what an agent knows about a user, all of it or so many of each list, the newest."""
    agent_id, user_id = _names(agent_id, user_id)
    memory = await services.memories.memory(agent_id, user_id, newest=newest)
    if memory is None:
        raise NotFound("no_memory", agent_id=agent_id, user_id=user_id)
    return memory


async def memory_changes(services: Services, agent_id: str, user_id: str, *, limit: int = 50) -> list[Change]:
    """List what changed in a memory, the newest first; one there is none of is refused."""
    await get_memory(services, agent_id, user_id, newest=0)
    return await services.memories.changes(agent_id, user_id, limit=limit)


async def search_memory(
    services: Services,
    query: str,
    agent_id: str,
    user_id: str,
    *,
    limit: int = 10,
    types: Sequence[ContentType] = CONTENT_TYPES,
) -> list[MemoryHit]:
    """Find what is known, by meaning and by words."""
    agent_id, user_id = _names(agent_id, user_id)
    for kind in types:
        check_type(kind)
    wanted = tuple(types) or CONTENT_TYPES
    search = MemorySearch(_query(query), agent_id, user_id, _limit(limit), wanted)
    return await services.memories.search(search)


async def search_conversations(
    services: Services, query: str, agent_id: str, user_id: str, *, limit: int = 10
) -> list[ConversationHit]:
    """Find conversations, by meaning and by words."""
    agent_id, user_id = _names(agent_id, user_id)
    return await services.memories.search_conversations(_query(query), agent_id, user_id, limit=_limit(limit))


async def get_conversation(services: Services, conversation_id: str) -> Conversation:
    """Read a saved conversation."""
    found = await services.memories.conversation(conversation_id)
    if found is None:
        raise NotFound("no_conversation", conversation_id=conversation_id[:80])
    return found


# --- by hand


async def add_entry(
    services: Services, agent_id: str, user_id: str, content_type: ContentType, text: str
) -> Change | None:
    """Write down something by hand; nothing changes where it is known."""
    agent_id, user_id = _names(agent_id, user_id)
    operation = Operation("add", check_type(content_type), check_entry(text))
    await services.memories.begin(agent_id, user_id, services.now())
    return await _revise(services, agent_id, user_id, lambda memory, now: _by_hand(memory, operation, now))


async def edit_entry(
    services: Services,
    agent_id: str,
    user_id: str,
    content_id: str,
    text: str,
    *,
    was: str | None = None,
) -> Change | None:
    """Word an entry differently, if it still says what it ``was``; what it said stays in the history."""
    wanted = check_entry(text)

    def edit(memory: Memory, now: str) -> MemoryRevision:
        old = _entry(memory, content_id)
        if was is not None and old.text != was:
            raise UserError("entry_changed", text=old.text)
        operation = Operation("replace", old.content_type, wanted, old.content_id)
        return _by_hand(memory, operation, now)

    return await _revise(services, *_names(agent_id, user_id), edit)


async def remove_entry(services: Services, agent_id: str, user_id: str, content_id: str) -> Change | None:
    """Take an entry out; it stays in the history until the whole memory is forgotten."""

    def remove(memory: Memory, now: str) -> MemoryRevision:
        old = _entry(memory, content_id)
        return _by_hand(memory, Operation("remove", old.content_type, "", old.content_id), now)

    return await _revise(services, *_names(agent_id, user_id), remove)


async def undo_change(services: Services, agent_id: str, user_id: str, *, only: str | None = None) -> Change:
    """Undo the newest change that was not undone yet and has an effect; ``only`` this one, if it is the newest."""
    agent_id, user_id = _names(agent_id, user_id)
    changes = await memory_changes(services, agent_id, user_id, limit=1_000)
    if only is not None and (not changes or changes[0].change_id != only):
        raise UserError("change_not_newest", agent_id=agent_id, user_id=user_id)
    undone = {change.undoes for change in changes if change.undoes}
    standing = [change for change in changes if change.undoes is None and change.change_id not in undone]

    def take_back(memory: Memory, now: str) -> MemoryRevision:
        tries = (undo(memory, change, now) for change in standing)
        return next((revised for revised in tries if revised.change), MemoryRevision(memory, None))

    made = await _revise(services, agent_id, user_id, take_back)
    if made is None:
        raise UserError("no_change_to_undo", agent_id=agent_id, user_id=user_id)
    return made


async def forget_memory(services: Services, agent_id: str, user_id: str) -> None:
    """Delete all that an agent knows about a user, its history and its conversations; this cannot be undone."""
    agent_id, user_id = _names(agent_id, user_id)
    if not await services.memories.forget(agent_id, user_id):
        raise NotFound("no_memory", agent_id=agent_id, user_id=user_id)


async def _revise(
    services: Services, agent_id: str, user_id: str, change: Callable[[Memory, str], MemoryRevision]
) -> Change | None:
    for _ in range(_TRIES):
        memory = await get_memory(services, agent_id, user_id)
        revised = change(memory, services.now())
        if revised.change is None or await services.memories.commit(revised):
            return revised.change
    raise Busy("memory_busy", agent_id=agent_id, user_id=user_id)


def _by_hand(memory: Memory, operation: Operation, now: str) -> MemoryRevision:
    return revise(memory, [operation], now, origin="edit")


def _entry(memory: Memory, content_id: str) -> MemoryEntry:
    """Find an entry by its id, or by a beginning of it that only one has."""
    wanted = content_id.strip().lower()
    found = [entry for entry in memory.entries if wanted and entry.content_id.startswith(wanted)]
    if len(found) != 1:
        names = {"agent_id": memory.agent_id, "user_id": memory.user_id}
        raise NotFound("no_entry", content_id=content_id[:80], **names)
    return found[0]


def _names(agent_id: object, user_id: object) -> tuple[str, str]:
    given: dict[str, Any] = {"agent_id": agent_id, "user_id": user_id}
    return check_name(given, "agent_id"), check_name(given, "user_id")


def _query(query: str) -> str:
    if not query.strip():
        raise UserError("blank_input")
    if len(query) > MAX_QUERY:
        raise UserError("field_too_long", field="query", actual=len(query), limit=MAX_QUERY)
    return clean(query)


def _limit(limit: int) -> int:
    if not 1 <= limit <= MAX_HITS:
        raise BadRecord("setting_out_of_range", field="limit", value=limit, range=f"1–{MAX_HITS}")
    return limit
