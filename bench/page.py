"""Load time of the chat page with a long and with an empty story, and the size of the page's code.

Chromium opens the page of a real server, each time with an empty cache, alternating between the long and the
empty story. Two times are measured: until anything is painted, and until the content is there: the newest
turn, or the input of the empty story.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, cast

from bench.table import Figure, median
from personalab.i18n import languages
from personalab.services import open_services
from personalab.settings import read_settings
from personalab.story.transcript import AssistantLine, UserLine, dump_line
from web.page_files import PAGE, page_texts

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_ROUNDS = 9
_TURNS = 2000
_TIME = "2026-01-01T00:00:00Z"
_WORDS = "The wind has turned, and the lamp wants oil; nobody has rowed over since Thursday. " * 3
_NEWEST = f"answer {_TURNS}:"
# The first frame in which something is there and stands inside the window.
_AWAIT = """(() => {
  const seen = () => {
    const text = %s;
    const list = [...document.querySelectorAll(text ? 'main p, main div' : 'main textarea')];
    const found = list.find((e) => !text || (!e.children.length && e.textContent.includes(text)));
    const box = found?.getBoundingClientRect();
    if (box?.height && box.top < innerHeight && box.bottom > 0) window.shownAt = performance.now();
    else requestAnimationFrame(seen);
  };
  requestAnimationFrame(seen);
})()"""
_PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def figures() -> list[Figure]:
    """Measure the first paint and the code's size."""
    with tempfile.TemporaryDirectory() as folder, _server(Path(folder)) as url, _browser() as browser:
        _open(browser, url, "inst_empty", None)
        _open(browser, url, "inst_long", _NEWEST)
        long: list[tuple[float, float]] = []
        empty: list[tuple[float, float]] = []
        for _ in range(_ROUNDS):
            empty.append(_open(browser, url, "inst_empty", None))
            long.append(_open(browser, url, "inst_long", _NEWEST))
    rows = [
        _ratio(f"{what}: {_TURNS:,} turns / none", [seen[at] for seen in long], [seen[at] for seen in empty])
        for at, what in enumerate(("first contentful paint", "newest turn in sight"))
    ]
    return [*rows, *_sizes()]


def _sizes() -> list[Figure]:
    """Weigh the page's code, and apart from it the texts, of which a browser fetches one language."""
    code = sum(path.stat().st_size for path in PAGE.rglob("*") if path.is_file() and path.stem != "docs")
    words = max(len(page_texts(language)) for language in languages())
    return [
        Figure("the page's code, uncompressed", code / 1000, "kB", at_most=150),
        Figure("its texts in one language", words / 1000, "kB"),
    ]


def _ratio(name: str, long: list[float], empty: list[float]) -> Figure:
    note = f"{median(long):.0f} ms / {median(empty):.0f} ms"
    return Figure(name, median(long) / median(empty), at_most=1.5, note=note)


def _open(browser: Browser, url: str, instance_id: str, text: str | None) -> tuple[float, float]:
    """Open a story in a browser that has never seen the page; give both times, in milliseconds."""
    context = browser.new_context(locale="en-US", viewport={"width": 1200, "height": 800})
    try:
        page = context.new_page()
        page.add_init_script(_AWAIT % (f'"{text}"' if text else "null"))
        page.goto(f"{url}/#/chat/{instance_id}")
        page.wait_for_function("() => window.shownAt")
        page.wait_for_function(_PAINTED)
        return cast("float", page.evaluate(_PAINTED)), cast("float", page.evaluate("window.shownAt"))
    finally:
        context.close()


def _fill(environment: dict[str, str]) -> None:
    """Make the two stories."""
    stories = open_services(read_settings(environment)).stories
    character, background = stories.character("char_maren"), stories.background("bg_lighthouse")
    for instance_id in ("inst_empty", "inst_long"):
        stories.create_instance(character, background, instance_id, _TIME)
    root = Path(environment["PERSONALAB_DATA"], "instances", "inst_long", "sessions", "sess_001.jsonl")
    with root.open("ab") as file:
        for turn in range(1, _TURNS + 1):
            file.write(dump_line(UserLine(f"question {turn}: {_WORDS}", turn, _TIME)))
            file.write(dump_line(AssistantLine(f"answer {turn}: {_WORDS}", turn, _TIME)))


@contextlib.contextmanager
def _server(folder: Path) -> Generator[str]:
    outside = ("OPENAI_", "PERSONALAB_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(outside)}
    environment = {**kept, "PERSONALAB_DATA": str(folder / "data"), "PERSONALAB_MODEL": "rehearsal"}
    _fill(environment)
    command = [sys.executable, "-m", "web", "--port", "0"]
    log = folder / "server.log"
    with log.open("wb") as said:
        process = subprocess.Popen(command, env=environment, stdout=said, stderr=said)
    try:
        found = None
        while found is None:
            assert process.poll() is None, log.read_text(encoding="utf-8")
            found = re.search(r"http://[^\s\"/]+", log.read_text(encoding="utf-8"))
        yield found[0]
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _browser() -> Generator[Browser]:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()
