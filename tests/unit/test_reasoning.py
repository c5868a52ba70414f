"""Thinking tags are found wherever a stream is cut."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from personalab.reasoning import ReasoningSplitter, split_reasoning, without_thoughts
from personalab.story.transcript import AssistantLine, dump_line, parse_line

TAGS = ("<think>", "</think>", "<thinking>", "</THINK>", "<Think>", "<thin", "</", "<", ">")
texts = st.lists(st.one_of(st.sampled_from(TAGS), st.text("ab甲 \n", max_size=3)), max_size=10).map("".join)


def split_in_pieces(pieces: list[str]) -> tuple[str, str]:
    """Feed a splitter piece by piece; return the reasoning and the speech."""
    splitter = ReasoningSplitter()
    found = [piece for fed in (*map(splitter.feed, pieces), splitter.flush()) for piece in fed]
    said = "".join(text for kind, text in found if kind != "reasoning")
    return "".join(text for kind, text in found if kind == "reasoning"), said


@given(texts, st.data())
def test_cuts_do_not_matter(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert split_in_pieces(pieces) == split_in_pieces([text]) == split_in_pieces(list(text))


@given(texts)
def test_nothing_but_tags_is_lost(text: str) -> None:
    reasoning, speech = split_in_pieces([text])
    kept = sorted(reasoning + speech)
    for character in sorted(text):
        if character in kept:
            kept.remove(character)
    assert kept == [], "nothing is added"
    assert sorted(c for c in text if c in "ab甲") == sorted(c for c in reasoning + speech if c in "ab甲")


@given(texts)
@example("<th<think>x</think>ink>Hello")
def test_speech_holds_no_more_tags(text: str) -> None:
    _, speech = split_reasoning(text)
    assert split_reasoning(speech) == ("", speech)


@given(texts)
@example("<th<think>x</think>ink>Hello")
def test_line_is_the_same_however_often_it_is_read(text: str) -> None:
    line = parse_line(dump_line(AssistantLine(text, 1, "")))
    assert parse_line(dump_line(line)) == line


def test_many_tags_inside_each_other_do_not_take_long() -> None:
    text = "<th" * 20_000 + "<think>x</think>" + "ink>" * 20_000
    assert split_reasoning(text) == ("x", "")


@pytest.mark.parametrize(
    ("text", "reasoning", "speech"),
    [
        ("<th<think>x</think>ink>Hello", "x", "Hello"),
        ("a</think>b<think>c</think>d", "ac", "bd"),
        ("想</think>我在。</think>", "想", "我在。"),
        ("你好。", "", "你好。"),
        ("<think>想</think>你好。", "想", "你好。"),
        ("<think>\n想\n</think>\n\n你好。", "想", "你好。"),
        ("<thinking>hm</thinking>Hi.", "hm", "Hi."),
        ("<THINK>hm</Think>Hi.", "hm", "Hi."),
        ("<think>a<think>b</think>c</think>d", "a<think>b</think>c", "d"),
        ("<think>a<think>b</think>c", "a<think>b</think>c", ""),
        ("<think>never closed", "never closed", ""),
        ("one <think>two</think>three", "two", "one three"),
        ("thoughts without a beginning</think>\n\nHi.", "thoughts without a beginning", "Hi."),
        ("<think>想</think>我在。</think>", "想", "我在。"),
        ("<think>想</think>我在。</think>你呢？", "想", "我在。你呢？"),
        ("a < b and <thinker> stay", "", "a < b and <thinker> stay"),
        ("half a tag at the end <thin", "", "half a tag at the end <thin"),
    ],
)
def test_reasoning_and_speech_are_separated(text: str, reasoning: str, speech: str) -> None:
    assert split_reasoning(text) == (reasoning, speech)


@pytest.mark.parametrize("flag", ["interrupted", "empty", "error", "truncated"])
def test_line_keeps_reasoning_and_flags(flag: str) -> None:
    line = AssistantLine("好。", 3, "2026-01-01T00:00:00Z", reasoning='想 "这里"\n</think>')
    line = replace(line, **{flag: True})
    assert parse_line(dump_line(line)) == line


def test_old_line_with_thoughts_in_its_content_is_read_as_if_stored_apart() -> None:
    line = parse_line(b'{"role":"assistant","content":"<think>hm</think>\\nHi.","turn":1,"timestamp":""}')
    assert line == AssistantLine("Hi.", 1, "", reasoning="hm")


def test_reasoning_field_of_another_shape_is_kept_as_it_is() -> None:
    raw = b'{"role":"assistant","content":"Hi.","turn":1,"timestamp":"","reasoning":["x"]}\n'
    line = parse_line(raw)
    assert line == AssistantLine("Hi.", 1, "", extra={"reasoning": ["x"]})
    assert dump_line(line) == raw


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("<think>hm</think>\n\n{}", "{}"),
        ("\n<THINKING>a<think>b</think>c</THINKING>yes", "yes"),
        ("<think>never closed", ""),
        ("hm, let me see\n</think>\n{}", "{}"),
        (
            "The model emitted `<think>` but never closed it.",
            "The model emitted `<think>` but never closed it.",
        ),
        ("re.sub(r'<think>.*?</think>', '', t)", "re.sub(r'<think>.*?</think>', '', t)"),
        ('{"why": "it leaves </think> in the text"}', '{"why": "it leaves </think> in the text"}'),
        ("```\n<think>\nhm\n</think>\n```", "```\n<think>\nhm\n</think>\n```"),
    ],
)
def test_only_thoughts_that_an_answer_begins_with_are_removed(answer: str, expected: str) -> None:
    assert without_thoughts(answer) == expected
