"""Lexical search with BM25, extended to the neighbours of matching documents.

The terms are those of ``terms``. A conversation refers to what was just said, so a query term that a document
lacks but its neighbour has still counts, less with distance."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from personalab.retrieval.terms import Int64s, Terms, words_worth

T = TypeVar("T")


def batched_by_size(
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


Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]
_Postings = tuple[NDArray[np.int32], NDArray[np.uint8]]
"""The documents that have a term, ascending, and how often each has it."""

SATURATION = 0.9
LENGTH_NORM = 0.4
BEFORE, AFTER, REACH = 0.6, 0.4, 2
"""A term counts BEFORE**n for a document n places earlier, AFTER**n for a later one, up to REACH."""

_SHIFTS = [(n, BEFORE**n) for n in range(1, REACH + 1)] + [(-n, AFTER**n) for n in range(1, REACH + 1)]
_DOCUMENT_BITS = 29
_BATCH, _BATCH_CHARACTERS = 2_000, 200_000
"""Maximum batch to tokenize: meanwhile no other thread runs, and it takes many times its size in memory."""
_EXACT_CELLS = 200_000
_SCAN_POSTINGS = 15_000
_CANDIDATES = 100
_FEWEST = 100
"""Words are rated as if there were at least so many documents: among three, nothing is common yet."""


@dataclass(frozen=True, slots=True)
class Match:
    """A document found by its words; ``score`` is near 1 when it has all the query's words."""

    document: int
    score: float


@dataclass(frozen=True, slots=True)
class LexicalMatches:
    """What a query found, best first."""

    matches: list[Match]
    substance: float = 0.0
    """How many words' worth the query asks for, a word as rare as can be counting 1."""


@dataclass(frozen=True, slots=True)
class _Segment:
    """Postings of some consecutive documents: which of them have a term, how often."""

    terms: Int64s
    starts: Int64s
    documents: NDArray[np.int32]
    counts: NDArray[np.uint8]
    size: int

    def postings(self, term: int) -> _Postings:
        at = int(np.searchsorted(self.terms, term))
        if at == len(self.terms) or self.terms[at] != term:
            return self.documents[:0], self.counts[:0]
        found = slice(int(self.starts[at]), int(self.starts[at + 1]))
        return self.documents[found], self.counts[found]


def _run_starts(ordered: Int64s) -> Int64s:
    """Return where each run of equal numbers starts."""
    new = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return np.flatnonzero(new)


def _segment(term_documents: Int64s, counts: NDArray[np.uint8], size: int) -> _Segment:
    """Cut sorted (term, document) numbers into postings."""
    terms = term_documents >> _DOCUMENT_BITS
    starts = _run_starts(terms)
    documents = (term_documents & ((1 << _DOCUMENT_BITS) - 1)).astype(np.int32)
    return _Segment(terms[starts], np.append(starts, len(terms)), documents, counts, size)


def _segment_of(term_documents: Int64s, size: int) -> _Segment:
    ordered = np.sort(term_documents)
    starts = _run_starts(ordered)
    counts = np.minimum(np.diff(starts, append=len(ordered)), 255).astype(np.uint8)
    return _segment(ordered[starts], counts, size)


def _merged(first: _Segment, second: _Segment) -> _Segment:
    keys = np.concatenate([_term_documents(first), _term_documents(second)])
    counts = np.concatenate([first.counts, second.counts])
    order = np.argsort(keys, kind="stable")
    return _segment(keys[order], counts[order], first.size + second.size)


def _term_documents(segment: _Segment) -> Int64s:
    terms = np.repeat(segment.terms, np.diff(segment.starts))
    return terms << _DOCUMENT_BITS | segment.documents


