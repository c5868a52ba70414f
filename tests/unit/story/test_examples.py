"""Example dialogues as a card holds them become messages."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.dialogue import Message
from personalab.story.macros import Names, parse_examples

NAMES = Names("Ann Lee", "Zoe")


def _parsed(text: str, names: Names = NAMES) -> list[list[tuple[str, str]]]:
    return [
        [(message["role"], message["content"]) for message in block] for block in parse_examples(text, names)
    ]


def test_blocks_and_speakers_become_messages() -> None:
    text = "<START>\n{{user}}: Where am I?\n{{char}}: In my glade, {{user}}.\n<start>\n{{char}}: Hush."
    assert _parsed(text) == [
        [("user", "Where am I?"), ("assistant", "In my glade, Zoe.")],
        [("assistant", "Hush.")],
    ]


def test_a_message_may_span_lines() -> None:
    text = "{{user}}: One\ntwo\n\nthree\n{{char}}:\n*nods*\nWell: yes.\nGuard: Halt!"
    assert _parsed(text) == [
        [("user", "One\ntwo\n\nthree"), ("assistant", "*nods*\nWell: yes.\nGuard: Halt!")]
    ]


@pytest.mark.parametrize(
    ("player", "character"),
    [
        ("<USER>:", "<BOT>:"),
        ("{{User}} :", "{{CHAR}}："),
        ("Zoe:", "Ann Lee:"),
        ("You：", "Ann:"),
        ("**Zoe:**", "**ann lee**:"),
        ("User:", "Assistant:"),
        ("玩家：", "  角色："),
    ],
)
def test_speakers_are_known_by_placeholder_name_or_common_word(player: str, character: str) -> None:
    assert _parsed(f"{player} Hi.\n{character} Ho.") == [[("user", "Hi."), ("assistant", "Ho.")]]


def test_chinese_names_are_known_whole_and_by_their_first_part() -> None:
    names = Names("艾尔·塞奇", "阿青")
    assert _parsed("阿青：走吗？\n艾尔：（抬头）走。\n艾尔·塞奇：现在。", names) == [
        [("user", "走吗？"), ("assistant", "（抬头）走。\n现在。")]
    ]


def test_text_without_a_speaker_is_the_characters() -> None:
    assert _parsed("(humming) Tea?\n<START>\nIt rains.\n{{user}}: Again?") == [
        [("assistant", "(humming) Tea?")],
        [("assistant", "It rains."), ("user", "Again?")],
    ]


@pytest.mark.parametrize("text", ["", " \n", "<START>", "<START>\n<START>\n", "{{user}}:\n{{char}}: "])
def test_nothing_said_is_no_example(text: str) -> None:
    assert parse_examples(text, NAMES) == ()


def test_names_that_look_like_patterns_are_taken_literally() -> None:
    assert _parsed("(a+)+: Hi.\n.*: Ho.", Names(".*", "(a+)+")) == [[("user", "Hi."), ("assistant", "Ho.")]]


@given(
    st.text(),
    st.text(),
    st.lists(st.sampled_from(["{{user}}:", "{{char}}:", "İ:", "<START>", "x", "\n", " "])),
)
def test_any_text_gives_alternating_messages(character: str, player: str, parts: list[str]) -> None:
    for block in parse_examples("".join(parts), Names(character, player)):
        roles = [message["role"] for message in block]
        assert all(one != other for one, other in itertools.pairwise(roles))
        assert all(message["content"].strip() for message in block)
        assert all(
            isinstance(message, dict) and set(message) == set(Message.__annotations__) for message in block
        )


HOSTILE_NAMES = st.lists(
    st.sampled_from(["<START>", "You: ", "{{user}}", "{{char}}:", "\n", "Bob", "User:", "：", "<BOT>", "x"]),
    min_size=1,
    max_size=4,
).map("".join)


@given(HOSTILE_NAMES, HOSTILE_NAMES)
def test_no_name_ends_a_block_or_changes_the_speaker(character: str, player: str) -> None:
    names = Names(f"c{character}", f"p{player}")
    [block] = _parsed("{{user}}: hi {{char}}\n{{char}} smiles.\n{{char}}: yo, {{user}}", names)
    assert block == [
        ("user", f"hi {names.character.strip()}\n{names.character} smiles.".strip()),
        ("assistant", f"yo, {names.player}".strip()),
    ]
