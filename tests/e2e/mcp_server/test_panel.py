"""Tests of the panel in a real browser with the official host library of MCP Apps.

Chromium renders ``mcp_server/panel.html`` in a sandboxed frame under a strict Content-Security-Policy; the
page around it runs the host side of ``@modelcontextprotocol/ext-apps``. After every test there must be no
exception, no policy violation and no network request.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import pytest

from mcp_server.panel import panel_html
from tests.support.mcp_server.panel_host.host import Host, bundle_bridge, expect, launch, serve, visit
from tests.support.mcp_server.panel_host.stories import (
    JUNK,
    MARKUP,
    STORY,
    Json,
    mangled,
    notification,
    result,
    story,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CAN_CALL: Json = {"serverTools": {}}


# The browser lives as long as this module, not the session: Playwright's loop counts as running in this thread
# while it is open, and no async test could run beside it.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real Chromium."""
    with launch() as launched:
        yield launched


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the host's page and the panel are served."""
    with serve(bundle_bridge(tmp_path_factory.mktemp("bridge"))) as address:
        yield address


@pytest.fixture
def host(browser: Browser, site: str) -> Iterator[Host]:
    """A host, checked when the test is over."""
    with visit(browser, site) as made:
        yield made


# --- the protocol


def test_the_official_bridge_accepts_the_handshake(host: Host) -> None:
    said = host.open()
    assert said["app"] == {"name": "personalab-story", "title": "PersonaLab", "version": "1.0.0"}
    assert said["capabilities"] == {"availableDisplayModes": ["inline", "fullscreen"]}
    expect(host.at("#waiting-words")).to_have_text("Waiting for the story…")
    expect(host.at("#main")).to_be_hidden()


def test_the_arguments_of_the_call_say_which_story_is_awaited(host: Host) -> None:
    host.open()
    host.send("sendToolInputPartial", {"arguments": {"instance_id": "inst"}})
    expect(host.at("#waiting-for")).to_have_text("inst")
    host.send("sendToolInput", {"arguments": {"instance_id": "inst_001"}})
    expect(host.at("#waiting-for")).to_have_text("inst_001")


def test_the_host_learns_every_change_of_size(host: Host) -> None:
    host.open()
    host.show(STORY)
    height = host.frame.evaluate("Math.ceil(document.documentElement.getBoundingClientRect().height)")
    host.page.wait_for_function("height => heard.sizes.at(-1)?.height === height", arg=height)
    host.at("summary").first.click()
    host.page.wait_for_function("height => heard.sizes.at(-1).height > height", arg=height)
    assert {size["width"] for size in host.heard("sizes")} == {900}


def test_a_teardown_is_answered(host: Host) -> None:
    host.open()
    assert host.page.evaluate("bridge.teardownResource({})") == {}


def test_an_unknown_request_is_refused_and_an_unknown_notification_ignored(host: Host) -> None:
    host.open()
    assert host.page.evaluate("ask('ui/dance').catch((error) => error.code)") == -32601
    host.send_raw({"jsonrpc": "2.0", "method": "constructor", "params": {}})
    expect(host.at("#waiting")).to_be_visible()


def test_only_the_parent_is_heard(host: Host) -> None:
    host.open()
    message = notification("tool-result", result(STORY))
    host.frame.evaluate(
        "message => new Promise((done) => {"
        " window.addEventListener('message', () => done(), { once: true }); window.postMessage(message, '*'); })",
        message,
    )
    expect(host.at("#main")).to_be_hidden()


def test_without_a_host_the_panel_waits(host: Host) -> None:
    host.page.goto(f"{host.site}/panel.html")
    expect(host.at("#waiting")).to_be_visible()


# --- what it shows


def test_the_title_names_character_background_and_next_turn(host: Host) -> None:
    host.open()
    host.show(STORY)
    expect(host.at("h1")).to_have_text("Alserqi · Wasteland")
    expect(host.at("#turn")).to_have_text("next turn: 42")
    expect(host.at("footer")).to_have_text("3 recalled eventsinst_001sess_001o200k_base")
    host.show(story(background=None))
    expect(host.at("h1")).to_have_text("Alserqi")


