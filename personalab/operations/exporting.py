"""Export of stories, characters and backgrounds in formats that other programs read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from personalab.archive.books import book_as, with_name
from personalab.archive.cards import CardVersion, card_of, read_card, with_id
from personalab.archive.charx import picture_in_charx, with_main_icon, write_charx
from personalab.archive.chat_messages import WORDS_ONLY, ShownReply
from personalab.archive.chats import chat_of, user_named_in
from personalab.archive.foreign_files import (
    MAX_CARD_BYTES,
    MAX_CARRIER_BYTES,
    file_stem,
    load_json,
    object_at,
)
from personalab.archive.instances import archive_of
from personalab.archive.png import without_cards, write_card_png
from personalab.archive.transcripts import transcript_of
from personalab.data_files import dump_json, read_bytes
from personalab.errors import NotFound, StorageError, UserError, as_reason
from personalab.operations.library import KINDS, find_entry
from personalab.services import Services
from personalab.storage.exchange import write_outside
from personalab.storage.instance_files import read_instance
from personalab.storage.stories import Kind, StoryFiles
from personalab.story.macros import Names, player_name
from personalab.story.records import Character, InstanceState, check_id
from personalab.story.transcript import dump_object
from personalab.tasks import run_uncancellable
from personalab.texts import Language

ExportFormat = Literal[
    "veloca",
    "markdown",
    "text",
    "sillytavern",
    "card-json",
    "card-png",
    "charx",
    "lorebook",
    "world-info",
    "background",
]
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)

_FORMATS: dict[Kind, tuple[ExportFormat, ...]] = {
    "instances": ("veloca", "markdown", "text", "sillytavern"),
    "characters": ("card-png", "card-json", "charx", "lorebook", "world-info"),
    "backgrounds": ("lorebook", "world-info", "background"),
}
"""What each kind can leave as; the first is the usual one, for a world without a lorebook the last."""
_ENDINGS: dict[ExportFormat, tuple[str, str]] = {
    "veloca": ("json", "application/json"),
    "markdown": ("md", "text/markdown"),
    "text": ("txt", "text/plain"),
    "sillytavern": ("jsonl", "application/jsonl"),
    "card-json": ("json", "application/json"),
    "card-png": ("png", "image/png"),
    "charx": ("charx", "application/zip"),
    "lorebook": ("lorebook.json", "application/json"),
    "world-info": ("json", "application/json"),
    "background": ("background.json", "application/json"),
}
_OF_ONE_SESSION: tuple[ExportFormat, ...] = ("markdown", "text", "sillytavern")
_CARDS: tuple[ExportFormat, ...] = ("card-png", "card-json", "charx")


@dataclass(frozen=True, slots=True)
class ExportFile:
    """What leaves: how its file may be called, what it is, and its content in pieces, to be taken once."""

    name: str
    media_type: str
    kind: Kind
    entry_id: str
    format: ExportFormat
    chunks: Iterable[bytes]
    other_sessions: tuple[str, ...] = ()
    """Sessions of the story that are not in it, where the form holds only one."""
    left_out: tuple[str, ...] = ()
    """Files that belong to it and that the form has no place for."""


@dataclass(frozen=True, slots=True)
class _Request:
    """The checked request."""

    kind: Kind
    entry_id: str
    format: ExportFormat
    session_id: str | None
    version: CardVersion | None
    shown_too: ShownReply = WORDS_ONLY

    def exported(self, *chunks: bytes, others: tuple[str, ...] = ()) -> ExportFile:
        return self.streamed(chunks, others)

    def streamed(self, chunks: Iterable[bytes], others: tuple[str, ...] = ()) -> ExportFile:
        ending, media_type = _ENDINGS[self.format]
        stem = f"{self.entry_id}-{self.session_id}" if self.session_id else self.entry_id
        return ExportFile(
            f"{stem}.{ending}", media_type, self.kind, self.entry_id, self.format, chunks, others
        )


async def export_entry(
    services: Services,
    entry_id: str,
    format: ExportFormat | None = None,
    *,
    session_id: str | None = None,
    version: CardVersion | None = None,
    language: Language | None = None,
    markers: bool = False,
    reasoning: bool = False,
) -> ExportFile:
    """Export a story, a character or a background in a format that other programs read.

    ``characters/ID`` tells those that share an id apart. ``language`` is what a transcript's own words are in.
    Transcripts and chats show progress markers and reasoning only with ``markers`` and ``reasoning``; a Veloca file
    has them in any case.
    """

    def export() -> ExportFile:
        request = _checked(services.stories, entry_id, format, session_id, version)
        if request.kind != "instances" and (markers or reasoning):
            option = "markers" if markers else "reasoning"
            known = ", ".join(_FORMATS["instances"])
            raise UserError("option_not_for", option=option, format=request.format, known=known)
        request = replace(request, shown_too=ShownReply(markers, reasoning))
        match request.kind:
            case "instances":
                return _story(services, request, language or services.preferences.language())
            case "characters" if request.format in _CARDS:
                return _card(services.stories, request)
            case "backgrounds" if request.format == "background":
                return _world(services.stories, request)
            case _:
                return _book(services.stories, request)

    return await asyncio.to_thread(export)


async def write_export(exported: ExportFile, path: Path, *, overwrite: bool = False) -> int:
    """Write what leaves to a file, whole or not at all, and never over another one unasked; tell its size."""
    return await run_uncancellable(lambda: write_outside(path, exported.chunks, overwrite=overwrite))


def _checked(
    stories: StoryFiles,
    named: str,
    format: ExportFormat | None,
    session_id: str | None,
    version: CardVersion | None,
) -> _Request:
    """Find what is meant; where kinds share an id, the form may tell which."""
    fitting: list[Kind] = [kind for kind in KINDS if format is None or format in _FORMATS[kind]]
    try:
        kind, entry_id = find_entry(stories, named, fitting)
    except NotFound:
        kind, entry_id = find_entry(stories, named)
        raise UserError(
            "format_not_for", format=format, entry_id=f"{kind}/{entry_id}", known=", ".join(_FORMATS[kind])
        ) from None
    chosen = format or _usual(stories, kind, entry_id)
    if session_id is not None and chosen not in _OF_ONE_SESSION:
        raise UserError("option_not_for", option="session", format=chosen, known=", ".join(_OF_ONE_SESSION))
    if version is not None and chosen not in _CARDS:
        raise UserError("option_not_for", option="card-version", format=chosen, known=", ".join(_CARDS))
    if version not in (None, "v3") and chosen == "charx":
        raise UserError("charx_is_v3", version=version)
    return _Request(kind, entry_id, chosen, session_id, version)


def _usual(stories: StoryFiles, kind: Kind, entry_id: str) -> ExportFormat:
    has_none = kind == "backgrounds" and not stories.beside(kind, entry_id, "lorebook.json").exists()
    return _FORMATS[kind][-1 if has_none else 0]


def file_of(format: ExportFormat) -> tuple[str, str]:
    """Return a format's file ending and media type."""
    return _ENDINGS[format]


