"""Tools for memories: saving conversations, showing, searching, editing and forgetting."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context
from mcp_types import CallToolResult, InputRequiredResult
from pydantic import Field

from mcp_server.asking import Asking, Work, nothing_to_note
from mcp_server.budget import RESULT_TOKENS, Budget, page_of, page_offset
from mcp_server.desk import McpContext
from mcp_server.growing import Given
from mcp_server.knowing import SHORT_ID, brief, brief_steps, step_fields, step_row, step_rows
from mcp_server.progress import follow
from mcp_server.results import (
    ForgetResult,
    MemoryChanged,
    MemoryFound,
    MemoryView,
    SavedConversationResult,
    result,
)
from mcp_server.schemas import object_schema
from mcp_server.stories import Cursor
from mcp_server.texts import tell
from personalab.errors import BadRecord, NotFound
from personalab.memory.changes import Change
from personalab.memory.records import (
    CONTENT_TYPES,
    ContentType,
    Conversation,
    Memory,
    MemoryEntry,
    saved_response,
)
from personalab.operations.memory import (
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
from personalab.texts import Language

AgentId = Annotated[str, Field(description="Who knows: a character_id, or any agent's name")]
UserId = Annotated[str | None, Field(description="About whom; the player if left out")]
_MESSAGE = object_schema("role", "content", role=("user", "assistant", "system"), content=str)

_ENTRY_TOKENS = 5_500
"""Maximum tokens of an entry's words where the structured content contains them twice."""
_PAGE_TOKENS = 20_000
"""What both copies of a page of entries may cost."""
_ROW_TOKENS = 120
"""What an entry or a change costs beside its words."""
_SOURCES = 3
_LOOKED_BACK = 1_000


