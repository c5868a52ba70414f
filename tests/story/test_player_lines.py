"""A reply ends before the first line that is written for the player, wherever the stream is cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.story.player_lines import PlayerLines

NAMES = ("Ana (they)",)
WORDS = ("玩家", "User")
SPEECH = "（点头）我认得他。"

pieces = st.lists(
    st.sampled_from(
        [
            "\n",
            "\n\n",
            "玩",
            "玩家",
            "User",
            "us",
            "Ana (they)",
            "：",
            ":",
            "（笑）",
            "(",
            ")",
            "*",
            " ",
            "好。",
            "3",
            "「",
        ]
    ),
    max_size=20,
).map("".join)


def fed(parts: list[str], names: tuple[str, ...] = NAMES, words: tuple[str, ...] = WORDS) -> tuple[str, bool]:
    lines = PlayerLines(names, words)
    shown = "".join(map(lines.feed, parts))
    return shown + lines.flush(), lines.found


@pytest.mark.parametrize(
    "line",
    [
        "玩家：你是谁？",
        "玩家（疑惑地）：你？",
        "User: who?",
        "user (quietly): who?",
        "**User:** who?",
        "> User: who?",
        "（玩家：",
        "Ana (they): hm",
        "（玩家）我会的",
        "(User)",
        "（玩家点头）",
    ],
)
@pytest.mark.parametrize("blanks", ["\n", "\n\n", "\n \n"])
def test_a_reply_ends_before_a_line_of_the_player(line: str, blanks: str) -> None:
    assert fed([f"{SPEECH}{blanks}{line}\nmore"]) == (SPEECH, True)


@pytest.mark.parametrize(
    "text",
    [
        "玩家：我先说。",
        f"{SPEECH}\n玩家们：都听着。",
        f"{SPEECH}\nUsers: three",
        f"{SPEECH}\n他对我说：“玩家：……”",
        f"{SPEECH}\n玩家",
        f"{SPEECH}\n玩家（",
        f"{SPEECH}\n（玩家的手在抖）",
        f"{SPEECH}\n（玩家们都在）",
        f"{SPEECH}\n(Users everywhere)",
        f"{SPEECH}\n(User interface flickers)",
        "\n\nUser: hello there",
        f"{SPEECH}\n(User's hand shakes)",
        f"{SPEECH}\n(Ana (they) has wet hair)",
        f"{SPEECH}\n\n",
        f"{SPEECH}\n[PROGRESS:1:completed]",
    ],
)
def test_other_lines_stay(text: str) -> None:
    assert fed([text]) == (text, False)


def test_without_names_nothing_is_cut() -> None:
    assert fed(["a\n: b\n"], names=(), words=()) == ("a\n: b\n", False)


@given(text=pieces, cuts=st.lists(st.integers(0, 60), max_size=12))
def test_where_the_stream_is_cut_does_not_matter(text: str, cuts: list[int]) -> None:
    places = sorted({0, *(min(cut, len(text)) for cut in cuts), len(text)})
    parts = [text[start:end] for start, end in itertools.pairwise(places)]

    assert fed(parts) == fed([text]) == fed(list(text))


@given(text=pieces)
def test_what_is_shown_is_the_beginning_of_the_reply(text: str) -> None:
    shown, found = fed(list(text))

    assert text.startswith(shown)
    assert found or shown == text


def test_many_blank_lines_do_not_take_long() -> None:
    text = SPEECH + "\n" * 50_000 + "User"

    assert fed([text, " (" + " " * 50_000]) == (text + " (" + " " * 50_000, False)
