"""Validation of ids that become part of a path."""

from __future__ import annotations

import re

from personalab.errors import BadRecord, Reason, UserError

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", *(f"com{n}" for n in range(10)), *(f"lpt{n}" for n in range(10))]
)


def is_id(value: object) -> bool:
    """Return whether a value may be used as an id."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None and value.lower() not in _DEVICES


def check_id(value: object, what: str) -> str:
    """Return the id unchanged, or refuse it before any path is built from it."""
    text = check_given(value, what)
    if is_id(text):
        return text
    raise UserError("bad_id", what=what, value=text[:80])


def check_given(value: object, what: str) -> str:
    """Return the text that names something, or refuse a call that leaves it out or gives something else."""
    if value is None:
        raise UserError("id_missing", what=what)
    if not isinstance(value, str):
        raise BadRecord("field_wrong", field=what, reason=Reason("not_text"))
    return value
