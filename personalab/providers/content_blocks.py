"""Speech and reasoning in what providers send: fields of a delta, and blocks of a content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

Part = tuple[bool, str]
"""Whether it is reasoning, and the text."""

REASONING_FIELD = "reasoning_content"
_REASONING_FIELDS = (REASONING_FIELD, "reasoning", "reasoning_details")
"""Of these the first that holds text: some servers send the same text in two of them."""
_SPEECH_BLOCKS = frozenset({"text", "output_text"})
_REASONING_BLOCKS = frozenset({REASONING_FIELD, "reasoning_text", "reasoning", "thought", "thinking"})
_TEXT_KEYS = ("text", "summary", "content")
"""Where the text of a reasoning block is, if not under the name of its type."""


def field_reasoning(fields: Mapping[str, object]) -> str:
    """Return the reasoning in a delta or message, apart from its content."""
    return next((text for name in _REASONING_FIELDS if (text := _text_of(fields.get(name)))), "")


def content_parts(content: object) -> Iterator[Part]:
    """Yield the speech and the reasoning of a list of blocks in their order; blocks of other types are neither."""
    for block in cast("list[object]", content) if isinstance(content, list) else ():
        if isinstance(block, dict):
            fields = cast("Mapping[str, object]", block)
            kind = fields.get("type")
            if kind in _SPEECH_BLOCKS:
                yield False, _text_of(fields.get("text"))
            elif kind in _REASONING_BLOCKS:
                found = (_text_of(fields.get(name)) for name in (str(kind), *_TEXT_KEYS))
                yield True, next(filter(None, found), "")


def _text_of(value: object) -> str:
    """Return a text, that of an object, or those of a list joined."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(map(_text_of, cast("list[object]", value)))
    if isinstance(value, dict):
        fields = cast("Mapping[str, object]", value)
        return next((text for name in _TEXT_KEYS if isinstance(text := fields.get(name), str)), "")
    return ""
