"""Any card comes back as it was, and any change of its character is in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from personalab.archive import cards
from personalab.archive.cards import CardVersion, book_of, card_of, character_of, clean_name, read_card
from personalab.archive.foreign_files import load_json
from personalab.story.records import Character, Instructions
from tests.support.archive import making

ID = "char_1"


def _character(card: object) -> Character:
    return character_of(read_card(card), ID)


def _stored(character: Character) -> Character:
    """Give a character as it comes back from its file."""
    return Character.read(character.character_id, load_json(making.json_bytes(character.fields())))


def _as_json(value: Any) -> Any:
    return load_json(making.json_bytes(value))


TEXTS = st.text(st.characters(exclude_categories=()), max_size=12) | st.sampled_from(
    ["", " ", "她在山谷里等了很久。", "{{char}} waits for {{user}} here.", "<START>\nHi\n<START>\n", "\ud800"]
)
NAMES = TEXTS.filter(lambda text: bool(clean_name(text)))
UNKNOWN_NAMES = TEXTS.map(lambda text: f"x-{text}")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=4,
)
UNKNOWN = st.dictionaries(UNKNOWN_NAMES, VALUES, max_size=3)


def _together(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    return {**first, **second}


def _fields(required: Mapping[str, Any], optional: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    known = st.fixed_dictionaries(dict(required), optional=dict(optional))
    return st.builds(_together, UNKNOWN, known)


def _cards(*, is_tidy: bool) -> dict[CardVersion, st.SearchStrategy[dict[str, Any]]]:
    """Give cards of each version; those that are not tidy have nulls and empty lists where there should be none."""

    def loosely(values: st.SearchStrategy[Any], *others: object) -> st.SearchStrategy[Any]:
        return values if is_tidy else values | st.sampled_from(others or (None,))

    text = loosely(TEXTS)
    texts = {name: text for name in cards.V1_TEXTS if name not in ("name", "description")}
    entries = st.lists(
        _fields({"keys": st.lists(TEXTS, max_size=2), "content": TEXTS}, {"id": VALUES}), max_size=2
    )
    books = _fields({"entries": entries}, {"name": TEXTS, "extensions": UNKNOWN})
    two = {
        **texts,
        "creator_notes": text,
        "system_prompt": text,
        "post_history_instructions": text,
        "alternate_greetings": loosely(st.lists(loosely(TEXTS), max_size=3)),
        "tags": st.lists(TEXTS, max_size=2),
        "creator": text,
        "character_version": text,
        "extensions": loosely(UNKNOWN, None, []),
        "character_book": loosely(books, None, [], {}),
    }
    three = {
        **two,
        "nickname": loosely(TEXTS, None, 5),
        "group_only_greetings": st.lists(TEXTS, max_size=2),
        "source": st.lists(TEXTS, max_size=2),
        "creation_date": st.integers(),
        "assets": st.lists(UNKNOWN, max_size=2),
        "creator_notes_multilingual": st.dictionaries(TEXTS, TEXTS, max_size=2),
    }
    needed = {"name": NAMES, "description": TEXTS}
    repeated = st.fixed_dictionaries({}, optional={"name": NAMES, "description": TEXTS, "first_mes": text})

    def wrapped(spec: str, number: str, fields: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
        around = UNKNOWN if is_tidy else st.builds(_together, UNKNOWN, repeated)
        whole = {"spec": st.just(spec), "spec_version": st.just(number), "data": _fields(needed, fields)}
        return st.builds(_together, around, st.fixed_dictionaries(whole))

    return {
        "v1": _fields(needed, texts),
        "v2": wrapped("chara_card_v2", "2.0", two),
        "v3": wrapped("chara_card_v3", "3.0", three),
    }


ANY_CARD = st.one_of(*_cards(is_tidy=False).values()).map(_as_json)
TIDY = _cards(is_tidy=True)


@given(ANY_CARD)
def test_a_card_that_nobody_changed_goes_out_as_it_came(kept: dict[str, Any]) -> None:
    card = read_card(kept)
    character = _stored(character_of(card, ID))
    came = json.dumps(kept)
    assert card_of(character, kept, book_of(card), None) == kept
    assert card_of(character, kept, book_of(card), card.version) == kept
    assert json.dumps(kept) == came


EDITS = st.fixed_dictionaries(
    {},
    optional={
        "name": NAMES.map(clean_name),
        "base_persona": TEXTS,
        "language": st.sampled_from(["zh", "en", None]),
        "greetings": st.lists(TEXTS.filter(lambda text: bool(text.strip())), max_size=3).map(tuple),
        "instructions": st.builds(Instructions, TEXTS, TEXTS, TEXTS),
    },
)


@given(ANY_CARD, EDITS, UNKNOWN, st.sampled_from(["v2", "v3", None]))
def test_whatever_is_changed_comes_back_from_the_card(
    kept: dict[str, Any], edits: dict[str, Any], unknown: dict[str, Any], version: CardVersion | None
) -> None:
    card = read_card(kept)
    before = _stored(character_of(card, ID))
    edited = _stored(replace(before, **edits, source={**before.source, **unknown}))
    written = _as_json(card_of(edited, kept, book_of(card), version))
    assert _character(written).fields() == edited.fields()
    if version or card.version != "v1":
        assert {name: written[name] for name in kept if name.startswith("x-")} == {
            name: value for name, value in kept.items() if name.startswith("x-")
        }


@given(
    _fields(
        {"name": NAMES.map(clean_name), "base_persona": TEXTS},
        {
            "language": st.sampled_from(["zh", "en", "fr", None, ["zh"]]),
            "greetings": st.lists(TEXTS.filter(lambda text: bool(text.strip())), max_size=3),
            "system_prompt": TEXTS,
            "post_history_instructions": TEXTS,
            "example_dialogue": TEXTS,
            "nickname": TEXTS | st.just(5),
        },
    ),
    st.sampled_from(["v2", "v3", None]),
)
def test_a_hand_written_character_comes_back_from_its_card(
    fields: dict[str, Any], version: CardVersion | None
) -> None:
    character = Character.read(ID, _as_json(fields))
    card = _as_json(card_of(character, None, None, version))
    assert _character(card).fields() == character.fields()


@pytest.mark.parametrize("there", ["v2", "v3"])
@given(data=st.data())
def test_a_card_taken_to_another_version_and_back_has_lost_nothing(
    there: CardVersion, data: st.DataObject
) -> None:
    here: CardVersion = "v3" if there == "v2" else "v2"
    kept = _as_json(data.draw(TIDY[here] | TIDY["v1"] if there == "v3" else TIDY[here]))
    card = read_card(kept)
    character = _stored(character_of(card, ID))
    other = card_of(character, kept, book_of(card), there)
    assert read_card(other).version == there
    assert _character(other).fields() == character.fields()
    back = card_of(character, other, book_of(read_card(other)), card.version)
    missing = _missing(kept, back)
    assert not missing, missing


@given(TIDY["v3"])
def test_v1_has_the_six_texts_of_any_card(card: dict[str, Any]) -> None:
    kept = _as_json(card)
    assume("first_mes" in kept["data"])
    written = card_of(_character(kept), kept, book_of(read_card(kept)), "v1")
    assert all(written[name] == kept["data"].get(name, "") for name in cards.V1_TEXTS)
    assert {name for name in written if name not in cards.V1_TEXTS} == {
        name for name in kept if name.startswith("x-")
    }


def _missing(before: Any, after: Any, where: str = "") -> list[str]:
    """List what of a JSON value is not in another one at the same place."""
    if isinstance(before, dict) and isinstance(after, dict):
        old, new = cast("dict[str, Any]", before), cast("dict[str, Any]", after)
        return [
            lost
            for name in old
            for lost in (
                _missing(old[name], new[name], f"{where}.{name}") if name in new else [f"{where}.{name}"]
            )
        ]
    if isinstance(before, list) and isinstance(after, list):
        pairs = list(zip(cast("list[Any]", before), cast("list[Any]", after), strict=False))
        lost = [f"{where}[]"] if len(pairs) < len(cast("list[Any]", before)) else []
        return lost + [found for old, new in pairs for found in _missing(old, new, f"{where}[]")]
    return [] if before == after else [where]