class MemoryTools:
    """What is known about people."""

    def __init__(self, desk: McpContext, asking: Asking) -> None:
        self._desk = desk
        self._asking = asking

    async def _about(self, user_id: str | None) -> str:
        return await user_or_player(self._desk.services, user_id)

    # --- saving

    async def memory_save_conversation(
        self,
        ctx: Context[Any],
        agent_id: AgentId,
        messages: Annotated[
            list[Annotated[dict[str, Any], _MESSAGE]] | None, Field(description="In order")
        ] = None,
        user_id: UserId = None,
        session_id: Annotated[str | None, Field(description="A UUID; made if left out")] = None,
        memory_id: Annotated[str | None, Field(description="A UUID for a new memory")] = None,
        learn: Annotated[bool, Field(description="Also learn from it")] = False,
        conversation_id: Annotated[str | None, Field(description="A saved one, instead of messages")] = None,
        answer: Given = None,
        cursor: Cursor = None,
    ) -> Annotated[CallToolResult, SavedConversationResult] | InputRequiredResult:
        """Save a conversation, and learn from it if that is wanted."""
        if conversation_id is not None:
            saved = await self._saved(agent_id, user_id, conversation_id)
        else:
            named = {"session_id": session_id, "memory_id": memory_id}
            request = {"agent_id": agent_id, "user_id": await self._about(user_id), "messages": messages}
            saved = await save_conversation(self._desk.services, {**request, **named})
        if learn or answer is not None or cursor is not None:
            return await self._learn(ctx, saved, answer, cursor)
        response = saved_response(saved)
        return result(tell("conversation_saved", self._desk.language, **response), response)

    async def _saved(self, agent_id: str, user_id: str | None, conversation_id: str) -> Conversation:
        """Find a conversation of this agent; of another one there is none."""
        found = await get_conversation(self._desk.services, conversation_id)
        if found.agent_id != agent_id or user_id not in (None, found.user_id):
            raise NotFound("no_conversation", conversation_id=conversation_id[:80])
        return found

    async def _learn(
        self, ctx: Context[Any], saved: Conversation, answer: str | None, cursor: str | None
    ) -> CallToolResult | InputRequiredResult:
        conversation_id, language = saved.conversation_id, self._desk.language

        async def run(model: str | None) -> dict[str, Any]:
            graph = await asyncio.to_thread(importlib.import_module, "graph.memorize")
            call = {"conversation_id": conversation_id}
            async with self._desk.place():
                stream = graph.stream_memorize(self._desk.services, call, model=model)
                return await follow(ctx, stream, language)

        response = saved_response(saved)
        again = f'memory_save_conversation(agent_id="{saved.agent_id}", conversation_id="{conversation_id}", '
        work = Work("memory_save_conversation", conversation_id, response, again, answer, cursor)
        settled = await self._asking.settle(ctx, work, run, nothing_to_note)
        if not isinstance(settled, tuple):
            return settled
        return await self._learned(saved, settled[0])

    async def _learned(self, saved: Conversation, found: dict[str, Any]) -> CallToolResult:
        response: dict[str, Any] = saved_response(saved)
        budget, language = await self._desk.budget(), self._desk.language
        rows = [tell("conversation_saved", language, **response)]
        if error := found.get("error"):
            message = self._desk.worded(str(error.get("message", "")))
            rows.append(tell("saved_not_learned", language, reason=message, **_names(saved), **response))
            return result("\n".join(rows), response, is_error=True)
        steps, dropped = list(found.get("steps", [])), list(found.get("dropped", []))
        shown = await asyncio.to_thread(brief_steps, steps, budget, RESULT_TOKENS // 2)
        share = RESULT_TOKENS // 4 // max(len(dropped[:20]), 1)
        left_out = [{name: brief(text, budget, share) for name, text in row.items()} for row in dropped[:20]]
        response["status"] = found["status"]
        response["learned"] = {"count": len(steps), "steps": shown, "dropped": left_out}
        code = "learned_before" if found["status"] == "unchanged" else "learned_from"
        rows.append(tell(code, language, count=len(steps), **_names(saved)))
        rows += step_rows(shown, len(steps), language)
        rows += [tell("not_taken", language, **row) for row in left_out]
        return result("\n".join(rows), response)

    # --- looking

    async def memory_get(
        self,
        agent_id: AgentId,
        user_id: UserId = None,
        history: Annotated[bool, Field(description="Show what changed instead, the newest first")] = False,
        conversation_id: Annotated[str | None, Field(description="Show this conversation instead")] = None,
        cursor: Cursor = None,
    ) -> Annotated[CallToolResult, MemoryView]:
        """Show what an agent knows about a user, how that came about, or a conversation."""
        services, budget, language = self._desk.services, await self._desk.budget(), self._desk.language
        if conversation_id is not None:
            found = await self._saved(agent_id, user_id, conversation_id)
            return await asyncio.to_thread(_conversation, found, cursor, budget, language)
        about = await self._about(user_id)
        if history:
            changes = await memory_changes(services, agent_id, about, limit=_LOOKED_BACK)
            names = {"agent_id": agent_id, "user_id": about}
            return await asyncio.to_thread(_changes, names, changes, cursor, budget, language)
        memory = await get_memory(services, agent_id, about)
        return await asyncio.to_thread(_memory, memory, cursor, budget, language)

    async def memory_search(
        self,
        agent_id: AgentId,
        query: Annotated[str, Field(description="What to look for")],
        user_id: UserId = None,
        where: Literal["memory", "conversations"] = "memory",
        content_types: Annotated[
            list[ContentType] | None, Field(description="Only these lists of the memory")
        ] = None,
    ) -> Annotated[CallToolResult, MemoryFound]:
        """Search what an agent knows about a user, or their conversations."""
        services, about = self._desk.services, await self._about(user_id)
        if where == "conversations":
            found = await search_conversations(services, query, agent_id, about)
        else:
            types = tuple(dict.fromkeys(content_types or CONTENT_TYPES))
            found = await search_memory(services, query, agent_id, about, types=types)
        budget, language = await self._desk.budget(), self._desk.language
        name, share = "text" if where == "memory" else "summary", RESULT_TOKENS // max(len(found), 1) - 100
        hits = [hit.fields() for hit in found]
        for hit in hits:
            hit[name] = brief(hit[name], budget, share)
        rows = [tell("found", language, count=len(hits)) if hits else tell("nothing_known", language)]
        rows += [_hit_row(hit, where, language) for hit in hits]
        data = {"agent_id": agent_id, "user_id": about, "query": query[:500], "hits": hits}
        return result("\n".join(rows), data)

    # --- changing

    async def memory_edit(
        self,
        agent_id: AgentId,
        action: Literal["add", "replace", "remove", "undo"],
        user_id: UserId = None,
        content_id: Annotated[str | None, Field(description="The entry to replace or remove")] = None,
        content_type: Annotated[ContentType | None, Field(description="The list to add to")] = None,
        text: Annotated[str | None, Field(description="What to add, or the new words")] = None,
    ) -> Annotated[CallToolResult, MemoryChanged]:
        """Mend a memory by hand, or take the last change back."""
        services, about = self._desk.services, await self._about(user_id)
        made: Change | None
        match action:
            case "add":
                kind, words = _given("content_type", content_type), _given("text", text)
                made = await add_entry(services, agent_id, about, kind, words)
            case "replace":
                entry, words = _given("content_id", content_id), _given("text", text)
                made = await edit_entry(services, agent_id, about, entry, words)
            case "remove":
                made = await remove_entry(services, agent_id, about, _given("content_id", content_id))
            case "undo":
                made = await undo_change(services, agent_id, about)
        budget, language = await self._desk.budget(), self._desk.language
        steps = [step.fields() for step in made.steps] if made else []
        shown = await asyncio.to_thread(brief_steps, steps, budget, RESULT_TOKENS)
        code = "memory_changed" if made else "known_before"
        names = {"agent_id": agent_id, "user_id": about}
        rows = [tell(code, language, count=len(steps), **names), *step_rows(shown, len(steps), language)]
        return result("\n".join(rows), {**names, "changed": made is not None, "steps": shown})

    async def memory_forget(
        self, agent_id: AgentId, user_id: UserId = None
    ) -> Annotated[CallToolResult, ForgetResult]:
        """Forget a user for good."""
        names = {"agent_id": agent_id, "user_id": await self._about(user_id)}
        await forget_memory(self._desk.services, **names)
        return result(tell("forgotten", self._desk.language, **names), {**names, "forgotten": True})


def _names(saved: Conversation) -> dict[str, str]:
    return {"agent_id": saved.agent_id, "user_id": saved.user_id}


def _given(name: str, value: Any) -> Any:
    if value is None:
        raise BadRecord("field_missing", field=name)
    return value


# --- results


def _memory(memory: Memory, cursor: str | None, budget: Budget, language: Language) -> CallToolResult:
    """Show entries, list by list, page by page."""
    entries = [entry for kind in CONTENT_TYPES for entry in memory.of(kind)]
    start = page_offset(cursor, max(len(entries), 1))
    data: dict[str, Any] = {**memory.fields(), "entries": [], "cursor": None}
    for kind in CONTENT_TYPES:
        data[f"{kind}_content"] = []
    names = {"agent_id": memory.agent_id, "user_id": memory.user_id}
    rows = [tell("memory_head", language, count=len(entries), updated_at=memory.updated_at, **names)]
    left, heading = _PAGE_TOKENS, ""
    for place in range(start, len(entries)):
        entry = entries[place]
        cost = budget.cost(entry.text)
        left -= cost * 2 + min(cost, _ENTRY_TOKENS) + _ROW_TOKENS * 2
        if left < 0 and data["entries"]:
            data["cursor"] = str(place)
            break
        if entry.content_type != heading:
            heading = entry.content_type
            rows.append(f"{tell(f'list.{heading}', language)}:")
        data[f"{heading}_content"].append(entry.text)
        data["entries"].append(_entry(entry, cost, budget))
        rows.append(f"- [{entry.content_id[:SHORT_ID]}] {entry.text}")
    if data["cursor"]:
        rows.append(tell("page_next", language, cursor=data["cursor"]))
    return result("\n".join(rows), data)


def _entry(entry: MemoryEntry, cost: int, budget: Budget) -> dict[str, Any]:
    fields = entry.fields()
    if cost > _ENTRY_TOKENS:
        fields["text"] = brief(entry.text, budget, _ENTRY_TOKENS // 2)
    shown = [source.fields() for source in entry.sources[-_SOURCES:]]
    fields["sources"] = [{**source, "messages": source["messages"][:20]} for source in shown]
    return fields


def _changes(
    names: dict[str, str], changes: Sequence[Change], cursor: str | None, budget: Budget, language: Language
) -> CallToolResult:
    """Show what was done step by step, the newest change first, page by page."""
    steps = [(change, step) for change in changes for step in change.steps]
    start = page_offset(cursor, max(len(steps), 1))
    data: dict[str, Any] = {**names, "changes": [], "cursor": None}
    rows = [tell("changes_head", language, count=len(changes), **names)]
    left, heading = RESULT_TOKENS, ""
    for place in range(start, len(steps)):
        change, step = steps[place]
        fields = step_fields(step.fields(), budget, RESULT_TOKENS // 4)
        row = step_row(fields, language)
        left -= budget.cost(row) + _ROW_TOKENS
        if left < 0 and data["changes"]:
            data["cursor"] = str(place)
            break
        if change.change_id != heading:
            heading = change.change_id
            origin = tell(f"origin.{change.origin}", language)
            rows.append(f"{change.at} · {origin} · {change.conversation_id or '–'}")
        about = {"version": change.version, "at": change.at, "origin": change.origin}
        data["changes"].append({**about, "conversation_id": change.conversation_id, **fields})
        rows.append(row)
    if data["cursor"]:
        rows.append(tell("page_next", language, cursor=data["cursor"]))
    return result("\n".join(rows), data)


def _conversation(
    found: Conversation, cursor: str | None, budget: Budget, language: Language
) -> CallToolResult:
    """Show what was said, page by page."""
    parts = [
        {"message_index": message.message_index, "role": message.role, "content": message.content}
        for message in found.messages
    ]
    shown, following = page_of(parts, cursor, budget)
    fields = {
        name: getattr(found, name) for name in ("conversation_id", "session_id", "created_at", "turn_count")
    }
    rows = [tell("conversation_head", language, **fields, **_names(found))]
    rows += [f"[{message['message_index']}] {message['role']}: {message['content']}" for message in shown]
    if following:
        rows.append(tell("page_next", language, cursor=following))
    told = {**fields, "learned": found.is_learned, "messages": shown}
    data = {**_names(found), "memory_id": found.memory_id, "conversation": told, "cursor": following}
    return result("\n".join(rows), data)


def _hit_row(hit: dict[str, Any], where: str, language: Language) -> str:
    if where == "conversations":
        return f"- {hit['summary']}\n  [{tell('conversation_place', language, **hit)}]"
    source = hit["conversation_id"] or tell("by_hand", language)
    kind = tell(f"list.{hit['content_type']}", language)
    place = tell("entry_place", language, kind=kind, source=source, short_id=hit["content_id"][:SHORT_ID])
    return f"- {hit['text']}\n  [{place}]"
