"""The doctor's line-by-line checks of session files, and repairs that lose nothing."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from personalab.data_files import create_file, open_aside, open_regular, without_bom, writing
from personalab.errors import Because, Reason, as_reason
from personalab.operations.doctor_findings import Finding
from personalab.storage.sessions import MAX_SESSION_BYTES
from personalab.storage.stories import StoryFiles
from personalab.story.transcript import AssistantLine, Line, Metadata, UserLine, dump_line, parse_line

MAX_LINE_BYTES = 64 * 1024 * 1024
"""A longer line is set aside unread."""
MAX_TORN_BYTES = 4 * 1024 * 1024
"""Recovering the text of a torn line takes many times its size in memory."""


@dataclass(frozen=True, slots=True)
class RawLine:
    """A line's bytes without its end; one that is too long is only known by its place."""

    number: int
    start: int
    size: int
    content: bytes | None
    whole: bool
    """Whether a line end follows."""


@dataclass(slots=True)
class SessionScan:
    """What a reading of a session file found."""

    broken: dict[int, Because] = field(default_factory=dict[int, Because])
    metadata: Metadata | None = None
    metadata_number: int = 0
    metadata_raw: bytes = b""
    first_number: int = 0
    first_time: str = ""
    order: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    """Line, turn and the turn before it, where they do not follow each other."""
    torn: RawLine | None = None
    loop: str = ""
    """The session that this one continues, where that closes a loop."""

    @property
    def rewrite(self) -> bool:
        """Whether lines have to be moved or changed."""
        moved = bool(self.broken) or self.metadata is None or self.metadata_number != self.first_number
        return moved or bool(self.loop)

    def cut_loop(self) -> None:
        """Let the session continue none when it is repaired."""
        if self.metadata is not None and self.metadata.continued_from is not None:
            self.loop = self.metadata.continued_from
            self.metadata_raw = dump_line(replace(self.metadata, continued_from=None))


def raw_lines(file: BinaryIO) -> Iterator[RawLine]:
    """Read a file line by line with bounded memory."""
    number = start = 0
    while piece := file.readline(MAX_LINE_BYTES):
        number += 1
        content: bytes | None = piece
        size = len(piece)
        while not piece.endswith(b"\n") and (piece := file.readline(1 << 20)):
            content = None
            size += len(piece)
        whole = (piece or content or b"").endswith(b"\n")
        yield RawLine(number, start, size - whole, content[:-1] if content and whole else content, whole)
        start += size


def scan_session(path: Path) -> SessionScan:
    """Read a session file as the program would, but go on after a broken line."""
    scan = SessionScan()
    turn: int | None = None
    with os.fdopen(open_regular(path), "rb") as file:
        for raw in raw_lines(file):
            if not raw.whole:
                if raw.content is None or raw.content.strip(b"\x00"):
                    scan.torn = raw
                break
            content = raw.content
            if content is not None and raw.number == 1:
                content = without_bom(content)
            if content is not None and not content.strip():
                continue
            line = _parsed(content, raw.number, scan)
            if line is not None:
                turn = _take(scan, line, raw.number, turn)
                if scan.metadata_number == raw.number:
                    scan.metadata_raw = (content or b"") + b"\n"
    return scan


def _parsed(content: bytes | None, number: int, scan: SessionScan) -> Line | None:
    if content is None:
        scan.broken[number] = Reason("longer_than_bytes", limit=MAX_LINE_BYTES)
        return None
    try:
        return parse_line(content)
    except ValueError as error:
        scan.broken[number] = as_reason(error)
        return None


def _take(scan: SessionScan, line: Line, number: int, turn: int | None) -> int | None:
    """Record a good line; return the current turn."""
    scan.first_number = scan.first_number or number
    if isinstance(line, Metadata) and scan.metadata is None:
        scan.metadata, scan.metadata_number = line, number
    if not isinstance(line, UserLine | AssistantLine):
        return turn
    scan.first_time = scan.first_time or line.timestamp
    # A reply belongs to the turn before it, or is one of its own where a character says two things in a row.
    if turn is not None and line.turn not in (
        (turn + 1,) if isinstance(line, UserLine) else (turn, turn + 1)
    ):
        scan.order.append((number, line.turn, turn))
    return line.turn


def session_findings(
    scan: SessionScan, shown: str, instance_id: str, session_id: str, *, writing: bool
) -> list[Finding]:
    """Return the findings of a scan; ``writing`` means that the last line is being written right now."""
    found = [
        Finding("line_broken", shown, number, {"reason": reason}, fixable=True)
        for number, reason in scan.broken.items()
    ]
    if scan.metadata is None:
        found.append(Finding("no_metadata", shown, 1, fixable=True))
    else:
        if scan.metadata_number != scan.first_number:
            found.append(Finding("metadata_late", shown, scan.metadata_number, fixable=True))
        found += _mismatches(scan, scan.metadata, shown, instance_id, session_id)
        if scan.loop:
            params = {"session_id": scan.loop[:80]}
            found.append(Finding("session_loop", shown, scan.metadata_number, params, fixable=True))
    for number, turn, previous in scan.order:
        gap = turn > previous
        params = {"turn": turn, "previous": previous}
        if gap:
            found.append(Finding("turn_gap", shown, number, params, level="note"))
        else:
            found.append(Finding("turn_order", shown, number, params))
    if scan.torn is not None and not writing:
        found.append(Finding("torn_line", shown, scan.torn.number, fixable=True))
    return found


