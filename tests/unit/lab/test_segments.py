"""A skill is cut so that nothing is lost, and its pieces go together again in one way only."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.errors import UserError
from personalab.lab.findings import AdvantageSegment
from personalab.lab.segments import (
    Mark,
    PoolSegment,
    compose,
    find_exact,
    marks_of,
    partition,
    pool,
    resolve_segments,
    text_hash,
)

CODER = """# 角色

你是一个专业的Python开发者。请遵循PEP8规范。

要求：
- 检查参数类型
- 处理边界值

示例：

```python
def f(n):

    return n
```

直接给出代码。
"""
HELPER = """你是一个助手。

必须捕获所有异常。

直接给出代码。
"""
_LINES = st.sampled_from(
    [
        "# Head",
        "plain words",
        "- item",
        "1. item",
        "  indented",
        "```",
        "~~~",
        "---",
        "",
        "",
        "你是助手。",
        "，",
        "\t",
    ]
)
_TEXTS = st.one_of(st.lists(_LINES, max_size=14).map("\n".join), st.text(max_size=60))


@st.composite
def _marked_texts(draw: st.DrawFn) -> tuple[str, list[Mark]]:
    text = draw(_TEXTS)
    places = st.integers(0, len(text))
    spans = draw(st.lists(st.tuples(places, places), max_size=4))
    return text, [Mark(f"seg_{at:03d}", min(span), max(span)) for at, span in enumerate(spans, start=1)]


# --- cutting


@given(_marked_texts())
def test_the_pieces_one_after_the_other_are_the_text(drawn: tuple[str, list[Mark]]) -> None:
    text, marks = drawn
    parts = partition(text, marks)
    assert "".join(part.text for part in parts) == text
    assert [(part.start, part.end) for part in parts] == [
        (sum(len(other.text) for other in parts[:at]), sum(len(other.text) for other in parts[: at + 1]))
        for at in range(len(parts))
    ]
    assert all(part.core in part.text and part.text.endswith(part.after) for part in parts)


@given(_marked_texts())
def test_every_mark_is_whole_in_one_piece(drawn: tuple[str, list[Mark]]) -> None:
    text, marks = drawn
    parts = partition(text, marks)
    for mark in marks:
        if mark.start < mark.end:
            (home,) = [part for part in parts if mark.segment_id in part.marked]
            assert home.core_start <= mark.start
            assert mark.end <= home.core_end
            assert text[mark.start : mark.end] in home.core


def test_blank_lines_headings_lists_and_code_are_where_a_skill_is_cut() -> None:
    cores = [(part.core, part.kind) for part in partition(CODER)]
    assert cores == [
        ("# 角色\n\n你是一个专业的Python开发者。请遵循PEP8规范。", "text"),
        ("要求：", "text"),
        ("- 检查参数类型\n- 处理边界值", "list"),
        ("示例：", "text"),
        ("```python\ndef f(n):\n\n    return n\n```", "code"),
        ("直接给出代码。", "text"),
    ]


def test_a_code_block_is_never_cut_even_by_a_mark_inside_it() -> None:
    at = CODER.index("return n")
    (home,) = [part for part in partition(CODER, [Mark("seg_001", at, at + 8)]) if part.marked]
    assert home.core == "```python\ndef f(n):\n\n    return n\n```"


def test_a_code_block_that_is_never_closed_reaches_to_the_end() -> None:
    assert [part.core for part in partition("a\n```\nb\n\nc\n# d")] == ["a", "```\nb\n\nc\n# d"]


def test_marks_that_overlap_are_one_piece_with_both_names() -> None:
    text = "one two three four"
    parts = partition(text, [Mark("seg_001", 0, 7), Mark("seg_002", 4, 13)])
    assert [(part.core, part.marked) for part in parts] == [
        ("one two three", ("seg_001", "seg_002")),
        ("four", ()),
    ]


def test_a_mark_takes_its_bullet_and_its_full_stop_along() -> None:
    text = "- 检查类型。\n- 处理边界"
    parts = partition(text, [Mark("seg_001", 2, 6)])
    assert [(part.core, part.marked) for part in parts] == [
        ("- 检查类型。", ("seg_001",)),
        ("- 处理边界", ()),
    ]


def test_a_mark_takes_emphasis_along_only_where_it_ends_the_line() -> None:
    text = "**遵循规范**\n必须**认真**。"
    marks = [Mark("seg_001", 2, 6), Mark("seg_002", text.index("必须"), text.index("必须") + 2)]
    assert [part.core for part in partition(text, marks)] == ["**遵循规范**", "必须", "**认真**。"]


def test_many_signs_before_a_mark_take_no_time() -> None:
    text = "-" * 200_000 + "x mark"
    assert [part.core[-6:] for part in partition(text, [Mark("seg_001", len(text) - 4, len(text))])] == [
        "-----x",
        "mark",
    ]


# --- finding (resolution 28)


def test_a_quote_is_found_to_the_letter_or_not_at_all() -> None:
    assert find_exact(CODER, "请遵循PEP8规范。") == (CODER.index("请遵循"), CODER.index("请遵循") + 10)
    assert find_exact(CODER, "请遵循 PEP8 规范。") is None
    assert find_exact(CODER, "") is None
    assert text_hash("a") == "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"


def test_a_segment_that_stands_in_the_skill_no_more_has_no_mark() -> None:
    rows = [
        AdvantageSegment(
            id=name,
            skill_id=skill,
            skill_name="",
            type="role",
            content=quote,
            reason="",
            dimension="readability",
        )
        for name, skill, quote in (
            ("seg_001", "a", "请遵循PEP8规范。"),
            ("seg_002", "a", "不在里面"),
            ("seg_003", "gone", "请"),
        )
    ]
    marks = marks_of(rows, {"a": CODER})
    assert {skill: [mark.segment_id for mark in found] for skill, found in marks.items()} == {
        "a": ["seg_001"]
    }


# --- pooling and putting together


@given(st.lists(_marked_texts(), min_size=1, max_size=3))
def test_all_pieces_of_a_skill_give_it_back_exactly(drawn: list[tuple[str, list[Mark]]]) -> None:
    skills = {f"s{at}": text for at, (text, _) in enumerate(drawn)}
    marks = {
        f"s{at}": [Mark(f"seg_{at}{mark.segment_id[4:]}", mark.start, mark.end) for mark in found]
        for at, (_, found) in enumerate(drawn)
    }
    pieces = pool(skills, marks)
    assert len({piece.segment_id for piece in pieces}) == len(pieces)
    for skill_id, text in skills.items():
        mine = [p.segment_id for p in pieces if any(place.skill_id == skill_id for place in p.places)]
        assert compose(pieces, mine) == text


@given(st.lists(_marked_texts(), min_size=1, max_size=3), st.data())
def test_whatever_is_chosen_stands_in_the_result_to_the_letter(
    drawn: list[tuple[str, list[Mark]]], data: st.DataObject
) -> None:
    pieces = pool({f"s{at}": text for at, (text, _) in enumerate(drawn)})
    if not pieces:
        return
    ids = [piece.segment_id for piece in pieces]
    chosen = data.draw(st.lists(st.sampled_from(ids), unique=True))
    content = compose(pieces, chosen)
    assert content == compose(pieces, list(reversed(chosen)))
    for piece in resolve_segments(pieces, chosen):
        assert piece.text.strip() in content


def test_what_two_skills_share_is_one_piece() -> None:
    pieces = pool({"a": CODER, "b": HELPER})
    shared = [piece for piece in pieces if {place.skill_id for place in piece.places} == {"a", "b"}]
    assert [piece.text for piece in shared] == ["直接给出代码。"]


def test_pieces_of_two_skills_go_by_how_far_down_they_stood_with_one_blank_line_between() -> None:
    pieces = pool({"a": CODER, "b": HELPER})
    ids = {piece.text.split("\n")[0]: piece.segment_id for piece in pieces}
    content = compose(
        pieces, [ids["直接给出代码。"], ids["必须捕获所有异常。"], ids["# 角色"], ids["- 检查参数类型"]]
    )
    assert content == (
        "# 角色\n\n你是一个专业的Python开发者。请遵循PEP8规范。\n\n必须捕获所有异常。\n\n"
        "- 检查参数类型\n- 处理边界值\n\n直接给出代码。\n"
    )


def test_a_part_of_one_skill_keeps_its_order_and_the_space_between_neighbours() -> None:
    pieces = pool({"a": CODER, "b": HELPER})
    ids = {piece.text.split("\n")[0]: piece.segment_id for piece in pieces}
    assert compose(pieces, [ids["- 检查参数类型"], ids["要求："]]) == "要求：\n- 检查参数类型\n- 处理边界值\n"


def test_a_role_comes_first_unless_its_own_skill_has_something_before_it() -> None:
    early = pool({"a": "You are kind.\n\nBe brief.\n", "b": "Be exact.\n\nBe calm.\n"})
    assert compose(early, ["seg_003", "seg_001"]) == "You are kind.\n\nBe exact.\n"
    late = pool({"b": "Be exact.\n\nBe calm.\n", "a": "Be brief.\n\nYou are kind.\n"})
    assert compose(late, ["seg_002", "seg_003", "seg_004"]) == "Be brief.\n\nYou are kind.\n\nBe calm.\n"
    assert compose(late, ["seg_001", "seg_004"]) == "You are kind.\n\nBe exact.\n"


def test_the_same_pieces_in_another_order_are_another_skill() -> None:
    skills = {"a": "one\n\ntwo\n", "b": "two\n\none\n", "c": "one\n\ntwo\n"}
    pieces = pool(skills)
    assert [(piece.text, len(piece.places)) for piece in pieces] == [
        ("one", 2),
        ("two", 2),
        ("two", 1),
        ("one", 1),
    ]
    for skill_id, content in skills.items():
        mine = [p.segment_id for p in pieces if any(place.skill_id == skill_id for place in p.places)]
        assert compose(pieces, mine) == content


def test_a_marked_piece_keeps_its_name_and_new_ones_count_on() -> None:
    start = HELPER.index("必须")
    mark = Mark("seg_007", start, start + 9, "constraint", "robustness")
    pieces = pool({"b": HELPER}, {"b": [mark]})
    assert [(p.segment_id, p.type, p.dimension) for p in pieces] == [
        ("seg_008", "role", None),
        ("seg_007", "constraint", "robustness"),
        ("seg_009", "instruction", None),
    ]


def test_a_second_name_of_a_piece_finds_it_and_an_unknown_one_is_refused() -> None:
    text = "one two three"
    pieces = pool({"a": text}, {"a": [Mark("seg_001", 0, 7), Mark("seg_002", 4, 13)]})
    assert compose(pieces, ["seg_002"]) == text
    with pytest.raises(UserError, match="seg_009"):
        compose(pieces, ["seg_009"])


def test_a_pool_can_be_kept_as_json() -> None:
    pieces = pool({"a": CODER, "b": HELPER})
    kept = json.loads(json.dumps([piece.fields() for piece in pieces]))
    assert [PoolSegment.read(row, "x_iteration.json") for row in kept] == pieces
