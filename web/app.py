"""The web application: routes, page, middleware and limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse

from personalab.errors import PersonaLabError
from personalab.services import Services
from personalab.serving.access import (
    AccessControl,
    FailedLogins,
    GuardedPaths,
    Rate,
    RequestLimits,
)
from personalab.serving.server import host_names
from personalab.serving.turn_limiter import MAX_TURNS
from web import turns
from web.api import (
    exchange,
    growth,
    instances,
    jobs,
    lab,
    lab_findings,
    lab_projects,
    lab_results,
    library,
    memory,
    prompt,
    sessions,
    settings,
    system,
)
from web.desk import MAX_STREAMS, AppContext
from web.errors import RESPONSES, add_error_handlers, language_of
from web.guarding import GuardMiddleware
from web.page_files import add_page

ROUTERS = (
    turns.router,  # routes are tried in this order
    system.router,
    library.router,
    instances.router,
    sessions.router,
    growth.router,
    prompt.router,
    memory.router,
    settings.router,
    exchange.router,
    jobs.router,
    lab.router,
    lab_projects.router,
    lab_results.router,
    lab_findings.router,
)
Lifespan = Callable[[AppContext], AbstractAsyncContextManager[object]]
ALONE = GuardedPaths(
    open=("/", "/page", "/healthz", "/api/login", "/docs"),
    large=("/api/import", "/mcp"),
)
AMONG_OTHERS = replace(ALONE, guarded=("/", "/page", "/api", "/healthz", "/mcp"))
"""Where another server has this application in it, that server keeps its own ``/docs``, ``/metrics`` and the rest."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much the server takes at once."""

    max_turns: int = MAX_TURNS
    max_streams: int = MAX_STREAMS
    calls_a_second: float = 50.0
    calls_at_once: int = 200
    requests: RequestLimits | None = None
    login_block_seconds: float = 1.0
    """Time a client is blocked for the first wrong token too many; it doubles with each further one."""


def create_app(
    open_services: Callable[[], Services],
    *,
    host: str = "127.0.0.1",
    token: str | None = None,
    allow_hosts: Sequence[str] = (),
    limits: Limits | None = None,
    joined: Sequence[Lifespan] = (),
    paths: GuardedPaths = ALONE,
) -> FastAPI:
    """Make the application; services are opened when it starts, with whatever is ``joined`` to it."""
    limits = limits or Limits()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        services = open_services()
        services.remote = True
        desk = AppContext(services, max_turns=limits.max_turns, max_streams=limits.max_streams)
        app.state.desk = desk
        vocabulary = asyncio.create_task(_load_vocabulary(desk))
        async with AsyncExitStack() as stack:
            for join in joined:
                await stack.enter_async_context(join(desk))
            try:
                yield
            finally:
                vocabulary.cancel()
                await desk.close()

    app = FastAPI(
        title="PersonaLab",
        version=_version(),
        description="Stories, characters, memory and the lab, over the same graphs and rules as every other entrance.",
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=RESPONSES,
        separate_input_output_schemas=False,
    )
    app.state.token = token
    app.state.rate = Rate(limits.calls_a_second, limits.calls_at_once)
    app.state.logins = FailedLogins(first_seconds=limits.login_block_seconds)
    for router in ROUTERS:
        app.include_router(router)
    add_page(app)
    _add_description(app)
    add_error_handlers(app, paths)
    access = AccessControl(
        paths=paths,
        names=host_names(host, token, allow_hosts),
        token=token,
        language=lambda: language_of(app.state),
        limits=limits.requests,
        logins=app.state.logins,
    )
    app.add_middleware(GuardMiddleware, state=app.state, access=access)
    return app


async def _load_vocabulary(desk: AppContext) -> None:
    """Load the tokenizer at the start: it holds up every thread for a moment, and no request should wait for that."""
    with suppress(PersonaLabError):
        await desk.services.counter()


def _add_description(app: FastAPI) -> None:
    """Serve the description of the API; it takes a while to make, and no stream should wait for it."""

    async def description(request: Request) -> JSONResponse:
        return JSONResponse(await asyncio.to_thread(app.openapi))

    app.add_route("/openapi.json", description, include_in_schema=False)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("personalab")
    except PackageNotFoundError:
        return "0"
