"""JSON loading with limits for files from other programs, and error messages that name the wrong field.

Every reader in this package refuses with ``BadRecord`` and one of these codes, so that a person knows which
field of which file to correct.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn, cast

from personalab.errors import BadRecord, Invalid, Reason, json_reason

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
