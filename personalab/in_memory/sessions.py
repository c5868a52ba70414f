"""Sessions in memory; a process may keep the text of a reply until it is flushed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from personalab.in_memory.stories import InMemoryStories, StoredSession, Story, check_lock
from personalab.ports import HeldLock
from personalab.story.records import check_id
from personalab.story.summary import PlotPoint, previous_session
from personalab.story.transcript import AssistantLine, Line, Metadata, Transcript
from personalab.tasks import complete


class InMemorySessionStore:
    """Implements ``SessionStore``."""

    def __init__(self, shared: InMemoryStories, *, buffered: bool) -> None:
        self._shared = shared
        self._buffered = buffered

    async def transcript(self, instance_id: str, session_id: str, *, open_reply: bool = False) -> Transcript:
        """Read a session."""
        await self._shared.gate("transcript")
        session = self._shared.session(instance_id, session_id)
        found = Transcript()
        found.extend(session.lines)
        if open_reply and session.open_reply is not None:
            found.add(session.open_reply)
        return found

    async def open(self, instance_id: str, session_id: str, lock: HeldLock) -> InMemorySessionLog:
        """Open a session for writing; an open reply of an earlier writer is closed as interrupted."""

        async def open_log() -> InMemorySessionLog:
            await self._shared.gate("open")
            story = self._shared.story(instance_id)
            session = self._shared.session(instance_id, session_id)
            check_lock(story, lock)
            repaired: list[str] = []
            if session.open_reply is not None:
                session.lines.append(session.open_reply.abandoned(""))
                session.open_reply = None
                repaired.append("repaired")
            log = InMemorySessionLog(self._shared, story, session, lock, repaired)
            log.is_buffered = self._buffered
            return log

        return await complete(open_log())

    async def previous(self, instance_id: str, session_id: str) -> str | None:
        """Find the session that a session continues."""
        await self._shared.gate("previous")
        sessions = self._shared.story(instance_id).sessions

        def link(name: str) -> str | None:
            first = sessions[name].lines[0] if name in sessions else None
            before = first.continued_from if isinstance(first, Metadata) else None
            return before if before in sessions else None

        return previous_session(check_id(session_id, "session_id"), link)

    async def create(
        self,
        instance_id: str,
        session_id: str,
        lines: Sequence[Line],
        points: Sequence[PlotPoint],
        lock: HeldLock,
    ) -> None:
        """Add a session with its points; one of this id is set aside."""

        async def add() -> None:
            await self._shared.gate("create")
            story = self._shared.story(instance_id)
            check_lock(story, lock)
            _set_aside(story, session_id)
            story.sessions[check_id(session_id, "session_id")] = StoredSession(
                list(lines), points=tuple(points)
            )

        await complete(add())

    async def set_aside(self, instance_id: str, session_id: str, lock: HeldLock) -> str:
        """Move a session out of the way."""

        async def move() -> str:
            await self._shared.gate("set_aside")
            story = self._shared.story(instance_id)
            check_lock(story, lock)
            return _set_aside(story, check_id(session_id, "session_id"))

        return await complete(move())


def _set_aside(story: Story, session_id: str) -> str:
    found = story.sessions.pop(session_id, None)
    if found is None:
        return ""
    place = f"{session_id}.aside{len(story.aside) + 1}"
    story.aside[place] = found
    return place


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
        shared: InMemoryStories,
        story: Story,
        session: StoredSession,
        lock: HeldLock,
        repaired: list[str],
    ) -> None:
        self._shared = shared
        self._story = story
        self._session = session
        self._lock = lock
        self._reply: _GrowingReply | None = None
        self.repaired = repaired
        self.survives_power_loss = False
        self.is_buffered = False
        self.transcript = Transcript()
        self.transcript.extend(session.lines)

    async def append(self, line: Line) -> None:
        """Add a whole line."""

        async def add() -> None:
            await self._shared.gate("append")
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
            await self._shared.gate("flush")
            check_lock(self._story, self._lock)
            self._session.open_reply = line

        await complete(keep(reply.line))

    async def end_reply(self, line: AssistantLine) -> bool:
        """Close the open reply."""
        self._opened()

        async def end() -> None:
            await self._shared.gate("end_reply")
            check_lock(self._story, self._lock)
            self._session.open_reply = None
            self._session.lines.append(line)
            self.transcript.add(line)
            self._reply = None

        await complete(end())
        return False

    async def close(self) -> None:
        """Release the session."""
        await self._shared.gate("close")

    def _opened(self) -> _GrowingReply:
        if self._reply is None:
            raise RuntimeError("no reply has been begun")
        return self._reply

    def _keep(self) -> None:
        """Keep what is written at once, where nothing is buffered."""
        if self.is_buffered or self._reply is None:
            return
        check_lock(self._story, self._lock)
        self._session.open_reply = self._reply.line
