"""Tools that summarize a long session in points, and update a character's persona and memory."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, InputRequiredResult
from pydantic import Field

from mcp_server.asking import MAX_ANSWER, Asking, Mark, TooManyRounds, Work, nothing_to_note
from mcp_server.budget import RESULT_TOKENS, Budget, page_offset
from mcp_server.desk import McpContext
from mcp_server.knowing import brief, brief_steps, step_rows
from mcp_server.progress import follow
from mcp_server.rendering import plain_warnings, warning_rows
from mcp_server.results import Grown, Summarized, result
from mcp_server.stories import Cursor
from mcp_server.texts import tell
from mcp_server.turns import InstanceId
from personalab.errors import StorageError
from personalab.operations.learning import unlearned
from personalab.operations.memory import memory_changes
from personalab.operations.personas import persona_history, undo_persona
from personalab.operations.summaries import undo_summary
from personalab.story.persona_history import revision_of
from personalab.story.records import check_id
from personalab.texts import Language

Given = Annotated[
    str | None,
    Field(description="Your JSON for its prompt", max_length=MAX_ANSWER),
]
Preview = Annotated[bool, Field(description="Only show it")]
Undo = Annotated[bool, Field(description="Take the last one back")]

MODERN_ROUNDS = 9
"""Maximum questions to a client in one call of resumable work; some clients support ten rounds at most."""
_POINTS, _CHANGES = 60, 20
_PERSONA_TOKENS, _CHANGES_TOKENS, _STEPS_TOKENS = 4_000, 2_000, 2_500
"""What each part of a character's growth may cost in one copy of a result."""
_LOOKED_BACK = 1_000
"""Maximum changes of a memory that are searched for those of one call."""


