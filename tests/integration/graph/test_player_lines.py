"""A reply ends where the model begins to write the player's lines."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from personalab.providers.chat_models import open_model
from personalab.providers.model_settings import ModelSettings
from personalab.services import Services
from personalab.testing.scripted import ScriptedModel
from tests.support.graph.turns import lines, only, say
from tests.support.openai_server import OpenAIServer, hangs_after

pytestmark = pytest.mark.anyio
Answer = Callable[..., ScriptedModel]


@pytest.mark.parametrize("line", ["玩家：我答应你。", "User: I will.", "小岚（低声）：走吧。"])
async def test_reply_ends_before_a_line_for_the_player(
    services: Services, instance: str, answer_with: Answer, line: str
) -> None:
    services.preferences.change({"preferences.player_name": "小岚"})
    answer_with(f"（点头）我认得他。\n\n{line}\n\n（笑）很好。")

    events, result = await say(services, "你认识他吗？")

    assert (result["status"], result["reply"], result["truncated"]) == ("done", "（点头）我认得他。", False)
    assert lines(services)[-1]["content"] == "（点头）我认得他。"
    assert "".join(event["text"] for event in only(events, "token")) == "（点头）我认得他。"


async def test_model_is_not_waited_for_after_that(
    services: Services, instance: str, server: OpenAIServer
) -> None:
    server.script(hangs_after("我认得他。\n玩", "家", "：", "是吗？"))
    settings = ModelSettings(base_url=server.url, max_tries=1, stall_seconds=100_000)
    services.models["rehearsal"] = open_model("openai:some-model", settings=settings)

    _, result = await say(services, "你认识他吗？")

    assert (result["status"], result["reply"]) == ("done", "我认得他。")
    assert server.client_left.wait(60)


async def test_a_reply_that_begins_with_the_player_is_kept(
    services: Services, instance: str, answer_with: Answer
) -> None:
    answer_with("玩家：你认识他吗？\nAlserqi：认识。\n玩家：那就好。")

    _, result = await say(services, "你认识他吗？")

    assert result["reply"] == "玩家：你认识他吗？\nAlserqi：认识。"


async def test_a_character_of_that_name_may_speak(
    services: Services, instance: str, answer_with: Answer
) -> None:
    services.preferences.change({"preferences.player_name": "Alserqi"})
    answer_with("好。\nAlserqi：走吧。")

    _, result = await say(services, "走吗？")

    assert result["reply"] == "好。\nAlserqi：走吧。"