def test_the_outline_marks_what_is_done_here_and_ahead(host: Host) -> None:
    host.open()
    host.show(STORY)
    points = host.at("#points li")
    expect(points).to_have_text(
        [
            "1. Find a trace of the traitor done",
            "2. Get into the stronghold current",
            "3. Face the enemy upcoming",
        ]
    )
    assert [points.nth(n).get_attribute("class") for n in range(3)] == ["done", "here", "ahead"]
    expect(host.at("#points [aria-current=step]")).to_have_text("2. Get into the stronghold current")
    expect(host.at("#reached")).to_have_text("2 / 3")
    bar = host.frame.get_by_role("progressbar", name="Outline")
    expect(bar).to_have_attribute("aria-valuenow", "2")
    expect(bar).to_have_attribute("aria-valuemax", "3")
    expect(bar).to_have_attribute("aria-valuetext", "2 of 3 points reached")
    shares = bar.evaluate("bar => [...bar.children].map((piece) => piece.style.getPropertyValue('--share'))")
    assert [float(share) for share in shares] == pytest.approx([1 / 3, 1 / 3])


def test_a_story_without_outline_says_so(host: Host) -> None:
    host.open()
    host.show(story(outline=[]))
    expect(host.at("#outline")).to_contain_text("This story has no outline.")
    expect(host.at("#progress")).to_be_hidden()


def test_the_counter_says_when_the_director_reminds(host: Host) -> None:
    host.open()
    for count, threshold, words, tone in (
        (0, 3, "0 replies without progressThe director steps in after 3 more.", "box"),
        (1, 3, "1 reply without progressThe director steps in after 2 more.", "box"),
        (3, 3, "3 replies without progressThe director steps in on the next turn.", "box warn"),
        (9, 3, "9 replies without progressThe director steps in on the next turn.", "box warn"),
        (2, None, "2 replies without progress", "box"),
    ):
        plot = {"current_plot_index": 2, "current_status": "in_progress", "no_update_count": count}
        host.show(story(plot_state=plot, reminder_threshold=threshold))
        expect(host.at("#director > div")).to_have_text(words)
        expect(host.at("#director > div")).to_have_class(tone)
        expect(host.at("#director .on")).to_have_count(min(count, threshold or 0))


def test_warnings_come_with_their_suggestions_and_figures(host: Host) -> None:
    host.open()
    host.show(STORY)
    expect(host.at("#warnings li")).to_have_text(
        ["The history is long21,000 / 20,000Summarize the story", "story_language"]
    )
    host.show(story(warnings=[]))
    expect(host.at("#warnings")).to_be_hidden()


def test_the_tokens_stand_against_their_limit(host: Host) -> None:
    host.open()
    host.show(STORY)
    expect(host.at("#total")).to_have_text("25,000 / 100,000 tokens")
    expect(host.at("#legend")).to_have_text("fixed part 1,000conversation 24,000left 75,000")
    meter = host.frame.get_by_role("meter", name="Next prompt")
    expect(meter).to_have_attribute("aria-valuetext", "25,000 / 100,000 tokens")
    widths = meter.evaluate(
        "bar => [...bar.children].map((piece) => piece.style.getPropertyValue('--share'))"
    )
    assert [float(width) for width in widths] == pytest.approx([0.01, 0.24])
    host.show(story(tokens={"head": 1, "middle": 120000, "total": 120001, "limit": 100000}))
    expect(host.at("#legend")).to_contain_text("over the limit")
    expect(host.at("#meter")).to_have_class("bar full")
    host.show(story(tokens={}))
    expect(host.at("#meter")).to_be_hidden()
    expect(host.at("#total")).to_have_text("")


def test_a_section_shows_its_count_and_opens_by_keyboard(host: Host) -> None:
    host.open()
    host.show(STORY)
    expect(host.at("summary")).to_have_text(["Persona1,000", "Conversation24,000", "another_part0"])
    expect(host.at("pre").nth(1)).to_be_hidden()
    host.at("summary").first.focus()
    host.page.keyboard.press("Enter")
    expect(host.at("details").first.locator("pre")).to_have_text("## Persona\nA boss.")
    expect(host.at("details").first.locator("pre")).to_be_visible()
    host.page.keyboard.press("Tab")
    host.page.keyboard.press("Space")
    expect(host.at("details").nth(1)).to_contain_text("This answer leaves out the section's text.")


