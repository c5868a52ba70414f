"""What tests of the web share: the application in this process, a real server, and models that wait for the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from personalab.services import Services
from personalab.serving.connections import PatientProtocol
from personalab.serving.server import listen
from tests.support.mcp_server.processes import begin_stories, with_provider, world
from tests.support.web.browser import browser, visit
from tests.support.web.serving import SECONDS, Served, serving
from tests.support.web.slow_model import HandedModel, SlowModel
from web.desk import AppContext
from web.joining import whole_app

__all__ = ["begin_stories", "browser", "visit", "with_provider", "world"]


@dataclass
class Live:
    """The application on a real port, in this process: its model can be handed what to say."""

    url: str
    app: FastAPI
    client: httpx.AsyncClient
    """Talks over a real socket, so that streams come as they are sent."""

    @property
    def desk(self) -> AppContext:
        """What the application's routes work with."""
        return self.app.state.desk


@asynccontextmanager
async def live_app(services: Services, **options: Any) -> AsyncGenerator[Live]:
    """Serve the whole application on a free port, in this process."""
    app = whole_app(lambda: services, **options)
    listener = listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = uvicorn.Config(
        app, http=PatientProtocol, log_config=None, lifespan="on", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    # Signals are the test run's own.
    serving_task = asyncio.create_task(server._serve([listener]))  # pyright: ignore[reportPrivateUsage]
    while not server.started:
        assert not serving_task.done(), "the server did not start"
        await asyncio.sleep(0.005)
    limits = httpx.Limits(max_connections=None)
    try:
        async with httpx.AsyncClient(base_url=url, timeout=SECONDS, limits=limits) as client:
            yield Live(url, app, client)
    finally:
        await app.state.desk.close()
        server.should_exit = True
        await serving_task


@pytest.fixture
def app(services: Services) -> FastAPI:
    """The whole application over this test's services; not started."""
    return whole_app(lambda: services)


@pytest.fixture
async def app_client(app: FastAPI, anyio_backend: str) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of the started application, in this process.

    It gives an answer when it is whole: a stream that is still being written is for ``live``.
    """
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(app.router.lifespan_context(app))
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        yield await stack.enter_async_context(
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765", timeout=SECONDS)
        )


@pytest.fixture
async def live(services: Services, anyio_backend: str) -> AsyncGenerator[Live]:
    """The application on a real port, in this process."""
    async with live_app(services) as made:
        yield made


@pytest.fixture
def handed(services: Services) -> HandedModel:
    """A model in this process that says what the test hands it."""
    model = HandedModel()
    services.models["rehearsal"] = model
    return model


@pytest.fixture
def slow_model() -> Iterator[SlowModel]:
    """A model over HTTP that says what the test hands it: for servers in processes of their own."""
    with SlowModel() as running:
        yield running


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What a server process is started with: a data root of its own with a story ``inst_001``, the stand-in model."""
    made = world(tmp_path, PERSONALAB_MODEL="rehearsal")
    begin_stories(made, "inst_001")
    return made


@pytest.fixture
def serve(environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Start servers on this test's data root: ``serve("--max-turns", "1", PERSONALAB_TOKEN="…")``."""
    with ExitStack() as stack:

        def start(*options: str, port: int = 0, **more: str) -> Served:
            log = tmp_path / "server.log"
            return stack.enter_context(serving({**environment, **more}, log, *options, port=port))

        yield start


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    """A server process with the stand-in model."""
    return serve()


@pytest.fixture
def slowly_served(serve: Callable[..., Served], slow_model: SlowModel) -> Served:
    """A server process whose model says what the test hands to ``slow_model``."""
    return serve(**with_provider({}, slow_model))
