"""Resources, their completion and update notifications; prompts; what the server says of itself."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    PromptReference,
    ResourceTemplateReference,
    ResourceUpdatedNotification,
    TextContent,
    TextResourceContents,
)

from graph.chat_turn import run_turn
from mcp_server.server import PersonaServer, build_server, check_toolsets
from personalab.errors import UserError
from personalab.operations.instances import new_instance
from personalab.services import Services, open_services
from personalab.settings import read_settings
from tests.conftest import PROJECT
from tests.integration.mcp_server.conftest import Mode
from tests.support.mcp_server.calls import CHAT, MEMORY, call

pytestmark = pytest.mark.anyio


async def _text(client: Client, uri: str) -> str:
    content = (await client.read_resource(uri)).contents[0]
    assert isinstance(content, TextResourceContents)
    return content.text


LAB = [
    *("skill_list", "skill_get", "skill_save", "skill_tag", "baseline_list", "baseline_get", "baseline_save"),
    *("project_create", "project_run", "project_status", "project_report", "analysis_run", "skill_recompose"),
    *("iteration_start", "iteration_stop", "leaderboard_query"),
]


async def test_the_tools_are_those_that_are_built_in_a_stable_order(services: Services, mode: Mode) -> None:
    for toolsets, names in (
        (("chat", "memory"), [*CHAT, *MEMORY]),
        (("memory", "chat"), [*CHAT, *MEMORY]),
        (("chat",), CHAT),
        (("memory",), MEMORY),
        (("lab",), LAB),
    ):
        async with Client(build_server(services, toolsets), mode=mode) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == names
    with pytest.raises(UserError, match="nonsense"):
        check_toolsets(["chat", "nonsense"])


async def test_the_server_names_itself_and_teaches_how_to_play(services: Services, mode: Mode) -> None:
    for language, word in (("zh", "怎样玩"), ("en", "How to play")):
        services.preferences.change({"language": language})
        async with Client(build_server(services), mode=mode) as client:
            info, said = client.server_info, client.instructions or ""
            assert info is not None
            version = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
            assert (info.name, info.title, info.version) == ("personalab", "PersonaLab", version)
            assert word in said
            for tool in ("persona_begin_turn", "persona_end_turn", "persona_chat", "request_id"):
                assert tool in said
            titles = {tool.name: tool.title for tool in (await client.list_tools()).tools}
            assert (
                titles["persona_stop"] == {"zh": "停止正在写的回复", "en": "Stop the current reply"}[language]
            )


async def test_every_address_can_be_read_listed_and_completed(
    server: PersonaServer, services: Services, instance: str, mode: Mode
) -> None:
    await run_turn(services, {"instance_id": instance, "user_input": "你好"})
    base = f"persona://instances/{instance}"
    async with Client(server, mode=mode) as client:
        state = json.loads(await _text(client, base))
        assert (state["instance_id"], state["sessions"]) == (instance, ["sess_001"])
        assert "你好" in await _text(client, f"{base}/sessions/sess_001")
        assert "=== 角色初始人格 ===" in await _text(client, f"{base}/prompt")
        assert json.loads(await _text(client, "persona://characters/char_maren"))["name"] == "Maren"
        outline = json.loads(await _text(client, "persona://backgrounds/bg_wasteland"))["story_outline"]
        assert len(outline) == 5
        listed = {str(found.uri) for found in (await client.list_resources()).resources}
        assert {base, f"{base}/sessions/sess_001", "persona://characters/char_alserqi"} <= listed
        templates = (await client.list_resource_templates()).resource_templates
        assert len(templates) == 5
        for template in templates:
            ref = ResourceTemplateReference(type="ref/resource", uri=template.uri_template)
            for name in ("instance_id", "session_id", "character_id", "background_id"):
                if f"{{{name}}}" in template.uri_template:
                    known = {"instance_id": instance} if name == "session_id" else None
                    found = await client.complete(ref, {"name": name, "value": ""}, known)
                    assert found.completion.values
        ref = PromptReference(type="ref/prompt", name="recap")
        found = await client.complete(ref, {"name": "instance_id", "value": "inst"})
        assert found.completion.values == [instance]
        assert not (await client.complete(ref, {"name": "instance_id", "value": "zzz"})).completion.values


@pytest.mark.parametrize(
    "uri",
    [
        "persona://instances/nope",
        "persona://instances/inst_001/sessions/sess_999",
        "persona://instances/..%2f..%2fetc/sessions/passwd",
        "persona://characters/..%2Fx",
        "persona://characters/con",
        "persona://nothing/here",
        "file:///etc/passwd",
    ],
)
async def test_an_address_of_nothing_is_the_callers_to_mend(
    server: PersonaServer, instance: str, mode: Mode, uri: str
) -> None:
    async with Client(server, mode=mode) as client:
        with pytest.raises(MCPError) as error:
            await client.read_resource(uri)
    assert error.value.error.code == INVALID_PARAMS


async def test_many_stories_are_listed_page_by_page(services: Services, mode: Mode) -> None:
    for number in range(150):
        await new_instance(services, "char_maren", None, f"story{number}")
    async with Client(build_server(services), mode=mode) as client:
        seen: list[str] = []
        cursor = None
        while True:
            page = await client.list_resources(cursor=cursor)
            seen += [str(found.uri) for found in page.resources]
            cursor = page.next_cursor
            if cursor is None:
                break
        with pytest.raises(MCPError):
            await client.list_resources(cursor="nonsense")
    assert len(seen) == len(set(seen)) == 1 + 300 + 4


async def test_a_modern_client_hears_of_a_story_that_changed_here_or_elsewhere(
    server: PersonaServer, services: Services, instance: str, root: Any
) -> None:
    uri = f"persona://instances/{instance}"
    elsewhere = open_services(read_settings({"PERSONALAB_DATA": str(root)}))
    async with Client(server, mode="auto") as client, client.listen(resource_subscriptions=[uri]) as events:
        heard = aiter(events)
        await call(client, "persona_chat", instance_id=instance, text="你好")
        with anyio.fail_after(60):
            assert str(getattr(await anext(heard), "uri", "")) == uri
        turn = await run_turn(elsewhere, {"instance_id": instance, "user_input": "在吗"})
        assert turn.get("turn") == 2
        with anyio.fail_after(60):
            assert str(getattr(await anext(heard), "uri", "")) == uri


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
async def test_an_older_client_hears_of_what_it_subscribed_to(
    server: PersonaServer, services: Services, instance: str, root: Any
) -> None:
    uri = f"persona://instances/{instance}/sessions/sess_001"
    heard: list[str] = []
    news = anyio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            heard.append(str(message.params.uri))
            news.set()

    elsewhere = open_services(read_settings({"PERSONALAB_DATA": str(root)}))
    async with Client(server, mode="legacy", message_handler=hear) as client:
        capabilities = client.server_capabilities
        assert capabilities.resources is not None
        assert capabilities.resources.subscribe
        await client.subscribe_resource(uri)  # pyright: ignore[reportDeprecated] (the older way, on purpose)
        await call(client, "persona_chat", instance_id=instance, text="你好")
        with anyio.fail_after(60):
            await news.wait()
        news = anyio.Event()
        await run_turn(elsewhere, {"instance_id": instance, "user_input": "在吗"})
        with anyio.fail_after(60):
            await news.wait()
        await client.unsubscribe_resource(uri)  # pyright: ignore[reportDeprecated] (as above)
    assert set(heard) == {uri}
    assert not server.desk.updates.anyone


async def test_the_prompts_begin_a_story_and_look_back_at_one(
    server: PersonaServer, services: Services, instance: str, mode: Mode
) -> None:
    await run_turn(services, {"instance_id": instance, "user_input": "灯塔在哪里"})

    async def ask(name: str, **arguments: str) -> str:
        content = (await client.get_prompt(name, arguments)).messages[0].content
        assert isinstance(content, TextContent)
        return content.text

    async with Client(server, mode=mode) as client:
        prompts = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
        assert list(prompts) == ["play", "recap"]
        assert [argument.required for argument in prompts["recap"].arguments or []] == [True]
        chosen = await ask("play")
        assert "char_alserqi" in chosen
        assert "persona_begin_turn" in chosen
        assert "Maren" in await ask("play", character_id="char_maren", background_id="bg_lighthouse")
        assert "灯塔在哪里" in await ask("play", instance_id=instance)
        assert "灯塔在哪里" in await ask("recap", instance_id=instance)
        for name, arguments in (
            ("recap", {}),
            ("recap", {"instance_id": "nope"}),
            ("play", {"character_id": "../x"}),
            ("play", {"nonsense": "x"}),
            ("nonsense", {}),
        ):
            with pytest.raises(MCPError) as error:
                await client.get_prompt(name, arguments)
            assert error.value.error.code == INVALID_PARAMS


async def test_an_unknown_tool_is_a_protocol_error_that_names_those_there_are(
    server: PersonaServer, mode: Mode
) -> None:
    async with Client(server, mode=mode) as client:
        with pytest.raises(MCPError, match="persona_chat") as error:
            await client.call_tool("persona_sing", {})
    assert error.value.error.code == INVALID_PARAMS
