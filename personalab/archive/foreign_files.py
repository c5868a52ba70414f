"""Files of other programs: size limits, JSON, format detection, and names for what they contain.

Every reader in this package refuses with ``BadRecord``, which names the field to correct. The format is
recognized by the first bytes and, for JSON, by the fields, independent of the file's name. Files that cannot be
imported are refused with a description of what they look like.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import unicodedata
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, BinaryIO, Literal, NoReturn, cast

from personalab.errors import BadRecord, Invalid, Reason, json_reason
from personalab.story.records import is_id

MAX_CARD_BYTES = 16 * 1024 * 1024
"""A card's or a lorebook's JSON is not longer."""
MAX_CARRIER_BYTES = 64 * 1024 * 1024
"""A picture or an archive that carries a card is not larger."""
MAX_DEPTH = 64
"""JSON is not nested deeper: whatever walks it may recurse."""
_BOM = b"\xef\xbb\xbf"
_STRETCH = 256 * 1024


def load_json(raw: bytes | bytearray | memoryview, *, limit: int = MAX_CARD_BYTES) -> object:
    """Read JSON in UTF-8, with or without a byte order mark: no longer than the limit, not nested too deeply."""
    if len(raw) > limit:
        raise BadRecord("too_large", actual=len(raw), limit=limit)
    raw = bytes(raw)
    _check_parts(raw)
    try:
        text = raw.removeprefix(_BOM).decode("utf-8")
        value: object = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError as error:
        raise BadRecord("too_deep", limit=MAX_DEPTH) from error
    except UnicodeDecodeError as error:
        raise BadRecord("not_utf8", place=error.start) from error
    except ValueError as error:
        raise BadRecord("not_json", reason=json_reason(error)) from error
    check_depth(value)
    return value


def _check_parts(raw: bytes) -> None:
    """Refuse JSON of almost nothing but brackets or commas: a small file would fill the memory.

    What stands inside texts does not count; it is looked at only where there is much of it.
    """
    most = (300_000 + len(raw) // 32, 1_000_000 + len(raw) // 16)
    counts = _counted(raw)
    if counts[0] > most[0] or counts[1] > most[1]:
        counts = _counted_outside(raw.replace(b"\\\\", b"").replace(b'\\"', b""))
    if counts[0] > most[0] or counts[1] > most[1]:
        raise BadRecord("too_many_parts", actual=sum(counts))


def _counted(raw: bytes) -> tuple[int, int]:
    return raw.count(b"{") + raw.count(b"["), raw.count(b",")


def _counted_outside(raw: bytes) -> tuple[int, int]:
    """Count brackets and commas outside of texts, stretch by stretch."""
    brackets = commas = inside = 0
    for start in range(0, len(raw), _STRETCH):
        pieces = raw[start : start + _STRETCH].split(b'"')
        found = _counted(b"".join(pieces[inside::2]))
        brackets, commas = brackets + found[0], commas + found[1]
        inside = (inside + len(pieces) - 1) % 2
    return brackets, commas


def _refuse(word: str) -> NoReturn:
    raise Invalid("not_json_number", word=word)


def _finite(digits: str) -> float:
    """Take a number that can be written again: ``1e999`` would come out as a word that is no JSON."""
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits[:40])


def check_depth(value: object, limit: int = MAX_DEPTH) -> None:
    """Refuse a value that is nested deeper than the limit, without recursion."""
    layer: list[object] = [value]
    for _ in range(limit):
        layer = [part for found in layer for part in _parts(found)]
        if not layer:
            return
    raise BadRecord("too_deep", limit=limit)


def _parts(value: object) -> list[object]:
    if isinstance(value, dict):
        inner = list(cast("dict[str, object]", value).values())
    elif isinstance(value, list):
        inner = cast("list[object]", value)
    else:
        return []
    return [cast("object", part) for part in inner if isinstance(part, dict | list)]


# --- fields: ``where`` names the object as a person finds it in the file, e.g. ``data.`` or ``entries[3].``


def object_at(data: object, where: str) -> dict[str, Any]:
    """Take a value as an object."""
    if not isinstance(data, dict):
        raise BadRecord("field_wrong", field=where, reason=Reason("not_object"))
    return cast("dict[str, Any]", data)


def list_at(data: object, where: str) -> list[Any]:
    """Take a value as a list."""
    if not isinstance(data, list):
        raise BadRecord("field_wrong", field=where, reason=Reason("not_list"))
    return cast("list[Any]", data)


def text_at(data: Mapping[str, Any], name: str, where: str = "", default: str | None = "") -> str:
    """Take a text field; one that is missing (or null, where there is a default) has the default."""
    value = data.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise BadRecord("field_wrong", field=f"{where}{name}", reason=Reason("not_text"))
    return value


# --- format detection


Format = Literal["card_png", "charx", "card_json", "lorebook", "world_info", "background", "veloca", "chat"]

MAX_RECORD_BYTES = 256 * 1024 * 1024
"""A chat or a Veloca file is not larger."""

_HEAD_BYTES = 4096
_PNG = b"\x89PNG\r\n\x1a\n"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
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


# --- ids and file names


MAX_ID = 64
_LONGEST = 48
"""A slug leaves room for a number behind it."""
_LEAST = 2
"""Minimum letters of a name that make an id."""
_APART = re.compile(r"[^a-z0-9]+")
_ENDINGS = re.compile(r"\.(?:world-info|lorebook|background)$", re.IGNORECASE)
"""What our own files have before their last ending."""
_LONGEST_STEM = 180
"""Bytes; file systems allow 255, and an ending and a number come behind it."""
_FORBIDDEN = dict.fromkeys('/\\:*?"<>|', "_")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
"""Device names on Windows, whatever their ending."""


def id_for(prefix: str, name: str) -> str:
    """Make an id of a name by its Latin letters, or else by its digest: the same in whatever file it comes."""
    found = _slug(name)
    if is_id(found):
        return found
    if found and is_id(f"{prefix}_{found}"):
        return f"{prefix}_{found}"
    return id_of_bytes(prefix, name.encode("utf-8", "surrogatepass"))


def id_of_bytes(prefix: str, content: bytes) -> str:
    """Make an id of what has no name at all."""
    return f"{prefix}_{hashlib.blake2b(content, digest_size=4).hexdigest()}"


def called_by_file(name: str) -> str:
    """Return the name that a file's name gives to its content."""
    return _ENDINGS.sub("", PurePath(name).stem)


def file_stem(name: str, fallback: str) -> str:
    """Return a name as a file may be called on any system, as close to it as can be; ``fallback`` if nothing is left.

    SillyTavern takes a World Info's file name as the book's name, so letters of any language and spaces stay.
    """
    plain = "".join(_FORBIDDEN.get(letter, letter) for letter in name if letter.isprintable())
    cut = plain.encode("utf-8", "ignore")[:_LONGEST_STEM].decode("utf-8", "ignore")
    stem = cut.strip().strip(".").strip()
    return f"_{stem}" if _RESERVED.fullmatch(stem) else stem or fallback


def _slug(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii").lower()
    found = _APART.sub("_", plain.replace("'", "")).strip("_")[:_LONGEST].strip("_")
    return found if len(found) >= _LEAST else ""


def numbered(entry_id: str) -> Iterator[str]:
    """Yield an id and then the same with a number, from 2 on, as short as an id has to be."""
    yield entry_id
    number = 2
    while True:
        tail = f"_{number}"
        yield entry_id[: MAX_ID - len(tail)] + tail
        number += 1
