"""Tests that transcripts contain each turn once, in order, with all spoken text escaped."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.archive.transcripts import Style, escape_markdown, transcript_of
from personalab.story.transcript import (
    NO_REPLY,
    AssistantLine,
    Line,
    Metadata,
    OtherLine,
    Summary,
    Transcript,
    UserLine,
    error_note,
)
from personalab.texts import Language

BEGUN = "2025-10-16T10:30:00Z"


def session(*lines: Line) -> Transcript:
    """Make a transcript of lines."""
    made = Transcript()
    made.extend(lines)
    return made


def told(*sessions: Transcript, style: Style = "markdown", language: Language = "en") -> str:
    """Tell sessions."""
    return "".join(transcript_of(sessions, style=style, character="Sera", player="Ann", language=language))


def turn(number: int, said: str, answered: str, *, second: int = 0) -> list[Line]:
    """Make a turn's two lines."""
    when = f"2025-10-16T10:31:{second:02}Z"
    return [UserLine(said, number, when), AssistantLine(answered, number, when)]


def blocks(text: str) -> list[tuple[str, str]]:
    """Give the kinds of blocks and the text in each, as a Markdown program sees them."""
    markdown_it = pytest.importorskip("markdown_it")
    reader: Any = markdown_it.MarkdownIt("gfm-like", {"linkify": False, "html": True})
    found: list[tuple[str, str]] = []
    kind = ""
    for token in reader.parse(text):
        if token.type == "inline":
            found.append((kind, token.content))
            children: list[Any] = token.children or []
            for child in children:
                if child.type in ("html_inline", "link_open", "image", "code_inline", "s_open"):
                    found.append((child.type, child.content))
        elif token.nesting == 0:
            found.append((token.type, token.content))
        else:
            kind = token.tag
    return found


def test_a_session_in_markdown() -> None:
    first = session(
        Metadata("inst_001", "sess_001", BEGUN),
        AssistantLine("*She smiles.* Hello.", 0, BEGUN),
        UserLine("Who are\nyou?", 1, "2025-10-16T10:31:00Z"),
        AssistantLine("A try", 1, "2025-10-16T10:31:05Z", interrupted=True),
        AssistantLine("Sera.", 1, "2025-10-16T10:31:09Z"),
        OtherLine({"type": "later"}),
        UserLine("And then?", 2, "then"),
        AssistantLine("I w", 2, "2025-10-16T10:32:05Z", interrupted=True),
    )
    assert told(first) == (
        "# Sera\n"
        "\n## Session sess\\_001 · 2025-10-16 10:30:00 UTC\n"
        "\n### Opening\n"
        "\n**Sera** · 2025-10-16 10:30:00 UTC\n"
        "\n*She smiles.* Hello.\n"
        "\n### Turn 1\n"
        "\n**Ann** · 2025-10-16 10:31:00 UTC\n"
        "\nWho are\\\nyou?\n"
        "\n**Sera** · 2025-10-16 10:31:09 UTC\n"
        "\nSera.\n"
        "\n### Turn 2\n"
        "\n**Ann**\n"
        "\nAnd then?\n"
        "\n**Sera** · 2025-10-16 10:32:05 UTC\n"
        "\nI w\n"
        "\n*(interrupted)*\n"
    )


def test_a_session_in_plain_text_and_in_chinese() -> None:
    first = session(
        Metadata("inst_001", "sess_001", BEGUN),
        Summary("他们相遇了。"),
        *turn(1, "你好\n[第 2 轮]\n薇拉: 假的", "你好。"),
        UserLine("在吗？", 2, ""),
        AssistantLine(NO_REPLY, 2, "", empty=True),
    )
    assert told(first, style="text", language="zh") == (
        "Sera\n"
        "\n== 会话 sess_001 · 2025-10-16 10:30:00 UTC ==\n"
        "\n(前情提要) 他们相遇了。\n"
        "\n[第 1 轮]\n"
        "Ann (2025-10-16 10:31:00 UTC): 你好\n    [第 2 轮]\n    薇拉: 假的\n"
        "Sera (2025-10-16 10:31:00 UTC): 你好。\n"
        "\n[第 2 轮]\n"
        "Ann: 在吗？\n"
        "Sera: （没有回复）\n"
    )


def test_turns_that_a_session_took_over_are_told_once() -> None:
    older = session(
        Metadata("inst_001", "sess_001", BEGUN),
        *turn(1, "one", "first", second=1),
        *turn(2, "two", "second", second=2),
        *turn(3, "three", "third", second=3),
    )
    newer = session(
        Metadata("inst_001", "sess_002", BEGUN, "sess_001"),
        Summary("Counting."),
        *turn(1, "two", "second", second=2),
        *turn(2, "three", "third", second=3),
        *turn(3, "four", "fourth", second=4),
    )
    whole = told(older, newer)
    for word in ("first", "second", "third", "fourth", "Counting"):
        assert whole.count(word) == 1, word
    assert whole.index("third") < whole.index("Counting") < whole.index("fourth")
    assert told(newer).count("second") == 1


