"""Tools that list, create, edit, move and read stories."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from mcp_types import CallToolResult
from pydantic import Field

from mcp_server.budget import RESULT_TOKENS, Budget, page_offset
from mcp_server.desk import McpContext
from mcp_server.knowing import brief
from mcp_server.results import (
    LibraryResult,
    ListedBackground,
    ListedCharacter,
    result,
)
from mcp_server.texts import tell
from mcp_server.turns import InstanceId, Reasoning
from personalab.app import Application
from personalab.errors import UserError
from personalab.results.stories import (
    BegunStoryResult,
    SavedBackground,
    SavedCharacter,
    SavedEntryResult,
    SessionPage,
    StoryResult,
)
from personalab.storage.stories import StoryListing
from personalab.story.records import Background, Character, InstanceState, check_id, is_id
from personalab.story.transcript import REPLY_FLAGS, shown_reply
from personalab.texts import Language, PromptLanguage

EntryKind = Literal["characters", "backgrounds", "instances"]
Kind = Literal["all", "characters", "backgrounds", "instances"]
KINDS: tuple[EntryKind, ...] = ("characters", "backgrounds", "instances")
Story = TypeVar("Story", bound=StoryResult)
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
    ) -> Annotated[CallToolResult, BegunStoryResult]:
        """Begin a story."""
        place = (character_id, background_id, instance_id)
        story = await self._desk.app.begin_story(*place, greeting=greeting)
        await self._desk.updates.story_changed(story.instance_id)
        language = self._desk.language
        names = {"character_id": story.character_id, "background_id": story.background_id}
        text = tell("begun", language, instance_id=story.instance_id, **_named(names, language))
        if story.opening:
            story.opening = brief(story.opening, await self._desk.budget(), RESULT_TOKENS // 2)
            text += "\n" + tell("opens_with", language, opening=story.opening)
        return result(text, shortened(story).model_dump(exclude=None if story.opening else {"opening"}))

    async def persona_save_character(
        self,
        character_id: str,
        name: Annotated[str | None, Field(description="What it is called")] = None,
        base_persona: Annotated[str | None, Field(description="Who it is, as the model is told")] = None,
        language: Annotated[PromptLanguage | None, Field(description="What it speaks")] = None,
        replace: Annotated[bool, Field(description="Change one that exists")] = False,
    ) -> Annotated[CallToolResult, SavedCharacter]:
        """Save a character."""
        saved = await self._desk.app.save_character(
            character_id,
            name=name,
            base_persona=base_persona,
            language=language,
            overwrite=replace,
        )
        return await self._saved("character", saved)

    async def persona_save_background(
        self,
        background_id: str,
        name: Annotated[str | None, Field(description="What it is called")] = None,
        world_setting: Annotated[str | None, Field(description="The world, as the model is told")] = None,
        story_outline: Annotated[
            list[str] | None, Field(description="The points the story passes, in order")
        ] = None,
        replace: Annotated[bool, Field(description="Change one that exists")] = False,
    ) -> Annotated[CallToolResult, SavedBackground]:
        """Save a background."""
        saved = await self._desk.app.save_background(
            background_id,
            name=name,
            world_setting=world_setting,
            story_outline=story_outline,
            overwrite=replace,
        )
        return await self._saved("background", saved)

    async def _saved(self, what: str, saved: SavedEntryResult) -> CallToolResult:
        await self._desk.updates.entry_changed(f"{what}s", saved.id, created=saved.created)
        code = "saved_new" if saved.created else "saved_old"
        text = tell(code, self._desk.language, what=f"{what}_id", entry_id=saved.id)
        return result(text, saved.model_copy(update={"name": _short(saved.name)}).model_dump())

    async def persona_switch_background(
        self,
        instance_id: InstanceId,
        background_id: Annotated[str | None, Field(description="null for none")],
    ) -> Annotated[CallToolResult, StoryResult]:
        """Move a story to another background."""
        story = await self._desk.app.switch_background(instance_id, background_id)
        await self._desk.updates.story_changed(instance_id)
        language = self._desk.language
        text = tell(
            "moved",
            language,
            instance_id=instance_id,
            index=story.plot_state.current_plot_index,
            status=story.plot_state.current_status,
            **_named({"background_id": background_id}, language),
        )
        return result(text, shortened(story).model_dump())

    async def persona_read(
        self,
        instance_id: InstanceId,
        session_id: Annotated[str | None, Field(description="Else the current one")] = None,
        cursor: Cursor = None,
        reasoning: Reasoning = False,
    ) -> Annotated[CallToolResult, SessionPage]:
        """Read a session, the newest turn first."""
        budget = await self._desk.budget()
        page = await self._desk.app.read_page(
            instance_id,
            session_id,
            cursor,
            budget=RESULT_TOKENS,
            cost=budget.cost,
            cut=budget.cut,
            reasoning=reasoning,
        )
        return result(page_text(page, self._desk.language), page.model_dump())

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
                    data["cursor"] = f"{each}:{shown[-1][f'{each[:-1]}_id'] if shown else ''}"
                    rows.append(tell("page_next", language, cursor=data["cursor"]))
                    break
                fields, row = _listed_row(self._desk.app, each, stories.listed(each, item), language)
                left -= budget.cost(row) + budget.cost(json.dumps(fields, ensure_ascii=False)) + 10
                shown.append(fields)
                rows.append(f"- {row}")
            if data["cursor"]:
                break
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
            fields = self._desk.app.describe_story(stories.instance(entry_id)).model_dump()
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


def _listed_row(
    app: Application, kind: EntryKind, item: StoryListing, language: Language
) -> tuple[dict[str, Any], str]:
    """Describe an entry in a line; one that cannot be read says why."""
    if item.record is None:
        return _unreadable_row(app, kind, item, language)
    match item.record:
        case Character() as found:
            shown = ListedCharacter(**dict(app.summarize_character(item)), persona=_short(found.base_persona))
            shown.name = _short(shown.name)
            row = f"{item.entry_id}: {shown.name} — {shown.persona}"
        case Background() as found:
            shown = ListedBackground(
                **dict(app.summarize_background(item)), setting=_short(found.world_setting)
            )
            shown.name = _short(shown.name)
            points = tell("points", language, count=shown.points)
            row = f"{item.entry_id}: {shown.name} ({points}) — {shown.setting}"
        case InstanceState() as state:
            shown = shortened(app.describe_story(state))
            plot = shown.plot_state
            row = (
                f"{item.entry_id}: {state.character_id} · {shown.background_id or tell('none', language)} · "
                f"{state.current_session_id} · {plot.current_plot_index} {plot.current_status}"
            )
    return shown.model_dump(exclude={"error"}), row


def _unreadable_row(
    app: Application, kind: EntryKind, item: StoryListing, language: Language
) -> tuple[dict[str, Any], str]:
    reason = item.error.message(language) if item.error else ""
    row = f"{item.entry_id}: {tell('unreadable', language, reason=reason)}"
    if kind == "characters":
        return app.summarize_character(item).model_dump(exclude={"language"}), row
    if kind == "backgrounds":
        return app.summarize_background(item).model_dump(exclude={"points"}), row
    return {"instance_id": item.entry_id, "error": reason}, row


def _short(text: str) -> str:
    line = " ".join(text[: _EXCERPT * 4].split())
    return line if len(line) <= _EXCERPT else f"{line[:_EXCERPT]}…"


def shortened(story: Story) -> Story:
    """Cut what a story's file may hold at any length."""
    return story.model_copy(
        update={
            "background_id": story.background_id and story.background_id[:80],
            "created_at": story.created_at[:40],
        }
    )


def _named(names: Mapping[str, str | None], language: Language) -> dict[str, str]:
    return {name: value or tell("none", language) for name, value in names.items()}


# --- a session as text


def page_text(page: SessionPage, language: Language) -> str:
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
