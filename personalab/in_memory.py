"""Stories in memory: the ports of a chat turn without a disk.

``InMemoryStories`` is what all processes share. ``open_process`` gives the ports as one process has them, with locks of
its own; ``end`` ends it as a crash does, and what a buffered process did not flush is lost. Every method may wait or
fail through ``gate``, as those of a database do.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from personalab.config import Config, DirectorModule, LoreModule, MemoryModule, RecallModule
from personalab.errors import Busy, NotFound, StorageError, UserError
from personalab.leases import MAX_HOLD_SECONDS
from personalab.ports import HeldLock, Preferences, StoryPorts
from personalab.story.events import Notice
from personalab.story.ids import check_id
from personalab.story.instance import CharacterState, InstanceState, PlotState
from personalab.story.library import Background, Character, began_as, called
from personalab.story.lines import AssistantLine, Line, Metadata
from personalab.story.lore import Lorebook
from personalab.story.transcript import Transcript
from personalab.tasks import complete
from personalab.texts import Language

_RETRY_SECONDS = 0.005
_DEFAULTS = Preferences(Config(), DirectorModule(), RecallModule(), MemoryModule(), LoreModule())


@dataclass(slots=True)
class _StoredSession:
    """What of a session is durable."""

    lines: list[Line]
    open_reply: AssistantLine | None = None


@dataclass(slots=True, eq=False)
class HeldMemoryLock:
    """The lock of a story while a process holds it."""

    story: _Story
    lease_id: str
    fence: int
    task: str
    process: InMemoryProcess
    stopping: bool = False

    def stop_requested(self) -> bool:
        """Return whether someone asked this holder to stop."""
        return self.stopping

    async def hold_for(self, turn: int, seconds: float) -> None:
        """Hold the story for a client that writes a turn's reply elsewhere."""
        self.story.hold = (turn, time.monotonic() + min(seconds, MAX_HOLD_SECONDS))

    async def release(self) -> None:
        """Release the lock, if it is still held."""
        if self.story.holder is self:
            self.story.holder = None


@dataclass(slots=True)
class _Story:
    state: InstanceState
    character: CharacterState
    sessions: dict[str, _StoredSession]
    holder: HeldMemoryLock | None = None
    fence: int = 0
    hold: tuple[int, float] | None = None

    def held_turn(self) -> int | None:
        return self.hold[0] if self.hold and time.monotonic() < self.hold[1] else None


async def _open_gate(operation: str) -> None:
    """Let every operation pass at once."""


@dataclass(slots=True)
class InMemoryStories:
    """Stories, library and settings that any number of processes share."""

    templates: Mapping[Language, dict[str, str]]
    preferences: Preferences = _DEFAULTS
    characters: dict[str, Character] = field(default_factory=dict[str, Character])
    backgrounds: dict[str, Background] = field(default_factory=dict[str, Background])
    lorebooks: dict[str, Lorebook] = field(default_factory=dict[str, Lorebook])
    """Books by the id of their character or background."""
    gate: Callable[[str], Awaitable[None]] = _open_gate
    """Called with the name of each operation before it; may wait, and may raise a ``StorageError``."""
    stories: dict[str, _Story] = field(default_factory=dict[str, _Story])

    def create(
        self,
        instance_id: str,
        character: Character,
        background: Background | None,
        now: str,
        opening: AssistantLine | None = None,
    ) -> InstanceState:
        """Create a story with its first session."""
        if check_id(instance_id, "instance_id") in self.stories:
            raise UserError("instance_exists", instance_id=instance_id)
        self.characters[character.character_id] = character
        if background is not None:
            self.backgrounds[background.background_id] = background
        background_id = background.background_id if background else None
        state = InstanceState(
            instance_id, character.character_id, background_id, "sess_001", now, PlotState()
        )
        first: list[Line] = [Metadata(instance_id, "sess_001", now), *([opening] if opening else [])]
        self.stories[instance_id] = _Story(state, began_as(character), {"sess_001": _StoredSession(first)})
        return state

    def story(self, instance_id: str) -> _Story:
        """Find a story."""
        found = self.stories.get(check_id(instance_id, "instance_id"))
        if found is None:
            raise NotFound("no_instance", instance_id=instance_id)
        return found

    def session(self, instance_id: str, session_id: str) -> _StoredSession:
        """Find a session of a story."""
        found = self.story(instance_id).sessions.get(check_id(session_id, "session_id"))
        if found is None:
            raise StorageError("file_missing", file=f"{instance_id}/{session_id}")
        return found

    def lines(self, instance_id: str, session_id: str = "sess_001") -> list[Line]:
        """Return a session's whole lines."""
        return list(self.session(instance_id, session_id).lines)

    def open_process(self, *, buffered: bool = False) -> InMemoryProcess:
        """Open the ports as one process has them."""
        return InMemoryProcess(self, buffered=buffered)


