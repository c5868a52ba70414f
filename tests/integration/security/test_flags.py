"""Flags for the ``claude`` command line: a short list at the terminal, none from a remote client."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client

from mcp_server.server import build_server
from personalab.errors import PersonaLabError, UserError
from personalab.lab.calling import SWITCHES, VALUE_FLAGS, check_flags
from personalab.operations.lab.projects import change_options
from personalab.services import Services
from tests.support.lab.running import BASELINES, SKILLS, FakeExecutor, add_assets, evaluate, make_project, use
from tests.support.mcp_server.calls import refused
from tests.support.providers.fake_cli import install, question
from web.joining import whole_app

BAD: list[tuple[str, ...]] = [
    ("mcp", "add", "evil", "/bin/sh"),
    ("--mcp-config=/tmp/evil.json",),
    ("--mcp-config", "/tmp/evil.json"),
    ("--plugin-dir=/tmp",),
    ("--settings=/tmp/evil.json",),
    ("--add-dir=/",),
    ("--debug-file=/tmp/x",),
    ("--agents={}",),
    ("--allowedTools=Bash",),
    ("--tools=default",),
    ("--dangerously-skip-permissions",),
    ("--permission-mode=bypassPermissions",),
    ("--model=x",),
    ("--system-prompt-file=/etc/passwd",),
    ("--resume",),
    ("-p",),
    ("--",),
    ("",),
    ("--effort",),
    ("--effort", "high"),
    ("--effort=",),
    ("--effort=/etc/passwd",),
    ("--effort=--model=x",),
    ("--effort=high\n--model=x",),
    ("--EFFORT=high",),
    ("--verbose=1",),
    ("--max-turns=3", "mcp"),
]


@pytest.mark.parametrize("flags", BAD)
def test_flag_outside_the_list_is_refused(flags: tuple[str, ...]) -> None:
    with pytest.raises(UserError) as refusal:
        check_flags(flags)
    assert refusal.value.code == "lab_flag_refused"
    assert "--effort" in str(refusal.value), "it says what may be used"
    assert refusal.value.message("zh") != str(refusal.value)


@given(st.lists(st.text(max_size=30) | st.sampled_from([f"{one}=high" for one in VALUE_FLAGS]), max_size=3))
def test_only_listed_flags_pass(flags: list[str]) -> None:
    try:
        check_flags(flags)
    except UserError:
        return
    for flag in flags:
        name, equals, _ = flag.partition("=")
        assert name in (VALUE_FLAGS if equals else SWITCHES)


def test_listed_flags_reach_the_program(tmp_path: Any) -> None:
    fake = install(tmp_path / "fake")
    flags = (*(f"{name}=1" for name in VALUE_FLAGS), *SWITCHES)
    assert fake.run(question(extra_flags=flags)).status == "ok"
    assert fake.calls()[0]["argv"][-len(flags) :] == list(flags)


@pytest.mark.anyio
@pytest.mark.parametrize("flags", [["mcp", "add", "evil", "/bin/sh"], ["--effort=high"], []])
async def test_mcp_takes_no_flags(services: Services, flags: list[str]) -> None:
    services.preferences.change({"language": "en"})
    add_assets(services)
    async with Client(build_server(services, ["lab"])) as client:
        parts: dict[str, Any] = {"name": "P", "skill_ids": SKILLS[:1], "baseline_ids": BASELINES[:1]}
        said = await refused(client, "project_create", **parts, options={"extra_flags": flags})
    assert "at the terminal" in said
    assert services.projects.list() == []


@pytest.mark.anyio
async def test_http_takes_no_flags(services: Services) -> None:
    add_assets(services)
    app = whole_app(lambda: services)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        body = {"name": "P", "skill_ids": SKILLS[:1], "baseline_ids": BASELINES[:1]}
        for flags in (["mcp", "add"], ["--effort=high"]):
            answer = await client.post("/api/lab/projects", json={**body, "options": {"extra_flags": flags}})
            assert answer.status_code == 422
            assert "extra_flags" in answer.text
    assert services.projects.list() == []


@pytest.mark.anyio
async def test_graph_of_a_server_takes_no_flags(services: Services) -> None:
    """A client of a LangGraph server may change options for a run."""
    fake = use(services, FakeExecutor())
    place = await make_project(services)
    services.remote = True
    for dry_run, flags in ((True, ["--effort=high"]), (False, ["--effort=high"]), (False, ["mcp", "add"])):
        _, result = await evaluate(services, place.name, dry_run=dry_run, changes={"extra_flags": flags})
        assert result["error"]["code"] == "lab_flags_local"
    assert fake.calls == []
    assert place.options().extra_flags == ()


@pytest.mark.anyio
@pytest.mark.parametrize("file", ["x_run.json", "config.json"])
async def test_stored_flags_outside_the_list_are_refused_at_run_time(services: Services, file: str) -> None:
    fake = use(services, FakeExecutor())
    place = await make_project(services)
    path = place.folder / file
    stored = json.loads(path.read_text(encoding="utf-8"))
    (stored if file == "x_run.json" else stored["cli_config"])["extra_flags"] = ["mcp", "add", "evil"]
    path.write_text(json.dumps(stored), encoding="utf-8")
    if file == "config.json":
        (place.folder / "x_run.json").unlink()
    _, result = await evaluate(services, place.name)
    assert result["status"] == "error"
    assert "extra_flags" in result["error"]["message"]
    assert fake.calls == []


@pytest.mark.anyio
async def test_terminal_may_set_listed_flags(services: Services) -> None:
    place = await make_project(services, extra_flags=["--effort=high"])
    assert place.options().extra_flags == ("--effort=high",)
    with pytest.raises(PersonaLabError):
        await change_options(services, place.name, {"extra_flags": ["--settings=x"]})