def formats_of(kind: Kind) -> tuple[ExportFormat, ...]:
    """List what a kind can leave as, the usual one first."""
    return _FORMATS[kind]


# --- stories


def _story(services: Services, request: _Request, language: Language) -> ExportFile:
    stories, instance_id = services.stories, request.entry_id
    state = stories.instance(instance_id)
    if request.session_id is not None:
        check_id(request.session_id, "session_id")
        if request.session_id not in stories.session_ids(instance_id):
            raise NotFound("no_session", instance_id=instance_id, session_id=request.session_id)
    if request.format == "veloca":
        exported = request.exported(dump_json(archive_of(read_instance(stories, instance_id))))
        return replace(exported, left_out=_pictures(stories, state))
    config = services.preferences.read().config
    people = stories.people(state, stories.character_state(instance_id), player_name(config, language))
    if request.format == "sillytavern":
        return _chat(stories, request, state, people)
    style = "markdown" if request.format == "markdown" else "text"
    sessions = [request.session_id] if request.session_id else _told_sessions(stories, state)
    told = [stories.session(instance_id, session_id).view() for session_id in sessions]
    pieces = transcript_of(
        told,
        style=style,
        character=people.character,
        player=people.player,
        language=language,
        shown_too=request.shown_too,
    )
    return request.streamed(piece.encode("utf-8", "replace") for piece in pieces)


def _pictures(stories: StoryFiles, state: InstanceState) -> tuple[str, ...]:
    """List the card files of a story's character that are not text."""
    paths = (stories.beside("characters", state.character_id, name) for name in ("card.png", "card.charx"))
    return tuple(stories.shown(path) for path in paths if path.exists())


def _told_sessions(stories: StoryFiles, state: InstanceState) -> list[str]:
    """List the sessions that are the story: not a draft, nor one that was undone."""
    found: list[str] = []
    for session_id in stories.session_ids(state.instance_id):
        if stories.session_before(state.instance_id, session_id) != state.current_session_id:
            found.append(session_id)
    return found


