"""Clients that announce sampling and refuse it are asked once, and leave no error in the story."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    CreateMessageRequestParams,
    CreateMessageResult,
    ErrorData,
    ImageContent,
    Implementation,
)

from mcp_server.server import PersonaServer, build_server
from personalab.services import Services
from personalab.settings import read_settings
from tests.integration.mcp_server.conftest import Mode
from tests.support.clients.running import HTTP_SERVER, serving, world
from tests.support.graph.turns import lines
from tests.support.mcp_server.calls import Sampler, call
from tests.support.mcp_server.scribes import Scribe, as_host, tell_story

pytestmark = pytest.mark.anyio
Refusal = Callable[[], Any]


def _raise() -> Any:
    raise MCPError(code=INTERNAL_ERROR, message="the callback broke")


def _picture() -> CreateMessageResult:
    content = ImageContent(type="image", data="aGk=", mime_type="image/png")
    return CreateMessageResult(role="assistant", content=content, model="the client's")


REFUSALS: dict[str, Refusal] = {
    "unsupported": lambda: ErrorData(code=METHOD_NOT_FOUND, message="Method not found"),
    "no model": lambda: ErrorData(code=INVALID_REQUEST, message="No model client available for sampling."),
    "denied": lambda: ErrorData(code=INTERNAL_ERROR, message="Sampling denied"),
    "rejected": lambda: ErrorData(code=-1, message="User rejected sampling request"),
    "broken": _raise,
    "picture": _picture,
}


class Refuser:
    """A client's own model that never answers; it counts how often it was asked."""

    def __init__(self, refusal: Refusal) -> None:
        self.asked = 0
        self._refusal = refusal

    async def __call__(self, context: Any, params: CreateMessageRequestParams) -> Any:
        """Refuse."""
        self.asked += 1
        return self._refusal()


