"""How is a session file read once, kept in memory, and written by one writer?

The cache knows a file by its identity, size and time. What this process wrote itself is known already; what
another process appended is parsed alone, after the part that was known is found unchanged; anything else (an
edit by hand) is read anew.
"""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from personalab.errors import StorageError
from personalab.storage.files import replace_file, writing
from personalab.storage.reply_line import ReplyLine, recover
from personalab.story.lines import AssistantLine, Line, UserLine, dump_line, parse_line
from personalab.story.transcript import Transcript

MAX_SESSION_BYTES = 1024 * 1024 * 1024
_RACY_NS = 50_000_000
"""An edit this soon after the last change may carry the same time; such a file is compared by content."""
_BOM = b"\xef\xbb\xbf"


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def digest(self) -> bytes: ...
    def copy(self) -> _Hash: ...


def _new_hash() -> _Hash:
    return hashlib.blake2b(digest_size=16)


@dataclass(slots=True)
class Session:
    """A session as it stands in its file; ``torn`` is what follows the last line end."""

    path: Path
    transcript: Transcript = field(default_factory=Transcript)
    size: int = 0
    """Bytes of whole lines."""
    torn: bytes = b""
    lines: int = 0
    stamp: tuple[int, int, int, int] = (0, 0, 0, 0)
    seen_ns: int = 0
    hash: _Hash = field(default_factory=_new_hash)

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
        seen = Transcript(
            self.transcript.metadata, list(self.transcript.turns), list(self.transcript.trailing)
        )
        if seen.turns and seen.turns[-1].number == reply.turn:
            last = seen.turns[-1]
            seen.turns[-1] = replace(last, replies=list(last.replies), memo={})
        seen.add(reply)
        return seen


class SessionCache:
    """The sessions this process has read."""

    def __init__(self, keep: int = 256) -> None:
        self._sessions: dict[Path, Session] = {}
        self._keep = keep

    def is_warm(self, path: Path) -> bool:
        """Tell whether loading will be quick: little is new in the file."""
        known = self._sessions.get(path)
        try:
            size = path.stat().st_size
        except OSError:
            return True
        return size - (known.size if known else 0) < 256 * 1024

    def load(self, path: Path, shown: str) -> Session:
        """Bring a session up to date with its file."""
        known = self._sessions.pop(path, None)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise StorageError("file_missing", file=shown) from error
        except OSError as error:
            raise StorageError("file_broken", file=shown, reason=error.strerror or str(error)) from error
        try:
            session = _refresh(known, path, fd, shown)
        except OSError as error:
            raise StorageError("file_broken", file=shown, reason=error.strerror or str(error)) from error
        finally:
            os.close(fd)
        self._sessions[path] = session
        while len(self._sessions) > self._keep:
            self._sessions.pop(next(iter(self._sessions)))
        return session

    def forget(self, path: Path) -> None:
        """Read the file anew next time."""
        self._sessions.pop(path, None)


def _stamp(fd: int) -> tuple[int, int, int, int]:
    found = os.fstat(fd)
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _refresh(known: Session | None, path: Path, fd: int, shown: str) -> Session:
    stamp = _stamp(fd)
    if stamp[2] > MAX_SESSION_BYTES:
        raise StorageError(
            "file_broken", file=shown, reason=f"{stamp[2]} bytes, more than {MAX_SESSION_BYTES}"
        )
    now = time.time_ns()
    if known is not None and known.stamp == stamp and known.seen_ns - stamp[3] > _RACY_NS:
        return known
    with open(fd, "rb", closefd=False) as file:
        raw = file.read()
    session = known
    if session is None or len(raw) < session.size or not _same_start(session, raw):
        session = Session(path)
    _take(session, raw, shown)
    session.stamp = stamp
    session.seen_ns = now
    return session


def _same_start(session: Session, raw: bytes) -> bool:
    fresh = _new_hash()
    fresh.update(raw[: session.size])
    return fresh.digest() == session.hash.digest()


def _take(session: Session, raw: bytes, shown: str) -> None:
    """Parse what is new: whole lines go into the transcript, the rest is the torn end."""
    end = raw.rfind(b"\n") + 1
    fresh = raw[session.size : end]
    session.torn = raw[end:].rstrip(b"\x00")
    for line in fresh.split(b"\n")[:-1]:
        session.lines += 1
        text = line.removeprefix(_BOM) if session.lines == 1 else line
        if not text.strip():
            continue
        try:
            session.transcript.add(parse_line(text))
        except ValueError as error:
            raise StorageError("line_broken", file=shown, line=session.lines, reason=str(error)) from error
    session.hash.update(fresh)
    session.size = end


