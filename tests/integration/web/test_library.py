"""The library over HTTP: characters, worlds and stories are listed, written and begun, and nothing is lost by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from personalab.operations.importing import import_content
from personalab.services import Services
from tests.conftest import NOW
from tests.support.archive.making import card_png, charx, json_bytes, v3_card
from tests.support.graph.turns import snapshot
from tests.support.web.fixtures import Live
from tests.support.web.slow_model import HandedModel

pytestmark = pytest.mark.anyio

NORA = {"name": "Nora", "base_persona": "A diver.", "language": "en"}


def _error(answer: httpx.Response) -> str:
    return answer.json()["error"]["code"]


# --- characters


async def test_characters_are_listed_with_how_they_begin_and_shown_whole(
    app_client: httpx.AsyncClient,
) -> None:
    listed = (await app_client.get("/api/characters")).json()["characters"]
    assert [(one["character_id"], one["name"], one["language"]) for one in listed] == [
        ("char_alserqi", "Alserqi", "zh"),
        ("char_maren", "Maren", "en"),
    ]
    whole = (await app_client.get("/api/characters/char_maren")).json()
    assert whole["base_persona"].startswith(listed[1]["excerpt"])
    assert len(whole["base_persona"]) > len(listed[1]["excerpt"])
    assert (whole["picture"], whole["card"], whole["greetings"]) == (None, None, [])


async def test_a_world_that_names_a_character_is_offered_for_it(app_client: httpx.AsyncClient) -> None:
    for character_id, world in (("char_maren", "bg_lighthouse"), ("char_alserqi", "bg_wasteland")):
        whole = (await app_client.get(f"/api/characters/{character_id}")).json()
        assert whole["worlds"] == [world]
    # Mar is in Maren, but nobody is called so there.
    await app_client.put("/api/characters/mar", json={**NORA, "name": "Mar"})
    assert (await app_client.get("/api/characters/mar")).json()["worlds"] == []


async def test_a_character_is_made_once_and_changed_only_when_asked(
    app_client: httpx.AsyncClient, root: Path
) -> None:
    body: dict[str, Any] = {**NORA, "greetings": ["Hello, {{user}}.", "Out of air?"]}
    saved = {"id": "nora", "character_id": "nora", "name": "Nora", "created": True}
    made = await app_client.put("/api/characters/nora", json=body)
    assert (made.status_code, made.json()) == (201, saved)
    before = snapshot(root)
    again = await app_client.put("/api/characters/nora", json={**body, "name": "Another"})
    assert (again.status_code, _error(again)) == (400, "entry_exists")
    assert snapshot(root) == before
    changed = await app_client.put(
        "/api/characters/nora",
        json={"name": "Nora K.", "base_persona": "A pearl diver.", "replace": True},
    )
    assert (changed.status_code, changed.json()["created"]) == (200, False)
    whole = (await app_client.get("/api/characters/nora")).json()
    assert (whole["name"], whole["language"]) == ("Nora K.", None)
    assert whole["greetings"] == body["greetings"], "what was left out stays"
    await app_client.put("/api/characters/nora", json={**NORA, "greetings": [], "replace": True})
    assert (await app_client.get("/api/characters/nora")).json()["greetings"] == []


async def test_what_cannot_be_a_character_is_refused_and_leaves_nothing(
    app_client: httpx.AsyncClient, root: Path
) -> None:
    before = snapshot(root)
    refused: list[tuple[str, dict[str, Any], int]] = [
        ("nora", {**NORA, "base_persona": ""}, 422),
        ("nora", {**NORA, "base_persona": " \n"}, 400),
        ("nora", {**NORA, "name": "n" * 201}, 422),
        ("nora", {**NORA, "language": "fr"}, 422),
        ("nora", {**NORA, "greetings": ["  "]}, 400),
        ("nora", {**NORA, "colour": "blue"}, 422),
        ("con", NORA, 400),
        ("..%2Fnora", NORA, 404),
        ("-nora", NORA, 422),
    ]
    for place, body, status in refused:
        answer = await app_client.put(f"/api/characters/{place}", json=body)
        assert answer.status_code == status, answer.text
        assert set(answer.json()) == {"error"}
    assert snapshot(root) == before


async def test_half_a_character_of_text_in_a_request_or_a_file_breaks_nothing(
    app_client: httpx.AsyncClient, root: Path
) -> None:
    asked = await app_client.put(
        "/api/characters/nora",
        content=b'{"name": "N", "base_persona": "\\ud800 half"}',
        headers={"content-type": "application/json"},
    )
    assert asked.status_code == 422
    (root / "characters" / "half").mkdir()
    (root / "characters" / "half" / "definition.json").write_bytes(
        b'{"name": "\\ud800", "base_persona": "so \\udfff it is", "greetings": ["\\ud83d"]}'
    )
    assert (await app_client.get("/api/characters")).status_code == 200
    assert (await app_client.get("/api/characters/half")).json()["base_persona"] == "so \ufffd it is"
    story = await app_client.post("/api/instances", json={"character_id": "half"})
    assert story.status_code == 201
    assert (await app_client.get("/api/instances")).status_code == 200


async def test_a_broken_file_is_listed_with_its_reason_and_without_a_path_of_the_machine(
    app_client: httpx.AsyncClient, root: Path
) -> None:
    (root / "characters" / "char_maren" / "definition.json").write_text("{", encoding="utf-8")
    (root / "backgrounds" / "bg_wasteland" / "background.json").write_text("[]", encoding="utf-8")
    characters = (await app_client.get("/api/characters")).json()["characters"]
    worlds = (await app_client.get("/api/backgrounds")).json()["backgrounds"]
    told = [one["error"] for one in (*characters, *worlds) if one["error"]]
    assert len(told) == 2
    assert all(str(root) not in text for text in told)
    whole = await app_client.get("/api/characters/char_maren")
    assert (whole.status_code, str(root) in whole.text) == (500, False)


# --- pictures


async def test_a_picture_is_shown_as_a_picture_without_the_card_that_is_hidden_in_it(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    await import_content(services, "sera.png", card_png(v3_card()))
    entry = (await app_client.get("/api/characters")).json()["characters"][-1]
    answer = await app_client.get(entry["picture"])
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.content.startswith(b"\x89PNG")
    assert b"chara" not in answer.content
    bare = await app_client.get("/api/characters/seraphina/picture")
    assert (bare.status_code, bare.headers["cache-control"]) == (200, "no-store")


async def test_a_picture_is_told_by_its_bytes_and_what_could_run_is_none(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    icon = {"type": "icon", "uri": "embeded://assets/icon/images/main.png", "name": "main", "ext": "png"}
    pictures: list[tuple[bytes, str | None]] = [
        (b"\xff\xd8\xff\xe0 a photo", "image/jpeg"),
        (b"RIFF\x10\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"GIF89a moving", "image/gif"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", None),
        (b"<html><script>alert(1)</script></html>", None),
    ]
    for place, (content, kind) in enumerate(pictures):
        packed = charx(v3_card(name=f"Sera {place}", assets=[icon]), main=content)
        await import_content(services, "sera.charx", packed)
        answer = await app_client.get(f"/api/characters/sera_{place}/picture")
        if kind is None:
            assert (answer.status_code, _error(answer)) == (404, "no_picture")
        else:
            assert (answer.headers["content-type"], answer.content) == (kind, content)


async def test_what_a_card_says_to_people_is_shown(app_client: httpx.AsyncClient, services: Services) -> None:
    await import_content(services, "sera.json", json_bytes(v3_card()))
    whole = (await app_client.get("/api/characters/seraphina")).json()
    assert whole["card"]["tags"] == ["fantasy", "guardian"]
    assert (whole["nickname"], whole["has_lorebook"]) == ("Sera", True)
    assert len(whole["greetings"]) == 3


# --- worlds


async def test_a_world_is_written_with_its_outline_in_order(app_client: httpx.AsyncClient) -> None:
    body = {"name": "The reef", "world_setting": "Warm water.", "story_outline": ["Dive", "Rise"]}
    assert (await app_client.put("/api/backgrounds/reef", json=body)).status_code == 201
    assert _error(await app_client.put("/api/backgrounds/reef", json=body)) == "entry_exists"
    turned = {**body, "story_outline": ["Rise", "Dive", "Rest"], "replace": True}
    assert (await app_client.put("/api/backgrounds/reef", json=turned)).status_code == 200
    whole = (await app_client.get("/api/backgrounds/reef")).json()
    assert whole["story_outline"] == ["Rise", "Dive", "Rest"]
    listed = (await app_client.get("/api/backgrounds")).json()["backgrounds"]
    assert [(one["background_id"], one["points"]) for one in listed if one["name"] == "The reef"] == [
        ("reef", 3)
    ]
    refused = await app_client.put("/api/backgrounds/reef", json={**turned, "story_outline": ["x"] * 201})
    assert refused.status_code == 422


# --- stories


async def test_a_story_begins_with_the_greeting_that_was_chosen(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    await import_content(services, "sera.json", json_bytes(v3_card()))
    first = (await app_client.post("/api/instances", json={"character_id": "seraphina"})).json()
    assert first["opening"].startswith("*She smiles at")
    assert "{{user}}" not in first["opening"]
    second = await app_client.post("/api/instances", json={"character_id": "seraphina", "greeting": 2})
    assert (second.status_code, second.json()["opening"]) == (201, "*She sings.*")
    silent = (
        await app_client.post("/api/instances", json={"character_id": "seraphina", "greeting": 0})
    ).json()
    assert silent["opening"] == ""
    none = await app_client.post("/api/instances", json={"character_id": "seraphina", "greeting": 9})
    assert (none.status_code, _error(none)) == (400, "no_greeting")


async def test_a_story_with_nobody_nowhere_or_under_a_taken_id_is_refused(
    app_client: httpx.AsyncClient, instance: str, root: Path
) -> None:
    before = snapshot(root)
    for body, status in (
        ({"character_id": "nobody"}, 404),
        ({"character_id": "char_maren", "background_id": "nowhere"}, 404),
        ({"character_id": "char_maren", "instance_id": instance}, 400),
        ({"character_id": "nul"}, 400),
        ({}, 422),
    ):
        answer = await app_client.post("/api/instances", json=body)
        assert answer.status_code == status, answer.text
    assert snapshot(root) == before


async def test_stories_are_listed_the_last_played_first_with_their_last_words(
    app_client: httpx.AsyncClient, services: Services, instance: str
) -> None:
    services.now = lambda: "2025-10-17T08:00:00Z"
    body = {"character_id": "char_maren", "background_id": "bg_lighthouse"}
    second = (await app_client.post("/api/instances", json=body)).json()["instance_id"]
    listed = (await app_client.get("/api/instances")).json()["instances"]
    assert [one["instance_id"] for one in listed] == [second, instance]
    assert (listed[0]["character"]["name"], listed[0]["background"]["name"]) == ("Maren", "The Skerry Light")
    assert (listed[1]["turns"], listed[1]["last"], listed[1]["running"]) == (0, None, False)
    services.now = lambda: "2025-10-18T08:00:00Z"
    begun = await app_client.post(f"/api/instances/{instance}/turns", json={"text": "我回来了"})
    await app_client.get(begun.json()["stream"])
    listed = (await app_client.get("/api/instances")).json()["instances"]
    assert [one["instance_id"] for one in listed] == [instance, second]
    last = listed[0]["last"]
    assert (listed[0]["turns"], last["by_character"], last["timestamp"][:10]) == (1, True, "2025-10-18")
    assert last["text"]


async def test_a_story_that_is_being_written_says_so_and_shows_what_is_there(
    live: Live, instance: str, handed: HandedModel
) -> None:
    await live.client.post(f"/api/instances/{instance}/turns", json={"text": "hi"})
    await handed.asked()
    (entry,) = (await live.client.get("/api/instances")).json()["instances"]
    assert (entry["running"], entry["turns"], entry["last"]["text"]) == (True, 1, "hi")
    handed.finish("there")


async def test_a_last_line_longer_than_the_first_look_is_found(
    app_client: httpx.AsyncClient, root: Path, instance: str
) -> None:
    session = root / "instances" / instance / "sessions" / "sess_001.jsonl"
    line = {"role": "user", "content": "字" * 100_000, "turn": 7, "timestamp": NOW}
    with session.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
    (entry,) = (await app_client.get("/api/instances")).json()["instances"]
    assert (entry["turns"], entry["last"]["text"][:3]) == (7, "字字字")
    assert len(entry["last"]["text"]) < 1000


async def test_a_broken_story_is_listed_with_its_reason_beside_the_others(
    app_client: httpx.AsyncClient, root: Path, instance: str
) -> None:
    body = {"character_id": "char_maren", "instance_id": "broken"}
    await app_client.post("/api/instances", json=body)
    (root / "instances" / "broken" / "instance_state.json").write_text("{}", encoding="utf-8")
    listed = {one["instance_id"]: one for one in (await app_client.get("/api/instances")).json()["instances"]}
    assert listed["broken"]["error"]
    assert listed["broken"]["character"] is None
    assert listed[instance]["error"] is None


async def test_a_story_moves_to_another_world_and_to_none(
    app_client: httpx.AsyncClient, instance: str
) -> None:
    place = f"/api/instances/{instance}/background"
    moved = await app_client.put(place, json={"background_id": "bg_lighthouse"})
    assert moved.json() == {
        "instance_id": instance,
        "character_id": "char_alserqi",
        "background_id": "bg_lighthouse",
        "session_id": "sess_001",
        "current_session_id": "sess_001",
        "created_at": NOW,
        "plot_state": {"current_plot_index": 1, "current_status": "pending", "no_update_count": 0},
    }
    assert (await app_client.put(place, json={"background_id": None})).json()["background_id"] is None
    assert (await app_client.put(place, json={"background_id": "nowhere"})).status_code == 404
    assert (await app_client.put(place, json={})).status_code == 422
    missing = await app_client.put("/api/instances/nothing/background", json={"background_id": None})
    assert (missing.status_code, _error(missing)) == (404, "no_instance")
