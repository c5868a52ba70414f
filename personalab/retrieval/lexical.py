"""Lexical search in any language with BM25, extended to the neighbours of matching documents.

Chinese, Japanese and Korean give every character and every pair of neighbouring characters as terms; other scripts
give stemmed words without stop words. Dates become the same few terms in all the ways people write them.

A conversation refers to what was just said, so a query term that a document lacks but its neighbour has still counts,
less with distance.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]

_CJK_RANGES = ((0x3040, 0x30FF), (0x3400, 0x9FFF), (0xAC00, 0xD7AF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))
_CJK_CLASS = "".join(f"{chr(low)}-{chr(high)}" for low, high in _CJK_RANGES)
_SEPARATOR = "\x00"
_PAIR = np.int64(1 << 32)
_WORD = np.int64(1 << 33)
_STOPPED, _NEXT_TEXT = -1, -2

# Accents apart from their letters, letters and digits of another width; folding all texts is slow.
_FOLDABLE = re.compile("[\u0300-\u036f\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uff9f]")

CJK_RUN = re.compile(f"[{_CJK_CLASS}]+")
WORD = re.compile(rf"[^\W_{_CJK_CLASS}]+")
_WORD_OR_SEPARATOR = re.compile(rf"{_SEPARATOR}|[^\W_{_CJK_CLASS}]+")

_STOP_WORDS = """
a an the of to in on at for and or but is are was were be been am do does did has have had having i
you he she it we they me him her us them my your his its our their this that these those what which
who whom when where why how with from by as about into than then so if not no can could will would
should may might must there here just also too very really some any s t re ve ll d m don didn doesn
isn wasn
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())

_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH_NUMBERS = {name[:3]: number for number, name in enumerate(_MONTHS, 1)}
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
_CLEAR_MONTH = r"(?:january|february|april|june|july|august|september|october|november|december)"
_HAN = "[0-9一二三四五六七八九十]"
_DATE = re.compile(
    rf"(?=[0-9一二三四五六七八九十jfmasond])(?<![0-9a-z])(?:"
    rf"(?P<y1>[0-9]{{4}})[-/.](?P<m1>[0-9]{{1,2}})[-/.](?P<d1>[0-9]{{1,2}})(?![0-9])"
    rf"|(?:(?P<y2>[0-9]{{4}})年)?(?P<m2>{_HAN}{{1,3}})月(?:(?P<d2>{_HAN}{{1,3}})[日号])?"
    rf"|(?P<d3>[0-9]{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<m3>{_MONTH})\b(?:,? (?P<y3>[0-9]{{4}}))?"
    rf"|(?P<m4>{_MONTH}) (?P<d4>[0-9]{{1,2}})(?:st|nd|rd|th)?(?![0-9])(?:,? (?P<y4>[0-9]{{4}}))?"
    rf"|(?P<m5>{_MONTH}),? (?P<y5>[0-9]{{4}})(?![0-9])"
    rf"|(?P<m6>{_CLEAR_MONTH})\b"
    rf")"
)
_DAY_WEIGHT = 3
"""A named day narrows a question as much as a Chinese word of two characters, which gives three terms."""
_HAN_DIGITS = {digit: value for value, digit in enumerate("一二三四五六七八九", 1)}


def normalise(text: str) -> str:
    """Fold width, case and the ways to write a date."""
    folded = unicodedata.normalize("NFKC", text) if _FOLDABLE.search(text) else text
    return _DATE.sub(_date_terms, folded.lower().replace(_SEPARATOR, " "))


def _date_terms(match: re.Match[str]) -> str:
    found = {name[0]: value for name, value in match.groupdict().items() if value}
    month, day, year = _number(found["m"]), _number(found.get("d", "")), found.get("y", "")
    if not 1 <= month <= 12 or day > 31:
        return match.group()
    terms = [f"m{month}"]
    if day:
        terms += [f"m{month}d{day}"] * _DAY_WEIGHT
    if year:
        terms += [f"y{year}m{month}", year]
    return f" {' '.join(terms)} "


