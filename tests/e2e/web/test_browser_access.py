"""Accessibility tests of the page: screen readers, keyboard, small screens and colour schemes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from tests.e2e.web.browser_chat import Chat
from tests.e2e.web.browser_worlds import House, house, long_history, said
from tests.e2e.web.screenshots import LARGEST, Theme, furnish, make, run_a_project, varied
from tests.support.web.browser import DESKTOP, PHONE, Tab, Visits, expect, violations

LOOK = re.compile("🔍")
# What has the focus: whether it is seen to have it, and what it is.
FOCUSED = """() => {
  const here = document.activeElement;
  const style = getComputedStyle(here);
  const seen = here.matches(':focus-visible') && style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 1;
  const name = here.getAttribute('aria-label') || here.labels?.[0]?.textContent || here.textContent;
  return [here === document.body, seen, `${here.tagName} ${name.trim().slice(0, 40)}`];
}"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A server with something to see in every view."""
    with house(tmp_path_factory.mktemp("access")) as made:
        furnish(made)
        made.story("inst_003", [*long_history(20, "x" * 300), *said(21, "Y" * 2000, "…", interrupted=True)])
        pair = {"agent_id": "char_maren", "user_id": "player"}
        entry = {"content_type": "profile", "text": "The player is called Tam"}
        made.ask("POST", "/api/memory/entries", params=pair, json=entry)
        run_a_project(made)
        yield made


def the_project(home: House) -> str:
    return cast("str", home.ask("GET", "/api/lab/projects")["projects"][0]["project"])


def ready(tab: Tab) -> None:
    expect(tab.at("main h1").first).to_be_visible()
    expect(tab.at("[aria-busy=true]")).to_have_count(0)


def look(tab: Tab, selector: str) -> None:
    expect(tab.dialog.locator(selector).first).to_be_visible()
    expect(tab.dialog.locator("[aria-busy=true]")).to_have_count(0)


def open_new_story(tab: Tab) -> None:
    tab.button("New story").click()
    look(tab, "select")


def open_export(tab: Tab) -> None:
    tab.button(re.compile("^Export")).first.click()
    look(tab, "input")


def open_summary(tab: Tab) -> None:
    tab.button("📝").click()
    look(tab, "p")


def open_growth(tab: Tab) -> None:
    tab.button("🧠").click()
    look(tab, "h3")


def open_prompt(tab: Tab) -> None:
    tab.button(LOOK).click()
    look(tab, "details")
    tab.dialog.locator("summary").first.click()


def open_reset(tab: Tab) -> None:
    tab.button("Restore defaults").click()
    look(tab, "p")


def open_history(tab: Tab) -> None:
    tab.button("History").click()
    look(tab, "li")


def open_new_project(tab: Tab) -> None:
    tab.button("New project").click()
    look(tab, "input")


def open_cell(tab: Tab) -> None:
    tab.at(".lab-cell").first.click()
    look(tab, "pre")


VIEWS: dict[str, tuple[str, Callable[[Tab], None] | None]] = {
    "library": ("", None),
    "a new story": ("", open_new_story),
    "an export": ("", open_export),
    "a character": ("characters/char_maren", None),
    "a new world": ("backgrounds/+", None),
    "a world": ("backgrounds/bg_lighthouse", None),
    "a chat": ("chat/inst_001", None),
    "a chat broken off": ("chat/inst_003", None),
    "a summary": ("chat/inst_002", open_summary),
    "growth": ("chat/inst_002", open_growth),
    "the prompt": ("chat/inst_002", open_prompt),
    "memories": ("memory", None),
    "a memory": ("memory/char_maren/player", None),
    "a memory's history": ("memory/char_maren/player", open_history),
    "settings": ("settings", None),
    "a reset": ("settings", open_reset),
    "the lab": ("lab", None),
    "skills": ("lab/skills", None),
    "the leaderboard": ("lab/leaderboard", None),
    "tags": ("lab/tags", None),
    "a new project": ("lab", open_new_project),
    "a project": ("lab/projects/PROJECT", None),
    "a cell": ("lab/projects/PROJECT", open_cell),
}


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_serious_and_nothing_sticks_out(visit: Visits, home: House, view: str) -> None:
    path, opened = VIEWS[view]
    tab = visit(home.url, path.replace("PROJECT", the_project(home) if "PROJECT" in path else ""))
    ready(tab)
    if opened:
        opened(tab)
    good_for_everyone(tab)


def test_the_page_of_the_api_is_usable_by_everyone(visit: Visits, home: House) -> None:
    tab = visit(home.url, None)
    tab.page.goto(f"{home.url}/docs")
    expect(tab.page.get_by_role("heading").nth(2)).to_be_visible()
    good_for_everyone(tab)


def good_for_everyone(tab: Tab) -> None:
    """Look at what is open in the light on a desk and in the dark on a phone."""
    for (width, height), theme in ((DESKTOP, "light"), (PHONE, "dark")):
        tab.page.set_viewport_size({"width": width, "height": height})
        tab.page.emulate_media(color_scheme=cast("Theme", theme), reduced_motion="reduce")
        assert tab.sticks_out() is None, theme
        assert violations(tab) == [], theme


