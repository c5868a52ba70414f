"""Tools that show a story's past and its next prompt, and the settings."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from mcp_types import CallToolResult
from pydantic import Field

from mcp_server.budget import RESULT_TOKENS, Budget, page_offset
from mcp_server.desk import McpContext
from mcp_server.rendering import plain_warnings, warning_rows
from mcp_server.results import PromptView, RecallResult, SettingsView, result
from mcp_server.stories import Cursor
from mcp_server.texts import tell
from mcp_server.turns import InstanceId
from personalab.config import FIELDS
from personalab.errors import PersonaLabError, UserError
from personalab.results.settings import SettingValues
from personalab.services import Services
from personalab.story.director import MarkedPoint, mark_outline
from personalab.texts import Language, say

if TYPE_CHECKING:
    from graph.preview import Preview
    from personalab.story.open_turn import Scene

MAX_QUERY = 10_000
MAX_TEXT = 50_000
_POINTS = 60
"""Maximum points of an outline shown at once."""
_LORE = 40
"""Maximum lorebook entries listed."""


class LookingTools:
    """What can be looked up."""

    def __init__(self, desk: McpContext) -> None:
        self._desk = desk

    async def persona_recall(
        self,
        instance_id: InstanceId,
        query: Annotated[str, Field(description="What to look for, in words of the story")],
        depth: Annotated[
            Literal["summaries", "plots", "turns", "auto"],
            Field(description="How detailed: points, their plots, or the words themselves"),
        ] = "auto",
    ) -> Annotated[CallToolResult, RecallResult]:
        """Search a story's past."""
        if len(query) > MAX_QUERY:
            raise UserError("field_too_long", field="query", actual=len(query), limit=MAX_QUERY)
        items = await self._desk.app.recall(instance_id, query, depth)
        budget, language = await self._desk.budget(), self._desk.language
        share = RESULT_TOKENS // max(len(items), 1) - 60
        rows = [tell("found", language, count=len(items)) if items else tell("not_found", language)]
        for item in items:
            item.text = budget.cut(item.text, share)
            turns = "–".join(str(turn) for turn in dict.fromkeys(item.turns or ())) or "?"
            place = tell("item_place", language, **{**dict(item), "turns": turns})
            rows.append(f"- {item.text}\n  [{place}]")
        data = {"instance_id": instance_id, "query": query[:500]}
        return result("\n".join(rows), {**data, "items": [item.model_dump() for item in items]})

    async def persona_prompt(
        self,
        instance_id: InstanceId,
        text: Annotated[str, Field(description="What the user would say", max_length=MAX_TEXT)] = "…",
        section: Annotated[str | None, Field(description="Show this section whole")] = None,
        cursor: Cursor = None,
    ) -> Annotated[CallToolResult, PromptView]:
        """Show where a story stands and what the next turn would send."""
        preview = await asyncio.to_thread(importlib.import_module, "graph.preview")
        found: Preview = await preview.preview_prompt(self._desk.services, instance_id, text)
        budget, language = await self._desk.budget(), self._desk.language
        services = self._desk.services
        scene = await services.turns.preview(instance_id, "…", services.now())
        data = await asyncio.to_thread(_story_view, services, scene, found, budget, language)
        sections, following = _sections(found, section, cursor, budget)
        titled = [{**row, "title": say(f"section.{row['name']}", language)} for row in sections]
        data |= {"sections": titled, "cursor": following}
        return result(_prompt_text(data, language), data)

    async def persona_settings(
        self,
        changes: Annotated[
            dict[str, Any] | None, Field(description="Names (dotted or their last part) and new values")
        ] = None,
        reset: Annotated[bool, Field(description="Restore the defaults first")] = False,
    ) -> Annotated[CallToolResult, SettingsView]:
        """Show settings, or change them, all or none."""
        app = self._desk.app

        def settle() -> SettingValues:
            if reset:
                return app.reset_settings(changes)
            return app.change_settings(changes) if changes else app.settings()

        values = (await asyncio.to_thread(settle)).root
        language = self._desk.language
        ranges = {name: str(rule) for name, rule in FIELDS.items()}
        rows = [tell("changed", language)] if reset or changes else []
        for name, value in values.items():
            shown = str(value).lower() if isinstance(value, bool) else value
            rows.append(tell("setting_row", language, name=name, value=shown, range=ranges[name]))
        return result("\n".join(rows), {"settings": values, "ranges": ranges})


# --- the prompt


