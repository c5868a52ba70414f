"""Errors and warnings as stored in files and results: a code and plain parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from personalab.errors import PersonaLabError, Reason
from personalab.texts import FALLBACK, REASONS, TEXTS, Language, say
from personalab.texts.actions import rendering_for

MAX_ERROR = 300
"""How long the sentence of a failure may be."""

_CODES = {text: code for code, text in REASONS.templates(FALLBACK).items() if "{" not in text} | {
    "it is no account of a call": "no_call_record",
    "it is no name of a file": "no_file_name",
    "it may not be read": "unreadable",
    "it is not there, or may not be run": "not_runnable",
    "it does not tell its version": "no_version",
    "it is not of the form provider:model": "not_provider_model",
    "it is beyond all times": "time_out_of_range",
    "it is cut off": "cut_off",
    "it is there twice": "twice_in_archive",
    "no line of it can be read": "no_readable_line",
}
"""The reasons without parameters by their English words: older files have no code beside them."""


def plain_params(params: Mapping[str, object]) -> dict[str, str | int | float]:
    """Return an error's parameters as a file can keep them, texts no longer than a sentence.

    A reason of ours is kept as its English words, and beside them as its code (``reason_code``; ``reason_error`` if it
    is an error) and its parameters (``reason.limit``).
    """
    found: dict[str, str | int | float] = {}
    for name, value in params.items():
        with rendering_for("terminal"):  # a file is the same from every entrance
            found[name] = value if isinstance(value, int | float) else str(value)[:MAX_ERROR]
        if isinstance(value, Reason | PersonaLabError):
            found[f"{name}_code" if isinstance(value, Reason) else f"{name}_error"] = value.code
            found |= plain_params({f"{name}.{key}": part for key, part in value.params.items()})
    return found


def restored_params(params: Mapping[str, Any]) -> dict[str, object]:
    """Return the parameters that ``plain_params`` kept, reasons as what they were."""
    found: dict[str, object] = {name: value for name, value in params.items() if "." not in name}
    for name, value in [*found.items()]:
        prefix = f"{name}."
        parts = {key.removeprefix(prefix): part for key, part in params.items() if key.startswith(prefix)}
        if (code := str(params.get(f"{name}_code"))) in REASONS:
            found[name] = Reason(code, **restored_params(parts))
            found.pop(f"{name}_code", None)
        elif (code := str(params.get(f"{name}_error"))) in TEXTS:
            found[name] = PersonaLabError(code, **restored_params(parts))
            found.pop(f"{name}_error", None)
        elif name == "reason" and isinstance(value, str) and value in _CODES:
            found[name] = Reason(_CODES[value])
    return found


def warning_text(warning: Mapping[str, Any], language: Language) -> str:
    """Return a warning's text by its code; its other fields are parameters."""
    code = str(warning.get("code", ""))
    params = {name: value for name, value in warning.items() if name != "code"}
    return say(code, language, **restored_params(params)) if code in TEXTS else code
