"""Tests of embedder settings and of errors from an embedding service."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import numpy as np
import pytest

from personalab.errors import ProviderError
from personalab.retrieval.embedders import BATCH, LangChainEmbedder, open_embedder
from tests.support.openai_server import Answer, Behaviour, Cut, OpenAIServer, refuses


def vectors(*rows: list[float], encoded: bool = True) -> Behaviour:
    """Answer with vectors as OpenAI (base64) or a simpler server (numbers) does."""

    def shown(row: list[float]) -> object:
        return base64.b64encode(np.array(row, dtype="<f4").tobytes()).decode() if encoded else row

    data = [{"object": "embedding", "index": at, "embedding": shown(row)} for at, row in enumerate(rows)]
    whole = {"object": "list", "model": "m", "data": data, "usage": {"prompt_tokens": 1, "total_tokens": 1}}
    return [Answer(200, json.dumps(whole).encode())]


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """A server that speaks OpenAI's protocol."""
    with OpenAIServer() as running:
        yield running


def opened(server: OpenAIServer, key: str | None = None) -> LangChainEmbedder:
    embedder = open_embedder("openai:some-model", api_key=key, base_url=server.url)
    assert isinstance(embedder, LangChainEmbedder)
    return embedder


@pytest.mark.parametrize("encoded", [True, False])
def test_a_compatible_server_is_asked_in_plain_words(server: OpenAIServer, encoded: bool) -> None:
    server.script(vectors([1.0, 0.0], [0.0, 1.0], encoded=encoded))
    embedder = opened(server)
    assert embedder.identity == "openai:some-model"
    assert embedder.embed_documents(["灯塔", "地图"]) == [[1.0, 0.0], [0.0, 1.0]]
    request = server.requests[0]
    assert request.path == "/v1/embeddings"
    assert request.body["input"] == ["灯塔", "地图"]
    assert request.body["model"] == "some-model"


def test_the_key_is_sent_and_a_query_is_one_text(server: OpenAIServer) -> None:
    server.script(vectors([3.0, 4.0]))
    assert opened(server, "sk-secret").embed_query("灯塔") == [3.0, 4.0]
    assert server.requests[0].headers["authorization"] == "Bearer sk-secret"


def test_many_texts_go_in_requests_of_bounded_size(server: OpenAIServer) -> None:
    size = BATCH
    server.script(vectors(*[[1.0]] * size), vectors([2.0]))
    assert opened(server).embed_documents(["x"] * (size + 1)) == [[1.0]] * size + [[2.0]]
    assert [len(request.body["input"]) for request in server.requests] == [size, 1]


@pytest.mark.parametrize(
    ("behaviour", "code", "retryable"),
    [
        (refuses(401), "provider.wrong_key", False),
        (refuses(404), "embedder.not_found", False),
        (refuses(429, headers={"Retry-After": "0"}), "provider.rate_limit", True),
        (refuses(503, headers={"Retry-After": "0"}), "provider.server", True),
        (refuses(400), "provider.refused", False),
        ([Answer(200, b"<html>")], "provider.bad_answer", True),
        (vectors([1.0]), "provider.bad_answer", True),
        (vectors([1.0], [1.0, 2.0]), "provider.bad_answer", True),
        (vectors([1.0], [float("nan")]), "provider.bad_answer", True),
        ([Cut()], "provider.connection", True),
    ],
)
def test_each_failure_is_told_in_our_words(
    server: OpenAIServer, behaviour: Behaviour, code: str, retryable: bool
) -> None:
    server.script(behaviour)
    with pytest.raises(ProviderError) as failed:
        opened(server, "sk-secret").embed_documents(["灯塔", "地图"])
    assert (failed.value.code, failed.value.retryable) == (code, retryable)
    assert "sk-secret" not in str(failed.value)
    assert failed.value.message("zh")


def test_a_server_that_is_not_there_is_a_connection_error() -> None:
    with OpenAIServer() as gone:
        url = gone.url
    embedder = open_embedder("openai:m", api_key=None, base_url=url)
    with pytest.raises(ProviderError, match="connection"):
        embedder.embed_query("灯塔")


@pytest.mark.parametrize(
    ("setting", "code"),
    [
        ("openai:text-embedding-3-small", "embedder.no_key"),
        ("", "embedder.unknown"),
        ("nonsense", "embedder.unknown"),
        ("nonsense:model", "embedder.unknown"),
        ("openai:", "embedder.unknown"),
        ("cohere:embed-v4", "provider.not_installed"),
    ],
)
def test_a_setting_that_cannot_be_opened_says_what_to_do(setting: str, code: str) -> None:
    with pytest.raises(ProviderError) as refused:
        open_embedder(setting, api_key=None, base_url=None)
    assert refused.value.code == code
    assert "PERSONALAB_EMBEDDINGS" in str(refused.value) or "pip install" in str(refused.value)
