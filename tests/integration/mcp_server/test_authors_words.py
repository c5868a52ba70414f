"""Tests of greetings and lore in the results of tools."""

from __future__ import annotations

import json

import pytest
from mcp import Client

from mcp_server.server import PersonaServer
from personalab.services import Services
from personalab.story.records import Character
from tests.support.mcp_server.calls import call, refused, text_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def ann(services: Services) -> Services:
    """A character with greetings and a lorebook."""
    entry = {"keys": ["tower"], "content": "It fell.", "name": "the tower", "enabled": True}
    book = {"name": "the isle", "entries": [{**entry, "insertion_order": 1}]}
    services.stories.save_character(
        Character("char_ann", "Ann", "{{char}} waits.", "en", {}, ("Hello, {{user}}.", "Again?")),
        {"lorebook.json": json.dumps(book).encode("utf-8")},
    )
    return services


async def test_a_new_story_tells_the_host_what_it_opens_with(server: PersonaServer, ann: Services) -> None:
    async with Client(server) as client:
        first = await client.call_tool("persona_new_instance", {"character_id": "char_ann"})
        second = await call(client, "persona_new_instance", character_id="char_ann", greeting=2)
        none = await call(client, "persona_new_instance", character_id="char_ann", greeting=0)
        wrong = await refused(client, "persona_new_instance", character_id="char_ann", greeting=9)
    assert first.structured_content is not None
    assert first.structured_content["opening"] == "Hello, User."
    assert "Hello, User." in text_of(first)
    assert second["opening"] == "Again?"
    assert "opening" not in none
    assert "9" in wrong


async def test_the_prompt_tells_which_lore_is_in(server: PersonaServer, ann: Services) -> None:
    async with Client(server) as client:
        made = await call(client, "persona_new_instance", character_id="char_ann")
        found = await client.call_tool(
            "persona_prompt", {"instance_id": made["instance_id"], "text": "The tower?"}
        )
    assert found.structured_content is not None
    (hit,) = found.structured_content["lore"]
    assert (hit["name"], hit["book"], hit["key"], hit["shown"]) == ("the tower", "the isle", "tower", True)
    assert "+ the tower [the isle] key" in text_of(found)
