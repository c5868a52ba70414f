"""Embedders: the one that needs no model and no network, those of LangChain packages, and the choice for a setting.

The offline one is for Chinese and English: word vectors of both (made by ``tools/build_vectors``) are summed, each
language in its own part of the vector; a part weighs as much as its language's share of the text.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from personalab.errors import ProviderError, Reason
from personalab.ports import Embedder
from personalab.retrieval.lexical import CJK_RUN, STOP_WORDS, WORD

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings


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


VECTORS = Path(__file__).parent / "vectors"


def open_embedder(setting: str, *, api_key: str | None, base_url: str | None) -> Embedder:
    """Open the embedder of a setting: ``offline``, ``openai:NAME``, or ``provider:NAME`` by LangChain."""
    provider, _, model = setting.strip().partition(":")
    if provider == "offline" and not model:
        return OfflineEmbedder(VECTORS)
    if not provider or not model:
        raise ProviderError("embedder.unknown", setting=setting, reason=Reason("not_provider_model"))
    if provider == "openai":
        return open_openai(model, api_key=api_key, base_url=base_url)
    return open_other(provider, model)


BATCH = 256
"""How many texts go into one request; some servers take no more."""
TRIES = 3
SECONDS = 60.0
# Local servers want no key, but the client library wants one.
_NO_KEY = "no-key"
_LOCAL = {"localhost", "127.0.0.1", "::1"}


class LangChainEmbedder:
    """An embedder of any LangChain package; its setting is its identity."""

    def __init__(self, setting: str, embeddings: Embeddings) -> None:
        self._setting = setting
        self._embeddings = embeddings

    @property
    def identity(self) -> str:
        """What made the vectors."""
        return self._setting

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts to be found, in requests of bounded size."""
        vectors: list[list[float]] = []
        with _translated(self._setting):
            for start in range(0, len(texts), BATCH):
                vectors += self._embeddings.embed_documents(list(texts[start : start + BATCH]))
        return _checked(vectors, len(texts))

    def embed_query(self, text: str) -> list[float]:
        """Embed a text that asks."""
        with _translated(self._setting):
            vector = self._embeddings.embed_query(text)
        return _checked([vector], 1)[0]


def open_openai(model: str, *, api_key: str | None, base_url: str | None) -> LangChainEmbedder:
    """Open an embedder of OpenAI, or of any server that speaks its protocol."""
    setting = f"openai:{model}"
    if not api_key and not base_url:
        raise ProviderError("embedder.no_key", setting=setting, variable="OPENAI_API_KEY")
    from langchain_openai import OpenAIEmbeddings
    from openai import DefaultHttpxClient

    # The environment's proxy does not lead to a server on this machine.
    local = base_url is not None and urlsplit(base_url).hostname in _LOCAL
    client = DefaultHttpxClient(trust_env=not local)
    options: dict[str, Any] = {
        "model": model,
        "api_key": api_key or _NO_KEY,
        "base_url": base_url,
        # Otherwise texts are sent as token numbers, which only OpenAI itself understands.
        "check_embedding_ctx_length": False,
        "chunk_size": BATCH,
        "max_retries": TRIES - 1,
        "timeout": SECONDS,
        "http_client": client,
    }
    embedder = LangChainEmbedder(setting, OpenAIEmbeddings(**options))
    weakref.finalize(embedder, client.close)
    return embedder


def open_other(provider: str, model: str) -> LangChainEmbedder:
    """Open an embedder of another provider; its package reads its own key from the environment."""
    from langchain.embeddings import init_embeddings

    setting = f"{provider}:{model}"
    try:
        return LangChainEmbedder(setting, init_embeddings(model, provider=provider))
    except ImportError as error:
        package = str(error).rpartition("pip install ")[2].strip(" `.") or provider
        raise ProviderError("provider.not_installed", model=setting, package=package) from error
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise ProviderError("embedder.unknown", setting=setting, reason=reason) from error


@contextmanager
def _translated(setting: str) -> Generator[None]:
    try:
        yield
    except ProviderError:
        raise
    except Exception as error:
        raise _explained(error, setting) from error


def _explained(error: Exception, setting: str) -> ProviderError:
    """Explain a provider's exception, by the status it carries."""
    status = getattr(error, "status_code", None)
    reason = " ".join(str(error).split())[:300] or type(error).__name__
    match status:
        case 401 | 403:
            return ProviderError("provider.wrong_key", status=status)
        case 404:
            return ProviderError("embedder.not_found", setting=setting)
        case 429:
            return ProviderError("provider.rate_limit", retryable=True, tries=TRIES)
        case int() if status == 408 or status >= 500:
            return ProviderError("provider.server", retryable=True, status=status)
        case int() if status >= 400:
            return ProviderError("provider.refused", status=status, reason=reason)
        case _:
            pass
    # The clients of the providers share these names, not their classes.
    names = {kind.__name__ for kind in type(error).__mro__}
    if not names.isdisjoint({"APIConnectionError", "TransportError", "ClientConnectionError", "OSError"}):
        return ProviderError("provider.connection", retryable=True)
    if isinstance(error, (ValueError, TypeError, LookupError, AttributeError)):
        return ProviderError("provider.bad_answer", retryable=True, reason=reason)
    return ProviderError("provider.failed", reason=reason)


def _checked(vectors: list[list[float]], count: int) -> list[list[float]]:
    """Refuse an answer that cannot be stored: too few vectors, uneven or not of finite numbers."""
    if len(vectors) != count:
        raise ProviderError(
            "provider.bad_answer",
            retryable=True,
            reason=Reason("vector_count", count=len(vectors), texts=count),
        )
    widths = {len(vector) for vector in vectors}
    if 0 in widths or len(widths) > 1:
        raise ProviderError(
            "provider.bad_answer", retryable=True, reason=Reason("vector_lengths", lengths=sorted(widths))
        )
    if not all(math.isfinite(number) for vector in vectors for number in vector):
        raise ProviderError("provider.bad_answer", retryable=True, reason=Reason("not_finite"))
    return vectors
