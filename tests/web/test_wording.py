"""What the terminal calls by a command, a page calls by a place."""

from __future__ import annotations

import re

import httpx
import pytest

from personalab.texts import TEXTS
from web.wording import for_page

pytestmark = pytest.mark.anyio
ELSEWHERE = re.compile(r"personalab (?:reindex|doctor|archive|lab cli|lab recompose)")
"""What a page does not do."""


def test_a_message_names_a_command_only_where_a_page_has_no_place_for_it() -> None:
    for code, text in TEXTS.items():
        for language, message in (("zh", text.zh), ("en", text.en)):
            said = for_page(message, language)  # pyright: ignore[reportArgumentType] (the two there are)
            assert "personalab " not in ELSEWHERE.sub("", said), (code, said)


async def test_an_error_of_the_api_names_places(app_client: httpx.AsyncClient) -> None:
    answer = await app_client.get("/api/instances/nobody")
    assert answer.json()["error"]["message"] == "没有实例 nobody；用 故事库 查看，或用 “新故事” 新建"
    await app_client.put("/api/settings", json={"values": {"preferences.language": "en"}})
    answer = await app_client.get("/api/instances/nobody")
    assert (
        answer.json()["error"]["message"]
        == "There is no instance nobody; see the library, or make one with “New story”"
    )
