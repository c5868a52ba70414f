"""Tests of summaries, persona growth, memories and the prompt inspector in the browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.e2e.web.browser_chat import Chat
from tests.e2e.web.browser_worlds import House, house, long_history
from tests.support.web.browser import Visits, expect

PAIR = {"agent_id": "char_alserqi", "user_id": "player"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A server that the tests of this module share, each with a story of its own; a stand-in answers."""
    with house(tmp_path_factory.mktemp("memory")) as made:
        yield made


def state(home: House, instance_id: str) -> dict[str, str]:
    return home.ask("GET", f"/api/instances/{instance_id}")


# --- the two buttons


def test_a_session_is_summed_up_after_a_look_and_the_summary_taken_back(visit: Visits, home: House) -> None:
    home.story("summed", long_history(12))
    tab = visit(home.url, "chat/summed")
    tab.button("📝 Summarize").click()
    tab.button("Preview", within="dialog").click()
    expect(tab.dialog).to_contain_text("Preview, not saved yet")
    expect(tab.dialog.locator("ol > li")).not_to_have_count(0)
    assert state(home, "summed")["current_session_id"] == "sess_001"
    tab.button("Save", within="dialog").click()
    expect(tab.dialog).to_contain_text("Summarized")
    assert state(home, "summed")["current_session_id"] == "sess_002"
    tab.button("Keep", within="dialog").click()
    older = tab.page.get_by_role("link", name="Earlier session")
    expect(older).to_be_visible()
    expect(Chat(tab).turn(5)).to_contain_text("question 12")
    expect(Chat(tab).turn(6)).to_have_count(0)

    # The chain can be walked back, to be read.
    older.click()
    expect(tab.at("main")).to_contain_text("sess_001")
    expect(tab.at("main textarea")).to_have_count(0)
    tab.page.get_by_role("link", name="Back to current session").click()
    expect(tab.at("main textarea")).to_be_visible()

    tab.button("📝 Summarize").click()
    tab.button("Undo the last summary", within="dialog").click()
    tab.dialog.locator(".primary.danger").click()
    expect(tab.at("#toasts")).to_contain_text("Undone")
    expect(tab.page.get_by_role("link", name="Earlier session")).to_have_count(0)
    assert state(home, "summed")["current_session_id"] == "sess_001"


def test_a_character_grows_after_a_look_and_the_growth_is_taken_back(visit: Visits, home: House) -> None:
    home.story("grown", long_history(6, "I always keep my promises, and my name is Tam"))
    file = home.data / "instances" / "grown" / "character_state.json"

    def grown() -> str:
        return json.loads(file.read_text(encoding="utf-8"))["evolved_persona"]

    tab = visit(home.url, "chat/grown")
    tab.button("🧠 Update memory").click()
    tab.button("Preview", within="dialog").click()
    expect(tab.dialog).to_contain_text("Preview, not saved yet")
    expect(tab.dialog.locator("ins")).not_to_have_count(0)
    expect(tab.dialog.locator(".pill").filter(has_text="turn")).not_to_have_count(0)
    assert grown() == ""
    tab.button("Save", within="dialog").click()
    expect(tab.dialog).to_contain_text("The character has changed (revision 1)")
    text = grown()
    assert text
    expect(tab.dialog.locator("ins")).to_contain_text(text.split("\n")[0][:40])
    tab.button("Undo", within="dialog").click()
    expect(tab.at("#toasts")).to_contain_text("Undone")
    assert grown() == ""


def test_what_cannot_be_done_is_said_where_the_person_looks(visit: Visits, home: House) -> None:
    home.story("never_summed", long_history(2))
    tab = visit(home.url, "chat/never_summed")
    tab.expects("status of 400")
    tab.button("📝 Summarize").click()
    tab.button("Undo the last summary", within="dialog").click()
    tab.dialog.locator(".primary.danger").click()
    expect(tab.dialog.get_by_role("alert").first).to_contain_text("undo")
    expect(tab.dialog.get_by_role("heading", level=2)).to_have_text("📝 Summarize")


