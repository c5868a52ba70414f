"""The events of a chat turn.

All entrances share one family of events. ``as_json`` gives the form that leaves the process: each has
``type`` and ``turn``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

from personalab.errors import ErrorKind, PersonaLabError
from personalab.texts import Language, say

Status = Literal["done", "interrupted", "empty", "error", "awaiting_reply"]


class Usage(TypedDict):
    """Tokens the provider says it used."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int


def added_usage(one: Usage | None, other: Usage | None) -> Usage | None:
    """Add what two answers used."""
    if one is None or other is None:
        return one or other
    return Usage(
        input_tokens=one["input_tokens"] + other["input_tokens"],
        output_tokens=one["output_tokens"] + other["output_tokens"],
        cached_tokens=one["cached_tokens"] + other["cached_tokens"],
    )


class TokenEvent(TypedDict):
    """Text that is already in the file; ``offset`` is the characters of the reply before it."""

    type: Literal["token"]
    turn: int
    text: str
    offset: int
    error_note: NotRequired[Literal[True]]
    """Whether it is the note that ends a failed reply; the error event says the same."""


class ReasoningEvent(TypedDict):
    """What the model thinks, stored beside the reply; ``offset`` is how many characters of it came before.

    With offset 0 the reasoning starts over: the model was asked again, and what it thought before is void.
    """

    type: Literal["reasoning"]
    turn: int
    text: str
    offset: int


class WarningEvent(TypedDict):
    """Something the reader should know; the turn goes on."""

    type: Literal["warning"]
    turn: int | None
    category: str
    message: str
    current_value: NotRequired[int]
    threshold: NotRequired[int]
    suggestion: NotRequired[str]


class DoneEvent(TypedDict):
    """The turn is over and the file is closed."""

    type: Literal["done"]
    turn: int
    attempt: int
    """Which try at the turn's reply this is, from 1: one more than it began with if the model was asked again."""
    session_id: str
    content: str
    interrupted: bool
    empty: bool
    error: bool
    truncated: bool
    """Whether the model stopped at its length limit."""
    plot_state: dict[str, Any]
    tokens: dict[str, Any]
    usage: Usage | None


class ErrorEvent(TypedDict):
    """The turn ended early, or its reply did."""

    type: Literal["error"]
    turn: int | None
    code: str
    kind: ErrorKind
    message: str
    retryable: bool


class AwaitingEvent(TypedDict):
    """The prompt is handed out; the caller writes the reply."""

    type: Literal["awaiting_reply"]
    turn: int
    session_id: str
    prompt: dict[str, Any]
    tokens: dict[str, Any]


class PostTurnEvent(TypedDict):
    """Automatic work after the turn was started or done, because a person enabled it."""

    type: Literal["care"]
    turn: int | None
    task: str
    """summarize or memorize"""
    status: str
    """begun, done or error"""
    message: str


Event = TokenEvent | ReasoningEvent | WarningEvent | DoneEvent | ErrorEvent | AwaitingEvent | PostTurnEvent


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning before it is said in a language."""

    category: str
    params: dict[str, Any]
    current_value: int | None = None
    threshold: int | None = None

    def event(self, turn: int | None, language: Language) -> WarningEvent:
        """Return it in the shape of the source's warning object."""
        found: WarningEvent = {
            "type": "warning",
            "turn": turn,
            "category": self.category,
            "message": say(f"warning.{self.category}", language, **self.params),
        }
        if self.current_value is not None:
            found["current_value"] = self.current_value
        if self.threshold is not None:
            found["threshold"] = self.threshold
        suggestion = say(f"warning.{self.category}.suggestion", language, **self.params)
        if suggestion:
            found["suggestion"] = suggestion
        return found


def error_event(error: PersonaLabError, turn: int | None, language: Language) -> ErrorEvent:
    """Turn an error of ours into the event that reports it."""
    return {
        "type": "error",
        "turn": turn,
        "code": error.code,
        "kind": error.kind,
        "message": error.message(language),
        "retryable": error.retryable,
    }