def _number(written: str) -> int:
    """Read 12, 十二, dec or december; nothing reads as 0."""
    if written[:3] in _MONTH_NUMBERS:
        return _MONTH_NUMBERS[written[:3]]
    if not written or written.isdecimal():
        return int(written or 0)
    tens, ten, ones = written.rpartition("十")
    return (10 * _HAN_DIGITS.get(tens, 1) if ten else 0) + _HAN_DIGITS.get(ones, 0)


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Take the commonest English endings off a word."""
    if len(word) <= 3 or not word.isascii() or not word.isalpha():
        return word
    word = _without_participle(_singular(word))
    if word.endswith("e") and len(word) > 4:
        word = word[:-1]
    return f"{word[:-1]}i" if word.endswith("y") and len(word) > 3 else word


def _singular(word: str) -> str:
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    if word.endswith(("sses", "shes", "ches", "xes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _without_participle(word: str) -> str:
    for ending in ("ing", "ed"):
        base = word.removesuffix(ending)
        if base != word and len(base) >= 3 and any(vowel in base for vowel in "aeiouy"):
            return base[:-1] if base[-1] == base[-2] and base[-1] not in "lsz" else base
    return word


@lru_cache(maxsize=1)
def _cjk_table() -> NDArray[np.bool_]:
    """Return for every code point whether it is written without spaces."""
    table = np.zeros(0x110000, dtype=bool)
    for low, high in _CJK_RANGES:
        table[low : high + 1] = True
    return table


class _WordNumbers(dict[str, int]):
    """Number the stems of words as they are first met; a stop word has no number."""

    def __init__(self) -> None:
        super().__init__({_SEPARATOR: _NEXT_TEXT})
        self._stems: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        number = _STOPPED if word in STOP_WORDS else self._stems.setdefault(stem(word), len(self._stems))
        self[word] = number
        return number


class Terms:
    """Turn texts into numbered terms; one instance must serve an index and its queries."""

    def __init__(self) -> None:
        self._words = _WordNumbers()

    def of(self, texts: Sequence[str]) -> tuple[Int64s, Int64s]:
        """Return every term of every text and, beside it, the position of its text."""
        normal = [normalise(text) for text in texts]
        joined = _SEPARATOR.join(normal)
        characters, owners = self._characters(joined, normal)
        words, word_owners = self._word_terms(joined)
        return np.concatenate([characters, words]), np.concatenate([owners, word_owners])

    def of_one(self, text: str) -> Int64s:
        """Return the terms of one text."""
        return self.of([text])[0]

    def of_word(self, word: str) -> list[int]:
        """Return the terms that tell most of a word: its pairs of characters, its character or its stem."""
        if not CJK_RUN.fullmatch(word):
            number = self._words[word.lower()]
            return [] if number < 0 else [int(_WORD) | number]
        codes = [ord(character) & 0xFFFF for character in word]
        return [int(_PAIR) | a << 16 | b for a, b in pairwise(codes)] or codes

    def _characters(self, joined: str, texts: Sequence[str]) -> tuple[Int64s, Int64s]:
        codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)) + 1
        owners = np.repeat(np.arange(len(texts)), lengths)[: len(codes)]
        is_cjk = _cjk_table()[codes]
        single = np.flatnonzero(is_cjk)
        paired = np.flatnonzero(is_cjk[:-1] & is_cjk[1:])
        # The rare characters beyond the first plane share a number with others: harmless for ranking.
        short = (codes & 0xFFFF).astype(np.int64)
        pairs = _PAIR | short[paired] << 16 | short[paired + 1]
        return np.concatenate([short[single], pairs]), np.concatenate([owners[single], owners[paired]])

    def _word_terms(self, joined: str) -> tuple[Int64s, Int64s]:
        numbers = np.fromiter(
            map(self._words.__getitem__, _WORD_OR_SEPARATOR.findall(joined)), dtype=np.int64
        )
        owners = np.cumsum(numbers == _NEXT_TEXT)
        kept = numbers >= 0
        return _WORD | numbers[kept], owners[kept]


def words_worth(terms: Int64s) -> NDArray[np.float64]:
    """Return each term's share of a word: a Chinese word of two characters gives three terms."""
    return np.where(terms >= _WORD, 1.0, 1 / 3)


def shared_words(query: str, text: str) -> list[str]:
    """Name what a query and a text have in common, in the query's order: runs of characters, and words."""
    lowered = text.lower()
    found: list[str] = []
    for run in CJK_RUN.findall(query.lower()):
        start = 0
        while start < len(run):
            end = start
            while end < len(run) and run[start : end + 1] in lowered:
                end += 1
            if end > start:
                found.append(run[start:end])
            start = max(end, start + 1)
    stems = {stem(word) for word in WORD.findall(lowered)}
    found += [word for word in WORD.findall(query.lower()) if word not in STOP_WORDS and stem(word) in stems]
    distinct = list(dict.fromkeys(found))
    return [word for word in distinct if len(word) > 1] or distinct


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
