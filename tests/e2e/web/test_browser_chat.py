"""Tests of playing a story in the browser, including failures during a reply."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.e2e.web.browser_chat import Chat
from tests.e2e.web.browser_worlds import House, house, long_history, said
from tests.support.web.browser import Tab, Visits, expect
from tests.support.web.serving import CHECKOUT, SECONDS, wait_until
from tests.support.web.slow_model import SlowModel

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Route

GONE = r"ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE"
PIECES = [
    "夜里",
    "很静。",
    " 🌊🌊",
    " The light ",
    "turns *slowly*",
    "，\n\nthen ",
    "it ",
    "stops",
    ". 👩‍🚀 é ",
    "[PROGRESS:1:in_progress]",
]


@pytest.fixture(scope="module")
def model() -> Iterator[SlowModel]:
    """Who answers: what the test hands out, when it does."""
    with SlowModel() as running:
        yield running


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, model: SlowModel) -> Iterator[House]:
    """A server that the tests of this module share, each with a story of its own."""
    with house(tmp_path_factory.mktemp("chat"), model=model) as made:
        yield made


@contextmanager
def asking(model: SlowModel) -> Generator[None]:
    """Wait until what is done here has reached the model."""
    before = len(model.requests)
    yield
    model.asked(before + 1)


def test_a_reply_grows_as_it_is_written(visit: Visits, home: House, model: SlowModel) -> None:
    chat = Chat(visit(home.url, f"chat/{home.story('grows')}"))
    with asking(model):
        chat.say("Is the lamp lit?")
    expect(chat.turn(1).locator(".mine .words")).to_have_text("Is the lamp lit?")
    expect(chat.input).to_have_value("")
    for so_far in ("The ", "The lamp ", "The lamp is "):
        model.say(so_far.split()[-1] + " ")
        expect(chat.reply(1)).to_have_text(so_far.strip())
    expect(chat.stop()).to_be_visible()
    model.finish("lit. [PROGRESS:1:in_progress]")
    chat.is_whole(1, "The lamp is lit. ▸ Outline 1 · current")
    expect(chat.stop()).to_be_hidden()
    expect(chat.reply(1).locator(".marker")).to_have_attribute("title", "[PROGRESS:1:in_progress]")
    here = chat.tab.at("#outline [aria-current=step]")
    expect(here).to_contain_text("1. Arrive on the rock")
    expect(here).to_contain_text("Current")
    assert home.lines("grows")[-1]["content"] == chat.text(1)


@pytest.mark.parametrize("way", ["button", "Escape"])
def test_stopping_keeps_what_was_written_and_a_retry_answers_anew(
    visit: Visits, home: House, model: SlowModel, way: str
) -> None:
    instance_id = home.story(f"stops-{way}")
    chat = Chat(visit(home.url, f"chat/{instance_id}"))
    with asking(model):
        chat.say("Tell me everything.")
    model.say("Half a ")
    expect(chat.reply(1)).to_have_text("Half a")
    if way == "button":
        chat.stop().click()
    else:
        chat.tab.page.keyboard.press("Escape")
    expect(chat.turn(1)).to_contain_text("Reply interrupted. What was written is kept.")
    line = home.wait_for_reply(instance_id)
    assert (line["content"], line["interrupted"]) == ("Half a ", True)
    expect(chat.input).to_be_focused()
    with asking(model):
        chat.retry().click()
    model.finish("A whole answer.")
    chat.is_whole(1, "A whole answer.")
    expect(chat.retry()).to_have_count(0)
    earlier = chat.turn(1).locator("details.tries")
    earlier.locator("summary").click()
    expect(earlier).to_contain_text("Half a")
    assert [line["role"] for line in home.lines(instance_id)] == ["user", "assistant", "assistant"]


def test_a_reload_in_mid_reply_loses_and_repeats_nothing(
    visit: Visits, home: House, model: SlowModel
) -> None:
    chat = Chat(visit(home.url, f"chat/{home.story('reloads')}"))
    with asking(model):
        chat.say("What do you see?")
    shown = ""
    for at, piece in enumerate(PIECES[:-1]):
        model.say(piece)
        shown += piece
        if at in (2, 6):
            chat.tab.page.reload()
        # Emphasis is drawn when its paragraph is whole.
        chat.tab.wait(
            "text => document.querySelector('.writing .words')?.textContent.replaceAll('*', '') === text",
            shown.replace("\n\n", "").replace("*", ""),
        )
    model.finish(PIECES[-1])
    line = home.wait_for_reply("reloads")
    assert line["content"] == "".join(PIECES)
    expect(chat.tab.at(".writing")).to_have_count(0)
    assert chat.text(1) == line["content"].replace("*", "")
    chat.tab.page.reload()
    expect(chat.reply(1)).to_be_visible()
    assert chat.text(1) == line["content"].replace("*", "")


def test_two_tabs_and_another_browser_see_one_turn(visit: Visits, home: House, model: SlowModel) -> None:
    path = f"chat/{home.story('shared')}"
    first = Chat(visit(home.url, path))
    second, elsewhere = Chat(visit.another(first.tab, path)), Chat(visit(home.url, path))
    for chat in (first, second, elsewhere):
        expect(chat.input).to_be_enabled()
    with asking(model):
        first.say("Who is there?")
    model.say("Three ")
    for chat in (first, second, elsewhere):
        expect(chat.turn(1).locator(".mine .words")).to_have_text("Who is there?")
        expect(chat.reply(1)).to_have_text("Three")
    model.say("of ")
    second.stop().click()
    for chat in (first, second, elsewhere):
        expect(chat.turn(1)).to_contain_text("Reply interrupted")
        assert chat.text(1) == home.lines("shared")[-1]["content"]
    with asking(model):
        elsewhere.retry().click()
    model.finish("Nobody.")
    for chat in (first, second, elsewhere):
        chat.is_whole(1, "Nobody.")


def test_a_server_that_dies_in_mid_reply_comes_back_with_what_was_written(
    visit: Visits, home: House, model: SlowModel
) -> None:
    chat = Chat(visit(home.url, f"chat/{home.story('dies')}"))
    chat.tab.expects(GONE)
    with asking(model):
        chat.say("Will you be there?")
    model.say("Until the ")
    expect(chat.reply(1)).to_have_text("Until the")
    home.restart()
    expect(chat.turn(1)).to_contain_text("Reply interrupted. What was written is kept.")
    expect(chat.reply(1)).to_have_text("Until the")
    with asking(model):
        chat.retry().click()
    model.finish("Always.")
    chat.is_whole(1, "Always.")
    attempts = [line["content"] for line in home.lines("dies") if line["role"] == "assistant"]
    assert attempts == ["Until the ", "Always."]


def test_a_turn_that_the_terminal_began_appears(visit: Visits, home: House, model: SlowModel) -> None:
    chat = Chat(visit(home.url, f"chat/{home.story('terminal')}"))
    expect(chat.input).to_be_enabled()
    command = [sys.executable, "-m", "cli", "say", "terminal", "From the terminal."]
    with asking(model):
        process = subprocess.Popen(
            command, cwd=CHECKOUT, env=home.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
    try:
        model.say("I hear ")
        expect(chat.turn(1).locator(".mine .words")).to_have_text("From the terminal.")
        expect(chat.reply(1)).to_have_text("I hear")
        model.finish("you.")
        chat.is_whole(1, "I hear you.")
        assert process.wait(timeout=SECONDS) == 0
    finally:
        process.kill()
        process.wait()


def test_warnings_are_a_badge_a_list_and_a_window(visit: Visits, home: House, model: SlowModel) -> None:
    lines = list(long_history(60, "the wind and the lamp and the sea and the rock " * 12))
    home.story("warned", lines, character="char_alserqi", background="bg_wasteland")
    tokens = home.ask("POST", "/api/instances/warned/prompt", json={"text": ""})["tokens"]
    total = tokens["head"] + tokens["middle"]
    home.config(
        limits__middle_section_warning_tokens=1000,
        limits__max_total_tokens=int(total * 1.05),
        preferences__language="zh",
    )
    try:
        chat = Chat(visit(home.url, "chat/warned"))
        expect(chat.input).to_be_enabled()
        area = chat.tab.at(".warnings")
        expect(area).to_be_hidden()
        badge = area.get_by_role("button", name="[⚠️ 2] 系统警示", exact=True)
        for turn in (61, 62):
            with asking(model):
                chat.say("还有多久？")
            expect(badge).to_be_visible()
            model.finish("不久。")
            chat.is_whole(turn, "不久。")
            # The same warnings again are still two.
            expect(badge).to_be_visible()
        rows = area.get_by_role("button", name="⚠️").filter(has_not_text="系统警示")
        expect(rows).to_have_count(0)
        badge.click()
        expect(rows).to_have_text(
            [
                re.compile(r"^⚠️ 当前对话历史过长（\d+ tokens）$"),
                re.compile(r"^⚠️ Prompt总长度接近上限（\d+ tokens）$"),
            ]
        )
        expect(area).to_contain_text("[双击查看详情]")
        look_closer(chat.tab, rows.first)
        badge.click()
        expect(rows).to_have_count(0)
    finally:
        home.config(
            limits__middle_section_warning_tokens=20000,
            limits__max_total_tokens=100000,
            preferences__language="en",
        )


def look_closer(tab: Tab, warning: Locator) -> None:
    """Open a warning's window, by mouse and by keyboard."""
    value = re.sub(r"\D", "", warning.inner_text())
    warning.click()
    expect(tab.at("dialog")).to_have_count(0)
    warning.dblclick()
    for words in (
        "警示详情",
        "类型：当前对话历史过长",
        f"当前值：{value} tokens",
        "建议阈值：1000 tokens",
        "建议操作：执行汇总功能",
        "影响：可能导致响应变慢、成本增加",
    ):
        expect(tab.dialog).to_contain_text(words)
    tab.page.keyboard.press("Escape")
    expect(warning).to_be_focused()
    tab.page.keyboard.press("Enter")
    expect(tab.dialog).to_contain_text("警示详情")
    tab.page.keyboard.press("Escape")


