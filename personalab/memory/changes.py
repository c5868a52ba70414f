"""Changes of a memory, and their undo.

A model or a person gives operations; code applies them. Every change is stored with the previous content, so
that a fact that was replaced stays in the history and the change can be undone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

from personalab.errors import BadRecord, Invalid, Reason
from personalab.memory.records import ContentType, EntrySource, Memory, MemoryEntry, new_id

Verb = Literal["add", "replace", "remove"]
VERBS: tuple[Verb, ...] = get_args(Verb)
Origin = Literal["memorize", "edit", "undo"]
MAX_SOURCES = 50
"""Maximum conversations kept as an entry's sources; the newest are kept."""

_NOT_WORDS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Operation:
    """One wish: to add, replace or remove an entry, with its reason and the messages it comes from."""

    verb: Verb
    content_type: ContentType
    text: str = ""
    content_id: str = ""
    """The entry to replace or remove."""
    reason: str = ""
    messages: tuple[int, ...] = ()

    def fields(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {
            "op": self.verb,
            "type": self.content_type,
            "text": self.text,
            "content_id": self.content_id,
            "reason": self.reason,
            "messages": list(self.messages),
        }

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Operation:
        """Read back what ``fields`` gave."""
        texts = (data["text"], data["content_id"], data["reason"])
        return cls(data["op"], data["type"], *texts, tuple(data["messages"]))


@dataclass(frozen=True, slots=True)
class Step:
    """What one operation did: the entry before and after it; a fact that was said again only gains a source."""

    before: MemoryEntry | None
    after: MemoryEntry | None
    reason: str = ""

    @property
    def entry(self) -> MemoryEntry:
        """The entry it is about, as it is afterwards or was before."""
        found = self.after or self.before
        if found is None:
            raise Invalid("step_without_entries")
        return found

    @property
    def verb(self) -> Literal["add", "replace", "remove", "cite"]:
        """What was done."""
        if self.before is None:
            return "add"
        if self.after is None:
            return "remove"
        return "cite" if self.before.text == self.after.text else "replace"

    def fields(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {
            "verb": self.verb,
            "before": self.before.fields() if self.before else None,
            "after": self.after.fields() if self.after else None,
            "reason": self.reason,
        }

    @classmethod
    def read(cls, data: object) -> Step:
        """Read it from its JSON value."""
        if not isinstance(data, dict):
            raise BadRecord("bad_record", field="step", reason=Reason("not_object"))
        found = cast("dict[str, Any]", data)
        before, after = found.get("before"), found.get("after")
        return cls(
            MemoryEntry.read(before) if before else None,
            MemoryEntry.read(after) if after else None,
            str(found.get("reason", "")),
        )


def step_summary(step: Mapping[str, Any]) -> dict[str, Any]:
    """Return a step's JSON object with the words before and after instead of the whole entries."""
    before, after = step.get("before"), step.get("after")
    entry: Mapping[str, Any] = after or before or {}
    return {
        "verb": step["verb"],
        "content_id": entry.get("content_id", ""),
        "content_type": entry.get("content_type", ""),
        "before": before["text"] if before else None,
        "after": after["text"] if after else None,
        "reason": str(step.get("reason", "")),
    }


@dataclass(frozen=True, slots=True)
class Change:
    """Steps that were taken together; ``version`` is the memory's after them."""

    change_id: str
    memory_id: str
    version: int
    at: str
    origin: Origin
    steps: tuple[Step, ...]
    conversation_id: str | None = None
    undoes: str | None = None
    """The change that this one takes back."""

    def fields(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {
            "change_id": self.change_id,
            "memory_id": self.memory_id,
            "version": self.version,
            "at": self.at,
            "origin": self.origin,
            "conversation_id": self.conversation_id,
            "undoes": self.undoes,
            "steps": [step.fields() for step in self.steps],
        }


@dataclass(frozen=True, slots=True)
class MemoryRevision:
    """A memory after a change; without a change nothing was new."""

    memory: Memory
    change: Change | None


def same_words(text: str) -> str:
    """Fold a text so that the same fact said again is known: case, width, spaces and punctuation don't count."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return _NOT_WORDS.sub("", folded) or folded.strip()


def revise(
    memory: Memory,
    operations: Iterable[Operation],
    now: str,
    *,
    origin: Origin,
    conversation_id: str | None = None,
) -> MemoryRevision:
    """Apply operations; the same fact is not stored twice, and one about an entry that is gone is passed over."""
    work = _RevisionBuilder(memory, now, conversation_id)
    for operation in operations:
        work.do(operation)
    return work.revised(origin)


def undo(memory: Memory, change: Change, now: str) -> MemoryRevision:
    """Undo a change, as far as its effects still exist."""
    work = _RevisionBuilder(memory, now, None)
    for step in reversed(change.steps):
        work.undo_step(step)
    return work.revised("undo", undoes=change.change_id)


class _RevisionBuilder:
    """A memory while it is being changed."""

    def __init__(self, memory: Memory, now: str, conversation_id: str | None) -> None:
        self._memory = memory
        self._entries = {entry.content_id: entry for entry in memory.entries}
        self._now = now
        self._conversation_id = conversation_id
        self._steps: list[Step] = []
        self._words: dict[tuple[ContentType, str], str] | None = None

    def do(self, operation: Operation) -> None:
        old = self._entries.get(operation.content_id) if operation.content_id else None
        match operation.verb:
            case "remove":
                if old is not None:
                    self._set(old, None, operation.reason)
            case "replace":
                # What someone removed meanwhile does not come back in other words.
                if old is not None:
                    self._replace(old, operation)
            case "add":
                self._add(operation)

    def _add(self, operation: Operation) -> None:
        known = self._same(operation)
        if known is not None:
            self._cite(known, operation)
            return
        sources = self._sources((), operation.messages)
        place = self._next_position(operation.content_type)
        made = (new_id(), operation.content_type, operation.text, place, self._now, self._now, sources)
        self._set(None, MemoryEntry(*made), operation.reason)

    def _replace(self, old: MemoryEntry, operation: Operation) -> None:
        if same_words(old.text) == same_words(operation.text) and not self._by_hand(old, operation):
            self._cite(old, operation)
            return
        known = self._same(replace(operation, content_type=old.content_type))
        if known is not None and known.content_id != old.content_id:
            self._set(old, None, operation.reason)
            self._cite(known, operation)
            return
        sources = self._sources(old.sources, operation.messages)
        self._set(
            old, replace(old, text=operation.text, updated_at=self._now, sources=sources), operation.reason
        )

    def _by_hand(self, old: MemoryEntry, operation: Operation) -> bool:
        """A person may mend a comma; a model that does only says the same again."""
        return self._conversation_id is None and old.text != operation.text

    def _cite(self, entry: MemoryEntry, operation: Operation) -> None:
        sources = self._sources(entry.sources, operation.messages)
        if sources != entry.sources:
            self._set(entry, replace(entry, sources=sources), operation.reason)

    def _same(self, operation: Operation) -> MemoryEntry | None:
        """Find the entry of a list that says the same; all are folded once."""
        if self._words is None:
            self._words = {_fold_key(entry): entry.content_id for entry in self._entries.values()}
        found = self._words.get((operation.content_type, same_words(operation.text)))
        return self._entries.get(found) if found else None

    def _sources(self, old: Sequence[EntrySource], messages: tuple[int, ...]) -> tuple[EntrySource, ...]:
        if self._conversation_id is None or not messages:
            return tuple(old)
        kept = [source for source in old if source.conversation_id != self._conversation_id]
        known = {
            number
            for source in old
            if source.conversation_id == self._conversation_id
            for number in source.messages
        }
        fresh = EntrySource(self._conversation_id, tuple(sorted(known | set(messages))))
        return tuple([*kept, fresh][-MAX_SOURCES:]) if fresh not in old else tuple(old)

    def _next_position(self, content_type: ContentType) -> int:
        taken = [e.position for e in self._entries.values() if e.content_type == content_type]
        return max(taken, default=0) + 1

    def undo_step(self, step: Step) -> None:
        here = step.entry.content_id
        now = self._entries.get(here)
        if step.before is None:
            if now is not None and step.after is not None and now.text == step.after.text:
                self._set(now, None, step.reason)
        elif step.after is None:
            if now is None:
                self._set(None, step.before, step.reason)
        elif now is not None and now.text == step.after.text:
            self._set(now, step.before, step.reason)

    def _set(self, before: MemoryEntry | None, after: MemoryEntry | None, reason: str) -> None:
        if before is not None:
            self._entries.pop(before.content_id, None)
            if self._words is not None:
                self._words.pop(_fold_key(before), None)
        if after is not None:
            self._entries[after.content_id] = after
            if self._words is not None:
                self._words[_fold_key(after)] = after.content_id
        self._steps.append(Step(before, after, reason))

    def revised(self, origin: Origin, *, undoes: str | None = None) -> MemoryRevision:
        steps = _joined_steps(self._steps)
        if not steps:
            return MemoryRevision(self._memory, None)
        entries = tuple(sorted(self._entries.values(), key=_order))
        version = self._memory.version + 1
        memory = replace(self._memory, entries=entries, version=version, updated_at=self._now)
        change = Change(
            new_id(),
            memory.memory_id,
            version,
            self._now,
            origin,
            tuple(steps),
            self._conversation_id,
            undoes,
        )
        return MemoryRevision(memory, change)


def _fold_key(entry: MemoryEntry) -> tuple[ContentType, str]:
    return entry.content_type, same_words(entry.text)


def _order(entry: MemoryEntry) -> tuple[str, int, str]:
    return (entry.content_type, entry.position, entry.content_id)


def _joined_steps(steps: Sequence[Step]) -> list[Step]:
    """Join the steps of one entry into one, and leave out those that end where they began."""
    joined: dict[str, Step] = {}
    for step in steps:
        content_id = step.entry.content_id
        first = joined.get(content_id)
        joined[content_id] = (
            step if first is None else Step(first.before, step.after, step.reason or first.reason)
        )
    return [step for step in joined.values() if step.before != step.after]
