"""Lenient reading of values that another program wrote slightly off the format, and writing them back unchanged.

Only values with a single possible meaning are accepted; ``verify`` still lists them. A record that nobody
changes is written back in its original form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

from personalab.archive.veloca import KINDS, NORMAL, NOT_COMPACTED, Array, Record
from personalab.errors import BadRecord

_FIRST_MILLISECONDS, _LAST_MILLISECONDS = 10**11, 10**14
"""Between 1973 and 5138: a number there can only be milliseconds."""


def read_leniently(name: Array, data: object, where: str = "") -> Record:
    """Read a record that another program may have written; what cannot be understood is refused."""
    try:
        return KINDS[name].read(data, where)
    except BadRecord:
        meant = _meant(cast("dict[str, Any]", data)) if isinstance(data, dict) else {}
        if not meant:
            raise
        fields = cast("dict[str, Any]", data)
        record = KINDS[name].read({**fields, **meant}, where)
        return replace(record, came={key: fields.get(key) for key in meant})


def stored(record: Record) -> dict[str, Any]:
    """Return a record's JSON object as it is in the file: unchanged values keep their original form."""
    fields = record.fields()
    if record.came:
        meant = _meant({**fields, **record.came})
        fields.update({key: raw for key, raw in record.came.items() if meant.get(key) == fields[key]})
    return fields


def _meant(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the intended values of the fields that are not as the format has them."""
    read = {key: reader(data[key]) for key, reader in _READERS.items() if key in data}
    found = {key: value for key, value in read.items() if value is not None}
    if data.get("tools") == []:
        found["tools"] = None
    if "message" in data and data["message"] is None and data.get("tools"):
        found["message"] = ""
    return found


def _digits(value: object) -> int | None:
    is_number = isinstance(value, str) and len(value) <= 15 and value.isascii() and value.isdecimal()
    return int(cast("str", value)) if is_number else None


def _flag(default: int) -> Callable[[object], int | None]:
    return lambda value: default if value is None else _digits(value)


def _moment(value: object) -> str | None:
    """Read a time with a blank for its T, or one that is counted in milliseconds."""
    if isinstance(value, str) and value[10:11] == " ":
        return f"{value[:10]}T{value[11:]}"
    if isinstance(value, int | float) and _FIRST_MILLISECONDS <= value < _LAST_MILLISECONDS:
        return datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec="milliseconds")
    return None


_READERS: Mapping[str, Callable[[object], Any]] = {
    "token_consumption": _digits,
    "status": _flag(NORMAL),
    "is_compaction": _flag(NOT_COMPACTED),
    "create_at": _moment,
}
