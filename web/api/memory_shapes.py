"""Request and response models of the routes for memories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from personalab.memory.changes import Change, Origin, step_summary
from personalab.memory.records import (
    CONTENT_TYPES,
    MAX_CONTENT,
    MAX_ENTRY,
    MAX_MESSAGES,
    MAX_NAME,
    ContentType,
    ConversationMessage,
    EntrySource,
    Memory,
    Role,
)
from personalab.results import Readable, ResultModel
from web.shapes import RequestModel

UUID = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
Text = Annotated[str, Field(min_length=1, max_length=MAX_ENTRY)]


class Writing(RequestModel):
    """Something to write down by hand."""

    content_type: ContentType
    text: Text


class Wording(RequestModel):
    """Other words for an entry."""

    text: Text
    was: Text | None = Field(
        default=None, description="Only if it still says this; whatever it says if left out"
    )


class Undoing(RequestModel):
    """What to take back."""

    change_id: Annotated[str, Field(pattern=UUID)] | None = Field(
        default=None, description="Only this change, if it is the newest; whichever is the newest if left out"
    )


class SavedMessage(RequestModel):
    """One message of a conversation to save."""

    role: Role
    content: Annotated[str, Field(max_length=MAX_CONTENT)]
    message_id: Annotated[str, Field(pattern=UUID)] | None = Field(
        default=None, description="Generated if left out"
    )
    message_index: int | None = Field(
        default=None, description="Ignored: messages are numbered by their order"
    )
    created_at: Annotated[str, Field(max_length=40)] | None = Field(
        default=None, description="ISO 8601; now if left out"
    )


class SaveConversation(RequestModel):
    """A conversation to save."""

    agent_id: Annotated[str, Field(min_length=1, max_length=MAX_NAME, description="Who remembers")]
    user_id: Annotated[str, Field(min_length=1, max_length=MAX_NAME, description="Who is remembered")]
    messages: Annotated[list[SavedMessage], Field(max_length=MAX_MESSAGES)]
    session_id: Annotated[str, Field(pattern=UUID)] | None = Field(
        default=None, description="Generated if left out"
    )
    memory_id: Annotated[str, Field(pattern=UUID)] | None = Field(
        default=None, description="The id of a new memory; generated if left out"
    )


class SavedConversation(ResultModel):
    """A conversation that was saved; the same one again gives the same answer."""

    success: Literal[True]
    message: str
    conversation_id: str
    session_id: str
    created_at: str
    message_count: int


class Acquaintance(ResultModel):
    """A memory in a list of them."""

    memory_id: str | None = Field(description="Null where nothing is known yet")
    agent_id: str
    agent_name: Readable = Field(description="The character's name; of any other agent its id")
    user_id: str
    updated_at: str | None
    entries: int
    conversations: int


class Acquaintances(ResultModel):
    """Who knows about whom; the last page ends with the characters of stories who know nothing yet."""

    memories: list[Acquaintance]
    after: str | None = Field(description="Where the next page begins; null at the end")
    player: str = Field(description="Who plays, as memories name them")
    enabled: bool = Field(description="Whether what is known stands in the prompt (modules/memory.json)")


class MemoryEntryResponse(ResultModel):
    """One thing that is known; without sources, a person wrote it."""

    content_id: str
    content_type: ContentType
    text: str
    position: int
    created_at: str
    updated_at: str
    reason: str | None = Field(default=None, description="Why it is known, where that was told of late")
    sources: list[EntrySource]


class MemoryResponse(ResultModel):
    """What an agent knows about a user, list by list, in order."""

    memory_id: str | None = Field(description="Null where nothing is known yet")
    agent_id: str
    agent_name: Readable = Field(description="The character's name; of any other agent its id")
    user_id: str
    is_player: bool = Field(description="Whether the user is who plays")
    enabled: bool = Field(description="Whether what is known stands in the prompt (modules/memory.json)")
    stories: list[str] = Field(description="The stories of this character with the player, by instance_id")
    created_at: str | None
    updated_at: str | None
    version: int = Field(description="How often it changed")
    profile_content: list[str]
    event_content: list[str]
    mind_content: list[str]
    profile: list[MemoryEntryResponse]
    event: list[MemoryEntryResponse]
    mind: list[MemoryEntryResponse]


class StepResponse(ResultModel):
    """What was done to one entry: its words before and after."""

    verb: Literal["add", "replace", "remove", "cite"]
    content_id: str
    content_type: ContentType
    before: str | None
    after: str | None
    reason: str


class MemoryChangeResponse(ResultModel):
    """What was changed at once."""

    change_id: str
    version: int
    at: str
    origin: Origin
    conversation_id: str | None
    undoes: str | None = Field(description="The change that this one takes back")
    steps: list[StepResponse]


class MemoryChanges(ResultModel):
    """What changed, the newest first."""

    changes: list[MemoryChangeResponse]


class Changed(ResultModel):
    """What a call changed; null where it was known before."""

    change: MemoryChangeResponse | None


class MemoryHitResponse(MemoryEntryResponse):
    """An entry that was found."""

    score: float = Field(description="How well it fits among these")
    confidence: float = Field(description="How sure it fits, from 0 to 1")


class Hits(ResultModel):
    """What was found, the best first."""

    hits: list[MemoryHitResponse]


class StoryPart(ResultModel):
    """The turns of a story that a conversation is."""

    instance_id: str
    session_id: str
    turns: list[int] = Field(description="The first and the last")


class ConversationResponse(ResultModel):
    """A saved conversation in a list of them."""

    conversation_id: str
    agent_id: str
    user_id: str
    session_id: str
    memory_id: str | None
    created_at: str
    turn_count: int = Field(description="How many messages it has")
    summary: str
    learned: bool
    story: StoryPart | None


class Conversations(ResultModel):
    """Conversations, the newest first, or the best first where they were searched."""

    conversations: list[ConversationResponse]


class WholeConversation(ConversationResponse):
    """A saved conversation and a page of its messages."""

    messages: list[ConversationMessage]
    pipeline_result: dict[str, Any] | None = Field(
        description="What each stage of learning found and changed; null where nothing was learned from it"
    )


class ForgetResponse(ResultModel):
    """Whom an agent does not know any more."""

    agent_id: str
    user_id: str


# --- conversion of records


def lists_told(memory: Memory, changes: Sequence[Change]) -> dict[str, list[dict[str, Any]]]:
    """Return the known entries by list, with the reasons that these changes give."""
    reasons: dict[str, str] = {}
    for step in (step for change in changes for step in change.steps if step.reason):
        reasons.setdefault(step.entry.content_id, step.reason)
    return {
        kind: [{**entry.fields(), "reason": reasons.get(entry.content_id)} for entry in memory.of(kind)]
        for kind in CONTENT_TYPES
    }


def changed(made: Change | None) -> Changed:
    """Describe what a call changed."""
    return Changed(change=change_told(made) if made else None)


def change_told(change: Change) -> MemoryChangeResponse:
    """Describe a change."""
    fields = change.fields()
    return MemoryChangeResponse.model_validate({**fields, "steps": list(map(step_summary, fields["steps"]))})
