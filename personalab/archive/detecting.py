"""Format detection for imported files, independent of their names.

The format is recognized by the first bytes and, for JSON, by the fields. Files that cannot be imported are
refused with a description of what they look like.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from typing import Any, BinaryIO, Literal, cast

from personalab.archive.loading import MAX_CARD_BYTES, MAX_CARRIER_BYTES, load_json
from personalab.errors import BadRecord, Reason

Format = Literal["card_png", "charx", "card_json", "lorebook", "world_info", "background", "veloca", "chat"]

MAX_RECORD_BYTES = 256 * 1024 * 1024
"""A chat or a Veloca file is not larger."""

_HEAD_BYTES = 4096
_PNG = b"\x89PNG\r\n\x1a\n"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_BOM = b"\xef\xbb\xbf"
_LOOKS: tuple[tuple[bytes, Reason], ...] = (
    (b"\xff\xd8\xff", Reason("looks_picture", kind="JPEG")),
    (b"GIF8", Reason("looks_picture", kind="GIF")),
    (b"BM", Reason("looks_picture", kind="BMP")),
    (b"%PDF", Reason("looks_pdf")),
    (b"\x1f\x8b", Reason("looks_archive", kind="gzip")),
    (b"7z\xbc\xaf\x27\x1c", Reason("looks_archive", kind="7z")),
    (b"Rar!", Reason("looks_archive", kind="RAR")),
    (b"SQLite format 3\x00", Reason("looks_sqlite")),
    (b"\xff\xfe", Reason("looks_utf16")),
    (b"\xfe\xff", Reason("looks_utf16")),
)
"""How files begin that people mistake for what we read."""
_CARD_FIELDS = frozenset(("description", "personality", "scenario", "first_mes", "mes_example"))
_CHAT_FIELDS = frozenset(("mes", "chat_metadata", "character_name"))
_AGNAI_FIELDS = frozenset(("persona", "greeting", "sampleChat"))
_AGNAI_CHAT = Reason("looks_agnai_chat")
_AGNAI_CHARACTER = Reason("looks_agnai_character")
_AGNAI_BOOK = Reason("looks_book", program="Agnai", kind="an Agnai memory book")
_NOVELAI_BOOK = Reason("looks_book", program="NovelAI", kind="a NovelAI lorebook")
_RISU_BOOK = Reason("looks_book", program="RisuAI", kind="a RisuAI lorebook")
_VELOCA_FIELDS = ("sessions", "compacted_dialogues")
_VELOCA_MARKS = (b'"sessions"', b'"session_id"', b'"entry_id"', b'"compacted_dialogues"')
_LONG_HEAD_BYTES = 64 * 1024
_BLANK_LINES = 100
_SHOWN_FIELDS = 6
_SHOWN_NAME = 40


def detect(name: str, file: BinaryIO, size: int) -> Format:
    """Return a file's format by its content; ``name`` is shown in errors. The file's position is moved."""
    if size == 0:
        raise BadRecord("file_empty")
    if size > MAX_RECORD_BYTES:
        raise BadRecord("too_large", actual=size, limit=MAX_RECORD_BYTES)
    file.seek(0)
    head = file.read(_HEAD_BYTES)
    if head.startswith(_PNG):
        return _carried("card_png", size)
    if head.startswith(_ZIP) or (not _is_json_like(head) and zipfile.is_zipfile(file)):
        return _carried("charx", size)
    if looks := _looks(head):
        raise BadRecord("format_unknown", name=name, reason=looks)
    return _of_text(name, file, size)


def _carried(found: Format, size: int) -> Format:
    if size > MAX_CARRIER_BYTES:
        raise BadRecord("too_large", actual=size, limit=MAX_CARRIER_BYTES)
    return found


def _is_json_like(head: bytes) -> bool:
    return head.removeprefix(_BOM).lstrip().startswith((b"{", b"["))


def _looks(head: bytes) -> Reason | None:
    """Name a well-known kind of file; nothing for what may be JSON."""
    if _is_json_like(head):
        return None
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return Reason("looks_picture", kind="WebP")
    for beginning, looks in _LOOKS:
        if head.startswith(beginning):
            return looks
    if not head.removeprefix(_BOM).strip():
        return Reason("looks_blank")
    return Reason("looks_binary" if b"\x00" in head else "looks_text")


def _of_text(name: str, file: BinaryIO, size: int) -> Format:
    """Return the format of a JSON file; one too long to be a card or a lorebook is not parsed for that."""
    file.seek(0)
    if size > MAX_CARD_BYTES:
        return _of_long_text(name, file, size)
    try:
        value = load_json(file.read(MAX_CARD_BYTES + 1))
    except BadRecord as error:
        first = _first_line(file) if error.code == "not_json" else None
        if first is None:
            raise
        return _of_first_line(name, first)
    return _of_value(name, value)


def _of_long_text(name: str, file: BinaryIO, size: int) -> Format:
    if (first := _first_line(file)) is not None:
        return _of_first_line(name, first)
    file.seek(0)
    beginning = file.read(_LONG_HEAD_BYTES)
    if any(field in beginning for field in _VELOCA_MARKS):
        return "veloca"
    raise BadRecord("too_large", actual=size, limit=MAX_CARD_BYTES)


def _first_line(file: BinaryIO) -> object | None:
    """Read the first line that is not blank, if it is a complete JSON value."""
    file.seek(0)
    for number in range(_BLANK_LINES):
        line = file.readline(MAX_CARD_BYTES + 1)
        line = line.removeprefix(_BOM) if number == 0 else line
        if line.strip():
            try:
                return load_json(line)
            except BadRecord as error:
                if error.code == "too_deep":
                    raise
                return None
    return None


def _of_first_line(name: str, value: object) -> Format:
    """Recognize a chat by its first line: of all supported formats, only chats have one JSON value per line."""
    if _of_value(name, value) != "chat":
        raise BadRecord("format_unknown", name=name, reason=Reason("holds_several"))
    return "chat"


def _of_value(name: str, value: object) -> Format:
    if not isinstance(value, dict):
        holds = Reason("holds_list" if isinstance(value, list) else "holds_value")
        raise BadRecord("format_unknown", name=name, reason=holds)
    data = cast("dict[str, Any]", value)
    if found := _by_spec(data):
        return found
    if looks := _of_another_program(data):
        raise BadRecord("format_unknown", name=name, reason=looks)
    if found := _by_fields(data):
        return found
    names = ", ".join(field[:_SHOWN_NAME] for field in list(data)[:_SHOWN_FIELDS])
    raise BadRecord("format_unknown", name=name, reason=Reason("fields_are", names=names or "-"))


def _by_spec(data: Mapping[str, Any]) -> Format | None:
    spec = data.get("spec")
    if not isinstance(spec, str):
        return None
    if spec.startswith("chara_card"):
        return "card_json"
    return "lorebook" if spec.startswith("lorebook") else None


def _of_another_program(data: Mapping[str, Any]) -> Reason | None:
    """Name a file that others write and that would lose what it says if it were read as one of ours."""
    kind, persona = data.get("kind"), data.get("persona")
    if isinstance(data.get("messages"), list) and not _CHAT_FIELDS & data.keys():
        return _AGNAI_CHAT
    is_agnai = kind == "character" and not _AGNAI_FIELDS.isdisjoint(data)
    if (is_agnai or isinstance(persona, dict)) and "first_mes" not in data:
        return _AGNAI_CHARACTER
    if kind == "memory" and isinstance(data.get("entries"), list):
        return _AGNAI_BOOK
    if "lorebookVersion" in data:
        return _NOVELAI_BOOK
    return _RISU_BOOK if data.get("type") == "risu" and isinstance(data.get("data"), list) else None


def _by_fields(data: Mapping[str, Any]) -> Format | None:
    if any(isinstance(data.get(field), list) for field in _VELOCA_FIELDS):
        return "veloca"
    if not _CHAT_FIELDS.isdisjoint(data):
        return "chat"
    if "world_setting" in data and data.keys().isdisjoint(("entries", "first_mes")):
        return "background"
    inner = data.get("data")
    if isinstance(inner, dict) and "name" in inner:
        return "card_json"
    # A lorebook may have a name and a description, too; a card has no entries.
    if "name" in data and not _CARD_FIELDS.isdisjoint(data) and "entries" not in data:
        return "card_json"
    match data.get("entries"):
        case dict():
            return "world_info"
        case list():
            return "lorebook"
        case _:
            return None
