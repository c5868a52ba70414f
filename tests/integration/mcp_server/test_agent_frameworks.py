"""Agents of other frameworks play three turns over stdio; a scripted model calls the tools they offer it.

Each agent is a script in ``tests/support/clients`` that runs in an environment of its own.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mcp_server.server import TOOLSETS, build_server
from personalab.services import Services
from tests.support.clients.running import SCRIPTS, SERVER, play, python_of, world
from tests.support.clients.tool_calling import FINAL, Call, ToolCallingServer

pytestmark = pytest.mark.full

FRAMEWORKS = ("openai_agents", "smolagents", "pydantic_ai", "semantic_kernel", "autogen")
WRITTEN = "(She turns the wick down.) Evening. You rowed far."
SAID = ("Good evening, keeper.", "What does the log say?", "And the kettle?")
CALLS: tuple[Call, ...] = (
    ("persona_library", {}),
    ("persona_new_instance", {"character_id": "char_maren", "instance_id": "tale"}),
    ("persona_begin_turn", {"instance_id": "tale", "text": SAID[0]}),
    ("persona_end_turn", {"instance_id": "tale", "turn": 1, "reply": WRITTEN}),
    ("persona_chat", {"instance_id": "tale", "text": SAID[1], "request_id": "second"}),
    ("persona_chat", {"instance_id": "tale", "text": SAID[2]}),
)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_agent_of_another_framework_plays_three_turns(framework: str, tmp_path: Path, root: Path) -> None:
    python = python_of(framework)
    environment = world(tmp_path, OTEL_SDK_DISABLED="true", PYTHONPATH=os.fspath(tmp_path))
    with ToolCallingServer(CALLS) as model:
        plan = {"command": SERVER, "model": model.url, "task": "Play three turns with Maren."}
        seen = play([python, SCRIPTS / f"{framework}_client.py"], plan, environment)
    assert seen["output"] == FINAL
    replies = check_story(root)
    assert replies[0] == WRITTEN
    heard = letters(model.heard())
    for reply in replies:
        assert letters(reply) in heard
    if framework == "openai_agents":
        offered = [tool["function"] for tool in model.requests[0].body["tools"]]
        # Settings have free names, which strict mode cannot express.
        assert [tool["name"] for tool in offered if not tool.get("strict")] == ["persona_settings"]


def letters(text: str) -> str:
    """Give the letters of a text: frameworks escape quotes in different ways."""
    return re.sub(r"[^A-Za-z]", "", text)


def check_story(root: Path) -> list[str]:
    """Check that the story has three turns, each with one whole reply; return the replies."""
    path = root / "instances" / "tale" / "sessions" / "sess_001.jsonl"
    _, *lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [(line["role"], line["turn"]) for line in lines] == [
        (role, number) for number in (1, 2, 3) for role in ("user", "assistant")
    ]
    assert tuple(line["content"] for line in lines[::2]) == SAID
    assert not [line for line in lines if line.keys() & {"error", "interrupted", "empty"}]
    return [line["content"] for line in lines[1::2]]


# --- what strict modes make of the schemas


async def schemas(services: Services) -> dict[str, Any]:
    """Give the schemas of every tool's arguments."""
    return {tool.name: tool.input_schema for tool in await build_server(services, TOOLSETS).list_tools()}


@pytest.mark.anyio
async def test_strict_mode_of_openai_agents_leaves_a_way_to_send_nothing(
    services: Services, tmp_path: Path
) -> None:
    given = await schemas(services)
    python = python_of("openai_agents")
    strict = play([python, SCRIPTS / "openai_agents_schemas.py"], given, world(tmp_path))
    assert strict.keys() == given.keys()
    for name, schema in strict.items():
        assert schema["required"] == list(schema["properties"])
        optional = [field for field in schema["properties"] if field not in given[name].get("required", [])]
        for field in optional:
            rule = schema["properties"][field]
            jsonschema.validate(rule.get("default"), rule)


@pytest.mark.anyio
async def test_google_genai_reads_every_schema(services: Services, tmp_path: Path) -> None:
    given = await schemas(services)
    python = python_of("google_genai")
    found = play([python, SCRIPTS / "google_genai_schemas.py"], given, world(tmp_path))
    assert found.keys() == given.keys()
    for name, declared in found.items():
        properties = declared["parameters"]["properties"]
        assert properties.keys() == given[name]["properties"].keys()
        for field, rule in properties.items():
            needed = field in given[name].get("required", [])
            assert needed or rule.get("nullable") or "default" in rule, (name, field)
            assert None not in rule.get("enum", [])