def _mismatches(
    scan: SessionScan, metadata: Metadata, shown: str, instance_id: str, session_id: str
) -> Iterator[Finding]:
    expected = {"instance_id": instance_id, "session_id": session_id}
    for name, wanted in expected.items():
        value = str(getattr(metadata, name))
        older = name == "session_id" and value.removeprefix("session_") == wanted.removeprefix("sess_")
        newer = name == "session_id" and value.removeprefix("sess_") == wanted.removeprefix("session_")
        if value != wanted and not older and not newer:
            params = {"field": name, "value": value[:80], "expected": wanted}
            yield Finding("id_mismatch", shown, scan.metadata_number, params)


def too_large(path: Path) -> Reason | None:
    """Return why a session file is not read at all."""
    size = path.stat().st_size
    return Reason("too_many_bytes", count=size, limit=MAX_SESSION_BYTES) if size > MAX_SESSION_BYTES else None


# --- repairs: the caller holds the instance's lock


def repair_session(
    stories: StoryFiles, instance_id: str, path: Path, scan: SessionScan, created_at: str
) -> None:
    """Set broken lines aside, put the metadata first, close a torn last line."""
    shown = stories.shown(path)
    hopeless = scan.torn is not None and not _worth_recovering(scan.torn)
    if scan.rewrite or hopeless:
        made = Metadata(instance_id, path.stem, scan.first_time or created_at)
        first = scan.metadata_raw or dump_line(made)
        with writing(shown):
            _set_aside(path, scan, hopeless=hopeless)
            _rewrite(path, scan, first, hopeless=hopeless)
        stories.cache.forget(path)
    if scan.torn is not None and not hopeless:
        stories.writer(instance_id, path.stem).close()


def _worth_recovering(torn: RawLine) -> bool:
    if torn.content is None:
        return False
    if torn.size <= MAX_TORN_BYTES:
        return True
    try:
        parse_line(torn.content.strip())
    except ValueError:
        return False
    return True


def _moved(scan: SessionScan, raw: RawLine, *, hopeless: bool) -> str | None:
    """Return why a line is moved out of the session; ``None`` if it stays."""
    if raw.number in scan.broken:
        return str(scan.broken[raw.number])[:200]
    if hopeless and not raw.whole:
        return "torn"
    return None


def _set_aside(path: Path, scan: SessionScan, *, hopeless: bool) -> None:
    """Keep what leaves the session in ``{session}.broken``: a heading with its number, then its bytes."""
    if not scan.broken and not hopeless:
        return
    aside_path = path.with_suffix(".broken")
    with os.fdopen(open_regular(path), "rb") as source, os.fdopen(open_aside(aside_path), "ab") as aside:
        lines = list(_places(source, scan, hopeless=hopeless))
        for raw, reason in lines:
            aside.write(f"# line {raw.number}: {' '.join(reason.split())}\n".encode("utf-8", "replace"))
            _copy(source, raw, aside)
            aside.write(b"\n")
        aside.flush()
        os.fsync(aside.fileno())


def _places(source: BinaryIO, scan: SessionScan, *, hopeless: bool) -> Iterator[tuple[RawLine, str]]:
    for raw in raw_lines(source):
        if (reason := _moved(scan, raw, hopeless=hopeless)) is not None:
            yield RawLine(raw.number, raw.start, raw.size, None, raw.whole), reason


def _copy(source: BinaryIO, raw: RawLine, target: BinaryIO) -> None:
    source.seek(raw.start)
    left = raw.size
    while left > 0 and (piece := source.read(min(left, 1 << 20))):
        target.write(piece)
        left -= len(piece)


def _rewrite(path: Path, scan: SessionScan, metadata: bytes, *, hopeless: bool) -> None:
    """Replace the file atomically: the metadata, then every line that stays, byte for byte."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with os.fdopen(open_regular(path), "rb") as source, os.fdopen(create_file(fresh), "wb") as target:
            target.write(metadata)
            for raw in raw_lines(source):
                if raw.number == scan.metadata_number or _moved(scan, raw, hopeless=hopeless) is not None:
                    continue
                content = raw.content or b""
                target.write(without_bom(content) if raw.number == 1 else content)
                target.write(b"\n" if raw.whole else b"")
            target.flush()
            os.fsync(target.fileno())
        os.replace(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)
