"""A collection's events in memory, with their lexical index.

The events are in the order they happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from personalab.retrieval.catalogue import Place, fits
from personalab.retrieval.lexical import LexicalIndex, Mask
from personalab.story.recall import RecallQuery, StoryEvent

Int32s = NDArray[np.int32]
_Key = TypeVar("_Key")


def _order(event: StoryEvent) -> tuple[int, str, int, str]:
    """Sessions are counted, so that a longer id is a later one."""
    return len(event.session_id), event.session_id, event.index, event.event_id


def _words(event: StoryEvent) -> str:
    """Return what an event is found by: questions name dates, so the day counts among its words."""
    return f"{event.timestamp[:10]} {event.text}" if event.timestamp else event.text


def _group(event: StoryEvent) -> str:
    """Return an event's group: turns of one session share their words, a summary is its own group."""
    return event.session_id if event.kind == "turn" else event.event_id


class EventCollection:
    """Events of one instance and kind; those that come later are appended."""

    def __init__(self, events: Iterable[StoryEvent] = ()) -> None:
        self.events: list[StoryEvent] = []
        self.numbers: dict[str, int] = {}
        self.lexical = LexicalIndex()
        self._by_text: dict[str, list[int]] = {}
        self._session_codes: dict[str, int] = {}
        self._place_codes: dict[Place, int] = {}
        self._sessions: Int32s = np.zeros(0, dtype=np.int32)
        self._places: Int32s = np.zeros(0, dtype=np.int32)
        self._indexes: Int32s = np.zeros(0, dtype=np.int32)
        self._append(sorted(events, key=_order))

    def __len__(self) -> int:
        return len(self.events)

    def with_events(self, events: Sequence[StoryEvent]) -> EventCollection:
        """Return the shelf with events added or replaced: itself where they only follow."""
        fresh = {event.event_id: event for event in sorted(events, key=_order)}
        follows = not self.events or not fresh or _order(self.events[-1]) < _order(next(iter(fresh.values())))
        if follows and fresh.keys().isdisjoint(self.numbers):
            self._append(list(fresh.values()))
            return self
        return EventCollection({**{event.event_id: event for event in self.events}, **fresh}.values())

    def _append(self, events: Sequence[StoryEvent]) -> None:
        for number, event in enumerate(events, start=len(self.events)):
            self.numbers[event.event_id] = number
            self._by_text.setdefault(event.text, []).append(number)
        self.events += events
        self.lexical.add([_words(event) for event in events], [_group(event) for event in events])
        sessions = [_code(self._session_codes, event.session_id) for event in events]
        places = [_code(self._place_codes, (event.character_id, event.background_id)) for event in events]
        self._sessions = np.append(self._sessions, np.array(sessions, dtype=np.int32))
        self._places = np.append(self._places, np.array(places, dtype=np.int32))
        self._indexes = np.append(self._indexes, np.array([event.index for event in events], dtype=np.int32))

    def count(self, texts: Iterable[str]) -> int:
        """Count the events that have one of these texts."""
        return len(self._with_texts(texts))

    def _with_texts(self, texts: Iterable[str]) -> list[int]:
        return [number for text in texts for number in self._by_text.get(text, ())]

    def allowed(self, search: RecallQuery) -> Mask | None:
        """Mark the events a search may see; ``None`` for all."""
        masks: list[Mask] = []
        session = self._session_codes.get(search.skip_session)
        if session is not None and self.events[0].kind == "turn":
            masks.append((self._sessions != session) | (self._indexes < search.skip_from))
        if search.character_id is not None or search.background_id is not None:
            wanted = [code for place, code in self._place_codes.items() if fits(place, search)]
            masks.append(np.isin(self._places, wanted))
        if hidden := self._with_texts(search.in_prompt):
            mask = np.ones(len(self.events), dtype=np.bool_)
            mask[hidden] = False
            masks.append(mask)
        seen = np.logical_and.reduce(masks) if masks else None
        return None if seen is None or seen.all() else seen


def _code(codes: dict[_Key, int], key: _Key) -> int:
    """Number values as they are first met."""
    return codes.setdefault(key, len(codes))
