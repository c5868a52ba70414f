"""Tools that list, create, edit, move and read stories."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from mcp_types import CallToolResult
from pydantic import Field

from mcp_server.budget import RESULT_TOKENS, Budget, page_offset
from mcp_server.desk import McpContext
from mcp_server.knowing import brief
from mcp_server.results import Instance, LibraryResult, SavedEntry, SessionPage, result
from mcp_server.texts import tell
from mcp_server.turns import InstanceId, Reasoning
from personalab.errors import UserError
from personalab.operations.instances import new_instance, opening_line, switch_background
from personalab.operations.library import save_background, save_character
from personalab.operations.reading import BudgetedPage, read_newest
from personalab.storage.stories import StoryListing
from personalab.story.records import Background, Character, InstanceState, check_id, is_id
from personalab.story.transcript import REPLY_FLAGS, shown_reply
from personalab.texts import Language, PromptLanguage

Kind = Literal["all", "characters", "backgrounds", "instances"]
KINDS: tuple[Literal["characters", "backgrounds", "instances"], ...] = (
    "characters",
    "backgrounds",
    "instances",
)
Cursor = Annotated[str | None, Field(description="Cursor of the last result")]
_EXCERPT = 120


class StoryTools:
    """The library and the stories in it."""

    def __init__(self, desk: McpContext) -> None:
        self._desk = desk

    async def persona_library(
        self,
        kind: Kind = "all",
        entry_id: Annotated[str | None, Field(description="Show this entry whole; needs kind")] = None,
        cursor: Cursor = None,
    ) -> Annotated[CallToolResult, LibraryResult]:
        """List what there is, or show one entry whole."""
        budget, language = await self._desk.budget(), self._desk.language
        if entry_id is not None:
            return await asyncio.to_thread(self._entry, kind, entry_id, cursor, budget, language)
        return await asyncio.to_thread(self._listing, kind, cursor, budget, language)

    async def persona_new_instance(
        self,
        character_id: Annotated[str, Field(description="Who to meet")],
        background_id: Annotated[str | None, Field(description="In which world; none if left out")] = None,
        instance_id: Annotated[str | None, Field(description="The story's id; made if left out")] = None,
        greeting: Annotated[int | None, Field(description="Which greeting opens it; 0 none")] = None,
    ) -> Annotated[CallToolResult, Instance]:
        """Begin a story."""
        services, place = self._desk.services, (character_id, background_id, instance_id)
        state = await new_instance(services, *place, greeting=greeting)
        opening = await asyncio.to_thread(opening_line, services, state.instance_id)
        await self._desk.updates.story_changed(state.instance_id)
        language = self._desk.language
        names = {"character_id": state.character_id, "background_id": state.background_id}
        text = tell("begun", language, instance_id=state.instance_id, **_named(names, language))
        data = instance_fields(state)
        if opening:
            data["opening"] = brief(opening, await self._desk.budget(), RESULT_TOKENS // 2)
            text += "\n" + tell("opens_with", language, opening=data["opening"])
        return result(text, data)

    async def persona_save_character(
        self,
        character_id: str,
        name: Annotated[str | None, Field(description="What it is called")] = None,
        base_persona: Annotated[str | None, Field(description="Who it is, as the model is told")] = None,
        language: Annotated[PromptLanguage | None, Field(description="What it speaks")] = None,
        replace: Annotated[bool, Field(description="Change one that exists")] = False,
    ) -> Annotated[CallToolResult, SavedEntry]:
        """Save a character."""
        saved = await save_character(
            self._desk.services,
            character_id,
            name=name,
            base_persona=base_persona,
            language=language,
            overwrite=replace,
        )
        return await self._saved("character", character_id, saved.entry.name, created=saved.created)

    async def persona_save_background(
        self,
        background_id: str,
        name: Annotated[str | None, Field(description="What it is called")] = None,
        world_setting: Annotated[str | None, Field(description="The world, as the model is told")] = None,
        story_outline: Annotated[
            list[str] | None, Field(description="The points the story passes, in order")
        ] = None,
        replace: Annotated[bool, Field(description="Change one that exists")] = False,
    ) -> Annotated[CallToolResult, SavedEntry]:
        """Save a background."""
        saved = await save_background(
            self._desk.services,
            background_id,
            name=name,
            world_setting=world_setting,
            story_outline=story_outline,
            overwrite=replace,
        )
        return await self._saved("background", background_id, saved.entry.name, created=saved.created)

    async def _saved(self, what: str, entry_id: str, name: str, *, created: bool) -> CallToolResult:
        await self._desk.updates.entry_changed(f"{what}s", entry_id, created=created)
        code = "saved_new" if created else "saved_old"
        text = tell(code, self._desk.language, what=f"{what}_id", entry_id=entry_id)
        return result(text, {f"{what}_id": entry_id, "name": _short(name), "created": created})

    async def persona_switch_background(
        self,
        instance_id: InstanceId,
        background_id: Annotated[str | None, Field(description="null for none")],
    ) -> Annotated[CallToolResult, Instance]:
        """Move a story to another background."""
        state = await switch_background(self._desk.services, instance_id, background_id)
        await self._desk.updates.story_changed(instance_id)
        language = self._desk.language
        text = tell(
            "moved",
            language,
            instance_id=instance_id,
            index=state.plot_state.current_plot_index,
            status=state.plot_state.current_status,
            **_named({"background_id": background_id}, language),
        )
        return result(text, instance_fields(state))

    async def persona_read(
        self,
        instance_id: InstanceId,
        session_id: Annotated[str | None, Field(description="Else the current one")] = None,
        cursor: Cursor = None,
        reasoning: Reasoning = False,
    ) -> Annotated[CallToolResult, SessionPage]:
        """Read a session, the newest turn first."""
        budget = await self._desk.budget()
        page = await read_newest(
            self._desk.services,
            instance_id,
            session_id,
            cursor,
            budget=RESULT_TOKENS,
            cost=budget.cost,
            cut=budget.cut,
            reasoning=reasoning,
        )
        data = {
            "instance_id": page.instance_id,
            "session_id": page.session_id,
            "continued_from": page.continued_from,
            "turns": page.turns,
            "entries": page.entries,
            "cursor": page.cursor,
        }
        return result(page_text(page, self._desk.language), data)

    # --- the library

    def _listing(self, kind: Kind, cursor: str | None, budget: Budget, language: Language) -> CallToolResult:
        kinds = KINDS if kind == "all" else (kind,)
        first, after = _library_cursor(cursor, kinds)
        data: dict[str, Any] = {"cursor": None}
        rows: list[str] = []
        left = RESULT_TOKENS * 2
        for each in kinds[kinds.index(first) :]:
            stories = self._desk.services.stories
            listed = [name for name in stories.names(each) if each != first or name > after]
            shown: list[dict[str, Any]] = []
            data[each] = shown
            rows.append(f"{tell(each, language)}:" + ("" if listed else f" {tell('nothing_here', language)}"))
            for item in listed:
                if left < 0:
                    data["cursor"] = f"{each}:{shown[-1]['entry_id'] if shown else ''}"
                    rows.append(tell("page_next", language, cursor=data["cursor"]))
                    break
                fields, row = _listed_row(stories.listed(each, item), language)
                left -= budget.cost(row) + budget.cost(json.dumps(fields, ensure_ascii=False)) + 10
                shown.append(fields)
                rows.append(f"- {row}")
            if data["cursor"]:
                break
        for each in kinds:
            for fields in data.get(each, []):
                fields[f"{each[:-1]}_id"] = fields.pop("entry_id")
        return result("\n".join(rows), data)

    def _entry(
        self, kind: Kind, entry_id: str, cursor: str | None, budget: Budget, language: Language
    ) -> CallToolResult:
        stories = self._desk.services.stories
        check_id(entry_id, "entry_id")
        if kind == "characters":
            fields = stories.character(entry_id).fields()
        elif kind == "backgrounds":
            fields = stories.background(entry_id).fields()
        elif kind == "instances":
            fields = instance_fields(stories.instance(entry_id))
        else:
            raise UserError("field_missing", field="kind (characters | backgrounds | instances)")
        whole = json.dumps(fields, ensure_ascii=False, indent=1)
        start = page_offset(cursor, len(whole))
        shown = budget.cut(whole[start:])
        if start == 0 and len(shown) == len(whole):
            return result(whole, {"entry": fields, "cursor": None})
        following = start + len(shown)
        data: dict[str, Any] = {
            "entry": {"part": shown},
            "cursor": str(following) if following < len(whole) else None,
        }
        more = tell("page_next", language, cursor=data["cursor"]) if data["cursor"] else ""
        return result(f"{shown}\n{more}", data)


def _library_cursor(cursor: str | None, kinds: tuple[str, ...]) -> tuple[str, str]:
    if cursor is None:
        return kinds[0], ""
    kind, colon, after = cursor.partition(":")
    if not colon or kind not in kinds or not (after == "" or is_id(after)):
        raise UserError("bad_cursor", value=cursor[:80])
    return kind, after


def _listed_row(item: StoryListing, language: Language) -> tuple[dict[str, Any], str]:
    """Describe an entry in a line; one that cannot be read says why."""
    fields: dict[str, Any] = {"entry_id": item.entry_id}
    match item.record:
        case Character() as character:
            excerpt = _short(character.base_persona)
            fields |= {"name": _short(character.name), "language": character.language, "persona": excerpt}
            return fields, f"{item.entry_id}: {fields['name']} — {excerpt}"
        case Background() as background:
            excerpt, count = _short(background.world_setting), len(background.story_outline)
            fields |= {"name": _short(background.name), "points": count, "setting": excerpt}
            points = tell("points", language, count=count)
            return fields, f"{item.entry_id}: {fields['name']} ({points}) — {excerpt}"
        case InstanceState() as state:
            fields |= instance_fields(state)
            fields.pop("instance_id")
            plot = state.plot_state
            place = f"{state.character_id} · {fields['background_id'] or tell('none', language)}"
            return fields, (
                f"{item.entry_id}: {place} · {state.current_session_id} · "
                f"{plot.current_plot_index} {plot.current_status}"
            )
        case None:
            reason = item.error.message(language) if item.error else ""
            fields["error"] = reason
            return fields, f"{item.entry_id}: {tell('unreadable', language, reason=reason)}"


def _short(text: str) -> str:
    line = " ".join(text[: _EXCERPT * 4].split())
    return line if len(line) <= _EXCERPT else f"{line[:_EXCERPT]}…"


def instance_fields(state: InstanceState) -> dict[str, Any]:
    """Return a story's state as the tools name it."""
    return {
        "instance_id": state.instance_id,
        "character_id": state.character_id,
        "background_id": state.background_id and state.background_id[:80],
        "session_id": state.current_session_id,
        "created_at": state.created_at[:40],
        "plot_state": state.plot_state.fields(),
    }


