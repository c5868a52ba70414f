"""Tests of the page's settings: language, access, thresholds and limits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.web.browser_worlds import House, house
from tests.support.web.browser import Tab, Visits, expect

if TYPE_CHECKING:
    from playwright.sync_api import Route

TOKEN = "a token for tests only"
HAN = re.compile("[\u3400-\u9fff]")
_NAMES = "PersonaLab|OPENAI_API_KEY|PERSONALAB_MODEL|Prompt|tokens?|modules|English|user|Shift|Enter"
ENGLISH = re.compile(rf"(?<![A-Za-z_/.])(?!{_NAMES})[A-Za-z]{{4,}}")
"""A word that a Chinese page would not say; names stay."""
VIEWS = (
    "",
    "memory",
    "lab",
    "settings",
    "chat/inst_001",
    "characters/char_maren",
    "backgrounds/bg_lighthouse",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A server that the tests of this module share; its settings are set back by each."""
    with house(tmp_path_factory.mktemp("settings")) as made:
        made.story("inst_001")
        yield made


# --- who may use it


def test_with_a_token_the_page_asks_for_it_and_then_works(visit: Visits, tmp_path: Path) -> None:
    with house(tmp_path, PERSONALAB_TOKEN=TOKEN) as home:
        tab = visit(home.url)
        tab.expects("status of 401", "status of 400", "status of 403")
        expect(tab.dialog).to_contain_text("Token required")
        field = tab.dialog.get_by_label("Token")
        expect(field).to_be_focused()
        field.fill("a wrong one")
        tab.button("Log in", within="dialog").click()
        expect(tab.dialog.get_by_role("alert")).not_to_be_empty()
        assert TOKEN not in tab.at("body").inner_text()
        field.fill(TOKEN)
        tab.page.keyboard.press("Enter")
        expect(tab.at("dialog")).to_have_count(0)
        expect(tab.at("main h1").first).to_be_visible()
        assert "login" not in tab.page.url
        tab.page.reload()
        expect(tab.at("main h1").first).to_be_visible()
        expect(tab.at("dialog")).to_have_count(0)
        cookie = tab.page.context.cookies()[0]
        assert cookie.get("httpOnly")
        assert cookie.get("sameSite") == "Strict"
        assert TOKEN not in str(cookie)
        assert tab.page.evaluate("document.cookie") == ""


# --- which language


@pytest.mark.parametrize(("locale", "language"), [("zh-CN", "zh"), ("en-US", "en")])
def test_a_page_begins_in_the_browsers_language(
    visit: Visits, tmp_path: Path, locale: str, language: str
) -> None:
    with house(tmp_path, language=None) as home:
        tab = visit(home.url, locale=locale)
        expect(tab.at("main h1").first).to_be_visible()
        expect(tab.at("html")).to_have_attribute("lang", language)
        expect(tab.at("nav.tabs")).to_contain_text({"zh": "故事库", "en": "Library"}[language])


def test_one_press_changes_every_word(visit: Visits, home: House) -> None:
    tab = visit(home.url, "settings")
    expect(tab.at("main h1")).to_have_text("Settings")
    for view in VIEWS:
        tab.open(view)
        expect(tab.at("main h1").first).to_be_visible()
        spoken = english(tab)
        assert not HAN.search(spoken), (view, spoken)
    tab.button("中文").click()
    expect(tab.at("html")).to_have_attribute("lang", "zh")
    try:
        for view in VIEWS:
            tab.open(view)
            expect(tab.at("nav.tabs")).to_contain_text("故事库")
            expect(tab.at("main h1").first).to_be_visible()
            assert not ENGLISH.findall(english(tab)), view
        assert home.ask("GET", "/api/settings")["values"]["preferences.language"] == "zh"
    finally:
        home.speak("en")


def english(tab: Tab) -> str:
    """Read what the page itself says: not what people and models wrote, and not the names of languages."""
    return str(
        tab.page.evaluate(
            """() => {
              const page = document.body.cloneNode(true);
              const theirs = 'bdi, [lang], .words, option, textarea, code, [dir=auto], noscript';
              for (const one of page.querySelectorAll(theirs)) one.remove();
              return page.textContent.replaceAll('中文', '');
            }"""
        )
    )


# --- thresholds and limits


