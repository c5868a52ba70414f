"""Terms of a text for lexical search, in any language.

Chinese, Japanese and Korean give every character and every pair of neighbouring characters; other scripts
give stemmed words without stop words. Dates become the same few terms in all the ways people write them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

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
