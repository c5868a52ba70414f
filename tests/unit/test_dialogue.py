"""A model wraps its JSON in thoughts, prose and fences; what it means is read, and a text's language is told."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from personalab.dialogue import (
    Message,
    indented,
    is_in,
    json_of,
    language_among,
    language_in,
    list_in,
    object_in,
    repair_messages,
    whole_numbers,
)

FACTS: list[Any] = [{"text": "x", "type": "profile", "messages": [0]}]
GOOD = json.dumps({"facts": FACTS})
DRAFT = '{"facts": []}'


@pytest.mark.parametrize(
    "answer",
    [
        GOOD,
        f'<think>The schema is {{"facts": [...]}}. Message [0] says x.</think>\n{GOOD}',
        f"<think>draft:\n```json\n{DRAFT}\n```\nno, better:</think>\n```json\n{GOOD}\n```",
        f"I should say {DRAFT} or more.</think>{GOOD}",
        f"Based on message [0], here it is:\n{GOOD}",
        f"{GOOD}\nNote: I used message [0].",
        f"{GOOD}\nNote: I used [nothing else] and {{so on}}.",
        f'{{"a": 1}}\n{GOOD}',
        f"First {DRAFT}, then rather:\n{GOOD}",
        f"```\n{GOOD}\n```",
        f"```json\n{GOOD}",
        f"Here:\n{json.dumps(FACTS)}\nDone.",
        json.dumps(FACTS),
    ],
)
def test_a_list_is_read_whatever_stands_around_it(answer: str) -> None:
    assert list_in(answer, "facts") == FACTS


def test_fences_and_tags_in_a_text_are_a_part_of_it() -> None:
    text = "The user wrote ```print(1)``` and </think> once, with { and [."
    assert object_in(json.dumps({"facts": text}), "facts") == {"facts": text}
    assert object_in(f"Yes: {json.dumps({'facts': text[:36]})}", "facts") == {"facts": text[:36]}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "no JSON"),
        ("I am sorry.", "no JSON"),
        (f"<think>Let me see: {GOOD}", "no JSON"),
        (f"<think>{GOOD}</think>I am sorry.", "no JSON"),
        ('{"facts": [{"text": "x", "messages": [0]}, {"te', "cannot be read"),
        ('{"seen": [], "facts": [{"te', "cannot be read"),
        (f'A draft: {DRAFT}\nNow: {{"facts": [{{"te', "cannot be read"),
        ('{"fact": []}', 'no list "facts"'),
        ("Based on message [0].", "no JSON in the answer that has facts"),
        ('I think {"fact": []}.', "no JSON in the answer that has facts"),
    ],
)
def test_an_answer_without_what_was_asked_for_says_so(answer: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        list_in(answer, "facts")


@pytest.mark.parametrize(
    "garbage",
    [
        "[" * 400_000,
        "{" * 400_000,
        "[1," * 130_000,
        '{"a":' * 80_000,
        "[" * 500 + "1," * 200_000,
        "[" * 900 + '"' + "a" * 400_000,
        "```" + " " * 400_000,
        "```" * 130_000,
        "<think>" * 57_000,
        "[9" * 200_000,
        "[maybe] " * 50_000,
    ],
)
def test_a_great_deal_of_garbage_is_refused(garbage: str) -> None:
    with pytest.raises(ValueError, match="JSON"):
        json_of(garbage, "facts")


_TEXTS = st.text(max_size=8) | st.sampled_from(["<think>", "</think>", "```", "facts"])
_VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)
_PROSE = st.text(st.characters(exclude_characters="{[<`"), max_size=40)


_THOUGHTS = st.text(max_size=40) | st.text(st.sampled_from('{}[]",:0a`<think>/\\ \n'), max_size=40)


@given(_VALUES, _THOUGHTS, _PROSE, _PROSE, st.booleans())
@example({"</think>": 1}, "", "", "", False)
@example([{"a": "</think>"}, {}], "", "x", "y", True)
@example([], '["', "", "", False)
def test_any_object_is_read_among_any_words(
    value: Any, thoughts: str, before: str, after: str, fenced: bool
) -> None:
    answer = json.dumps({"facts": value}, ensure_ascii=False)
    body = f"```json\n{answer}\n```" if fenced else answer
    assert object_in(f"<think>{thoughts}</think>{before}{body}{after}", "facts") == {"facts": value}


@given(st.text(st.sampled_from('{}[]",:0a`<think>/ \n'), max_size=80))
def test_any_text_is_read_or_refused(answer: str) -> None:
    with suppress(ValueError):
        list_in(answer, "facts")


@given(st.lists(st.integers(0, 10**9 - 1)))
def test_numbers_are_read_however_they_are_written(numbers: list[int]) -> None:
    assert whole_numbers(numbers) == numbers
    assert whole_numbers([str(number) for number in numbers]) == numbers
    assert [whole_numbers(f"[{number}]") for number in numbers] == [[number] for number in numbers]


@pytest.mark.parametrize("value", [None, True, 0.5, "one", "1-3", "", [[1]], {"a": 1}, "9" * 30, "①"])
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="whole number"):
        whole_numbers(value)


@given(st.text())
def test_only_the_first_line_of_an_indented_text_begins_at_the_margin(text: str) -> None:
    lines = indented(text).splitlines()
    assert all(line.startswith("    ") for line in lines[1:])
    assert "".join(indented(text).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("我是医生", "zh"),
        ("我在家里用 Python 写代码", "zh"),
        ("I am a doctor in Leeds.", "en"),
        ("My name is 林小雨 and I live in the north of England.", "en"),
        ("帮我看看这段日志 " + "File main py line one in module " * 12, None),
        ("わたしは ねこが すき です", None),
        ("私は東京で犬を飼っています。", None),
        ("저는 고양이를 좋아해요", None),
        ("ok", None),
        ("123 …", None),
    ],
)
def test_the_language_of_a_text_is_told_where_it_is_clear(text: str, language: str | None) -> None:
    assert language_in(text) == language


@pytest.mark.parametrize(
    ("texts", "language"),
    [
        (["我是医生", "ok", "你好"], "zh"),
        (["I am a doctor", "ok"], "en"),
        (["帮我看看", "File main py line one", "File main py line two"], None),
        (["了解", "わたしは ねこが すき", "そうですか"], None),
        ([], None),
    ],
)
def test_every_message_weighs_the_same(texts: list[str], language: str | None) -> None:
    assert language_among(texts) == language


@pytest.mark.parametrize(
    "text", ["The user is 林小雨", "The user moved to 呼和浩特", "…", "The user likes ねこ"]
)
def test_names_may_stand_in_an_english_sentence(text: str) -> None:
    assert is_in("en", text)


@pytest.mark.parametrize(
    "text", ["用户是医生", "User 是医生", "用户是一名 Python 工程师", "ユーザーは猫が好き", "사용자는"]
)
def test_another_language_with_an_english_word_is_not_english(text: str) -> None:
    assert not is_in("en", text)


@pytest.mark.parametrize("tag", ["think", "thinking", "THINK"])
def test_thoughts_are_no_answer_and_are_not_sent_back(tag: str) -> None:
    with pytest.raises(ValueError, match="its thinking"):
        json_of(f"<{tag}>maybe {DRAFT}", "facts")
    assert json_of(f"<{tag}>maybe {DRAFT}</{tag}>{GOOD}", "facts") == {"facts": FACTS}
    asked: list[Message] = [{"role": "user", "content": "?"}]
    _, answer, _ = repair_messages(asked, f"<{tag}>secret</{tag}>no JSON", "no JSON", "{reason}")
    assert answer["content"] == "no JSON"