def _named(names: Mapping[str, str | None], language: Language) -> dict[str, str]:
    return {name: value or tell("none", language) for name, value in names.items()}


# --- a session as text


def page_text(page: BudgetedPage, language: Language) -> str:
    """Word some turns of a session."""
    head = {"instance_id": page.instance_id, "session_id": page.session_id, "turns": page.turns}
    rows = [tell("page_head", language, **head)]
    turn: object = None
    for entry in page.entries:
        if entry.get("turn") != turn:
            turn = entry.get("turn")
            if turn is not None:
                rows.append(f"\n## {tell('turn_head', language, turn=turn)}")
        rows.append(line_text(entry, language))
    if page.cursor:
        rows.append("\n" + tell("page_more", language, cursor=page.cursor))
    elif page.continued_from:
        rows.append("\n" + tell("page_continued", language, session_id=page.continued_from))
    return "\n".join(rows)


def line_text(entry: Mapping[str, Any], language: Language) -> str:
    """Word one line of a session."""
    who = {"user": "by_user", "assistant": "by_character"}.get(str(entry.get("role")), "by_summary")
    flags = [name for name in REPLY_FLAGS if entry.get(name)]
    if entry.get("unanswered"):
        flags.append(tell("unanswered", language))
    marks = f" ({', '.join(flags)})" if flags else ""
    part = ""
    if "part" in entry:
        first, last, total = entry["part"]
        part = " " + tell("part", language, first=first + 1, last=last, total=total)
    text = shown_reply(entry["content"], language) if who == "by_character" else entry["content"]
    said = tell("said", language, who=f"{tell(who, language)}{marks}{part}", text=text)
    return f"{tell('thought', language, text=entry['reasoning'])}\n{said}" if entry.get("reasoning") else said
