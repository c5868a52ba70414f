"""JSON schemas of answers, built from the few parts that every provider can enforce.

Every object lists all its fields as required and allows no others, as OpenAI's strict mode demands. Patterns and
references are left out: llama.cpp and others do not enforce them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """The JSON schema that an answer has to fit; providers want a name with it."""

    name: str
    """ASCII letters, digits and underscores, at most 64."""
    schema: Mapping[str, Any]


def object_schema(**properties: Schema) -> Schema:
    """Describe an object with exactly these fields; a model writes them in this order."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def list_schema(items: Schema, *, at_least: int = 0, at_most: int | None = None) -> Schema:
    """Describe a list."""
    bounds = {"minItems": at_least or None, "maxItems": at_most}
    return {"type": "array", "items": items, **_given(bounds)}


def text_schema(*, at_least: int = 1, at_most: int | None = None) -> Schema:
    """Describe a text; the bounds are in characters and reach only providers that take them."""
    return {"type": "string", **_given({"minLength": at_least or None, "maxLength": at_most})}


def choice_schema(values: Iterable[str]) -> Schema:
    """Describe one of some words."""
    return {"type": "string", "enum": list(values)}


def whole_number_schema(allowed: Collection[int]) -> Schema:
    """Describe a whole number: one of those allowed, or one between them where they are too many to list."""
    numbers = sorted(set(allowed))
    if not numbers:
        return {"type": "integer"}
    low, high = numbers[0], numbers[-1]
    if len(numbers) == high - low + 1 or len(numbers) > _MAX_LISTED:
        return number_range_schema(low, high)
    return {"type": "integer", "enum": numbers}


def number_range_schema(low: int, high: int) -> Schema:
    """Describe a whole number from a range, which may be huge."""
    return {"type": "integer", "minimum": low, "maximum": high}


def share_schema() -> Schema:
    """Describe a number from 0 to 1 in steps of 0.05: llama.cpp enforces a list of numbers, but no bounds of them."""
    return {"type": "number", "enum": [step / 20 for step in range(21)]}


def any_schema(choices: list[Schema]) -> Schema:
    """Describe a value of one of some kinds; providers tell objects apart by the value of their first field."""
    return choices[0] if len(choices) == 1 else {"anyOf": choices}


_MAX_LISTED = 100
"""OpenAI takes 1,000 listed values in a whole schema."""


def _given(bounds: Mapping[str, int | None]) -> Schema:
    return {name: value for name, value in bounds.items() if value is not None}
