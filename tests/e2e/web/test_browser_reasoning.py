"""Tests of reasoning, markers and notices in the chat page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from personalab.story.transcript import NO_REPLY, AssistantLine, Line, UserLine, dump_line
from tests.e2e.web.browser_chat import Chat
from tests.e2e.web.browser_worlds import HOSTILE, TIME, House, house, long_history
from tests.e2e.web.test_browser_chat import asking
from tests.e2e.web.test_browser_safety import unharmed
from tests.support.web.browser import PHONE, Visits, expect, violations
from tests.support.web.slow_model import SlowModel

TRUNCATED = "The reply hit the model's length limit and may be incomplete."
WORDS = {
    "en": ("Thinking…", "Reasoning", TRUNCATED, "▸ Outline 2 · current"),
    "zh": ("正在思考…", "思考过程", "回复达到长度上限，可能没有说完。", "▸ 大纲 2 · 进行中"),
}


@pytest.fixture(scope="module")
def model() -> Iterator[SlowModel]:
    """Who answers: what the test hands out, when it does."""
    with SlowModel() as running:
        yield running


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, model: SlowModel) -> Iterator[House]:
    """A server that the tests of this module share, each with a story of its own."""
    with house(tmp_path_factory.mktemp("reasoning"), model=model) as made:
        yield made


def answered(*replies: AssistantLine, user: str = "Hello?") -> list[Line]:
    """Word a turn with some tries at its reply."""
    return [UserLine(user, replies[0].turn, TIME), *replies]


def reply(content: str, turn: int = 1, **fields: Any) -> AssistantLine:
    """Word a reply."""
    return AssistantLine(content, turn, TIME, **fields)


# --- reasoning


@pytest.mark.parametrize("language", ["en", "zh"])
def test_reasoning_is_folded_while_it_comes_and_when_it_is_stored(
    visit: Visits, home: House, model: SlowModel, language: str
) -> None:
    thinking, reasoning, truncated, marker = WORDS[language]
    home.speak(language)
    try:
        instance_id = home.story(f"thinks-{language}")
        chat = Chat(visit(home.url, f"chat/{instance_id}"))
        with asking(model):
            chat.say("Is anyone there?")
        fold = chat.reasoning(1)
        model.think("They ask. ")
        expect(fold.locator("summary")).to_have_text(thinking)
        expect(fold.locator("div")).to_be_hidden()
        fold.locator("summary").click()
        expect(fold.locator("div")).to_have_text("They ask.")
        model.think("<b>I answer.</b>")
        expect(fold.locator("div")).to_have_text("They ask. <b>I answer.</b>")
        assert violations(chat.tab) == []
        model.say("I am. ")
        expect(chat.reply(1)).to_have_text("I am.")
        expect(fold.locator("summary")).to_have_text(reasoning)
        chat.tab.page.reload()
        expect(fold.locator("summary")).to_have_text(reasoning)
        expect(chat.reply(1)).to_have_text("I am.")
        fold.locator("summary").click()
        expect(fold.locator("div")).to_have_text("They ask. <b>I answer.</b>")
        model.finish("[PROGRESS:2:in_progress]", finish="length")
        chat.is_whole(1, f"I am. {marker}")
        expect(fold.locator("div")).to_be_visible()
        expect(fold.locator("div")).to_have_text("They ask. <b>I answer.</b>")
        expect(chat.turn(1)).to_contain_text(truncated)
        expect(chat.retry()).to_have_count(0)
        line = home.lines(instance_id)[-1]
        assert (line["reasoning"], line["truncated"]) == ("They ask. <b>I answer.</b>", True)
        chat.tab.page.reload()
        expect(fold.locator("div")).to_be_hidden()
        fold.locator("summary").click()
        expect(fold.locator("div")).to_have_text("They ask. <b>I answer.</b>")
        assert violations(chat.tab) == []
    finally:
        home.speak("en")


def test_thoughts_without_opening_tag_move_into_the_fold(
    visit: Visits, home: House, model: SlowModel
) -> None:
    chat = Chat(visit(home.url, f"chat/{home.story('moves')}"))
    with asking(model):
        chat.say("Hello?")
    model.say("They greet me.")
    expect(chat.reply(1)).to_have_text("They greet me.")
    model.say("</thi", "nk>\n\nHel")
    expect(chat.reply(1)).to_have_text("Hel")
    expect(chat.reasoning(1).locator("summary")).to_have_text("Reasoning")
    chat.tab.page.reload()
    expect(chat.reply(1)).to_have_text("Hel")
    model.finish("lo.")
    chat.is_whole(1, "Hello.")
    chat.reasoning(1).locator("summary").click()
    expect(chat.reasoning(1).locator("div")).to_have_text("They greet me.")


def test_thoughts_that_move_into_the_fold_are_not_shown_twice(
    visit: Visits, home: House, model: SlowModel
) -> None:
    chat = Chat(visit(home.url, f"chat/{home.story('moves-once')}"))
    with asking(model):
        chat.say("Hello?")
    model.think("Someone is here. ")
    expect(chat.reasoning(1).locator("summary")).to_have_text("Thinking…")
    model.say("They greet me.")
    expect(chat.reply(1)).to_have_text("They greet me.")
    model.say("</think>\n\nHel")
    expect(chat.reply(1)).to_have_text("Hel")
    chat.reasoning(1).locator("summary").click()
    expect(chat.reasoning(1).locator("div")).to_have_text("Someone is here. They greet me.")
    model.finish("lo.")
    chat.is_whole(1, "Hello.")
    expect(chat.reasoning(1).locator("div")).to_have_text("Someone is here. They greet me.")


def test_second_try_replaces_the_reasoning_of_the_first(visit: Visits, home: House, model: SlowModel) -> None:
    chat = Chat(visit(home.url, f"chat/{home.story('second')}"))
    with asking(model):
        chat.say("Hello?")
    model.think("First thought.")
    chat.reasoning(1).locator("summary").click()
    expect(chat.reasoning(1).locator("div")).to_have_text("First thought.")
    with asking(model):
        model.finish("[PROGRESS:1:completed]")
    model.think("Second thought.")
    expect(chat.reasoning(1).locator("div")).to_have_text("Second thought.")
    chat.tab.page.reload()
    expect(chat.reasoning(1)).to_be_visible()
    chat.reasoning(1).locator("summary").click()
    expect(chat.reasoning(1).locator("div")).to_have_text("Second thought.")
    model.finish("Hello.")
    chat.is_whole(1, "Hello.")
    expect(chat.reasoning(1).locator("div")).to_have_text("Second thought.")
    expect(chat.turn(1).locator("details.tries")).to_contain_text("The model returned an empty reply.")


def test_opening_a_long_thought_stays_where_it_was_opened(visit: Visits, home: House) -> None:
    long = "\n".join(f"thought {number}" for number in range(300))
    lines = [*long_history(20), *answered(reply("Yes.", 21, reasoning=f"{long}\n{HOSTILE}"))]
    chat = Chat(visit(home.url, f"chat/{home.story('long', lines)}", size=PHONE))
    label = chat.reasoning(21).locator("summary")
    expect(label).to_be_in_viewport()
    label.click()
    expect(chat.reasoning(21).locator("div")).to_contain_text("thought 299")
    expect(label).to_be_in_viewport()
    newest = chat.tab.button("Latest")
    newest.click()
    expect(chat.reply(21)).to_be_in_viewport()
    expect(newest).to_be_hidden()
    unharmed(chat.tab)
    assert chat.tab.sticks_out() is None


# --- markers


CUTS = """async (markers) => {
  const { growing, rich } = await import('/page/text.js');
  const text = 'a [b] [PROGRESS:1:completed][PROGRESS:9:x]\\n[PROGRESS:12\\n\\nc [PROGRESS:2:pending]\\n\\nd';
  const place = document.createElement('div');
  const whole = document.createElement('div');
  whole.append(...rich(text, markers));
  const shown = (node) => [...node.children].map((one) => one.textContent.trim()).filter(Boolean).join('|');
  const wrong = new Set();
  for (let i = 0; i <= text.length; i += 1) for (let j = i; j <= text.length; j += 1) {
    place.replaceChildren();
    const grow = growing(place, markers);
    for (const piece of [text.slice(0, i), text.slice(i, j), text.slice(j)]) {
      grow(piece);
      if (/\\[(?:P\\w*|PROGRESS:[^\\]\\n]*)?$/.test(place.lastChild.textContent)) wrong.add(place.textContent);
    }
    if (shown(place) !== shown(whole)) wrong.add(shown(place));
  }
  return [shown(whole), [...wrong]];
}"""


@pytest.mark.parametrize("is_shown", [True, False])
def test_growing_text_shows_no_part_of_a_marker_wherever_it_is_cut(
    visit: Visits, home: House, is_shown: bool
) -> None:
    tab = visit(home.url, "settings")
    expect(tab.at("main h1")).to_have_text("Settings")
    whole, wrong = tab.page.evaluate(CUTS, is_shown)
    chips = ("▸ Outline 1 · done[PROGRESS:9:x]", "c ▸ Outline 2 · upcoming")
    first, last = chips if is_shown else ("", "c")
    assert whole == f"a [b] {first}\n[PROGRESS:12|{last}|d"
    assert wrong == []


@pytest.mark.parametrize("is_shown", [True, False])
def test_markers_of_a_stream_are_chips_or_hidden(
    visit: Visits, home: House, model: SlowModel, is_shown: bool
) -> None:
    home.ask("PUT", "/api/settings", json={"values": {"preferences.show_markers": is_shown}})
    try:
        instance_id = home.story(f"marks-{is_shown}")
        chat = Chat(visit(home.url, f"chat/{instance_id}"))
        with asking(model):
            chat.say("Go on.")
        model.say("On")
        expect(chat.reply(1)).to_have_text("On")
        for piece in (" [", "not one] [PRO", "GRESS:1:", "completed]", "[PROGRESS:2:in", "_progress]\n\nNe"):
            model.say(piece)
        first = "On [not one] "
        chips = "▸ Outline 1 · done▸ Outline 2 · current" if is_shown else ""
        expect(chat.reply(1).locator("p").last).to_have_text("Ne")
        expect(chat.reply(1)).to_have_text(
            f"{first}{chips}Ne" if is_shown else re.compile("^On .not one. ?Ne$")
        )
        model.say("xt.\n[PROGRESS:9:some", "day]\n")
        model.finish("[PROGRESS:3:pending]")
        expect(chat.tab.at(".writing")).to_have_count(0)
        if is_shown:
            markers = chat.reply(1).locator(".marker")
            expect(markers).to_have_text(
                [*re.findall("▸[^▸]+", chips), "[PROGRESS:9:someday]", "▸ Outline 3 · upcoming"]
            )
            assert chat.text(1) == home.lines(instance_id)[-1]["content"]
        else:
            expect(chat.reply(1).locator(".marker")).to_have_count(0)
            assert chat.text(1).split("\n\n") == ["On [not one] ", "Next."]
        assert "[PROGRESS:2:in_progress]" in home.lines(instance_id)[-1]["content"]
    finally:
        home.ask("PUT", "/api/settings", json={"values": {"preferences.show_markers": True}})


def test_marker_is_not_broken_between_rows(visit: Visits, home: House) -> None:
    rows = [f"{'x' * count} y [PROGRESS:2:in_progress] [PROGRESS:{'2' * 40}]" for count in range(20, 40)]
    chat = Chat(
        visit(home.url, f"chat/{home.story('rows', answered(reply(chr(10).join(rows))))}", size=PHONE)
    )
    markers = chat.reply(1).locator(".marker")
    expect(markers).to_have_count(2 * len(rows))
    assert markers.evaluate_all("(all) => all.map((one) => one.getClientRects().length)") == [1] * 2 * len(
        rows
    )
    assert chat.tab.sticks_out() is None
    fits = "(all) => all.every((one) => one.scrollWidth <= one.clientWidth)"
    assert chat.tab.at(".said").evaluate_all(fits)


def test_markers_are_switched_on_the_settings_page(visit: Visits, home: House) -> None:
    home.story("switched", answered(reply("Yes. [PROGRESS:1:completed]")))
    chat = Chat(visit(home.url, "chat/switched"))
    expect(chat.reply(1)).to_have_text("Yes. ▸ Outline 1 · done")
    other = visit.another(chat.tab, "settings")
    label = other.page.get_by_label("Show plot markers")
    expect(label).to_be_checked()
    label.uncheck()
    other.button("Save", exact=True).click()
    expect(other.at("#toasts")).to_contain_text("Saved")
    try:
        assert home.ask("GET", "/api/settings")["values"]["preferences.show_markers"] is False
        chat.tab.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        expect(chat.reply(1)).to_have_text("Yes.")
    finally:
        home.ask("PUT", "/api/settings", json={"values": {"preferences.show_markers": True}})


# --- notices


def test_errors_and_empty_replies_are_notices_not_speech(visit: Visits, home: House) -> None:
    lines = [
        *answered(reply("Well,\n(System error: no connection)", 1, error=True)),
        *answered(reply("(系统错误: 连接失败)", 2, error=True)),
        *answered(reply(NO_REPLY, 3, empty=True, truncated=True, reasoning="too long")),
        *answered(reply(NO_REPLY, 4, empty=True, interrupted=True)),
        *answered(
            reply(NO_REPLY, 5, empty=True), reply("(System error: again)", 5, error=True), reply("Yes.", 5)
        ),
    ]
    chat = Chat(visit(home.url, f"chat/{home.story('notices', lines)}"))
    expect(chat.reply(1)).to_have_text("Well,")
    expect(chat.turn(1).locator(".turn-note")).to_have_text("⚠️ (System error: no connection)")
    for turn in (2, 3, 4):
        expect(chat.turn(turn).locator(".said:not(.mine)")).to_have_count(0)
    expect(chat.turn(2).locator(".turn-note")).to_have_text("⚠️ (系统错误: 连接失败)")
    expect(chat.turn(3).locator(".turn-note")).to_have_text([TRUNCATED, "The model returned an empty reply."])
    chat.reasoning(3).locator("summary").click()
    expect(chat.reasoning(3).locator("div")).to_have_text("too long")
    expect(chat.turn(4).locator(".turn-note")).to_contain_text("Stopped before the reply started")
    chat.is_whole(5, "Yes.")
    tries = chat.turn(5).locator("details.tries")
    tries.locator("summary").click()
    expect(tries.locator(".turn-note")).to_have_text(
        ["The model returned an empty reply.", "⚠️ (System error: again)"]
    )
    expect(tries.locator(".words")).to_have_count(0)
    assert violations(chat.tab) == []


@pytest.mark.parametrize(
    ("language", "empty", "stored"),
    [("en", "The model returned an empty reply.", "(no reply)"), ("zh", "模型返回了空回复。", "(无回复)")],
)
def test_old_replies_of_markers_alone_are_notices_on_every_page(
    visit: Visits, home: House, language: str, empty: str, stored: str
) -> None:
    home.speak(language)
    try:
        alone, failed, words = (home.story(f"{name}-{language}") for name in ("alone", "failed", "words"))
        for instance_id, line in (
            (alone, reply("[PROGRESS:1:pending]")),
            (failed, reply("(System error: gone)", error=True)),
            (words, reply("Come in.\n\n[PROGRESS:1:completed]")),
        ):
            with home.session(instance_id).open("ab") as file:
                file.writelines(dump_line(one) for one in answered(line))
        chat = Chat(visit(home.url, f"chat/{alone}"))
        expect(chat.turn(1).locator(".turn-note")).to_contain_text(empty)
        expect(chat.turn(1).locator(".said:not(.mine)")).to_have_count(0)
        expect(chat.retry()).to_be_visible()
        chat.tab.open("")
        for instance_id, text, how in (
            (alone, stored, "clamp faint"),
            (failed, "(System error: gone)", "clamp faint"),
            (words, "Come in.", "clamp"),
        ):
            card = chat.tab.at(".card", has=chat.tab.at(f"a[href='#/chat/{instance_id}']"))
            expect(card.locator(".clamp")).to_have_text(text)
            expect(card.locator(".clamp")).to_have_attribute("class", how)
        assert violations(chat.tab) == []
    finally:
        home.speak("en")
