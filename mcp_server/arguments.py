"""What is wrong with a call's arguments, in words a model or a person can act on?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from mcp_server.texts import tell
from personalab.texts import Language

_SHOWN = 5
"""So many faults are named; more help nobody."""


def unknown_arguments(given: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """Find arguments that the tool does not have."""
    known = schema.get("properties", {})
    return [name for name in given if name not in known]


def word_unknown(unknown: Sequence[str], schema: Mapping[str, Any], language: Language) -> str:
    """Name arguments that the tool does not have, and those it has."""
    shown = ", ".join(f"`{name[:40]}`" for name in unknown[:_SHOWN])
    return _whole([tell("unknown_argument", language, names=shown)], schema, language)


def word_faults(error: ValidationError, schema: Mapping[str, Any], language: Language) -> str:
    """Say of each argument that cannot be used what is wrong with it, and what the tool takes."""
    rows: list[str] = []
    for fault in error.errors(include_url=False, include_input=False)[:_SHOWN]:
        place = ".".join(str(part)[:40] for part in fault["loc"] if not _is_internal(part)) or "?"
        known = f"fault.{fault['type']}"
        said = tell(known, language, **fault.get("ctx", {})) or fault["msg"]
        rows.append(tell("fault", language, name=place, fault=said))
    return _whole(rows, schema, language)


def word_missing(name: str, schema: Mapping[str, Any], language: Language) -> str:
    """Name an argument that is missing."""
    fault = tell("fault.missing", language)
    return _whole([tell("fault", language, name=name, fault=fault)], schema, language)


def _whole(rows: Sequence[str], schema: Mapping[str, Any], language: Language) -> str:
    faults = ("；" if language == "zh" else "; ").join(dict.fromkeys(rows))
    return tell("faults", language, faults=faults, takes=signature(schema, language))


def _is_internal(part: object) -> bool:
    """Tell whether a part of a place names an arm of a union rather than a field."""
    return isinstance(part, str) and (part in ("str", "int", "bool", "none") or "[" in part)


def signature(schema: Mapping[str, Any], language: Language) -> str:
    """List what a tool takes."""
    needed = schema.get("required", [])
    names = [name if name in needed else f"{name}?" for name in schema.get("properties", {})]
    return tell("takes", language, names=", ".join(names) if names else "–")