# --- what is sent


def test_the_inspector_shows_what_the_next_turn_sends_and_why(visit: Visits, home: House) -> None:
    home.story("inspected", long_history(4))
    tab = visit(home.url, "chat/inspected")
    Chat(tab).input.fill("Where is the missing log book?")
    tab.button("🔍 Prompt").click()
    told = home.ask(
        "POST", "/api/instances/inspected/prompt", json={"text": "Where is the missing log book?"}
    )
    total = f"{told['tokens']['head'] + told['tokens']['middle']:,} / {told['tokens']['max_total']:,} tokens"
    expect(tab.dialog).to_contain_text(total)
    expect(tab.dialog.get_by_role("meter").first).to_have_attribute("aria-valuetext", total)
    included = [section for section in told["sections"] if section["included"]]
    parts = tab.dialog.locator("details.part > summary strong")
    expect(parts).to_have_text([section["title"] for section in included])
    for section in included:
        part = tab.dialog.locator("details.part").filter(has_text=section["title"]).first
        expect(part).to_contain_text(section["why"])
    persona = next(section["title"] for section in included if section["name"] == "base_persona")
    part = tab.dialog.locator("details.part").filter(has=tab.page.get_by_text(persona, exact=True))
    part.locator("summary").click()
    expect(part).to_contain_text("Maren Holt, keeper of the Skerry Light")
    supposed = tab.dialog.get_by_role("textbox")
    expect(supposed).to_have_value("Where is the missing log book?")
    supposed.fill("Something else entirely: " + "and more " * 200)
    tab.button("Preview", within="dialog").click()
    expect(tab.dialog).not_to_contain_text(total)
    tab.page.keyboard.press("Escape")
    assert [line["turn"] for line in home.lines("inspected")][-1] == 4


# --- what is known


def test_what_is_known_is_searched_mended_forgotten_and_brought_back(visit: Visits, home: House) -> None:
    home.story("remembers", character="char_alserqi", background="bg_wasteland")
    for kind, text in (
        ("profile", "The player is called Tam"),
        ("event", "The player rowed to the rock in a gale"),
        ("mind", "The player trusts the keeper"),
    ):
        home.ask("POST", "/api/memory/entries", params=PAIR, json={"content_type": kind, "text": text})
    tab = visit(home.url, "memory")
    tab.page.get_by_role("link", name="Alserqi").click()
    known = tab.at(".known")
    expect(known).to_have_count(3)

    tab.page.get_by_role("searchbox").fill("gale")
    tab.page.keyboard.press("Enter")
    expect(tab.at("main h2").first).to_have_text(re.compile("found"))
    expect(known.first).to_contain_text("rowed to the rock in a gale")
    tab.page.get_by_role("searchbox").fill("")
    expect(known).to_have_count(3)

    row = known.filter(has_text="called Tam")
    row.get_by_role("button", name="Edit").click()
    tab.page.keyboard.press("ControlOrMeta+a")
    tab.page.keyboard.type("The player is called Tamsin")
    tab.page.keyboard.press("Enter")
    expect(known.filter(has_text="called Tamsin")).to_have_count(1)
    expect(known).to_have_count(3)

    known.filter(has_text="trusts").get_by_role("button", name="Forget").click()
    expect(known).to_have_count(2)
    tab.button("Undo", within="#toasts").click()
    expect(known).to_have_count(3)
    assert home.ask("GET", "/api/memory", params=PAIR)["profile"][0]["text"] == "The player is called Tamsin"

    tab.button("Forget everything").click()
    tab.button("Cancel", within="dialog").click()
    expect(known).to_have_count(3)
    tab.button("Forget everything").click()
    tab.dialog.locator(".primary").click()
    expect(known).to_have_count(0)
    expect(tab.at("main")).to_contain_text("Nothing is known yet")
