"""Errors and warnings as files and lists of results keep them: a code and plain parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from personalab.errors import Reason
from personalab.texts import TEXTS, Language, say
from personalab.texts.reasons import REASONS

MAX_ERROR = 300
"""How long the sentence of a failure may be."""


def plain_params(params: Mapping[str, object]) -> dict[str, str | int | float]:
    """Give an error's parameters as a file can keep them, texts no longer than a sentence.

    A reason of ours is kept as its English words, and beside them as its code and parameters.
    """
    found: dict[str, str | int | float] = {}
    for name, value in params.items():
        found[name] = value if isinstance(value, int | float) else str(value)[:MAX_ERROR]
        if isinstance(value, Reason):
            found[f"{name}_code"] = value.code
            found |= plain_params({f"{name}.{key}": part for key, part in value.params.items()})
    return found


def restored_params(params: Mapping[str, Any]) -> dict[str, object]:
    """Give the parameters that ``plain_params`` kept, reasons as what they were."""
    found: dict[str, object] = {name: value for name, value in params.items() if "." not in name}
    for name in params:
        code = str(params.get(f"{name}_code", ""))
        if code in REASONS:
            prefix = f"{name}."
            parts = {key.removeprefix(prefix): part for key, part in params.items() if key.startswith(prefix)}
            found[name] = Reason(code, **parts)
    return found


def warning_text(warning: Mapping[str, Any], language: Language) -> str:
    """Say a warning by its code; the rest of it are its parameters."""
    code = str(warning.get("code", ""))
    params = {name: value for name, value in warning.items() if name != "code"}
    return say(code, language, **restored_params(params)) if code in TEXTS else code
