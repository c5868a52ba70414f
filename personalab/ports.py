"""What do the rules and the nodes need from the world?

Each port is named by its role. The adapters stand in ``storage``, ``retrieval`` and ``providers``; the fakes we
ship beside them say what they are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from personalab.dialogue import Message
from personalab.story.events import Usage
from personalab.story.recall import Hit, Search, StoryEvent

Clock = Callable[[], str]
"""Tells the time: ISO 8601, UTC, to the second, with ``Z``."""


@dataclass(frozen=True, slots=True)
class ReplyChunk:
    """A piece of a reply as a model gives it; the last one carries the usage if the provider tells it."""

    text: str = ""
    usage: Usage | None = None


class ReplyModel(Protocol):
    """Writes a reply, piece by piece.

    Every failure is a ``ProviderError`` with its own code. A stream that ends without an exception is a whole
    reply. Closing or cancelling the stream closes the connection to the provider.
    """

    @property
    def name(self) -> str:
        """``provider:model``, as a person would configure it."""
        ...

    def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Yield the reply's pieces; text is well-formed Unicode."""
        ...


class TokenCounter(Protocol):
    """Counts tokens exactly as one vocabulary does."""

    @property
    def encoding(self) -> str:
        """The vocabulary's name, e.g. ``o200k_base``."""
        ...

    def count(self, text: str) -> int:
        """Count the tokens of a text (special tokens are plain text)."""
        ...


class Embedder(Protocol):
    """Turns texts into vectors of one dimension."""

    @property
    def identity(self) -> str:
        """What made the vectors; an index made by another identity must be rebuilt."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts to be found."""
        ...

    def embed_query(self, text: str) -> list[float]:
        """Embed a text that asks."""
        ...


@dataclass(frozen=True, slots=True)
class IndexState:
    """Whether the event library can be searched, and by whose vectors it was made."""

    status: Literal["ready", "empty", "other_embedder", "unreadable"]
    embedder: str
    counts: dict[str, int] = field(default_factory=dict[str, int])


class EventLibrary(Protocol):
    """Finds what happened in the stories; derived from the files, rebuilt by ``reindex``.

    Safe with several processes on one data root: each sees what the others wrote.
    """

    async def write(self, events: Sequence[StoryEvent]) -> None:
        """Add events, or replace those with the same ``event_id``."""
        ...

    async def remove(self, instance_id: str, *, session_id: str | None = None) -> None:
        """Forget an instance's events (of one session, or all)."""
        ...

    async def search(self, search: Search) -> list[Hit]:
        """Find the best events, best first; ``[]`` where nothing is indexed."""
        ...

    async def missing(self, instance_id: str, event_ids: Sequence[str]) -> list[str]:
        """Tell which of an instance's events are not in the library yet."""
        ...

    async def state(self) -> IndexState:
        """Tell what is indexed and whether the configured embedder made it."""
        ...

    async def reset(self) -> None:
        """Drop the whole index, so that it can be written anew with the configured embedder."""
        ...
