"""Batches limited by the number of items and by their characters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def batches_of(
    items: Sequence[T], length: Callable[[T], int], *, items_at_most: int, characters_at_most: int
) -> Iterator[Sequence[T]]:
    """Cut a list into batches; an item that is too long for a batch gets one of its own."""
    start = characters = 0
    for at, item in enumerate(items):
        characters += length(item)
        if at > start and (at - start == items_at_most or characters > characters_at_most):
            yield items[start:at]
            start, characters = at, length(item)
    if start < len(items):
        yield items[start:]