def test_enter_sends_shift_enter_does_not_and_a_draft_survives_a_reload(
    visit: Visits, home: House, model: SlowModel
) -> None:
    chat = Chat(visit(home.url, f"chat/{home.story('types')}"))
    chat.input.press_sequentially("one")
    chat.input.press("Shift+Enter")
    chat.input.press_sequentially("two")
    chat.tab.page.reload()
    expect(chat.input).to_have_value("one\ntwo")
    # While an input method composes a word, Enter only takes the word.
    chat.input.evaluate(
        "input => input.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', isComposing: true, bubbles: true}))"
    )
    expect(chat.input).to_have_value("one\ntwo")
    with asking(model):
        chat.input.press("Enter")
    model.finish("Three.")
    chat.is_whole(1, "Three.")
    assert home.lines("types")[0]["content"] == "one\ntwo"


def test_a_reply_that_fails_says_so_and_can_be_tried_again(
    visit: Visits, home: House, model: SlowModel
) -> None:
    home.story("empty", said(1, "Hello?", "Hello."))
    chat = Chat(visit(home.url, "chat/empty"))
    with asking(model):
        chat.say("And now?")
    with asking(model):
        model.finish()
    model.finish("[PROGRESS:1:completed]")
    expect(chat.turn(2).locator(":scope > .turn-note")).to_contain_text("The model returned an empty reply.")
    expect(chat.reply(2)).to_have_count(0)
    assert home.lines("empty")[-1]["content"] == "(无回复)", "the file is the same in every language"
    with asking(model):
        chat.retry().click()
    model.finish("Now I do.")
    chat.is_whole(2, "Now I do.")


