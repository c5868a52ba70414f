"""Ranking of texts by lexical and semantic matches: fusion, confidence, and the choice of events."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from personalab.retrieval.event_store import EventCollection, Filter
from personalab.retrieval.lexical import Mask, shared_words
from personalab.story.recall import Hit, RecallQuery, StoryEvent

Key = TypeVar("Key", bound=Hashable)

DENSE_WEIGHT = 0.2
"""What the nearest event's meaning counts, against all of a query's words."""


def fuse(words: Mapping[Key, float], similarity: Mapping[Key, float]) -> list[tuple[Key, float]]:
    """Join lexical scores and the nearest vectors' similarities into one score, best first."""
    scores = dict(words)
    for key, meaning in _stretched(similarity).items():
        scores[key] = scores.get(key, 0.0) + DENSE_WEIGHT * meaning
    return sorted(scores.items(), key=lambda scored: -scored[1])


def _stretched(similarity: Mapping[Key, float]) -> dict[Key, float]:
    """Stretch similarities to 0…1, because each embedder has its own range; one alone is the nearest."""
    if not similarity:
        return {}
    low, high = min(similarity.values()), max(similarity.values())
    if low == high:
        return dict.fromkeys(similarity, 1.0)
    return {key: (value - low) / (high - low) for key, value in similarity.items()}


_RIVAL = 10
"""Confidence in a hit grows with its distance from the one at this rank."""
_TOO_LITTLE, _ENOUGH = 0.9, 1.4
"""How many rare words must be found: up to the first a hit is chance ("go on"), from the second on sure."""


_LEAST_WORDS = 0.4
"""Share of a rare word, and of the best hit's words, that must be found to count as evidence."""
_NEAREST, _LEAST_SIMILARITY = 3, 0.4
"""Number of nearest hits by meaning, and their minimum similarity, that count without shared words."""
_WEAK = 0.3
"""Evidence alone is never surer than this."""


def rival_score(words: Iterable[float]) -> float:
    """Return the score that hits of doubtful relevance reach; among few hits, half of the best."""
    scores = sorted(words, reverse=True)
    return scores[_RIVAL - 1] if len(scores) >= _RIVAL else max(scores, default=0.0) / 2


def confidence(words: float, rival: float, substance: float) -> float:
    """Rate the confidence in a hit: it has most of the query's words, others don't, and they are rare.

    Meaning does not enter: among turns of one story, similarity tells small talk from a question badly.
    """
    found = min(1.0, max(0.0, (min(words, 1.0) * substance - _TOO_LITTLE) / (_ENOUGH - _TOO_LITTLE)))
    return min(1.0, max(0.0, (2 * words - rival) / 1.5)) * found


def evidence(
    words: float, best: float, substance: float, similarity: float | None, meaning_rank: int | None
) -> float:
    """Rate what speaks for a hit that is not sure, above 0 if anything does.

    Either its words do, measured against the best hit's, or it is among the nearest by meaning.
    """
    found = min(words, 1.0) * substance
    by_words = min(found, 1.0) if found >= _LEAST_WORDS and words >= _LEAST_WORDS * best else 0.0
    near = similarity is not None and similarity >= _LEAST_SIMILARITY
    near = near and meaning_rank is not None and meaning_rank <= _NEAREST
    by_meaning = min(similarity or 0.0, 1.0) / 2 if near else 0.0
    return _WEAK * max(by_words, by_meaning)


Nearest = Callable[[int, Filter | None], Sequence[tuple[str, float]]]
"""Finds so many events by a vector, with their similarities."""
POOL = 100
"""How many events each ranking brings to the fusion."""
_FEW_HIDDEN = 400


@dataclass(frozen=True, slots=True)
class CollectionMatches:
    """What one collection has for a query: events by their words, and by their meaning."""

    collection: EventCollection
    words: Mapping[str, float]
    meaning: Mapping[str, float]
    substance: float
    """How many rare words' worth the query asks for."""

    @classmethod
    def of(
        cls, collection: EventCollection, search: RecallQuery, nearest: Nearest | None
    ) -> CollectionMatches:
        """Rank a collection's events by words and by meaning; ``None`` where the query has no meaning we know."""
        allowed = collection.allowed(search)
        found = collection.lexical.search(search.query, POOL, allowed)
        words = {collection.events[match.document].event_id: match.score for match in found.matches}
        near = _near(collection, search, allowed, nearest) if nearest else ()
        meaning = {
            event_id: similarity
            for event_id, similarity in near
            if similarity > 0 and (number := collection.numbers.get(event_id)) is not None
            if allowed is None or allowed[number]
        }
        return cls(collection, words, meaning, found.substance)


def _near(
    collection: EventCollection, search: RecallQuery, allowed: Mask | None, nearest: Nearest
) -> Sequence[tuple[str, float]]:
    """Ask for enough neighbours that those which may be seen are among them."""
    seen = len(collection) if allowed is None else int(allowed.sum())
    hidden = len(collection) - seen
    if not seen:
        return []
    condition = _condition(search)
    if hidden <= _FEW_HIDDEN or condition is None:
        return nearest(POOL + hidden, None)
    return nearest(POOL + collection.count(search.in_prompt), condition)


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


def rank(sections: Sequence[CollectionMatches], search: RecallQuery) -> list[Hit]:
    """Fuse what the collections found into one list, best first."""
    words = {key: score for section in sections for key, score in section.words.items()}
    meaning = {key: similarity for section in sections for key, similarity in section.meaning.items()}
    homes = {key: section for section in sections for key in (*section.words, *section.meaning)}
    by_words, by_meaning = _places(words), _places(meaning)
    rarities = {id(section): cache(section.collection.lexical.rarity) for section in sections}
    rival, best = rival_score(words.values()), max(words.values(), default=0.0)
    hits: list[Hit] = []
    for key, score in fuse(words, meaning)[: search.limit]:
        section = homes[key]
        event = section.collection.events[section.collection.numbers[key]]
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
