"""Faults of role-play replies are found, and good replies have none."""

from __future__ import annotations

import pytest

from bench import play_checks as checks
from personalab.texts import Language

GOOD: list[tuple[Language, str]] = [
    ("zh", "（没有伸手，先看了一眼你身后的隧道）信放在地上。谁让你来的？"),
    ("zh", "（合上怀表）好的，今晚。我明白你的意思，Victor不会放过我们。\n[PROGRESS:1:completed]"),
    ("zh", "（递过纸巾）先擦擦头发。你问我在等谁？没等谁。"),
    ("en", "(wipes her hands) I was told. I was not told what for. Did Jansen bring you?"),
    (
        "en",
        '(sets down the lamp) You say that as if it helped. "Twenty," he said. I remember.\n[PROGRESS:2:in_progress]',
    ),
]


@pytest.mark.parametrize(("language", "reply"), GOOD)
def test_good_reply_has_no_fault(language: Language, reply: str) -> None:
    assert not checks.is_marker_only(reply)
    assert not checks.is_wrong_language(reply, language, ("Victor",))
    assert checks.assistant_phrases(reply, language) == []
    assert checks.player_lines(reply, language) == []
    assert checks.thought_leaks(reply) == []
    assert checks.has_action(reply)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("[PROGRESS:1:pending]", True),
        (" [PROGRESS:1:pending]\n[PROGRESS:2:completed] ", True),
        ("[PROGRESS: 1 : begun]", True),
        ("", True),
        ("……", True),
        ("走。[PROGRESS:1:pending]", False),
    ],
)
def test_marker_only(reply: str, expected: bool) -> None:
    assert checks.is_marker_only(reply) is expected


def test_markers_are_listed_with_point_and_status() -> None:
    reply = "a [PROGRESS:1:completed] b [PROGRESS:x:completed] [PROGRESS:12:in_progress]"
    assert checks.markers(reply) == [(1, "completed"), (12, "in_progress")]
    assert checks.without_markers("走。\n[PROGRESS:1:completed]") == "走。"


@pytest.mark.parametrize(
    ("reply", "language", "expected"),
    [
        ("(nods) Come in, the door is open.", "zh", True),
        ("（点头）Come in and close the door behind you please.", "zh", True),
        ("（点头）Alserqi。OK。", "zh", False),
        ("（点头）进来吧。", "en", True),
        ("(nods) Come in. 快把门关上吧。 The wind is rising fast.", "en", True),
        ("(nods) They call him 林晚 here.", "en", False),
        ("(…)", "en", False),
    ],
)
def test_wrong_language(reply: str, language: Language, expected: bool) -> None:
    assert checks.is_wrong_language(reply, language, ("Alserqi",)) is expected


@pytest.mark.parametrize(
    ("reply", "language"),
    [
        ("好的，我明白了。", "zh"),
        ("作为一个AI，我没有感情。", "zh"),
        ("好的，Alserqi，我明白了。", "zh"),
        ("我可以帮助你完成这个任务", "zh"),
        ("抱歉，我无法满足您的请求。", "zh"),
        ("请继续。", "zh"),
        ("I'm an AI and cannot feel.", "en"),
        ("I cannot fulfil this request.", "en"),
        ("请继续描述你的计划。", "zh"),
        ("有什么可以帮您的吗？", "zh"),
        ("如果你有任何问题，请随时告诉我。", "zh"),
        ("As an AI, I have no feelings.", "en"),
        ("How can I assist you today?", "en"),
        ("I'm sorry, but I can't assist with that.", "en"),
        ("I'm sorry, I can't proceed with that.", "en"),
        ("Please provide more information or context.", "en"),
    ],
)
def test_assistant_phrases(reply: str, language: Language) -> None:
    assert checks.assistant_phrases(reply, language)


@pytest.mark.parametrize(
    ("reply", "language"),
    [
        ("（点头）走。\n玩家：我们去哪里？", "zh"),
        ("走。\n**User:** 好。", "zh"),
        ("走。\n你说：好。", "zh"),
        ("（玩家点了点头）", "zh"),
        ("你：我们去哪里？", "zh"),
        ("（你接过信，点了点头）", "zh"),
        ("“好。”你说道，转身就走。", "zh"),
        ("> 玩家：好", "zh"),
        ("【玩家】：好", "zh"),
        ("(You nod and take the lamp.)", "en"),
        ("the player: ok", "en"),
        ('"Fine," you say.', "en"),
        ("(nods) Come.\nUser: Where to?", "en"),
        ("Come.\nYou: Where to?", "en"),
        ("(The player follows her.)", "en"),
    ],
)
def test_lines_for_the_player(reply: str, language: Language) -> None:
    assert checks.player_lines(reply, language)


def test_lines_for_a_named_player() -> None:
    assert checks.player_lines("Zoe: Where to?", "en") == []
    assert checks.player_lines("Zoe: Where to?", "en", ("Zoe",)) == ["Zoe: Where to?"]


@pytest.mark.parametrize(
    "reply",
    [
        "<think>hm</think>Yes.",
        "so I answer</think>Yes.",
        "Okay, the user says hello.",
        "Okay, so the user says hello.",
        "用户问我是谁。",
        "思考：他在试探我。",
        "<|channel|>analysis",
    ],
)
def test_thought_leaks(reply: str) -> None:
    assert checks.thought_leaks(reply)


@pytest.mark.parametrize(
    ("reply", "earlier", "expected"),
    [
        ("（点头）走吧，天快亮了。", ["（点头）走吧，天快亮了！[PROGRESS:1:completed]"], True),
        ("（点头）走吧，天已经快亮了。", ["别来。", "（点头）走吧，天快亮了。"], True),
        ("（摇头）油桶不对劲，先看看守卫。", ["（点头）走吧，天快亮了。"], False),
        ("走。", ["走！"], True),
        ("走。", ["停。"], False),
        ("", [""], False),
    ],
)
def test_repeated_replies(reply: str, earlier: list[str], expected: bool) -> None:
    assert checks.is_repeated(reply, earlier) is expected


def test_words_of_the_instructions_are_found() -> None:
    order = "先用括号写一个新的动作或神情，再说台词。"
    assert checks.is_copied(f"好。{order}", order, "zh")
    assert not checks.is_copied("先用括号写一个字。", order, "zh")
    assert not checks.is_copied("", order, "zh")
