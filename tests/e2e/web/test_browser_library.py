"""Tests of the library in the browser: finding, creating, changing, importing and exporting."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from personalab.archive.cards import with_id
from tests.e2e.web.browser_chat import Chat
from tests.e2e.web.browser_worlds import House, house
from tests.support.archive.making import card_png, chinese_card, json_bytes, v3_card
from tests.support.web.browser import Visits, expect


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A server that the tests of this module share."""
    with house(tmp_path_factory.mktemp("library")) as made:
        yield made


def test_a_first_story_begins_in_under_six_clicks(visit: Visits, tmp_path: Path) -> None:
    with house(tmp_path, language=None) as home:
        assert not (home.data / "instances").exists()
        tab = visit(home.url)
        tab.click(tab.button("Start story: Maren").first)
        expect(tab.dialog.get_by_label("World")).to_have_value("bg_lighthouse")
        tab.click(tab.button("Start", within="dialog", exact=True))
        chat = Chat(tab)
        expect(chat.input).to_be_focused()
        tab.page.keyboard.type("I am the surveyor. May I come in?")
        tab.click(tab.button("Send"))
        expect(chat.turn(1).locator(".mine .words")).to_have_text("I am the surveyor. May I come in?")
        expect(tab.button("Send")).to_be_visible()
        expect(chat.reply(1)).to_contain_text("Outline 1 · current")
        assert tab.clicks < 6
        instance = json.loads(next(home.data.glob("instances/*/instance_state.json")).read_text("utf-8"))
        assert (instance["character_id"], instance["background_id"]) == ("char_maren", "bg_lighthouse")
        # Emphasis is drawn, not written.
        assert home.lines(instance["instance_id"])[1]["content"].replace("*", "") == chat.text(1)
        tab.open()
        expect(tab.page.get_by_role("link", name="Continue: Maren")).to_be_visible()


def test_a_character_is_written_changed_and_met(visit: Visits, home: House) -> None:
    tab = visit(home.url)
    tab.page.get_by_role("link", name="New character").click()
    expect(tab.at("h1")).to_have_text("New character")
    tab.page.get_by_label("Name", exact=True).fill("Ada Quill")
    expect(tab.page.get_by_label("ID")).to_have_value("ada_quill")
    tab.button("Save").click()
    # The browser itself refuses a form whose required fields are blank.
    expect(tab.page.get_by_label("Persona")).to_be_focused()
    tab.page.get_by_label("Persona").fill("A cartographer who draws what is not there yet.")
    tab.button("+ Add").click()
    tab.page.keyboard.type("Mind the ink.")
    tab.button("Save").click()
    expect(tab.at("#toasts")).to_contain_text("Saved: Ada Quill")
    tab.page.get_by_role("link", name="Edit: Ada Quill").click()
    persona = tab.page.get_by_label("Persona")
    expect(persona).to_have_value("A cartographer who draws what is not there yet.")
    persona.fill("A cartographer of the possible.")
    tab.page.get_by_role("link", name="Library", exact=True).click()
    expect(tab.dialog).to_contain_text("Unsaved changes")
    tab.button("Cancel", within="dialog").click()
    expect(persona).to_have_value("A cartographer of the possible.")
    # The first toast may still be there, so the answer itself is waited for.
    with tab.page.expect_response(lambda answer: answer.request.method == "PUT"):
        tab.button("Save").click()
    expect(tab.at("#toasts").get_by_text("Saved: Ada Quill")).not_to_have_count(0)
    kept = home.ask("GET", "/api/characters/ada_quill")
    assert (kept["base_persona"], kept["greetings"]) == ("A cartographer of the possible.", ["Mind the ink."])
    tab.open()
    tab.button("Start story: Ada Quill").click()
    expect(tab.dialog).to_contain_text("Mind the ink.")
    tab.button("Start", within="dialog", exact=True).click()
    expect(tab.page.get_by_role("article", name="Opening")).to_contain_text("Mind the ink.")


