"""Results about the library, stories and their sessions."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from personalab.results import Readable, ResultModel
from personalab.story.records import PlotStatus
from personalab.texts import PromptLanguage


class PlotResult(ResultModel):
    """The current point of the outline, and the number of replies since the last marker."""

    current_plot_index: int
    current_status: PlotStatus
    no_update_count: int


class StoryResult(ResultModel):
    """A story and where it stands."""

    instance_id: str
    character_id: Readable
    background_id: Readable | None
    session_id: Readable
    current_session_id: Readable = Field(description="The same as session_id, named as in the story's file")
    created_at: Readable
    plot_state: PlotResult


class BegunStoryResult(StoryResult):
    """A story that was begun."""

    opening: Readable = Field(
        default="", description="What the character says first; blank if the person does"
    )


class SavedEntryResult(ResultModel):
    """What was saved."""

    id: str
    name: Readable
    created: bool


class SavedCharacter(SavedEntryResult):
    """A character that was saved."""

    character_id: str


class SavedBackground(SavedEntryResult):
    """A background that was saved."""

    background_id: str


class CharacterSummary(ResultModel):
    """A character in a list; of one that cannot be read only the id and the reason."""

    character_id: str
    name: Readable
    language: PromptLanguage | None = None
    error: Readable | None = Field(default=None, description="Why it cannot be read")


class BackgroundSummary(ResultModel):
    """A background in a list; of one that cannot be read only the id and the reason."""

    background_id: str
    name: Readable
    points: int = Field(default=0, description="How many points its outline has")
    error: Readable | None = Field(default=None, description="Why it cannot be read")


class SessionTurns(ResultModel):
    """Lines of a session, in the form of its file."""

    instance_id: str
    session_id: str
    continued_from: str | None
    entries: list[dict[Any, Any]]


class SessionExcerpt(SessionTurns):
    """Some turns of a session, in order."""

    older: int | None = Field(description="The turn to continue from; null at the beginning")


class SessionPage(SessionTurns):
    """Lines of a session within a budget, the newest turn first and each turn in order."""

    turns: int
    cursor: str | None


class RecalledEvent(ResultModel):
    """An event of a story's past."""

    event_id: Readable
    kind: Literal["summary", "plot", "turn"]
    text: Readable
    session_id: Readable
    turns: list[int] | None = Field(description="The first and the last turn it covers, where that is known")
    reason: Readable = Field(description="Why it was found")
    confidence: float = Field(description="From 0 to 1: how surely it is meant")


class StopResult(ResultModel):
    """What was stopped."""

    instance_id: str
    stopped: str = Field(description="What was being done: say, retry, summarize, …")
