"""A chat in which several speak: whose words they are stays told, and the chat goes back as it came."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from personalab.archive.chats import Chat, chat_of, lines_of, read_chat
from personalab.story.transcript import AssistantLine, Line, UserLine, dump_line, dump_object, parse_line

NOW = "2025-10-16T10:30:00Z"
HEADER: dict[str, Any] = {"user_name": "Ann", "character_name": "Alice", "chat_metadata": {}}


def said(name: str, text: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "is_user": False, "is_system": False, "mes": text, "extra": {}, **more}


def asked(text: str) -> dict[str, Any]:
    return {**said("Ann", text), "is_user": True}


def session(rows: list[dict[str, Any]]) -> tuple[Chat, list[Line]]:
    """Read a chat and let its session go through a file."""
    chat = read_chat([dump_object(row) for row in rows])
    lines = lines_of(chat, "inst_001", "sess_001", NOW)
    return chat, [parse_line(dump_line(line).rstrip(b"\n")) for line in lines]


def texts(lines: list[Line]) -> list[str]:
    return [line.content for line in lines if isinstance(line, UserLine | AssistantLine)]


GROUP = [
    HEADER,
    said("Alice", "Welcome."),
    asked("Who is that?"),
    said("Bob", "Bob.", swipes=["Bob.", "Guess."], swipe_id=0),
    said("Alice", "My brother."),
    said("Host", "psst", is_system=True),
]


def test_the_words_of_others_have_their_names_before_them() -> None:
    chat, lines = session(GROUP)
    assert chat.others == {"Bob"}
    assert texts(lines) == ["Welcome.", "Who is that?", "Bob: Bob.", "My brother."]


def test_a_group_goes_back_as_it_came_and_with_what_was_edited() -> None:
    _, lines = session(GROUP)
    assert chat_of(lines, "Alice", "Ann") == GROUP
    place = next(at for at, line in enumerate(lines) if "Bob: " in getattr(line, "content", ""))
    line = lines[place]
    assert isinstance(line, AssistantLine)
    lines[place] = replace(line, content="Bob: Robert.")
    back = chat_of(lines, "Alice", "Ann")
    assert (back[3]["mes"], back[3]["swipes"]) == ("Robert.", ["Robert.", "Guess."])


def test_a_group_that_was_played_on_here_comes_back_as_it_was() -> None:
    _, lines = session(GROUP)
    lines += [UserLine("And you?", 3, NOW), AssistantLine("Alice.", 3, NOW)]
    rows = json.loads(json.dumps(chat_of(lines, "Alice", "Ann")))
    assert [row["mes"] for row in rows[1:]] == [row["mes"] for row in GROUP[1:]] + ["And you?", "Alice."]
    assert session(rows)[1] == lines


def test_one_who_is_called_otherwise_in_the_header_is_nobody_else() -> None:
    assert session([HEADER, said("Ali", "Hello."), said("Ali", "Again.")])[0].others == frozenset()
    own = [UserLine("Hi", 1, NOW), AssistantLine("Hello.", 1, NOW)]
    rows = chat_of(own, "Ali", "Ann", "Alice", "char_alice")
    assert (rows[0]["character_name"], rows[2]["name"]) == ("Alice", "Ali")
    chat, lines = session([*rows, said("Alice", "Going on elsewhere.")])
    assert (chat.others, chat.character_id) == (frozenset(), "char_alice")
    assert texts(lines) == ["Hi", "Hello.", "Going on elsewhere."]


_NAMES = st.sampled_from(["Alice", "Bob", "Bob: Jr", " Eve\n", "", "李白"])


@given(st.lists(st.tuples(_NAMES, st.text(max_size=8), st.booleans()), max_size=8))
def test_whoever_speaks_a_chat_goes_back_as_it_came(rows: list[tuple[str, str, bool]]) -> None:
    messages = [{**said(name, text), "is_user": is_user} for name, text, is_user in rows]
    _, lines = session([HEADER, *messages])
    assert chat_of(lines, "Alice", "Ann") == [HEADER, *messages]
    lines.append(UserLine("More", 99, NOW))
    assert session(json.loads(json.dumps(chat_of(lines, "Alice", "Ann"))))[1] == lines
