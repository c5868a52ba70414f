"""How much work lorebooks may make: large ones, long sessions, and those that mean harm."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from personalab.archive.books import read_book
from personalab.config import LoreModule
from personalab.story.lore import Lore, Lorebook, LoreEntry, activate
from personalab.story.lore_index import KeyIndex
from personalab.story.lore_matching import Allowance, SearchText
from personalab.story.lore_scan import MAX_SAID, LoreQuery, LoreScan
from personalab.story.macros import Names

MODULE = LoreModule(enabled=True, scan_depth=4, max_tokens=1_000, recursive=True)


NAMES = Names("艾莉", "小明")


def look(book: Lorebook, *said: str, fill: Callable[[str], str] = NAMES.fill) -> Lore:
    """Look into a book."""
    return activate([book], said, module=MODULE, count=len, turn=1, fill=fill)


def work(done: Callable[[], object]) -> int:
    """Count the calls that something makes."""
    calls = 0

    def count(_frame: FrameType, _event: str, _argument: Any) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        done()
    finally:
        sys.setprofile(None)
    return calls


def test_keys_with_placeholders_are_filled_once_for_the_same_names() -> None:
    filled: list[str] = []

    class Told(Names):
        def fill(self, text: str) -> str:
            filled.append(text)
            return super().fill(text)

    keys = LoreEntry("1", "剑", ("{{user}}的剑", "{{char}}的剑"))
    book = Lorebook("b", (keys, LoreEntry("2", "说起小明的剑", (), constant=True)))
    for _ in range(3):
        assert len(look(book, "走吧", fill=Told("艾莉", "小明").fill).hits) == 2
    assert sum("{{" in text for text in filled) == 2
    assert len(look(book, "走吧", fill=Told("艾莉", "小红").fill).hits) == 1


def test_entries_that_call_others_do_not_ask_each_key_with_a_placeholder() -> None:
    callers = [LoreEntry(f"c{at}", f"w{at}", (), constant=True) for at in range(50)]
    keys = [LoreEntry(f"{at}", "x", tuple(f"{{{{user}}}}z{at}_{n}" for n in range(5))) for at in range(200)]
    book = Lorebook("b", (*callers, *keys))
    look(book, "hello")
    assert work(lambda: look(book, "hello")) < 10_000


def test_secondary_keys_are_not_looked_for_message_by_message() -> None:
    entries = [
        LoreEntry(
            f"{at}", "x", ("a",), tuple(f"q{at}_{n}" for n in range(4)), selective=True, scan_depth=1_000
        )
        for at in range(100)
    ]
    said = [f"a message {at}" for at in range(200)]
    book = Lorebook("b", tuple(entries))
    assert work(lambda: look(book, *said)) < 80_000


def test_a_whole_word_is_asked_once_and_not_place_by_place() -> None:
    entries = tuple(LoreEntry(f"{at}", f"{at}", ("aa",), whole_words=True) for at in range(20))
    assert work(lambda: look(Lorebook("b", entries), "a" * 20_000)) < 5_000
    assert len(look(Lorebook("b", entries), "a" * 20_000 + " aa").hits) == 20


def test_keys_that_begin_alike_are_told_apart_by_their_ends() -> None:
    index = KeyIndex()
    for at in range(5_000):
        index.ask("a" * 40 + str(at), (False, False, False))
    index.close()
    assert work(lambda: index.plain_in(SearchText("a" * 1_000), Allowance())) < 100
    assert len(index.plain_in(SearchText("a" * 40 + "4999"), Allowance()).numbers) == 4


def test_a_search_without_time_ends_and_says_so() -> None:
    book = Lorebook("b", (LoreEntry("1", "x", ("灯塔",)), LoreEntry("2", "y", (), constant=True)))
    at = LoreQuery(["灯塔"], MODULE, 1, str, None)
    scan = LoreScan([book], at, Allowance(search=0.0))
    assert [called.one.entry.entry_id for called in scan.first()] == ["2"]
    assert scan.unfinished == [0]
    whole = LoreScan([book], at)
    assert len(whole.first()) == 2
    assert whole.unfinished == []


def test_what_was_found_without_time_is_not_remembered() -> None:
    index = KeyIndex()
    number = index.ask("灯塔", (False, False, False))
    index.close()
    with Allowance(search=0.0) as over:
        assert not index.plain_in(SearchText("灯塔"), over).is_whole
    assert index.plain_in(SearchText("灯塔"), Allowance()).numbers == (number,)


def test_only_so_much_of_what_was_said_is_searched_and_the_rest_is_told() -> None:
    book = Lorebook("世界", (LoreEntry("1", "x", ("灯塔",)), LoreEntry("2", "y", ("海",))))
    lore = look(book, "灯塔", "海" + "。" * MAX_SAID)
    assert [hit.entry for hit in lore.hits if hit.shown] == ["2"]
    assert lore.hits[-1].fields() == {
        "book": "世界",
        "entry": "",
        "name": "世界",
        "position": "before_char",
        "order": 0,
        "tokens": 0,
        "why": "search",
        "shown": False,
        "left_out": "search_slow",
    }
    assert len(look(book, "灯塔", "海").hits) == 2


def test_patterns_there_is_no_time_for_are_not_tried_one_by_one() -> None:
    entries = [
        LoreEntry(f"{at}", "x", ("a",), (f"/b{at}|c/",), selective=True, scan_depth=1_000)
        for at in range(200)
    ]
    book = Lorebook("b", tuple(entries))
    at = LoreQuery([f"a {n}" for n in range(500)], MODULE, 1, str, None)
    scan = LoreScan([book], at, Allowance(patterns=0.0))
    assert work(lambda: scan.first()) < 100_000
    assert {bad.reason for bad in scan.bad_keys} == {"pattern_slow"}


def test_a_slow_message_does_not_switch_a_pattern_off_for_other_books() -> None:
    slow = "a" * 5_000 + "!"
    one = Lorebook("one", (LoreEntry("1", "x", ("/(a+)+$/i",)),))
    for _ in range(4):
        assert [hit.left_out for hit in look(one, slow).hits] == ["pattern_slow"]
    assert [hit.shown for hit in look(one, "aaa").hits] == [True]
    assert [hit.shown for hit in look(Lorebook("two", one.entries), "aaa").hits] == [True]


def test_entries_too_long_for_any_room_are_neither_filled_nor_counted() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    entries = tuple(LoreEntry(f"{at}", "<BOT>" * 100_000 + str(at), (), constant=True) for at in range(30))
    book = Lorebook("b", (*entries, LoreEntry("small", "y", (), constant=True, order=999)))
    filled: list[str] = []

    def fill(text: str) -> str:
        filled.append(text)
        return text

    lore = activate([book], ["a"], module=MODULE, count=count, turn=1, fill=fill)
    assert [hit.entry for hit in lore.hits if hit.shown] == ["small"]
    assert counted == ["y\n"]
    assert len(filled) < 6


def test_decorators_name_only_so_many_keys() -> None:
    entry = {"keys": ["a"], "content": "@@additional_keys a\n" * 1_000 + "text", "enabled": True}
    book = read_book({"entries": [entry]}, "b")
    assert len(book.prepared[0].decorators.additional_keys) == 200
    assert book.prepared[0].text == "text"
