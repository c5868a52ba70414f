"""Names and ids of one long word make no page wider than the screen."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.e2e.web.browser_worlds import House, house, long_history
from tests.support.web.browser import Tab, Visits, expect

NAME = "Unbroken" * 25
ID = "x" * 64
PAIR = {"agent_id": ID, "user_id": "Somebody" * 15}
SIZES = {"desktop": (1280, 800), "phone": (390, 780)}
PAGES = (
    "",
    "memory",
    f"memory/{ID}",
    f"memory/{PAIR['agent_id']}/{PAIR['user_id']}",
    f"characters/{ID}",
    f"backgrounds/{ID}",
    f"chat/{ID}",
    "settings",
    "lab",
)
DIALOGS = ("📝", "🧠", "🔍")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A server on which everything has a long name and a long id."""
    with house(tmp_path_factory.mktemp("long")) as made:
        world = {"name": NAME, "world_setting": NAME, "story_outline": [NAME]}
        made.ask("PUT", f"/api/backgrounds/{ID}", json=world)
        made.ask("PUT", f"/api/characters/{ID}", json={"name": NAME, "base_persona": NAME})
        made.story(ID, long_history(3, NAME), character=ID, background=ID)
        for pair in (PAIR, {"agent_id": ID, "user_id": "player"}):
            for kind in ("profile", "event", "mind"):
                entry = {"content_type": kind, "text": NAME}
                made.ask("POST", "/api/memory/entries", params=pair, json=entry)
        yield made


def _ready(tab: Tab) -> None:
    expect(tab.at("main h1").first).to_be_visible()
    expect(tab.at("[aria-busy=true]")).to_have_count(0)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_pages_with_long_names_are_no_wider_than_the_screen(
    visit: Visits, home: House, size: str, language: str
) -> None:
    home.speak(language)
    tab = visit(home.url, "settings", size=SIZES[size])
    wide: dict[str, str | None] = {}
    for page in PAGES:
        tab.open(page)
        _ready(tab)
        wide[page] = tab.sticks_out()
    assert not {page: found for page, found in wide.items() if found}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_dialogs_with_long_names_do_not_scroll_sideways(
    visit: Visits, home: House, size: str, language: str
) -> None:
    home.speak(language)
    tab = visit(home.url, f"chat/{ID}", size=SIZES[size])
    for sign in DIALOGS:
        _ready(tab)
        tab.button(re.compile(sign)).first.click()
        expect(tab.dialog).to_be_visible()
        expect(tab.dialog.locator("[aria-busy=true]")).to_have_count(0)
        for part in tab.dialog.locator("summary").all():
            part.click()
        assert tab.dialog.evaluate("dialog => dialog.scrollWidth <= dialog.clientWidth"), sign
        assert tab.sticks_out() is None
        tab.page.keyboard.press("Escape")
