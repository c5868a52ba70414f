"""Turns with a model behind HTTP: one that misbehaves in every way, and a real small one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from personalab.providers.chat_models import open_model
from personalab.providers.local import start_server
from personalab.providers.model_settings import ModelSettings
from personalab.services import Services
from tests.support.graph.turns import lines, only, play, plot, say
from tests.support.openai_server import (
    CONTEXT_OVERFLOWS,
    Behaviour,
    OpenAIServer,
    cuts_after,
    ends_after,
    errs_after,
    garbles_after,
    hangs_after,
    refuses,
    says,
)

pytestmark = pytest.mark.anyio
SETTINGS = ModelSettings(max_tries=2, backoff_seconds=0.01)


@pytest.fixture
def online(services: Services, server: OpenAIServer) -> OpenAIServer:
    """A server that answers the turns of this test."""
    _connect(services, server, SETTINGS)
    return server


def _connect(services: Services, server: OpenAIServer, settings: ModelSettings) -> None:
    settings = replace(settings, api_key="sk-secret-123", base_url=server.url)
    services.models["rehearsal"] = open_model("openai:some-model", settings=settings)


@pytest.mark.parametrize(
    ("behaviour", "code", "kept", "retryable"),
    [
        (refuses(429, headers={"Retry-After": "0"}), "provider.rate_limit", "", True),
        (refuses(401), "provider.wrong_key", "", False),
        (refuses(500), "provider.server", "", True),
        (next(iter(CONTEXT_OVERFLOWS.values())), "provider.context_overflow", "", False),
        (cuts_after("我当然", "记得。"), "provider.connection", "我当然记得。", True),
        (
            errs_after("我当然", error={"message": "boom", "code": "server_error"}),
            "provider.mid_stream",
            "我当然",
            True,
        ),
        (ends_after("我当然"), "provider.no_finish", "我当然", True),
        (garbles_after("我当然"), "provider.bad_answer", "我当然", True),
        (hangs_after("我当然"), "provider.stall", "我当然", True),
        (hangs_after(), "provider.stall", "", True),
    ],
)
async def test_each_failure_ends_the_turn_as_the_spec_says(
    services: Services,
    instance: str,
    online: OpenAIServer,
    behaviour: Behaviour,
    code: str,
    kept: str,
    retryable: bool,
) -> None:
    online.script(behaviour)
    if code == "provider.stall":
        limit = {"stall_seconds": 0.3} if kept else {"first_token_seconds": 0.3}
        _connect(services, online, replace(SETTINGS, **limit))
    events, result = await say(services, "在吗？")
    error = only(events, "error")[0]
    assert (error["code"], result["status"]) == (code, "error")
    if code != "provider.mid_stream" and code != "provider.bad_answer":
        assert error["retryable"] is retryable
    last = lines(services)[-1]
    assert last["content"] == (f"{kept}\n" if kept else "") + f"(系统错误: {error['message']})"
    assert last["error"] is True
    assert plot(services)["no_update_count"] == 1
    assert "sk-secret" not in str(events) + str(lines(services))
    _connect(services, online, SETTINGS)
    online.script(says("好", "的。"))
    _, again = await play(services, {"instance_id": instance, "action": "retry"})
    assert (again["status"], again["turn"], again["reply"]) == ("done", 1, "好的。")


async def test_the_rate_limit_is_waited_out_and_the_reply_is_whole(
    services: Services, instance: str, online: OpenAIServer
) -> None:
    online.script(refuses(429, headers={"Retry-After": "0"}), says("好", "。"))
    _, result = await say(services, "在吗？")
    assert (result["status"], result["reply"]) == ("done", "好。")
    assert result["usage"] is not None
    assert result["usage"]["output_tokens"] > 0
    assert len(online.requests) == 2
    sent = online.requests[-1].body["messages"]
    assert [message["role"] for message in sent] == ["system", "user"]


async def test_a_real_model_plays_a_turn_in_both_ways(services: Services, gguf_path: Path) -> None:
    settings = ModelSettings(local_context=2048, local_threads=1, max_output_tokens=16, temperature=0.0)
    local = start_server(gguf_path, settings.local_context, threads=1)
    over_http = replace(settings, api_key=local.key, base_url=f"{local.url}/v1")
    character = services.stories.character("char_maren")
    for name, chosen in ((f"local:{gguf_path}", settings), ("openai:smollm2", over_http)):
        services.models["rehearsal"] = open_model(name, settings=chosen)
        instance_id = services.stories.create_instance(character, None, None, "t").instance_id
        events, result = await say(services, "Good evening, keeper. How is the sea tonight?", instance_id)
        assert result["status"] == "done", result["error"]
        assert len(only(events, "token")) > 3
        assert lines(services, instance_id)[-1]["content"] == result["reply"]
        assert result["usage"]["output_tokens"] <= 16