def test_what_is_hard_to_use_would_be_noticed(visit: Visits, home: House) -> None:
    tab = visit(home.url, "settings", size=PHONE)
    ready(tab)
    tab.page.evaluate(
        """() => {
          const [input, text] = [document.createElement('input'), document.createElement('p')];
          text.textContent = 'hardly to be read, and too wide';
          for (const [name, value] of [['color', '#888'], ['background', '#777'], ['width', '400px']])
            text.style.setProperty(name, value);
          document.querySelector('main').append(input, text);
        }"""
    )
    found = " ".join(violations(tab))
    assert "label (critical)" in found
    assert "color-contrast (serious)" in found
    assert tab.sticks_out()


def tab_to(tab: Tab, name: str) -> None:
    """Press Tab until something has the focus; on the way it is always seen, and never lost."""
    for _ in range(60):
        tab.page.keyboard.press("Tab")
        lost, seen, found = tab.page.evaluate(FOCUSED)
        assert not lost, "the focus was lost"
        assert seen, f"the focus is not seen on {found}"
        if name in found:
            return
    raise AssertionError(f"{name} is not reached by Tab")


def test_a_story_is_begun_and_played_by_keyboard_alone(visit: Visits, home: House) -> None:
    tab = visit(home.url)
    ready(tab)
    tab.page.keyboard.press("Tab")
    assert "Skip to content" in tab.page.evaluate(FOCUSED)[2]
    tab.page.keyboard.press("Enter")
    tab_to(tab, "Start story: Maren")
    tab.page.keyboard.press("Enter")
    expect(tab.dialog.get_by_role("combobox").first).to_be_focused()
    tab_to(tab, "BUTTON Start")
    tab.page.keyboard.press("Enter")
    chat = Chat(tab)
    expect(chat.input).to_be_focused()
    for turn, words in enumerate(("Is anyone there?", "Go on."), 1):
        tab.page.keyboard.type(words)
        tab.page.keyboard.press("Enter")
        expect(chat.turn(turn).locator(".mine .words")).to_have_text(words)
        expect(chat.reply(turn)).not_to_be_empty()
        expect(tab.at(".writing")).to_have_count(0)
        expect(chat.input).to_be_focused()


def test_a_dialog_keeps_the_focus_and_gives_it_back(visit: Visits, home: House) -> None:
    tab = visit(home.url, "chat/inst_002")
    opener = tab.button(LOOK)
    opener.focus()
    tab.page.keyboard.press("Enter")
    look(tab, "details")
    for _ in range(12):
        tab.page.keyboard.press("Tab")
        # Between the last and the first, the focus is with the browser itself.
        expect(tab.at("body > :not(dialog) :focus")).to_have_count(0)
    tab.page.keyboard.press("Escape")
    expect(opener).to_be_focused()


def test_on_a_phone_the_outline_is_a_drawer(visit: Visits, home: House) -> None:
    tab = visit(home.url, "chat/inst_002", size=PHONE, has_touch=True)
    ready(tab)
    outline = tab.at("#outline")
    expect(outline).not_to_be_in_viewport()
    drawer = tab.button("Outline", within="main")
    drawer.tap()
    expect(outline).to_be_in_viewport()
    expect(drawer).to_have_attribute("aria-expanded", "true")
    assert tab.sticks_out() is None
    expect(tab.at("nav.tabs")).to_be_in_viewport()


def test_light_or_dark_is_a_choice_that_stays(visit: Visits, home: House) -> None:
    tab = visit(home.url, theme="light")
    ready(tab)
    behind = "getComputedStyle(document.body).backgroundColor"
    light = tab.page.evaluate(behind)
    tab.button("Switch light and dark").click()
    dark = tab.page.evaluate(behind)
    assert dark != light
    tab.page.reload()
    ready(tab)
    assert tab.page.evaluate(behind) == dark


def test_the_pictures_of_the_documents_can_be_taken_again(visit: Visits, home: House, tmp_path: Path) -> None:
    pictures = make(visit, home, tmp_path)
    assert len(pictures) == 6
    for picture in pictures:
        assert varied(picture) > 100, picture.name
        assert 10_000 < picture.stat().st_size < LARGEST, picture.name


def test_what_redraws_the_page_keeps_the_eye_and_the_keyboard_in_place(visit: Visits, home: House) -> None:
    tab = visit(home.url, "settings")
    ready(tab)
    name = tab.page.get_by_label("Your name")
    name.fill("Tam")
    before = tab.page.evaluate("scrollY")
    assert before > 0
    name.press("Enter")
    expect(tab.at("#toasts")).to_contain_text("Saved")
    expect(tab.button("Save", exact=True)).to_be_focused()
    assert tab.page.evaluate("scrollY") == before
    try:
        tab.button("中文").press("Enter")
        expect(tab.button("English")).to_be_focused()
        expect(tab.at("main h1")).to_have_text("设置")
        assert tab.page.title() == "设置 · PersonaLab"
    finally:
        home.speak("en")


def test_a_menus_dialog_gives_the_focus_back_to_the_menu(visit: Visits, home: House) -> None:
    tab = visit(home.url, "chat/inst_002")
    ready(tab)
    tab.at(".menu summary").press("Enter")
    tab.button("Switch world").press("Enter")
    expect(tab.dialog).to_be_visible()
    tab.page.keyboard.press("Escape")
    expect(tab.at(".menu summary")).to_be_focused()
