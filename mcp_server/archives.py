"""Tools that import files, export stories and characters, and compact archived conversations.

A client names no paths: files are in one folder of the data root, archives in another.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import importlib
from pathlib import PurePath
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, InputRequiredResult
from pydantic import Field

from mcp_server.asking import MAX_ANSWER, Asking, Work, nothing_to_note
from mcp_server.budget import RESULT_TOKENS, Budget
from mcp_server.desk import McpContext, without_paths, worded
from mcp_server.growing import Given
from mcp_server.knowing import brief
from mcp_server.progress import Steps, follow
from mcp_server.results import Compacted, ExportResult, Imports, result
from mcp_server.stories import Cursor
from mcp_server.texts import tell
from personalab.errors import BadRecord, as_reason
from personalab.operations.archives import archive_of, undo_compaction
from personalab.operations.exchange_folder import (
    FOLDER,
    check_file_name,
    export_to_exchange,
    import_from_exchange,
)
from personalab.operations.exporting import ExportFormat
from personalab.operations.importing import import_content
from personalab.operations.imports import ImportOptions, ImportReport, OnConflict
from personalab.texts import Language

MAX_CONTENT = 4_000_000
"""Maximum characters of a file sent with the call; larger ones are put into the folder."""
_ROWS = 40
_ROW_TOKENS = RESULT_TOKENS // _ROWS - 60
_NOTES = 3
_KINDS = {"character": "characters", "background": "backgrounds"}


class ArchiveTools:
    """What comes in and goes out, and long conversations in short."""

    def __init__(self, desk: McpContext, asking: Asking) -> None:
        self._desk = desk
        self._asking = asking

    # --- in and out

    async def archive_import(
        self,
        ctx: Context[Any],
        name: Annotated[
            str | None,
            Field(description="A file in the folder exchange; with content, its name"),
        ] = None,
        content: Annotated[str | None, Field(description="Its text", max_length=MAX_CONTENT)] = None,
        content_base64: Annotated[str | None, Field(max_length=MAX_CONTENT)] = None,
        character_id: Annotated[str | None, Field(description="Whose chats they are")] = None,
        into: Annotated[str | None, Field(description="Who gets the lorebook")] = None,
        on_conflict: Annotated[
            OnConflict | None,
            Field(description="If a card differs from its character here"),
        ] = None,
    ) -> Annotated[CallToolResult, Imports]:
        """Bring a file in."""
        brought = self._content(content, content_base64)
        wishes = ImportOptions(character=character_id, into=into, on_conflict=on_conflict)
        services = self._desk.services
        with without_paths(self._desk):
            if brought is not None:
                called = check_file_name(name) if name is not None else None
                report = await import_content(services, called, brought, wishes)
            elif name is not None:
                steps = Steps(ctx)

                def told(done: int, total: int, _: str) -> None:
                    steps.tell(tell("step", self._desk.language, done=done, total=total))

                report = await import_from_exchange(services, name, wishes, told)
                await steps.end()
            else:
                raise BadRecord("field_missing", field="name")
        await self._tell_changes(report)
        return await self._imported(report)

    def _content(self, text: str | None, encoded: str | None) -> bytes | None:
        if text is not None and encoded is not None:
            raise ToolError(tell("one_of", self._desk.language, names="content, content_base64"))
        if encoded is None:
            return text.encode("utf-8") if text is not None else None
        try:
            return base64.b64decode("".join(encoded.split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise ToolError(tell("bad_base64", self._desk.language, reason=as_reason(error))) from error

    async def _tell_changes(self, report: ImportReport) -> None:
        updates = self._desk.updates
        for entry in report.imported:
            if entry.outcome in ("same", "exists"):
                continue
            if entry.kind == "instance":
                await updates.story_changed(entry.entry_id)
            else:
                created = entry.outcome == "new"
                await updates.entry_changed(_KINDS[entry.kind], entry.entry_id, created=created)

    async def _imported(self, report: ImportReport) -> CallToolResult:
        language, budget = self._desk.language, await self._desk.budget()
        told = self._plain(report.fields(language))
        nothing = not told["imported"]
        if nothing and told["skipped"]:
            raise ToolError(told["skipped"][0]["reason"])
        return await asyncio.to_thread(_imports, told, budget, language)

    async def archive_export(
        self,
        entry_id: str,
        format: Annotated[ExportFormat | None, Field(description="Else the usual one")] = None,
        session_id: Annotated[str | None, Field(description="Of a story")] = None,
        markers: bool = False,
        reasoning: bool = False,
    ) -> Annotated[CallToolResult, ExportResult]:
        """Take something out."""
        services, shown = self._desk.services, {"markers": markers, "reasoning": reasoning}
        with without_paths(self._desk):
            put = await export_to_exchange(services, entry_id, format, session_id=session_id, **shown)
        language, budget = self._desk.language, await self._desk.budget()
        data: dict[str, Any] = {
            "name": put.name,
            "size": put.size,
            "format": put.format,
            "media_type": put.media_type,
        }
        rows = [tell("exported", language, folder=FOLDER, **data)]
        if put.other_sessions:
            data["other_sessions"] = list(put.other_sessions[:_ROWS])
            rows.append(tell("other_sessions", language, names=", ".join(data["other_sessions"])))
        if put.left_out:
            data["left_out"] = list(put.left_out)
            rows.append(tell("export_left_out", language, names=", ".join(put.left_out)))
        if put.beginning is not None:
            data["text"] = await asyncio.to_thread(budget.cut, put.beginning, RESULT_TOKENS)
            data["whole"] = len(data["text"].encode("utf-8")) == put.size
            if not data["whole"]:
                rows.append(tell("text_begins", language))
            rows.append(data["text"])
        return result("\n".join(rows), data)

    # --- compacting

    async def archive_compact(
        self,
        ctx: Context[Any],
        session_id: Annotated[str, Field(description="Of the archive, not of a story")],
        archive: Annotated[str | None, Field(description="A file in the folder archive")] = None,
        trigger_entry_id: Annotated[str | None, Field(description="Summarize what is before it")] = None,
        summary: Annotated[str | None, Field(description="Your own", max_length=MAX_ANSWER)] = None,
        undo: Annotated[bool, Field(description="Take the last one back")] = False,
        answer: Given = None,
        cursor: Cursor = None,
    ) -> Annotated[CallToolResult, Compacted] | InputRequiredResult:
        """Compact a conversation."""
        self._check(undo, summary=summary, answer=answer, cursor=cursor)
        if undo:
            return await self._undo(session_id, archive)
        given = {"archive": archive, "trigger_entry_id": trigger_entry_id, "summary": summary}
        call = {"session_id": session_id, **{name: text for name, text in given.items() if text is not None}}

        async def run(model: str | None) -> dict[str, Any]:
            graph = await asyncio.to_thread(importlib.import_module, "graph.compact")
            async with self._desk.place():
                stream = graph.stream_compact(self._desk.services, call, model=model)
                found = await follow(ctx, stream, self._desk.language)
            if error := found.get("error"):
                raise ToolError(worded(self._desk, str(error.get("message", ""))))
            return found

        if summary is not None:
            return await self._compacted(await run(None))
        settled = await self._asking.settle(ctx, _work(call, answer, cursor), run, nothing_to_note)
        if not isinstance(settled, tuple):
            return settled
        return await self._compacted(settled[0])

    def _check(self, undo: bool, **given: str | None) -> None:
        names = [name for name, value in given.items() if value is not None]
        if undo:
            names = ["undo", *names]
        if (undo or "summary" in names) and len(names) > 1:
            raise ToolError(tell("one_of", self._desk.language, names=", ".join(names)))

    async def _undo(self, session_id: str, archive: str | None) -> CallToolResult:
        with without_paths(self._desk):
            place = archive_of(self._desk.services, name=archive)
            undone = await undo_compaction(place, session_id)
        told = {"session_id": undone["session_id"], "entries": undone["entries"]}
        data = {"archive": place.path.name, "status": "undone", **told}
        return result(tell("compaction_undone", self._desk.language, **data), data)

    async def _compacted(self, found: dict[str, Any]) -> CallToolResult:
        language, budget = self._desk.language, await self._desk.budget()
        told = {name: found[name] for name in ("archive", "session_id", "status", "entries")}
        dialogue = dict(found["dialogue"])
        dialogue = {name: dialogue[name] for name in ("entry_id", "trigger_entry_id", "summary", "create_at")}
        dialogue["summary"] = await asyncio.to_thread(brief, dialogue["summary"], budget, RESULT_TOKENS)
        data = {**told, "dialogue": dialogue, "usage": found.get("usage")}
        text = tell("compacted", language, **told)
        return result(f"{text}\n\n{dialogue['summary']}", data)

    # --- what all have in common

    def _plain(self, told: dict[str, Any]) -> dict[str, Any]:
        """Name files by their names alone."""
        for row in (*told["imported"], *told["skipped"]):
            row["file"] = PurePath(row["file"]).name
            if "reason" in row:
                row["reason"] = worded(self._desk, row["reason"])
        return told


def _work(call: dict[str, str], answer: str | None, cursor: str | None) -> Work:
    again = "archive_compact(" + "".join(f'{name}="{value[:80]}", ' for name, value in call.items())
    shown = {"archive": call.get("archive", ""), "session_id": call["session_id"]}
    return Work("archive_compact", "\n".join(call.values()), shown, again, answer, cursor)


def _imports(told: dict[str, Any], budget: Budget, language: Language) -> CallToolResult:
    """Show what came in and what did not, each within its share."""
    imported, skipped = told["imported"], told["skipped"]
    rows = [tell("imported_count", language, count=len(imported), skipped=len(skipped))]
    for entry in imported[:_ROWS]:
        entry["name"] = brief(entry["name"], budget, _ROW_TOKENS // 4)
        entry["notes"] = [brief(note, budget, _ROW_TOKENS // 4) for note in entry["notes"][:_NOTES]]
        outcome, kind = tell(f"outcome.{entry['outcome']}", language), tell(f"kind.{entry['kind']}", language)
        notes = "".join(f"\n  {note}" for note in entry["notes"])
        rows.append(f"- {outcome} {kind} {entry['id']} · {entry['name']}{notes}")
    for entry in skipped[:_ROWS]:
        entry["reason"] = brief(entry["reason"], budget, _ROW_TOKENS)
        rows.append(tell("not_imported", language, **entry))
    if "not_indexed" in told:
        rows.append(tell("warning", language, message=told["not_indexed"]))
    return result("\n".join(rows), {**told, "imported": imported[:_ROWS], "skipped": skipped[:_ROWS]})
