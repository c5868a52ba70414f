"""What is there to go on with, told from the ends of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from personalab.operations.overview import last_words, list_stories
from personalab.services import Services
from personalab.story.transcript import NO_REPLY, AssistantLine, Summary, UserLine, dump_line
from tests.conftest import NOW


def _session(root: Path, instance: str) -> Path:
    return root / "instances" / instance / "sessions" / "sess_001.jsonl"


def test_the_last_words_are_found_behind_notes_and_blank_lines(root: Path, instance: str) -> None:
    path = _session(root, instance)
    with path.open("ab") as file:
        file.write(dump_line(UserLine("hi", 1, NOW)) + dump_line(AssistantLine("Well.", 1, NOW)))
        file.write(dump_line(Summary("what happened")) + b"\n\n")
    found = last_words(path)
    assert found is not None
    assert (found.turn, found.text, found.by_character) == (1, "Well.", True)


@pytest.mark.parametrize(
    ("line", "text", "is_notice"),
    [
        (AssistantLine("<think>Hm.</think>Well.\n\n[PROGRESS:1:completed]", 1, NOW), "Well.", False),
        (AssistantLine("Well,\n(System error: gone)", 1, NOW, error=True), "Well,", False),
        (AssistantLine("(System error: gone)", 1, NOW, error=True), "(System error: gone)", True),
        (AssistantLine(NO_REPLY, 1, NOW, empty=True), "", True),
        (AssistantLine("[PROGRESS:1:pending]", 1, NOW), "", True),
    ],
)
def test_last_words_are_speech_or_a_notice(
    root: Path, instance: str, line: AssistantLine, text: str, is_notice: bool
) -> None:
    path = _session(root, instance)
    with path.open("ab") as file:
        file.write(dump_line(UserLine("hi [PROGRESS:1:x]", 1, NOW)))
    asked = last_words(path)
    assert asked is not None
    assert (asked.text, asked.is_notice) == ("hi [PROGRESS:1:x]", False)
    with path.open("ab") as file:
        file.write(dump_line(line))
    found = last_words(path)
    assert found is not None
    assert (found.text, found.is_notice, found.by_character) == (text, is_notice, True)


def test_a_reply_whose_writer_died_is_shown_as_far_as_it_is(root: Path, instance: str) -> None:
    path = _session(root, instance)
    whole = dump_line(AssistantLine("I was about to", 3, NOW))
    with path.open("ab") as file:
        file.write(dump_line(UserLine("hi", 3, NOW)) + whole[: whole.index(b"about") + 3])
    found = last_words(path)
    assert found is not None
    assert (found.text, found.by_character) == ("I was abo", True)


def test_a_line_that_was_cut_in_its_middle_is_not_taken_for_words(root: Path, instance: str) -> None:
    path = _session(root, instance)
    with path.open("ab") as file:
        file.write(dump_line(UserLine("hi", 1, NOW)) + b'{"role": "user", "content": "half')
    found = last_words(path)
    assert found is not None
    assert found.text == "hi"


def test_a_story_without_its_session_is_listed_all_the_same(
    services: Services, root: Path, instance: str
) -> None:
    _session(root, instance).unlink()
    (story,) = list_stories(services)
    assert (story.instance_id, story.last, story.touched) == (instance, None, NOW)