class LexicalIndex:
    """An index in memory of documents numbered in the order they are added."""

    def __init__(self) -> None:
        self._terms = Terms()
        self._segments: list[_Segment] = []
        self._lengths = np.zeros(0, dtype=np.int64)
        self._groups = np.zeros(0, dtype=np.int64)
        self._group_numbers: dict[str, int] = {}
        self._norms: Floats = np.zeros(0, dtype=np.float32)
        self._same: list[Mask] = []

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, texts: Sequence[str], groups: Sequence[str]) -> None:
        """Append documents; only neighbours of one group lend each other their terms."""
        if not texts:
            return
        parts: list[tuple[Int64s, Int64s]] = []
        first = len(self)
        for batch in batched_by_size(texts, len, items_at_most=_BATCH, characters_at_most=_BATCH_CHARACTERS):
            parts.append(self._counted(batch, first))
            first += len(batch)
        self._segments.append(_segment_of(np.concatenate([part[0] for part in parts]), len(texts)))
        while len(self._segments) > 1 and 2 * self._segments[-1].size > self._segments[-2].size:
            last = self._segments.pop()
            self._segments[-1] = _merged(self._segments[-1], last)
        numbers = [self._group_numbers.setdefault(group, len(self._group_numbers)) for group in groups]
        self._lengths = np.concatenate([self._lengths, *(part[1] for part in parts)])
        self._groups = np.append(self._groups, numbers)
        relative = self._lengths / max(self._lengths.mean(), 1.0)
        self._norms = (SATURATION * (1 - LENGTH_NORM + LENGTH_NORM * relative)).astype(np.float32)
        overlaps = [_overlap(shift) for shift, _ in _SHIFTS]
        self._same = [self._groups[here] == self._groups[there] for here, there in overlaps]

    def _counted(self, texts: Sequence[str], first: int) -> tuple[Int64s, Int64s]:
        """Return the texts' (term, document) numbers and the texts' lengths."""
        terms, owners = self._terms.of(texts)
        return terms << _DOCUMENT_BITS | (owners + first), np.bincount(owners, minlength=len(texts))

    def rarity(self, word: str) -> float:
        """Return a word's rarity among the documents, by its rarest term."""
        return max((self._idf(self._frequency(term)) for term in self._terms.of_word(word)), default=0.0)

    def search(self, query: str, limit: int, allowed: Mask | None = None) -> LexicalMatches:
        """Find the documents with most of the query's words, best first; only ``allowed`` ones, if given."""
        terms, repeats = np.unique(self._terms.of_one(query), return_counts=True)
        if not len(self) or not len(terms):
            return LexicalMatches([])
        postings = [self._postings(int(term)) for term in terms]
        rarities = np.array([self._idf(len(documents)) for documents, _ in postings])
        substance = float(rarities @ words_worth(terms)) / self._idf(0)
        weights = repeats * rarities
        found = [row for row, (documents, _) in enumerate(postings) if len(documents)]
        if not found:
            return LexicalMatches([], substance)
        known = [postings[row] for row in found]
        documents, scores = self._scored(known, weights[found].astype(np.float32), allowed)
        best = np.argsort(-scores, kind="stable")[:limit]
        ideal = weights.sum()
        matches = [Match(int(documents[at]), float(scores[at] / ideal)) for at in best if scores[at] > 0]
        return LexicalMatches(matches, substance)

    def _scored(
        self, postings: Sequence[_Postings], weights: Floats, allowed: Mask | None
    ) -> tuple[Int64s, Floats]:
        """Score all documents, or where that takes long those that may be best."""
        if len(postings) * len(self) <= _EXACT_CELLS:
            scores = self._shared(self._table(postings, weights))
            return np.arange(len(self)), scores if allowed is None else scores * allowed
        documents = self._candidates(postings, weights, allowed)
        return documents, self._rescored(postings, weights, documents)

    def _idf(self, frequency: int) -> float:
        return math.log(1 + (max(len(self), _FEWEST) - frequency + 0.5) / (frequency + 0.5))

    def _frequency(self, term: int) -> int:
        return sum(len(segment.postings(term)[0]) for segment in self._segments)

    def _postings(self, term: int) -> _Postings:
        parts = [segment.postings(term) for segment in self._segments]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def _table(self, postings: Sequence[_Postings], weights: Floats) -> Floats:
        """Return what each term (row) gains in each document (column)."""
        counts = np.zeros((len(postings), len(self)), dtype=np.float32)
        for row, (documents, often) in enumerate(postings):
            counts[row, documents] = often
        return _gains(counts, self._norms, weights[:, None])

    def _shared(self, table: Floats) -> Floats:
        """Sum the terms' gains, each document's own or the best that a neighbour lends."""
        best = table.copy()
        for (shift, share), same in zip(_SHIFTS, self._same, strict=True):
            if same.size:
                here, there = _overlap(shift)
                np.maximum(best[:, here], table[:, there] * (np.float32(share) * same), out=best[:, here])
        return best.sum(axis=0)

    def _candidates(self, postings: Sequence[_Postings], weights: Floats, allowed: Mask | None) -> Int64s:
        """Choose the documents worth an exact score: the best by the rarest terms, and their neighbours."""
        scores = np.zeros(len(self), dtype=np.float32)
        scanned = 0
        for row in sorted(range(len(postings)), key=lambda row: len(postings[row][0])):
            documents, often = postings[row]
            if scanned and scanned + len(documents) > _SCAN_POSTINGS:
                break
            scanned += len(documents)
            scores[documents] += _gains(often.astype(np.float32), self._norms[documents], weights[row])
        if allowed is not None:
            # A hidden one lends its neighbours its words, but far from those seen it must not crowd them out.
            scores *= _with_neighbours(allowed)
        touched = np.flatnonzero(scores)
        if len(touched) > _CANDIDATES:
            touched = touched[np.argpartition(scores[touched], -_CANDIDATES)[-_CANDIDATES:]]
        near = np.unique((touched[:, None] + np.arange(-REACH, REACH + 1)).clip(0, len(self) - 1))
        return near if allowed is None else near[allowed[near]]

    def _rescored(self, postings: Sequence[_Postings], weights: Floats, chosen: Int64s) -> Floats:
        """Score chosen documents exactly, as ``_shared`` of ``_table`` would."""
        near = np.unique(np.clip(chosen[:, None] + np.arange(-REACH, REACH + 1), 0, len(self) - 1)).astype(
            np.int32
        )
        counts = np.zeros((len(postings), len(near)), dtype=np.float32)
        for row, (documents, often) in enumerate(postings):
            at = documents.searchsorted(near)
            at[at == len(documents)] = 0
            counts[row] = often[at] * (documents[at] == near)
        table = _gains(counts, self._norms[near], weights[:, None])
        best = table[:, near.searchsorted(chosen)]
        for shift, share in _SHIFTS:
            other = np.clip(chosen - shift, 0, len(self) - 1)
            same = (other == chosen - shift) & (self._groups[other] == self._groups[chosen])
            np.maximum(best, table[:, near.searchsorted(other)] * np.float32(share) * same, out=best)
        return best.sum(axis=0)


def _gains(counts: Floats, norms: Floats, weight: Floats | np.float32) -> Floats:
    """Return BM25's gain of a term for documents that have it so often."""
    return (weight * np.float32(SATURATION + 1) * counts / (counts + norms)).astype(np.float32, copy=False)


def _overlap(shift: int) -> tuple[slice, slice]:
    """Return the documents that have one so many places before them, and those."""
    if shift > 0:
        return slice(shift, None), slice(None, -shift)
    return slice(None, shift), slice(-shift, None)


def _with_neighbours(mask: Mask) -> Mask:
    """Extend a mask to the neighbours within reach."""
    wide = mask.copy()
    for shift, _ in _SHIFTS:
        here, there = _overlap(shift)
        wide[here] |= mask[there]
    return wide