class GrowthTools:
    """What long stories leave behind."""

    def __init__(self, desk: McpContext, asking: Asking) -> None:
        self._desk = desk
        self._asking = asking

    async def persona_summarize(
        self,
        ctx: Context[Any],
        instance_id: InstanceId,
        preview: Preview = False,
        undo: Undo = False,
        answer: Given = None,
        cursor: Cursor = None,
    ) -> Annotated[CallToolResult, Summarized] | InputRequiredResult:
        """Turn the current session into points and go on in a new one."""
        self._check(answer, cursor, preview=preview, undo=undo)
        if undo:
            return await self._undo_summary(instance_id)

        async def run(model: str | None) -> dict[str, Any]:
            call = {"instance_id": instance_id, "dry_run": preview}
            graph = await asyncio.to_thread(importlib.import_module, "graph.summarize")
            async with self._desk.place():
                return await self._follow(ctx, graph.stream_summary(self._desk.services, call, model=model))

        work = self._work("persona_summarize", instance_id, preview, answer, cursor)
        settled = await self._asking.settle(ctx, work, run, nothing_to_note)
        if not isinstance(settled, tuple):
            return settled
        if not preview:
            await self._desk.updates.story_changed(instance_id)
        return await asyncio.to_thread(
            _summarized, settled[0], await self._desk.budget(), self._desk.language
        )

    async def _undo_summary(self, instance_id: str) -> CallToolResult:
        state = await undo_summary(self._desk.services, instance_id)
        await self._desk.updates.story_changed(instance_id)
        told = {"session_id": state.current_session_id, "turns": state.turns, "aside": state.aside}
        text = tell("summary_undone", self._desk.language, **told)
        if state.turns:
            text += "\n" + tell("turns_aside", self._desk.language, **told)
        data = {"instance_id": instance_id, "status": "undone", "session_id": state.current_session_id}
        return result(text, data)

    async def persona_update_memory(
        self,
        ctx: Context[Any],
        instance_id: InstanceId,
        preview: Preview = False,
        undo: Undo = False,
        history: Annotated[bool, Field(description="List the changes so far")] = False,
        answer: Given = None,
        cursor: Cursor = None,
    ) -> Annotated[CallToolResult, Grown] | InputRequiredResult:
        """Let a character learn about the player and grow."""
        self._check(answer, None if history else cursor, preview=preview, undo=undo, history=history)
        if history:
            return await self._history(instance_id, cursor)
        if undo:
            return await self._undo_growth(instance_id)

        async def run(model: str | None) -> dict[str, Any]:
            call = {"instance_id": instance_id, "dry_run": preview}
            graph = await asyncio.to_thread(importlib.import_module, "graph.update_memory")
            async with self._desk.place():
                return await self._follow(ctx, graph.stream_update(self._desk.services, call, model=model))

        async def begin() -> Mark:
            return {} if preview else await self._mark(instance_id)

        work = self._work("persona_update_memory", instance_id, preview, answer, cursor, rounds=MODERN_ROUNDS)
        try:
            settled = await self._asking.settle(ctx, work, run, begin)
        except TooManyRounds as many:
            learned = await self._learned(instance_id, many.mark)
            if not learned.get("turns"):
                raise
            found = {"instance_id": instance_id, "status": "unfinished"}
            return await self._grown(found, learned)
        if not isinstance(settled, tuple):
            return settled
        found, mark = settled
        if not preview:
            await self._desk.updates.story_changed(instance_id)
        return await self._grown(found, await self._learned(instance_id, mark))

    # --- what both have in common

    def _check(self, answer: str | None, cursor: str | None, **flags: bool) -> None:
        chosen = [name for name, given in flags.items() if given]
        if len(chosen) > 1:
            raise ToolError(tell("one_of", self._desk.language, names=", ".join(chosen)))
        if chosen and chosen[0] != "preview" and (answer is not None or cursor is not None):
            names = ", ".join([*chosen, "answer" if answer is not None else "cursor"])
            raise ToolError(tell("one_of", self._desk.language, names=names))

    def _work(
        self,
        tool: str,
        instance_id: str,
        preview: bool,
        answer: str | None,
        cursor: str | None,
        **bounds: int,
    ) -> Work:
        again = f'{tool}(instance_id="{instance_id[:80]}", ' + ("preview=true, " if preview else "")
        key, shown = f"{instance_id}\n{preview}", {"instance_id": instance_id}
        return Work(tool, key, shown, again, answer, cursor, **bounds)

    async def _follow(self, ctx: Context[Any], stream: AsyncGenerator[Any]) -> dict[str, Any]:
        """Run a graph to its end; one that was refused is a tool error and left nothing behind."""
        found = await follow(ctx, stream, self._desk.language)
        if error := found.get("error"):
            raise ToolError(self._desk.worded(str(error.get("message", ""))))
        return found

    # --- the character's memory

    async def _mark(self, instance_id: str) -> Mark:
        """Record the memory's state before anything is learned, if learning is due."""
        check_id(instance_id, "instance_id")
        services = self._desk.services
        state = await asyncio.to_thread(services.stories.instance, instance_id)
        module = (await asyncio.to_thread(services.preferences.read)).memory
        if not module.enabled:
            return {}
        pair = (state.character_id, module.user_id)
        try:
            memory = await services.memories.memory(*pair)
            waiting = await unlearned(services, instance_id, module.user_id)
        except StorageError:  # the graph reports it as a warning, and the character grows all the same
            return {}
        return {"pair": list(pair), "version": memory.version if memory else 0, "turns": waiting.turns}

    async def _learned(self, instance_id: str, mark: Mark) -> dict[str, Any]:
        """Return what was learned since the work began, in however many rounds."""
        if not mark:
            return {}
        services, (agent_id, user_id) = self._desk.services, mark["pair"]
        left = await unlearned(services, instance_id, user_id)
        steps: list[dict[str, Any]] = []
        if await services.memories.memory(agent_id, user_id) is not None:
            changes = await memory_changes(services, agent_id, user_id, limit=_LOOKED_BACK)
            fresh = [change for change in changes if change.version > mark["version"]]
            steps = [
                step.fields()
                for change in reversed(fresh)
                if change.origin == "memorize"
                for step in change.steps
            ]
        return {
            "agent_id": agent_id,
            "user_id": user_id,
            "turns": max(mark["turns"] - left.turns, 0),
            "left": left.turns,
            "steps": steps,
        }

    async def _grown(self, found: Mapping[str, Any], learned: Mapping[str, Any]) -> CallToolResult:
        return await asyncio.to_thread(_grown, found, learned, await self._desk.budget(), self._desk.language)

    async def _undo_growth(self, instance_id: str) -> CallToolResult:
        state = await undo_persona(self._desk.services, instance_id)
        await self._desk.updates.story_changed(instance_id)
        budget, language = await self._desk.budget(), self._desk.language
        data = {
            "instance_id": instance_id,
            "status": "undone",
            "revision": revision_of(state),
            "evolved_persona": brief(state.evolved_persona, budget, RESULT_TOKENS),
        }
        text = tell("growth_undone", language, **data)
        return result(f"{text}\n\n{data['evolved_persona'] or tell('no_growth', language)}", data)

    async def _history(self, instance_id: str, cursor: str | None) -> CallToolResult:
        found = await persona_history(self._desk.services, instance_id)
        budget, language = await self._desk.budget(), self._desk.language
        return await asyncio.to_thread(_history, found, cursor, budget, language)


# --- results


