"""The ports: what the rules and the nodes need from the world.

The adapters are in ``storage``, ``in_memory``, ``retrieval`` and ``providers``; ``tests/contract``
tests every adapter of a port by one suite.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:  # every process imports this module, few need all of these
    from personalab.archive.veloca import CompactedDialogue
    from personalab.archive.veloca_compaction import CompactionMaterial
    from personalab.config import Config, DirectorModule, LoreModule, MemoryModule, RecallModule
    from personalab.dialogue import AnswerSchema, Message
    from personalab.lab.calling import Call, CallAnswer
    from personalab.memory.changes import Change, MemoryRevision
    from personalab.memory.records import Conversation, Memory
    from personalab.memory.search import ConversationHit, MemoryHit, MemorySearch
    from personalab.story.events import Notice, Usage
    from personalab.story.lore import Lorebook
    from personalab.story.persona_history import PersonaHistory
    from personalab.story.recall import Hit, Kind, RecallQuery, StoryEvent
    from personalab.story.records import Background, CharacterState, InstanceState
    from personalab.story.summary import PlotPoint
    from personalab.story.transcript import AssistantLine, Line, Transcript
    from personalab.texts import Language, PromptLanguage

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


@dataclass(frozen=True, slots=True)
class Preferences:
    """Everything a person set, as one turn sees it."""

    config: Config
    director: DirectorModule
    recall: RecallModule
    memory: MemoryModule
    lore: LoreModule
    notices: tuple[Notice, ...] = ()


class SettingsStore(Protocol):
    """Reads what a person set. What another process saved is seen by the next call."""

    async def preferences(self) -> Preferences:
        """Read all settings; what can't be read has its careful default and a notice, and is no error."""
        ...

    async def language(self) -> Language:
        """Read the reader's language; the default where it can't be read."""
        ...

    async def templates(self, language: PromptLanguage) -> tuple[dict[str, str], list[Notice]]:
        """Read the prompt templates of a language; one that can't be read is the shipped one, with a notice."""
        ...


class StoryStore(Protocol):
    """Reads what a story is made from, and saves where it stands and who its character has become.

    What is missing is ``NotFound``; what can't be read or written is a ``StorageError``. A record is read whole, as one
    process saved it. What was saved is durable and seen by other processes when the call returns, or before. A call
    that was cancelled has ended when it raises. A writer whose lock another process holds by now is refused
    (``lock_lost``), where a lock can be lost at all.
    """

    async def instance(self, instance_id: str) -> InstanceState:
        """Read a story's state."""
        ...

    async def save_instance(self, state: InstanceState, lock: HeldLock, *, sync: bool = False) -> None:
        """Replace a story's state, all of it or nothing; with ``sync`` so that it survives a power loss."""
        ...

    async def character_state(self, instance_id: str) -> CharacterState:
        """Read who the character is in a story."""
        ...

    async def persona(self, instance_id: str) -> tuple[CharacterState, PersonaHistory]:
        """Read who the character is in a story, with the changes that led there.

        The history is at least as new as the state: what it has beyond the state's revision has no effect.
        """
        ...

    async def save_persona(
        self, instance_id: str, state: CharacterState, history: PersonaHistory | None, lock: HeldLock
    ) -> None:
        """Replace who the character is, with the changes that led there; ``None`` keeps the history as it is.

        Both survive a power loss. The state decides: until it is replaced, also after a failure, readers have the old
        one, and the history has at most revisions beyond it. Of a history that is too long the oldest are dropped.
        """
        ...

    async def character_name(self, character_id: str) -> str:
        """Return the name of a character in the library; its id where it can't be read."""
        ...

    async def background(self, background_id: str) -> Background:
        """Read a background of the library."""
        ...

    async def lorebooks(
        self, character_id: str, background_id: str | None
    ) -> tuple[tuple[Lorebook, ...], list[Notice]]:
        """Read the character's lorebook, then the background's; one that can't be read is a notice."""
        ...


class ReplyWriter(Protocol):
    """Grows a reply. Its methods never wait: what they take is durable when ``SessionLog.flush`` says so."""

    def write(self, text: str) -> object:
        """Add to what is said; a ``StorageError`` where this is known to fail already."""
        ...

    def think(self, text: str) -> None:
        """Add to the reasoning."""
        ...