def test_the_settings_are_drawn_as_the_source_draws_them(visit: Visits, home: House) -> None:
    home.speak("zh")
    try:
        tab = visit(home.url, "settings")
        expect(tab.at("main h1")).to_have_text("设置")
        shown = tab.at("main").inner_text()
        place = -1
        for words in (
            "【阈值】",
            "容错处理触发阈值",
            "连续N次未更新后触发",
            "汇总保留轮数",
            "轮",
            "【限制】",
            "Prompt总长度上限",
            "tokens",
            "中间区域警告阈值",
            "ℹ️ 超过此值会显示警告，但不会截断",
            "会话文件最大token数",
            "【偏好设置】",
            "新会话初始内容顺序",
            "先放摘要，再放对话",
            "先放对话，再放摘要",
            "全量读取会话文件",
            "恢复默认",
            "保存",
        ):
            assert shown.find(words, place + 1) > place, words
            place = shown.find(words, place + 1)
        for label, value in {
            "容错处理触发阈值": "3",
            "汇总保留轮数": "5",
            "Prompt总长度上限": "100000",
        }.items():
            expect(tab.page.get_by_label(label)).to_have_value(value)
        expect(tab.page.get_by_label("先放摘要，再放对话")).to_be_checked()
        expect(tab.page.get_by_label("全量读取会话文件")).to_be_checked()
        assert "{" not in shown.replace("{{user}}", "")
    finally:
        home.speak("en")


def test_what_is_out_of_range_is_refused_at_its_field(visit: Visits, home: House) -> None:
    tab = visit(home.url, "settings")
    field = tab.page.get_by_label("Nudge the plot")
    before = home.ask("GET", "/api/settings")["values"]
    sent: list[str] = []
    tab.page.on("request", lambda request: sent.append(request.method))
    for wrong in ("11", "0", "-1", "2.5", ""):
        field.fill(wrong)
        tab.button("Save", exact=True).click()
        expect(tab.page.get_by_role("alert").filter(has_text="whole number from 1 to 10")).to_be_visible()
        expect(field).to_be_focused()
        expect(field).to_have_attribute("aria-invalid", "true")
    assert set(sent) <= {"GET"}
    assert home.ask("GET", "/api/settings")["values"] == before
    field.fill("4")
    expect(tab.at("main")).to_contain_text("1 unsaved change")
    tab.button("Save", exact=True).click()
    expect(tab.at("#toasts")).to_contain_text("Saved")
    assert home.ask("GET", "/api/settings")["values"]["thresholds.rag_fallback_threshold"] == 4
    assert json.loads((home.data / "config.json").read_text(encoding="utf-8"))["thresholds"] == {
        "rag_fallback_threshold": 4,
        "summary_last_n_turns": 5,
    }
    tab.button("Restore defaults").click()
    tab.dialog.locator(".primary").click()
    expect(tab.page.get_by_label("Nudge the plot")).to_have_value("3")
    assert home.ask("GET", "/api/settings")["values"]["thresholds.rag_fallback_threshold"] == 3


def test_what_slips_past_the_browser_is_refused_by_the_server_at_the_same_field(
    visit: Visits, home: House
) -> None:
    tab = visit(home.url, None)
    tab.expects("status of 400", "status of 422")

    def widened(route: Route) -> None:
        """Let the browser believe in another range."""
        told = route.fetch()
        rules = told.json()
        if "rules" in rules:
            rules["rules"]["thresholds.rag_fallback_threshold"]["high"] = 1000
        route.fulfill(response=told, json=rules)

    tab.page.route(
        "**/api/settings",
        lambda route: widened(route) if route.request.method == "GET" else route.continue_(),
    )
    tab.open("settings")
    field = tab.page.get_by_label("Nudge the plot")
    field.fill("500")
    tab.button("Save", exact=True).click()
    described = tab.at(f"#{field.get_attribute('id')}-fault")
    expect(described).to_be_visible()
    expect(described).to_contain_text("10")
    expect(field).to_be_focused()
    expect(field).to_have_value("500")
    assert home.ask("GET", "/api/settings")["values"]["thresholds.rag_fallback_threshold"] == 3


def test_a_broken_file_of_settings_is_told_and_can_be_replaced(visit: Visits, tmp_path: Path) -> None:
    with house(tmp_path, language=None) as home:
        (home.data / "config.json").write_text("{ broken", encoding="utf-8")
        tab = visit(home.url, "settings")
        tab.expects("status of 500", "status of 4..")
        expect(tab.at("main").get_by_role("alert")).to_contain_text("config.json")
        tab.button("Restore defaults").click()
        tab.dialog.locator(".primary").click()
        expect(tab.page.get_by_label("Nudge the plot")).to_have_value("3")


def test_a_page_whose_server_does_not_answer_can_be_tried_again(visit: Visits, home: House) -> None:
    tab = visit(home.url, None)
    tab.expects("ERR_FAILED")
    tab.page.route("**/api/info", lambda route: route.abort())
    tab.open()
    expect(tab.at("main").get_by_role("alert")).to_contain_text("Can't reach the server")
    tab.page.unroute("**/api/info")
    tab.button("Retry").click()
    expect(tab.at("main h1")).to_have_text("Library")
