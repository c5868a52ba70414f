"""Routes that import cards, lorebooks, chats and archives, and export stories, characters and backgrounds."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from pathlib import PurePosixPath
from typing import Annotated, Any, BinaryIO, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field
from starlette.requests import ClientDisconnect

from personalab.archive.cards import CardVersion
from personalab.errors import UserError
from personalab.operations.exporting import (
    EXPORT_FORMATS,
    ExportFile,
    ExportFormat,
    export_entry,
    file_of,
    formats_of,
)
from personalab.operations.importing import import_stream, spooled
from personalab.operations.imports import ImportOptions, ImportReport, OnConflict, Outcome, WorldStatus
from personalab.results import Readable, ResultModel
from personalab.services import Services
from personalab.storage.stories import Kind
from personalab.tasks import end_tasks
from web.api.jobs import started
from web.desk import ContextDep
from web.shapes import Id, JobStarted, QuerySessionId

router = APIRouter(prefix="/api", tags=["exchange"])

EntryKind = Literal["character", "background", "instance"]
_KINDS: dict[EntryKind, Kind] = {
    "character": "characters",
    "background": "backgrounds",
    "instance": "instances",
}
_BYTES = "application/octet-stream"
_PLACE = r"^(?:characters/|backgrounds/)?[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
_LONGEST_NAME = 200
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The file itself",
        "content": {_BYTES: {"schema": {"type": "string", "format": "binary"}}},
    }
}
_FILES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file, to be saved",
        "content": {
            kind: {"schema": {} if kind.endswith("json") else {"type": "string", "format": "binary"}}
            for kind in sorted({file_of(format)[1] for format in EXPORT_FORMATS})
        },
    }
}


class NamedWorldResponse(ResultModel):
    """A lorebook that a card names."""

    name: Readable
    status: WorldStatus
    background_ids: list[str]


class ImportedEntry(ResultModel):
    """What a file became, or a part of it."""

    file: Readable
    format: str
    kind: EntryKind
    id: str
    name: Readable
    outcome: Outcome
    notes: list[Readable] = Field(description="What is good to know about it, in the reader's language")
    options: list[OnConflict] = Field(
        default=[], description="With the outcome exists: what on_conflict may be in another request"
    )
    world: NamedWorldResponse | None = Field(
        default=None, description="The lorebook that a card names and does not bring"
    )


class ImportedFile(ResultModel):
    """What was brought in."""

    imported: list[ImportedEntry]
    not_indexed: Readable | None = Field(
        default=None, description="Why its stories cannot be recalled from before a reindex"
    )


class FileFormat(ResultModel):
    """A form in which something can leave."""

    format: ExportFormat
    ending: str
    media_type: str


class FormatList(ResultModel):
    """What a kind can leave as, the usual one first."""

    kind: EntryKind
    formats: list[FileFormat]


_BROUGHT: dict[int | str, dict[str, Any]] = {
    200: {"model": ImportedFile, "description": "What was brought in"},
    202: {"model": JobStarted, "description": "It is being brought in"},
}


# --- in


@router.post("/import", response_model=None, responses=_BROUGHT, openapi_extra=_BODY)
async def import_file(
    desk: ContextDep,
    request: Request,
    response: Response,
    name: Annotated[str | None, Query(max_length=1000, description="What the file is called")] = None,
    character: Annotated[Id | None, Query(description="Whose chats they are")] = None,
    into: Annotated[str | None, Query(pattern=_PLACE, description="Who gets the lorebook")] = None,
    new_id: Annotated[Id | None, Query(alias="id", description="Under which id")] = None,
    overwrite: Annotated[
        bool, Query(description="Replace what has the same name or id; never a story")
    ] = False,
    on_conflict: Annotated[
        OnConflict | None,
        Query(description="What to do with a card that differs from the character whose id it carries"),
    ] = None,
    wait: Annotated[bool, Query(description="false: as a job that can be followed")] = True,
) -> ImportedFile | JobStarted:
    """Bring a file in, whole or not at all: a character card, a lorebook, a chat or an archive."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _BYTES:
        raise UserError("import_type_wrong")
    wishes = ImportOptions(character, into, new_id, overwrite, on_conflict)
    async with AsyncExitStack() as stack:
        try:
            spool = await stack.enter_async_context(spooled(request.stream()))
        except ClientDisconnect:
            raise UserError("import_broke_off") from None
        work = _import(desk.services, _plain(name), spool, wishes)
        if wait:
            return await _brought(work)
        kept = stack.pop_all()
        job = desk.jobs.begin("import", f"import:{secrets.token_hex(4)}", _closing(work, kept))
        response.status_code = 202
        return started(job)


