"""The files of the page, served from memory."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

PAGE = Path(__file__).with_name("page")


class PageFiles(StaticFiles):
    """The page's files; a browser asks each time whether they are still the same, so that an update is seen."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file with its validator."""
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = "no-cache"
        return response


def add_page(app: FastAPI) -> None:
    """Serve the page at ``/``, the description of the API at ``/docs``, and their files."""

    async def index(request: Request) -> FileResponse:
        return FileResponse(PAGE / "index.html", headers={"cache-control": "no-cache"})

    async def docs(request: Request) -> FileResponse:
        return FileResponse(PAGE / "docs.html", headers={"cache-control": "no-cache"})

    app.add_route("/", index, include_in_schema=False)
    app.add_route("/docs", docs, include_in_schema=False)
    app.mount("/page", PageFiles(directory=PAGE), name="page")
