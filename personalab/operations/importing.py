"""Import of files, several at once, with the result of each.

Each file is imported whole or not at all, and a bad one does not block the others. Cards and lorebooks are
imported first, so that chats find their characters.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import SEEK_END, BytesIO
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, cast

from personalab.archive.foreign_files import Format, called_by_file, detect
from personalab.errors import PersonaLabError, UserError
from personalab.operations.import_library import bring_book, bring_card, bring_world, link_worlds
from personalab.operations.import_places import ImportTargets, join_stories
from personalab.operations.import_stories import Stories, bring_archive, bring_chat
from personalab.operations.imports import (
    NO_WISHES,
    UNNAMED,
    Arriving,
    Imported,
    ImportOptions,
    ImportReport,
    SkippedFile,
)
from personalab.operations.reindex import BATCH, session_events
from personalab.services import Services
from personalab.storage.exchange import FoundFile, find_files, opened
from personalab.storage.files import writing
from personalab.story.ids import check_id
from personalab.tasks import run_uncancellable

Progress = Callable[[int, int, str], None]
"""Callback with the files done, their total number, and the current one."""
_LATER: tuple[Format, ...] = ("veloca", "chat")
_Placed = tuple[int, FoundFile]
"""A file and its place among those that were named."""
_MOMENT_SECONDS = 0.05
_IN_MEMORY = 1024 * 1024
"""Maximum bytes of an uploaded file held in memory."""


@dataclass(slots=True)
class _Batch:
    """What is under way: the files' places in the order they were named, and what became of them."""

    services: Services
    library: ImportTargets
    stories: Stories
    imported: list[tuple[int, Imported]] = field(default_factory=list[tuple[int, Imported]])
    skipped: list[tuple[int, SkippedFile]] = field(default_factory=list[tuple[int, SkippedFile]])
    done: int = 0

    def report(self) -> ImportReport:
        return ImportReport(
            [entry for _, entry in sorted(self.imported, key=lambda pair: pair[0])],
            [entry for _, entry in sorted(self.skipped, key=lambda pair: pair[0])],
        )


async def import_files(
    services: Services,
    paths: Sequence[Path],
    wishes: ImportOptions = NO_WISHES,
    on_progress: Progress = lambda done, total, name: None,
) -> ImportReport:
    """Import files, and folders with everything in them; failed ones are listed with the reason."""
    await asyncio.to_thread(_check, services, wishes)
    files = await asyncio.to_thread(find_files, paths)
    if wishes.new_id is not None and len(files) > 1:
        raise UserError("id_for_many", count=len(files))
    batch = _batch(services, wishes)
    waiting, later = deque(enumerate(files)), deque[_Placed]()
    while waiting or later:
        on_progress(batch.done, len(files), (waiting or later)[0][1].shown)
        await run_uncancellable(_bring_some, batch, waiting or later, later if waiting else None)
    report = await _reported(batch, lambda name: on_progress(batch.done, len(files), name))
    on_progress(batch.done, len(files), "")
    return report


async def import_content(
    services: Services, name: str | None, content: bytes, wishes: ImportOptions = NO_WISHES
) -> ImportReport:
    """Import one file from its content; ``name`` is its name, if it has one."""
    return await import_stream(services, name, BytesIO(content), wishes)


async def import_stream(
    services: Services,
    name: str | None,
    stream: BinaryIO,
    wishes: ImportOptions = NO_WISHES,
    on_indexing: Callable[[str], None] = lambda name: None,
) -> ImportReport:
    """Import one open file; ``on_indexing`` receives the progress of indexing a long story."""
    await asyncio.to_thread(_check, services, wishes)
    batch = _batch(services, wishes)
    shown, called = name or UNNAMED, called_by_file(name or "")

    def bring() -> None:
        try:
            found = detect(shown, stream, stream.seek(0, SEEK_END))
            file = Arriving(shown, found, stream, called)
            batch.imported += [(0, entry) for entry in _bring_as(batch, file)]
        except PersonaLabError as error:
            batch.skipped.append((0, SkippedFile(shown, error)))

    await run_uncancellable(bring)
    return await _reported(batch, on_indexing)


