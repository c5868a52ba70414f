"""Every field of every route, tool and graph is in the table of docs/security.md, and none of them is a path."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import httpx
import pytest
from mcp import Client

from mcp_server.server import TOOLSETS, build_server
from personalab.services import Services
from personalab.testing.rehearsal import RehearsalModel
from tests.integration.security.fields import (
    Field,
    Schema,
    graph_fields,
    http_fields,
    mcp_fields,
    sample,
    text_fields,
)
from tests.support.graph.turns import snapshot
from web.app import Limits
from web.joining import whole_app

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

DOCS = Path(__file__).parents[3] / "docs"
BEGIN, END = "<!-- fields -->", "<!-- /fields -->"
TREASURE = "a-secret-of-another-file"
GOOD: dict[str, Any] = {
    "instance_id": "inst_001",
    "character_id": "char_maren",
    "character": "char_maren",
    "background_id": "bg_wasteland",
    "skill_id": "2abeadd6",
    "asset_id": "2abeadd6",
    "baseline_id": "92e110b0",
    "skill_ids": ["2abeadd6-a506-40ee-a0c7-23f42a98bda8"],
    "baseline_ids": ["92e110b0-aaed-4f5d-86e7-7eb782cf789a"],
    "messages": [{"role": "user", "content": "Hello."}],
    "agent_id": "char_maren",
    "content_id": "660e8400-e29b-41d4-a716-446655440000",
    "kind": "skill",
    "action": "auto",
}


def hostile(tmp_path: Path) -> list[Any]:
    """Make values that lead somewhere else where they become a part of a path, an address or a program."""
    secret = tmp_path / "outside" / "secret.json"
    return [
        str(secret),
        f"scripted:{secret}",
        "../../outside/secret.json",
        "../private",
        "--settings=../outside/secret.json",
    ]


@pytest.fixture
def world(services: Services, tmp_path: Path, instance: str, monkeypatch: pytest.MonkeyPatch) -> Services:
    """A data root with secrets around and beside its files; this process stands next to them."""
    outside = tmp_path / "outside"
    outside.mkdir()
    for path in (outside / "secret.json", outside / "secret", services.settings.data_root / "private.json"):
        path.write_text(f'["{TREASURE}"]', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    services.models["rehearsal"] = RehearsalModel(delay=0)
    return services


# --- the document


def tables(name: str) -> str:
    text = (DOCS / name).read_text(encoding="utf-8")
    return text[text.index(BEGIN) : text.index(END)]


@pytest.mark.parametrize("name", ["security.md", "security.zh-CN.md"])
async def test_every_field_is_in_the_table(services: Services, name: str) -> None:
    fields = [*http_fields(services), *await mcp_fields(services), *graph_fields(services)]
    rows = [row for row in tables(name).splitlines() if row.startswith("|")]
    listed = {word for row in rows for word in re.findall(r"`([a-z0-9_-]+)`", row.split("|")[1])}
    missing = sorted({f"{field.name} ({field.place})" for field in fields if field.name not in listed})
    assert not missing, f"not in docs/{name}, say what guards them: {missing}"
    gone = sorted(listed - {field.name for field in fields})
    assert not gone, f"the table has fields that are gone: {gone}"


def test_tests_named_in_the_document_are_there() -> None:
    for name in ("security.md", "security.zh-CN.md"):
        text = (DOCS / name).read_text(encoding="utf-8")
        for file, test in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text):
            source = (DOCS.parent / file).read_text(encoding="utf-8")
            assert not test or f"def {test}(" in source, f"{file}::{test}"


# --- the servers


def _arguments(schema: Mapping[str, Any], name: str, value: str) -> dict[str, Any]:
    """Fill what is required, and put a hostile value into one field in the shape that it takes."""
    kinds = str(schema["properties"][name])
    shape: Any = value
    if "'object'" in kinds:
        shape = {"model": value, "skill_id": value, "case_id": value}
    if "'array'" in kinds:
        shape = [shape]
    return {**{one: GOOD.get(one, "x") for one in schema.get("required", ())}, name: shape}


async def test_no_argument_of_a_tool_leads_out(world: Services, tmp_path: Path) -> None:
    before = snapshot(tmp_path / "outside")
    server = build_server(world, TOOLSETS)
    async with Client(server) as client:
        for tool in await server.list_tools():
            schema = cast("Mapping[str, Any]", tool.input_schema)
            for name in set(text_fields(schema, schema.get("$defs", {}))) & set(schema["properties"]):
                for value in hostile(tmp_path):
                    arguments = _arguments(schema, name, value)
                    said = (await client.call_tool(tool.name, arguments)).model_dump_json()
                    assert TREASURE not in said, (tool.name, arguments)
        for template in await server.list_resource_templates():
            for value in hostile(tmp_path):
                uri = re.sub(r"\{\w+\}", quote(value, safe=""), template.uri_template)
                with pytest.raises(Exception, match=r".") as refusal:
                    await client.read_resource(uri)
                assert TREASURE not in str(refusal.value)
    assert snapshot(tmp_path / "outside") == before
    assert {path.name for path in tmp_path.iterdir()} <= {"data", "outside", "xdg_cache_home"}


async def test_no_field_of_a_route_leads_out(world: Services, tmp_path: Path) -> None:
    before = snapshot(tmp_path / "outside")
    app = whole_app(lambda: world, limits=Limits(calls_a_second=1e6, calls_at_once=10**6))
    fields = [field for field in http_fields(world) if field.name != "subject"]
    api = app.openapi()
    unread: list[Field] = []
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client,
    ):
        for field in fields:
            answers = [await _sent(client, api, field, value) for value in hostile(tmp_path)]
            assert not any(TREASURE in answer.text for answer in answers), field
            if all(answer.status_code == 422 and field.name not in answer.text for answer in answers):
                unread.append(field)
    assert not unread, f"refused for another field, before they were read: {unread}"
    assert snapshot(tmp_path / "outside") == before
    assert {path.name for path in tmp_path.iterdir()} <= {"data", "outside", "xdg_cache_home"}


async def _sent(client: httpx.AsyncClient, api: Schema, field: Field, value: str) -> httpx.Response:
    method, path = field.place.split(" ")
    operation = api["paths"][path][method.lower()]
    filled = re.sub(
        r"\{(\w+)\}",
        lambda part: quote(value if part[1] == field.name else str(GOOD.get(part[1], "x")), safe=""),
        path,
    )
    known = api["components"]["schemas"]
    query = {
        one["name"]: value if one["name"] == field.name else sample(one["schema"], known, one["name"], GOOD)
        for one in operation.get("parameters", ())
        if one["in"] == "query" and (one.get("required") or one["name"] == field.name)
    }
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    good = {**GOOD, **({field.name: value} if field.where == "body" else {})}
    chosen = field.name if field.where == "body" else ""
    body = sample(content["schema"], known, "", good, chosen) if content else None
    async with client.stream(method, filled, params=query, json=body) as answer:
        if "event-stream" not in answer.headers.get("content-type", ""):
            await answer.aread()
            return answer
        return httpx.Response(answer.status_code, text="")