def _plain(name: str | None) -> str | None:
    """Take the last part of a name: where the file lay is nobody's business."""
    last = PurePosixPath((name or "").replace("\\", "/")).name
    return "".join(letter for letter in last if letter.isprintable()).strip()[-_LONGEST_NAME:] or None


async def _import(
    services: Services, name: str | None, spool: BinaryIO, wishes: ImportOptions
) -> AsyncGenerator[dict[str, Any]]:
    """Import a file, yielding indexing progress and last what it became."""
    news = asyncio.Queue[str | None]()
    task = asyncio.create_task(import_stream(services, name, spool, wishes, news.put_nowait))
    task.add_done_callback(lambda _: news.put_nowait(None))
    try:
        while (told := await news.get()) is not None:
            yield {"type": "progress", "stage": "index", "name": told}
        yield await asyncio.to_thread(_fields, services, await task)
    finally:
        await end_tasks([task])


def _fields(services: Services, report: ImportReport) -> dict[str, Any]:
    """Describe what a file became; a failed import is an error with its reason."""
    if report.skipped:
        raise report.skipped[0].error
    return report.fields(services.preferences.language())


async def _brought(work: AsyncGenerator[dict[str, Any]]) -> ImportedFile:
    result: dict[str, Any] = {}
    async with aclosing(work) as parts:
        async for part in parts:
            result = part
    return ImportedFile(**result)


async def _closing(
    work: AsyncGenerator[dict[str, Any]], kept: AsyncExitStack
) -> AsyncGenerator[dict[str, Any]]:
    """Pass events on, and close the work's file at the end."""
    async with kept, aclosing(work) as parts:
        async for part in parts:
            yield part if "type" in part else ImportedFile(**part).model_dump()


# --- out


@router.get("/export", response_class=StreamingResponse, responses=_FILES)
async def export_file(
    desk: ContextDep,
    kind: EntryKind,
    entry_id: Annotated[Id, Query(alias="id")],
    format: Annotated[ExportFormat | None, Query(description="The usual one, if left out")] = None,
    session_id: QuerySessionId = None,
    version: Annotated[CardVersion | None, Query(description="Of a card; as it came, if left out")] = None,
    markers: Annotated[bool, Query(description="Keep progress markers in transcripts and chats")] = False,
    reasoning: Annotated[
        bool, Query(description="Include the model's reasoning in transcripts and chats")
    ] = False,
) -> Response:
    """Give a story, a character or a background as a file to be saved."""
    exported = await export_entry(
        desk.services,
        f"{_KINDS[kind]}/{entry_id}",
        format,
        session_id=session_id,
        version=version,
        markers=markers,
        reasoning=reasoning,
    )
    return StreamingResponse(exported.chunks, media_type=exported.media_type, headers=_as_file(exported))


def _as_file(exported: ExportFile) -> dict[str, str]:
    plain = exported.name.encode("ascii", "replace").decode().replace('"', "_")
    named = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(exported.name, safe='')}"
    return {
        "content-disposition": named,
        "content-security-policy": "default-src 'none'; sandbox",
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
    }


@router.get("/export/formats")
async def export_formats(kind: EntryKind) -> FormatList:
    """List what a kind can leave as, the usual one first."""
    formats = [_file_format(format) for format in formats_of(_KINDS[kind])]
    return FormatList(kind=kind, formats=formats)


def _file_format(format: ExportFormat) -> FileFormat:
    ending, media_type = file_of(format)
    return FileFormat(format=format, ending=ending, media_type=media_type)
