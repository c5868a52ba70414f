"""An embedder for Chinese and English that needs no model and no network.

Word vectors of Chinese and of English (made by ``tools/build_vectors``) are summed, each language in its own
part of the vector; a part weighs as much as its language's share of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from personalab.ports import Embedder
from personalab.retrieval.lexical import CJK_RUN, STOP_WORDS, WORD

Floats = NDArray[np.float32]
Rarity = Callable[[str], float]

_LONGEST_WORD = 4
_WORD_SHARE = 2
"""An English word says about as much as two Chinese characters."""
_LONGEST_PIECE = 20


class _WordVectors:
    """Rows of bytes with a scale each, found by their words."""

    def __init__(self, folder: Path, name: str) -> None:
        self._rows = np.load(folder / f"{name}.rows.npy", mmap_mode="r")
        self._scales = np.load(folder / f"{name}.scales.npy")
        words = (folder / f"{name}.words.txt").read_text(encoding="utf-8").split("\n")
        self.numbers = dict(zip(words, range(len(words)), strict=True))
        self.width = int(self._rows.shape[1])

    def sums(self, numbers: Sequence[Sequence[int]], weights: Sequence[Sequence[float]]) -> Floats:
        """Sum the weighted rows of each text and bring each sum to length one."""
        result = np.zeros((len(numbers), self.width), dtype=np.float32)
        for at, (row_numbers, row_weights) in enumerate(zip(numbers, weights, strict=True)):
            if row_numbers:
                scale = self._scales[row_numbers] * np.asarray(row_weights, dtype=np.float32)
                result[at] = scale @ self._rows[row_numbers].astype(np.float32)
        return _unit(result)


def _unit(vectors: Floats) -> Floats:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)


class OfflineEmbedder:
    """Embeds Chinese, English and mixed text with static word vectors."""

    # The end is the digest of the files: other vectors make another index.
    identity = "offline:synonyms-3.10.2+all-MiniLM-L6-v2:21b68615"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pieces: dict[str, list[int]] = {}

    @cached_property
    def _chinese(self) -> _WordVectors:
        return _WordVectors(self._folder, "zh")

    @cached_property
    def _english(self) -> _WordVectors:
        return _WordVectors(self._folder, "en")

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts to be found."""
        return self.vectors(texts).tolist()

    def embed_query(self, text: str, rarity: Rarity | None = None) -> list[float]:
        """Embed a text that asks; with ``rarity``, words count by how rare they are where it searches."""
        return self.vectors([text], rarity)[0].tolist()

    def vectors(self, texts: Sequence[str], rarity: Rarity | None = None) -> Floats:
        """Embed texts as rows of length one; a text without a known word gives zeros."""
        chinese = [self._chinese_words(text, rarity) for text in texts]
        english = [self._english_words(text, rarity) for text in texts]
        left = self._chinese.sums([numbers for numbers, _ in chinese], [weights for _, weights in chinese])
        right = self._english.sums([numbers for numbers, _ in english], [weights for _, weights in english])
        share = np.array([_chinese_share(text) for text in texts], dtype=np.float32)[:, None]
        return _unit(np.hstack([left * np.sqrt(share), right * np.sqrt(1 - share)]))

    def _chinese_words(self, text: str, rarity: Rarity | None) -> tuple[list[int], list[float]]:
        """Find every known word of up to four characters, also where they overlap."""
        known = self._chinese.numbers
        numbers: list[int] = []
        weights: list[float] = []
        for run in CJK_RUN.findall(text):
            for size in range(1, _LONGEST_WORD + 1):
                for start in range(len(run) - size + 1):
                    word = run[start : start + size]
                    if word in known:
                        numbers.append(known[word])
                        weights.append(rarity(word) if rarity else 1.0)
        return numbers, weights

    def _english_words(self, text: str, rarity: Rarity | None) -> tuple[list[int], list[float]]:
        numbers: list[int] = []
        weights: list[float] = []
        for word in WORD.findall(text.lower()):
            if word in STOP_WORDS:
                continue
            pieces = self._word_pieces(word)
            numbers += pieces
            weights += [rarity(word) if rarity else 1.0] * len(pieces)
        return numbers, weights

    def _word_pieces(self, word: str) -> list[int]:
        """Cut a word into the longest known pieces, from its start."""
        if word in self._pieces:
            return self._pieces[word]
        known = self._english.numbers
        pieces: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            ends = range(min(len(word), start + _LONGEST_PIECE), start, -1)
            end = next((end for end in ends if mark + word[start:end] in known), None)
            if end:
                pieces.append(known[mark + word[start:end]])
            start = end or start + 1
        self._pieces[word] = pieces
        return pieces


def query_vector(embedder: Embedder, query: str, rarity: Rarity) -> list[float]:
    """Embed a query; offline, its words count by how rare they are where it searches."""
    if isinstance(embedder, OfflineEmbedder):
        return embedder.embed_query(query, rarity)
    return embedder.embed_query(query)


def _chinese_share(text: str) -> float:
    characters = sum(map(len, CJK_RUN.findall(text)))
    words = _WORD_SHARE * len(WORD.findall(text))
    return characters / (characters + words) if characters else 0.0
