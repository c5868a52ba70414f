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
            "用户",
            "Hum",
            "an",
            " 说",
            "- ",
            "<",
            ">",
            "[PROGRESS:1:pending]",
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


@pytest.mark.parametrize(
    "line",
    [
        "用户：好的",
        "Human: hi",
        "Player: hi",
        "- 玩家：好",
        "### 玩家：好",
        "<User>: hi",
        "玩家 说：好",
        "玩家说：好",
        "User says: hi",
        "**Human:** hi",
    ],
)
def test_a_reply_ends_before_the_labels_that_models_were_trained_with(line: str) -> None:
    assert fed([f"{SPEECH}\n\n{line}\nmore"]) == (SPEECH, True)


@pytest.mark.parametrize(
    "text",
    [
        f"{SPEECH}\n用户们都走了：没人了。",
        f"{SPEECH}\n用户名：admin",
        f"{SPEECH}\nhuman: twelve, elf: three",
        f"{SPEECH}\nHumans: twelve",
        f"{SPEECH}\nHuman beings: twelve",
        f"{SPEECH}\n（用户点头）",
        f"{SPEECH}\n你：走吧",
        f"{SPEECH}\n玩家说得对：走吧。",
        f"{SPEECH}\nAna (they) says: go",
        f"{SPEECH}\n- 玩家们：三人",
    ],
)
def test_lines_that_only_mention_the_player_stay(text: str) -> None:
    assert fed([text]) == (text, False)


def test_label_that_is_the_characters_own_name_stays() -> None:
    lines = PlayerLines((), WORDS, "Human")
    assert lines.feed("Go.\nHuman: I said go.") + lines.flush() == "Go.\nHuman: I said go."


@given(
    before=st.text("好走ab。 ", min_size=1, max_size=6),
    word=st.sampled_from(["玩家", "用户", "User", "Human", "Player"]),
    after=st.sampled_from(["走了", " came", "，你好", "。", "们：", "s: ", "的手：", "?", "", " and I: "]),
)
def test_speech_that_mentions_the_player_is_never_cut(before: str, word: str, after: str) -> None:
    for text in (
        f"好。\n{before}好{word}{after}",
        f"好。\n{word}{after}",
        f"好。{word}：",
        f"好。{before}{word}: hi",
    ):
        assert fed(list(text)) == (text, False)


def test_first_line_with_words_is_kept_after_a_marker() -> None:
    assert fed(["[PROGRESS:1:pending]\nUser: hi\nUser: bye"]) == ("[PROGRESS:1:pending]\nUser: hi", True)
    assert fed(list("（\n[PROGRESS:1:pending]\n\n玩家：好\n玩家：走")) == (
        "（\n[PROGRESS:1:pending]\n\n玩家：好",
        True,
    )
