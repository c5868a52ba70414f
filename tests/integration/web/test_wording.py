"""Errors of the API name places of the page."""

from __future__ import annotations

import httpx
import pytest

pytestmark = pytest.mark.anyio


async def test_an_error_of_the_api_names_places(app_client: httpx.AsyncClient) -> None:
    answer = await app_client.get("/api/instances/nobody")
    assert answer.json()["error"]["message"] == "没有实例 nobody；用 故事库 查看，或用 “新故事” 新建"
    await app_client.put("/api/settings", json={"values": {"preferences.language": "en"}})
    answer = await app_client.get("/api/instances/nobody")
    assert (
        answer.json()["error"]["message"]
        == "There is no instance nobody; see the library, or create one with “New story”"
    )