def test_an_id_that_is_taken_is_told_at_its_field(visit: Visits, home: House) -> None:
    tab = visit(home.url, "characters/+")
    tab.expects("status of 400", "status of 409")
    tab.page.get_by_label("Name", exact=True).fill("Someone")
    tab.page.get_by_label("ID").fill("char_maren")
    tab.page.get_by_label("Persona").fill("Another one.")
    tab.button("Save").click()
    expect(tab.page.get_by_role("alert").filter(has_text="Already in use")).to_be_visible()
    expect(tab.page.get_by_label("ID")).to_be_focused()
    assert home.ask("GET", "/api/characters/char_maren")["name"] == "Maren"


def test_an_outline_is_written_and_put_in_order_by_keys_and_buttons(visit: Visits, home: House) -> None:
    tab = visit(home.url, "backgrounds/+")
    tab.page.get_by_label("Name", exact=True).fill("The Long Shore")
    tab.page.get_by_label("World", exact=True).fill("A coast without end.")
    for point in ("third", "first", "second", "never"):
        tab.button("+ Add").click()
        tab.page.keyboard.type(point)
    tab.page.get_by_label("Point 1").focus()
    tab.page.keyboard.press("Alt+ArrowDown")
    tab.page.keyboard.press("Alt+ArrowDown")
    expect(tab.page.get_by_label("Point 3")).to_be_focused()
    expect(tab.page.get_by_label("Point 3")).to_have_value("third")
    tab.button("Move up").nth(1).click()
    tab.button("Move down").nth(0).click()
    tab.button("Remove").nth(3).click()
    expect(tab.page.get_by_label("Point 3")).to_be_focused()
    tab.button("Save").click()
    expect(tab.at("#toasts")).to_contain_text("Saved: The Long Shore")
    assert home.ask("GET", "/api/backgrounds/the_long_shore")["story_outline"] == ["first", "second", "third"]


def test_files_are_dropped_anywhere_and_told_one_by_one(visit: Visits, home: House) -> None:
    tab = visit(home.url)
    expect(tab.at("h1")).to_have_text("Library")
    card = v3_card()
    tab.drop(
        ("hero.png", card_png(card)),
        ("中文.json", json.dumps(chinese_card()).encode()),
        ("broken.json", b'{"spec": "chara_card_v2", "data": '),
        ("notes.txt", b"just a note"),
    )
    rows = tab.dialog.locator(".arrivals > li")
    expect(rows).to_have_count(4)
    expect(tab.dialog).to_contain_text("4 / 4")
    name = card["data"]["name"]
    expect(rows.filter(has_text="hero.png")).to_contain_text(
        re.compile(rf"imported\s+Character\s+{re.escape(name)}")
    )
    expect(rows.filter(has_text="中文.json")).to_contain_text("imported")
    for refused in ("broken.json", "notes.txt"):
        row = rows.filter(has_text=refused)
        expect(row.locator(".fault")).not_to_be_empty()
        expect(row.locator(".pill")).to_have_count(0)
    tab.button("Done", within="dialog").click()
    expect(tab.button(f"Start story: {name}").first).to_be_visible()
    expect(tab.at(".avatar img")).not_to_have_count(0)
    names = [one["name"] for one in home.ask("GET", "/api/characters")["characters"]]
    assert names.count(name) == 1
    assert not [found for found in names if "note" in found]


def test_a_drag_shows_where_files_may_fall(visit: Visits, home: House) -> None:
    tab = visit(home.url)
    expect(tab.at("h1")).to_have_text("Library")
    drag = """kind => {
      const carried = new DataTransfer();
      carried.items.add(new File(['x'], 'x.json'));
      document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: carried, bubbles: true, cancelable: true }));
    }"""
    tab.page.evaluate(drag, "dragenter")
    expect(tab.at(".drop")).to_be_visible()
    tab.page.evaluate(drag, "dragleave")
    expect(tab.at(".drop")).to_be_hidden()


