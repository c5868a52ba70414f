"""What is wrong with a request is told by the name of the field, in the reader's language."""

from __future__ import annotations

import re

import httpx
import pytest
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError

from personalab.serving.access import GuardedPaths
from web.errors import add_error_handlers

pytestmark = pytest.mark.anyio
JSON = {"content-type": "application/json"}
STORIES = "/api/instances"
ENGLISH = re.compile(r"\b(should|error|permitted|required|valid|parsing)\b", re.IGNORECASE)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (STORIES, b"", "body"),
        (STORIES, b"[]", "body"),
        (STORIES, b'{"character_id": "a"} x', "body"),
        (STORIES, b'{"character_id": "\xff"}', "body"),
        (STORIES, b'{"character_id": ' + b"[" * 100_000, "body"),
        (STORIES, b'{"greeting": ' + b"9" * 5_000 + b"}", "body"),
        (STORIES, b"{}", "character_id"),
        (STORIES, b'{"character_id": "\\ud800"}', "character_id"),
        (STORIES, b'{"character_id": "a/b"}', "character_id"),
        (STORIES, b'{"character_id": "a", "greeting": -1}', "greeting"),
        (STORIES, b'{"character_id": "a", "greeting": NaN}', "greeting"),
        (STORIES, b'{"character_id": "a", "color": "red"}', "color"),
        ("/api/login", b'{"token": ""}', "token"),
        ("/api/login", b'{"token": "' + b"a" * 5_000 + b'"}', "token"),
        ("/api/import?name=" + "a" * 1_001, b"x", "name"),
    ],
)
async def test_a_request_that_cannot_be_read_is_told_where_it_is_wrong(
    app_client: httpx.AsyncClient, path: str, body: bytes, field: str
) -> None:
    for language, words in (("en", f"{field} of the request"), ("zh", f"请求的 {field} 不对")):
        await app_client.put("/api/settings", json={"values": {"preferences.language": language}})
        answer = await app_client.post(path, content=body, headers=JSON)
        error = answer.json()["error"]
        assert (answer.status_code in (400, 422), error["code"]) == (True, "bad_request"), answer.text
        assert error["message"].startswith(words)
    assert not ENGLISH.search(error["message"])


async def test_a_long_reason_is_cut() -> None:
    app = FastAPI()
    add_error_handlers(app, GuardedPaths())

    @app.get("/api/long")
    def refuse() -> None:  # pyright: ignore[reportUnusedFunction] (the decorator uses it)
        raise RequestValidationError([{"type": "value_error", "loc": ("body", "a"), "msg": "x" * 1_000}])

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        answer = await client.get("/api/long")
    assert answer.status_code == 422
    assert answer.json()["error"]["message"].count("x") == 300
