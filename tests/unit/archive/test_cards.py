"""A card becomes a character and comes back as it was; what was changed here is in it, and nothing else is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import pytest

from personalab.archive import cards
from personalab.archive.cards import CardVersion, book_of, card_of, character_of, read_card
from personalab.archive.foreign_files import load_json
from personalab.errors import BadRecord
from personalab.story.records import Character, Instructions, initial_state
from tests.support.archive import making

ID = "char_1"


def _character(card: object) -> Character:
    return character_of(read_card(card), ID)


def _stored(character: Character) -> Character:
    """Give a character as it comes back from its file."""
    return Character.read(character.character_id, load_json(making.json_bytes(character.fields())))


def _refused(card: object) -> str:
    with pytest.raises(BadRecord) as raised:
        read_card(card)
    return str(raised.value)


# --- reading


def test_a_card_of_every_version_gives_the_same_character() -> None:
    two, three = _character(making.v2_card()), _character(making.v3_card())
    one = _character(making.v1_card())
    assert one.base_persona == two.base_persona == three.base_persona
    assert two.greetings == three.greetings == (one.greetings[0], "*She sings.*", "*She sleeps.*")
    examples = "<START>\n{{user}}: Where am I?\n{{char}}: In my glade."
    assert two.instructions == Instructions(
        "{{original}} Write as {{char}}.", "Stay in the glade. {{original}}", examples
    )
    assert one.instructions == Instructions(example_dialogue=examples)
    assert (one.name, one.language) == ("Seraphina", "en")


def test_the_persona_is_told_with_what_each_part_is() -> None:
    assert _character(making.v2_card()).base_persona == (
        "{{char}} guards the forest glade.\n\n"
        "Personality: gentle, patient\n\n"
        "Scenario: {{user}} wakes up in the glade."
    )


def test_a_chinese_card_is_told_in_chinese() -> None:
    examples = "<START>\n{{user}}: 这是哪里？\n<start>\n{{char}}: 我的山谷。\n<START>"
    character = _character(making.chinese_card(mes_example=examples, scenario=""))
    assert character.language == "zh"
    assert character.base_persona == (
        "{{char}}是守护山谷的神鸟，活了三百年，见过许多过客。\n\n性格：温柔，有耐心，偶尔固执"
    )
    assert character.instructions.example_dialogue == examples


@pytest.mark.parametrize("made", [making.v1_card, making.v2_card, making.v3_card])
def test_a_character_imported_earlier_with_examples_in_its_persona_leaves_as_its_card_came(made: Any) -> None:
    kept = made()
    now = _character(kept)
    persona = (
        f"{now.base_persona}\n\nExample dialogue:\n{{{{user}}}}: Where am I?\n{{{{char}}}}: In my glade."
    )
    earlier = replace(now, base_persona=persona, instructions=replace(now.instructions, example_dialogue=""))
    assert card_of(earlier, kept, book_of(read_card(kept)), None) == kept
    edited = card_of(replace(earlier, base_persona=persona + "!"), kept, None, "v3")["data"]
    assert (edited["description"], edited["mes_example"]) == (persona + "!", "")


def test_changed_examples_stand_in_the_card() -> None:
    kept = making.v2_card()
    before = _character(kept)
    told = replace(before.instructions, example_dialogue="{{char}}: Go.")
    data = card_of(replace(before, instructions=told), kept, book_of(read_card(kept)), None)["data"]
    assert data == {**kept["data"], "mes_example": "{{char}}: Go."}


def test_a_language_that_is_neither_is_left_open() -> None:
    texts = dict.fromkeys(cards.V1_TEXTS, "森を守っている優しい人です。")
    japanese = _character(texts)
    assert japanese.language is None


def test_parts_that_are_blank_are_not_told() -> None:
    card = making.v1_card(description=" \n", personality="kind", scenario=" ", mes_example="<START>\n")
    assert _character(card).base_persona == "Personality: kind"


def test_notes_to_the_reader_are_nowhere_in_the_character() -> None:
    secret = "only for the reader"
    card = making.v3_card(
        creator_notes=secret, creator_notes_multilingual={"en": secret}, group_only_greetings=[secret]
    )
    card["creatorcomment"] = secret
    character = _character(card)
    assert secret not in json.dumps(character.fields())
    assert secret not in json.dumps(initial_state(character).fields())


def test_the_nickname_of_v3_is_what_the_character_is_called_in_its_story() -> None:
    character = _character(making.v3_card(nickname=" Sera\n"))
    assert character.name == "Seraphina"
    assert character.fields()["nickname"] == "Sera"
    assert initial_state(_stored(character)).name == "Sera"


def test_blank_greetings_are_not_offered() -> None:
    card = making.v2_card(first_mes="  ", alternate_greetings=["", "Hello", None, "\n"])
    assert _character(card).greetings == ("Hello",)


def test_fields_beside_the_data_count_only_where_it_lacks_them() -> None:
    beside = {**making.v2_card(description=None), **making.v1_card(description="beside", scenario="beside")}
    del cast("dict[str, Any]", beside["data"])["personality"]
    card = read_card({**beside, "personality": "from beside"})
    assert card.version == "v2"
    assert (card.text("description"), card.text("personality")) == ("beside", "from beside")
    assert card.text("scenario") == "{{user}} wakes up in the glade."


def test_a_card_that_only_says_to_be_v2_is_read_by_its_fields() -> None:
    card = {"spec": "chara_card_v2", "spec_version": "2.0", **making.v1_card()}
    assert read_card(card).version == "v1"
    assert read_card({**card, "data": None}).name == "Seraphina"
    assert read_card({"data": making.v1_card()}).version == "v2"


@pytest.mark.parametrize(
    ("spec", "number", "version", "is_newer"),
    [
        ("chara_card_v2", "2.0", "v2", False),
        ("chara_card_v2", "3.0", "v2", False),
        ("chara_card_v3", "3.0", "v3", False),
        ("chara_card_v3", "2.0", "v3", False),
        ("chara_card_v3", "3.1", "v3", True),
        ("chara_card_v4", "4.0", "v3", True),
        ("CHARA_CARD_V3", 3, "v3", False),
        (None, "3.0", "v3", False),
        (None, "new", "v2", False),
        (None, "nan", "v2", False),
        ("chara_card_vX", None, "v2", False),
        ("someone's own", None, "v2", False),
    ],
)
def test_versions_are_told_by_spec_and_newer_ones_are_read(
    spec: object, number: object, version: str, is_newer: bool
) -> None:
    card = read_card({"spec": spec, "spec_version": number, "data": making.v1_card(new_field={"a": 1})})
    assert (card.version, card.is_newer) == (version, is_newer)
    assert card.name == "Seraphina"


def test_what_is_missing_null_or_an_empty_list_where_an_object_should_be_is_no_fault() -> None:
    card = read_card(
        making.v2_card(extensions=[], character_book=[], alternate_greetings=None, system_prompt=None)
    )
    assert (card.book, card.extensions) == (None, {})
    assert read_card({"name": "A", "first_mes": "Hi"}).greetings == ("Hi",)


def test_a_book_comes_out_as_it_is_even_without_extensions() -> None:
    book = making.character_book(unknown=1)
    del book["extensions"]
    assert book_of(read_card(making.v2_card(character_book=book))) == book


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": 5}, "data.name is invalid: it is not a text"),
        ({"name": " \u202e\n"}, "data.name is invalid: it is missing or blank"),
        ({"name": "x" * 401}, "data.name is invalid: it has 401 characters"),
        ({"description": ["x"]}, "data.description is invalid: it is not a text"),
        ({"system_prompt": {}}, "data.system_prompt is invalid"),
        ({"mes_example": "x" * 1_000_001}, "data.mes_example is invalid: it has 1000001 characters"),
        ({"alternate_greetings": "Hi"}, "data.alternate_greetings is invalid: it is not a list"),
        ({"alternate_greetings": ["Hi", 5]}, "data.alternate_greetings[1] is invalid: it is not a text"),
        ({"alternate_greetings": ["x"] * 1_001}, "data.alternate_greetings is invalid: it has 1001 entries"),
        ({"character_book": "x"}, "data.character_book is invalid: it is not an object"),
    ],
    ids=range(10),
)
def test_a_field_that_cannot_be_used_is_refused_by_its_name(change: dict[str, object], words: str) -> None:
    assert words in _refused(making.v2_card(**change))


def test_what_is_no_card_is_said_to_be_none() -> None:
    book = making.character_book(description="about it")
    others: tuple[dict[str, Any], ...] = (
        {},
        {"name": "x"},
        {"spec": "lorebook_v3", "data": book},
        book,
        {"entries": {}, "name": "x"},
    )
    for other in others:
        assert "not a character card" in _refused(other)
    assert "the field data is invalid" in _refused({"spec": "chara_card_v2", "data": "x"})
    assert "the field name is invalid" in _refused({"description": "x"})


def test_a_wrong_field_is_said_in_chinese_too() -> None:
    with pytest.raises(BadRecord) as raised:
        read_card(making.v2_card(name=5))
    assert raised.value.message("zh") == "字段 data.name 不对：它不是文本"


# --- writing


@pytest.mark.parametrize("made", [making.v1_card, making.v2_card, making.v3_card, making.chinese_card])
def test_what_was_changed_here_stands_in_the_card_and_the_rest_is_as_it_came(made: Any) -> None:
    kept: dict[str, Any] = {**made(), "unknown": [1]}
    before = _character(kept)
    after = replace(
        before,
        name="Other",
        base_persona="Someone else.",
        greetings=("Hi", "Ho"),
        instructions=Instructions("Be."),
    )
    book = making.character_book(name="Another")
    written = card_of(after, kept, book, "v3")
    data = written["data"]
    assert {
        name: data[name] for name in ("name", "description", "personality", "scenario", "mes_example")
    } == {
        "name": "Other",
        "description": "Someone else.",
        "personality": "",
        "scenario": "",
        "mes_example": "",
    }
    assert (data["first_mes"], data["alternate_greetings"]) == ("Hi", ["Ho"])
    assert (data["system_prompt"], data["post_history_instructions"]) == ("Be.", "")
    assert data["character_book"]["name"] == "Another"
    assert written["unknown"] == [1]
    assert data["creator_notes"] == kept.get("data", {}).get("creator_notes", "")
    assert _character(written).fields() == after.fields()


def test_a_book_that_was_taken_away_is_not_in_the_card() -> None:
    kept = making.v2_card()
    assert "character_book" not in card_of(_character(kept), kept, None, None)["data"]


def test_what_a_card_repeats_at_its_root_changes_with_it() -> None:
    kept = {**making.v2_card(), **making.v1_card()}
    written = card_of(replace(_character(kept), base_persona="New."), kept, making.character_book(), None)
    assert (written["description"], written["data"]["description"]) == ("New.", "New.")
    assert written["personality"] == ""


def test_a_hand_written_character_gets_all_that_a_version_must_have() -> None:
    character = Character(ID, "Maren", "Keeper of the light.", "en")
    entry = {"keys": ["light"], "content": "It shines."}
    for version, spec in (("v2", "2.0"), ("v3", "3.0")):
        card = card_of(character, None, {"entries": [entry]}, cast("CardVersion", version))
        assert (card["spec"], card["spec_version"]) == (f"chara_card_{version}", spec)
        for name, value in cards.V2_DEFAULTS.items():
            assert type(card["data"][name]) is type(value)
        assert card["data"]["character_book"]["extensions"] == {}
        assert ("group_only_greetings" in card["data"]) == (version == "v3")
    assert card_of(character, None, None, "v1") == {
        **dict.fromkeys(cards.V1_TEXTS, ""),
        "name": "Maren",
        "description": "Keeper of the light.",
    }
    assert card_of(character, None, None, None)["spec"] == "chara_card_v3"


def test_a_v1_card_becomes_v3_only_when_something_was_added_it_has_no_place_for() -> None:
    kept = making.v1_card(avatar="none")
    before = _character(kept)
    assert card_of(replace(before, base_persona="New."), kept, None, None)["description"] == "New."
    more = replace(before, greetings=(*before.greetings, "Another"))
    written = card_of(more, kept, None, None)
    assert (written["spec"], written["avatar"]) == ("chara_card_v3", "none")
    assert written["data"]["alternate_greetings"] == ["Another"]
    assert card_of(before, kept, making.character_book(), None)["data"]["character_book"]["entries"]
    assert card_of(more, kept, None, "v1") == kept


def test_books_and_entries_get_what_another_version_must_have() -> None:
    book = {"entries": [{"keys": ["a"], "content": "b", "x": 1}]}
    kept = making.v2_card(character_book=book)
    unchanged = card_of(_character(kept), kept, book, "v2")
    assert unchanged == kept
    written = card_of(_character(kept), kept, book, "v3")["data"]["character_book"]
    assert written["extensions"] == {}
    assert written["entries"][0] == {
        "keys": ["a"],
        "content": "b",
        "x": 1,
        "extensions": {},
        "enabled": True,
        "insertion_order": 100,
        "use_regex": False,
    }


def test_an_entry_with_the_names_of_a_world_info_keeps_them_in_another_version() -> None:
    book = {"entries": [{"key": ["a"], "content": "b", "disable": True}, "no entry"]}
    kept = making.v2_card(character_book=book)
    written = card_of(_character(kept), kept, book, "v3")["data"]["character_book"]
    assert written["entries"] == book["entries"]


def test_a_name_that_says_nothing_becomes_the_id() -> None:
    assert card_of(Character(ID, " \u202e", "Keeper."), None, None, None)["data"]["name"] == ID


def test_two_cards_made_one_after_another_share_nothing() -> None:
    character = Character(ID, "Maren", "Keeper.")
    first = card_of(character, None, None, "v2")
    first["data"]["tags"].append("changed")
    first["data"]["extensions"]["changed"] = True
    assert card_of(character, None, None, "v2")["data"]["tags"] == []
    assert card_of(character, None, None, "v2")["data"]["extensions"] == {}


def test_v3_fields_wait_in_the_extensions_of_v2() -> None:
    kept = making.v3_card()
    two = card_of(_character(kept), kept, making.character_book(), "v2")
    assert "nickname" not in two["data"]
    assert two["data"]["extensions"]["talkativeness"] == "0.5"
    assert _character(two).fields() == _character(kept).fields()
    renamed = replace(_stored(_character(two)), source={"nickname": "Fina"})
    three = card_of(
        renamed, card_of(renamed, two, book_of(read_card(two)), "v2"), making.character_book(), "v3"
    )
    assert three["data"]["nickname"] == "Fina"
    assert "personalab" not in three["data"]["extensions"]
