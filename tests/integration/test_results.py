"""Every entrance serializes the same models: the schemas it publishes are those of the model."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from mcp import Client
from pydantic import BaseModel

from mcp_server.schemas import brief_result
from mcp_server.server import TOOLSETS, build_server
from personalab.results.settings import SettingValues
from personalab.results.stories import (
    BackgroundSummary,
    BegunStoryResult,
    CharacterSummary,
    RecalledEvent,
    SavedBackground,
    SavedCharacter,
    SessionExcerpt,
    SessionPage,
    StopResult,
    StoryResult,
)
from personalab.services import Services, open_services
from tests.support.forked import run_personalab
from web.joining import whole_app

ROUTES: dict[tuple[str, str], type[BaseModel]] = {
    ("post", "/api/instances"): BegunStoryResult,
    ("put", "/api/instances/{instance_id}/background"): StoryResult,
    ("post", "/api/instances/{instance_id}/stop"): StopResult,
    ("put", "/api/characters/{character_id}"): SavedCharacter,
    ("put", "/api/backgrounds/{background_id}"): SavedBackground,
}
COMPONENTS: dict[str, type[BaseModel]] = {
    "CharacterEntry": CharacterSummary,
    "BackgroundEntry": BackgroundSummary,
}
"""What has fields of its entrance beside those of the model."""
TOOLS: dict[str, type[BaseModel]] = {
    "persona_new_instance": BegunStoryResult,
    "persona_switch_background": StoryResult,
    "persona_stop": StopResult,
    "persona_save_character": SavedCharacter,
    "persona_save_background": SavedBackground,
    "persona_read": SessionPage,
}


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return a model's schema in OpenAPI, where a default of null is left out."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    for rule in schema["properties"].values():
        if "default" in rule and rule["default"] is None:
            del rule["default"]
    return schema


def _printed(*words: str) -> Any:
    done = run_personalab([*words, "--json"], dict(os.environ))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    """The OpenAPI description of the page's API."""
    return whole_app(open_services).openapi()


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_route_describes_the_model(description: dict[str, Any], method: str, path: str) -> None:
    model = ROUTES[method, path]
    responses = description["paths"][path][method]["responses"]
    successes = [answer for status, answer in responses.items() if status.startswith("2")]
    for answer in successes:
        assert answer["content"]["application/json"]["schema"] == {
            "$ref": f"#/components/schemas/{model.__name__}"
        }
    assert successes
    assert description["components"]["schemas"][model.__name__] == _schema(model)


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_component_extends_the_model(description: dict[str, Any], name: str) -> None:
    described = description["components"]["schemas"][name]
    expected = _schema(COMPONENTS[name])
    assert {name: described["properties"][name] for name in expected["properties"]} == expected["properties"]
    assert set(described["required"]) >= set(expected["required"])


@pytest.mark.parametrize(
    ("component", "field", "model"),
    [("SettingsResponse", "values", SettingValues), ("SettingsResponse", "defaults", SettingValues)],
)
def test_a_field_holds_the_model(
    description: dict[str, Any], component: str, field: str, model: type[BaseModel]
) -> None:
    schemas = description["components"]["schemas"]
    assert schemas[component]["properties"][field] == {"$ref": f"#/components/schemas/{model.__name__}"}
    assert schemas[model.__name__] == model.model_json_schema()


def test_recalled_events_are_the_model(description: dict[str, Any]) -> None:
    schemas = description["components"]["schemas"]
    assert schemas["RecallResponse"]["properties"]["events"]["items"] == {
        "$ref": "#/components/schemas/RecalledEvent"
    }
    assert schemas["RecalledEvent"] == _schema(RecalledEvent)


@pytest.mark.anyio
async def test_tools_publish_the_models(services: Services) -> None:
    async with Client(build_server(services, TOOLSETS)) as client:
        tools = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
    for name, model in TOOLS.items():
        assert tools[name] == brief_result(model.model_json_schema())


@pytest.mark.anyio
async def test_the_library_of_mcp_extends_the_models(services: Services) -> None:
    async with Client(build_server(services)) as client:
        listed = (await client.call_tool("persona_library", {})).structured_content
    assert listed is not None
    for entry in listed["characters"]:
        CharacterSummary.model_validate(entry)
    for entry in listed["backgrounds"]:
        BackgroundSummary.model_validate(entry)
    assert listed["characters"]
    assert listed["backgrounds"]


@pytest.mark.anyio
async def test_mcp_returns_the_settings_and_the_past_as_models(services: Services, instance: str) -> None:
    async with Client(build_server(services)) as client:
        shown = (await client.call_tool("persona_settings", {})).structured_content
        asked = {"instance_id": instance, "query": "rain"}
        past = (await client.call_tool("persona_recall", asked)).structured_content
    assert shown is not None
    assert past is not None
    assert SettingValues.model_validate(shown["settings"]).model_dump() == services.preferences.values()
    assert [RecalledEvent.model_validate(item).model_dump() for item in past["items"]] == past["items"]


def test_the_terminal_prints_the_models() -> None:
    begun = _printed("new", "-c", "char_maren", "--id", "story")
    assert BegunStoryResult.model_validate(begun).model_dump() == begun
    moved = _printed("switch-background", "story", "bg_lighthouse")
    assert StoryResult.model_validate(moved).model_dump() == moved
    read = _printed("read", "story")
    assert SessionExcerpt.model_validate(read).model_dump() == read
    settings = _printed("settings")
    assert SettingValues.model_validate(settings).model_dump() == settings
    assert settings
    library = _printed("library")
    for entry in library["characters"]:
        CharacterSummary.model_validate(entry)
    for entry in library["backgrounds"]:
        BackgroundSummary.model_validate(entry)
    assert [StoryResult.model_validate(entry).instance_id for entry in library["instances"]] == ["story"]
