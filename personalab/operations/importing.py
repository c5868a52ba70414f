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
from personalab.data_files import writing
from personalab.errors import PersonaLabError, UserError
from personalab.operations.import_library import (
    import_background,
    import_book,
    import_card,
    link_worlds,
)
from personalab.operations.import_places import ImportTargets, join_stories
from personalab.operations.import_stories import (
    StoryImports,
    import_archive,
    import_chat,
)
from personalab.operations.imports import (
    DEFAULT_OPTIONS,
    UNNAMED,
    Imported,
    ImportFile,
    ImportOptions,
    ImportReport,
    SkippedFile,
)
from personalab.operations.reindex import BATCH, session_events
from personalab.services import Services
from personalab.storage.exchange import FoundFile, find_files, opened
from personalab.story.records import check_id
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
    stories: StoryImports
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
    options: ImportOptions = DEFAULT_OPTIONS,
    on_progress: Progress = lambda done, total, name: None,
) -> ImportReport:
    """Import files, and folders with everything in them; failed ones are listed with the reason."""
    await asyncio.to_thread(_check, services, options)
    files = await asyncio.to_thread(find_files, paths)
    if options.new_id is not None and len(files) > 1:
        raise UserError("id_for_many", count=len(files))
    batch = _batch(services, options)
    waiting, later = deque(enumerate(files)), deque[_Placed]()
    while waiting or later:
        on_progress(batch.done, len(files), (waiting or later)[0][1].shown)
        await run_uncancellable(_import_some, batch, waiting or later, later if waiting else None)
    report = await _reported(batch, lambda name: on_progress(batch.done, len(files), name))
    on_progress(batch.done, len(files), "")
    return report


async def import_content(
    services: Services, name: str | None, content: bytes, options: ImportOptions = DEFAULT_OPTIONS
) -> ImportReport:
    """Import one file from its content; ``name`` is its name, if it has one."""
    return await import_stream(services, name, BytesIO(content), options)


async def import_stream(
    services: Services,
    name: str | None,
    stream: BinaryIO,
    options: ImportOptions = DEFAULT_OPTIONS,
    on_indexing: Callable[[str], None] = lambda name: None,
) -> ImportReport:
    """Import one open file; ``on_indexing`` receives the progress of indexing a long story."""
    await asyncio.to_thread(_check, services, options)
    batch = _batch(services, options)
    shown, called = name or UNNAMED, called_by_file(name or "")

    def work() -> None:
        try:
            found = detect(shown, stream, stream.seek(0, SEEK_END))
            file = ImportFile(shown, found, stream, called)
            batch.imported += [(0, entry) for entry in _import_as(batch, file)]
        except PersonaLabError as error:
            batch.skipped.append((0, SkippedFile(shown, error)))

    await run_uncancellable(work)
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


def _batch(services: Services, options: ImportOptions) -> _Batch:
    stories = services.stories
    return _Batch(services, ImportTargets(stories, options), StoryImports(stories, options, services.now))


def _check(services: Services, options: ImportOptions) -> None:
    """Refuse options that no file could fulfil before any is imported."""
    if options.new_id is not None:
        check_id(options.new_id, "id")
    if options.character is not None:
        services.stories.character(options.character)


def _import_some(batch: _Batch, waiting: deque[_Placed], later: deque[_Placed] | None) -> None:
    """Bring files in for a moment: one long one, or many short ones, between which nobody has to be woken."""
    until = time.monotonic() + _MOMENT_SECONDS
    while waiting:
        place, file = waiting.popleft()
        if not _import_one(batch, place, file, even_stories=later is None) and later is not None:
            later.append((place, file))
        if time.monotonic() >= until:
            return


def _import_one(batch: _Batch, place: int, file: FoundFile, *, even_stories: bool) -> bool:
    """Import one file, or list why not; ``False`` if its turn comes later."""
    try:
        if file.error is not None:
            raise file.error
        with opened(file.path) as (stream, size):
            found = detect(file.path.name, stream, size)
            if found in _LATER and not even_stories:
                return False
            arriving = ImportFile(file.shown, found, stream, called_by_file(file.path.name), file.path)
            batch.imported += [(place, entry) for entry in _import_as(batch, arriving)]
    except PersonaLabError as error:
        batch.skipped.append((place, SkippedFile(file.shown, error)))
    batch.done += 1
    return True


def _import_as(batch: _Batch, file: ImportFile) -> list[Imported]:
    match file.format:
        case "card_png" | "charx" | "card_json":
            return [import_card(batch.library, file)]
        case "lorebook" | "world_info":
            return [import_book(batch.library, file)]
        case "background":
            return [import_background(batch.library, file)]
        case "veloca":
            return import_archive(batch.stories, file)
        case "chat":
            return [import_chat(batch.stories, file)]


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
