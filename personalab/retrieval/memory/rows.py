"""Reading of database rows as records, with unreadable rows reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from personalab.errors import Because, as_reason
from personalab.memory.pipeline import has_succeeded
from personalab.memory.records import Conversation

Row = tuple[Any, ...]
Table = Literal["memory_contents", "conversations", "memory_changes"]
_Record = TypeVar("_Record")
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Broken:
    """A row that cannot be read."""

    table: Table
    row_id: str
    reason: Because


def readable(
    rows: Iterable[Row], read: Callable[[Row], _Record], table: Table, broken: list[Broken]
) -> list[_Record]:
    """Read rows, the first column being their id; those that cannot be read are noted."""
    records: list[_Record] = []
    for row in rows:
        try:
            records.append(read(row))
        except _UNREADABLE as error:
            broken.append(Broken(table, str(row[0]), as_reason(error)))
    return records


def waits_for(conversation: Conversation) -> str | None:
    """Name the story that has not learned from a conversation of its own."""
    if conversation.story is None or has_succeeded(conversation.pipeline_result):
        return None
    return conversation.story.instance_id
