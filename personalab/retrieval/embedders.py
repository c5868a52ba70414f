"""Choice of the embedder for a setting such as ``openai:text-embedding-3-small``."""

from __future__ import annotations

from pathlib import Path

from personalab.errors import ProviderError, Reason
from personalab.ports import Embedder

VECTORS = Path(__file__).parent / "vectors"


def open_embedder(setting: str, *, api_key: str | None, base_url: str | None) -> Embedder:
    """Open the embedder of a setting: ``offline``, ``openai:NAME``, or ``provider:NAME`` by LangChain."""
    provider, _, model = setting.strip().partition(":")
    if provider == "offline" and not model:
        from personalab.retrieval.offline_embedder import OfflineEmbedder

        return OfflineEmbedder(VECTORS)
    if not provider or not model:
        raise ProviderError("embedder.unknown", setting=setting, reason=Reason("not_provider_model"))
    from personalab.retrieval.langchain_embedder import open_openai, open_other

    if provider == "openai":
        return open_openai(model, api_key=api_key, base_url=base_url)
    return open_other(provider, model)