def test_an_answer_without_structure_is_shown_as_text(host: Host) -> None:
    host.open()
    host.send("sendToolResult", {"content": [{"type": "text", "text": "Only <b>text</b>"}]})
    expect(host.at("#plain")).to_have_text("Only <b>text</b>")
    expect(host.at("#panes")).to_be_hidden()
    host.send("sendToolResult", {"content": []})
    expect(host.frame.get_by_role("alert")).to_have_text("The answer has nothing to show.")


def test_an_error_is_shown_and_the_story_seen_before_stays(host: Host) -> None:
    host.open()
    failed = {"content": [{"type": "text", "text": "No instance 'x'"}], "isError": True}
    host.send("sendToolResult", failed)
    alert = host.frame.get_by_role("alert")
    expect(alert).to_have_text("Could not read the story.No instance 'x'")
    expect(host.at("#panes")).to_be_hidden()
    host.show(STORY)
    expect(host.at("#alert")).to_be_hidden()
    host.send("sendToolResult", failed)
    expect(alert).to_be_visible()
    expect(host.at("#panes")).to_be_visible()


def test_a_cancelled_call_is_told_with_its_reason(host: Host) -> None:
    host.open()
    host.send("sendToolCancelled", {"reason": "user action"})
    expect(host.frame.get_by_role("alert")).to_have_text("The call was cancelled.user action")


# --- refresh


def test_refresh_asks_the_host_for_the_same_story_and_redraws(host: Host) -> None:
    host.open(capabilities=CAN_CALL, answers=["hold"])
    host.show(STORY)
    host.at("summary").first.click()
    button = host.frame.get_by_role("button", name="Refresh", exact=True)
    button.click()
    expect(host.at("#refresh")).to_have_text("Refreshing…")
    expect(host.at("#refresh")).to_have_attribute("aria-disabled", "true")
    expect(host.at("#status")).to_have_text("Refreshing…")
    host.at("#refresh").click(force=True)
    host.page.evaluate("answer => release(answer)", result(story(turn=43)))
    expect(host.at("#turn")).to_have_text("next turn: 43")
    expect(host.at("#status")).to_have_text("Refreshed.")
    expect(button).to_be_focused()
    expect(host.at("details").first).to_have_attribute("open", "")
    assert host.heard("calls") == [{"name": "persona_prompt", "arguments": {"instance_id": "inst_001"}}]


def test_a_refresh_that_fails_is_told_and_can_be_tried_again(host: Host) -> None:
    refused: Json = {"content": [{"type": "text", "text": "Busy; try later"}], "isError": True}
    host.open(capabilities=CAN_CALL, answers=[refused, result(story(turn=50))])
    host.send("sendToolInput", {"arguments": {"instance_id": "inst_007"}})
    host.show(story(instance_id=None))
    host.at("#refresh").click()
    expect(host.at("#alert")).to_contain_text("Busy; try later")
    host.at("#refresh").click()
    expect(host.at("#turn")).to_have_text("next turn: 50")
    expect(host.at("#alert")).to_be_hidden()
    host.at("#refresh").click()
    expect(host.at("#alert")).to_contain_text("the server is gone")
    assert [call["arguments"]["instance_id"] for call in host.heard("calls")] == [
        "inst_007",
        "inst_007",
        "inst_001",
    ]


def test_without_a_way_to_call_tools_there_is_no_refresh(host: Host) -> None:
    host.open(capabilities={"openLinks": {}})
    host.show(STORY)
    expect(host.at("h1")).to_be_visible()
    expect(host.at("#refresh")).to_be_hidden()


# --- the host's context


