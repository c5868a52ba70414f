"""Result types of the tools. These shapes are the contract that other programs build on."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, cast

from mcp_types import CallToolResult, TextContent
from typing_extensions import TypedDict

from personalab.results.settings import SettingValues
from personalab.results.stories import BackgroundSummary, CharacterSummary, RecalledEvent

Status = Literal["done", "interrupted", "empty", "error"]
Record = dict[str, Any]


class TurnResult(TypedDict):
    """A turn that is over."""

    instance_id: str
    session_id: str
    turn: int
    status: Status
    reply: str
    truncated: bool
    reasoning: NotRequired[str]
    plot_state: Record
    warnings: list[Record]
    usage: Record | None
    care: NotRequired[list[Record]]
    error: NotRequired[Record]
    cursor: NotRequired[str]


class BegunTurn(TypedDict):
    """A turn that waits for the reply its caller writes; one that was answered before is shown as it is."""

    instance_id: str
    session_id: str
    turn: int
    status: Literal["awaiting_reply", "done", "interrupted", "empty", "error"]
    plot_state: Record
    warnings: list[Record]
    prompt: NotRequired[Record]
    tokens: NotRequired[Record]
    reply: NotRequired[str]
    truncated: NotRequired[bool]
    usage: NotRequired[Record | None]
    error: NotRequired[Record]
    cursor: NotRequired[str]


class ListedCharacter(CharacterSummary):
    """A character in a list."""

    persona: str | None = None


class ListedBackground(BackgroundSummary):
    """A background in a list."""

    setting: str | None = None


class LibraryResult(TypedDict):
    """What there is to play with."""

    characters: NotRequired[list[Record]]
    backgrounds: NotRequired[list[Record]]
    instances: NotRequired[list[Record]]
    entry: NotRequired[Record]
    cursor: str | None


class RecallResult(TypedDict):
    """What was found of a story's past."""

    instance_id: str
    query: str
    items: list[RecalledEvent]


class PromptView(TypedDict):
    """What the next turn would send, and where the story stands."""

    instance_id: str
    session_id: str
    turn: int
    language: str
    character: str
    background: str | None
    plot_state: Record
    reminder_threshold: int
    outline: list[Record]
    warnings: list[Record]
    tokens: Record
    sections: list[Record]
    recalled: int
    lore: list[Record]
    cursor: str | None


class SettingsView(TypedDict):
    """Every setting with its value and what it may be."""

    settings: SettingValues
    ranges: Record


class Summarized(TypedDict):
    """What became of a session, or the prompt to write its points by."""

    instance_id: str
    status: Literal["done", "preview", "undone", "awaiting_answer"]
    session_id: NotRequired[str]
    new_session_id: NotRequired[str]
    points: NotRequired[list[Record]]
    kept_turns: NotRequired[int]
    warnings: NotRequired[list[Record]]
    usage: NotRequired[Record | None]
    prompt: NotRequired[Record]
    cursor: NotRequired[str | None]


class Grown(TypedDict):
    """Who a character has become and what it learned about the player, or the prompt to write that by."""

    instance_id: str
    status: Literal["done", "unchanged", "preview", "unfinished", "undone", "history", "awaiting_answer"]
    revision: NotRequired[int]
    evolved_persona: NotRequired[str]
    changes: NotRequired[list[Record]]
    learned: NotRequired[Record]
    revisions: NotRequired[list[Record]]
    warnings: NotRequired[list[Record]]
    usage: NotRequired[Record | None]
    prompt: NotRequired[Record]
    cursor: NotRequired[str | None]


class SavedConversationResult(TypedDict):
    """A conversation that was saved, and what was learned from it."""

    success: bool
    message: str
    conversation_id: str
    session_id: str
    created_at: str
    message_count: int
    status: NotRequired[Literal["done", "unchanged", "awaiting_answer"]]
    learned: NotRequired[Record]
    prompt: NotRequired[Record]
    cursor: NotRequired[str | None]


class MemoryView(TypedDict):
    """What an agent knows about a user; how that came about; or a conversation."""

    agent_id: str
    user_id: str
    memory_id: NotRequired[str | None]
    created_at: NotRequired[str]
    updated_at: NotRequired[str]
    profile_content: NotRequired[list[str]]
    event_content: NotRequired[list[str]]
    mind_content: NotRequired[list[str]]
    version: NotRequired[int]
    entries: NotRequired[list[Record]]
    changes: NotRequired[list[Record]]
    conversation: NotRequired[Record]
    cursor: str | None


class MemoryFound(TypedDict):
    """What was found in a memory or in conversations."""

    agent_id: str
    user_id: str
    query: str
    hits: list[Record]


class MemoryChanged(TypedDict):
    """What was changed by hand."""

    agent_id: str
    user_id: str
    changed: bool
    steps: list[Record]


class ForgetResult(TypedDict):
    """Whom an agent has forgotten."""

    agent_id: str
    user_id: str
    forgotten: bool


class Imports(TypedDict):
    """What came in of a file, and what did not."""

    imported: list[Record]
    skipped: list[Record]
    not_indexed: NotRequired[str]


class ExportResult(TypedDict):
    """A file that lies in the folder ``exchange`` now; of a text also how it begins."""

    name: str
    size: int
    format: str
    media_type: str
    text: NotRequired[str]
    whole: NotRequired[bool]
    other_sessions: NotRequired[list[str]]
    left_out: NotRequired[list[str]]


class Compacted(TypedDict):
    """A conversation in short, or the prompt to write that by."""

    archive: str
    session_id: str
    status: Literal["done", "undone", "awaiting_answer"]
    dialogue: NotRequired[Record]
    entries: NotRequired[int]
    usage: NotRequired[Record | None]
    prompt: NotRequired[Record]
    cursor: NotRequired[str | None]


def result(text: str, data: Any, *, is_error: bool = False) -> CallToolResult:
    """Return both copies: the text that stands alone and the structured content."""
    return CallToolResult(
        content=[TextContent(type="text", text=well_formed(text))],
        structured_content=all_well_formed(data),
        is_error=is_error,
    )


def well_formed(text: str) -> str:
    """Replace half pairs, which no wire can carry."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def all_well_formed(data: Any, depth: int = 64) -> Any:
    """Do so throughout a JSON value; what is nested deeper than anything of ours is left out."""
    if isinstance(data, str):
        return well_formed(data)
    if isinstance(data, dict | list | tuple) and depth == 0:
        return "…"
    if isinstance(data, dict):
        known = cast("dict[object, Any]", data)
        return {well_formed(str(name)): all_well_formed(value, depth - 1) for name, value in known.items()}
    if isinstance(data, list | tuple):
        return [all_well_formed(value, depth - 1) for value in cast("list[Any]", data)]
    return data
