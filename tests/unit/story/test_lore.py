"""Lorebooks: which entries a conversation calls up, and which of them have room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from personalab.config import LoreModule
from personalab.story.lore import NO_LORE, Lore, Lorebook, LoreEntry, activate
from personalab.story.macros import Names

MODULE = LoreModule(enabled=True, scan_depth=4, max_tokens=1_000, recursive=True)
NAMES = Names("艾莉", "小明")


def entry(entry_id: str, *keys: str, content: str = "", **rest: Any) -> LoreEntry:
    """Make an entry that calls itself by its id."""
    return LoreEntry(entry_id, content or f"<{entry_id}>", keys, **rest)


def look(
    *entries: LoreEntry,
    said: tuple[str, ...] = ("海上有一座灯塔。",),
    module: LoreModule = MODULE,
    turn: int = 1,
    fill: Callable[[str], str] = NAMES.fill,
    greeting: int | None = None,
    **book: Any,
) -> Lore:
    """Look into one book."""
    books = [Lorebook("世界", entries, **book)]
    return activate(books, said, module=module, count=len, turn=turn, fill=fill, greeting=greeting)


def shown(lore: Lore) -> list[str]:
    """Give the ids of what stands in the prompt."""
    return [hit.entry for hit in lore.hits if hit.shown]


# --- keys


def test_a_chinese_key_matches_inside_a_sentence_and_the_hit_says_where() -> None:
    lore = look(
        entry("1", "城堡", "灯塔", content="灯塔由守夜人看管。"), said=("灯塔还亮着吗？", "亮着。", "走吧")
    )
    assert lore.before == "灯塔由守夜人看管。"
    assert lore.hits[0].fields() == {
        "book": "世界",
        "entry": "1",
        "name": "",
        "position": "before_char",
        "order": 100,
        "tokens": 10,
        "why": "key",
        "key": "灯塔",
        "ago": 2,
        "shown": True,
    }


def test_nothing_is_called_up_where_no_key_occurs_or_lorebooks_are_off() -> None:
    assert look(entry("1", "城堡"), entry("2"), entry("3", "", "  ")) == Lore()
    assert look(entry("1", "灯塔"), module=replace(MODULE, enabled=False)) is NO_LORE


@pytest.mark.parametrize(
    ("key", "text", "found"),
    [
        ("LightHouse", "the LIGHTHOUSE keeper", True),
        ("straße", "STRASSE 5", True),
        ("ﬁre", "FIRE!", True),
        ("house", "lighthouses", True),
        ("light house", "lighthouse", False),
        ("🔥🔥", "a 🔥🔥🔥 b", True),
    ],
)
def test_case_counts_for_nothing_unless_asked_for(key: str, text: str, found: bool) -> None:
    assert (shown(look(entry("1", key), said=(text,))) == ["1"]) is found


def test_a_case_sensitive_key_matches_only_as_it_is_written() -> None:
    rose = entry("1", "Rose", case_sensitive=True)
    assert shown(look(rose, said=("Rose came in.",))) == ["1"]
    assert shown(look(rose, said=("a rose",))) == []


@pytest.mark.parametrize(
    ("key", "text", "found"),
    [
        ("elf", "an elf came", True),
        ("elf", "the shelf", False),
        ("elf", "himself, an elf", True),
        ("elf", "精灵elf来了", True),
        ("elf", "elfé", False),
        ("精灵", "森林精灵们", True),
        ("dark elf", "a dark elfin face", True),
        ("c++", "c++11", True),
    ],
)
def test_whole_words_end_where_latin_letters_do(key: str, text: str, found: bool) -> None:
    assert (shown(look(entry("1", key, whole_words=True), said=(text,))) == ["1"]) is found


def test_a_key_with_a_placeholder_is_filled_before_it_is_looked_for() -> None:
    assert shown(look(entry("1", "{{char}}的剑"), said=("这是艾莉的剑。",))) == ["1"]
    assert shown(look(entry("1", "{{char}}"), said=("这是小明。",))) == []


def test_an_entry_that_is_off_never_enters() -> None:
    assert look(entry("1", "灯塔", enabled=False), entry("2", constant=True, enabled=False)) == Lore()


# --- how far back


@pytest.mark.parametrize(
    ("own", "book", "module", "found"),
    [
        (None, None, 2, False),
        (None, None, 3, True),
        (None, 3, 0, True),
        (None, 2, 1_000, False),
        (3, 0, 0, True),
        (0, 9, 9, False),
    ],
)
def test_the_entry_then_the_book_then_the_setting_says_how_far_back(
    own: int | None, book: int | None, module: int, found: bool
) -> None:
    lore = look(
        entry("1", "灯塔", scan_depth=own),
        said=("灯塔", "二", "三"),
        module=replace(MODULE, scan_depth=module),
        scan_depth=book,
    )
    assert (shown(lore) == ["1"]) is found


# --- secondary keys


@pytest.mark.parametrize(
    ("logic", "text", "found"),
    [
        ("and_any", "灯塔 风", True),
        ("and_any", "灯塔", False),
        ("and_all", "灯塔 风", False),
        ("and_all", "灯塔 风 雨", True),
        ("not_any", "灯塔", True),
        ("not_any", "灯塔 雨", False),
        ("not_all", "灯塔 雨", True),
        ("not_all", "灯塔 风 雨", False),
    ],
)
def test_secondary_keys_decide_by_their_logic(logic: Any, text: str, found: bool) -> None:
    one = entry("1", "灯塔", secondary_keys=("风", "雨"), selective=True, logic=logic)
    assert (shown(look(one, said=(text,))) == ["1"]) is found
    assert shown(look(replace(one, selective=False), said=(text,))) == ["1"]


def test_a_secondary_key_may_occur_in_another_message_of_the_window() -> None:
    one = entry("1", "灯塔", secondary_keys=("风",), selective=True)
    assert shown(look(one, said=("风", "……", "灯塔"))) == ["1"]
    assert shown(look(replace(one, scan_depth=2), said=("风", "……", "灯塔"))) == []


def test_a_constant_entry_asks_for_no_secondary_key() -> None:
    assert shown(look(entry("1", constant=True, secondary_keys=("风",), selective=True))) == ["1"]


def test_a_secondary_key_may_stand_in_what_entered() -> None:
    late = entry("2", "灯塔", secondary_keys=("守夜人",), selective=True)
    assert shown(look(entry("1", "海", content="守夜人"), late)) == ["1", "2"]
    assert shown(look(entry("1", "海", content="守夜人"), late, recursive=False)) == ["1"]


# --- patterns


def test_where_keys_are_patterns_v3_passes_over_secondary_and_excluded_keys() -> None:
    one = LoreEntry(
        "1", "@@exclude_keys 海\n塔", ("灯.",), secondary_keys=("风",), selective=True, use_regex=True
    )
    assert shown(look(one)) == ["1"]
    assert shown(look(replace(one, use_regex=False, keys=("灯塔",)))) == []


@pytest.mark.parametrize(
    ("key", "use_regex", "text", "found"),
    [
        (r"/灯塔|烽火台/", False, "烽火台", True),
        (r"/\bELF\b/i", False, "an elf!", True),
        (r"/\bELF\b/", False, "an elf!", False),
        (r"/a\/b/", False, "a/b", True),
        ("/usr/bin/", False, "in /usr/bin/ it is", True),
        (r"(灯|火)塔", False, "火塔", False),
        (r"(灯|火)塔", True, "火塔", True),
        ("LIGHT.+HOUSE", True, "light  house", True),
        ("灯塔", True, "大灯塔下", True),
    ],
)
def test_a_key_is_a_pattern_between_slashes_or_where_its_entry_says_so(
    key: str, use_regex: bool, text: str, found: bool
) -> None:
    assert (shown(look(entry("1", key, use_regex=use_regex), said=(text,))) == ["1"]) is found


@pytest.mark.parametrize(
    "key", ["/[/", "/(?<!a+)(/", "/(" + "(" * 600 + "/", "/\\p{Nowhere}/", "/" + "a" * 2_050 + "/"]
)
def test_a_wrong_pattern_never_matches_and_is_told(key: str) -> None:
    lore = look(entry("1", key, "灯塔"), entry("2", key), said=("[(aaa 灯塔",))
    assert shown(lore) == ["1"]
    told = [hit for hit in lore.hits if hit.left_out == "pattern_wrong"]
    assert [(hit.entry, hit.key, hit.shown) for hit in told] == [("1", key, False), ("2", key, False)]


def test_a_pattern_that_takes_too_long_never_matches_and_is_told() -> None:
    lore = look(entry("1", "/(a+)+$/"), entry("2", "灯塔"), said=("a" * 5_000 + "! 灯塔",))
    assert shown(lore) == ["2"]
    assert [(hit.entry, hit.why, hit.left_out) for hit in lore.hits] == [
        ("2", "key", ""),
        ("1", "pattern", "pattern_slow"),
    ]


def test_a_slow_pattern_among_secondary_keys_is_told_too() -> None:
    one = entry("1", "灯塔", secondary_keys=("/(b+)+$/",), selective=True)
    lore = look(one, said=("b" * 5_000 + "! 灯塔",))
    assert shown(lore) == []
    assert [(hit.key, hit.left_out) for hit in lore.hits] == [("/(b+)+$/", "pattern_slow")]


# --- constant entries, dice, delays


def test_a_constant_entry_needs_no_key() -> None:
    lore = look(entry("1", constant=True), said=())
    assert [(hit.entry, hit.why) for hit in lore.hits] == [("1", "constant")]


def test_the_die_of_an_entry_falls_the_same_for_whoever_looks_at_a_turn() -> None:
    one = entry("1", "灯塔", probability=30)
    thrown = [bool(shown(look(one, turn=turn))) for turn in range(1, 401)]
    assert thrown == [bool(shown(look(one, turn=turn))) for turn in range(1, 401)]
    assert 60 < sum(thrown) < 180
    assert not shown(look(replace(one, probability=0)))


def test_an_entry_may_wait_for_so_many_messages() -> None:
    one = entry("1", "灯塔", delay=3)
    assert shown(look(one, said=("一", "灯塔"))) == []
    assert shown(look(one, said=("一", "二", "灯塔"))) == ["1"]


# --- groups


def test_of_a_group_one_entry_stands_and_the_others_are_told() -> None:
    entries = [
        entry(name, "灯塔", groups=("塔",), group_weight=weight)
        for name, weight in (("a", 1), ("b", 9), ("c", 0))
    ]
    drawn = [shown(look(*entries, turn=turn)) for turn in range(200)]
    assert drawn == [shown(look(*entries, turn=turn)) for turn in range(200)]
    assert all(len(found) == 1 for found in drawn)
    assert 100 < drawn.count(["b"]) < 200
    assert drawn.count(["c"]) == 0
    assert [hit.left_out for hit in look(*entries).hits if not hit.shown] == ["group", "group"]


def test_the_highest_of_those_that_insist_wins_its_group() -> None:
    lore = look(
        entry("a", "灯塔", groups=("塔", "海"), order=9),
        entry("b", "灯塔", groups=("塔",), order=1, group_override=True),
        entry("c", "灯塔", groups=("塔",), order=2, group_override=True),
        entry("d", "灯塔"),
    )
    assert shown(lore) == ["c", "d"]


def test_a_group_that_has_its_entry_takes_no_other_in_a_later_round() -> None:
    lore = look(
        entry("1", "灯塔", groups=("g",), content="守夜人"),
        entry("2", "守夜人", groups=("g",), group_override=True),
    )
    assert shown(lore) == ["1"]
    assert lore.hits[1].fields()["left_out"] == "group"


# --- entries that call up others


def test_what_entered_calls_up_others_and_the_hit_names_the_caller() -> None:
    lore = look(
        entry("灯", "灯塔", content="守夜人住在这里。"),
        entry("人", "守夜人", content="他养了一只猫。"),
        entry("猫", "猫", content="猫叫阿黄。"),
    )
    assert shown(lore) == ["灯", "人", "猫"]
    assert [(hit.why, hit.caller) for hit in lore.hits] == [
        ("key", None),
        ("recursion", "灯"),
        ("recursion", "人"),
    ]


def test_the_book_then_the_setting_says_whether_entries_call_up_others() -> None:
    pair = (entry("1", "灯塔", content="守夜人"), entry("2", "守夜人"))
    still = replace(MODULE, recursive=False)
    assert shown(look(*pair, module=still)) == ["1"]
    assert shown(look(*pair, module=still, recursive=True)) == ["1", "2"]
    assert shown(look(*pair, recursive=False)) == ["1"]


def test_entries_may_neither_call_nor_be_called() -> None:
    caller, called = entry("1", "灯塔", content="守夜人"), entry("2", "守夜人")
    assert shown(look(replace(caller, prevent_recursion=True), called)) == ["1"]
    assert shown(look(caller, replace(called, exclude_recursion=True))) == ["1"]
    assert shown(look(caller, replace(called, exclude_recursion=True), said=("灯塔和守夜人",))) == ["1", "2"]


def test_an_entry_may_wait_until_others_call_even_if_its_key_was_said() -> None:
    late = entry("2", "灯塔", delay_until_recursion=1)
    assert shown(look(late)) == []
    assert shown(look(entry("1", "海", content="无"), late)) == ["1", "2"]
    assert shown(look(entry("1", "海", prevent_recursion=True), late)) == ["1"]


def test_later_levels_of_waiting_come_after_earlier_ones() -> None:
    lore = look(
        entry("1", "灯塔", content="甲"),
        entry("2", "乙", delay_until_recursion=2, content="丙"),
        entry("3", "甲", delay_until_recursion=1, content="乙"),
    )
    assert [(hit.entry, hit.caller) for hit in lore.hits] == [("1", None), ("2", "3"), ("3", "1")]


def test_entries_that_call_each_other_in_a_circle_enter_once() -> None:
    lore = look(entry("1", "灯塔", "乙", content="甲"), entry("2", "甲", content="乙 灯塔"))
    assert shown(lore) == ["1", "2"]


def test_a_chain_of_calls_has_an_end() -> None:
    chain = [entry(f"{at}", f"k{at:03}", content=f"k{at + 1:03}") for at in range(100)]
    assert shown(look(*chain, said=("k000",))) == [f"{at}" for at in range(9)]


def test_only_so_much_of_what_entered_is_searched_for_keys() -> None:
    room = replace(MODULE, max_tokens=100_000)
    long = [entry(f"{at}", "灯塔", content=f"{at}{'。' * 90_000}钥匙{at}", order=-at) for at in range(3)]
    doors = [entry(f"门{at}", f"钥匙{at}") for at in range(3)]
    lore = activate(
        [Lorebook("世界", (*long, *doors))], ["灯塔"], module=room, count=lambda _: 1, turn=1, fill=NAMES.fill
    )
    assert {"门0", "门1"} <= set(shown(lore))
    assert "门2" not in shown(lore)


def test_a_hidden_key_calls_but_does_not_stand_in_the_prompt() -> None:
    lore = look(entry("1", "灯塔", content="塔下。{{hidden_key:暗门}}"), entry("2", "暗门", content="门后。"))
    assert lore.before == "塔下。\n门后。"


def test_one_book_calls_up_entries_of_another() -> None:
    books = [Lorebook("甲", (entry("1", "灯塔", content="守夜人"),)), Lorebook("乙", (entry("1", "守夜人"),))]
    lore = activate(books, ["灯塔"], module=MODULE, count=len, turn=1, fill=NAMES.fill)
    assert [(hit.book, hit.why) for hit in lore.hits] == [("甲", "key"), ("乙", "recursion")]


# --- where they stand


def test_entries_stand_by_their_order_then_as_in_the_file_on_their_side_of_the_character() -> None:
    lore = look(
        entry("d", constant=True, order=5, position="after_char"),
        entry("c", constant=True, order=20),
        entry("a", constant=True, order=-1),
        entry("b", constant=True, order=20),
    )
    assert (lore.before, lore.after) == ("<a>\n<c>\n<b>", "<d>")


def test_placeholders_in_an_entry_are_filled() -> None:
    lore = look(entry("1", constant=True, content="{{user}}认识{{char}}。{{// 别说}}"))
    assert lore.before == "小明认识艾莉。"


def test_the_same_text_enters_once_though_two_books_have_it() -> None:
    one = entry("1", "灯塔", content="灯塔很高。")
    books = [Lorebook("甲", (one,)), Lorebook("乙", (replace(one, content="\n灯塔很高。 "),))]
    lore = activate(books, ["灯塔"], module=MODULE, count=len, turn=1, fill=NAMES.fill)
    assert lore.before == "灯塔很高。"
    assert [(hit.book, hit.left_out) for hit in lore.hits] == [("甲", ""), ("乙", "duplicate")]


def test_an_entry_without_text_stands_nowhere() -> None:
    lore = look(LoreEntry("1", " \n", ("灯塔",)))
    assert (lore.before, lore.after, lore.hits[0].left_out) == ("", "", "empty")


# --- budgets


def test_the_lowest_priority_goes_first_and_constant_entries_last() -> None:
    entries = (
        entry("a", "灯塔", content="a" * 9, priority=5),
        entry("b", "灯塔", content="b" * 9, priority=1),
        entry("c", "灯塔", content="c" * 9, priority=9),
        entry("d", content="d" * 9, priority=0, constant=True),
    )
    for room, left in ((40, "abcd"), (30, "acd"), (20, "cd"), (10, "d"), (9, "")):
        lore = look(*entries, module=replace(MODULE, max_tokens=room))
        assert "".join(shown(lore)) == left
        assert {hit.left_out for hit in lore.hits if not hit.shown} <= {"budget"}


def test_without_a_priority_the_lower_order_goes_first() -> None:
    entries = (entry("a", "灯塔", order=1), entry("b", "灯塔", order=3), entry("c", "灯塔", order=2))
    assert shown(look(*entries, module=replace(MODULE, max_tokens=8))) == ["c", "b"]


def test_a_book_keeps_to_its_own_budget_and_leaves_the_rest_to_others() -> None:
    small = Lorebook("小", (entry("a", constant=True), entry("b", constant=True)), token_budget=4)
    large = Lorebook("大", (entry("c", constant=True), entry("d", constant=True)))
    lore = activate([small, large], [], module=MODULE, count=len, turn=1, fill=NAMES.fill)
    assert shown(lore) == ["a", "c", "d"]
    assert [(hit.entry, hit.left_out) for hit in lore.hits if not hit.shown] == [("b", "book_budget")]


def test_an_entry_is_in_whole_or_not_at_all_and_a_smaller_one_may_still_fit() -> None:
    lore = look(
        entry("long", "灯塔", content="长" * 50, priority=9),
        entry("short", "灯塔", content="短" * 5, priority=1),
        module=replace(MODULE, max_tokens=20),
    )
    assert lore.before == "短短短短短"


def test_what_was_left_out_calls_up_nothing() -> None:
    lore = look(
        entry("1", "灯塔", content="守夜人" * 20), entry("2", "守夜人"), module=replace(MODULE, max_tokens=20)
    )
    assert [(hit.entry, hit.shown) for hit in lore.hits] == [("1", False)]


def test_tokens_of_an_entry_are_counted_once() -> None:
    asked: list[str] = []

    def count(text: str) -> int:
        asked.append(text)
        return 1

    books = [Lorebook("世界", (entry("1", "灯塔"), entry("2", "城堡")))]
    for turn in range(3):
        activate(books, ["灯塔"], module=MODULE, count=count, turn=turn, fill=NAMES.fill)
    assert asked == ["<1>\n"]


# --- decorators


def decorated(lines: str, *keys: str, **rest: Any) -> LoreEntry:
    """Make an entry with decorators before its text."""
    return LoreEntry("1", f"{lines}\n\n正文", keys or ("灯塔",), **rest)


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("@@depth 4", True),
        ("@@role user", True),
        ("@@no_such_thing 5\n@@@nor_this 6", True),
        ("@@dont_activate", False),
        ("@@dont_activate\n@@activate", True),
        ("@@activate_only_after 2", True),
        ("@@activate_only_after 3", False),
        ("@@activate_only_every 2", True),
        ("@@activate_only_every 3", False),
        ("@@activate_only_every 0", True),
        ("@@additional_keys 风,雨", True),
        ("@@additional_keys 风\n@@additional_keys 雪", False),
        ("@@exclude_keys 雨, 雪", False),
        ("@@exclude_keys 雪", True),
        ("@@scan_depth 1", True),
        ("@@scan_depth 0", False),
        ("@@scan_depth much\n@@@dont_activate", False),
        ("@@unknown\n@@@also_unknown\n@@@dont_activate", False),
        ("@@depth 3\n@@@dont_activate", True),
        ("@@is_greeting 1", True),
        ("@@is_greeting 0", False),
        ("\n@@activate_only_after 1\n\n@@activate_only_after 99", True),
    ],
)
def test_decorators_decide_and_never_stand_in_the_prompt(lines: str, found: bool) -> None:
    said = ("嗯", "风雨", "走吧", "好", "到灯塔了")
    lore = look(decorated(lines), said=said, turn=3, greeting=1)
    assert (lore.before + lore.after == "正文") is found
    assert "@" not in lore.before + lore.after


def test_an_activated_entry_needs_no_key_and_says_so() -> None:
    assert [hit.why for hit in look(decorated("@@activate", "城堡")).hits] == ["decorator"]


def test_a_constant_entry_obeys_its_decorators() -> None:
    assert look(decorated("@@activate_only_after 3", constant=True), turn=1) == Lore()
    assert look(decorated("@@dont_activate", constant=True)) == Lore()


@pytest.mark.parametrize(
    ("lines", "side"),
    [
        ("@@position before_desc", "before_char"),
        ("@@position after_desc", "after_char"),
        ("@@depth 1", "after_char"),
        ("@@depth 100", "before_char"),
        ("@@depth 100\n@@position after_desc", "after_char"),
        ("@@position nowhere", "before_char"),
    ],
)
def test_a_decorator_may_say_where_an_entry_stands(lines: str, side: str) -> None:
    assert look(decorated(lines)).hits[0].position == side


def test_an_entry_may_stay_once_it_was_called() -> None:
    said = ("灯塔", "嗯", "二", "嗯", "三", "嗯", "四")
    assert shown(look(decorated(""), said=said)) == []
    lore = look(decorated("@@keep_activate_after_match"), said=said)
    assert [(hit.why, hit.key, hit.ago) for hit in lore.hits] == [("kept", "灯塔", 6)]
    assert shown(look(decorated("@@keep_activate_after_match"), said=said[1:])) == []


def test_an_entry_may_be_called_in_one_turn_only() -> None:
    once = decorated("@@dont_activate_after_match")
    assert shown(look(once, said=("一", "嗯", "灯塔"))) == ["1"]
    assert shown(look(once, said=("一", "嗯", "灯塔", "嗯", "二"))) == []
    assert shown(look(once, said=("一", "嗯", "灯塔", "嗯", "灯塔"))) == []


def test_what_wishes_to_yield_yields_first_even_if_it_is_constant() -> None:
    yielding = decorated("@@ignore_on_max_context", constant=True, priority=99)
    lore = look(yielding, entry("2", "灯塔"), module=replace(MODULE, max_tokens=5))
    assert shown(lore) == ["2"]


def test_a_note_before_a_decorator_does_not_let_it_through() -> None:
    lore = look(LoreEntry("1", "{{// 注}}@@depth 4\n正文", constant=True))
    assert lore.before == "正文"


def test_a_text_that_is_all_decorators_is_empty() -> None:
    assert look(LoreEntry("1", "@@depth 4\n@@@role user", ("灯塔",))).hits[0].left_out == "empty"