def test_the_language_follows_the_host_and_then_the_story(host: Host) -> None:
    chinese, english = "下一轮：第 42 轮", "next turn: 42"
    for context, language, words in (
        ({"locale": "zh-CN"}, "en", chinese),
        ({"locale": "zh"}, None, chinese),
        ({"locale": "en-US"}, "zh", chinese),
        ({}, "zh", chinese),
        ({"locale": "en-US"}, "en", english),
        ({"locale": "de-DE"}, 7, english),
        ({}, None, english),
    ):
        host.open(context)
        host.show(story(language=language))
        expect(host.at("#turn")).to_have_text(words)
        expect(host.at("html")).to_have_attribute("lang", "zh-CN" if words == chinese else "en")


def test_every_word_has_both_languages_and_a_change_of_locale_redraws(host: Host) -> None:
    host.open(context={"locale": "en-US"})
    keys = "Object.values(WORDS).map((w) => Object.keys(w))"
    english, chinese = host.frame.evaluate(keys)
    assert english == chinese
    host.show(STORY)
    host.send("sendHostContextChange", {"locale": "zh-CN"})
    for selector, words in {
        "#outline-title": "大纲",
        "#points [aria-current]": "2. Get into the stronghold 进行中",
        "#director > div": "1 次回复没有推进再有 2 次，导演会提醒。",
        "#prompt-title": "下一轮的提示词",
        "#legend": "头部 1,000中段 24,000剩余 75,000",
        "summary >> nth=0": "人格1,000",
    }.items():
        expect(host.at(selector)).to_have_text(words)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_is_legible_in_both_themes(host: Host, theme: str) -> None:
    host.open(context={"theme": "dark" if theme == "light" else "light"}, capabilities=CAN_CALL)
    host.show(STORY)
    host.send("sendHostContextChange", {"theme": theme})
    host.send("sendToolCancelled", {"reason": "so that an error shows"})
    host.at("summary").first.click()
    host.page.mouse.move(0, 0)
    contrasts = host.contrasts()
    assert len(contrasts) > 20
    assert [text for text, contrast in contrasts if contrast < 4.5] == []
    dark = host.frame.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(29, 28, 26)"
    assert dark == (theme == "dark")


def test_the_host_lends_its_colours(host: Host) -> None:
    host.open(context={"styles": {"variables": {"--color-background-primary": "rgb(1, 2, 3)"}}})
    host.show(STORY)
    assert host.frame.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(1, 2, 3)"
    host.send(
        "sendHostContextChange", {"styles": {"variables": {"--color-background-primary": "rgb(3, 2, 1)"}}}
    )
    assert host.frame.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(3, 2, 1)"


def test_nothing_moves_for_those_who_want_it_still(host: Host) -> None:
    host.open()
    moving = "getComputedStyle(document.querySelector('#waiting i')).animationName"
    assert host.frame.evaluate(moving) == "breathe"
    host.page.emulate_media(reduced_motion="reduce")
    assert host.frame.evaluate(moving) == "none"


# --- strangers' data


