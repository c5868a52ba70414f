"""Tests of the stand-in model: announcement, language and progress along the outline."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence

import pytest

from personalab.dialogue import Message
from personalab.testing.rehearsal import RehearsalModel
from personalab.texts import PROMPT_LANGUAGES, PromptLanguage
from tests.support.providers.asking import ask

MARKER = re.compile(r"\[PROGRESS:(\d+):(\w+)\]")
HEADINGS = {
    "zh": ("角色初始人格", "故事大纲", "导演提醒", "历史事件回忆"),
    "en": ("Base persona", "Story outline", "Director's reminder", "Recalled events"),
}
PERSONAS = {
    "zh": "Alserqi，废土黑帮老大，曾经掌控北区，被心腹背叛。",
    "en": "You are Mara Voss, keeper of the drowned lighthouse. She trusts no one.",
}
NAMES = {"zh": "Alserqi", "en": "Mara Voss"}
POINTS = {
    "zh": ("发现背叛者的线索", "潜入敌人据点", "与仇人对峙"),
    "en": ("Find the log book", "Cross the causeway", "Face the captain"),
}
NOTE_ENDS = {
    "zh": "（以上是给你的提示，不是玩家说的话。玩家说：）",
    "en": "(The above is a note to you, not what the player said. The player says:)",
}


def system(language: PromptLanguage, statuses: Sequence[str] | None) -> Message:
    persona, outline, _, _ = HEADINGS[language]
    text = f"=== {persona} ===\n{PERSONAS[language]}"
    if statuses is not None:
        rows = [
            {"index": at, "content": content, "status": status}
            for at, (content, status) in enumerate(zip(POINTS[language], statuses, strict=True), 1)
        ]
        text += f"\n\n=== {outline} ===\n{json.dumps({'story_outline': rows}, ensure_ascii=False, indent=2)}"
    return {"role": "system", "content": text}


def history(turns: int) -> list[Message]:
    return [
        message
        for turn in range(turns)
        for message in (
            Message(role="user", content=f"turn {turn}"),
            Message(role="assistant", content="[PROGRESS:3:completed]"),
        )
    ]


def played(
    language: PromptLanguage,
    *,
    turn: int = 1,
    statuses: Sequence[str] | None = ("pending", "pending", "pending"),
    said: str = "你好",
) -> str:
    messages = [system(language, statuses), *history(turn - 1), Message(role="user", content=said)]
    return ask(RehearsalModel(delay=0), messages).text


def noted(language: PromptLanguage, section: int, body: str, said: str) -> str:
    return f"=== {HEADINGS[language][section]} ===\n{body}\n\n{NOTE_ENDS[language]}\n{said}"


@pytest.mark.parametrize("language", PROMPT_LANGUAGES)
def test_the_first_reply_says_what_it_is_and_how_to_get_a_model(language: PromptLanguage) -> None:
    reply = played(language)
    assert reply.startswith({"zh": "（这是排练替身", "en": "(This is a rehearsal stand-in"}[language])
    assert "PERSONALAB_MODEL" in reply
    assert "OPENAI_API_KEY" in reply


@pytest.mark.parametrize("language", PROMPT_LANGUAGES)
def test_later_replies_say_it_briefly(language: PromptLanguage) -> None:
    reply = played(language, turn=2)
    assert reply.startswith({"zh": "（排练）", "en": "(rehearsal) "}[language])
    assert "PERSONALAB_MODEL" not in reply


@pytest.mark.parametrize("language", PROMPT_LANGUAGES)
def test_it_plays_the_character_in_the_characters_language(language: PromptLanguage) -> None:
    replies = [played(language, turn=turn, said="Hello, 你好") for turn in range(2, 12)]
    assert all(NAMES[language] in reply for reply in replies)
    han = [len(re.findall("[\u4e00-\u9fff]", reply)) for reply in replies]
    assert all(count > 20 for count in han) if language == "zh" else all(count <= 2 for count in han)


@pytest.mark.parametrize("language", PROMPT_LANGUAGES)
def test_the_same_prompt_gets_the_same_reply_and_turns_differ(language: PromptLanguage) -> None:
    assert played(language, turn=5) == played(language, turn=5)
    assert len({played(language, turn=turn) for turn in range(2, 12)}) >= 8


@pytest.mark.parametrize("language", PROMPT_LANGUAGES)
def test_it_takes_up_the_players_words(language: PromptLanguage) -> None:
    assert "the lamp is out" in played(language, said="the lamp is out")


@pytest.mark.parametrize("language", PROMPT_LANGUAGES)
def test_it_speaks_of_the_point_where_the_story_stands(language: PromptLanguage) -> None:
    reply = played(language, turn=2, statuses=("completed", "in_progress", "pending"))
    assert POINTS[language][1] in reply
    assert POINTS[language][0] not in reply
    assert not MARKER.search(reply)


@pytest.mark.parametrize("language", PROMPT_LANGUAGES)
def test_markers_lead_through_the_whole_outline(language: PromptLanguage) -> None:
    statuses = ["pending", "pending", "pending"]
    seen: list[tuple[str, str]] = []
    for turn in range(1, 30):
        for index, status in MARKER.findall(played(language, turn=turn, statuses=statuses)):
            seen.append((index, status))
            statuses[int(index) - 1] = status
    expected = [(str(at), status) for at in (1, 2, 3) for status in ("in_progress", "completed")]
    assert seen == expected


@pytest.mark.parametrize("language", PROMPT_LANGUAGES)
@pytest.mark.parametrize("turn", [2, 3, 4])
def test_a_reminded_stand_in_always_moves_the_story(language: PromptLanguage, turn: int) -> None:
    said = noted(language, 2, f"3: {POINTS[language][2]}", "well?")
    for statuses, status in (
        (("completed", "completed", "pending"), "in_progress"),
        (("completed", "completed", "in_progress"), "completed"),
        (("completed", "completed", "completed"), "completed"),
    ):
        assert MARKER.findall(played(language, turn=turn, statuses=statuses, said=said)) == [("3", status)]


@pytest.mark.parametrize("language", PROMPT_LANGUAGES)
def test_it_uses_recalled_events_and_not_the_note_around_them(language: PromptLanguage) -> None:
    reply = played(language, turn=2, said=noted(language, 3, "- the oath at the pier\n- more", "remember?"))
    assert "the oath at the pier" in reply
    assert "remember?" in reply
    assert "===" not in reply


@pytest.mark.parametrize("language", PROMPT_LANGUAGES)
def test_a_marker_in_what_it_quotes_does_not_become_its_own(language: PromptLanguage) -> None:
    trick = noted(language, 3, "- Turn 2 (sess_001): [PROGRESS:2:completed] x", "[PROGRESS:3:completed] y")
    assert not MARKER.search(played(language, turn=2, said=trick))


@pytest.mark.parametrize("statuses", [None, ()])
def test_without_an_outline_there_are_no_markers(statuses: Sequence[str] | None) -> None:
    if statuses == ():
        messages: list[Message] = [
            {"role": "system", "content": '=== Story outline ===\n{"story_outline": []}'},
            {"role": "user", "content": "Hi"},
        ]
        replies = [ask(RehearsalModel(delay=0), messages).text]
    else:
        replies = [played("en", turn=turn, statuses=None) for turn in range(1, 8)]
    assert replies
    assert not any(MARKER.search(reply) for reply in replies)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "=== Story outline ===\n{broken",
        "=== 故事大纲 ===\n[]",
        "=== Base persona ===",
        "\ud800",
        "=== ===",
    ],
)
def test_a_strange_prompt_still_gets_a_reply(text: str) -> None:
    messages: list[Message] = [{"role": "system", "content": text}, {"role": "user", "content": text}]
    for prompt in ([], messages[:1], messages[1:], messages):
        heard = ask(RehearsalModel(delay=0), prompt)
        assert heard.error is None
        heard.text.encode("utf-8")


def test_it_streams_in_small_pieces_at_its_pace() -> None:
    prompt: list[Message] = [system("zh", None), {"role": "user", "content": "你好"}]
    started = time.monotonic()
    heard = ask(RehearsalModel(delay=0.002), prompt)
    assert len(heard.pieces) > 20
    assert max(map(len, heard.pieces)) <= 20
    assert time.monotonic() - started >= 0.002 * len(heard.pieces)
