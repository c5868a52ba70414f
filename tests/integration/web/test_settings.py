"""What is set is shown with its ranges, changed all or none, and holds from the next turn on, in every process."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from personalab.config import FIELDS
from personalab.services import Services, open_services

pytestmark = pytest.mark.anyio


def _config(services: Services) -> dict[str, Any]:
    return json.loads((services.settings.data_root / "config.json").read_text(encoding="utf-8"))


async def _message(client: httpx.AsyncClient, values: dict[str, Any], status: int = 400) -> str:
    answer = await client.put("/api/settings", json={"values": values})
    assert answer.status_code == status, answer.text
    return answer.json()["error"]["message"]


async def test_every_setting_is_shown_with_its_range_and_its_default(app_client: httpx.AsyncClient) -> None:
    told = (await app_client.get("/api/settings")).json()
    assert set(told["values"]) == set(told["defaults"]) == set(told["rules"]) == set(FIELDS)
    rules = told["rules"]
    turns = rules["thresholds.rag_fallback_threshold"]
    assert (turns["type"], turns["low"], turns["high"]) == ("whole", 1, 10)
    assert rules["preferences.summary_order"]["words"] == ["summary_first", "last_n_first"]
    assert rules["preferences.on_disconnect"]["words"] == ["continue", "interrupt"]
    assert rules["preferences.conversation_load_all"]["type"] == "switch"
    assert rules["preferences.player_name"]["longest"] == 64
    assert told["defaults"]["limits.max_total_tokens"] == 100_000


async def test_the_modules_switches_are_shown_as_their_files_have_them(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    modules = (await app_client.get("/api/settings")).json()["modules"]
    assert modules["memory"]["enabled"] is True
    assert modules["memory"]["user_id"] == "player"
    file = services.settings.data_root / modules["memory"]["file"]
    file.parent.mkdir(exist_ok=True)
    file.write_text('{"enabled": false}', encoding="utf-8")
    told = (await app_client.get("/api/settings")).json()
    assert told["modules"]["memory"]["enabled"] is False
    assert told["modules"]["recall"]["trigger"] in ("auto", "keywords", "always", "off")


async def test_a_change_stands_in_the_file_and_holds_in_another_process(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    changes = {"thresholds.rag_fallback_threshold": 7, "preferences.conversation_load_all": False}
    answer = await app_client.put("/api/settings", json={"values": changes})
    assert answer.status_code == 200, answer.text
    assert answer.json()["values"] | changes == answer.json()["values"]
    assert _config(services)["thresholds"]["rag_fallback_threshold"] == 7
    other = open_services(services.settings)
    assert other.preferences.read().config.rag_fallback_threshold == 7
    await other.close()


async def test_a_language_chosen_in_the_page_is_the_language_of_errors_at_once(
    app_client: httpx.AsyncClient,
) -> None:
    await app_client.put("/api/settings", json={"values": {"preferences.language": "en"}})
    info = (await app_client.get("/api/info")).json()
    assert (info["language"], info["language_is_chosen"]) == ("en", True)
    assert "it must be 1–10" in await _message(app_client, {"thresholds.rag_fallback_threshold": 11})
    await app_client.put("/api/settings", json={"values": {"preferences.language": "zh"}})
    assert "应为 1–10" in await _message(app_client, {"thresholds.rag_fallback_threshold": 11})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("thresholds.rag_fallback_threshold", 0),
        ("thresholds.summary_last_n_turns", 21),
        ("limits.max_total_tokens", 9_999),
        ("limits.middle_section_warning_tokens", 50_001),
        ("limits.conversation_max_tokens", 2.5),
        ("limits.max_total_tokens", True),
        ("preferences.summary_order", "both"),
        ("preferences.conversation_load_all", "yes"),
        ("preferences.player_name", "a" * 65),
        ("preferences.on_disconnect", "explode"),
        ("preferences.language", None),
        ("preferences.player_name", "a" * 5_000),
        ("limits.max_total_tokens", [50_000]),
        ("thresholds.rag_fallback_threshold", {"is": 3}),
    ],
)
async def test_a_value_out_of_its_range_is_refused_with_the_setting_and_its_range(
    app_client: httpx.AsyncClient, name: str, value: object
) -> None:
    message = await _message(app_client, {name: value})
    assert name in message
    assert str(FIELDS[name]) in message


async def test_one_wrong_value_leaves_all_as_they_were(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    before = services.preferences.values()
    await _message(app_client, {"limits.max_total_tokens": 50_000, "thresholds.rag_fallback_threshold": 99})
    assert services.preferences.values() == before


async def test_a_setting_that_does_not_exist_is_refused_with_those_that_do(
    app_client: httpx.AsyncClient,
) -> None:
    message = await _message(app_client, {"preferences.colour": "red"})
    assert "preferences.colour" in message
    assert "preferences.language" in message


@pytest.mark.parametrize(
    "body",
    [{}, {"values": {}}, {"values": [1]}, {"values": {}, "more": 1}, [], "x"],
)
async def test_a_body_in_another_form_is_refused(app_client: httpx.AsyncClient, body: object) -> None:
    answer = await app_client.put("/api/settings", json=body)
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "bad_request"


async def test_reset_restores_the_defaults_but_the_language(app_client: httpx.AsyncClient) -> None:
    changes = {
        "preferences.language": "en",
        "limits.max_total_tokens": 20_000,
        "preferences.player_name": "Lin",
    }
    await app_client.put("/api/settings", json={"values": changes})
    told = (await app_client.post("/api/settings/reset")).json()
    assert told["values"] == {**told["defaults"], "preferences.language": "en"}


async def test_a_file_nobody_can_read_is_told_and_reset_mends_it(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    (services.settings.data_root / "config.json").write_text("{", encoding="utf-8")
    answer = await app_client.get("/api/settings")
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "file_broken"
    assert str(services.settings.data_root) not in answer.text
    assert (await app_client.post("/api/settings/reset")).status_code == 200
    assert (await app_client.get("/api/settings")).json()["notices"] == []


async def test_a_value_in_the_file_that_cannot_be_used_is_told_and_its_default_shown(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    held = _config(services)
    held["limits"]["max_total_tokens"] = 5
    (services.settings.data_root / "config.json").write_text(json.dumps(held), encoding="utf-8")
    told = (await app_client.get("/api/settings")).json()
    assert told["values"]["limits.max_total_tokens"] == 100_000
    assert any("limits.max_total_tokens" in notice for notice in told["notices"])


async def test_a_module_is_switched_and_the_rest_of_its_file_stays(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    folder = services.settings.data_root / "modules"
    for module in ("director", "recall", "memory", "lorebook"):
        before = json.loads((folder / f"{module}.json").read_text(encoding="utf-8"))
        for on in (False, True):
            answer = await app_client.put(f"/api/settings/modules/{module}", json={"on": on})
            assert answer.status_code == 200, answer.text
            told = answer.json()["modules"][module]
            assert (told["trigger"] != "off" if module == "recall" else told["enabled"]) is on
        assert json.loads((folder / f"{module}.json").read_text(encoding="utf-8")) == before
    assert not services.preferences.read().notices


async def test_a_module_that_is_none_or_whose_file_is_broken_is_refused(
    app_client: httpx.AsyncClient, services: Services
) -> None:
    assert (await app_client.put("/api/settings/modules/nothing", json={"on": True})).status_code == 422
    file = services.settings.data_root / "modules" / "memory.json"
    file.write_text("[", encoding="utf-8")
    answer = await app_client.put("/api/settings/modules/memory", json={"on": False})
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "file_broken")
    assert file.read_text(encoding="utf-8") == "["
