"""Validation of tool arguments, with error messages that a model or a person can act on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata
from pydantic import ValidationError

from mcp_server.results import all_well_formed
from mcp_server.schemas import without_blanks
from mcp_server.texts import tell
from personalab.i18n import ABOUT
from personalab.texts import Language


class PlainArguments(FuncMetadata):
    """Arguments as a host meant them.

    Some hosts send lists and objects as JSON in a string; these are read, and texts stay texts: the SDK parses
    everything that is not a plain string, and would take the words "null" for nothing. Some hosts send every optional
    argument; null and the empty text mean that it was left out.
    """

    rules: dict[str, Any]
    """The tool's JSON schema."""

    def pre_parse_json(self, data: dict[str, Any]) -> dict[str, Any]:
        """Read JSON in a string where no text can be meant, and drop optional arguments that are blank."""
        fields = self.arg_model.model_fields
        texts = [name for name in data if name in fields and _takes_text(fields[name].annotation)]
        read = super().pre_parse_json({name: value for name, value in data.items() if name not in texts})
        given = {name: data[name] if name in texts else read[name] for name in data}
        return all_well_formed(without_blanks(given, self.rules))


def _takes_text(annotation: object) -> bool:
    """Return whether an argument accepts text: ``str``, or one arm of a union."""
    return annotation is str or str in get_args(annotation) or _has_words(annotation)


def _has_words(annotation: object) -> bool:
    """Return whether an argument is a choice of words."""
    return any(get_origin(arm) is Literal for arm in (annotation, *get_args(annotation)))


_SHOWN = 5
"""Maximum number of faults named; more would not help."""


def unknown_arguments(given: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """Find arguments that the tool does not have."""
    known = schema.get("properties", {})
    return [name for name in given if name not in known]


def word_unknown(unknown: Sequence[str], schema: Mapping[str, Any], language: Language) -> str:
    """Name arguments that the tool does not have, and those it has."""
    shown = ", ".join(f"`{name[:40]}`" for name in unknown[:_SHOWN])
    return _whole([tell("unknown_argument", language, names=shown)], schema, language)


def word_faults(error: ValidationError, schema: Mapping[str, Any], language: Language) -> str:
    """Describe what is wrong with each unusable argument, and what the tool accepts."""
    rows: list[str] = []
    for fault in error.errors(include_url=False, include_input=False)[:_SHOWN]:
        place = ".".join(str(part)[:40] for part in fault["loc"] if not _is_internal(part)) or "?"
        known = f"fault.{fault['type']}"
        said = tell(known, language, **_words(fault.get("ctx", {}))) or fault["msg"]
        rows.append(tell("fault", language, name=place, fault=said))
    return _whole(rows, schema, language)


def _words(context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a fault; pydantic lists choices in English."""
    joined = {"expected": str(context["expected"]).replace(" or ", ", ")} if "expected" in context else {}
    return {**context, **joined}


def word_missing(name: str, schema: Mapping[str, Any], language: Language) -> str:
    """Name an argument that is missing."""
    fault = tell("fault.missing", language)
    return _whole([tell("fault", language, name=name, fault=fault)], schema, language)


def _whole(rows: Sequence[str], schema: Mapping[str, Any], language: Language) -> str:
    faults = ABOUT.say("semicolon", language).join(dict.fromkeys(rows))
    return tell("faults", language, faults=faults, takes=signature(schema, language))


def _is_internal(part: object) -> bool:
    """Return whether a part of an error's location names an arm of a union rather than a field."""
    return isinstance(part, str) and (part in ("str", "int", "bool", "none") or "[" in part)


def signature(schema: Mapping[str, Any], language: Language) -> str:
    """List what a tool takes."""
    needed = schema.get("required", [])
    names = [name if name in needed else f"{name}?" for name in schema.get("properties", {})]
    return tell("takes", language, names=", ".join(names) if names else "–")