@asynccontextmanager
async def spooled(parts: AsyncIterable[bytes]) -> AsyncGenerator[BinaryIO]:
    """Collect what comes piece by piece: little of it in memory, more in a file that is gone afterwards."""
    with SpooledTemporaryFile(max_size=_IN_MEMORY) as spool:
        gathered = bytearray()

        async def put() -> None:
            whole = bytes(gathered)
            gathered.clear()
            await run_uncancellable(_put, spool, whole)

        async for part in parts:
            gathered += part
            if len(gathered) >= _IN_MEMORY:
                await put()
        await put()
        yield cast("BinaryIO", spool)


def _put(spool: SpooledTemporaryFile[bytes], content: bytes) -> None:
    with writing("import"):
        spool.write(content)


def _batch(services: Services, wishes: ImportOptions) -> _Batch:
    stories = services.stories
    return _Batch(services, ImportTargets(stories, wishes), Stories(stories, wishes, services.now))


def _check(services: Services, wishes: ImportOptions) -> None:
    """Refuse options that no file could fulfil before any is imported."""
    if wishes.new_id is not None:
        check_id(wishes.new_id, "id")
    if wishes.character is not None:
        services.stories.character(wishes.character)


def _bring_some(batch: _Batch, waiting: deque[_Placed], later: deque[_Placed] | None) -> None:
    """Bring files in for a moment: one long one, or many short ones, between which nobody has to be woken."""
    until = time.monotonic() + _MOMENT_SECONDS
    while waiting:
        place, file = waiting.popleft()
        if not _bring(batch, place, file, even_stories=later is None) and later is not None:
            later.append((place, file))
        if time.monotonic() >= until:
            return


def _bring(batch: _Batch, place: int, file: FoundFile, *, even_stories: bool) -> bool:
    """Import one file, or list why not; ``False`` if its turn comes later."""
    try:
        if file.error is not None:
            raise file.error
        with opened(file.path) as (stream, size):
            found = detect(file.path.name, stream, size)
            if found in _LATER and not even_stories:
                return False
            arriving = Arriving(file.shown, found, stream, called_by_file(file.path.name), file.path)
            batch.imported += [(place, entry) for entry in _bring_as(batch, arriving)]
    except PersonaLabError as error:
        batch.skipped.append((place, SkippedFile(file.shown, error)))
    batch.done += 1
    return True


def _bring_as(batch: _Batch, file: Arriving) -> list[Imported]:
    match file.format:
        case "card_png" | "charx" | "card_json":
            return [bring_card(batch.library, file)]
        case "lorebook" | "world_info":
            return [bring_book(batch.library, file)]
        case "background":
            return [bring_world(batch.library, file)]
        case "veloca":
            return bring_archive(batch.stories, file)
        case "chat":
            return [bring_chat(batch.stories, file)]


async def _reported(batch: _Batch, show: Callable[[str], None] = lambda name: None) -> ImportReport:
    """Join what belongs together and make the stories that came in findable.

    The event library is derived, so a failure to write it is told and undoes nothing.
    """
    report = batch.report()
    await run_uncancellable(link_worlds, batch.library, report)
    await join_stories(batch.services, report)
    try:
        for entry in report.imported:
            if entry.kind == "instance" and entry.outcome == "new":
                await _index_instance(batch.services, entry.entry_id, show)
    except PersonaLabError as error:
        report.not_indexed = error
    return report


async def _index_instance(services: Services, instance_id: str, show: Callable[[str], None]) -> None:
    written = 0
    state = await asyncio.to_thread(services.stories.instance, instance_id)
    for session_id in await asyncio.to_thread(services.stories.session_ids, instance_id):
        events = await asyncio.to_thread(session_events, services, state, session_id)
        for at in range(0, len(events), BATCH):
            show(f"{instance_id} ({written})")
            await services.library.write(events[at : at + BATCH])
            written += len(events[at : at + BATCH])
