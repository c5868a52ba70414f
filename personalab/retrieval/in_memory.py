"""An in-memory event library for tests, which finds events by shared characters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from personalab.ports import IndexState
from personalab.story.recall import Hit, Kind, RecallQuery, StoryEvent


class InMemoryLibrary:
    """A fake that follows the port's rules; its ranking is plain: the share of the query's bigrams."""

    def __init__(self) -> None:
        self.events: dict[str, StoryEvent] = {}
        self.searches: list[RecallQuery] = []

    async def write(self, events: Sequence[StoryEvent]) -> None:
        """Keep events by their id."""
        self.events.update({event.event_id: event for event in events})

    async def remove(
        self, instance_id: str, *, session_id: str | None = None, kinds: Sequence[Kind] | None = None
    ) -> None:
        """Forget an instance's events."""
        self.events = {
            key: event
            for key, event in self.events.items()
            if event.instance_id != instance_id
            or session_id not in (None, event.session_id)
            or (kinds is not None and event.kind not in kinds)
        }

    async def search(self, search: RecallQuery) -> list[Hit]:
        """Rank the events the search may see."""
        self.searches.append(search)
        wanted = _grams(search.query)
        scored = [
            (len(wanted & _grams(event.text)) / max(len(wanted), 1), event) for event in self._seen(search)
        ]
        found = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])[: search.limit]
        return [
            Hit(
                event,
                score,
                score,
                lexical_rank=rank,
                dense_rank=None,
                matched=tuple(sorted(wanted & _grams(event.text))),
            )
            for rank, (score, event) in enumerate(found, start=1)
        ]

    def _seen(self, search: RecallQuery) -> list[StoryEvent]:
        return [
            event
            for event in self.events.values()
            if event.kind in search.kinds
            and (event.instance_id == search.instance_id) != search.others
            and search.character_id in (None, event.character_id)
            and search.background_id in (None, event.background_id)
            and event.text not in search.in_prompt
            and not (
                event.kind == "turn"
                and event.session_id == search.skip_session
                and event.index >= search.skip_from
            )
        ]

    async def missing(self, instance_id: str, event_ids: Sequence[str]) -> list[str]:
        """Return the events that were never written."""
        return [event_id for event_id in event_ids if event_id not in self.events]

    async def state(self) -> IndexState:
        """Count what is kept."""
        counts = {"summary": 0, "plot": 0, "turn": 0}
        for event in self.events.values():
            counts[event.kind] += 1
        return IndexState("ready" if self.events else "empty", "in_memory", counts)

    async def reset(self) -> None:
        """Forget everything."""
        self.events.clear()


def _grams(text: str) -> set[str]:
    plain = [character for character in text.lower() if character.isalnum()]
    return {first + second for first, second in pairwise(plain)} or set(plain)
