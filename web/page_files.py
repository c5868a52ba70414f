"""The files of the page, and its texts in each language, served from memory."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import NotModifiedResponse, StaticFiles
from starlette.types import Scope

from personalab.i18n import ABOUT, Language, catalogue, language_for, languages
from personalab.texts import PROMPT_LANGUAGES

PAGE = Path(__file__).with_name("page")


@cache
def page_texts(language: Language) -> bytes:
    """Return the page's texts in a language, as JSON: views by name, and the languages there are."""
    known = [
        {"code": code, "name": ABOUT.say("name", code), "has_prompts": code in PROMPT_LANGUAGES}
        for code in languages()
    ]
    texts = {
        "language": language,
        "tag": ABOUT.say("tag", language),
        "languages": known,
        "views": catalogue(language)["page"],
    }
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":")).encode()


class PageFiles(StaticFiles):
    """The page's files; a browser asks each time whether they are still the same, so that an update is seen."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file with its validator."""
        folder, _, name = path.partition("/")
        if folder == "texts" and name.endswith(".json"):
            response = self._texts(language_for(name.removesuffix(".json")), scope)
        else:
            response = await super().get_response(path, scope)
        response.headers["cache-control"] = "no-cache"
        return response

    def _texts(self, language: Language, scope: Scope) -> Response:
        """Return the page's texts in the language that fits a browser's best."""
        if scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(405)
        body = page_texts(language)
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        response = Response(body, media_type="application/json", headers={"etag": etag})
        if self.is_not_modified(response.headers, Headers(scope=scope)):
            return NotModifiedResponse(response.headers)
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
