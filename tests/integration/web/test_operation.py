"""What the server tells whoever runs it: that it lives, what it counts, what it did; and what it never tells."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
import yaml
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from prometheus_client.parser import text_string_to_metric_families

from personalab.services import Services
from tests.conftest import PROJECT
from tests.integration.web.test_streams import begin, other_story
from tests.support.mcp_server.processes import with_provider, world
from tests.support.openai_server import cuts_after, refuses
from tests.support.web.fixtures import Live, live_app
from tests.support.web.listening import listen
from tests.support.web.serving import SECONDS, Served, serving
from tests.support.web.slow_model import HandedModel, SlowModel
from web.app import Limits
from web.logs import JsonLines

pytestmark = pytest.mark.anyio
MARKER = "xyzzyplugh"


# --- figures


async def _counted(client: httpx.AsyncClient) -> dict[tuple[str, ...], float]:
    answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


async def test_turns_tokens_times_and_errors_are_counted(
    live: Live, instance: str, handed: HandedModel
) -> None:
    for number, end in enumerate(("done", "fail"), 1):
        turn = await begin(live.client)
        await handed.asked(number)
        handed.say("a")
        (handed.finish if end == "done" else handed.fail)()
        await listen(live.client, turn["stream"])
    await live.client.get("/api/nothing/here")
    await live.client.get("/api/info", headers={"host": "evil.example"})
    await live.client.request("BREW", "/api/info")
    found = await _counted(live.client)
    assert found["personalab_turns_total", "done"] == 1
    assert found["personalab_turns_total", "error"] == 1
    assert found["personalab_turn_seconds_count",] == 2
    assert found["personalab_first_token_seconds_count",] == 2
    assert found["personalab_tokens_total", "output"] == 3
    assert found["personalab_tokens_total", "input"] >= 11
    errors = {name[1]: value for name, value in found.items() if name[0] == "personalab_errors_total"}
    assert (errors.pop("no_such_address"), errors.pop("wrong_method")) == (1, 1)
    assert list(errors.values()) == [1]
    route = "/api/instances/{instance_id}/turns"
    assert found["personalab_http_requests_total", *sorted(["POST", route, "202"])] == 2
    assert found["personalab_http_requests_total", *sorted(["GET", "other", "404"])] == 1
    assert found["personalab_http_requests_total", *sorted(["GET", "other", "421"])] == 1
    assert found["personalab_http_request_seconds_count", *sorted(["POST", route])] == 2
    assert found["personalab_turns_running",] == found["personalab_streams_open",] == 0
    assert not [name for name in found if "BREW" in name]


async def test_it_says_whether_it_lives_and_takes_turns(live: Live) -> None:
    assert (await live.client.get("/healthz")).json() == {"status": "ok"}
    await live.desk.close()
    assert (await live.client.get("/healthz")).json() == {"status": "ending"}
    answer = await live.client.post("/api/instances/inst_001/turns", json={"text": "hi"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "server_ending")
    assert "retry-after" in answer.headers


# --- what is written down


async def test_logs_name_turns_and_never_say_what_was_said(
    serve: Callable[..., Served], slow_model: SlowModel
) -> None:
    served = serve(**with_provider({}, slow_model))
    async with served.client() as client:
        turn = await begin(client, f"I say {MARKER}")
        await asyncio.to_thread(slow_model.asked)
        slow_model.finish(f"you say {MARKER}")
        await listen(client, turn["stream"])
        await client.post(f"/api/{MARKER}")  # what a client makes up is not repeated either
    served.stop()
    _, *written = served.errors.splitlines()  # the first line is for people
    rows = [json.loads(line) for line in written]
    assert [(row["event"], row["instance_id"], row["turn"]) for row in rows if "turn" in row] == [
        ("turn begun", "inst_001", 1),
        ("turn ended", "inst_001", 1),
    ]
    assert rows[-1]["status"] == "done"
    assert MARKER not in served.errors


async def test_a_model_that_fails_does_not_bring_words_into_the_logs(tmp_path: Path) -> None:
    from tests.support.mcp_server.processes import begin_stories
    from tests.support.openai_server import OpenAIServer

    with OpenAIServer() as provider:
        provider.script(cuts_after(f"so {MARKER}"), refuses(400, {"message": f"no {MARKER}", "code": MARKER}))
        environment = with_provider(world(tmp_path), provider)
        begin_stories(environment, "inst_001")
        with serving(environment, tmp_path / "log.txt") as served:
            async with served.client() as client:
                for _ in range(2):
                    turn = await begin(client, f"I say {MARKER}")
                    await listen(client, turn["stream"])
            served.stop()
            _, *written = served.errors.splitlines()
    assert [json.loads(line)["level"] for line in written]
    assert MARKER not in "\n".join(written)


def test_a_line_is_json_and_an_exception_keeps_its_words_for_itself() -> None:
    def row(message: str, error: BaseException | None = None, *, debug: bool = False) -> dict[str, Any]:
        info = (type(error), error, error.__traceback__) if error else None
        record = logging.LogRecord("uvicorn.error", logging.ERROR, __file__, 1, message, (), info)
        line = JsonLines(debug=debug).format(record)
        assert "\n" not in line
        return json.loads(line)

    try:
        raise ValueError(MARKER)
    except ValueError as error:
        found = row(f"Exception in ASGI application\nfuture: <Task exception={MARKER}>", error)
    assert found["error"] == "ValueError"
    assert found["event"] == "Exception in ASGI application"
    assert any("test_operation.py" in place for place in found["trace"])
    assert MARKER not in json.dumps(found)
    assert str(PROJECT) not in json.dumps(found)
    absent = FileNotFoundError(2, "No such file or directory", "a.json")
    assert row("failed", absent, debug=True)["reason"] == "[Errno 2] No such file or directory: 'a.json'"


# --- MCP in the same server


async def test_mcp_plays_a_turn_in_the_same_server_and_shares_its_places(
    services: Services, instance: str, handed: HandedModel
) -> None:
    other_story(services)
    async with (
        live_app(services, limits=Limits(max_turns=1)) as live,
        httpx2.AsyncClient(timeout=SECONDS) as http,
        Client(streamable_http_client(f"{live.url}/mcp", http_client=http)) as client,
    ):
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert "persona_chat" in tools
        saying = asyncio.create_task(
            client.call_tool("persona_chat", {"instance_id": instance, "text": "hi"})
        )
        await handed.asked()
        waiting = asyncio.create_task(
            live.client.post("/api/instances/inst_002/turns", json={"text": "hello"})
        )
        # The one place is taken, by whichever way the turn came in.
        while live.desk.turns.count == 0:
            await asyncio.sleep(0.005)
        assert (live.desk.places.taken, len(handed.replies)) == (1, 1)
        handed.finish("from mcp")
        assert "from mcp" in str((await saying).structured_content)
        assert (await _counted(live.client))["personalab_turns_total", "done"] == 1
        await handed.asked(2)
        handed.finish("from http")
        turn = (await waiting).json()
        assert (await listen(live.client, turn["stream"]))[-1].data["content"] == "from http"


# --- the files a container is made from


def test_the_image_is_made_of_what_is_there() -> None:
    text = (PROJECT / "Dockerfile").read_text(encoding="utf-8")
    steps = [
        line.split(" ", 1) for line in text.replace("\\\n", " ").splitlines() if re.match(r"[A-Z]", line)
    ]
    kept = (PROJECT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for word, rest in steps:
        if word == "COPY" and "--from" not in rest:
            *sources, _ = rest.split()
            for source in sources:
                assert (PROJECT / source).exists(), source
                assert f"!{source}" in kept, source
    assert [line for line in kept if "data" in line] == ["!data/shipped"], (
        "a user's own data is no part of it"
    )
    images = [rest.split()[0] for word, rest in steps if word == "FROM"]
    assert images
    assert not [image for image in images if "." in image.partition("/")[0] and "/" in image]
    assert ["USER", "personalab"] in steps
    started = next(json.loads(rest) for word, rest in reversed(steps) if word == "CMD")
    assert started[:3] == ["python", "-m", "web"]
    assert "/healthz" in text
    assert "PERSONALAB_TOKEN" in text
    environment = dict(
        one.split("=", 1) for word, rest in steps if word == "ENV" for one in shlex.split(rest)
    )
    assert ["VOLUME", environment["PERSONALAB_DATA"]] in steps


def test_compose_names_what_the_settings_know() -> None:
    told = yaml.safe_load((PROJECT / "compose.yaml").read_text(encoding="utf-8"))
    known = (PROJECT / "personalab" / "settings.py").read_text(encoding="utf-8")
    app, postgres = told["services"]["app"], told["services"]["postgres"]
    assert all(f'"{name}"' in known for name in app["environment"])
    assert ":?" in app["environment"]["PERSONALAB_TOKEN"]
    assert postgres["profiles"] == ["postgres"]
    assert "pgvector" in postgres["image"]
    assert "." not in postgres["image"].partition("/")[0]
    for service in told["services"].values():
        for volume in service["volumes"]:
            assert volume.partition(":")[0] in told["volumes"]