def test_a_turn_is_said_once_however_often_it_is_sent(visit: Visits, home: House, model: SlowModel) -> None:
    chat = Chat(visit(home.url, f"chat/{home.story('once')}"))
    chat.input.fill("Only once.")
    with asking(model):
        chat.tab.page.evaluate(
            "() => { const send = document.querySelector('.compose .primary'); send.click(); send.click(); }"
        )
    chat.input.press("Enter")
    model.finish("Once.")
    chat.is_whole(1, "Once.")
    wait_until(lambda: len(home.lines("once")) == 2)


def test_whoever_scrolls_up_however_little_is_not_pulled_down(
    visit: Visits, home: House, model: SlowModel
) -> None:
    chat = Chat(visit(home.url, f"chat/{home.story('reads', long_history(30))}"))
    page, log, newest = chat.tab.page, chat.tab.page.get_by_role("log"), chat.tab.button("Latest")
    with asking(model):
        chat.say("Go on.")
    model.say("First. " * 200)
    expect(chat.reply(31)).to_contain_text("First.")
    expect(newest).to_be_hidden()
    log.hover()
    page.mouse.wheel(0, -15)
    expect(newest).to_be_visible()
    place = "log => log.querySelector('.turn:last-of-type').getBoundingClientRect().top"
    before = log.evaluate(place)
    model.say("Second. " * 200)
    expect(chat.reply(31)).to_contain_text("Second.")
    assert log.evaluate(place) == before
    newest.click()
    model.finish("Third. " * 200)
    expect(chat.tab.at(".writing")).to_have_count(0)
    expect(newest).to_be_hidden()
    assert log.evaluate("log => log.scrollHeight - log.scrollTop - log.clientHeight") < 2