class InMemoryProcess:
    """One process over shared stories."""

    def __init__(self, shared: InMemoryStories, *, buffered: bool) -> None:
        self.shared = shared
        self.buffered = buffered
        self.ports = StoryPorts(
            InMemoryStoryStore(shared),
            InMemorySessionStore(self),
            InMemoryStoryLock(self),
            InMemorySettings(shared),
        )

    def end(self) -> None:
        """End the process as a crash does: its locks are free, and what was not flushed is lost."""
        for story in self.shared.stories.values():
            if story.holder is not None and story.holder.process is self:
                story.holder = None


def check_lock(story: _Story, lock: HeldLock) -> None:
    """Refuse a write under a lock that another one has come after, or that has ended."""
    if story.holder is None or story.holder.fence != lock.fence:
        raise StorageError("lock_lost", instance_id=story.state.instance_id)


class InMemoryStoryStore:
    """Implements ``StoryStore``."""

    def __init__(self, shared: InMemoryStories) -> None:
        self._shared = shared

    async def instance(self, instance_id: str) -> InstanceState:
        """Read a story's state."""
        await self._shared.gate("instance")
        return self._shared.story(instance_id).state

    async def save_instance(self, state: InstanceState, lock: HeldLock, *, sync: bool = False) -> None:
        """Replace a story's state."""

        async def save() -> None:
            await self._shared.gate("save_instance")
            story = self._shared.story(state.instance_id)
            check_lock(story, lock)
            story.state = state

        await complete(save())

    async def character_state(self, instance_id: str) -> CharacterState:
        """Read who the character is in a story."""
        await self._shared.gate("character_state")
        return self._shared.story(instance_id).character

    async def character_name(self, character_id: str) -> str:
        """Return the name of a character in the library."""
        found = self._shared.characters.get(character_id)
        return called(found) if found else character_id

    async def background(self, background_id: str) -> Background:
        """Read a background of the library."""
        await self._shared.gate("background")
        found = self._shared.backgrounds.get(background_id)
        if found is None:
            raise NotFound("no_background", background_id=background_id)
        return found

    async def lorebooks(
        self, character_id: str, background_id: str | None
    ) -> tuple[tuple[Lorebook, ...], list[Notice]]:
        """Read the character's lorebook, then the background's."""
        await self._shared.gate("lorebooks")
        books = (self._shared.lorebooks.get(owner) for owner in (character_id, background_id) if owner)
        return tuple(book for book in books if book is not None), []


class InMemorySessionStore:
    """Implements ``SessionStore``."""

    def __init__(self, process: InMemoryProcess) -> None:
        self._process = process

    async def transcript(self, instance_id: str, session_id: str, *, open_reply: bool = False) -> Transcript:
        """Read a session."""
        await self._process.shared.gate("transcript")
        session = self._process.shared.session(instance_id, session_id)
        found = Transcript()
        found.extend(session.lines)
        if open_reply and session.open_reply is not None:
            found.add(session.open_reply)
        return found

    async def open(self, instance_id: str, session_id: str, lock: HeldLock) -> InMemorySessionLog:
        """Open a session for writing; an open reply of an earlier writer is closed as interrupted."""

        async def open_log() -> InMemorySessionLog:
            shared = self._process.shared
            await shared.gate("open")
            story, session = shared.story(instance_id), shared.session(instance_id, session_id)
            check_lock(story, lock)
            repaired: list[str] = []
            if session.open_reply is not None:
                session.lines.append(replace(session.open_reply, interrupted=True, closed=True))
                session.open_reply = None
                repaired.append("repaired")
            return InMemorySessionLog(self._process, story, session, lock, repaired)

        return await complete(open_log())


class _GrowingReply:
    """A reply that is being written."""

    def __init__(self, turn: int, timestamp: str, written: Callable[[], None]) -> None:
        self.line = AssistantLine("", turn, timestamp, closed=False)
        self._written = written

    def write(self, text: str) -> None:
        """Add to what is said."""
        self.line = replace(self.line, content=self.line.content + text)
        self._written()

    def think(self, text: str) -> None:
        """Add to the reasoning."""
        self.line = replace(self.line, reasoning=self.line.reasoning + text)
        self._written()