def _story_view(
    services: Services, scene: Scene, found: Preview, budget: Budget, language: Language
) -> dict[str, Any]:
    """Collect where a story stands, for the text and for the panel."""
    state = scene.instance
    background = scene.data.background
    preferences = scene.data.preferences
    outline = mark_outline(background, state.plot_state) if preferences.director.enabled else []
    try:
        character = services.stories.character(state.character_id).name
    except PersonaLabError:
        character = state.character_id
    counts = ("head", "middle", "total", "limit", "is_counted", "encoding")
    tokens = {name: found.tokens[name] for name in counts}
    return {
        "instance_id": state.instance_id,
        "session_id": state.current_session_id,
        "turn": found.turn,
        "language": language,
        "character": character[:200],
        "background": (background.name or state.background_id or "")[:200] or None,
        "plot_state": state.plot_state.fields(),
        "reminder_threshold": preferences.config.rag_fallback_threshold,
        "outline": _outline(outline, state.plot_state.current_plot_index, budget),
        "warnings": plain_warnings(found.warnings),
        "tokens": tokens,
        "recalled": len(found.recalled),
        "lore": [_lore(hit, budget) for hit in found.lore[:_LORE]],
    }


def _lore(hit: dict[str, Any], budget: Budget) -> dict[str, Any]:
    """Describe an activated entry, and why; names and keys are untrusted and may be long."""
    return {
        name: _brief(value, budget, 40) if isinstance(value, str) else value for name, value in hit.items()
    }


def _lore_row(hit: Mapping[str, Any]) -> str:
    told = [
        hit["why"],
        *(f"{name}: {hit[name]}" for name in ("key", "ago", "caller", "left_out") if name in hit),
    ]
    return f"{'+' if hit['shown'] else '-'} {hit['name'] or hit['entry']} [{hit['book']}] {', '.join(told)}"


def _outline(outline: list[MarkedPoint], current: int, budget: Budget) -> list[dict[str, Any]]:
    """Show the points, of a long outline those around the current one, each within its share of the budget."""
    first = max(0, min(current - _POINTS // 2, len(outline) - _POINTS))
    shown = outline[first : first + _POINTS]
    share = RESULT_TOKENS // 4 // max(len(shown), 1)
    return [{**point, "content": _brief(point["content"], budget, share)} for point in shown]


def _brief(text: str, budget: Budget, tokens: int) -> str:
    shown = budget.cut(text[:200], tokens)
    return shown if len(shown) == len(text) else f"{shown}…"


def _sections(
    found: Preview, wanted: str | None, cursor: str | None, budget: Budget
) -> tuple[list[dict[str, Any]], str | None]:
    """Show every section, the long ones by their beginning; or a single one, page by page."""
    sections = found.prompt.sections
    if wanted is None:
        if cursor is not None:
            raise UserError("bad_cursor", value=cursor[:80])
        share = max(RESULT_TOKENS // 2 // max(len(sections), 1), 100)
        rows: list[dict[str, Any]] = []
        for section in sections:
            text = budget.cut(section.text, share)
            shown = len(text) == len(section.text)
            rows.append(
                {
                    "name": section.name,
                    "zone": section.zone,
                    "tokens": section.tokens,
                    "text": text,
                    "shown": shown,
                }
            )
        return rows, None
    chosen = next((section for section in sections if section.name == wanted), None)
    if chosen is None:
        known = ", ".join(section.name for section in sections)
        raise UserError("unknown_section", section=wanted[:80], known=known)
    start = page_offset(cursor, len(chosen.text))
    text = budget.cut(chosen.text[start:])
    end = start + len(text)
    row = {"name": chosen.name, "zone": chosen.zone, "tokens": chosen.tokens, "text": text}
    whole = end >= len(chosen.text)
    return [{**row, "shown": whole and not start}], None if whole else str(end)


_MARKS = {"completed": "✓", "in_progress": "→", "pending": "·"}


def _prompt_text(data: Mapping[str, Any], language: Language) -> str:
    names = {"character": data["character"], "background": data["background"] or tell("none", language)}
    rows = [tell("prompt_head", language, turn=data["turn"], **names)]
    outline = data["outline"]
    if outline:
        done = sum(point["status"] == "completed" for point in outline)
        rows.append(tell("prompt_outline", language, done=done, total=len(outline)))
        rows += [f"{_MARKS[point['status']]} {point['index']}. {point['content']}" for point in outline]
        counter = {
            "count": data["plot_state"]["no_update_count"],
            "threshold": data["reminder_threshold"],
        }
        rows.append(tell("prompt_counter", language, **counter))
    rows += warning_rows(data["warnings"], language)
    tokens = data["tokens"]
    total = f"{tokens['total']}{'' if tokens['is_counted'] else '+'}"
    rows.append(tell("prompt_tokens", language, **{**tokens, "total": total}))
    if data["lore"]:
        rows.append(tell("prompt_lore", language))
        rows += [_lore_row(hit) for hit in data["lore"]]
    for section in data["sections"]:
        rows.append(f"\n### {tell('prompt_section', language, **section)}\n{section['text']}")
    if data["cursor"]:
        rows.append(tell("page_next", language, cursor=data["cursor"]))
    elif not all(section["shown"] for section in data["sections"]) and len(data["sections"]) > 1:
        rows.append("\n" + tell("prompt_more", language, instance_id=data["instance_id"]))
    return "\n".join(rows)
