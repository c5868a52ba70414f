"""A real Chromium for tests of the page, which records everything that goes wrong in it.

After every visit there must be no exception, no console error, no violation of the page's own policy, no
request to another host and no dialog of the browser.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

import pytest

from tests.support.mcp_server.panel_host.host import PATIENCE_MS, expect, launch

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Locator, Page, Request

__all__ = ["expect"]

DESKTOP, PHONE = (1200, 800), (360, 740)
_WATCH = """
  document.addEventListener('securitypolicyviolation', (event) => console.error(
    `refused by the policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""
_WIDE = """() => {
  const root = document.documentElement;
  if (root.scrollWidth <= root.clientWidth) return null;
  const right = (element) => element.getBoundingClientRect().right;
  const out = [...document.querySelectorAll('body *')].filter((e) => right(e) > root.clientWidth + 1);
  return out.slice(0, 5).map((e) => `${e.tagName}.${e.className}`).join(' ') || 'something';
}"""


@dataclass
class Tab:
    """One page, and what went wrong on it."""

    page: Page
    url: str
    troubles: list[str] = field(default_factory=list[str])
    clicks: int = 0
    _expected: list[str] = field(default_factory=list[str])

    def open(self, path: str = "") -> Tab:
        """Go to a place of the page, as its address in the browser names it: ``chat/inst_001``."""
        there = f"{self.url}/#/{path}"
        if self.page.url == there:
            self.page.reload()
            return self
        self.page.evaluate("document.querySelector('main .view')?.setAttribute('data-left', '')")
        self.page.goto(there)
        self.wait("() => !document.querySelector('[data-left]')")
        return self

    def expects(self, *patterns: str) -> None:
        """Say which errors in the console are no fault of the page: refusals by the server are told there."""
        self._expected += patterns

    def at(self, selector: str, **options: Any) -> Locator:
        """Find elements."""
        return self.page.locator(selector, **options)

    def button(self, name: str | re.Pattern[str], *, within: str = "body", exact: bool = False) -> Locator:
        """Find a button by its words."""
        return self.page.locator(within).get_by_role("button", name=name, exact=exact)

    def click(self, target: Locator) -> None:
        """Click, and count it."""
        target.click()
        self.clicks += 1

    @property
    def dialog(self) -> Locator:
        """The dialog that is open."""
        return self.page.locator("dialog[open]").last

    def wait(self, condition: str, argument: object = None) -> None:
        """Wait until an expression comes true in the page."""
        self.page.wait_for_function(condition, arg=argument)

    def sticks_out(self) -> str | None:
        """Name what makes the page scroll sideways."""
        return cast("str | None", self.page.evaluate(_WIDE))

    def drop(self, *files: tuple[str, bytes], on: str = "body") -> None:
        """Drag files from outside over the page and let them go."""
        given = [[name, list(content)] for name, content in files]
        self.page.evaluate(
            """([on, files]) => {
              const carried = new DataTransfer();
              for (const [name, bytes] of files) carried.items.add(new File([new Uint8Array(bytes)], name));
              const target = document.querySelector(on);
              for (const kind of ['dragenter', 'dragover', 'drop']) target.dispatchEvent(
                new DragEvent(kind, { dataTransfer: carried, bubbles: true, cancelable: true }));
            }""",
            [on, given],
        )

    def check(self) -> None:
        """Fail if anything went wrong that was not expected."""
        known = [*self._expected, r"^$"]
        left = [said for said in self.troubles if not any(re.search(pattern, said) for pattern in known)]
        assert not left, left


@dataclass
class Visits:
    """The browser of a test: as many people as it needs, each with tabs of their own."""

    browser: Browser
    contexts: list[BrowserContext] = field(default_factory=list["BrowserContext"])
    tabs: list[Tab] = field(default_factory=list[Tab])

    def __call__(
        self,
        url: str,
        path: str | None = "",
        *,
        locale: str = "en-US",
        theme: Literal["light", "dark"] = "light",
        size: tuple[int, int] = DESKTOP,
        **options: Any,
    ) -> Tab:
        """Open the page in a browser of its own; ``path`` None leaves it closed."""
        context = self.browser.new_context(
            locale=locale,
            color_scheme=theme,
            viewport={"width": size[0], "height": size[1]},
            reduced_motion="reduce",
            service_workers="block",
            **options,
        )
        context.set_default_timeout(PATIENCE_MS)
        context.add_init_script(_WATCH)
        self.contexts.append(context)
        return self._open(context, url, path)

    def another(self, tab: Tab, path: str | None = "") -> Tab:
        """Open one more tab in the same browser."""
        return self._open(tab.page.context, tab.url, path)

    def _open(self, context: BrowserContext, url: str, path: str | None) -> Tab:
        tab = Tab(context.new_page(), url)
        self.tabs.append(tab)
        _watch(tab)
        return tab if path is None else tab.open(path)

    def end(self) -> None:
        """Close everything and fail if anything went wrong."""
        for context in self.contexts:
            context.close()
        for tab in self.tabs:
            tab.check()


def _watch(tab: Tab) -> None:
    def said(message: ConsoleMessage) -> None:
        if message.type == "error":
            tab.troubles.append(f"{message.text} ({message.location['url']})")

    def asked(request: Request) -> None:
        if not request.url.startswith((f"{tab.url}/", "blob:", "data:")):
            tab.troubles.append(f"asked of another host: {request.url}")

    def opened(dialog: Dialog) -> None:
        if dialog.type == "beforeunload":
            dialog.accept()
        else:
            tab.troubles.append(f"a dialog of the browser: {dialog.message}")
            dialog.dismiss()

    tab.page.on("pageerror", lambda error: tab.troubles.append(f"thrown: {error}"))
    tab.page.on("console", said)
    tab.page.on("request", asked)
    tab.page.on("dialog", opened)


# The browser lives as long as a module, not the session: Playwright's loop counts as running in this thread while it
# is open, and no async test could run beside it.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real Chromium."""
    with launch() as launched:
        yield launched


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visits]:
    """Open the page: ``visit(url, "chat/inst_001", locale="zh-CN")``; checked when the test is over."""
    with visiting(browser) as made:
        yield made


@contextlib.contextmanager
def visiting(browser: Browser) -> Generator[Visits]:
    """Give a browser's visits; those of a failed test are closed all the same."""
    made = Visits(browser)
    try:
        yield made
    except BaseException:
        for tab in made.tabs:
            print(f"troubles on the page: {tab.troubles}")
        for context in made.contexts:
            context.close()
        raise
    made.end()


# --- accessibility


def violations(tab: Tab, *, worst: Sequence[str] = ("serious", "critical")) -> list[str]:
    """Let axe look at the page as it is now; name what it finds serious."""
    from axe_playwright_python.base import AXE_SCRIPT

    if not tab.page.evaluate("'axe' in window"):
        tab.page.evaluate(AXE_SCRIPT)
    found = cast(
        "list[dict[str, Any]]",
        tab.page.evaluate("axe.run({resultTypes: ['violations']}).then((r) => r.violations)"),
    )
    return [
        f"{fault['id']} ({fault['impact']}): {node['html'][:160]} {node.get('failureSummary', '')[:300]}"
        for fault in found
        if fault["impact"] in worst
        for node in fault["nodes"]
    ]