def _summarized(found: Mapping[str, Any], budget: Budget, language: Language) -> CallToolResult:
    points = list(found.get("points", []))
    share = RESULT_TOKENS // max(min(len(points), _POINTS), 1) - 40
    shown = [
        {
            "summary": (summary := brief(point["summary"], budget, share)),
            "plot": brief(point["plot"], budget, max(share - budget.cost(summary), 8)),
            "turns": point["turns"],
        }
        for point in points[-_POINTS:]
    ]
    data: dict[str, Any] = {
        **{name: found.get(name) for name in ("instance_id", "session_id", "new_session_id", "status")},
        "points": shown,
        "kept_turns": found.get("kept_turns", 0),
        "warnings": plain_warnings(found.get("warnings", [])),
        "usage": found.get("usage"),
    }
    code = "summary_preview" if data["status"] == "preview" else "summary_done"
    rows = [tell(code, language, count=len(points), **data)]
    if len(points) > len(shown):
        rows.append(tell("older_points", language, count=len(points) - len(shown)))
    for point in shown:
        first, last = point["turns"]
        rows.append(f"- {point['summary']} [{first}–{last}]\n  {point['plot']}")
    return result("\n".join([*rows, *warning_rows(data["warnings"], language)]), data)


def _grown(
    found: Mapping[str, Any], learned: Mapping[str, Any], budget: Budget, language: Language
) -> CallToolResult:
    changes = list(found.get("changes", []))
    warnings = plain_warnings(found.get("warnings", []))
    data: dict[str, Any] = {
        "instance_id": found["instance_id"],
        "status": found["status"],
        "changes": _brief_changes(changes, budget),
        "warnings": warnings,
        "usage": found.get("usage"),
    }
    words = {"instance_id": data["instance_id"], "count": len(changes), "revision": found.get("revision")}
    rows = [tell(f"growth.{data['status']}", language, **words)]
    if "evolved_persona" in found:
        persona = str(found["evolved_persona"])
        data |= {
            "revision": found.get("revision", 0),
            "evolved_persona": brief(persona, budget, _PERSONA_TOKENS),
        }
        rows += _change_rows(data["changes"])
        rows.append(
            tell("persona_now", language, text=data["evolved_persona"] or tell("no_growth", language))
        )
        if len(data["evolved_persona"]) < len(persona):
            rows.append(tell("persona_cut", language, **words))
    if data["status"] == "preview" and (waiting := found.get("memory")):
        data["learned"] = {"turns": waiting["turns"], "steps": []}
        rows.append(tell("would_learn", language, turns=waiting["turns"]))
    if learned:
        steps = list(learned["steps"])
        shown = brief_steps(steps, budget, _STEPS_TOKENS)
        data["learned"] = {**learned, "steps": shown, "count": len(steps)}
        rows.append(tell("learned", language, count=len(steps), **learned))
        rows += step_rows(shown, len(steps), language)
    return result("\n".join([*rows, *warning_rows(warnings, language)]), data)


def _brief_changes(changes: Sequence[Mapping[str, Any]], budget: Budget) -> list[dict[str, Any]]:
    shown = changes[:_CHANGES]
    share = _CHANGES_TOKENS // max(len(shown), 1) - 30
    return [
        {"change": brief(change["change"], budget, share), "turns": list(change["turns"])[:_CHANGES]}
        for change in shown
    ]


def _change_rows(changes: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"- {change['change']} [{', '.join(map(str, change['turns']))}]" for change in changes]


def _history(
    found: Mapping[str, Any], cursor: str | None, budget: Budget, language: Language
) -> CallToolResult:
    """Show revisions, the newest first, page by page."""
    revisions: list[Mapping[str, Any]] = list(reversed(found["revisions"]))
    start = page_offset(cursor, max(len(revisions), 1))
    persona = brief(found["evolved_persona"], budget, _PERSONA_TOKENS // 2)
    rows = [tell("persona_now", language, text=persona or tell("no_growth", language))]
    if found["edited_by_hand"]:
        rows.append(tell("edited_since", language, revision=found["revision"]))
    shown: list[dict[str, Any]] = []
    left, following = RESULT_TOKENS - _PERSONA_TOKENS // 2, None
    for place in range(start, len(revisions)):
        fields, row = _revision(revisions[place], budget, language)
        left -= budget.cost(row) + 60
        if left < 0 and shown:
            following = str(place)
            break
        shown.append(fields)
        rows.append(row)
    data = {
        "instance_id": found["instance_id"],
        "status": "history",
        "revision": found["revision"],
        "evolved_persona": persona,
        "revisions": shown,
        "cursor": following,
    }
    if following:
        rows.append(tell("page_next", language, cursor=following))
    return result("\n\n".join(rows), data)


def _revision(revision: Mapping[str, Any], budget: Budget, language: Language) -> tuple[dict[str, Any], str]:
    fields: dict[str, Any] = {
        "revision": revision["revision"],
        "time": str(revision.get("time", ""))[:40],
        "by": str(revision.get("by") or revision.get("model") or "")[:80],
        "changes": _brief_changes(revision.get("changes") or [], budget),
        "after": brief(revision["after"], budget, _CHANGES_TOKENS),
    }
    head = tell("revision", language, **fields)
    return fields, "\n".join([head, *_change_rows(fields["changes"]), fields["after"]])
