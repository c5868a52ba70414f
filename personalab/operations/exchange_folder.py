"""Import and export through one folder of the data root, for clients that cannot name paths.

A name is a plain file name: nothing outside the folder can be reached by it, not even through a link.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from personalab.data_files import make_folder, writing
from personalab.errors import NotFound, UserError
from personalab.operations.exporting import ExportFormat, export_entry, write_export
from personalab.operations.importing import Progress, import_files
from personalab.operations.imports import ImportOptions, ImportReport
from personalab.services import Services
from personalab.storage.exchange import write_outside
from personalab.tasks import run_uncancellable

FOLDER = "exchange"
MAX_FILE_NAME = 200
_SHOWN_NAMES = 20
_BEGINNING_BYTES = 64 * 1024
_TEXTS = ("text/", "application/json")
_SAME_NAMES = 10_000
_ENDING = re.compile(r"(?:\.(?:lorebook|background|junit))?\.[A-Za-z0-9]+$")
"""The ending that follows the number in a file's name if the plain name was taken."""


@dataclass(frozen=True, slots=True)
class ExchangeFile:
    """A file that was put into the folder."""

    name: str
    size: int
    format: ExportFormat
    media_type: str
    beginning: str | None
    """How a text begins; other files have none."""
    other_sessions: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def exchange_folder(services: Services) -> Path:
    """Find the folder; it is made when something is first put into it."""
    return services.settings.data_root / FOLDER


def check_file_name(name: str) -> str:
    """Return a plain file name unchanged, or refuse it before any path is built from it."""
    plain = name.isprintable() and not set(name) & set('/\\:*?"<>|') and name == name.strip()
    if plain and 0 < len(name) <= MAX_FILE_NAME and not name.startswith("."):
        return name
    raise UserError("bad_file_name", value=name[:80], folder=FOLDER)


async def import_from_exchange(
    services: Services,
    name: str,
    options: ImportOptions,
    on_progress: Progress,
) -> ImportReport:
    """Import a file from the folder."""
    path = await asyncio.to_thread(_existing_file, exchange_folder(services), check_file_name(name))
    return await import_files(services, [path], options, on_progress)


def _existing_file(folder: Path, name: str) -> Path:
    path = folder / name
    if path.is_file() and not path.is_symlink():
        return path
    found = folder.iterdir() if folder.is_dir() else ()
    names = sorted(file.name for file in found if file.is_file() and not file.name.startswith("."))
    shown = ", ".join(names[:_SHOWN_NAMES]) + ("…" if len(names) > _SHOWN_NAMES else "")
    raise NotFound("no_exchange_file", name=name, folder=FOLDER, known=shown or "–")


async def export_to_exchange(
    services: Services,
    entry_id: str,
    format: ExportFormat | None = None,
    *,
    session_id: str | None = None,
    markers: bool = False,
    reasoning: bool = False,
) -> ExchangeFile:
    """Export a story, a character or a background into the folder, under a free name."""
    exported = await export_entry(
        services, entry_id, format, session_id=session_id, markers=markers, reasoning=reasoning
    )
    path = await asyncio.to_thread(_free_path, exchange_folder(services), exported.name)
    begun = bytearray()
    size = await write_export(replace(exported, chunks=_noted(exported.chunks, begun)), path)
    is_text = exported.media_type.startswith(_TEXTS)
    return ExchangeFile(
        path.name,
        size,
        exported.format,
        exported.media_type,
        bytes(begun).decode("utf-8", "ignore") if is_text else None,
        exported.other_sessions,
        exported.left_out,
    )


async def put_into_exchange(services: Services, name: str, content: bytes) -> str:
    """Write a file into the folder, under a free name; return that name."""
    path = await asyncio.to_thread(_free_path, exchange_folder(services), name)
    await run_uncancellable(lambda: write_outside(path, [content], overwrite=False, private=True))
    return path.name


def _free_path(folder: Path, name: str) -> Path:
    """Make the folder and find a name that is free in it."""
    with writing(FOLDER):
        make_folder(folder)
    ending = found[0] if (found := _ENDING.search(name)) else ""
    stem = name.removesuffix(ending)
    names = (name if number == 1 else f"{stem}-{number}{ending}" for number in range(1, _SAME_NAMES))
    for path in (folder / name for name in names):
        if not path.is_symlink() and not path.exists():
            return path
    raise UserError("export_exists", file=name)


def _noted(chunks: Iterable[bytes], begun: bytearray) -> Iterator[bytes]:
    """Pass a content on and note how it begins."""
    for chunk in chunks:
        begun += chunk[: max(0, _BEGINNING_BYTES - len(begun))]
        yield chunk