def test_what_is_typed_while_something_is_being_sent_stays(
    visit: Visits, home: House, model: SlowModel
) -> None:
    chat = Chat(visit(home.url, f"chat/{home.story('ahead')}"))
    held: list[Route] = []
    chat.tab.page.route("**/turns", lambda route: held.append(route))
    with chat.tab.page.expect_request("**/turns"):
        chat.say("One thing.")
    chat.input.press_sequentially(" Another.")
    with asking(model):
        held[0].continue_()
    model.finish("Yes.")
    chat.is_whole(1, "Yes.")
    expect(chat.input).to_have_value(" Another.")
    assert home.lines("ahead")[0]["content"] == "One thing."


def test_looking_for_news_takes_no_focus_away(visit: Visits, home: House) -> None:
    chat = Chat(visit(home.url, f"chat/{home.story('quiet')}"))
    link = chat.tab.page.get_by_role("link", name="Edit outline")
    link.focus()
    with chat.tab.page.expect_response("**/api/instances/quiet") as looked:
        chat.tab.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    looked.value.finished()
    expect(chat.tab.at(".chat-note")).to_be_hidden()
    expect(link).to_be_focused()


def test_a_long_outline_stands_at_the_current_point(visit: Visits, home: House) -> None:
    points = [f"point {number}" for number in range(1, 201)]
    asked = {"name": "Long", "world_setting": "A road.", "story_outline": points}
    home.ask("PUT", "/api/backgrounds/long", json=asked)
    home.story("outlined", background="long")
    stories = home.services.stories
    state = stories.instance("outlined")
    stories.save_instance(replace(state, plot_state=replace(state.plot_state, current_plot_index=150)))
    tab = visit(home.url, "chat/outlined")
    expect(tab.at("#outline [aria-current=step]")).to_be_in_viewport()
    expect(tab.at("#outline [aria-current=step]")).to_contain_text("150. point 150")


def test_a_story_that_is_not_there_leads_home(visit: Visits, home: House) -> None:
    for path in ("chat/nobody", "chat/%E2%80%AEno id", "characters/nobody", "nowhere", "constructor"):
        tab = visit(home.url, path)
        tab.expects("status of 404", "status of 422")
        expect(tab.at("main h1")).to_have_text("Page not found")
        tab.page.get_by_role("link", name="Back to the library").click()
        expect(tab.at("main h1")).to_have_text("Library")


# --- work that takes long


def test_work_that_is_under_way_is_found_again_after_a_reload(
    visit: Visits, home: House, model: SlowModel
) -> None:
    home.story("found", long_history(12))
    tab = visit(home.url, "chat/found")
    tab.button("📝 Summarize").click()
    with asking(model):
        tab.button("Start now", within="dialog").click()
    tab.page.reload()
    expect(tab.page.get_by_role("progressbar")).to_be_visible()
    point = {"summary": "They met.", "plot": "They met on the rock.", "turns": [1, 12]}
    model.finish(json.dumps({"points": [point]}))
    expect(tab.page.get_by_role("link", name="Earlier session")).to_be_visible()
    assert home.ask("GET", "/api/instances/found")["current_session_id"] == "sess_002"


def test_files_are_dropped_beside_a_story_too(visit: Visits, home: House) -> None:
    home.story("dropped", long_history(1))
    tab = visit(home.url, "chat/dropped")
    expect(tab.at("main textarea")).to_be_visible()
    world = {"name": "Fog", "world_setting": "Fog.", "story_outline": [{"content": "See something."}]}
    tab.drop(("fog.json", json.dumps(world).encode()))
    expect(tab.dialog.locator(".arrivals > li")).to_contain_text("Fog")
    tab.button("Done", within="dialog").click()
    expect(tab.at("main textarea")).to_be_visible()
    assert home.ask("GET", "/api/backgrounds/fog")["story_outline"] == ["See something."]