class SessionLog(Protocol):
    """A session that is open for its one writer.

    Durable before shown: nobody is shown what could be lost with this process. A whole line is durable when the call
    that wrote it returns, a growing reply when ``flush`` returns. What failed is a ``StorageError`` and leaves the
    session as it was, with every line whole. A call that was cancelled has ended when it raises. A writer whose lock
    another process holds by now is refused (``lock_lost``), where a lock can be lost at all.
    """

    survives_power_loss: bool
    """Whether ``durable`` means after a power loss, too, rather than after the end of the process."""

    @property
    def transcript(self) -> Transcript:
        """What the session holds, the newest line included; another object after lines of others were read."""
        ...

    @property
    def repaired(self) -> Sequence[str]:
        """What had to be done on opening: ``repaired`` (an open reply was closed), ``set_aside`` (no line at all)."""
        ...

    @property
    def is_buffered(self) -> bool:
        """Whether a reply's text must be flushed before it is shown; if not, it is durable once it is written."""
        ...

    async def append(self, line: Line) -> None:
        """Add a whole line; ``session_changed`` if someone else wrote meanwhile."""
        ...

    def begin_reply(self, turn: int, timestamp: str) -> ReplyWriter:
        """Open a reply after the last line, also after lines that others added. Like its text, it is buffered.

        Until it is ended, readers see it as open; one whose writer died is repaired by the next ``open``.
        """
        ...

    def rewrite_reply(self, content: str) -> None:
        """Replace what the open reply says; buffered."""
        ...

    def drop_reasoning(self) -> None:
        """Remove the reasoning of the open reply; buffered."""
        ...

    async def flush(self) -> None:
        """Make everything durable that was written."""
        ...

    async def end_reply(self, line: AssistantLine) -> bool:
        """Close the open reply with the flags of ``line``; return whether the session had to be restored for it."""
        ...

    async def close(self) -> None:
        """Release the session; a reply that is open stays open, and the next writer repairs it."""
        ...


class SessionStore(Protocol):
    """Reads sessions, opens them for their writer, and adds and sets aside those that a story is not in.

    What can't be read or written is a ``StorageError``. A call that was cancelled has ended when it raises. A writer
    whose lock another process holds by now is refused (``lock_lost``), where a lock can be lost at all.
    """

    async def transcript(self, instance_id: str, session_id: str, *, open_reply: bool = False) -> Transcript:
        """Read a session's whole lines, and with ``open_reply`` the reply that is being written, as far as it goes.

        What a writer's ``append`` or ``flush`` returned for is there. The transcript never changes.
        """
        ...

    async def open(self, instance_id: str, session_id: str, lock: HeldLock) -> SessionLog:
        """Open a session for writing and repair what an earlier writer left; cancelling leaves nothing open."""
        ...

    async def previous(self, instance_id: str, session_id: str) -> str | None:
        """Find the session that a session continues (``continued_from``); ``None`` if there is no such session.

        Sessions that an edit has linked in a loop begin with the first of them.
        """
        ...

    async def create(
        self,
        instance_id: str,
        session_id: str,
        lines: Sequence[Line],
        points: Sequence[PlotPoint],
        lock: HeldLock,
    ) -> None:
        """Write a session with the plot points of the one before it, all of it or nothing.

        It is never the current one: nobody reads it before the story's state names it. What an earlier try, or a
        session that was undone, left under this id is set aside first.
        """
        ...

    async def set_aside(self, instance_id: str, session_id: str, lock: HeldLock) -> str:
        """Move a session that is not the current one out of the way, and return where a person finds it.

        Nothing is deleted, and the id is free afterwards. The place is empty if there was nothing.
        """
        ...