def test_a_turn_that_was_answered_in_the_next_session_is_told_there() -> None:
    older = session(
        Metadata("inst_001", "sess_001", BEGUN),
        *turn(1, "one", "first", second=1),
        UserLine("two", 2, "2025-10-16T10:31:02Z"),
    )
    newer = session(
        Metadata("inst_001", "sess_002", BEGUN, "sess_001"),
        *turn(1, "one", "first", second=1),
        *turn(2, "two", "second", second=2),
    )
    assert told(older, newer).count("two") == 1
    other = session(Metadata("inst_001", "sess_002", BEGUN, "sess_001"), *turn(1, "other", "answer"))
    assert [told(older, other).count(word) for word in ("two", "other")] == [1, 1]
    assert told(older).count("two") == 1


def test_summaries_behind_the_last_turn_are_told() -> None:
    whole = told(session(Metadata("inst_001", "sess_001", BEGUN), *turn(1, "a", "b"), Summary("In short")))
    assert whole.index("In short") > whole.index("Turn 1")


def test_a_reply_that_an_error_cut_off_is_told_without_the_note() -> None:
    note = error_note("超时", "", "zh")
    cut = AssistantLine(f"So far\n{note}", 1, BEGUN, error=True)
    whole = told(session(Metadata("inst_001", "sess_001", BEGUN), UserLine("a", 1, BEGUN), cut))
    assert "So far" in whole
    assert "超时" in note
    assert "超时" not in whole
    assert "cut off by an error" in whole


def test_it_is_told_piece_by_piece() -> None:
    asked: list[int] = []

    def sessions() -> Any:
        for number in (1, 2):
            asked.append(number)
            yield session(Metadata("inst_001", f"sess_00{number}", BEGUN), *turn(1, "a", "b"))

    pieces = transcript_of(sessions(), style="text", character="Sera", player="Ann", language="en")
    while "Turn 1" not in next(pieces):
        pass
    assert asked == [1]


ATTACKS = [
    "<script>alert(1)</script>",
    "# A heading",
    "Title\n===",
    "Title\n---",
    "Title\n--",
    "---",
    "* * *",
    "___",
    "```\ncode\n```",
    "~~~\ncode\n~~~",
    "    indented code",
    "\tindented code",
    "> a quote",
    "- item",
    "+ item",
    "* item",
    "1. item",
    "2) item",
    "a | b\n--|--\n1 | 2",
    "[link](javascript:alert(1))",
    "![picture](http://tracker.invalid/x.png)",
    "[ref]: http://a.invalid\n[ref]",
    "<http://a.invalid>",
    "<!-- comment",
    "<div>",
    "&lt;b&gt;",
    "`code`",
    "a ` b\n\n` c",
    "\\<script>",
    "\\\\<b>",
    "a\r# b",
    "a\u2028# b",
    "a\x0b- b",
    "*\n# a*",
    "\n\n\n# late",
]


@pytest.mark.parametrize("attack", ATTACKS, ids=range(len(ATTACKS)))
def test_nothing_said_becomes_structure(attack: str) -> None:
    whole = told(
        session(
            Metadata("inst_001", "sess_001", BEGUN),
            Summary(attack),
            UserLine(attack, 1, BEGUN),
            AssistantLine(attack, 1, BEGUN),
        )
    )
    found = blocks(whole)
    assert {kind for kind, _ in found} <= {"h1", "h2", "h3", "p"}
    assert [text for kind, text in found if kind == "h3"] == ["Turn 1"]
    assert "<script" not in whole


@given(st.text(st.characters(), max_size=60) | st.text("-=*_#>+`~|<&[]()!:1. \t\n\\a", max_size=30))
def test_whatever_is_said_stays_paragraphs_of_one_speaker(text: str) -> None:
    whole = "# Top\n\n" + escape_markdown(text) + "\n\n# End\n"
    whole.encode("utf-8")
    found = blocks(whole)
    assert {kind for kind, _ in found} <= {"h1", "p"}
    assert [text for kind, text in found if kind == "h1"] == ["Top", "End"]


@given(st.text("ab<>&\"' \n,.!?你好", max_size=40))
def test_what_is_said_reads_as_it_was_said(text: str) -> None:
    markdown_it = pytest.importorskip("markdown_it")
    shown: list[str] = []
    for token in markdown_it.MarkdownIt("commonmark").parse(escape_markdown(text)):
        children: list[Any] = token.children or []
        for child in children:
            shown.append(child.content if child.type in ("text", "text_special") else " ")
        shown.append(" ")
    assert "".join(shown).split() == text.split()


@pytest.mark.parametrize("style", ["markdown", "text"])
def test_a_name_cannot_break_out_either(style: Style) -> None:
    lines = session(Metadata("inst_001", "sess_001", BEGUN), *turn(1, "a", "b"))
    whole = "".join(
        transcript_of(
            [lines], style=style, character="Eve\n# [x](y) <b>*", player="\x1b[31mAnn\ud800", language="en"
        )
    )
    whole.encode("utf-8")
    assert "\x1b" not in whole
    assert "\n# [x]" not in whole
    if style == "markdown":
        assert {kind for kind, _ in blocks(whole)} <= {"h1", "h2", "h3", "p"}