class InMemorySessionLog:
    """Implements ``SessionLog``; each write under an outdated lock is refused."""

    def __init__(
        self,
        process: InMemoryProcess,
        story: _Story,
        session: _StoredSession,
        lock: HeldLock,
        repaired: list[str],
    ) -> None:
        self._process = process
        self._story = story
        self._session = session
        self._lock = lock
        self._reply: _GrowingReply | None = None
        self.repaired = repaired
        self.survives_power_loss = False
        self.transcript = Transcript()
        self.transcript.extend(session.lines)

    @property
    def is_buffered(self) -> bool:
        """Whether this process keeps text until it is flushed."""
        return self._process.buffered

    async def append(self, line: Line) -> None:
        """Add a whole line."""

        async def add() -> None:
            await self._process.shared.gate("append")
            check_lock(self._story, self._lock)
            self._session.lines.append(line)
            self.transcript.add(line)

        await complete(add())

    def begin_reply(self, turn: int, timestamp: str) -> _GrowingReply:
        """Open a reply."""
        self._reply = _GrowingReply(turn, timestamp, self._keep)
        self._keep()
        return self._reply

    def rewrite_reply(self, content: str) -> None:
        """Replace what the open reply says."""
        reply = self._opened()
        reply.line = replace(reply.line, content=content)
        self._keep()

    def drop_reasoning(self) -> None:
        """Remove the reasoning of the open reply."""
        reply = self._opened()
        reply.line = replace(reply.line, reasoning="")
        self._keep()

    async def flush(self) -> None:
        """Make durable what was written up to now."""

        reply = self._reply
        if reply is None or reply.line is self._session.open_reply:
            return

        async def keep(line: AssistantLine) -> None:
            await self._process.shared.gate("flush")
            check_lock(self._story, self._lock)
            self._session.open_reply = line

        await complete(keep(reply.line))

    async def end_reply(self, line: AssistantLine) -> bool:
        """Close the open reply."""
        self._opened()

        async def end() -> None:
            await self._process.shared.gate("end_reply")
            check_lock(self._story, self._lock)
            self._session.open_reply = None
            self._session.lines.append(line)
            self.transcript.add(line)
            self._reply = None

        await complete(end())
        return False

    async def close(self) -> None:
        """Release the session."""
        await self._process.shared.gate("close")

    def _opened(self) -> _GrowingReply:
        if self._reply is None:
            raise RuntimeError("no reply has been begun")
        return self._reply

    def _keep(self) -> None:
        """Keep what is written at once, where nothing is buffered."""
        if self._process.buffered or self._reply is None:
            return
        check_lock(self._story, self._lock)
        self._session.open_reply = self._reply.line


class InMemoryStoryLock:
    """Implements ``StoryLock``."""

    def __init__(self, process: InMemoryProcess) -> None:
        self._process = process
        self.closing = False

    async def acquire(self, instance_id: str, task: str, *, wait: float) -> HeldMemoryLock:
        """Wait for the lock, at most so many seconds."""
        story = self._process.shared.story(instance_id)
        deadline = time.monotonic() + wait
        while story.holder is not None:
            if self.closing:
                raise Busy("server_ending")
            self._check_time(story, deadline, wait)
            await asyncio.sleep(_RETRY_SECONDS)
        story.fence += 1
        story.holder = HeldMemoryLock(story, secrets.token_hex(8), story.fence, task, self._process)
        return story.holder

    async def stop(self, instance_id: str, *, wait: float) -> str:
        """Ask the holder to stop and wait until it has."""
        story = self._process.shared.story(instance_id)
        holder = story.holder
        if holder is None:
            if story.held_turn() is None:
                raise NotFound("nothing_running", instance_id=instance_id)
            story.hold = None
            return "sampling"
        holder.stopping = True
        deadline = time.monotonic() + wait
        try:
            while story.holder is holder:
                self._check_time(story, deadline, wait)
                await asyncio.sleep(_RETRY_SECONDS)
        finally:
            holder.stopping = False
        return holder.task

    async def held_turn(self, instance_id: str) -> int | None:
        """Find the turn for whose reply a story is held."""
        return self._process.shared.story(instance_id).held_turn()

    async def release_hold(self, instance_id: str, turn: int) -> None:
        """End the hold, if it is for this turn."""
        story = self._process.shared.story(instance_id)
        if story.held_turn() == turn:
            story.hold = None

    def _check_time(self, story: _Story, deadline: float, wait: float) -> None:
        if time.monotonic() >= deadline:
            raise Busy("busy", instance_id=story.state.instance_id, pid=os.getpid(), seconds=f"{wait:g}")


class InMemorySettings:
    """Implements ``SettingsStore``."""

    def __init__(self, shared: InMemoryStories) -> None:
        self._shared = shared

    async def preferences(self) -> Preferences:
        """Read all settings."""
        await self._shared.gate("preferences")
        return self._shared.preferences

    async def language(self) -> Language:
        """Read the reader's language."""
        return self._shared.preferences.config.language

    async def templates(self, language: Language) -> tuple[dict[str, str], list[Notice]]:
        """Read the prompt templates of a language."""
        await self._shared.gate("templates")
        return self._shared.templates[language], []
