"""Routes that list and create stories and move them to another background."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from personalab.operations.library import MAX_GREETINGS, picture_mark
from personalab.operations.overview import LastWords, Story, list_stories
from personalab.results import Readable, ResultModel
from personalab.results.stories import BegunStoryResult, StoryResult
from personalab.services import Services
from personalab.story.records import Background, Character
from personalab.texts import say
from web.desk import ContextDep
from web.shapes import Id, InstanceId, Named, RequestModel

router = APIRouter(prefix="/api", tags=["instances"])

_EXCERPT = 280


class Met(Named):
    """The character of a story."""

    picture: str | None = Field(default=None, description="Where its picture is")


class Last(ResultModel):
    """What was said last."""

    text: Readable = Field(description="How it begins, without plot markers")
    by_character: bool
    notice: bool = Field(description="Whether the text says that there is no reply, or why it failed")
    timestamp: Readable


class StoryEntry(ResultModel):
    """A story in a list; of one that cannot be read only the id and the reason."""

    instance_id: str
    character: Met | None = None
    background: Named | None = None
    current_session_id: str | None = None
    created_at: Readable | None = None
    turns: int = Field(default=0, description="The number of its last turn")
    last: Last | None = None
    running: bool = Field(default=False, description="Whether something is being written in it now")
    error: Readable | None = Field(default=None, description="Why it cannot be read")


class StoryList(ResultModel):
    """All stories, the one that was played last first."""

    instances: list[StoryEntry]


class NewStory(RequestModel):
    """Whom to meet, and where."""

    character_id: Id
    background_id: Id | None = Field(default=None, description="In no world, if left out")
    instance_id: Id | None = Field(default=None, description="Made, if left out")
    greeting: Annotated[int, Field(ge=0, le=MAX_GREETINGS)] | None = Field(
        default=None,
        description="Which of the character's greetings opens it, from 1; 0 none; left out: the first",
    )


class Move(RequestModel):
    """Where a story goes on."""

    background_id: Id | None = Field(description="null: in no world")


@router.get("/instances")
async def list_instances(desk: ContextDep) -> StoryList:
    """List the stories, the one that was played last first."""

    def read() -> list[StoryEntry]:
        shown = _Shown(desk.services)
        return [shown.entry(story) for story in list_stories(desk.services)]

    return StoryList(instances=await asyncio.to_thread(read))


class _Shown:
    """Names what a list of stories speaks of, looking each up once."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._met: dict[str, Met] = {}
        self._worlds: dict[str, Named] = {}

    def entry(self, story: Story) -> StoryEntry:
        """Show a story."""
        state, last = story.state, story.last
        if state is None:
            reason = story.error.message(self._services.preferences.language()) if story.error else ""
            return StoryEntry(instance_id=story.instance_id, error=reason)
        return StoryEntry(
            instance_id=story.instance_id,
            character=self._character(state.character_id),
            background=self._world(state.background_id) if state.background_id else None,
            current_session_id=state.current_session_id,
            created_at=state.created_at,
            turns=last.turn if last else 0,
            last=self._last(last) if last else None,
            running=story.is_running,
        )

    def _last(self, last: LastWords) -> Last:
        text = last.text or say("no_reply", self._services.preferences.language())
        return Last(
            text=text[:_EXCERPT],
            by_character=last.by_character,
            notice=last.is_notice,
            timestamp=last.timestamp,
        )

    def _character(self, character_id: str) -> Met:
        if character_id not in self._met:
            stories = self._services.stories
            found = stories.listed("characters", character_id).record
            name = found.name if isinstance(found, Character) else character_id
            mark = picture_mark(stories, character_id)
            place = f"/api/characters/{character_id}/picture?v={mark}" if mark else None
            self._met[character_id] = Met(id=character_id, name=name, picture=place)
        return self._met[character_id]

    def _world(self, background_id: str) -> Named:
        if background_id not in self._worlds:
            found = self._services.stories.listed("backgrounds", background_id).record
            name = found.name if isinstance(found, Background) else background_id
            self._worlds[background_id] = Named(id=background_id, name=name)
        return self._worlds[background_id]


@router.post("/instances", status_code=201)
async def begin_story(desk: ContextDep, asked: NewStory) -> BegunStoryResult:
    """Begin a story with a character, in a world or in none."""
    place = (asked.character_id, asked.background_id, asked.instance_id)
    return await desk.app.begin_story(*place, greeting=asked.greeting)


@router.put("/instances/{instance_id}/background")
async def move_story(desk: ContextDep, instance_id: InstanceId, asked: Move) -> StoryResult:
    """Move a story to another world, or to none; where it stands in its plot is kept."""
    return await desk.app.switch_background(instance_id, asked.background_id)
