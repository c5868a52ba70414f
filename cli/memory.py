"""Terminal output and commands for what characters remember about people."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from cli.output import (
    BOLD,
    CYAN,
    DIM,
    GREEN,
    RED,
    YELLOW,
    is_terminal,
    masked,
    note,
    paint,
    write,
    write_json,
)
from cli.running import DONE, FAILED, Refusal, language_of, wait_for
from cli.texts import tell
from cli.turns import follow
from personalab.data_files import open_regular
from personalab.errors import Reason, as_reason
from personalab.memory.records import CONTENT_TYPES
from personalab.texts import Language

if TYPE_CHECKING:
    from nodes.memorize import MemorizeInput
    from personalab.memory.changes import Change
    from personalab.memory.records import ContentType
    from personalab.services import Services

MAX_FILE = 64 * 1024 * 1024
_SHORT = 8
"""Characters of an id that are shown, and enough to name an entry."""


async def _about(services: Services, user: str | None) -> str:
    from personalab.operations.memory import user_or_player

    return await user_or_player(services, user)


# --- looking


async def show_names(services: Services, *, as_json: bool) -> None:
    """Print all memories, page by page."""
    language = await asyncio.to_thread(language_of, services)
    after, rows = "", list[dict[str, Any]]()
    while page := await services.memories.memories(after=after):
        after = page[-1].memory_id
        for name in page:
            fields = {key: getattr(name, key) for key in name.__slots__}
            rows.append(fields)
            if not as_json:
                write(tell("memory_row", language, **fields))
    if as_json:
        write_json(rows)
    elif not rows:
        note(tell("no_memories", language))


async def show_memory(services: Services, agent: str, user: str | None, *, as_json: bool) -> None:
    """Print what an agent knows about a user."""
    from personalab.operations.memory import get_memory

    memory = await get_memory(services, agent, await _about(services, user))
    if as_json:
        entries = [entry.fields() for kind in CONTENT_TYPES for entry in memory.of(kind)]
        write_json({**memory.fields(), "entries": entries})
        return
    language = await asyncio.to_thread(language_of, services)
    for kind in CONTENT_TYPES:
        write(paint(tell(f"memory_{kind}", language), BOLD))
        for entry in memory.of(kind):
            write(f"  {paint(entry.content_id[:_SHORT], DIM)}  {masked(entry.text)}")
        if not memory.of(kind):
            write(f"  {tell('nothing', language)}")


async def show_found(
    services: Services,
    agent: str,
    user: str | None,
    query: str,
    kind: ContentType | None,
    count: int,
    conversations: bool,
    *,
    as_json: bool,
) -> None:
    """Print what was found, with where it comes from."""
    from personalab.operations.memory import search_conversations, search_memory

    about = await _about(services, user)
    language = await asyncio.to_thread(language_of, services)
    if conversations:
        found = [
            hit.fields() for hit in await search_conversations(services, query, agent, about, limit=count)
        ]
        rows = [(hit["summary"], tell("conversation_place", language, **hit)) for hit in found]
    else:
        hits = await search_memory(
            services, query, agent, about, limit=count, types=[kind] if kind else CONTENT_TYPES
        )
        found = [hit.fields() for hit in hits]
        rows = [
            (
                hit["text"],
                tell(
                    "entry_place" if hit["conversation_id"] else "entry_by_hand",
                    language,
                    kind=tell(f"memory_{hit['content_type']}", language),
                    source=hit["conversation_id"],
                ),
            )
            for hit in found
        ]
    if as_json:
        write_json(found)
        return
    if not found:
        note(tell("nothing_known", language))
    for number, (text, place) in enumerate(rows, start=1):
        write(f"{paint(f'{number}.', CYAN)} {masked(text)}")
        write(paint(f"   {place}", DIM))


async def show_conversations(
    services: Services, agent: str, user: str | None, count: int, *, as_json: bool
) -> None:
    """Print the newest conversations."""
    found = await services.memories.conversations(agent, await _about(services, user), limit=count)
    if as_json:
        write_json([conversation.listing() for conversation in found])
        return
    language = await asyncio.to_thread(language_of, services)
    if not found:
        note(tell("no_conversations", language))
    for conversation in found:
        write(f"{paint(conversation.conversation_id, CYAN)} {masked(conversation.summary)}")
        write(paint(f"   {tell('conversation_place', language, **conversation.listing())}", DIM))


async def show_conversation(services: Services, conversation_id: str, *, as_json: bool) -> None:
    """Print a conversation."""
    from personalab.operations.memory import get_conversation

    found = await get_conversation(services, conversation_id)
    if as_json:
        write_json(found.fields())
        return
    for message in found.messages:
        write(f"{paint(f'[{message.message_index}] {message.role}', DIM)} {masked(message.content)}")


# --- saving and learning


async def save_file(services: Services, file: str, *, learn: bool, model: str | None, as_json: bool) -> int:
    """Save the conversation of a file, and learn from it if that is wanted."""
    from personalab.memory.records import saved_response
    from personalab.operations.memory import save_conversation

    request = await asyncio.to_thread(_request, file)
    if learn:
        return await learn_from(services, {"request": request}, model=model, as_json=as_json)
    saved = saved_response(await save_conversation(services, request))
    if as_json:
        write_json(saved)
    else:
        language = await asyncio.to_thread(language_of, services)
        write(tell("conversation_saved", language, **saved))
    return DONE


def _request(file: str) -> object:
    try:
        raw = sys.stdin.buffer.read(MAX_FILE + 1) if file == "-" else _bytes(Path(file))
        if len(raw) > MAX_FILE:
            raise Refusal("bad_request_file", file=file, reason=Reason("over_bytes", limit=MAX_FILE))
        return json.loads(raw.decode("utf-8-sig"))
    except OSError as error:
        raise Refusal("bad_request_file", file=file, reason=as_reason(error)) from error
    except (ValueError, RecursionError) as error:
        raise Refusal("bad_request_file", file=file, reason=as_reason(error)) from error


def _bytes(path: Path) -> bytes:
    with os.fdopen(open_regular(path), "rb") as opened:
        return opened.read(MAX_FILE + 1)


async def learn_from(services: Services, call: dict[str, Any], *, model: str | None, as_json: bool) -> int:
    """Learn from a conversation, with progress."""
    from graph.memorize import stream_memorize

    language = await asyncio.to_thread(language_of, services)
    result, code = await follow(
        stream_memorize(services, cast("MemorizeInput", call), model=model),
        lambda done, total: tell("learning", language, done=done, total=total),
    )
    if as_json:
        write_json(result)
    if error := result.get("error"):
        note(str(error["message"]))
    elif not as_json:
        _show_steps(result, language)
    return code


def _show_steps(result: dict[str, Any], language: Language) -> None:
    for step in result.get("steps", []):
        write(step_row(step, language))
    code = "learned_before" if result["status"] == "unchanged" else "learned"
    note(tell(code, language, count=len(result.get("steps", [])), agent_id=result.get("agent_id", "")))
    for dropped in result.get("dropped", []):
        note(paint(tell("not_taken", language, **dropped), YELLOW, sys.stderr))


_MARKS = {"add": ("+", GREEN), "replace": ("~", YELLOW), "remove": ("-", RED), "cite": ("=", DIM)}


def step_row(step: dict[str, Any], language: Language) -> str:
    """Show one change: what was added, replaced, removed or said again."""
    mark, colour = _MARKS[step["verb"]]
    before, after = step["before"], step["after"]
    kind = tell(f"memory_{(after or before)['content_type']}", language)
    text = masked((after or before)["text"])
    if step["verb"] == "replace":
        text = f"{masked(before['text'])} → {text}"
    reason = f" {paint('· ' + masked(step['reason']), DIM)}" if step["reason"] else ""
    return f"{paint(mark, colour)} {kind}: {text}{reason}"


# --- changing


async def change_by_hand(
    services: Services,
    agent: str,
    user: str | None,
    change: Callable[..., Awaitable[Change | None]],
    *arguments: str,
    as_json: bool,
) -> None:
    """Change a memory by hand and show what was changed."""
    made = await change(services, agent, await _about(services, user), *arguments)
    if as_json:
        write_json(made.fields() if made else None)
        return
    language = await asyncio.to_thread(language_of, services)
    if made is None:
        note(tell("known_before", language))
        return
    for step in made.steps:
        write(step_row(step.fields(), language))


async def show_history(
    services: Services, agent: str, user: str | None, count: int, *, as_json: bool
) -> None:
    """Print what changed, the newest first."""
    from personalab.operations.memory import memory_changes

    changes = await memory_changes(services, agent, await _about(services, user), limit=count)
    if as_json:
        write_json([change.fields() for change in changes])
        return
    language = await asyncio.to_thread(language_of, services)
    if not changes:
        note(tell("no_changes", language))
    for change in changes:
        origin = tell(f"origin_{change.origin}", language)
        write(paint(f"{change.at} · {origin} · {change.conversation_id or '–'}", DIM))
        for step in change.steps:
            write(f"  {step_row(step.fields(), language)}")


def forget_all(services: Services, agent: str, user: str | None, *, yes: bool, as_json: bool) -> int:
    """Forget a person; without a terminal ``--yes`` is required."""
    from personalab.operations.memory import forget_memory, get_memory

    about = wait_for(_about(services, user))
    language = language_of(services)
    names = {"agent_id": agent, "user_id": about}
    memory = wait_for(get_memory(services, agent, about))
    if not yes:
        if not is_terminal(sys.stdin):
            raise Refusal("say_yes", **names)
        note(tell("forget_ask", language, count=len(memory.entries), **names))
        if sys.stdin.readline().strip().lower() not in ("y", "yes", "是"):
            note(tell("not_forgotten", language))
            return FAILED
    wait_for(forget_memory(services, agent, about))
    if as_json:
        write_json({**names, "forgotten": True})
    else:
        write(tell("forgotten", language, **names))
    return DONE
