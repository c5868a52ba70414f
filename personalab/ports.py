"""What do the rules and the nodes need from the world?

Each port is named by its role. The adapters stand in ``storage``, ``retrieval`` and ``providers``; the fakes we
ship beside them say what they are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:  # every process imports this module, few need all of these
    from personalab.answer_schema import AnswerSchema
    from personalab.dialogue import Message
    from personalab.lab.calling import Call, CallAnswer
    from personalab.memory.changes import Change, Revised
    from personalab.memory.finding import ConversationHit, MemoryHit, MemorySearch
    from personalab.memory.records import Conversation, Memory
    from personalab.story.events import Usage
    from personalab.story.recall import Hit, Kind, Search, StoryEvent

Clock = Callable[[], str]
"""Tells the time: ISO 8601, UTC, to the second, with ``Z``."""


@dataclass(frozen=True, slots=True)
class ReplyChunk:
    """A piece of a reply as a model gives it; the last one carries the usage if the provider tells it."""

    text: str = ""
    usage: Usage | None = None
    reasoning: str = ""
    """What the model thinks before or between its words, where the provider sends it apart."""
    truncated: bool = False
    """Whether the provider ended the reply at its length limit."""


class AnswerNeeded(Exception):  # noqa: N818 (a question, not an error)
    """Raised by a model whose answers come from elsewhere, call by call: nobody can hide it, it ends the work."""


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


@runtime_checkable
class SchemaModel(Protocol):
    """A model whose provider may enforce the form of an answer."""

    def stream_json(self, messages: Sequence[Message], schema: AnswerSchema) -> AsyncIterator[ReplyChunk]:
        """Yield an answer like ``ReplyModel.stream``; a provider that can't enforce the schema is asked without it."""
        ...


@runtime_checkable
class SpeakingModel(Protocol):
    """A model that samples a character's words in another way than other answers."""

    def stream_speech(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Yield a character's reply like ``ReplyModel.stream``."""
        ...


@runtime_checkable
class RemoteModel(Protocol):
    """A model that others may have under the same name at another address."""

    @property
    def address(self) -> str:
        """Where it is; empty for the usual place."""
        ...


def address_of(model: ReplyModel) -> str:
    """Return where a model is; empty for the usual place."""
    return model.address if isinstance(model, RemoteModel) else ""


def stream_speech(model: ReplyModel, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
    """Ask a model for a character's reply."""
    return model.stream_speech(messages) if isinstance(model, SpeakingModel) else model.stream(messages)


def stream_answer(
    model: ReplyModel, messages: Sequence[Message], schema: AnswerSchema | None
) -> AsyncIterator[ReplyChunk]:
    """Ask a model, with the schema where it takes one."""
    if schema is not None and isinstance(model, SchemaModel):
        return model.stream_json(messages, schema)
    return model.stream(messages)


class Executor(Protocol):
    """Makes the lab's calls: a prompt and an input become an answer, which is kept on disk until it is forgotten."""

    @property
    def name(self) -> str:
        """Who makes the calls, e.g. ``claude-cli``."""
        ...

    async def version(self) -> str:
        """Tell the version that results name; one that is no real model says so."""
        ...

    async def run(self, call: Call, spool: Path) -> CallAnswer:
        """Make a call, or give the answer of the same call that was made before; failures are answers, too."""
        ...

    def forget(self, spool: Path, call_id: str) -> None:
        """Remove what is kept of a call: its answer stands elsewhere now."""
        ...


class TokenCounter(Protocol):
    """Counts tokens exactly as one vocabulary does."""

    @property
    def encoding(self) -> str:
        """The vocabulary's name, e.g. ``o200k_base``."""
        ...

    def count(self, text: str, most: int | None = None) -> int:
        """Count the tokens of a text (special tokens are plain text).

        A text of more than ``most`` tokens need not be counted to its end: what is returned is then a number above
        ``most`` that the text has at least.
        """
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

    async def remove(
        self, instance_id: str, *, session_id: str | None = None, kinds: Sequence[Kind] | None = None
    ) -> None:
        """Forget an instance's events (of one session, or all; of some kinds, or all)."""
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


@dataclass(frozen=True, slots=True)
class MemoryName:
    """A memory in a list of them."""

    memory_id: str
    agent_id: str
    user_id: str
    updated_at: str
    entries: int
    conversations: int


class LearnedBefore(Exception):  # noqa: N818 (what was found, not what failed)
    """Someone else has learned from this conversation meanwhile."""


class MemoryStore(Protocol):
    """Keeps what agents know about users, and the conversations it was learned from.

    Records are kept at once and whole; what makes them findable by meaning may follow, at the latest with the next
    search. One memory for each agent and user, however many save at once. Safe with several processes.
    """

    async def memories(self, *, limit: int = 100, after: str = "") -> list[MemoryName]:
        """List the memories by ``memory_id``, from the one after ``after`` on."""
        ...

    async def memory(self, agent_id: str, user_id: str, *, newest: int | None = None) -> Memory | None:
        """Read what an agent knows about a user, all of it or so many of each list, the newest."""
        ...

    async def begin(self, agent_id: str, user_id: str, now: str) -> None:
        """Begin a pair's memory, if there is none yet."""
        ...

    async def save_conversation(self, conversation: Conversation) -> Conversation:
        """Save a conversation and give what is kept: one that was saved before stays as it was.

        The pair's memory is begun with it, under the conversation's ``memory_id`` where it names one. A name that is
        another memory's is a ``UserError``.
        """
        ...

    async def conversation(self, conversation_id: str) -> Conversation | None:
        """Read a conversation."""
        ...

    async def conversations(
        self, agent_id: str, user_id: str, *, limit: int = 20, before: str | None = None
    ) -> list[Conversation]:
        """List conversations, the newest first, from the one saved before ``before`` on."""
        ...

    async def waiting(self, agent_id: str, user_id: str, instance_id: str) -> list[Conversation]:
        """List a story's conversations that were saved and not learned from, the oldest first."""
        ...

    async def commit(
        self,
        revised: Revised,
        *,
        conversation_id: str | None = None,
        result: Mapping[str, Any] | None = None,
        again: bool = False,
    ) -> bool:
        """Keep a change and a conversation's ``pipeline_result`` together; ``False`` if the memory is another by now.

        The memory must stand at the version the change was made from; without a change only the result is kept. A
        conversation that was learned from is ``LearnedBefore``, and nothing is kept, unless ``again`` brings another
        success.
        """
        ...

    async def changes(self, agent_id: str, user_id: str, *, limit: int = 50) -> list[Change]:
        """List what changed, the newest first."""
        ...

    async def learned(self, agent_id: str, user_id: str, session_id: str) -> int:
        """Tell up to which turn a story's session was saved; 0 for not at all. Forgetting does not change it."""
        ...

    async def forget(self, agent_id: str, user_id: str) -> bool:
        """Delete a memory with its history and its conversations; ``False`` where there was none."""
        ...

    async def search(self, search: MemorySearch) -> list[MemoryHit]:
        """Find entries by meaning and by words, best first."""
        ...

    async def search_conversations(
        self, query: str, agent_id: str, user_id: str, *, limit: int = 10
    ) -> list[ConversationHit]:
        """Find conversations by meaning and by words, best first."""
        ...

    async def reindex(self, progress: Callable[[int, int], None] = lambda done, total: None) -> int:
        """Make everything findable anew with the configured embedder; give how many texts that were."""
        ...

    async def close(self) -> None:
        """Let go of files and connections."""
        ...
