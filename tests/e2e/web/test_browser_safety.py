"""Tests that untrusted text is shown as text, and that the page stays fast with large content."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import pytest

from tests.e2e.web.browser_chat import Chat
from tests.e2e.web.browser_worlds import (
    HOSTILE,
    IMAGE,
    LINK,
    SCRIPT,
    TURNED,
    House,
    house,
    long_history,
    said,
)
from tests.support.web.browser import Tab, Visits, expect
from tests.support.web.slow_model import SlowModel

if TYPE_CHECKING:
    from playwright.sync_api import Locator

LONG = "长" * 50_000 + "x" * 50_000
TURNS = 5_000
MOST_ELEMENTS = 1_500

# What stands after a text that turns directions around, in the block or isolate that holds it, would be turned, too.
LEAKS = """(ours) => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const holds = (style) => style.display !== 'inline' || /isolate|plaintext/.test(style.unicodeBidi);
  const leaks = [];
  for (let node; (node = walker.nextNode());) {
    if (!/[\\u202a-\\u202e\\u2066-\\u2069]/.test(node.data) || !node.parentElement.checkVisibility()) continue;
    let holder = node.parentElement;
    while (!holds(getComputedStyle(holder))) holder = holder.parentElement;
    const range = document.createRange();
    range.selectNodeContents(holder);
    range.setStartAfter(node);
    let rest = range.toString();
    for (const text of ours) rest = rest.replaceAll(text, '');
    if (rest.trim()) leaks.push(`${holder.tagName}.${holder.className}: ${rest.slice(0, 120)}`);
  }
  return leaks;
}"""


@pytest.fixture(scope="module")
def model() -> Iterator[SlowModel]:
    """Who answers: what the test hands out."""
    with SlowModel() as running:
        yield running


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, model: SlowModel) -> Iterator[House]:
    """A server whose files were all written by someone who means harm."""
    with house(tmp_path_factory.mktemp("safety"), model=model) as made:
        character = {"name": HOSTILE, "base_persona": HOSTILE, "greetings": [HOSTILE]}
        background = {
            "name": HOSTILE,
            "world_setting": HOSTILE,
            "story_outline": [HOSTILE, "in peace", HOSTILE],
        }
        made.ask("PUT", "/api/characters/evil", json=character)
        made.ask("PUT", "/api/backgrounds/evil", json=background)
        lines = [*said(1, HOSTILE, HOSTILE), *said(2, f"**{HOSTILE}**", HOSTILE, interrupted=True)]
        made.story("evil", lines, character="evil", background="evil")
        pair = {"agent_id": "evil", "user_id": "player"}
        for kind in ("profile", "event", "mind"):
            made.ask("POST", "/api/memory/entries", params=pair, json={"content_type": kind, "text": HOSTILE})
        for meta in made.data.glob("workspace/*/*/*/*/meta.json"):
            fields = json.loads(meta.read_text(encoding="utf-8"))
            meta.write_text(json.dumps({**fields, "name": HOSTILE, "description": HOSTILE}), encoding="utf-8")
        yield made


def unharmed(tab: Tab) -> None:
    """Check that nothing ran, nothing became an element, and no direction was turned around outside its place."""
    page = tab.page
    assert page.evaluate("window.ran") is None
    assert (
        page.locator(
            "main img[src='x'], main script, dialog script, [onerror], a[href^='javascript']"
        ).count()
        == 0
    )
    assert page.evaluate(LEAKS, [HOSTILE]) == []


@pytest.mark.parametrize(
    "view",
    [
        "",
        "chat/evil",
        "memory",
        "memory/evil/player",
        "characters/evil",
        "backgrounds/evil",
        "lab",
        "lab/skills",
        "settings",
        "chat/%3Cscript%3E",
        "memory/%3Cimg%20src=x%20onerror=alert(1)%3E/%E2%80%AEevil",
    ],
)
def test_hostile_texts_are_shown_as_texts(visit: Visits, home: House, view: str) -> None:
    tab = visit(home.url, view)
    tab.expects("status of 404", "status of 422", "status of 400")
    expect(tab.at("main h1, main .fault").first).to_be_visible()
    if view not in ("settings", "memory", "lab") and "%" not in view:
        tab.wait(
            "text => document.body.innerText.includes(text) || "
            "[...document.querySelectorAll('input, textarea')].some((one) => one.value.includes(text))",
            SCRIPT,
        )
    unharmed(tab)


def test_a_hostile_story_is_begun_played_and_inspected(visit: Visits, home: House, model: SlowModel) -> None:
    tab = visit(home.url)
    tab.button("New story").click()
    tab.dialog.get_by_role("combobox").first.select_option("evil")
    expect(tab.dialog).to_contain_text(SCRIPT)
    unharmed(tab)
    tab.button("Start", within="dialog", exact=True).click()
    chat = Chat(tab)
    before = len(model.requests)
    chat.say(f"{SCRIPT} {IMAGE} {LINK} {TURNED} # h\n\n<b>x</b>")
    model.asked(before + 1)
    for piece in (
        SCRIPT[:9],
        SCRIPT[9:],
        IMAGE,
        "[a](java",
        "script:window.ran=1) [b](https://example.invalid/x) ",
    ):
        model.say(piece)
    expect(chat.reply(1)).to_contain_text(IMAGE)
    model.finish(f"{LINK}{TURNED}")
    expect(tab.at(".writing")).to_have_count(0)
    expect(chat.reply(1)).to_contain_text(LINK)
    shown = chat.reply(1).get_by_role("link")
    expect(shown).to_have_count(1)
    expect(shown).to_have_attribute("href", "https://example.invalid/x")
    expect(shown).to_have_attribute("rel", "noopener noreferrer")
    unharmed(tab)
    tab.button("🔍 Prompt").click()
    part = tab.dialog.locator("details.part").first
    part.locator("summary").click()
    expect(part).to_contain_text(SCRIPT)
    assert tab.page.evaluate("window.ran") is None


def test_the_name_of_a_turned_character_turns_nothing_else(visit: Visits, home: House) -> None:
    home.ask("PUT", "/api/characters/turned", json={"name": TURNED, "base_persona": "x"})
    home.story("turned", said(1, "Hello?", TURNED), character="turned")
    tab = visit(home.url, "chat/turned")
    who = Chat(tab).turn(1).locator(".said:not(.mine) .who")
    name, time = who.locator("bdi").bounding_box(), who.locator("time").bounding_box()
    assert name
    assert time
    assert name["x"] + name["width"] <= time["x"]


# --- very much of it


def test_a_message_of_a_hundred_thousand_characters_is_said_and_answered(
    visit: Visits, home: House, model: SlowModel
) -> None:
    home.story("long")
    chat = Chat(visit(home.url, "chat/long"))
    before = len(model.requests)
    chat.say(LONG)
    model.asked(before + 1)
    # What costs a careless reader of Markdown most: beginnings that never end.
    model.say("*" * 30_000, "[" * 30_000, "`" * 10_000, "_x" * 10_000)
    model.finish("](" * 5_000, "\n\nThe end.")
    expect(chat.tab.at(".writing")).to_have_count(0)
    assert len(cast("str", chat.turn(1).locator(".mine .words").text_content())) == len(LONG)
    expect(chat.reply(1)).to_contain_text("The end.")
    assert chat.tab.sticks_out() is None
    chat.input.press_sequentially("still here")
    expect(chat.input).to_have_value("still here")


def test_a_message_that_is_too_long_is_told_before_it_is_sent(visit: Visits, home: House) -> None:
    home.story("too-long")
    chat = Chat(visit(home.url, "chat/too-long"))
    chat.input.fill("x" * 200_001)
    expect(chat.tab.page.get_by_role("alert").filter(has_text="200,000")).to_be_visible()
    chat.input.press("Enter")
    expect(chat.tab.button("Send")).to_be_disabled()
    assert home.lines("too-long") == []


def test_five_thousand_turns_are_scrolled_through_with_few_elements(visit: Visits, home: House) -> None:
    home.story("endless", long_history(TURNS))
    chat = Chat(visit(home.url, "chat/endless"))
    expect(chat.turn(TURNS)).to_be_in_viewport()
    most = elements(chat.tab)
    log = chat.tab.page.get_by_role("log")
    for target in (0.75, 0.5, 0.25, 0):
        log.evaluate("(log, share) => { log.scrollTop = share * log.scrollHeight; }", target)
        expect(seen(chat.tab)).to_be_visible()
        most = max(most, elements(chat.tab))
    to_the_top(chat)
    expect(chat.turn(1)).to_be_in_viewport()
    expect(chat.turn(1)).to_contain_text("question 1:")
    chat.input.press_sequentially("typed at the top")
    expect(chat.input).to_have_value("typed at the top")
    chat.tab.button("Latest").click()
    expect(chat.turn(TURNS)).to_be_in_viewport()
    most = max(most, elements(chat.tab))
    assert most < MOST_ELEMENTS
    log.focus()
    for key, turn in (("Home", 1), ("End", TURNS)):
        chat.tab.page.keyboard.press(key)
        expect(chat.turn(turn)).to_be_in_viewport()
    # A key moves the page smoothly: what is drawn on the way must not end the movement.
    chat.tab.page.keyboard.press("PageUp")
    expect(chat.turn(TURNS)).not_to_be_in_viewport()


def seen(tab: Tab) -> Locator:
    """Turns that have come."""
    return tab.at(".turn:not(.missing)").first


def elements(tab: Tab) -> int:
    """Count what the page is made of."""
    return cast("int", tab.page.evaluate("document.querySelectorAll('*').length"))


def to_the_top(chat: Chat) -> None:
    """Scroll up as long as more comes."""
    chat.tab.page.get_by_role("log").evaluate(
        """log => new Promise((done) => {
          const up = () => {
            const first = log.querySelector('.turn');
            if (log.scrollTop === 0 && /\\b1$/.test(first?.getAttribute('aria-label') ?? '')) return done();
            log.scrollTop = 0;
            return requestAnimationFrame(up);
          };
          up();
        })"""
    )


def test_names_without_an_end_push_nothing_out_of_sight(visit: Visits, home: House) -> None:
    name = "W" * 200
    home.ask("PUT", "/api/characters/wide", json={"name": name, "base_persona": "x"})
    home.ask("PUT", "/api/backgrounds/wide", json={"name": name, "world_setting": "x", "story_outline": []})
    home.story("wide", character="wide", background="wide")
    tab = visit(home.url, "chat/wide")
    tools = tab.at(".chat-tools button")
    expect(tools).to_have_count(3)
    assert len({box["y"] for box in (tool.bounding_box() for tool in tools.all()) if box}) == 1
    tab.open()
    tab.button(f"Export: {name}", exact=True).first.click()
    expect(tab.button("Close", within="dialog")).to_be_in_viewport(ratio=1)
    within = "entry => [...entry.querySelectorAll('*')].every((one) => one.scrollWidth <= entry.clientWidth)"
    assert all(card.evaluate(within) for card in tab.at(".entry").all())