def fits(host: Host) -> bool:
    """Tell whether nothing sticks out at the side."""
    return cast("bool", host.frame.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


def test_markup_stays_text(host: Host) -> None:
    host.open()
    host.show(
        story(
            character=MARKUP,
            background=MARKUP,
            outline=[{"index": 1, "content": MARKUP, "status": "constructor"}],
            warnings=[{"category": MARKUP, "message": MARKUP, "suggestion": MARKUP}],
            sections=[{"name": "__proto__", "zone": MARKUP, "tokens": 1, "text": MARKUP}],
        )
    )
    expect(host.at("h1 > span")).to_have_text(MARKUP)
    expect(host.at("#points li")).to_have_text(f"1. {MARKUP} upcoming")
    expect(host.at("#warnings li")).to_have_text(MARKUP + MARKUP)
    expect(host.at("summary")).to_have_text("__proto__1")
    expect(host.at("pre").last).to_have_text(MARKUP)
    expect(host.at("#main img, #main script, #main b")).to_have_count(0)


@pytest.mark.parametrize("width", [320, 900])
def test_long_things_are_bounded_and_scroll(host: Host, width: int) -> None:
    host.page.set_viewport_size({"width": width, "height": 800})
    host.open(capabilities=CAN_CALL)
    endless = "x" * 1_000_000
    points = [
        {"index": n, "content": endless if n < 3 else f"point {n}", "status": "pending"}
        for n in range(1, 1001)
    ]
    host.show(
        story(
            character=endless,
            outline=points,
            plot_state={"current_plot_index": 700, "no_update_count": 2**53},
            reminder_threshold=1_000_000,
            warnings=[{"message": endless, "suggestion": endless}] * 500,
            sections=[{"name": endless, "zone": "head", "tokens": 2**52, "text": endless}] * 500,
        )
    )
    host.at("summary").first.click()
    expect(host.at("pre").nth(1)).to_contain_text("… 980,000 more characters")
    assert host.at("#points li").count() == 302
    assert host.at("details").count() == 60
    assert fits(host)
    assert host.frame.evaluate("document.documentElement.scrollHeight") < 4000
    expect(host.at("#points")).to_have_attribute("tabindex", "0")
    seen = host.at("#points [aria-current]").evaluate(
        "point => point.offsetTop >= point.parentElement.scrollTop &&"
        " point.offsetTop < point.parentElement.scrollTop + point.parentElement.clientHeight"
    )
    assert seen


def test_marks_of_direction_turn_only_their_own_text(host: Host) -> None:
    host.open()
    host.show(story(character="\u202eAlserqi", background="\u202bשלום", turn=5))
    name, place = host.at("h1 > span").bounding_box(), host.at("h1 small span").bounding_box()
    assert name
    assert place
    assert name["x"] + name["width"] < place["x"]


def test_no_malformed_answer_breaks_the_panel(host: Host) -> None:
    host.page.set_viewport_size({"width": 320, "height": 800})
    host.open(capabilities=CAN_CALL)
    chance = random.Random(5)
    for answer in [*JUNK, *(mangled(chance) for _ in range(80))]:
        shapes: list[object] = [
            {"content": answer, "isError": answer},
            answer,
            {"content": [], "structuredContent": answer},
        ]
        host.send_raw(*(notification("tool-result", params) for params in shapes))
        assert fits(host), answer
    for name in ("tool-input", "tool-input-partial", "tool-cancelled", "host-context-changed"):
        for junk in JUNK:
            filled = dict.fromkeys(("arguments", "reason", "locale", "theme", "styles"), junk)
            shapes = [junk, filled, {"styles": {"variables": junk}}, {"styles": {"variables": {"--x": junk}}}]
            host.send_raw(*(notification(name, params) for params in shapes))
    host.send_raw(*JUNK, {"jsonrpc": "2.0"}, {"jsonrpc": "2.0", "id": 99, "result": 1}, notification({}, {}))
    host.show(STORY)
    expect(host.at("h1")).to_have_text("Alserqi · Wasteland")


def test_a_refresh_answered_with_junk_does_no_harm(host: Host) -> None:
    answers: list[Json | str] = [result(junk) for junk in JUNK]
    host.open(capabilities=CAN_CALL, answers=answers)
    host.send("sendToolInput", {"arguments": {"instance_id": "inst_001"}})
    host.show(story(instance_id=None))
    for _ in JUNK:
        host.at("#refresh").click()
        expect(host.at("#refresh")).to_have_attribute("aria-disabled", "false")
    assert len(host.heard("calls")) == len(JUNK)


# --- the file, and the watch over it


def test_the_panel_is_one_small_file_that_names_no_other() -> None:
    text = panel_html()
    assert len(text.encode()) < 30_000
    for way_in in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("):
        assert way_in not in text
    for way_out in (
        "http:",
        "https:",
        "src=",
        "href=",
        "url(",
        "@import",
        "fetch(",
        "XMLHttpRequest",
        "WebSocket",
    ):
        assert way_out not in text


def test_what_the_panel_must_not_do_would_be_noticed(host: Host) -> None:
    host.open()
    host.frame.evaluate("document.body.append(Object.assign(new Image(), { src: '/picture.png' }))")
    host.frame.wait_for_function("window.violations?.length")
    with host.page.expect_event("pageerror"):
        host.frame.evaluate("setTimeout(() => { throw new Error('noticed'); })")
    with pytest.raises(AssertionError, match="img-src"):
        host.check()
    assert any("noticed" in trouble for trouble in host.troubles)
    host.troubles.clear()
    host.requested.clear()
    host.frame.evaluate("delete window.violations")