class HeldLock(Protocol):
    """The lock of one story while this process holds it.

    ``fence`` is greater than the number of every earlier holder (over files, as long as it can be written: there
    ``flock`` is the guard, and the number only informs). An adapter whose locks can end before their holder
    notices refuses writes that carry an outdated number.
    """

    @property
    def lease_id(self) -> str:
        """An id that no other holder has or had."""
        ...

    @property
    def fence(self) -> int:
        """The fencing number."""
        ...

    def stop_requested(self) -> bool:
        """Return whether someone asked this holder to stop.

        Called several times a second and never waits: an adapter that has to ask elsewhere answers what it knows.
        """
        ...

    async def hold_for(self, turn: int, seconds: float) -> None:
        """Hold the story for a client that writes a turn's reply elsewhere, also after the release.

        This is a courtesy: where it can't be kept, others may come first, and nothing fails.
        """
        ...

    async def release(self) -> None:
        """Release the lock; from then on another process can acquire it."""
        ...


class StoryLock(Protocol):
    """Lets one process at a time write a story, and others ask it to stop.

    A lock ends with its process, however that ends. Everything here is seen by all processes that share the stories. A
    story that does not exist is ``NotFound``.
    """

    closing: bool
    """Set when this process is about to end: whoever waits for a lock gets ``Busy`` (``server_ending``)."""

    async def acquire(self, instance_id: str, task: str, *, wait: float) -> HeldLock:
        """Wait for the lock, at most so many seconds; ``Busy`` (``busy``) says who holds it.

        ``task`` is what the holder does, for those who ask it to stop. Cancelling the call leaves no lock behind.
        """
        ...

    async def stop(self, instance_id: str, *, wait: float) -> str:
        """Ask the holder to stop, wait until it has released the lock, and return its task.

        Where nobody holds the lock, a story that is held for a client is freed (``sampling``); else it is ``NotFound``
        (``nothing_running``). A holder that does not stop in time is ``Busy``.
        """
        ...

    async def held_turn(self, instance_id: str) -> int | None:
        """Find the turn for whose reply a story is held; ``None`` when it is not, or no longer."""
        ...

    async def release_hold(self, instance_id: str, turn: int) -> None:
        """End the hold, if it is for this turn."""
        ...


class LearningLock(Protocol):
    """Lets one process at a time learn from a story, which may be played meanwhile.

    It saves questions to a model, and needs no fencing: a learner that lost it changes nothing twice, because
    ``MemoryStore`` keeps a conversation once and refuses a second success (``LearnedBefore``). It ends with its
    process, however that ends.
    """

    def hold(self, instance_id: str, *, wait: float) -> AbstractAsyncContextManager[None]:
        """Wait for the lock, at most so many seconds, and hold it for the block.

        ``Busy`` is ``learning_busy``, or ``server_ending`` when ``StoryLock.closing`` is set. A story that does not
        exist is ``NotFound``. Cancelling leaves no lock behind.
        """
        ...


class ConversationArchive(Protocol):
    """An archive of conversations, with what compacting them needs.

    A missing archive, session or entry is ``NotFound``, what can't be read or written is a ``StorageError``. Ids of
    sessions and entries may be shortened to a beginning of 8 characters or more that only one has. What was written is
    durable and seen by other processes when the call returns.
    """

    @property
    def name(self) -> str:
        """The archive's name, without its place."""
        ...

    async def material(self, session: str, trigger: str | None) -> CompactionMaterial:
        """Read what a compaction before the trigger would sum up now; without one, the newest entries stay."""
        ...

    async def compact(
        self, session_id: str, trigger_entry_id: str, summary: str, *, seen: str
    ) -> CompactedDialogue:
        """Write a summary and mark the entries it replaces, all of it or nothing.

        ``seen`` is the fingerprint of the material the summary was made from: if that has changed meanwhile, nothing
        is written (``archive_changed``), however many try at once. A call that was cancelled has ended when it raises.
        """
        ...


@dataclass(frozen=True, slots=True)
class StoryPorts:
    """Where stories live: adapters that belong together."""

    stories: StoryStore
    sessions: SessionStore
    lock: StoryLock
    settings: SettingsStore
    learning: LearningLock
    archive: Callable[[str], ConversationArchive]
    """Finds an archive by its name; one that does not exist is reported when it is used."""


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

    async def search(self, search: RecallQuery) -> list[Hit]:
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
        revised: MemoryRevision,
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
