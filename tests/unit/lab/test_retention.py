"""What a person wants kept or dropped is read out of free text, and nothing is guessed about unknown names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.errors import UserError
from personalab.lab.retention import Retention, read_retention, rules_text

KNOWN = tuple(f"seg_{number:03d}" for number in range(1, 10))


@pytest.mark.parametrize(
    ("rules", "kept", "dropped"),
    [
        ("必须保留seg_001（角色设定）和seg_002（约束条件）", "1 2", ""),
        ("必须保留seg_001和seg_002", "1 2", ""),
        ("保留 seg_001 到 seg_003；去掉 seg_005", "1 2 3", "5"),
        ("keep seg_001 to seg_003; drop seg_005", "1 2 3", "5"),
        ("keep seg_001 and seg_002", "1 2", ""),
        ("保留 seg_001；去掉 seg_002", "1", "2"),
        ("去掉seg_003、seg_004", "", "3 4"),
        ("去掉seg_003，保留seg_001", "1", "3"),
        ("请务必保留seg_001，seg_002", "1 2", ""),
        ("keep seg_001, seg_002, and drop seg_003.", "1 2", "3"),
        ("Must keep seg_001.\nRemove seg_004 - seg_002", "1", "2 3 4"),
        ("保留SEG＿００1", "1", ""),
        ("keep seg_002, be kind", "2", ""),
        ("make it shorter, please", "", ""),
        ("", "", ""),
    ],
)
def test_documented_sentences_are_read(rules: str, kept: str, dropped: str) -> None:
    assert read_retention(rules, KNOWN) == Retention(_names(kept), _names(dropped))


def _names(numbers: str) -> tuple[str, ...]:
    return tuple(f"seg_{int(number):03d}" for number in numbers.split())


def test_a_name_nobody_knows_is_refused_by_name() -> None:
    with pytest.raises(UserError) as caught:
        read_retention("保留seg_001和seg_042", KNOWN)
    assert caught.value.code == "lab_unknown_segment"
    assert "seg_042" in caught.value.message("zh")
    assert "seg_001" in caught.value.message("en")


def test_a_segment_both_kept_and_dropped_is_refused() -> None:
    with pytest.raises(UserError) as caught:
        read_retention("保留seg_001。删除seg_001。", KNOWN)
    assert caught.value.code == "lab_retention_contradiction"


@given(st.text(max_size=80), st.lists(st.sampled_from(KNOWN), max_size=4))
def test_any_text_is_read_and_only_known_names_come_out(text: str, names: list[str]) -> None:
    rules = text.join([*names, ""]) if names else text.replace("seg", "")
    try:
        found = read_retention(rules, KNOWN)
    except UserError as error:
        known = {"lab_unknown_segment", "lab_retention_contradiction", "lab_retention_unclear"}
        assert error.code in known  # noqa: PT017 (all may happen)
    else:
        assert set(found.kept) <= set(KNOWN)
        assert not set(found.kept) & set(found.dropped)


@given(st.lists(st.sampled_from(KNOWN), unique=True), st.lists(st.sampled_from(KNOWN), unique=True))
def test_lists_are_exact_and_their_sentence_reads_as_the_same(keep: list[str], drop: list[str]) -> None:
    drop = [name for name in drop if name not in keep]
    wanted = Retention(tuple(keep), tuple(drop))
    assert read_retention("", KNOWN, keep=keep, drop=drop) == wanted
    assert read_retention(rules_text("", keep, drop), KNOWN) == wanted


def test_lists_leave_the_text_to_the_writer() -> None:
    found = read_retention("Drop what is said twice.", KNOWN, keep=["seg_001"], drop=["seg_002"])
    assert found == Retention(("seg_001",), ("seg_002",))


@pytest.mark.parametrize(
    ("rules", "keep", "drop", "code"),
    [
        ("", ["seg_042"], [], "lab_unknown_segment"),
        ("", [], ["keep"], "lab_unknown_segment"),
        ("", ["seg_001"], ["seg_001"], "lab_retention_contradiction"),
        ("drop seg_001", ["seg_001"], [], "lab_retention_contradiction"),
    ],
)
def test_lists_that_cannot_be_kept_are_refused(
    rules: str, keep: list[str], drop: list[str], code: str
) -> None:
    with pytest.raises(UserError) as caught:
        read_retention(rules, KNOWN, keep=keep, drop=drop)
    assert caught.value.code == code


# --- what a person may also write

MEANS_KEEP = (
    "去掉重复的内容时保留seg_001",
    "删除重复内容同时保留seg_001",
    "when removing duplicates keep seg_001",
    "remove duplicates while keeping seg_001",
    "除seg_001外全部删除",
    "除了seg_001其他都删掉",
    "delete everything except seg_001",
    "remove all segments other than seg_001",
    "drop all but seg_001",
    "不能没有seg_001",
    "别忘了seg_001",
    "不要忘记保留seg_001",
    "Do not forget seg_001",
    "不得不保留seg_001",
    "seg_001 must not be missing",
    "seg_001 must not be absent",
    "seg_001 is not optional",
    "I can't live without seg_001",
    "never ship without seg_001",
    "don't get rid of seg_001",
    "no matter what keep seg_001",
    "在不影响可读性的前提下保留seg_001",
    "如果不超长就保留seg_001",
    "keep the constraint about no globals from seg_001",
    "drop seg_002; seg_001 is essential",
    "删除seg_002。seg_001很重要。",
    "必须保留角色设定（seg_001）和约束条件（seg_003）",
    "keep the role (seg_001)",
    "（必须保留seg_001）",
    "改进时务必保留seg_001",
    "改写其余部分时保留seg_001",
    "rewrite the prompt while keeping seg_001",
    "when you edit the prompt keep seg_001",
    "seg_001不能丢",
    "seg_001一字不动",
    "绝不能少了seg_001",
    "Remove nothing from seg_001",
    "删除seg_001是禁止的",
    "Removing seg_001 is forbidden",
    "drop seg_001? No.",
    "删除seg_001，绝对不行",
    "Do not... drop seg_001",
    "Do not\ndrop seg_001",
    "Forbidden:\n- drop seg_002\n\n- drop seg_001",
    "Never do this.\n- drop seg_002\n- drop seg_001",
    "do not change seg_002 or drop seg_001",
    "do not change seg_002 and drop seg_001",
    "不要改动seg_002、删除seg_001",
    "drop seg_001, and everything breaks",
    "If it is too long, drop seg_001",
    "drop seg_001. Just kidding, keep it.",
    "删掉什么都行，不要seg_001",
    "do not just drop seg_001",
    "不要只删除seg_001",
    "avoid dropping seg_001",
    "drop the rest (not seg_001)",
    "drop seg_002 (seg_001)",
    "保留seg_\u200b001",
    "保留第一个片段seg_001",
)
MEANS_DROP = (
    "keep everything except seg_001",
    "除了seg_001都保留",
    "保留除seg_001以外的所有片段",
    "cut seg_001",
    "skip seg_001",
    "ignore seg_001",
    "avoid seg_001",
    "strip seg_001",
    "get rid of seg_001",
    "砍掉seg_001",
    "舍去seg_001",
    "keep seg_002 instead of seg_001",
    "drop (seg_001)",
    "drop the role (seg_001)",
    "keep seg_001 out",
    "keep seg_001 away from the result",
    "axe seg_001",
    "axe seg_001 to keep it short",
    "to keep it short axe seg_001",
    "drop everything, including seg_001",
    "删除所有内容，包括seg_001",
    "Drop\nseg_002\nseg_001",
    "Drop:\n- seg_002\n- seg_001",
    "keep seg_001. Actually, drop it.",
    "seg_001 must go",
    "保留seg_002，seg_001删除",
    "seg_001并不重要",
    "seg_001，删掉",
    "不要保留seg_001",
    "可以不保留seg_001",
)


def _read(rules: str) -> Retention | None:
    """Give what was understood; ``None`` if it was refused as unclear."""
    try:
        return read_retention(rules, KNOWN)
    except UserError as error:
        assert error.code == "lab_retention_unclear", error.code  # noqa: PT017 (any other code is a failure)
        return None


@pytest.mark.parametrize("rules", MEANS_KEEP)
def test_no_sentence_that_keeps_a_segment_loses_or_frees_it(rules: str) -> None:
    found = _read(rules)
    assert found is None or ("seg_001" in found.kept and "seg_001" not in found.dropped)


@pytest.mark.parametrize("rules", MEANS_DROP)
def test_no_sentence_that_drops_a_segment_keeps_it_unsaid(rules: str) -> None:
    found = _read(rules)
    assert found is None or found.dropped[-1:] == ("seg_001",)


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        ("keep seg_001 to seg_003", "1 2 3"),
        ("保留seg_001到seg_003", "1 2 3"),
        ("保留seg_001-seg_003", "1 2 3"),
        ("keep seg_001-003", "1 2 3"),
        ("keep segments 1-3 and 5", "1 2 3 5"),
        ("保留seg_001/002", "1 2"),
        ("keep seg_001, 002", "1 2"),
        ("保留seg001和002", "1 2"),
        ("保留 segment_001", "1"),
        ("keep segments 1 and 2", "1 2"),
        ("保留片段1和片段2", "1 2"),
        ("保留seg＿００1", "1"),
        ("不止保留seg_001，还要保留seg_002", "1 2"),
        ("keep not just seg_001 but also seg_002", "1 2"),
        ("必须保留角色设定（seg_001）和约束条件（seg_002）", "1 2"),
        ("Keep:\n- seg_001\n- `seg_002`\n", "1 2"),
        ("保留seg_001、seg_002，其它可以删", "1 2"),
    ],
)
def test_other_lists_are_read_whole_or_asked_back(rules: str, kept: str) -> None:
    found = _read(rules)
    assert found is None or found == Retention(_names(kept))


@pytest.mark.parametrize(
    "rules", ["保留 seg_042（角色）", "keep seg_008 to seg_042", "drop seg_001, seg_042"]
)
def test_an_unknown_name_is_found_wherever_it_stands(rules: str) -> None:
    with pytest.raises(UserError) as caught:
        read_retention(rules, KNOWN)
    assert caught.value.code == "lab_unknown_segment"


@pytest.mark.parametrize("rules", ["keep seg_1a", "keep all segments", "keep seg_001 and 3 examples"])
def test_what_is_not_surely_a_name_is_asked_back(rules: str) -> None:
    assert _read(rules) is None


def test_a_refusal_quotes_the_sentence_and_says_how_to_write_it() -> None:
    with pytest.raises(UserError) as caught:
        read_retention("Be brief. Delete everything except seg_002.", KNOWN)
    assert "Delete everything except seg_002" in caught.value.message("en")
    assert "keep seg_001; drop seg_002" in caught.value.message("en")
    assert "保留 seg_001；去掉 seg_002" in caught.value.message("zh")
    assert read_retention("保留 seg_001；去掉 seg_002", KNOWN) == Retention(("seg_001",), ("seg_002",))
    assert read_retention("keep seg_001; drop seg_002", KNOWN) == Retention(("seg_001",), ("seg_002",))


_KEEPING = ("keep", "retain", "be sure to keep", "preserve", "保留", "务必保留", "必须保留")
_DROPPING = ("drop", "remove", "delete", "get rid of", "cut", "删除", "去掉", "把它去掉", "砍掉")
_DENYING = (
    "do not",
    "never",
    "don't",
    "under no circumstances",
    "you must not",
    "不要",
    "千万别",
    "不得",
    "禁止",
)
_EXCEPTING = (
    "everything except",
    "all but",
    "everything other than",
    "anything besides",
    "除了",
    "所有内容，除了",
)
_JOINTS = (" ", ", ", "，", ": ", "：", "\n", " and ", "，但", " but ", " (", "（", "... ", ":\n- ", "、")
_ASIDES = ("", "", " please", " (the role)", "（角色）", "!", "。", ", be brief", "，语言简洁")


@given(
    st.sampled_from(_DENYING) | st.sampled_from(_EXCEPTING),
    st.sampled_from(_DROPPING),
    st.sampled_from(_JOINTS),
    st.sampled_from(_ASIDES),
    st.booleans(),
)
def test_nothing_is_dropped_where_a_denial_or_an_exception_governs(
    sign: str, verb: str, joint: str, aside: str, behind: bool
) -> None:
    parts = (verb, sign) if sign in _EXCEPTING else (sign, verb)
    rules = f"{parts[0]}{joint}{parts[1]} seg_001{aside}"
    if behind:
        rules = f"keep seg_002; {rules}"
    found = _read(rules)
    assert found is None or "seg_001" not in found.dropped


@given(
    st.sampled_from(_KEEPING),
    st.sampled_from(("", *_DROPPING)),
    st.sampled_from(("duplicates", "the rest", "重复内容", "其余")),
    st.sampled_from(_JOINTS),
    st.sampled_from(_ASIDES),
    st.booleans(),
)
def test_what_a_verb_of_keeping_governs_is_kept_or_asked_back(
    keep: str, drop: str, what: str, joint: str, aside: str, first: bool
) -> None:
    other = f"{drop} {what}" if drop else "make it short"
    rules = f"{keep} seg_001{aside}{joint}{other}" if first else f"{other}{joint}{keep} seg_001{aside}"
    found = _read(rules)
    assert found is None or found == Retention(("seg_001",))


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from(KNOWN)), unique_by=lambda row: row[1]), st.booleans()
)
def test_plain_sentences_are_always_understood(rows: list[tuple[bool, str]], chinese: bool) -> None:
    verbs = ("去掉 ", "保留 ") if chinese else ("drop ", "keep ")
    rules = ("；" if chinese else "; ").join(f"{verbs[keeps]}{name}" for keeps, name in rows)
    kept, dropped = (tuple(name for keeps, name in rows if keeps is side) for side in (True, False))
    assert read_retention(rules, KNOWN) == Retention(kept, dropped)