@pytest.mark.parametrize(
    ("name", "ending"),
    [("Maren (told)", ".json"), ("Maren", ".png"), ("The Skerry Light", ".background.json")],
    ids=["story", "character", "world"],
)
def test_what_is_exported_comes_in_again(visit: Visits, home: House, name: str, ending: str) -> None:
    if not (home.data / "instances" / "told").exists():
        home.story("told")
    tab = visit(home.url)
    tab.button(f"Export: {name}", exact=True).click()
    expect(tab.dialog.get_by_role("radio").first).to_be_checked()
    with tab.page.expect_download() as saving:
        tab.button("Download", within="dialog").click()
    file = saving.value
    assert file.suggested_filename.endswith(ending)
    expect(tab.at("dialog")).to_have_count(0)
    tab.drop((file.suggested_filename, Path(file.path()).read_bytes()))
    expect(tab.dialog.locator(".arrivals")).to_contain_text("already in the library")


def test_card_with_an_id_of_ours_asks_before_it_changes_anything(visit: Visits, home: House) -> None:
    tab = visit(home.url)
    tab.drop(("orla.json", json_bytes(v3_card(name="Orla"))))
    rows = tab.dialog.locator(".arrivals > li")
    expect(rows).to_contain_text(re.compile(r"imported\s+Character\s+Orla$"))
    tab.button("Done", within="dialog").click()
    card = with_id(v3_card(name="Orla", description="Changed elsewhere."), "orla")
    tab.drop(("orla.json", json_bytes(card)))
    expect(rows).to_contain_text("already in the library, with different content")
    tab.button("Import as a copy", within="dialog").click()
    expect(rows).to_contain_text("imported")
    expect(rows).not_to_contain_text("different")
    names = [one["name"] for one in home.ask("GET", "/api/characters")["characters"]]
    assert names.count("Orla") == 2


def test_a_long_library_can_be_searched(visit: Visits, home: House) -> None:
    for number in range(10):
        asked = {"name": f"Extra {number}", "base_persona": f"number {number} of many"}
        home.ask("PUT", f"/api/characters/extra_{number:02}", json=asked)
    tab = visit(home.url)
    cards = tab.page.get_by_role("region", name="Characters").locator(".card")
    expect(cards).to_have_count(len(home.ask("GET", "/api/characters")["characters"]))
    tab.page.get_by_role("searchbox").fill("number 7 ")
    expect(cards).to_have_count(1)
    expect(cards).to_contain_text("Extra 7")
    tab.page.get_by_role("searchbox").fill("nothing at all")
    expect(tab.page.get_by_role("status").filter(has_text="0 found")).to_be_visible()


def test_what_another_tab_has_written_is_not_overwritten_unasked(visit: Visits, home: House) -> None:
    home.ask("PUT", "/api/characters/shared", json={"name": "Shared", "base_persona": "as it was"})
    first = visit(home.url, "characters/shared")
    second = visit.another(first, "characters/shared")
    for tab, text in ((first, "the first"), (second, "the second")):
        tab.page.get_by_label("Persona").fill(text)
    first.button("Save").click()
    expect(first.at("#toasts")).to_contain_text("Saved: Shared")
    second.button("Save").click()
    expect(second.dialog).to_contain_text("Changed elsewhere")
    second.button("Cancel", within="dialog").click()
    assert home.ask("GET", "/api/characters/shared")["base_persona"] == "the first"
    second.button("Save").click()
    second.button("Save", within="dialog").click()
    expect(second.at("#toasts")).to_contain_text("Saved: Shared")
    assert home.ask("GET", "/api/characters/shared")["base_persona"] == "the second"


def test_a_name_of_blanks_is_refused_at_its_field(visit: Visits, home: House) -> None:
    tab = visit(home.url, "characters/char_maren")
    tab.page.get_by_label("Name", exact=True).fill("   ")
    tab.button("Save").click()
    expect(tab.page.get_by_label("Name", exact=True)).to_be_focused()
    assert home.ask("GET", "/api/characters/char_maren")["name"] == "Maren"
