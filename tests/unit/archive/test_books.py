"""Lorebooks of strangers: three shapes, read leniently, and turned into each other without loss."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.archive.books import MAX_ENTRIES, BookShape, book_as, read_book, shape_of
from personalab.archive.foreign_files import load_json
from personalab.config import LoreModule
from personalab.errors import BadRecord
from personalab.story.lore import Lorebook, LoreEntry, activate

CARD_ENTRY: dict[str, Any] = {
    "id": 7,
    "keys": ["灯塔", "lighthouse"],
    "secondary_keys": ["海"],
    "comment": "塔",
    "name": "The tower",
    "content": "灯塔很高。",
    "constant": False,
    "selective": True,
    "insertion_order": 40,
    "enabled": True,
    "position": "before_char",
    "priority": 3,
    "case_sensitive": True,
    "extensions": {"depth": 2, "selectiveLogic": 3, "agnai": {"x": [1]}},
    "unknown": {"kept": True},
}
CARD_BOOK: dict[str, Any] = {
    "name": "海",
    "description": "海边",
    "scan_depth": 6,
    "token_budget": 300,
    "recursive_scanning": False,
    "extensions": {"mine": 1},
    "entries": [CARD_ENTRY],
    "later": "field",
}
WORLD_ENTRY: dict[str, Any] = {
    "uid": 4,
    "key": ["灯塔", "/tower/i"],
    "keysecondary": ["海"],
    "comment": "塔",
    "content": "灯塔很高。",
    "constant": False,
    "vectorized": False,
    "selective": True,
    "selectiveLogic": 2,
    "addMemo": True,
    "order": 40,
    "position": 4,
    "disable": False,
    "excludeRecursion": True,
    "preventRecursion": True,
    "delayUntilRecursion": 2,
    "probability": 60,
    "useProbability": True,
    "depth": 4,
    "group": "g",
    "groupOverride": False,
    "groupWeight": 100,
    "scanDepth": 3,
    "caseSensitive": True,
    "matchWholeWords": True,
    "useGroupScoring": None,
    "automationId": "",
    "role": 0,
    "sticky": 2,
    "cooldown": None,
    "delay": 5,
    "displayIndex": 0,
    "characterFilter": {"isExclude": False, "names": ["艾莉"], "tags": []},
}
WORLD_INFO: dict[str, Any] = {"entries": {"4": WORLD_ENTRY}, "originalData": {"entries": []}}
SHAPES: tuple[BookShape, ...] = ("character_book", "lorebook_v3", "world_info")


def _entry(**fields: Any) -> LoreEntry:
    return read_book({"entries": [{"keys": ["k"], "content": "c", **fields}]}, "b").entries[0]


def _meaning(book: Lorebook) -> Lorebook:
    """Take away what shapes call differently: the ids and titles of entries."""
    return replace(book, entries=tuple(replace(entry, entry_id="", name="") for entry in book.entries))


# --- reading


def test_the_book_of_a_card_is_read() -> None:
    book = read_book(CARD_BOOK, "file")
    assert (book.name, book.scan_depth, book.token_budget, book.recursive) == ("海", 6, 300, False)
    assert book.entries == (
        LoreEntry(
            "7",
            "灯塔很高。",
            ("灯塔", "lighthouse"),
            ("海",),
            "The tower",
            selective=True,
            logic="and_all",
            order=40,
            priority=3,
            case_sensitive=True,
        ),
    )


def test_a_book_that_stands_alone_is_read() -> None:
    book = read_book({"spec": "lorebook_v3", "data": {**CARD_BOOK, "name": None}}, "file")
    assert (book.name, book.entries) == ("file", read_book(CARD_BOOK, "").entries)


def test_a_world_info_is_read() -> None:
    book = read_book(WORLD_INFO, "灯塔之书")
    assert (book.name, book.scan_depth, book.token_budget, book.recursive) == ("灯塔之书", None, None, None)
    assert book.entries == (
        LoreEntry(
            "4",
            "灯塔很高。",
            ("灯塔", "/tower/i"),
            ("海",),
            "塔",
            selective=True,
            logic="not_any",
            order=40,
            position="after_char",
            case_sensitive=True,
            whole_words=True,
            scan_depth=3,
            probability=60,
            groups=("g",),
            exclude_recursion=True,
            prevent_recursion=True,
            delay_until_recursion=2,
            delay=5,
        ),
    )


def test_what_is_missing_or_null_is_as_if_nothing_was_said() -> None:
    nulls = dict.fromkeys(
        ("id", "secondary_keys", "comment", "name", "constant", "selective", "insertion_order", "enabled",
         "position", "priority", "case_sensitive", "use_regex", "extensions", "content"),
    )  # fmt: skip
    bare = LoreEntry("0", "", ("k",), position="after_char")
    assert read_book({"entries": [{"keys": ["k"]}]}, "b").entries == (bare,)
    assert read_book({"entries": [{"keys": ["k"], **nulls}]}, "b").entries == (bare,)
    assert read_book({"entries": {"5": {"key": ["k"]}}}, "b").entries == (
        LoreEntry("5", "", ("k",), position="before_char"),
    )
    assert read_book({}, "b").entries == read_book({"entries": None}, "b").entries == ()


@pytest.mark.parametrize(
    ("field", "written", "name", "read"),
    [
        ("insertion_order", "25", "order", 25),
        ("insertion_order", 2.5, "order", 2.5),
        ("priority", " 7 ", "priority", 7),
        ("enabled", "false", "enabled", False),
        ("enabled", 0, "enabled", False),
        ("constant", "True", "constant", True),
        ("keys", "灯塔, 塔，lamp,,", "keys", ("灯塔", "塔", "lamp")),
        ("keys", ["a", None, 1984, "  "], "keys", ("a", "1984")),
        ("id", "abc", "entry_id", "abc"),
        ("id", 12, "entry_id", "12"),
        ("position", 0, "position", "before_char"),
        ("position", "at_depth", "position", "after_char"),
        ("extensions", {"position": 0}, "position", "before_char"),
        ("extensions", {"position": 6}, "position", "after_char"),
        ("extensions", {"case_sensitive": True}, "case_sensitive", True),
        ("extensions", {"match_whole_words": True}, "whole_words", True),
        ("extensions", {"scan_depth": "2"}, "scan_depth", 2),
        ("extensions", {"scan_depth": -1}, "scan_depth", None),
        ("extensions", {"probability": 250}, "probability", 100),
        ("extensions", {"probability": 30}, "probability", 30),
        ("extensions", {"probability": 30, "useProbability": False}, "probability", 100),
        ("extensions", {"delay_until_recursion": True}, "delay_until_recursion", 1),
        ("extensions", {"selectiveLogic": "1"}, "logic", "not_all"),
        ("extensions", {"selectiveLogic": 77}, "logic", "and_any"),
        ("extensions", [], "extensions", None),
        ("selectiveLogic", 3, "logic", "and_all"),
    ],
)
def test_values_are_read_as_programs_write_them(field: str, written: Any, name: str, read: Any) -> None:
    assert getattr(_entry(**{field: written}), name, None) == read


def test_keys_are_patterns_where_their_author_said_so_and_sillytavern_did_not() -> None:
    assert _entry(use_regex=True).use_regex
    assert _entry(use_regex=True, extensions={"agnai": 1}).use_regex
    assert not _entry(use_regex=True, extensions={"selectiveLogic": 0, "display_index": 1}).use_regex
    assert not _entry(use_regex=False).use_regex


WRONG: list[tuple[Any, str]] = [
    ([], "lorebook"),
    ("text", "lorebook"),
    ({"entries": 3}, "entries"),
    ({"entries": ["x"]}, "entries[0]"),
    ({"entries": [{}, {"keys": 5}]}, "entries[1].keys"),
    ({"entries": [{"keys": [["deep"]]}]}, "entries[0].keys"),
    ({"entries": [{"keys": [True]}]}, "entries[0].keys"),
    ({"entries": [{"content": 5}]}, "entries[0].content"),
    ({"entries": [{"insertion_order": "first"}]}, "entries[0].insertion_order"),
    ({"entries": [{"insertion_order": 1e999}]}, "entries[0].insertion_order"),
    ({"entries": [{"insertion_order": 10**400}]}, "entries[0].insertion_order"),
    ({"entries": [{"priority": {}}]}, "entries[0].priority"),
    ({"entries": [{"enabled": "perhaps"}]}, "entries[0].enabled"),
    ({"entries": [{"extensions": {"scan_depth": []}}]}, "entries[0].extensions.scan_depth"),
    ({"entries": {"9": {"key": {}}}}, "entries.9.key"),
    ({"entries": {"9": None}}, "entries.9"),
    ({"spec": "lorebook_v3", "data": {"entries": [{"keys": 1}]}}, "data.entries[0].keys"),
    ({"entries": [], "scan_depth": "deep"}, "scan_depth"),
    ({"entries": [{}] * (MAX_ENTRIES + 1)}, "entries"),
    ({"entries": [{"keys": ["k"] * 1_001}]}, "entries[0].keys"),
    ({"entries": [{"keys": ["k" * 3_000]}]}, "entries[0].keys"),
    ({"entries": [{"keys": ["k"] * 900}] * 120}, "entries"),
    ({"entries": [{"content": "x" * 1_000_001}]}, "entries[0].content"),
]


@pytest.mark.parametrize(("book", "field"), WRONG, ids=[f"{at}" for at in range(len(WRONG))])
def test_a_field_that_cannot_be_used_is_named_in_both_languages(book: Any, field: str) -> None:
    with pytest.raises(BadRecord) as raised:
        read_book(book, "b")
    assert raised.value.params["field"] == field
    assert not re.search(
        "[a-z]{3}",
        raised.value.message("zh").replace(field, "").replace("true 或 false", "").replace("JSON", ""),
    )


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "entries",
                        "data",
                        "keys",
                        "key",
                        "content",
                        "extensions",
                        "position",
                        "uid",
                        "probability",
                    ]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=30,
    )
)
def test_whatever_a_stranger_sends_is_read_or_refused(data: Any) -> None:
    try:
        book = read_book(data, "b")
    except BadRecord:
        return
    activate([book], ["hello"], module=LoreModule(True), count=len, turn=1, fill=str)
    for shape in SHAPES:
        assert shape_of(book_as(data, shape, "b")) == shape


def test_a_book_that_nests_too_deeply_is_refused_before_it_is_read() -> None:
    raw = b'{"entries":' + b"[" * 90 + b"]" * 90 + b"}"
    with pytest.raises(BadRecord, match="nested"):
        load_json(raw)


# --- one shape as another


def test_a_book_of_the_wished_shape_stays_as_it_is() -> None:
    for book in (CARD_BOOK, WORLD_INFO, {"spec": "lorebook_v3", "data": CARD_BOOK, "more": 1}):
        same = book_as(book, shape_of(book), "other")
        assert same == book
        assert same is not book


def test_what_is_turned_is_a_copy() -> None:
    before = json.dumps([CARD_BOOK, WORLD_INFO], sort_keys=True)
    for shape in SHAPES:
        book_as(CARD_BOOK, shape, "x")
        book_as(WORLD_INFO, shape, "x")
    assert json.dumps([CARD_BOOK, WORLD_INFO], sort_keys=True) == before


def test_a_cards_book_becomes_a_world_info_as_sillytavern_makes_it() -> None:
    found = book_as(CARD_BOOK, "world_info", "x")
    assert list(found["entries"]) == ["7"]
    row = found["entries"]["7"]
    assert {name: row[name] for name in ("uid", "key", "keysecondary", "comment", "content", "order")} == {
        "uid": 7,
        "key": ["灯塔", "lighthouse"],
        "keysecondary": ["海"],
        "comment": "塔",
        "content": "灯塔很高。",
        "order": 40,
    }
    assert (row["disable"], row["position"], row["depth"], row["selectiveLogic"]) == (False, 0, 2, 3)
    assert (row["probability"], row["useProbability"], row["caseSensitive"]) == (100, True, True)
    assert row["personalab"]["entry"]["unknown"] == {"kept": True}


def test_a_world_info_becomes_a_cards_book_as_sillytavern_makes_it() -> None:
    found = book_as(WORLD_INFO, "character_book", "灯塔之书")
    [entry] = found["entries"]
    assert found["name"] == "灯塔之书"
    assert {name: entry[name] for name in ("id", "keys", "secondary_keys", "insertion_order", "enabled")} == {
        "id": 4,
        "keys": ["灯塔", "/tower/i"],
        "secondary_keys": ["海"],
        "insertion_order": 40,
        "enabled": True,
    }
    assert (entry["position"], entry["extensions"]["position"]) == ("after_char", 4)
    assert entry["extensions"]["delay_until_recursion"] == 2
    assert entry["extensions"]["scan_depth"] == 3
    assert entry["extensions"]["personalab"]["world_info"]["characterFilter"]["names"] == ["艾莉"]


def test_a_cards_book_comes_back_from_a_world_info_with_all_it_had() -> None:
    back = book_as(book_as(CARD_BOOK, "world_info", "x"), "character_book", "x")
    [entry] = back.pop("entries")
    assert back == {name: value for name, value in CARD_BOOK.items() if name != "entries"}
    extensions = entry.pop("extensions")
    assert {name: entry[name] for name in CARD_ENTRY if name != "extensions"} == {
        name: value for name, value in CARD_ENTRY.items() if name != "extensions"
    }
    assert CARD_ENTRY["extensions"].items() <= extensions.items()


def test_a_world_info_comes_back_from_a_cards_book_with_all_it_had() -> None:
    back = book_as(book_as(WORLD_INFO, "character_book", "x"), "world_info", "x")
    assert back.pop("name") == "x"
    assert back == WORLD_INFO


def test_the_wrapping_of_v3_comes_back_with_all_it_had() -> None:
    whole: dict[str, Any] = {
        "spec": "lorebook_v3",
        "data": {**CARD_BOOK, "entries": []},
        "spec_version": "3.5",
    }
    inner = book_as(whole, "character_book", "x")
    assert inner["entries"] == []
    assert book_as(inner, "lorebook_v3", "x") == whole


def test_v3_demands_fields_that_older_books_lack() -> None:
    data = book_as({"entries": [{"keys": ["k"], "content": "c"}]}, "lorebook_v3", "世界")["data"]
    assert data["name"] == "世界"
    assert data["extensions"] == {}
    assert (data["entries"][0]["use_regex"], data["entries"][0]["extensions"]) == (False, {})


def test_entries_with_one_id_or_none_all_stay() -> None:
    entries = [{"keys": ["k"], "content": text, **named} for text, named in (
        ("a", {"id": 1}), ("b", {"id": 1}), ("c", {}), ("d", {"id": "one"}), ("e", {"id": -3}), ("f", {"id": 0})
    )]  # fmt: skip
    found = book_as({"entries": entries}, "world_info", "x")
    assert [row["content"] for row in found["entries"].values()] == list("abcdef")
    assert [row["uid"] for row in found["entries"].values()] == [int(uid) for uid in found["entries"]]
    back = book_as(found, "character_book", "x")
    assert [entry["id"] for entry in back["entries"]] == [1, 1, 3, "one", -3, 0]


@pytest.mark.parametrize("key", ["(灯|火)塔", "a/b.+", r"a\/b.+", "plain", "/x+/"])
def test_a_pattern_means_the_same_in_a_world_info(key: str) -> None:
    card = {
        "entries": [
            {"keys": [key], "content": "c", "use_regex": True, "selective": True, "secondary_keys": ["z"]}
        ]
    }
    world = book_as(card, "world_info", "x")
    for text in ("火塔", "A/b!!", "plain", "xx", "(灯|火)塔", "nothing"):
        for book in (world, book_as(world, "character_book", "x"), book_as(world, "lorebook_v3", "x")):
            assert _found(book, text) == _found(card, text)


def _found(data: Any, text: str) -> str:
    lore = activate([read_book(data, "x")], [text], module=LoreModule(True), count=len, turn=1, fill=str)
    return lore.before + lore.after


def _switch() -> st.SearchStrategy[Any]:
    return st.sampled_from([True, False, None, "true", 0])


CARD_ENTRIES = st.fixed_dictionaries(
    {
        "keys": st.lists(st.sampled_from(["灯塔", "a.b", "/x+/i", "", "K"]), max_size=3),
        "content": st.text(max_size=5),
    },
    optional={
        "id": st.integers(-2, 3) | st.text(max_size=2) | st.none(),
        "secondary_keys": st.lists(st.sampled_from(["海", "b"]), max_size=2) | st.none(),
        "comment": st.text(max_size=3) | st.none(),
        "name": st.text(max_size=3) | st.none(),
        "constant": _switch(),
        "selective": _switch(),
        "insertion_order": st.integers(-3, 3) | st.none() | st.just("5"),
        "enabled": _switch(),
        "position": st.sampled_from(["before_char", "after_char", None]),
        "priority": st.integers(0, 3) | st.none(),
        "case_sensitive": _switch(),
        "more": st.text(max_size=3),
        "extensions": st.fixed_dictionaries(
            {},
            optional={
                "position": st.integers(0, 6) | st.none(),
                "selectiveLogic": st.integers(0, 3) | st.none(),
                "probability": st.integers(0, 100) | st.none(),
                "useProbability": _switch(),
                "scan_depth": st.integers(0, 5) | st.none(),
                "case_sensitive": _switch(),
                "match_whole_words": _switch(),
                "exclude_recursion": _switch(),
                "prevent_recursion": _switch(),
                "delay_until_recursion": st.integers(0, 2) | _switch(),
                "delay": st.integers(0, 3) | st.none(),
                "group": st.sampled_from(["", "g, h", None]),
                "group_override": _switch(),
                "group_weight": st.integers(0, 9) | st.none(),
                "other": st.text(max_size=3),
            },
        ),
    },
)
WORLD_ENTRIES = st.fixed_dictionaries(
    {
        "key": st.lists(st.sampled_from(["灯塔", "a.b", "/x+/i", "", "K"]), max_size=3),
        "content": st.text(max_size=5),
    },
    optional={
        "uid": st.integers(0, 3),
        "keysecondary": st.lists(st.sampled_from(["海", "b"]), max_size=2) | st.none(),
        "comment": st.text(max_size=3) | st.none(),
        "constant": _switch(),
        "selective": _switch(),
        "order": st.integers(-3, 3) | st.none(),
        "disable": _switch(),
        "position": st.integers(0, 6) | st.none(),
        "selectiveLogic": st.integers(0, 3) | st.none(),
        "probability": st.integers(0, 100) | st.none(),
        "useProbability": _switch(),
        "scanDepth": st.integers(0, 5) | st.none(),
        "caseSensitive": _switch(),
        "matchWholeWords": _switch(),
        "excludeRecursion": _switch(),
        "preventRecursion": _switch(),
        "delayUntilRecursion": st.integers(0, 2) | _switch(),
        "delay": st.integers(0, 3) | st.none(),
        "group": st.sampled_from(["", "g, h", None]),
        "groupOverride": _switch(),
        "groupWeight": st.integers(0, 9) | st.none(),
        "priority": st.integers(0, 3) | st.none(),
        "more": st.text(max_size=3),
    },
)
BOOK_FIELDS: dict[str, Any] = {
    "name": st.text(min_size=1, max_size=4),
    "scan_depth": st.integers(0, 5) | st.none(),
    "token_budget": st.integers(0, 50) | st.none(),
    "recursive_scanning": st.booleans() | st.none(),
    "extensions": st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    "more": st.text(max_size=3),
}
CARD_BOOKS = st.fixed_dictionaries({"entries": st.lists(CARD_ENTRIES, max_size=4)}, optional=BOOK_FIELDS)
WORLD_INFOS = st.fixed_dictionaries(
    {"entries": st.dictionaries(st.integers(0, 9).map(str), WORLD_ENTRIES, max_size=4)}, optional=BOOK_FIELDS
)
ANY_BOOK = (
    CARD_BOOKS | WORLD_INFOS | CARD_BOOKS.map(lambda book: {"spec": "lorebook_v3", "data": book, "by": "me"})
)


@given(ANY_BOOK, st.lists(st.sampled_from(SHAPES), min_size=1, max_size=4))
def test_a_book_means_the_same_in_every_shape_it_passes_through(
    book: dict[str, Any], way: list[BookShape]
) -> None:
    meant = _meaning(read_book(book, "b"))
    turned = book
    for shape in way:
        turned = book_as(turned, shape, "b")
        assert shape_of(turned) == shape
        assert _meaning(read_book(turned, "b")) == meant


@given(ANY_BOOK, st.sampled_from(SHAPES))
def test_nothing_an_author_wrote_is_lost_on_the_way_there_and_back(
    book: dict[str, Any], shape: BookShape
) -> None:
    back = book_as(book_as(book, shape, "b"), shape_of(book), "b")
    if shape_of(book) == "lorebook_v3":
        assert back["by"] == "me"
        book, back = book["data"], back["data"]
    assert {
        name: value for name, value in book.items() if name not in ("entries", "extensions")
    }.items() <= back.items()
    assert book.get("extensions", {}).items() <= back.get("extensions", {}).items()
    given_rows, back_rows = _rows(book), _rows(back)
    assert len(given_rows) == len(back_rows)
    for row, other in zip(given_rows, back_rows, strict=True):
        assert (row.get("more"), row["content"]) == (other.get("more"), other["content"])
        assert row.get("extensions", {}).get("other") == other.get("extensions", {}).get("other")


def _rows(book: dict[str, Any]) -> list[dict[str, Any]]:
    entries: Any = book["entries"]
    return list(entries.values() if shape_of(book) == "world_info" else entries)
