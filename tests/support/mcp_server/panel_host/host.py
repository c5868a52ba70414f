"""A real browser with the official host library that shows the panel and records errors."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from mcp_server.panel import panel_html
from tests.support.mcp_server.panel_host.stories import Json, result

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Frame, Locator, Page
    from playwright.sync_api._generated import LocatorAssertions

PROJECT = Path(__file__).parents[4]
HERE = Path(__file__).parent
MODULES = PROJECT / "build" / "node" / "node_modules"
BRIDGE = MODULES / "@modelcontextprotocol" / "ext-apps" / "dist" / "src" / "app-bridge.js"
BUNDLER = MODULES / "rolldown" / "bin" / "cli.mjs"
CSP = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"
PATIENCE_MS = 30_000
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# For every visible text of the panel: its words, and the ratio of its colour to what is behind it (WCAG 2).
CONTRASTS = """() => {
  const channels = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = (color) => channels(color).slice(0, 3)
    .map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
  const behind = (element) => {
    const color = getComputedStyle(element).backgroundColor;
    return channels(color)[3] === 0 ? behind(element.parentElement) : color;
  };
  const speaks = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  return [...document.querySelectorAll("#main *")].filter((e) => speaks(e) && e.checkVisibility()).map((e) => {
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
    return [e.textContent.slice(0, 30), (a + 0.05) / (b + 0.05)];
  });
}"""


def expect(locator: Locator) -> LocatorAssertions:
    """Wait until an element is as said."""
    from playwright.sync_api import expect as wait_for

    return wait_for(locator)


@dataclass
class Host:
    """A host's page with the panel in it, and everything that went wrong on it."""

    page: Page
    site: str
    troubles: list[str] = field(default_factory=list[str])
    requested: list[str] = field(default_factory=list[str])

    def open(
        self,
        context: Json | None = None,
        capabilities: Json | None = None,
        answers: list[Json | str] | None = None,
    ) -> Json:
        """Load the panel and wait for its handshake; give what it said of itself."""
        self.page.goto(f"{self.site}/host.html")
        given = {"context": context or {}, "capabilities": capabilities or {}, "answers": answers or []}
        return cast("Json", self.page.evaluate("given => openPanel(given)", given))

    def show(self, structured: object) -> None:
        """Give the panel an answer of the tool."""
        self.send("sendToolResult", result(structured))

    def send(self, name: str, params: Json) -> None:
        """Let the bridge send a notification, and wait until the panel has dealt with it."""
        self.page.evaluate("([name, params]) => bridge[name](params)", [name, params])
        self.settle()

    def send_raw(self, *messages: object) -> None:
        """Send messages that no schema was asked about."""
        self.page.evaluate("messages => messages.forEach(sendRaw)", messages)
        self.settle()

    def settle(self) -> None:
        """Wait until the panel has dealt with all that was sent."""
        self.page.evaluate("settle()")

    @property
    def frame(self) -> Frame:
        """The panel's frame."""
        return self.page.frames[-1]

    def at(self, selector: str) -> Locator:
        """Find elements of the panel."""
        return self.frame.locator(selector)

    def heard(self, what: str) -> list[Any]:
        """Give what the bridge noted: ``sizes``, ``calls`` or ``errors``."""
        return cast("list[Any]", self.page.evaluate("what => heard[what]", what))

    def contrasts(self) -> list[tuple[str, float]]:
        """Measure how well each visible text stands out."""
        return cast("list[tuple[str, float]]", self.frame.evaluate(CONTRASTS))

    def check(self) -> None:
        """Fail if anything was thrown, refused or fetched."""
        for frame in self.page.frames:
            self.troubles += cast("list[str]", frame.evaluate("window.violations ?? []"))
        assert not self.troubles, self.troubles
        own = {f"{self.site}/{name}" for name in ("host.html", "host.js", "bridge.js", "panel.html")}
        assert own.issuperset(self.requested), self.requested
        if "/host.html" in self.page.url:
            assert not self.heard("errors"), self.heard("errors")


@contextlib.contextmanager
def launch() -> Generator[Browser]:
    """Run Chromium, or skip where it is missing."""
    pytest.importorskip("playwright", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("Chromium is not installed; run: apt-get install chromium")
    from playwright.sync_api import expect as wait_for
    from playwright.sync_api import sync_playwright

    wait_for.set_options(timeout=PATIENCE_MS)

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield launched
        launched.close()


def bundle_bridge(folder: Path) -> Path:
    """Make one file of the official host library, or skip where it is missing."""
    if not BRIDGE.exists() or not BUNDLER.exists():
        pytest.skip("@modelcontextprotocol/ext-apps and rolldown are not in build/node/node_modules")
    node = shutil.which("node", path=str(MODULES / ".bin")) or shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not installed")
    bundle = folder / "bridge.js"
    command = [
        node,
        BUNDLER,
        BRIDGE,
        "--format",
        "esm",
        "--platform",
        "browser",
        "--minify",
        "--file",
        bundle,
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return bundle


@contextlib.contextmanager
def serve(bridge: Path) -> Generator[str]:
    """Serve the host's page, the bridge, and the panel under its policy, on a loopback port."""
    files = {
        "/host.html": (HERE / "host.html").read_bytes(),
        "/host.js": (HERE / "host.js").read_bytes(),
        "/bridge.js": bridge.read_bytes(),
        "/panel.html": panel_html().encode(),
    }

    class Files(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = files.get(self.path, b"")
            self.send_response(200 if body else 404)
            kind = "text/javascript" if self.path.endswith(".js") else "text/html"
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            if self.path == "/panel.html":
                self.send_header("Content-Security-Policy", CSP)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Files) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def visit(browser: Browser, site: str) -> Generator[Host]:
    """Give a host that has nothing open yet; fail in the end if anything was wrong with what it opened."""
    page = browser.new_page(viewport={"width": 900, "height": 800})
    host = Host(page, site)
    page.set_default_timeout(PATIENCE_MS)
    page.on("pageerror", lambda error: host.troubles.append(f"thrown: {error}"))
    page.on("console", lambda said: host.troubles.append(said.text) if said.type == "error" else None)
    page.on("request", lambda request: host.requested.append(request.url))
    page.add_init_script(
        "document.addEventListener('securitypolicyviolation',"
        " event => (window.violations ??= []).push('refused: ' + event.violatedDirective))"
    )
    yield host
    host.check()
    page.close()
