"""Tests of the HTML report in a real browser: layout, contrast, and no scripts or requests."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from personalab.lab.reports.data import ReportData
from personalab.lab.reports.html import html_report
from personalab.texts import Language, languages
from tests.support.lab.report_samples import HOSTILE, whole
from tests.support.mcp_server.panel_host.host import expect, launch

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PHONE, DESK = 375, 1280

# For every visible text: its words, and the ratio of its colour to what is behind it (WCAG 2). Mixed colours are
# told by shares of one, others by bytes.
CONTRASTS = """() => {
  const channels = (color) => {
    const found = color.match(/[\\d.]+(e-?\\d+)?/g).map(Number);
    return color.startsWith("color(") ? found.map((c, n) => (n < 3 ? c * 255 : c)) : found;
  };
  const light = (color) => channels(color).slice(0, 3)
    .map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
  const behind = (element) => {
    const color = getComputedStyle(element).backgroundColor;
    return channels(color)[3] === 0 ? behind(element.parentElement) : color;
  };
  const ink = (element) => {
    const style = getComputedStyle(element);
    return element instanceof SVGElement ? style.fill : style.color;
  };
  const speaks = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  const shown = [...document.querySelectorAll("body *:not(title, desc)")];
  return shown.filter((e) => speaks(e) && e.checkVisibility()).map((e) => {
    const [a, b] = [light(ink(e)), light(behind(e))].sort((x, y) => y - x);
    return [e.textContent.slice(0, 30), (a + 0.05) / (b + 0.05)];
  });
}"""


# The browser lives as long as this module, not the session: Playwright's loop counts as running in this thread
# while it is open, and no async test could run beside it.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real Chromium."""
    with launch() as launched:
        yield launched


@dataclass
class Reader:
    """Opens reports, and notes what goes wrong on them."""

    browser: Browser
    folder: Path
    troubles: list[str] = field(default_factory=list[str])
    requested: list[str] = field(default_factory=list[str])

    @contextmanager
    def open(
        self, data: ReportData, language: Language = "en", *, width: int = DESK, dark: bool = False
    ) -> Generator[Page]:
        """Show a report; when it is closed, nothing may have been logged, thrown, refused or asked for."""
        file = self.folder / "report.html"
        file.write_bytes(html_report(data, language).encode("utf-8"))
        context = self.browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme="dark" if dark else "light"
        )
        try:
            page = context.new_page()
            page.on("console", lambda message: self.troubles.append(message.text))
            page.on("pageerror", lambda error: self.troubles.append(str(error)))
            page.on("dialog", lambda dialog: self.troubles.append(dialog.message))
            page.on("request", lambda request: self.requested.append(request.url))
            page.goto(file.as_uri())
            yield page
            assert self.troubles == []
            assert [url for url in self.requested if not url.startswith("data:")] == [file.as_uri()]
        finally:
            context.close()


@pytest.fixture
def reader(browser: Browser, tmp_path: Path) -> Reader:
    """Who opens reports."""
    return Reader(browser, tmp_path)


def contrasts(page: Page) -> list[tuple[str, float]]:
    """Measure how well each visible text stands out."""
    return cast("list[tuple[str, float]]", page.evaluate(CONTRASTS))


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("dark", [False, True])
def test_every_text_stands_out_in_both_languages_and_both_schemes(
    reader: Reader, language: Language, dark: bool
) -> None:
    with reader.open(replace(whole(), pass_score=75.0), language, dark=dark) as page:
        assert page.evaluate("document.documentElement.lang") == {"zh": "zh-CN", "en": "en"}[language]
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })")
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == ("rgb(29, 28, 26)" if dark else "rgb(253, 252, 250)")
        measured = contrasts(page)
        assert len(measured) > 300
        assert [(text, ratio) for text, ratio in measured if ratio < 4.5] == []


@pytest.mark.parametrize("text", ["", HOSTILE, "一" * 500, "x" * 500])
def test_a_page_never_scrolls_sideways(reader: Reader, text: str) -> None:
    with reader.open(whole(text)) as page:
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })")
        for width in (320, PHONE, 768, DESK):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") == width


def test_hostile_texts_do_nothing_and_are_shown(reader: Reader) -> None:
    with reader.open(whole(HOSTILE)) as page:
        expect(page.locator("h1")).to_contain_text('"><script>window.hit=1</script><img src=x onerror=')
        expect(page.locator("h1")).to_contain_text("⟦U+202E⟧gnitirw⟦U+202C⟧")
        assert page.evaluate("window.hit ?? null") is None
        assert page.locator("script, img, iframe").count() == 0
        assert page.title().startswith('"><script>')


def test_a_place_of_the_matrix_leads_to_its_answer(reader: Reader) -> None:
    data = whole()
    with reader.open(data) as page:
        answer = page.locator("#r0-2 pre").first
        expect(answer).to_be_hidden()
        page.locator('.matrix a[href="#r0-2"]').click()
        # Chromium opens what an address points into
        expect(page.locator("#r0-2 > summary")).to_be_in_viewport()
        page.locator("#r0-2 > summary").click()
        expect(answer).to_be_visible()


def test_plots_tell_their_figures_to_those_who_do_not_see_them(reader: Reader) -> None:
    with reader.open(whole()) as page:
        drawn = page.get_by_role("img")
        assert drawn.count() == 6 + 6 * 6 + 1
        first = whole().rows[0]
        name = f"{first.name}: average {first.mean:.1f}"
        expect(page.get_by_role("img", name=name, exact=False)).to_have_count(1)
        expect(page.get_by_role("img", name="Progress of the iteration")).to_be_visible()
        tables = page.locator("table")
        assert page.locator("table > caption").count() == tables.count() == 5


def test_a_whisker_stands_where_its_figures_say(reader: Reader) -> None:
    with reader.open(whole()) as page:
        dots = page.locator("#ranking .plot .dot")
        places = [dots.nth(at).evaluate("dot => dot.getBoundingClientRect().x") for at in range(5)]
        assert places == sorted(places, reverse=True)
        ticks = page.locator("#ranking .plot text")
        shown = {
            float(ticks.nth(at).text_content() or ""): ticks.nth(at).evaluate(
                "tick => { const box = tick.getBoundingClientRect(); return box.x + box.width / 2 }"
            )
            for at in range(ticks.count())
        }
        low, high = min(shown), max(shown)
        mean = whole().rows[0].mean or 0.0
        wanted = shown[low] + (mean - low) / (high - low) * (shown[high] - shown[low])
        assert places[0] + 5 == pytest.approx(wanted, abs=1.5)


def test_printing_shows_what_is_folded(reader: Reader) -> None:
    with reader.open(whole()) as page:
        page.emulate_media(media="print")
        expect(page.locator("nav")).to_be_hidden()
        assert page.evaluate(
            "document.querySelector('#c0 pre').checkVisibility({contentVisibilityAuto: true})"
        )
