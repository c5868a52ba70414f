"""Embedders: the choice for a setting such as ``openai:text-embedding-3-small``, and those of LangChain packages."""

from __future__ import annotations

import math
import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from personalab.errors import ProviderError, Reason
from personalab.ports import Embedder

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings


VECTORS = Path(__file__).parent / "vectors"


def open_embedder(setting: str, *, api_key: str | None, base_url: str | None) -> Embedder:
    """Open the embedder of a setting: ``offline``, ``openai:NAME``, or ``provider:NAME`` by LangChain."""
    provider, _, model = setting.strip().partition(":")
    if provider == "offline" and not model:
        from personalab.retrieval.offline_embedder import OfflineEmbedder

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
