"""Truncation and paging of the lab's data so that it fits into a result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from mcp_server.budget import RESULT_TOKENS, Budget, page_offset
from mcp_server.knowing import brief

T = TypeVar("T")
ROWS = 30
"""Maximum rows listed at once."""
LIST_TOKENS = RESULT_TOKENS - 1_000
META_TOKENS = 2_000
CONTENT_TOKENS = RESULT_TOKENS - META_TOKENS - 500
_SHARES = (1_500, 500, 200, 80, 30, 12)
"""What one text may cost at most, tried one after the other."""
_LONGEST_ID = 64
"""What may be an id or a folder's name is not cut: a part of it names nothing."""
_SURELY = 7
"""No character costs more tokens than this."""


def fit(data: T, budget: Budget, tokens: int = LIST_TOKENS) -> T:
    """Cut the texts of a JSON value, the longest first, until it costs no more; if all else fails, its lists."""
    shown, fits = _with_shorter_texts(data, budget, tokens)
    for most in () if fits else (20, 10, 5, 2, 1, 0):
        shown = _with_shorter_lists(shown, most)
        if _cost(shown, budget) <= tokens:
            break
    return cast("T", shown)


def _with_shorter_texts(data: Any, budget: Budget, tokens: int) -> tuple[Any, bool]:
    shown = data
    for share in _SHARES:
        if share < tokens:
            shown = _cut(data, budget, share)
            if _cost(shown, budget) <= tokens:
                return shown, True
    return shown, False


def _cost(data: Any, budget: Budget) -> int:
    return budget.counter.count(json.dumps(data, ensure_ascii=False))


def _cut(data: Any, budget: Budget, share: int) -> Any:
    if isinstance(data, str):
        is_short = len(data) * _SURELY <= share or _may_be_id(data)
        return data if is_short else brief(data, budget, share)
    if isinstance(data, Mapping):
        known = cast("Mapping[str, Any]", data)
        return {brief(name, budget, 40): _cut(value, budget, share) for name, value in known.items()}
    if isinstance(data, list | tuple):
        return [_cut(value, budget, share) for value in cast("Sequence[Any]", data)]
    return data


def _may_be_id(text: str) -> bool:
    return len(text) <= _LONGEST_ID and text.isascii() and text.isprintable()


def _with_shorter_lists(data: Any, most: int) -> Any:
    if isinstance(data, Mapping):
        known = cast("Mapping[str, Any]", data)
        return {name: _with_shorter_lists(value, most) for name, value in known.items()}
    if isinstance(data, list | tuple):
        return [_with_shorter_lists(value, most) for value in cast("Sequence[Any]", data)[:most]]
    return data


def page(
    rows: Sequence[Mapping[str, Any]], cursor: str | None, budget: Budget, tokens: int = LIST_TOKENS
) -> tuple[list[dict[str, Any]], str | None]:
    """Return some rows from a place on, as many as fit with their texts cut, and the cursor of the rest."""
    start = page_offset(cursor, max(len(rows), 1))
    count, some, shown, fits = ROWS, list[dict[str, Any]](), list[dict[str, Any]](), False
    while not fits and count:
        some = [dict(row) for row in rows[start : start + count]]
        shown, fits = _with_shorter_texts(some, budget, tokens)
        count //= 2
    following = start + len(some)
    return shown if fits else fit(shown, budget, tokens), str(following) if following < len(rows) else None


def page_text(text: str, cursor: str | None, budget: Budget, tokens: int) -> tuple[str, str | None]:
    """Return as much of a text from a place on as may be shown, and the cursor of the rest."""
    start = page_offset(cursor, max(len(text), 1))
    shown = budget.cut(text[start:], tokens)
    following = start + len(shown)
    return shown, str(following) if following < len(text) else None
