"""The page's texts, as a browser fetches them."""

from __future__ import annotations

import httpx
import pytest

from personalab.i18n import catalogue, languages

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("language", languages())
async def test_a_browser_fetches_one_language(app_client: httpx.AsyncClient, language: str) -> None:
    answer = await app_client.get(f"/page/texts/{language}.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-cache"
    told = answer.json()
    assert told["language"] == language
    assert told["views"] == catalogue(language)["page"]
    assert [known["code"] for known in told["languages"]] == list(languages())


@pytest.mark.parametrize(
    ("tag", "language"),
    [("zh-CN", "zh"), ("zh-Hant-TW", "zh"), ("en-GB", "en"), ("de", "en")],
)
async def test_a_browsers_language_is_answered_by_the_one_that_fits(
    app_client: httpx.AsyncClient, tag: str, language: str
) -> None:
    assert (await app_client.get(f"/page/texts/{tag}.json")).json()["language"] == language


async def test_texts_that_a_browser_has_are_not_sent_again(app_client: httpx.AsyncClient) -> None:
    first = await app_client.get("/page/texts/en.json")
    again = await app_client.get("/page/texts/en.json", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert (await app_client.post("/page/texts/en.json", json={})).status_code == 405