def _read_torn(torn: bytes, turn: int) -> Line | None:
    try:
        return parse_line(torn.strip())
    except ValueError:
        return recover(torn.strip(), turn)


class SessionWriter:
    """The one writer of a session; whoever makes it holds the instance's lock."""

    def __init__(self, session: Session, shown: str) -> None:
        self._session = session
        self._shown = shown
        self._reply: ReplyLine | None = None
        self._reply_start = 0
        self.repaired = False
        with writing(shown):
            self._fd = os.open(session.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._mend()
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def transcript(self) -> Transcript:
        """What the session holds, the newest line included."""
        return self._session.transcript

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)

    def append(self, line: Line) -> None:
        """Add a whole line in one write; on failure the file is as it was."""
        data = dump_line(line)
        self._overwrite(data, b"")
        self._taken(data, [line])

    def _overwrite(self, data: bytes, old: bytes) -> None:
        """Write at the end of the whole lines, over ``old``; on failure ``old`` stands there again."""
        start = self._session.size
        with writing(self._shown):
            try:
                written = 0
                while written < len(data):
                    written += os.pwrite(self._fd, data[written:], start + written)
                os.ftruncate(self._fd, start + len(data))
            except OSError:
                os.pwrite(self._fd, old, start)
                os.ftruncate(self._fd, start + len(old))
                raise

    def begin_reply(self, turn: int, timestamp: str) -> ReplyLine:
        """Open the reply's line at the end of the file."""
        self._reply_start = self._session.size
        with writing(self._shown):
            self._reply = ReplyLine(self._fd, self._session.size, turn, timestamp)
        return self._reply

    def end_reply(self, line: AssistantLine) -> bool:
        """Close the reply's line; return whether the file had been taken away and was put back."""
        if self._reply is None:
            raise RuntimeError("no reply has been begun")
        with writing(self._shown):
            end = self._reply.close(interrupted=line.interrupted, empty=line.empty, error=line.error)
            data = os.pread(self._fd, end - self._reply_start, self._reply_start)
        self._reply = None
        restored = self._put_back(data)
        self._taken(data, [line])
        return restored

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
        session.stamp = _stamp(self._fd)
        session.seen_ns = time.time_ns()

    def _put_back(self, data: bytes) -> bool:
        """Bring the reply back where its file was deleted or replaced while it was written."""
        path = self._session.path
        try:
            found = path.stat()
        except FileNotFoundError:
            whole = os.pread(self._fd, os.fstat(self._fd).st_size, 0)
            try:
                replace_file(path, whole, self._shown)
            except StorageError as error:
                raise StorageError("session_gone", file=self._shown, reason=str(error)) from error
            return True
        mine = os.fstat(self._fd)
        if (found.st_dev, found.st_ino) == (mine.st_dev, mine.st_ino):
            return False
        with writing(self._shown), path.open("ab", buffering=0) as file:
            file.write(data)
        return True

    def _mend(self) -> None:
        """Finish a last line that was never closed."""
        session = self._session
        torn, last = session.torn, session.transcript.last
        if not torn:
            return
        line = _read_torn(torn, last.number if last else 1)
        if line is None:
            self._set_aside(torn)
            self._overwrite(b"", torn)
        else:
            data = dump_line(self._finished(line))
            self._overwrite(data, torn)
            self._taken(data, [self._finished(line)])
        session.torn = b""
        self.repaired = not isinstance(line, UserLine)

    def _finished(self, line: Line) -> Line:
        if isinstance(line, AssistantLine):
            return replace(line, interrupted=True, closed=True, timestamp=line.timestamp or self._last_time())
        return line

    def _last_time(self) -> str:
        last = self.transcript.last
        return last.user.timestamp if last and last.user else ""

    def _set_aside(self, torn: bytes) -> None:
        """Keep bytes that are no line in a file beside, so that nothing is thrown away."""
        aside = self._session.path.with_suffix(".torn")
        with writing(self._shown), aside.open("ab", buffering=0) as file:
            file.write(torn + b"\n")
