"""Session files: read once, cached in memory, written by one writer.

The cache knows a file by its identity, size and times. What this process wrote itself is known already; what
another process appended is parsed alone, after the part that was known is found unchanged; anything else (an
edit by hand) is read anew. A session that was handed out never changes: news make a new one, so that readers
in other threads and the writer cannot disturb each other.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from personalab.data_files import (
    cut_file,
    open_aside,
    open_regular,
    read_bytes,
    replace_file,
    without_bom,
    writing,
)
from personalab.errors import Reason, StorageError, as_reason
from personalab.storage.reply_line import REPLY_OPENING, ReplyLine, recover
from personalab.story.transcript import REPLY_FLAGS, AssistantLine, Line, Transcript, dump_line, parse_line

MAX_SESSION_BYTES = 1024 * 1024 * 1024
_RACY_NS = 50_000_000
"""An edit this soon after the last change may carry the same time; such a file is compared by content."""
_BLOCK_BYTES = 1024 * 1024


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def digest(self) -> bytes: ...
    def copy(self) -> _Hash: ...


def _new_hash() -> _Hash:
    return hashlib.blake2b(digest_size=16)


Stamp = tuple[int, int, int, int, int]


@dataclass(slots=True)
class Session:
    """A session as its file holds it; ``torn`` is what follows the last line end."""

    path: Path
    transcript: Transcript = field(default_factory=Transcript)
    size: int = 0
    """Bytes of whole lines."""
    torn: bytes = b""
    lines: int = 0
    stamp: Stamp = (0, 0, 0, 0, 0)
    seen_ns: int = 0
    hash: _Hash = field(default_factory=_new_hash)

    def copy(self) -> Session:
        """Give a session that can grow while this one stays as it is."""
        return replace(self, transcript=self.transcript.copy(), hash=self.hash.copy())

    def open_reply(self) -> AssistantLine | None:
        """Read the reply that is being written, or was when its writer died."""
        if not self.torn:
            return None
        last = self.transcript.last
        line = _read_torn(self.torn, last.number if last else 1)
        return replace(line, closed=False) if isinstance(line, AssistantLine) else None

    def view(self) -> Transcript:
        """Give the transcript with the reply that is being written, without touching the cached one."""
        reply = self.open_reply()
        if reply is None:
            return self.transcript
        seen = self.transcript.copy()
        seen.add(reply)
        return seen


class SessionCache:
    """The sessions this process has read."""

    def __init__(self, keep: int = 256) -> None:
        self._sessions: dict[Path, Session] = {}
        self._keep = keep
        self._keeping = threading.Lock()

    def is_warm(self, path: Path) -> bool:
        """Return whether loading will be quick: little is new in the file."""
        known = self._sessions.get(path)
        try:
            size = path.stat().st_size
        except OSError:
            return True
        return size < 4 * 1024 * 1024 and size - (known.size if known else 0) < 256 * 1024

    def load(self, path: Path, shown: str, *, keep: bool = True) -> Session:
        """Bring a session up to date with its file; one that is not kept takes no memory afterwards."""
        try:
            fd = open_regular(path, shown=shown)
        except FileNotFoundError as error:
            raise StorageError("file_missing", file=shown) from error
        except OSError as error:
            raise StorageError("file_broken", file=shown, reason=as_reason(error)) from error
        try:
            session = _refresh(self._sessions.get(path), path, fd, shown)
        except OSError as error:
            raise StorageError("file_broken", file=shown, reason=as_reason(error)) from error
        finally:
            os.close(fd)
        if keep:
            self.keep(session)
        return session

    def keep(self, session: Session) -> None:
        """Remember a session; those not asked for the longest are forgotten first."""
        with self._keeping:
            self._sessions.pop(session.path, None)
            self._sessions[session.path] = session
            while len(self._sessions) > self._keep:
                self._sessions.pop(next(iter(self._sessions)))

    def forget(self, path: Path) -> None:
        """Read the file anew next time."""
        self._sessions.pop(path, None)


def _stamp(fd: int) -> Stamp:
    found = os.fstat(fd)
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _refresh(known: Session | None, path: Path, fd: int, shown: str) -> Session:
    """Read what is new; a line that cannot be read is looked at again, for its writer may just be at it."""
    for tries_left in (2, 1, 0):
        try:
            return _read_new(known, path, fd, shown)
        except StorageError as error:
            if error.code != "line_broken" or not tries_left:
                raise
    raise RuntimeError("unreachable")


def _read_new(known: Session | None, path: Path, fd: int, shown: str) -> Session:
    stamp, now = _stamp(fd), time.time_ns()
    size = stamp[2]
    if size > MAX_SESSION_BYTES:
        raise StorageError(
            "file_broken", file=shown, reason=Reason("too_many_bytes", count=size, limit=MAX_SESSION_BYTES)
        )
    if known is not None and known.stamp == stamp and known.seen_ns - stamp[4] > _RACY_NS:
        return known
    same = known is not None and size >= known.size and _same_start(known, fd)
    session = known.copy() if known is not None and same else Session(path)
    _take(session, fd, size, shown)
    session.stamp = stamp
    session.seen_ns = now
    return session


def _blocks(fd: int, start: int, end: int) -> Iterator[bytes]:
    """Read a part of a file block by block: a session may be large, and what is kept of it are its lines."""
    while start < end and (block := os.pread(fd, min(end - start, _BLOCK_BYTES), start)):
        yield block
        start += len(block)


def _same_start(session: Session, fd: int) -> bool:
    fresh = _new_hash()
    for block in _blocks(fd, 0, session.size):
        fresh.update(block)
    return fresh.digest() == session.hash.digest()


def _take(session: Session, fd: int, size: int, shown: str) -> None:
    """Parse what is new: whole lines go into the transcript, the rest is the torn end."""
    begun: list[bytes] = []
    for block in _blocks(fd, session.size, size):
        start = 0
        while (end := block.find(b"\n", start) + 1) > 0:
            line = b"".join((*begun, block[start:end]))
            begun.clear()
            start = end
            _take_line(session, line, shown)
        begun.append(block[start:])
    session.torn = b"".join(begun).rstrip(b"\x00")


def _take_line(session: Session, line: bytes, shown: str) -> None:
    session.lines += 1
    text = without_bom(line) if session.lines == 1 else line
    if text.strip():
        try:
            session.transcript.add(parse_line(text))
        except ValueError as error:
            raise StorageError(
                "line_broken", file=shown, line=session.lines, reason=as_reason(error)
            ) from error
    session.hash.update(line)
    session.size += len(line)


def _read_torn(torn: bytes, turn: int) -> Line | None:
    try:
        return parse_line(torn.strip())
    except ValueError:
        return recover(torn.strip(), turn)


class SessionWriter:
    """The one writer of a session; whoever makes it holds the instance's lock."""

    def __init__(self, session: Session, shown: str) -> None:
        self._session = session.copy()
        self._shown = shown
        self._reply: ReplyLine | None = None
        self._reply_start = 0
        self.mended: list[str] = []
        """What had to be done on opening: ``repaired`` (an open reply was closed), ``set_aside``."""
        with writing(shown):
            self._fd = open_regular(session.path, os.O_RDWR, shown=shown)
        try:
            self._mend()
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def transcript(self) -> Transcript:
        """What the session holds, the newest line included."""
        return self._session.transcript

    def close(self) -> Session:
        """Let go of the file; return what it holds now."""
        os.close(self._fd)
        return self._session

    def append(self, line: Line) -> None:
        """Add a whole line in one write; on failure the file is as it was."""
        if os.fstat(self._fd).st_size != self._session.size:
            raise StorageError("session_changed", file=self._shown)
        data = dump_line(line)
        self._overwrite(data, b"")
        self._taken(data, [line])

    def _overwrite(self, data: bytes, old: bytes) -> None:
        """Write at the end of the whole lines, over ``old``; on failure ``old`` is restored."""
        start = self._session.size
        with writing(self._shown):
            try:
                written = 0
                while written < len(data):
                    written += os.pwrite(self._fd, data[written:], start + written)
                if start + len(data) < os.fstat(self._fd).st_size:
                    os.ftruncate(self._fd, start + len(data))
            except OSError:
                os.pwrite(self._fd, old, start)
                cut_file(self._fd, start + len(old))
                raise

    def begin_reply(self, turn: int, timestamp: str) -> ReplyLine:
        """Open the reply's line at the end of the file, also where someone added lines by hand meanwhile."""
        if os.fstat(self._fd).st_size != self._session.size:
            self._read_again()
        self._reply_start = self._session.size
        with writing(self._shown):
            self._reply = ReplyLine(self._fd, self._session.size, turn, timestamp, self._shown)
        return self._reply

    def rewrite_reply(self, content: str) -> None:
        """Replace the content of the reply that is being written."""
        if self._reply is None:
            raise RuntimeError("no reply has been begun")
        with writing(self._shown):
            self._reply.restart(content)

    def drop_reasoning(self) -> None:
        """Take back the reasoning of the reply that is being written."""
        if self._reply is None:
            raise RuntimeError("no reply has been begun")
        with writing(self._shown):
            self._reply.drop_reasoning()

    def _read_again(self) -> None:
        """Take the file as it is now: ``transcript`` is another one from here on."""
        fresh = _refresh(None, self._session.path, self._fd, self._shown)
        if fresh.torn:
            raise StorageError("session_changed", file=self._shown)
        self._session = fresh

    def end_reply(self, line: AssistantLine) -> bool:
        """Close the reply's line; return whether the file had been changed meanwhile and was put right."""
        if self._reply is None:
            raise RuntimeError("no reply has been begun")
        disturbed = not self._is_ours(self._reply)
        if disturbed:
            self._bring_back(line)
        else:
            with writing(self._shown):
                end = self._reply.close(*(name for name in REPLY_FLAGS if getattr(line, name)))
                data = os.pread(self._fd, end - self._reply_start, self._reply_start)
            self._taken(data, [line])
        self._reply = None
        return disturbed

    def _is_ours(self, reply: ReplyLine) -> bool:
        """Return whether the file is still the one we opened, with our line where we began it."""
        mine = os.fstat(self._fd)
        try:
            there = self._session.path.stat()
        except OSError:
            return False
        before = max(self._reply_start - 1, 0)
        seam = os.pread(self._fd, self._reply_start - before + len(REPLY_OPENING), before)
        return (
            (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)
            and mine.st_size == reply.end
            and seam == b"\n"[: self._reply_start] + REPLY_OPENING
        )

    def _bring_back(self, line: AssistantLine) -> None:
        """Write the reply into a file that was deleted, replaced or edited while it was being written.

        Whole lines stay; what our tokens or the edit tore is kept aside; a half of this reply gives way to it.
        """
        path = self._session.path
        try:
            raw = self._found_bytes()
            kept, torn = _whole_lines(raw, line)
            if torn:
                self._set_aside(b"\n".join(torn))
            replace_file(path, b"".join([*kept, dump_line(line)]), self._shown)
            fresh = open_regular(path, os.O_RDWR, shown=self._shown)
            os.close(self._fd)
            self._fd = fresh
            self._read_again()
        except (OSError, StorageError) as error:
            raise StorageError("session_gone", file=self._shown, reason=as_reason(error)) from error

    def _found_bytes(self) -> bytes:
        """Read the file at the path, or the one that was deleted up to the reply."""
        if self._session.path.exists():
            return read_bytes(self._session.path, self._shown, MAX_SESSION_BYTES)
        return os.pread(self._fd, self._reply_start, 0)

    def sync(self) -> None:
        """Make what is written survive a power loss."""
        with writing(self._shown):
            os.fsync(self._fd)

    def _taken(self, data: bytes, lines: list[Line]) -> None:
        session = self._session
        session.transcript.extend(lines)
        session.hash.update(data)
        session.size += len(data)
        session.lines += len(lines)
        session.torn = b""
        session.stamp = _stamp(self._fd)
        session.seen_ns = time.time_ns()

    def _mend(self) -> None:
        """Finish a last line that was never closed."""
        session = self._session
        torn, last = session.torn, session.transcript.last
        self._cut_padding(session.size + len(torn))
        if not torn and not session.lines:
            raise StorageError("file_broken", file=self._shown, reason=Reason("empty"))
        if not torn:
            return
        line = _read_torn(torn, last.number if last else 1)
        if line is None:
            if not session.lines:
                raise StorageError("file_broken", file=self._shown, reason=Reason("no_readable_line"))
            self._set_aside(torn)
            self._overwrite(b"", torn)
            session.torn = b""
            self.mended.append("set_aside")
        else:
            data = dump_line(self._finished(line))
            self._overwrite(data, torn)
            self._taken(data, [self._finished(line)])
            if isinstance(line, AssistantLine):
                self.mended.append("repaired")

    def _cut_padding(self, end: int) -> None:
        """Take off zeros that a power loss left behind the last byte that was written."""
        size = os.fstat(self._fd).st_size
        if size > end and not os.pread(self._fd, size - end, end).strip(b"\x00"):
            with writing(self._shown):
                os.ftruncate(self._fd, end)

    def _finished(self, line: Line) -> Line:
        return line.abandoned(self._last_time()) if isinstance(line, AssistantLine) else line

    def _last_time(self) -> str:
        last = self.transcript.last
        return last.user.timestamp if last and last.user else ""

    def _set_aside(self, torn: bytes) -> None:
        """Keep bytes that are no line in a file beside, all of them or none."""
        aside = self._session.path.with_suffix(".torn")
        with writing(self._shown), os.fdopen(open_aside(aside), "ab", buffering=0) as file:
            start, view = file.tell(), memoryview(torn + b"\n")
            try:
                while view:
                    view = view[file.write(view) :]
            except OSError:
                file.truncate(start)
                raise


def _is_half(found: AssistantLine, reply: AssistantLine) -> bool:
    same = (found.turn, found.timestamp) == (reply.turn, reply.timestamp)
    return same and reply.content.startswith(found.content)


def _whole_lines(raw: bytes, reply: AssistantLine) -> tuple[list[bytes], list[bytes]]:
    """Sort a disturbed file into lines that can be read and what is torn, without the reply's own half."""
    kept: list[bytes] = []
    torn: list[bytes] = []
    for piece in raw.replace(b"\x00", b"").split(b"\n"):
        if not piece.strip():
            continue
        try:
            found = parse_line(without_bom(piece))
        except ValueError:
            torn.append(piece)
            continue
        if isinstance(found, AssistantLine) and _is_half(found, reply):
            continue
        kept.append(piece + b"\n")
    return kept, torn
