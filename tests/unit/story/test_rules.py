"""The pure rules: outline, markers, triggers, prompt counts, ids, texts."""

from __future__ import annotations

import json
import string
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.config import Config, RecallModule, read_recall
from personalab.dialogue import Message
from personalab.errors import UserError
from personalab.providers.tokens import OfflineCounter
from personalab.story.director import (
    SilentStart,
    current_point,
    has_speech,
    mark_outline,
    read_progress,
    silent_prefix,
    without_markers,
)
from personalab.story.prompt import PromptMaterial, assemble, window_start
from personalab.story.recall import extract_query, plan_lookup
from personalab.story.records import PLOT_STATUSES, Background, OutlinePoint, PlotState, check_id, is_id
from personalab.story.transcript import AssistantLine, Summary, Transcript, Turn, UserLine, usable_reply
from personalab.texts import fill

SHIPPED = Path(__file__).parents[3] / "data" / "shipped"
outlines = st.lists(st.text(max_size=5), max_size=8).map(
    lambda points: Background(
        "b", story_outline=tuple(OutlinePoint(n, text) for n, text in enumerate(points, 1))
    )
)
plots = st.builds(PlotState, st.integers(0, 20), st.sampled_from(PLOT_STATUSES), st.integers(0, 50))


def _templates(language: str) -> Mapping[str, str]:
    folder = SHIPPED / "prompt_templates" / language
    return {path.stem: path.read_text(encoding="utf-8").rstrip("\n") for path in folder.glob("*.txt")}


# --- director


@given(outlines, plots)
def test_points_before_the_index_are_completed_the_one_at_it_current_the_rest_pending(
    background: Background, plot: PlotState
) -> None:
    for point in mark_outline(background, plot):
        if point["index"] < plot.current_plot_index:
            assert point["status"] == "completed"
        elif point["index"] == plot.current_plot_index:
            assert point["status"] == plot.current_status
        else:
            assert point["status"] == "pending"
    point = current_point(background, plot)
    assert (point is None) == (not background.story_outline)


@given(st.text(), plots, st.integers(0, 9))
def test_any_reply_either_follows_a_valid_marker_or_counts_one_more(
    reply: str, plot: PlotState, length: int
) -> None:
    after = read_progress(reply, plot, length).plot_state
    if after.no_update_count == 0:
        assert 1 <= after.current_plot_index <= length
    else:
        assert after == PlotState(plot.current_plot_index, plot.current_status, plot.no_update_count + 1)


# --- recall


def _recall(**changes: object) -> RecallModule:
    data = json.loads((SHIPPED / "modules" / "recall.json").read_text(encoding="utf-8"))
    return read_recall({**data, **changes})


@pytest.mark.parametrize("text", ["你还记得吗", "之前怎样", "当时呢", "那次以后", "记得吗"])
def test_the_sources_keywords_trigger_in_their_mode_and_others_do_not(text: str) -> None:
    assert plan_lookup(text, _recall(trigger="keywords")) is not None
    assert plan_lookup("我们约定过什么", _recall(trigger="keywords")) is None


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("我们约定过什么", True),
        ("Do you remember the harbour?", True),
        ("the dragon flies", False),
        ("你好", False),
    ],
)
def test_auto_mode_knows_who_asks_for_the_past(text: str, asked: bool) -> None:
    lookup = plan_lookup(text, _recall())
    assert lookup is not None
    assert (lookup.asked, lookup.limit) == (asked, 20 if asked else 5)


def test_off_never_and_always_always_looks_up() -> None:
    assert plan_lookup("你还记得吗", _recall(trigger="off")) is None
    always = plan_lookup("嗯", _recall(trigger="always"))
    assert always is not None
    assert always.asked


@pytest.mark.parametrize(
    "text", ["你们怎么逃出来的", "如何", "详细过程是什么", "How did we get out?", "tell me in detail"]
)
def test_words_that_ask_for_detail_search_the_plots(text: str) -> None:
    lookup = plan_lookup(text, _recall(trigger="always"))
    assert lookup is not None
    assert lookup.kinds == ("plot", "turn")
    plain = plan_lookup("还记得约定吗", _recall(trigger="always"))
    assert plain is not None
    assert plain.kinds == ("summary", "turn")


def test_the_query_is_what_the_question_is_about() -> None:
    assert extract_query("你还记得我们之前的约定吗？") == "约定"
    assert extract_query("记得吗？") == "记得吗？"


