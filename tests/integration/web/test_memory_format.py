"""The memory format's own requests and answers, over real HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from personalab.operations.memory import add_entry
from personalab.services import Services
from tests.support.web.fixtures import Live

pytestmark = pytest.mark.anyio
SESSION = "6a2f41a3-c54c-4ce8-8b8a-8a4f0c9d8a01"
REQUEST: dict[str, Any] = {
    "agent_id": "agent_001",
    "user_id": "user_001",
    "messages": [
        {"role": "user", "content": "用户消息内容"},
        {"role": "assistant", "content": "AI助手回复内容"},
    ],
    "session_id": SESSION,
    "memory_id": "0b6f5a57-6f6c-4b5a-9f83-4a1f7f0c1b02",
}
PATH = "/api/memory/conversations"
PAIR = {"agent_id": "agent_001", "user_id": "user_001"}


async def _save(client: httpx.AsyncClient, **changes: Any) -> httpx.Response:
    given = {**REQUEST, **changes}
    return await client.post(PATH, json={name: value for name, value in given.items() if value is not ...})


async def test_a_conversation_is_saved_and_read_in_the_formats_shape(live: Live, services: Services) -> None:
    saved = await _save(live.client)
    assert saved.status_code == 201, saved.text
    answer = saved.json()
    assert answer == {
        "success": True,
        "message": "Conversation saved successfully",
        "conversation_id": answer["conversation_id"],
        "session_id": SESSION,
        "created_at": services.now(),
        "message_count": 2,
    }
    found = (await live.client.get(f"{PATH}/{answer['conversation_id']}")).json()
    assert {name: found[name] for name in ("agent_id", "user_id", "session_id", "turn_count")} == {
        **PAIR,
        "session_id": SESSION,
        "turn_count": 2,
    }
    assert found["memory_id"] == REQUEST["memory_id"]
    assert found["pipeline_result"] is None
    assert [sorted(message) for message in found["messages"]] == [
        ["content", "created_at", "message_id", "message_index", "role"]
    ] * 2
    listed = (await live.client.get(PATH, params=PAIR)).json()["conversations"]
    assert [(one["session_id"], one["memory_id"]) for one in listed] == [(SESSION, REQUEST["memory_id"])]


async def test_saving_the_same_conversation_again_changes_nothing(live: Live) -> None:
    first, second = (await _save(live.client)).json(), (await _save(live.client)).json()
    assert first == second


async def test_session_and_memory_are_generated_when_left_out(live: Live) -> None:
    answer = await _save(live.client, session_id=..., memory_id=...)
    assert answer.status_code == 201
    assert len(answer.json()["session_id"]) == 36


@pytest.mark.parametrize("field", ["agent_id", "user_id", "messages"])
async def test_a_missing_field_is_named(live: Live, field: str) -> None:
    answer = await _save(live.client, **{field: ...})
    assert answer.status_code == 422
    assert field in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"messages": [{"role": "user"}]}, "content"),
        ({"messages": [{"content": "x"}]}, "role"),
        ({"messages": [{"role": "narrator", "content": "x"}]}, "role"),
        ({"agent_id": "  "}, "agent_id"),
        ({"session_id": "session_456"}, "session_id"),
    ],
)
async def test_a_field_that_is_wrong_is_named(live: Live, changes: dict[str, Any], named: str) -> None:
    answer = await _save(live.client, **changes)
    assert answer.status_code in (400, 422)
    assert named in answer.json()["error"]["message"]
    assert (await live.client.get(PATH, params=PAIR)).json()["conversations"] == []


async def test_a_memory_has_the_formats_lists(live: Live, services: Services) -> None:
    await add_entry(services, "agent_001", "user_001", "profile", "用户是一名软件开发者")
    await add_entry(services, "agent_001", "user_001", "mind", "用户喜欢团队合作")
    memory = (await live.client.get("/api/memory", params=PAIR)).json()
    assert memory["profile_content"] == ["用户是一名软件开发者"]
    assert (memory["event_content"], memory["mind_content"]) == ([], ["用户喜欢团队合作"])
    assert memory["profile"][0]["text"] == memory["profile_content"][0]
    unknown = (await live.client.get("/api/memory", params={"agent_id": "nobody"})).json()
    assert unknown["profile_content"] == []


async def test_the_route_is_described(live: Live) -> None:
    described = (await live.client.get("/openapi.json")).json()
    post = described["paths"][PATH]["post"]
    request = post["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    required = described["components"]["schemas"][request]["required"]
    assert required == ["agent_id", "user_id", "messages"]
    assert post["responses"]["201"]