def _chat(stories: StoryFiles, request: _Request, state: InstanceState, people: Names) -> ExportFile:
    """Write one session as a chat, and name the others."""
    chosen = request.session_id or state.current_session_id
    files = read_instance(stories, request.entry_id)
    lines = next((session.lines for session in files.sessions if session.session_id == chosen), None)
    if lines is None:
        raise NotFound("no_session", instance_id=request.entry_id, session_id=chosen)
    here = stories.listed("characters", state.character_id).record
    named = here.name if isinstance(here, Character) else ""
    names = (people.character, user_named_in(lines) or people.player, named, state.character_id)
    chat = chat_of(lines, *names, request.shown_too)
    rows = (dump_object(row) + b"\n" for row in chat)
    others = () if request.session_id else tuple(_told_sessions(stories, state))
    return request.streamed(rows, tuple(one for one in others if one != chosen))


# --- characters and worlds


def _card(stories: StoryFiles, request: _Request) -> ExportFile:
    character = stories.character(request.entry_id)
    kept = _kept_json(stories, "characters", request.entry_id, "card.json")
    book = _kept_json(stories, "characters", request.entry_id, "lorebook.json")

    def card(version: CardVersion | None) -> dict[str, Any]:
        return with_id(card_of(character, kept, book, version), request.entry_id)

    match request.format:
        case "card-json":
            return request.exported(dump_json(card(request.version)))
        case "charx":
            return request.exported(_charx(stories, request.entry_id, card("v3")))
        case _:
            whole = card(request.version)
            original = _picture(stories, request.entry_id, whole)
            chunks = {"chara": whole}
            if read_card(whole).version == "v3":
                # Programs that know V3 take it from its own chunk; the others find a V2 card where they look.
                chunks = {"chara": card("v2"), "ccv3": whole}
            return request.exported(write_card_png(original, chunks))


def _charx(stories: StoryFiles, entry_id: str, card: dict[str, Any]) -> bytes:
    """Pack a card as it came in a CHARX, or else with the picture it came in."""
    original = _kept_bytes(stories, entry_id, "card.charx")
    picture = _kept_bytes(stories, entry_id, "card.png") if original is None else None
    pictured = with_main_icon(card) if picture is not None else None
    if picture is None or pictured is None:
        return write_charx(original, card)
    card, place = pictured
    return write_charx(None, card, {place: without_cards(picture)})


def _picture(stories: StoryFiles, entry_id: str, card: dict[str, Any]) -> bytes | None:
    """Find the picture a card came in, or that of its CHARX."""
    if (picture := _kept_bytes(stories, entry_id, "card.png")) is not None:
        return picture
    packed = _kept_bytes(stories, entry_id, "card.charx")
    return picture_in_charx(packed, card) if packed is not None else None


def _world(stories: StoryFiles, request: _Request) -> ExportFile:
    """Export a background with its outline as its file has it; its lorebook is exported separately."""
    exported = request.exported(dump_json(stories.background(request.entry_id).fields()))
    book = stories.beside("backgrounds", request.entry_id, "lorebook.json")
    return replace(exported, left_out=(stories.shown(book),) if book.exists() else ())


def _book(stories: StoryFiles, request: _Request) -> ExportFile:
    book = _kept_json(stories, request.kind, request.entry_id, "lorebook.json")
    if book is None:
        raise NotFound("no_lorebook", entry_id=f"{request.kind}/{request.entry_id}")
    if request.kind == "characters":
        name = stories.character(request.entry_id).name
    else:
        name = stories.background(request.entry_id).name
    if request.format == "lorebook":
        return request.exported(dump_json(with_name(book_as(book, "lorebook_v3", name), name)))
    made = with_name(book_as(book, "world_info", name), name)
    exported = request.exported(dump_json(made))
    stem = file_stem(str(made["name"]), request.entry_id)
    return replace(exported, name=f"{stem}.{_ENDINGS['world-info'][0]}")


def _kept_json(stories: StoryFiles, kind: Kind, entry_id: str, name: str) -> dict[str, Any] | None:
    path = stories.beside(kind, entry_id, name)
    if not path.exists():
        return None
    shown = stories.shown(path)
    try:
        return object_at(load_json(read_bytes(path, shown, MAX_CARD_BYTES)), name)
    except ValueError as error:
        raise StorageError("file_broken", file=shown, reason=as_reason(error)) from error


def _kept_bytes(stories: StoryFiles, entry_id: str, name: str) -> bytes | None:
    path = stories.beside("characters", entry_id, name)
    return read_bytes(path, stories.shown(path), MAX_CARRIER_BYTES) if path.exists() else None
