"""A remote client names configured models only, and a model's file can neither block nor fill the server."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client

from graph.chat_turn import build_chat_turn
from graph.summarize import build_summarize
from graph.update_memory import build_update_memory
from mcp_server.server import build_server
from nodes.chat_turn.state import TurnContext
from personalab.errors import ProviderError, UserError
from personalab.providers.chat_models import open_model
from personalab.providers.model_opening import MAX_SCRIPT_BYTES, ModelOpener
from personalab.providers.model_settings import ConfiguredModels, ModelSettings
from personalab.services import Services
from tests.support.lab.running import BASELINES, SKILLS, add_assets, evaluate, make_project
from tests.support.mcp_server.calls import call, refused
from web.joining import whole_app

pytestmark = pytest.mark.timeout(120)

BAD = [
    "scripted:/dev/zero",
    "scripted:/dev/ptmx",
    "scripted:/etc/passwd",
    "scripted:relative.json",
    " scripted:/dev/zero",
    "local:/dev/zero",
    "local:model.gguf",
    "huggingface:some/model",
    "openai:gpt-4o-mini",
    "anthropic:claude",
    "ollama:http://169.254.169.254/",
    "../../etc/passwd",
    "/bin/sh",
    "--mcp-config=/tmp/x",
    "x y",
    "x" * 151,
    ":",
]


@asynccontextmanager
async def http(services: Services) -> AsyncGenerator[httpx.AsyncClient]:
    """Talk to the whole application in this process."""
    app = whole_app(lambda: services)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        yield client


def project(**options: Any) -> dict[str, Any]:
    return {"name": "P", "skill_ids": SKILLS[:1], "baseline_ids": BASELINES[:1], "options": options}


# --- naming a model


@pytest.mark.anyio
async def test_http_refuses_models_that_are_not_configured(services: Services) -> None:
    add_assets(services)
    async with http(services) as client:
        for model in BAD:
            for field, options in (("model", {"model": model}), ("judges", {"judges": ["rehearsal", model]})):
                answer = await client.post("/api/lab/projects", json=project(**options))
                assert answer.status_code == 400, (field, model)
                error = answer.json()["error"]
                assert error["code"] == "model_not_configured", (field, model)
                assert error["message"].startswith(f"{field}"), error
                assert model[:80] in error["message"]
                assert "PERSONALAB_MODEL" in error["message"], "it says what to do"
    assert services.projects.list() == []
    assert services.models == {}


@pytest.mark.anyio
async def test_mcp_refuses_models_that_are_not_configured(services: Services) -> None:
    services.preferences.change({"language": "en"})
    add_assets(services)
    async with Client(build_server(services, ["lab"])) as client:
        for model in BAD:
            rest = project()
            for given_ in ({"model": model}, {"options": {"model": model}}, {"options": {"judges": [model]}}):
                said = await refused(client, "project_create", **{**rest, **given_})
                assert "is not configured on this server" in said, said
    assert services.projects.list() == []


@pytest.mark.anyio
async def test_stored_project_is_refused_at_run_time(services: Services, tmp_path: Path) -> None:
    """A project that was made at the terminal, or put there by hand, is run by a server under the same rule."""
    services.preferences.change({"language": "en"})
    script = tmp_path / "script.json"
    script.write_text('["An answer."]', encoding="utf-8")
    by_model = await make_project(services, model=f"scripted:{script}")
    stored = json.loads((by_model.folder / "x_run.json").read_text(encoding="utf-8"))
    async with http(services) as client:
        for field, value in (("model", "scripted:/dev/zero"), ("judges", ["local:/dev/zero"])):
            changed = {**stored, "model": "rehearsal", field: value}
            (by_model.folder / "x_run.json").write_text(json.dumps(changed), encoding="utf-8")
            for path in ("run", "plan"):
                answer = await client.post(f"/api/lab/projects/{by_model.name}/{path}", json={})
                assert answer.json()["error"]["code"] == "model_not_configured", answer.text
                assert answer.json()["error"]["message"].startswith(field)
    async with Client(build_server(services, ["lab"])) as client:
        said = await refused(client, "project_run", project=by_model.name, confirm=True)
        assert "is not configured" in said
    assert services.models == {}


@pytest.mark.anyio
async def test_graph_of_a_server_refuses_models_that_are_not_configured(
    services: Services, instance: str
) -> None:
    """A client of a LangGraph server chooses a model through the context, and options through the input."""
    services.remote = True
    place = await make_project(services, model="rehearsal")
    context = TurnContext(model="scripted:/dev/zero")
    for build, asked in (
        (build_chat_turn, {"instance_id": instance, "user_input": "Hello."}),
        (build_summarize, {"instance_id": instance}),
        (build_update_memory, {"instance_id": instance}),
    ):
        result = await build(services).compile().ainvoke(asked, context=context)
        assert result["status"] == "error", build
    assert "scripted:/dev/zero" not in services.models
    for changes in ({"model": "scripted:/dev/zero"}, {"judges": ["scripted:/dev/zero"]}):
        _, result = await evaluate(services, place.name, changes=changes)
        assert result["error"]["code"] == "model_not_configured"
    assert place.again().options().model == "rehearsal"


@pytest.mark.anyio
async def test_turn_with_a_refused_model_writes_nothing(services: Services, instance: str) -> None:
    services.remote = True
    before = {path: path.stat().st_mtime_ns for path in services.stories.instances.rglob("*.jsonl")}
    graph = build_chat_turn(services).compile()
    asked = {"instance_id": instance, "user_input": "Hello."}
    result = await graph.ainvoke(asked, context=TurnContext(model="scripted:/etc/passwd"))
    assert result["error"]["code"] == "model_not_configured"
    assert {path: path.stat().st_mtime_ns for path in services.stories.instances.rglob("*.jsonl")} == before


@pytest.mark.anyio
async def test_configured_models_may_be_named(services: Services, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('["An answer."]', encoding="utf-8")
    add_assets(services)
    lab = services.lab_sessions.settings()
    services.lab_sessions.save_settings(lab.changed(default_model="anthropic:claude-a"))
    services.settings = replace(
        services.settings, model=f"scripted:{script}", openai_base_url="http://127.0.0.1:1/v1"
    )
    services.remote = True
    for model in ("rehearsal", f"scripted:{script}", "anthropic:claude-a", "anthropic:claude-b", "sonnet"):
        services.check_model(model)
    for model in ("openai:gpt-4o", "openai:meta-llama/Llama-3.1-8B", "openai:qwen2.5:7b", "sonnet[1m]"):
        services.check_model(model)
    for model in ("scripted:/dev/zero", "local:/dev/zero", "openai:../x", "openai:http://x/", "groq:llama"):
        with pytest.raises(UserError):
            services.check_model(model)
    async with Client(build_server(services, ["lab"])) as client:
        rest = project()
        made = await call(client, "project_create", **rest, model=f"scripted:{script}")
    assert made["model"] == f"scripted:{script}"


def test_terminal_may_name_any_model(services: Services) -> None:
    for model in BAD:
        services.check_model(model)


providers = st.sampled_from(["scripted", "local", "huggingface", "openai", "groq", "Scripted", " local", ""])
texts = st.text(st.sampled_from("ab./:-~% \\\n\0"), max_size=12)


@given(providers, texts, st.booleans())
def test_no_name_is_a_path_or_an_address(provider: str, text: str, has_openai: bool) -> None:
    configured = ConfiguredModels(frozenset({"scripted:/configured", "groq:llama"}), has_openai)
    if configured.allows(f"{provider}:{text}"):
        assert provider in (("openai", "groq") if has_openai else ("groq",))
        assert text[0].isalnum()
        assert ".." not in text.split("/")
        assert "//" not in text
        assert text.isprintable()


# --- opening a model's file


def _file(folder: Path, kind: str) -> str:
    path = folder / "model.gguf"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "missing":
            pass
        case "link_to_device":
            path.symlink_to("/dev/zero")
        case "huge":
            with path.open("wb") as file:
                file.truncate(MAX_SCRIPT_BYTES + 1)
        case _:
            return kind
    return str(path)


@pytest.mark.parametrize(
    "kind",
    ["pipe", "folder", "missing", "link_to_device", "huge", "/dev/zero", "/dev/ptmx", "/dev/tty", "a\0b"],
)
def test_script_must_be_a_small_regular_file(tmp_path: Path, kind: str) -> None:
    with pytest.raises(ProviderError) as refusal:
        open_model(f"scripted:{_file(tmp_path, kind)}", settings=ModelSettings())
    assert refusal.value.code == "provider.bad_script"
    assert refusal.value.message("zh") != str(refusal.value)


@pytest.mark.parametrize("kind", ["pipe", "folder", "missing", "link_to_device", "/dev/zero", "/dev/ptmx"])
def test_local_model_must_be_a_regular_file(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("xllamacpp", reason="the extra 'local' is not installed")
    with pytest.raises(ProviderError) as refusal:
        open_model(f"local:{_file(tmp_path, kind)}", settings=ModelSettings())
    assert refusal.value.code == "provider.no_model_file"


# --- a model that does not open


@pytest.mark.anyio
async def test_stuck_model_blocks_no_other() -> None:
    opener, release = ModelOpener(at_once=2, seconds=0.05), threading.Event()
    try:
        for _ in range(40):  # more than any pool of threads has
            with pytest.raises(ProviderError) as refusal:
                await opener.run("stuck", release.wait)
            assert (refusal.value.code, refusal.value.retryable) == ("provider.open_timeout", True)
        assert await opener.run("other", lambda: "open", seconds=60) == "open"
        assert await asyncio.to_thread(lambda: "free") == "free"
        with pytest.raises(ProviderError):
            await opener.run("stuck too", release.wait)
        with pytest.raises(ProviderError) as refusal:
            await opener.run("third", lambda: "open", seconds=60)
        assert (refusal.value.code, refusal.value.retryable) == ("provider.open_busy", True)
    finally:
        release.set()


@pytest.mark.anyio
async def test_model_is_opened_once_for_all_who_wait() -> None:
    opener, release, opened = ModelOpener(), threading.Event(), list[object]()

    def work() -> object:
        release.wait()
        opened.append(object())
        return opened[-1]

    tasks = [asyncio.create_task(opener.run("one", work)) for _ in range(5)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    release.set()
    found = await asyncio.gather(*tasks[1:])
    assert found == opened * 4
    with pytest.raises(ProviderError):
        await opener.run("one", _fail)
    assert await opener.run("one", lambda: "after a failure") == "after a failure"


def _fail() -> object:
    raise ProviderError("provider.failed", reason="it failed")


def test_stuck_model_does_not_keep_a_process_from_ending() -> None:
    program = (
        "import asyncio, threading\n"
        "from personalab.errors import ProviderError\n"
        "from personalab.providers.model_opening import ModelOpener\n"
        "try:\n"
        "    asyncio.run(ModelOpener().run('x', threading.Event().wait, seconds=0.05))\n"
        "except ProviderError as error:\n"
        "    print(error.code)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("provider.open_timeout\n", "")