async def call_until_answered(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool; a client of the newer protocol whose model refuses sees its own error first, and calls again."""
    try:
        return await call(client, tool, **arguments)
    except (MCPError, ExceptionGroup):
        return await call(client, tool, **arguments)


def check_stand_in(found: dict[str, Any]) -> None:
    """Check that the stand-in wrote the reply, and that the host is told how to write itself."""
    assert found["status"] == "done"
    assert [warning["category"] for warning in found["warnings"]] == ["rehearsal"]
    assert "persona_begin_turn" in found["warnings"][0]["message"]


def check_story(services: Services, *texts: str) -> None:
    """Check that a story has these turns, each with one whole reply."""
    said = lines(services)[1:]
    assert [(line["role"], line["turn"]) for line in said] == [
        (role, number) for number in range(1, len(texts) + 1) for role in ("user", "assistant")
    ]
    assert [line["content"] for line in said[::2]] == list(texts)
    assert not [line for line in said if line.keys() & {"error", "interrupted", "empty"}]


@pytest.mark.parametrize("kind", REFUSALS)
async def test_refused_sampling_falls_back_once_and_for_the_session(
    server: PersonaServer, services: Services, instance: str, mode: Mode, kind: str
) -> None:
    refuser = Refuser(REFUSALS[kind])
    async with Client(server, mode=mode, sampling_callback=refuser) as client:
        for text in ("你好", "在吗", "再见"):
            found = await call_until_answered(client, "persona_chat", instance_id=instance, text=text)
            check_stand_in(found)
    assert refuser.asked == 1
    check_story(services, "你好", "在吗", "再见")


@pytest.mark.parametrize("again", [{"request_id": "r"}, {}])
async def test_repeated_call_after_refusal_answers_the_same_turn(
    server: PersonaServer, services: Services, instance: str, again: dict[str, str]
) -> None:
    refuser = Refuser(REFUSALS["rejected"])
    asked = {"instance_id": instance, "text": "你好", **again}
    async with Client(server, sampling_callback=refuser) as client:
        with pytest.raises(MCPError, match="User rejected"):
            await client.call_tool("persona_chat", asked)
        check_stand_in(await call(client, "persona_chat", **asked))
    check_story(services, "你好")


async def test_retry_after_refusal_answers_the_turn(
    server: PersonaServer, services: Services, instance: str
) -> None:
    async with Client(server, sampling_callback=Refuser(REFUSALS["denied"])) as client:
        with pytest.raises(MCPError, match="denied"):
            await client.call_tool("persona_chat", {"instance_id": instance, "text": "你好"})
        check_stand_in(await call(client, "persona_retry", instance_id=instance))
    check_story(services, "你好")


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("tool", ["persona_chat", "persona_begin_turn"])
async def test_client_that_refused_can_go_on_with_other_words(
    server: PersonaServer, services: Services, instance: str, tool: str
) -> None:
    refuser = Refuser(REFUSALS["denied"])
    async with Client(server, sampling_callback=refuser) as client:
        with pytest.raises(MCPError, match="denied"):
            await client.call_tool("persona_chat", {"instance_id": instance, "text": "你好"})
        found = await call(client, tool, instance_id=instance, text="别的")
        assert found["turn"] == 2
        if tool == "persona_begin_turn":
            await call(client, "persona_end_turn", instance_id=instance, turn=2, reply="好。")
        check_stand_in(await call(client, "persona_chat", instance_id=instance, text="再见"))
    assert refuser.asked == 1
    said = [(line["role"], line["turn"]) for line in lines(services)[1:]]
    assert said == [("user", 1), ("user", 2), ("assistant", 2), ("user", 3), ("assistant", 3)]


async def test_call_made_again_without_an_answer_falls_back(
    server: PersonaServer, services: Services, instance: str
) -> None:
    asked = {"instance_id": instance, "text": "你好"}
    async with Client(server, sampling_callback=Sampler()) as client:
        question: Any = await client.session.call_tool("persona_chat", asked, allow_input_required=True)
        found = await client.session.call_tool("persona_chat", asked, request_state=question.request_state)
        check_stand_in(found.structured_content or {})
        check_stand_in(await call(client, "persona_chat", instance_id=instance, text="再见"))
    check_story(services, "你好", "再见")


async def test_slow_client_counts_as_refusing(
    server: PersonaServer, services: Services, instance: str
) -> None:
    server.desk.sampling.seconds = 0.0
    sampler = Sampler("too late", "too late")
    async with Client(server, mode="legacy", sampling_callback=sampler) as client:
        check_stand_in(await call(client, "persona_chat", instance_id=instance, text="你好"))
        check_stand_in(await call(client, "persona_chat", instance_id=instance, text="再见"))
    check_story(services, "你好", "再见")


async def test_refusal_of_one_client_says_nothing_about_another(
    server: PersonaServer, services: Services, instance: str, mode: Mode
) -> None:
    refuser, sampler = Refuser(REFUSALS["denied"]), Sampler("好。")
    other = Implementation(name="other", version="1")
    async with (
        Client(server, mode=mode, sampling_callback=refuser) as first,
        Client(server, mode=mode, sampling_callback=sampler, client_info=other) as second,
    ):
        await call_until_answered(first, "persona_chat", instance_id=instance, text="你好")
        found = await call(second, "persona_chat", instance_id=instance, text="在吗")
    assert (found["reply"], found["warnings"]) == ("好。", [])
    check_story(services, "你好", "在吗")


async def test_chosen_stand_in_never_asks_the_client(services: Services, instance: str, mode: Mode) -> None:
    services.settings = replace(services.settings, model="rehearsal", model_chosen=True)
    refuser = Refuser(REFUSALS["denied"])
    async with Client(build_server(services), mode=mode, sampling_callback=refuser) as client:
        found = await call(client, "persona_chat", instance_id=instance, text="你好")
        check_stand_in(found)
        assert "PERSONALAB_MODEL" in found["warnings"][0]["message"]
        tell_story(services, 3)
        waiting = await call(client, "persona_summarize", instance_id=instance)
    assert waiting["status"] == "awaiting_answer"
    assert refuser.asked == 0


def test_model_is_chosen_only_by_its_variable(tmp_path: Path) -> None:
    data = {"PERSONALAB_DATA": str(tmp_path)}
    assert read_settings({**data, "PERSONALAB_MODEL": "rehearsal"}).model_chosen
    assert not read_settings(data).model_chosen
    assert not read_settings({**data, "PERSONALAB_MODEL": "", "OPENAI_API_KEY": "k"}).model_chosen


@pytest.mark.parametrize("kind", REFUSALS)
async def test_summary_that_a_client_refuses_to_write_is_left_to_the_host(
    server: PersonaServer, services: Services, instance: str, mode: Mode, kind: str
) -> None:
    tell_story(services, 30)
    refuser = Refuser(REFUSALS[kind])
    async with Client(server, mode=mode, sampling_callback=refuser) as client:
        waiting = await call_until_answered(client, "persona_summarize", instance_id=instance)
        assert waiting["status"] == "awaiting_answer"
        done, _ = await as_host(client, "persona_summarize", Scribe(), instance_id=instance)
        check_stand_in(await call(client, "persona_chat", instance_id=instance, text="再见"))
    assert done["status"] == "done"
    assert refuser.asked == 1


async def test_client_over_http_is_remembered_without_a_session(tmp_path: Path) -> None:
    environment = world(tmp_path)
    refuser = Refuser(REFUSALS["rejected"])
    with serving(HTTP_SERVER, environment) as running:
        for text in ("Hello?", "Still there?"):
            async with Client(running.url, sampling_callback=refuser) as client:
                if text == "Hello?":
                    begun = {"character_id": "char_maren", "instance_id": "tale"}
                    await call(client, "persona_new_instance", **begun)
                check_stand_in(
                    await call_until_answered(client, "persona_chat", instance_id="tale", text=text)
                )
    assert refuser.asked == 1
    path = tmp_path / "data" / "instances" / "tale" / "sessions" / "sess_001.jsonl"
    said = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()][1:]
    assert [(line["role"], line["turn"]) for line in said] == [
        ("user", 1),
        ("assistant", 1),
        ("user", 2),
        ("assistant", 2),
    ]
    assert not [line for line in said if "error" in line]
