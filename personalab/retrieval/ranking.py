"""Choice of events by the lexical and semantic matches of a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from personalab.retrieval.confidence import confidence, evidence, rival_score
from personalab.retrieval.fusion import fuse
from personalab.retrieval.lexical import Mask
from personalab.retrieval.shelf import EventCollection
from personalab.retrieval.store import Filter
from personalab.retrieval.terms import shared_words
from personalab.story.recall import Hit, RecallQuery, StoryEvent

Nearest = Callable[[int, Filter | None], Sequence[tuple[str, float]]]
"""Finds so many events by a vector, with their similarities."""
POOL = 100
"""How many events each ranking brings to the fusion."""
_FEW_HIDDEN = 400


@dataclass(frozen=True, slots=True)
class ShelfMatches:
    """What one shelf has for a query: events by their words, and by their meaning."""

    shelf: EventCollection
    words: Mapping[str, float]
    meaning: Mapping[str, float]
    substance: float
    """How many rare words' worth the query asks for."""

    @classmethod
    def of(cls, shelf: EventCollection, search: RecallQuery, nearest: Nearest | None) -> ShelfMatches:
        """Rank a shelf's events by words and by meaning; ``None`` where the query has no meaning we know."""
        allowed = shelf.allowed(search)
        found = shelf.lexical.search(search.query, POOL, allowed)
        words = {shelf.events[match.document].event_id: match.score for match in found.matches}
        near = _near(shelf, search, allowed, nearest) if nearest else ()
        meaning = {
            event_id: similarity
            for event_id, similarity in near
            if similarity > 0 and (number := shelf.numbers.get(event_id)) is not None
            if allowed is None or allowed[number]
        }
        return cls(shelf, words, meaning, found.substance)


def _near(
    shelf: EventCollection, search: RecallQuery, allowed: Mask | None, nearest: Nearest
) -> Sequence[tuple[str, float]]:
    """Ask for enough neighbours that those which may be seen are among them."""
    seen = len(shelf) if allowed is None else int(allowed.sum())
    hidden = len(shelf) - seen
    if not seen:
        return []
    condition = _condition(search)
    if hidden <= _FEW_HIDDEN or condition is None:
        return nearest(POOL + hidden, None)
    return nearest(POOL + shelf.count(search.in_prompt), condition)


def _condition(search: RecallQuery) -> Filter | None:
    """Word for Chroma what a search may see: slow among many events, so only where many are hidden.

    Texts cannot be left out this way.
    """
    wanted: list[dict[str, Any]] = []
    if search.skip_session:
        elsewhere = {"session_id": {"$ne": search.skip_session}}
        wanted.append({"$or": [elsewhere, {"index": {"$lt": search.skip_from}}]})
    if search.character_id is not None:
        wanted.append({"character_id": search.character_id})
    if search.background_id is not None:
        wanted.append({"background_id": search.background_id})
    if not wanted:
        return None
    return wanted[0] if len(wanted) == 1 else {"$and": wanted}


def rank(sections: Sequence[ShelfMatches], search: RecallQuery) -> list[Hit]:
    """Fuse what the shelves found into one list, best first."""
    words = {key: score for section in sections for key, score in section.words.items()}
    meaning = {key: similarity for section in sections for key, similarity in section.meaning.items()}
    homes = {key: section for section in sections for key in (*section.words, *section.meaning)}
    by_words, by_meaning = _places(words), _places(meaning)
    rarities = {id(section): cache(section.shelf.lexical.rarity) for section in sections}
    rival, best = rival_score(words.values()), max(words.values(), default=0.0)
    hits: list[Hit] = []
    for key, score in fuse(words, meaning)[: search.limit]:
        section = homes[key]
        event = section.shelf.events[section.shelf.numbers[key]]
        found, similarity = words.get(key, 0.0), meaning.get(key)
        weak = evidence(found, best, section.substance, similarity, by_meaning.get(key))
        hits.append(
            Hit(
                event=event,
                score=score,
                confidence=max(confidence(found, rival, section.substance), weak),
                lexical_rank=by_words.get(key),
                dense_rank=by_meaning.get(key),
                matched=_matched(search.query, event, rarities[id(section)]),
                similarity=similarity,
            )
        )
    return hits


def _places(scores: Mapping[str, float]) -> dict[str, int]:
    ordered = sorted(scores, key=lambda key: -scores[key])
    return {key: place for place, key in enumerate(ordered, start=1)}


def _matched(query: str, event: StoryEvent, rarity: Callable[[str], float]) -> tuple[str, ...]:
    return tuple(sorted(shared_words(query, event.text), key=lambda word: -rarity(word)))