@pytest.mark.parametrize(
    "bad", [{"trigger": "x"}, {"n_results": 0}, {"n_results": "5"}, {"keywords": "x"}, {"keywords": [1]}]
)
def test_a_recall_module_that_cannot_be_used_says_which_field(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        _recall(**bad)


# --- prompt


COUNTER = OfflineCounter("o200k_base")
words = st.text(st.sampled_from("ab 。，！\n\t=/第User:你好\U0001f600{}\"'\\"), max_size=30)


@given(st.lists(st.tuples(words, words), min_size=1, max_size=6), words, words, st.sampled_from(["zh", "en"]))
def test_the_sections_token_counts_add_up_to_exactly_the_single_texts(
    turns: list[tuple[str, str]], persona: str, world: str, language: str
) -> None:
    transcript = Transcript()
    transcript.add(Summary("earlier"))
    for number, (said, answered) in enumerate(turns, 1):
        transcript.add(UserLine("x" + said, number, ""))
        transcript.add(AssistantLine("y" + answered, number, ""))
    material = PromptMaterial(
        "p" + persona,
        "",
        "w" + world,
        [{"index": 1, "content": "a", "status": "pending"}],
        None,
        ["r"],
        transcript.turns,
    )
    prompt = assemble(material, _templates(language), COUNTER.count, Config())
    joined = "".join("".join(section.parts) for section in prompt.sections)
    assert sum(section.tokens for section in prompt.sections) == COUNTER.count(joined)
    assert prompt.text().replace("\n", "") == joined.replace("\n", "")


@given(st.lists(words, min_size=1, max_size=12), st.integers(0, 200))
def test_the_window_holds_the_newest_whole_turns_that_fit(texts: list[str], budget: int) -> None:
    transcript = Transcript()
    for number, text in enumerate(texts, 1):
        transcript.add(UserLine(text, number, ""))
    templates = _templates("zh")
    start = window_start(transcript.turns, templates, COUNTER.count, budget)

    def cost(at: int) -> int:
        material = PromptMaterial("", "", "", None, None, [], transcript.turns[at:])
        prompt = assemble(material, templates, COUNTER.count, Config())
        return prompt.sections[-1].tokens - COUNTER.count("=== 当前会话完整对话 ===\n")

    assert start == len(texts) - 1 or cost(start) <= budget
    assert start == 0 or cost(start - 1) > budget


def test_summaries_stand_where_the_file_has_them_and_roles_take_turns() -> None:
    transcript = Transcript()
    for line in (
        Summary("A"),
        Summary("B"),
        UserLine("u1", 1, ""),
        UserLine("u2", 2, ""),
        AssistantLine("a2", 2, ""),
        Summary("C"),
        UserLine("u3", 3, ""),
    ):
        transcript.add(line)
    prompt = assemble(
        PromptMaterial("p", "", "", None, None, [], transcript.turns),
        _templates("zh"),
        COUNTER.count,
        Config(),
    )
    assert [message["role"] for message in prompt.messages] == ["system", "user", "assistant", "user"]
    text = prompt.text()
    places = [text.index(part) for part in ("摘要：A", "摘要：B", "u1", "u2", "a2", "摘要：C", "u3")]
    assert places == sorted(places)


def test_both_languages_have_the_same_templates_with_the_same_places() -> None:
    places = {
        language: {
            name: {part[1] for part in string.Formatter().parse(text) if part[1]}
            for name, text in _templates(language).items()
        }
        for language in ("zh", "en")
    }
    assert places["zh"] == places["en"]


# --- ids and words


@given(st.text(max_size=80))
def test_what_passes_as_an_id_is_a_plain_file_name(text: str) -> None:
    if is_id(text):
        assert text.isascii()
        assert not set(text) - set(string.ascii_letters + string.digits + "_-")
        assert 1 <= len(text) <= 64
        assert check_id(text, "x") == text
    else:
        with pytest.raises(UserError):
            check_id(text, "x")


@pytest.mark.parametrize("bad", [None, 3, b"x", ["a"], {"a": 1}])
def test_what_is_no_text_is_no_id(bad: object) -> None:
    with pytest.raises(UserError):
        check_id(bad, "x")


def test_a_template_is_filled_only_with_what_it_is_given() -> None:
    assert fill("{a} {b} {a.__class__} {", a="{b}", b=2) == "{b} 2 {a.__class__} {"


@given(st.lists(st.sampled_from(["[PROGRESS:1:pending]", "[progress:2:done]", " ", "\n", "**", "`"])))
def test_old_replies_of_markers_alone_reach_no_later_prompt(parts: list[str]) -> None:
    bare = "".join(parts)
    assert usable_reply(AssistantLine(bare, 1, "")) is None
    assert usable_reply(AssistantLine(f"{bare}好。{bare}", 1, "")) == f"{bare}好。{bare}"


@pytest.mark.parametrize(
    "reply",
    [
        "[PROGRESS:2:completed]。",
        "- [PROGRESS:1:pending]",
        "> **[PROGRESS:1:pending]**",
        "\u200b[PROGRESS:1:pending]\ufeff",
        "【PROGRESS:1:pending】",
        "[PROGRESS：1：pending]",
        "\\[PROGRESS:1:pending\\]",
        "[ PROGRESS: 1 : pending ]",
        f"[PROGRESS:1:{'x' * 60}]",
        "（[PROGRESS:1:pending]）",
        "“[PROGRESS:1:pending]”",
        "「[PROGRESS:1:pending]」",
        "[[PROGRESS:1:pending]]",
        "【[PROGRESS:1:pending]】",
        "[ [PROGRESS:1:pending] [PROGRESS:2:pending] ]",
        "```text\n[PROGRESS:1:pending]\n```",
    ],
)
def test_a_marker_with_stray_characters_is_no_speech(reply: str) -> None:
    assert not has_speech(reply)
    pieces = [silent_prefix(reply[:end]) for end in range(len(reply) + 1)]
    assert not any(has_words for _, has_words in pieces), "nothing is shown while it comes"


@pytest.mark.parametrize("label", ["Ann: ", "**Ann**：", "Ann:\n", "> Ann : "])
def test_the_characters_name_alone_is_no_speech(label: str) -> None:
    assert not has_speech(f"{label}[PROGRESS:1:pending]", "Ann")
    assert has_speech(f"{label}[PROGRESS:1:pending]", "Anna")
    assert has_speech(f"{label}Go.", "Ann")


@given(
    st.lists(
        st.sampled_from(
            [
                "Ann",
                "A",
                ":",
                " ",
                "\n",
                "```",
                "text",
                "[PROGRESS:1:pending]",
                "[PRO",
                "好",
                "（",
                "）",
                ".",
                "[",
                "]",
            ]
        ),
        max_size=9,
    ).map("".join)
)
def test_nothing_is_shown_before_the_first_words_and_nothing_lost(text: str) -> None:
    start = SilentStart("Ann")
    shown = "".join(map(start.feed, text)) + start.flush()
    assert shown in (text, "")
    if shown:
        assert has_speech(text, "Ann")
        whole = SilentStart("Ann")
        if whole.feed(text):
            assert whole.silent == start.silent or not start.silent
    else:
        assert not has_speech(text, "Ann") or "[PRO" in text or text.rstrip().endswith("[")


def test_many_blanks_before_the_first_words_do_not_take_long() -> None:
    start = SilentStart()
    assert [start.feed(" ") for _ in range(50_000)] == [""] * 50_000
    assert start.feed("x") == " " * 50_000 + "x"


@pytest.mark.parametrize(
    "reply", ["……", "...", "。。。", "？", "[PROGRESS] 好", "[PROGRESS:1:pending] 好", "[他点头]"]
)
def test_few_characters_are_speech(reply: str) -> None:
    assert has_speech(reply)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("走。\n**[PROGRESS:1:completed]**", "走。"),
        ("*走。* [PROGRESS:1:completed]", "*走。*"),
        ("走。\n`[PROGRESS:1:completed]` [PROGRESS:2:pending]\n好。", "走。\n好。"),
    ],
)
def test_markers_are_removed_with_their_emphasis(reply: str, expected: str) -> None:
    assert without_markers(reply) == expected


def test_an_old_reply_of_markers_alone_can_be_tried_again() -> None:
    transcript = Transcript()
    transcript.extend([UserLine("hi", 1, ""), AssistantLine("[PROGRESS:1:pending]", 1, "")])
    assert not transcript.turns[0].settled
    transcript.add(AssistantLine("好。", 1, ""))
    assert transcript.turns[0].settled


@pytest.mark.parametrize("said", [7_000, 8_500])
def test_examples_do_not_come_and_go_with_what_is_recalled(said: int) -> None:
    def messages(recalled: list[str]) -> tuple[Message, ...]:
        material = PromptMaterial(
            base_persona="Ann",
            evolved_persona="",
            world_setting="",
            outline=None,
            reminder=None,
            recalled=recalled,
            turns=[Turn(1, UserLine("x" * said, 1, ""))],
            examples=(({"role": "assistant", "content": "y" * 800},),),
        )
        config = Config(max_total_tokens=10_000)
        return assemble(material, _templates("en"), lambda text, most=None: len(text), config).messages

    assert messages([])[:-1] == messages(["z" * 400])[:-1]
    assert (len(messages([])) > 2) is (said == 7_000)
