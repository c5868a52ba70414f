"""Files come in and go out over HTTP, whole or not at all."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import httpx
import pytest

from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.support.archive.making import card_png, json_bytes, v3_card
from tests.support.graph.turns import snapshot
from tests.support.web.listening import parsed

pytestmark = pytest.mark.anyio

BYTES = {"content-type": "application/octet-stream"}
CHAT = b"""{"user_name":"Me","character_name":"Kai","create_date":"2024-01-01"}
{"name":"Me","is_user":true,"mes":"Hi","send_date":"2024-01-01T10:00:00Z"}
{"name":"Kai","is_user":false,"mes":"Hello there","send_date":"2024-01-01T10:00:05Z"}
"""


async def _import(client: httpx.AsyncClient, content: Any, **query: Any) -> httpx.Response:
    return await client.post("/api/import", params=query, content=content, headers=BYTES)


def _error(answer: httpx.Response) -> str:
    return answer.json()["error"]["code"]


# --- in


async def _changed_export(client: httpx.AsyncClient) -> bytes:
    answer = await client.get(
        "/api/export", params={"kind": "character", "id": "char_maren", "format": "card-json"}
    )
    card = answer.json()
    card["data"]["description"] = "Changed elsewhere."
    return json_bytes(card)


async def test_card_with_our_id_offers_a_choice(app_client: httpx.AsyncClient) -> None:
    card = await _changed_export(app_client)
    (entry,) = (await _import(app_client, card, name="a.json")).json()["imported"]
    assert (entry["outcome"], entry["options"]) == ("exists", ["update", "copy", "skip"])
    assert (await _import(app_client, card, on_conflict="eat")).status_code == 422
    (copied,) = (await _import(app_client, card, on_conflict="copy")).json()["imported"]
    assert (copied["outcome"], copied["options"]) == ("new", [])


async def test_card_names_its_world_and_joins_its_chat(app_client: httpx.AsyncClient) -> None:
    (story,) = (await _import(app_client, CHAT, name="kai.jsonl")).json()["imported"]
    card = v3_card(name="Kai", nickname="", extensions={"world": "Harbour"})
    card["data"].pop("character_book", None)
    (entry,) = (await _import(app_client, json_bytes(card))).json()["imported"]
    assert entry["outcome"] == "joined"
    assert entry["world"] == {"name": "Harbour", "status": "missing", "background_ids": []}
    assert len(entry["notes"]) == 2
    listed = (await app_client.get("/api/instances")).json()["instances"]
    found = {one["instance_id"]: one["character"]["id"] for one in listed}
    assert found[story["id"]] == entry["id"]


async def test_world_info_keeps_the_book_name_as_file_name(app_client: httpx.AsyncClient) -> None:
    book = {"entries": {"0": {"uid": 0, "key": ["灯"], "content": "亮着。"}}}
    (entry,) = (await _import(app_client, json_bytes(book), name="北方灯塔.json")).json()["imported"]
    query = {"kind": "background", "id": entry["id"], "format": "world-info"}
    answer = await app_client.get("/api/export", params=query)
    named = answer.headers["content-disposition"].partition("filename*=UTF-8''")[2]
    assert unquote(named) == "北方灯塔.json"


async def test_a_card_comes_in_and_its_character_can_be_met(app_client: httpx.AsyncClient) -> None:
    answer = await _import(app_client, card_png(v3_card()), name="sera.png")
    assert answer.status_code == 200, answer.text
    (entry,) = answer.json()["imported"]
    assert (entry["file"], entry["kind"], entry["id"], entry["outcome"]) == (
        "sera.png",
        "character",
        "seraphina",
        "new",
    )
    assert (await app_client.post("/api/instances", json={"character_id": "seraphina"})).status_code == 201
    again = await _import(app_client, card_png(v3_card()), name="sera.png")
    assert again.json()["imported"][0]["outcome"] == "same"


async def test_a_chat_becomes_a_story_of_the_character_it_names(app_client: httpx.AsyncClient) -> None:
    answer = await _import(app_client, CHAT, name="kai.jsonl")
    (entry,) = answer.json()["imported"]
    assert (entry["kind"], entry["name"]) == ("instance", "Kai")
    assert entry["notes"], "that a character was made for it is told"
    other = await _import(app_client, CHAT, name="kai.jsonl", character="char_maren")
    listed = (await app_client.get("/api/instances")).json()["instances"]
    found = {one["instance_id"]: one["character"]["id"] for one in listed}
    assert found[other.json()["imported"][0]["id"]] == "char_maren"


async def test_a_lorebook_goes_to_whom_it_is_given(app_client: httpx.AsyncClient) -> None:
    book = json_bytes(
        {"name": "Ships", "entries": [{"keys": ["Ansgar"], "content": "A ferry.", "enabled": True}]}
    )
    given = await _import(app_client, book, name="ships.json", into="characters/char_maren")
    assert given.json()["imported"][0]["outcome"] == "given"
    assert (await app_client.get("/api/characters/char_maren")).json()["has_lorebook"]


async def test_a_long_import_is_followed_as_a_job_with_the_same_result(app_client: httpx.AsyncClient) -> None:
    begun = await _import(app_client, CHAT, name="kai.jsonl", wait=False)
    assert begun.status_code == 202, begun.text
    stream = await app_client.get(begun.json()["stream"])
    last = parsed(stream.text)[-1]
    assert last.name == "done"
    state = (await app_client.get(f"/api/jobs/{begun.json()['job_id']}")).json()
    assert state["result"]["imported"][0]["kind"] == "instance"
    refused = await _import(app_client, b"nothing", name="x.txt", wait=False)
    await app_client.get(refused.json()["stream"])
    state = (await app_client.get(f"/api/jobs/{refused.json()['job_id']}")).json()
    assert (state["status"], state["error"]["code"]) == ("error", "format_unknown")


async def test_what_cannot_come_in_is_refused_with_the_reason_and_leaves_nothing(
    app_client: httpx.AsyncClient, root: Path
) -> None:
    before = snapshot(root)
    refused: list[tuple[bytes, dict[str, str], int, str | None]] = [
        (b"", {}, 400, "file_empty"),
        (b"\xff\xd8\xff a photo", {"name": "photo.jpg"}, 400, "format_unknown"),
        (b"{" * 100_000, {}, 400, None),
        (b"PK\x03\x04 broken", {"name": "x.charx"}, 400, None),
        (b'{"sessions": [], "compacted_dialogues": []}', {}, 400, "character_needed"),
        (CHAT, {"character": "nobody"}, 404, "no_character"),
        (CHAT, {"id": "con"}, 400, "bad_id"),
        (CHAT, {"id": "../x"}, 422, "bad_request"),
        (CHAT, {"into": "../../x"}, 422, "bad_request"),
    ]
    for content, query, status, code in refused:
        answer = await _import(app_client, content, **query)
        assert answer.status_code == status, answer.text
        assert code is None or _error(answer) == code
        assert answer.json()["error"]["message"]
        assert str(root) not in answer.text
    assert snapshot(root) == before


async def test_a_body_that_a_foreign_page_could_send_without_asking_is_refused(
    app_client: httpx.AsyncClient, root: Path
) -> None:
    before = snapshot(root)
    for kind, refusal in (
        ("text/plain", (415, "form_refused")),
        ("application/json", (400, "import_type_wrong")),
        ("", (400, "import_type_wrong")),
    ):
        answer = await app_client.post("/api/import", content=CHAT, headers={"content-type": kind})
        assert (answer.status_code, _error(answer)) == refusal
    assert snapshot(root) == before


async def test_a_file_in_many_pieces_comes_in_whole(app_client: httpx.AsyncClient) -> None:
    whole = json_bytes(v3_card(creator_notes="n" * 3_000_000))

    async def pieces() -> AsyncGenerator[bytes]:
        for at in range(0, len(whole), 50_000):
            yield whole[at : at + 50_000]

    answer = await _import(app_client, pieces(), name="sera.json")
    assert answer.status_code == 200, answer.text
    left = await app_client.get(
        "/api/export", params={"kind": "character", "id": "seraphina", "format": "card-json"}
    )
    assert left.json()["data"]["creator_notes"] == "n" * 3_000_000


async def test_where_a_file_lay_is_not_kept(app_client: httpx.AsyncClient) -> None:
    for name in ("/home/me/secret/kai.jsonl", "C:\\Users\\me\\secret\\kai.jsonl"):
        answer = await _import(app_client, CHAT, name=name)
        assert answer.json()["imported"][0]["file"] == "kai.jsonl"
    listed = (await app_client.get("/api/instances")).text
    assert "secret" not in listed


# --- out


async def test_each_kind_leaves_in_each_of_its_formats_as_a_file_to_be_saved(
    app_client: httpx.AsyncClient, instance: str
) -> None:
    await _import(app_client, json_bytes(v3_card()), name="sera.json")
    for kind, entry_id in (("character", "seraphina"), ("instance", instance)):
        listed = (await app_client.get("/api/export/formats", params={"kind": kind})).json()
        for one in listed["formats"]:
            query = {"kind": kind, "id": entry_id, "format": one["format"]}
            answer = await app_client.get("/api/export", params=query)
            assert answer.status_code == 200, answer.text
            assert answer.headers["content-type"].partition(";")[0] == one["media_type"]
            named = answer.headers["content-disposition"]
            stem = "The glade" if one["format"] == "world-info" else entry_id
            assert named.startswith(f'attachment; filename="{stem}')
            assert f"filename*=UTF-8''{quote(stem)}" in named
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "sandbox" in answer.headers["content-security-policy"]


async def test_export_includes_markers_and_reasoning_only_on_request(
    app_client: httpx.AsyncClient, instance: str, answer_with: Callable[..., ScriptedModel]
) -> None:
    answer_with(ScriptedReply(("嗯。\n[PROGRESS:1:in_progress]",), reasoning=("她在试探我。",)))
    begun = await app_client.post(f"/api/instances/{instance}/turns", json={"text": "走吗？"})
    await app_client.get(begun.json()["stream"])
    query = {"kind": "instance", "id": instance, "format": "text"}
    plain = (await app_client.get("/api/export", params=query)).text
    assert ("嗯。" in plain, "[PROGRESS" in plain, "试探" in plain) == (True, False, False)
    marked = (await app_client.get("/api/export", params={**query, "markers": "true"})).text
    assert ("[PROGRESS:1:in_progress]" in marked, "试探" in marked) == (True, False)
    thought = (await app_client.get("/api/export", params={**query, "reasoning": "true"})).text
    assert ("[PROGRESS" in thought, "试探" in thought) == (False, True)
    character = {"kind": "character", "id": "char_maren", "format": "card-json", "markers": "true"}
    refused = await app_client.get("/api/export", params=character)
    assert refused.status_code == 400
    assert "markers" in refused.text


async def test_what_left_comes_back_as_the_same(app_client: httpx.AsyncClient, instance: str) -> None:
    begun = await app_client.post(f"/api/instances/{instance}/turns", json={"text": "我回来了"})
    await app_client.get(begun.json()["stream"])
    left = await app_client.get("/api/export", params={"kind": "instance", "id": instance})
    same = await _import(app_client, left.content, name="story.json")
    assert same.json()["imported"][0]["outcome"] == "same"
    other = await _import(app_client, left.content, name="story.json", id="again")
    assert other.json()["imported"][0]["id"] == "again"
    listed = {one["instance_id"]: one for one in (await app_client.get("/api/instances")).json()["instances"]}
    assert listed["again"]["last"] == listed[instance]["last"]


async def test_a_world_leaves_with_its_outline(app_client: httpx.AsyncClient) -> None:
    left = await app_client.get("/api/export", params={"kind": "background", "id": "bg_lighthouse"})
    assert "bg_lighthouse.background.json" in left.headers["content-disposition"]
    assert len(left.json()["story_outline"]) == 6
    back = await _import(app_client, left.content, name="world.json", id="rock")
    assert back.json()["imported"][0] | {"notes": []} == {
        "file": "world.json",
        "format": "background",
        "kind": "background",
        "id": "rock",
        "name": "The Skerry Light",
        "outcome": "new",
        "notes": [],
        "options": [],
        "world": None,
    }


async def test_what_cannot_leave_is_an_error_and_no_file(
    app_client: httpx.AsyncClient, instance: str
) -> None:
    for query, status in (
        ({"kind": "character", "id": "nobody"}, 404),
        ({"kind": "character", "id": "char_maren", "format": "lorebook"}, 404),
        ({"kind": "background", "id": "bg_lighthouse", "format": "world-info"}, 404),
        ({"kind": "character", "id": "char_maren", "format": "veloca"}, 400),
        ({"kind": "character", "id": "char_maren", "session_id": "sess_001"}, 400),
        ({"kind": "instance", "id": instance, "format": "markdown", "session_id": "sess_009"}, 404),
        ({"kind": "character", "id": "char_maren", "format": "charx", "version": "v2"}, 400),
        ({"kind": "planet", "id": "char_maren"}, 422),
        ({"kind": "character"}, 422),
        ({"kind": "character", "id": "../characters/char_maren"}, 422),
    ):
        answer = await app_client.get("/api/export", params=query)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
        assert answer.json()["error"]["message"]
