"""What holds of every lorebook and every conversation, whatever they are."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from personalab.config import LoreModule
from personalab.story.lore import Lore, Lorebook, LoreEntry, activate
from personalab.story.lore_entries import split_decorators
from personalab.story.lore_index import KeyIndex
from personalab.story.lore_matching import Allowance, PatternKey, SearchText, read_key, stands_alone

# Few letters, so that keys do occur; among them those whose folding changes their length.
LETTERS = "abAB灯塔İßſsıiﬁ🔥é "
WORDS = st.text(alphabet=LETTERS, min_size=0, max_size=4)
TEXTS = st.text(alphabet=LETTERS, min_size=0, max_size=30)
ENTRIES = st.builds(
    LoreEntry,
    entry_id=st.uuids().map(str),
    content=TEXTS,
    keys=st.lists(WORDS, max_size=3).map(tuple),
    secondary_keys=st.lists(WORDS, max_size=2).map(tuple),
    constant=st.booleans(),
    selective=st.booleans(),
    enabled=st.sampled_from([True, True, True, False]),
    logic=st.sampled_from(["and_any", "not_all", "not_any", "and_all"]),
    order=st.integers(-5, 5),
    priority=st.none() | st.integers(-5, 5),
    position=st.sampled_from(["before_char", "after_char"]),
    case_sensitive=st.booleans(),
    whole_words=st.booleans(),
    scan_depth=st.none() | st.integers(0, 5),
    probability=st.sampled_from([0, 50, 100, 100]),
    exclude_recursion=st.booleans(),
    prevent_recursion=st.booleans(),
    delay_until_recursion=st.sampled_from([0, 0, 0, 1, 2]),
    groups=st.sampled_from([(), (), (), ("g",), ("h", "g")]),
    group_override=st.booleans(),
    group_weight=st.integers(1, 3),
)
BOOKS = st.builds(
    Lorebook,
    name=st.just("book"),
    entries=st.lists(ENTRIES, max_size=8).map(tuple),
    scan_depth=st.none() | st.integers(0, 5),
    token_budget=st.none() | st.integers(0, 60),
    recursive=st.none() | st.booleans(),
)
MODULES = st.builds(
    LoreModule,
    enabled=st.just(True),
    scan_depth=st.integers(0, 5),
    max_tokens=st.integers(0, 100),
    recursive=st.booleans(),
)
SAID = st.lists(TEXTS, max_size=6)


def _look(books: list[Lorebook], said: list[str], module: LoreModule, turn: int = 3) -> Lore:
    patient = Allowance(search=600)
    return activate(
        books, said, module=module, count=len, turn=turn, fill=lambda text: text, allowance=patient
    )


@given(st.lists(BOOKS, max_size=2), SAID, MODULES)
def test_no_budget_is_ever_exceeded(books: list[Lorebook], said: list[str], module: LoreModule) -> None:
    books = [replace(book, name=str(number)) for number, book in enumerate(books)]
    lore = _look(books, said, module)
    assert len(lore.before) + len(lore.after) <= module.max_tokens
    for book in books:
        used = sum(len(hit.content) for hit in lore.hits if hit.shown and hit.book == book.name)
        assert book.token_budget is None or used <= book.token_budget


@given(st.lists(BOOKS, max_size=2), SAID, MODULES)
def test_what_is_shown_is_exactly_what_stands_there(
    books: list[Lorebook], said: list[str], module: LoreModule
) -> None:
    lore = _look(books, said, module)
    shown = [hit for hit in lore.hits if hit.shown]
    assert lore.before == "\n".join(hit.content for hit in shown if hit.position == "before_char")
    assert lore.after == "\n".join(hit.content for hit in shown if hit.position == "after_char")
    assert all(hit.content.strip() == hit.content != "" for hit in shown)
    assert len({hit.content for hit in shown}) == len(shown)
    for side in ("before_char", "after_char"):
        orders = [hit.order for hit in shown if hit.position == side]
        assert orders == sorted(orders)


@given(st.lists(BOOKS, max_size=2), SAID, MODULES, st.integers(0, 9))
def test_whoever_looks_at_a_turn_sees_the_same(
    books: list[Lorebook], said: list[str], module: LoreModule, turn: int
) -> None:
    fresh = [replace(book) for book in books]
    assert (
        _look(books, said, module, turn)
        == _look(fresh, said, module, turn)
        == _look(books, said, module, turn)
    )


@given(BOOKS, SAID, MODULES, st.randoms(use_true_random=False))
def test_the_order_of_the_file_matters_for_ties_alone(
    book: Lorebook, said: list[str], module: LoreModule, chance: random.Random
) -> None:
    # Neither ties nor texts that are there twice: nothing is left for the file's order to decide.
    entries = [
        replace(entry, order=place, priority=place, content=f"{entry.content}{chr(0x4E00 + place)}")
        for place, entry in enumerate(book.entries)
    ]
    shuffled = chance.sample(entries, len(entries))
    first = _look([replace(book, entries=tuple(entries))], said, module)
    second = _look([replace(book, entries=tuple(shuffled))], said, module)
    assert (first.before, first.after) == (second.before, second.after)


@given(BOOKS, SAID, MODULES)
def test_an_entry_nobody_calls_changes_nothing(book: Lorebook, said: list[str], module: LoreModule) -> None:
    stranger = LoreEntry("stranger", "never", ("谁也不会说",), priority=99)
    more = replace(book, entries=(*book.entries, stranger))
    assert _look([more], said, module) == _look([book], said, module)


# --- the search for many keys at once


def _naive(keys: list[tuple[str, bool]], text: str) -> set[int]:
    found: set[int] = set()
    for number, (key, case_sensitive) in enumerate(keys):
        word = key.strip()
        if word and (word in text if case_sensitive else word.casefold() in text.casefold()):
            found.add(number)
    return found


@given(
    st.lists(st.tuples(st.text(max_size=5) | WORDS, st.booleans()), max_size=12), st.text(max_size=40) | TEXTS
)
def test_searching_for_all_keys_at_once_finds_what_searching_for_each_finds(
    keys: list[tuple[str, bool]], text: str
) -> None:
    plain = [(key, case) for key, case in keys if not key.strip().startswith("/")]
    index = KeyIndex()
    for owner, (key, case) in enumerate(plain):
        if (number := index.ask(key, (case, False, False))) is not None:
            index.own(number, owner, key)
    index.close()
    for _ in range(2):
        found = index.plain_in(SearchText(text), Allowance())
        owners = {index.calls[place][0] for number in found.numbers for place in index.called[number]}
        assert owners == _naive(plain, text)


@given(st.lists(WORDS, min_size=1, max_size=6), st.lists(TEXTS, max_size=60).map("x".join))
def test_a_word_stands_alone_in_a_long_text_as_in_a_short_one(words: list[str], text: str) -> None:
    def is_latin(letter: str) -> bool:
        return letter in "_x" or letter in "abABİßſsıiéfn"

    for word in filter(None, (word.strip().casefold() for word in words)):
        heard = text.casefold()
        alone = False
        for at in range(len(heard) - len(word) + 1):
            before, after = heard[at - 1 : at] if at else "", heard[at + len(word) : at + len(word) + 1]
            if heard[at : at + len(word)] == word:
                alone |= not (
                    (before and is_latin(before) and is_latin(word[0]))
                    or (after and is_latin(after) and is_latin(word[-1]))
                )
        assert stands_alone(word, heard) is alone


@given(st.text(max_size=60), st.text(max_size=30))
def test_whatever_a_stranger_writes_as_a_pattern_does_no_harm(pattern: str, text: str) -> None:
    for key in (f"/{pattern}/", pattern):
        read = read_key(key, False, True, True)
        if isinstance(read, PatternKey):
            found = read.found_in(SearchText(text), Allowance())
            assert found in (True, False, "pattern_wrong", "pattern_slow")


@given(st.text(alphabet="@ab_\n 4,", max_size=60))
def test_no_decorator_is_left_at_the_head_of_a_text(content: str) -> None:
    assert not split_decorators(content)[1].lstrip().startswith("@@")


@given(st.text(max_size=60))
def test_a_text_without_decorators_stays_as_it_is(content: str) -> None:
    if not content.lstrip().startswith("@@"):
        assert split_decorators(content)[1] == content


# --- books that mean harm


def test_a_book_full_of_slow_patterns_costs_a_turn_no_more_than_its_allowance() -> None:
    bombs = tuple(LoreEntry(f"{at}", "x", (f"/(a+)+{at}$/",)) for at in range(2_000))
    book = Lorebook("bombs", (*bombs, LoreEntry("good", "seen", ("灯塔",))))
    lore = _look([book], ["a" * 3_000 + "! 灯塔"], LoreModule(True))
    assert [hit.entry for hit in lore.hits if hit.shown] == ["good"]
    told = [hit for hit in lore.hits if hit.left_out == "pattern_slow"]
    assert 0 < len(told) <= 20


def test_the_largest_book_that_calls_up_all_of_itself_keeps_to_its_budget() -> None:
    entries = [
        LoreEntry(f"{at}", f"key {at} calls key {at + 1}", ("key",), ("calls",), selective=True)
        for at in range(20_000)
    ]
    lore = _look([Lorebook("all", tuple(entries))], ["the key calls"], LoreModule(True, max_tokens=500))
    assert len(lore.before) <= 500
    assert len(lore.hits) == 20_000


def test_a_lone_surrogate_breaks_nothing() -> None:
    entries: list[Any] = [LoreEntry("\ud800", "\udfff seen", ("\ud83d",), probability=99.999)]
    assert (
        _look([Lorebook("\ud800", tuple(entries))], ["a \ud83d b"], LoreModule(True)).before == "\udfff seen"
    )
