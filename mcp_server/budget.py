"""The token budget of a result, and the text that fits into it.

A host passes a tool's result to its model whole or truncates it somewhere; Claude Code's limit is 25,000
tokens. A result carries its words twice, as text and as structured content, because some hosts read only one
of the two. Tokens are counted for the text in its JSON form, escapes included, with the vocabulary that needs
the most tokens for non-Latin scripts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from personalab.errors import UserError
from personalab.ports import TokenCounter

RESULT_TOKENS = 9_000
"""What one copy of a result may cost."""
VOCABULARY = "gpt-4"
"""A model whose vocabulary (cl100k_base) is dear."""
FIRST = "0:0"
"""The cursor of the first part."""
MESSAGE_TOKENS = 20
"""What a message costs beside its text."""
_SURELY = RESULT_TOKENS // 7
"""A text of so few characters fits: none costs more than its escape, six characters, or its four bytes."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Counts what texts cost and cuts those that cost too much."""

    counter: TokenCounter

    def cost(self, text: str) -> int:
        """Count a text's tokens as JSON carries it."""
        return self.counter.count(json.dumps(text, ensure_ascii=False)[1:-1])

    def cut(self, text: str, tokens: int = RESULT_TOKENS) -> str:
        """Return as much of a text's beginning as costs no more; at least one character, so that pages end."""
        if len(text) <= 1 or (tokens >= RESULT_TOKENS and len(text) <= _SURELY):
            return text
        tokens = max(tokens, 1)
        length = min(len(text), tokens * 8)
        while length > 1:
            used = self.cost(text[:length])
            if used <= tokens:
                break
            length = max(1, min(length - 1, length * tokens // used))
        return text[: _whole(text, length)]

    def cut_from_end(self, text: str, tokens: int) -> str:
        """Return as much of a text's end as costs no more."""
        return self.cut(text[::-1], tokens)[::-1]


def _whole(text: str, length: int) -> int:
    """Step back from between the halves of a line end, or of a pair of code points that belong together."""
    if 1 < length < len(text) and text[length] in "\u200d\ufe0f\u0301":
        return length - 1
    return length


def page_offset(cursor: str | None, length: int) -> int:
    """Read a cursor that counts characters."""
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 9 and int(cursor) < length):
        raise UserError("bad_cursor", value=cursor[:80])
    return int(cursor)


_PLACE = re.compile(r"(\d{1,9}):(\d{1,9})", re.ASCII)


def page_of(
    parts: Sequence[Mapping[str, Any]], cursor: str | None, budget: Budget
) -> tuple[list[dict[str, Any]], str | None]:
    """Return messages from a place on, as many as a result may carry, and the cursor of the rest."""
    index, start = _place(parts, cursor)
    shown: list[dict[str, Any]] = []
    left = RESULT_TOKENS
    for number in range(index, len(parts)):
        rest = str(parts[number]["content"])[start:]
        text = budget.cut(rest, left)
        shown.append({**parts[number], "content": text})
        left -= budget.cost(text) + MESSAGE_TOKENS
        if len(text) < len(rest):
            return shown, f"{number}:{start + len(text)}"
        start = 0
        if left < MESSAGE_TOKENS and number + 1 < len(parts):
            return shown, f"{number + 1}:0"
    return shown, None


def _place(parts: Sequence[Mapping[str, Any]], cursor: str | None) -> tuple[int, int]:
    if cursor is None or (cursor == FIRST and not parts):
        return 0, 0
    found = _PLACE.fullmatch(cursor)
    index, start = (int(found[1]), int(found[2])) if found else (-1, 0)
    if not 0 <= index < len(parts) or not (start == 0 or start < len(str(parts[index]["content"]))):
        raise UserError("bad_cursor", value=cursor[:80])
    return index, start
