"""Tests of lossless conversion between SillyTavern chats and sessions."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from personalab.archive import chats
from personalab.archive.chats import Chat, ShownReply, chat_of, lines_of, read_chat
from personalab.archive.foreign_lines import time_of
from personalab.errors import BadRecord
from personalab.story.transcript import (
    NO_REPLY,
    OPENING_TURN,
    AssistantLine,
    Line,
    Metadata,
    OtherLine,
    Summary,
    Transcript,
    UserLine,
    dump_line,
    dump_object,
    parse_line,
)
from personalab.texts import TEXTS, languages
from tests.support.archive.random_lines import (
    MARKER,
    contents,
    metadata_lines,
    some_lines,
    texts,
    thoughts,
    unknown,
    values,
)

NOW = "2025-10-16T10:30:00Z"
HEADER = {
    "user_name": "Ann",
    "character_name": "Seraphina",
    "create_date": "2023-11-5@21h 51m 03s 123ms",
    "chat_metadata": {"integrity": "x", "note_prompt": ""},
}


def message(text: object, *, user: bool = False, **more: Any) -> dict[str, Any]:
    """Make a message as SillyTavern writes it."""
    name = "Ann" if user else "Seraphina"
    made = {"name": name, "is_user": user, "is_system": False, "send_date": "2023-11-05T21:51:03.123Z"}
    return {**made, "mes": text, "extra": {}, **more}


def as_file(rows: list[Any]) -> bytes:
    """Write JSON lines."""
    return b"\n".join(dump_object(row) for row in rows)


def session_of(rows: list[Any]) -> list[Line]:
    """Read a chat's file into a session."""
    return lines_of(read_chat(io.BytesIO(as_file(rows))), "inst_001", "sess_001", NOW)


def again(lines: list[Line]) -> list[Line]:
    """Let a session go through its own file."""
    return [parse_line(dump_line(line).rstrip(b"\n")) for line in lines]


def spoken_lines(lines: list[Line]) -> list[tuple[str, int, str]]:
    """Give role, turn and text of what is said."""
    return [
        ("user" if isinstance(line, UserLine) else "assistant", line.turn, line.content)
        for line in lines
        if isinstance(line, UserLine | AssistantLine)
    ]


# --- reading


@pytest.mark.parametrize(
    ("sent", "time"),
    [
        (1699221063123, "2023-11-05T21:51:03Z"),
        (1699221063, "2023-11-05T21:51:03Z"),
        (1699221063.9, "2023-11-05T21:51:03Z"),
        ("1699221063123", "2023-11-05T21:51:03Z"),
        ("2023-11-05T21:51:03.123Z", "2023-11-05T21:51:03Z"),
        ("2023-11-06T05:51:03+08:00", "2023-11-05T21:51:03Z"),
        ("2023-11-05 21:51:03", "2023-11-05T21:51:03Z"),
        ("2023-11-5@21h 51m 03s 123ms", "2023-11-05T21:51:03Z"),
        ("2023-11-5 @21h 51m 03s 123ms", "2023-11-05T21:51:03Z"),
        ("2023-11-05@21h51m03s", "2023-11-05T21:51:03Z"),
        ("2023-11-05@21h51m03s123ms", "2023-11-05T21:51:03Z"),
        ("November 5, 2023 9:51pm", "2023-11-05T21:51:00Z"),
        ("Nov 5, 2023 12:07 AM", "2023-11-05T00:07:00Z"),
        ("yesterday", ""),
        ("Smarch 5, 2023 9:51pm", ""),
        ("2023-13-45@99h99m99s", ""),
        ("0001-01-01T00:00:00+10:00", ""),
        (10**30, ""),
        (float("inf"), ""),
        (True, ""),
        (None, ""),
        ({}, ""),
    ],
)
def test_times_are_read_in_every_form_that_was_ever_written(sent: object, time: str) -> None:
    assert time_of(sent) == time


@given(st.one_of(st.text(), st.integers(), st.floats(), st.dates().map(str), st.datetimes().map(str)))
def test_no_time_is_too_odd_to_be_passed_over(sent: object) -> None:
    found = time_of(sent)
    assert found == "" or (len(found) == 20 and found.endswith("Z"))


def test_turns_are_numbered_so_that_every_message_counts() -> None:
    lines = session_of(
        [
            HEADER,
            message("Hello."),
            message("Who are you?", user=True),
            message("Seraphina."),
            message("And you?"),
            message("Ann.", user=True),
            message("From far away.", user=True),
            message("Welcome."),
        ]
    )
    assert spoken_lines(lines) == [
        ("assistant", OPENING_TURN, "Hello."),
        ("user", 1, "Who are you?"),
        ("assistant", 1, "Seraphina."),
        ("assistant", 2, "And you?"),
        ("user", 3, "Ann."),
        ("user", 4, "From far away."),
        ("assistant", 4, "Welcome."),
    ]
    first = lines[0]
    assert isinstance(first, Metadata)
    assert first.created_at == "2023-11-05T21:51:03Z"
    transcript = Transcript()
    transcript.extend(lines)
    assert [turn.answer for turn in transcript.turns] == [
        "Hello.",
        "Seraphina.",
        "And you?",
        None,
        "Welcome.",
    ]


def test_a_second_line_before_anyone_speaks_is_a_turn_of_its_own() -> None:
    assert [turn for _, turn, _ in spoken_lines(session_of([message("a"), message("b")]))] == [0, 1]


def test_a_hidden_message_is_kept_and_never_used() -> None:
    hidden = message("psst", user=True, is_system=True)
    lines = session_of([HEADER, hidden, message("Hello.")])
    assert [type(line) for line in lines] == [Metadata, OtherLine, AssistantLine]
    assert chat_of(again(lines), "x", "y") == [HEADER, hidden, message("Hello.")]


def test_the_text_shown_is_the_chosen_swipe_and_the_others_are_kept() -> None:
    chosen = message("two", swipes=["one", "two", "three"], swipe_id=1, swipe_info=[{"extra": {}}])
    lines = session_of([HEADER, chosen])
    assert spoken_lines(lines) == [("assistant", 0, "two")]
    assert chat_of(again(lines), "x", "y") == [HEADER, chosen]


def test_a_text_edited_here_replaces_the_chosen_swipe_and_no_other() -> None:
    chosen = message("two", swipes=["one", "two", "three"], swipe_id=1)
    lines = session_of([HEADER, chosen])
    kept = lines[1]
    assert isinstance(kept, AssistantLine)
    lines[1] = AssistantLine("zwei", kept.turn, kept.timestamp, extra=kept.extra)
    expected = message("zwei", swipes=["one", "zwei", "three"], swipe_id=1)
    assert chat_of(lines, "x", "y") == [HEADER, expected]


def test_the_objects_of_chub_are_read_and_given_back() -> None:
    chub = message({"message": "Hi.", "id": 7}, swipes=[{"message": "Hi."}, {"message": "Yo."}], swipe_id=0)
    lines = session_of([HEADER, chub])
    assert spoken_lines(lines) == [("assistant", 0, "Hi.")]
    assert chat_of(again(lines), "x", "y") == [HEADER, chub]
    kept = lines[1]
    assert isinstance(kept, AssistantLine)
    edited = [lines[0], AssistantLine("Ho.", kept.turn, kept.timestamp, extra=kept.extra)]
    told = chat_of(edited, "x", "y")[1]
    assert (told["mes"], told["swipes"][0]) == ({"message": "Ho.", "id": 7}, {"message": "Ho."})


def test_byte_order_mark_blank_lines_and_windows_line_ends_are_passed_over() -> None:
    raw = b"\xef\xbb\xbf" + dump_object(HEADER) + b"\r\n\r\n" + dump_object(message("Hello.")) + b"\r\n\n"
    chat = read_chat(io.BytesIO(raw))
    assert (chat.header, [*chat.messages], [*chat.messages]) == (
        HEADER,
        [message("Hello.")],
        [message("Hello.")],
    )


def test_names_that_a_header_leaves_open_are_taken_from_the_messages() -> None:
    header = {**HEADER, "user_name": "unused", "character_name": "unused"}
    system = message("note", is_system=True, name="SillyTavern System")
    rows = [header, system, message("Hello."), message("Hi", user=True)]
    chat = read_chat(io.BytesIO(as_file(rows)))
    assert (chat.character_name, chat.user_name) == ("Seraphina", "Ann")
    assert Chat(HEADER, ()).user_name == "Ann"
    assert Chat(None, ()).user_name == ""


def test_a_chat_without_a_header_goes_back_without_one() -> None:
    rows = [message("Hello."), message("Hi", user=True)]
    lines = session_of(rows)
    first = lines[0]
    assert isinstance(first, Metadata)
    assert first.created_at == "2023-11-05T21:51:03Z"
    assert chat_of(again(lines), "x", "y") == rows


@pytest.mark.parametrize(
    ("raw", "code", "line"),
    [
        (b"", "chat_empty", None),
        (b"\n \n", "chat_empty", None),
        (b'{"user_name":"a"}\n{"mes":"a"}\n{"mes":', "chat_line_not_json", 3),
        (b'{"user_name":"a"}\n[1]', "chat_line_no_object", 2),
        (b'{"user_name":"a"}\n{"mes":5}', "chat_field_wrong", 2),
        (b'{"user_name":"a"}\n{"mes":{"text":"a"}}', "chat_field_wrong", 2),
        (b'{"user_name":"a"}\n{"name":"a"}', "chat_field_wrong", 2),
        (b'{"type":"metadata","instance_id":"a"}', "chat_field_wrong", 1),
        (b'{"mes":"\xff"}', "chat_line_not_utf8", 1),
        (b'{"mes":NaN}', "chat_line_not_json", 1),
        (b'{"mes":"a","extra":' + b"[" * 5_000 + b"]" * 5_000 + b"}", "chat_line_too_deep", 1),
        (b'{"mes":"' + b"a" * (chats.MAX_MESSAGE_CHARACTERS + 1) + b'"}', "chat_field_wrong", 1),
        (b'{"mes":"' + b"a" * chats.MAX_LINE_BYTES + b'"}', "chat_line_too_large", 1),
        (b"\n" * (chats.MAX_CHAT_LINES + 1), "chat_too_many_lines", None),
    ],
    ids=range(14),
)
def test_what_is_no_chat_is_refused_naming_the_line(raw: bytes, code: str, line: int | None) -> None:
    with pytest.raises(BadRecord) as caught:
        read_chat(io.BytesIO(raw))
    assert caught.value.code == code
    assert caught.value.params.get("line") == line
    assert code in TEXTS
    for language in languages():
        assert (str(line) in caught.value.message(language)) if line else caught.value.message(language)


def test_a_chat_that_goes_on_for_ever_is_refused_before_it_is_read_whole() -> None:
    read = 0

    def endless() -> Any:
        nonlocal read
        piece = dump_object(message("a" * 100_000)) + b"\n"
        while True:
            read += len(piece)
            yield piece

    with pytest.raises(BadRecord) as caught:
        read_chat(endless())
    assert caught.value.code == "chat_too_large"
    assert read <= chats.MAX_CHAT_BYTES + 200_000


# --- a session of our own as a chat


def own_session() -> list[Line]:
    """Make a session with everything in it that a chat has no place for."""
    return [
        Metadata("inst_001", "sess_002", NOW, "sess_001", {"note": 1}),
        Summary("They met.", {"turns": [1, 4]}),
        UserLine("Hello", 1, "2025-10-16T10:31:00Z", {"request_id": "r1"}),
        AssistantLine(NO_REPLY, 1, "2025-10-16T10:31:05Z", empty=True),
        AssistantLine("Half a", 1, "2025-10-16T10:31:06Z", interrupted=True),
        AssistantLine("A whole answer", 1, "2025-10-16T10:31:09Z"),
        OtherLine({"type": "later", "x": [1]}),
        UserLine("And?", 2, "2025-10-16T10:32:00Z"),
        AssistantLine(NO_REPLY, 2, "2025-10-16T10:32:01Z", empty=True),
        OtherLine({"odd": True}),
    ]


def test_replies_of_one_turn_are_swipes_and_summaries_are_hidden() -> None:
    header, summary, said, replied, asked, unanswered = chat_of(own_session(), "Sera", "Ann")
    assert (header["user_name"], header["character_name"]) == ("Ann", "Sera")
    assert header["create_date"] == "2025-10-16@10h30m00s000ms"
    assert (summary["is_system"], summary["mes"]) == (True, "They met.")
    assert (said["name"], said["is_user"], said["send_date"]) == ("Ann", True, "2025-10-16T10:31:00.000Z")
    assert (replied["mes"], replied["swipes"], replied["swipe_id"]) == (
        "A whole answer",
        ["Half a", "A whole answer"],
        1,
    )
    assert len(replied["swipe_info"]) == 2
    assert asked["mes"] == "And?"
    assert unanswered["is_system"]


def test_a_session_of_ours_comes_back_as_it_was() -> None:
    rows = json.loads(json.dumps(chat_of(own_session(), "Sera", "Ann")))
    chat = read_chat([dump_object(row) for row in rows])
    assert lines_of(chat, "inst_001", "sess_002", "2030-01-01T00:00:00Z") == own_session()


def test_away_from_home_a_session_continues_nothing() -> None:
    chat = read_chat([dump_object(row) for row in chat_of(own_session(), "Sera", "Ann")])
    first = lines_of(chat, "inst_009", "sess_001", NOW)[0]
    assert isinstance(first, Metadata)
    assert (first.instance_id, first.session_id, first.continued_from) == ("inst_009", "sess_001", None)


def test_what_is_edited_elsewhere_comes_back_edited() -> None:
    rows = chat_of(own_session(), "Sera", "Ann")
    rows[2]["mes"] = "Hello there"
    rows[3]["mes"] = rows[3]["swipes"][1] = "A better answer"
    rows[3]["extra"]["bookmark_link"] = "b1"
    rows.append(message("New", user=True))
    rows.append(message("Newer", name="Sera", swipes=["Newer", "Other"], swipe_id=0))
    lines = session_of(rows)
    assert spoken_lines(lines) == [
        ("user", 1, "Hello there"),
        ("assistant", 1, NO_REPLY),
        ("assistant", 1, "Half a"),
        ("assistant", 1, "A better answer"),
        ("user", 2, "And?"),
        ("assistant", 2, NO_REPLY),
        ("user", 3, "New"),
        ("assistant", 3, "Newer"),
    ]
    back = chat_of(lines, "Sera", "Ann")
    assert back[3]["extra"]["bookmark_link"] == "b1"
    assert back[-1]["swipes"] == ["Newer", "Other"]
    assert lines_of(Chat(back[0], tuple(back[1:])), "inst_001", "sess_001", NOW) == lines


def test_a_swipe_chosen_or_made_elsewhere_is_the_answer_that_counts() -> None:
    rows = chat_of(own_session(), "Sera", "Ann")
    rows[3] |= {"swipe_id": 0, "mes": "Half a"}
    assert [text for _, turn, text in spoken_lines(session_of(rows)) if turn == 1][-1] == "Half a"
    rows[3] |= {"swipes": ["Half a", "A whole answer", "Third"], "swipe_id": 2, "mes": "Third"}
    told = [text for _, turn, text in spoken_lines(session_of(rows)) if turn == 1]
    assert told == ["Hello", NO_REPLY, "Half a", "A whole answer", "Third"]
    rows[3] |= {"swipes": ["A whole answer"], "swipe_id": 0, "mes": "A whole answer"}
    assert ("assistant", 1, "A whole answer") in spoken_lines(session_of(rows))


def test_a_text_edited_elsewhere_counts_even_where_its_swipe_was_left_as_it_was() -> None:
    rows = chat_of(own_session(), "Sera", "Ann")
    rows[3]["mes"] = "Only here"
    assert ("assistant", 1, "Only here") in spoken_lines(session_of(rows))


def test_a_reply_that_failed_and_was_written_elsewhere_counts() -> None:
    rows = chat_of(own_session(), "Sera", "Ann")
    rows[5] |= {"mes": "An answer after all", "is_system": False}
    transcript = Transcript()
    transcript.extend(session_of(rows))
    assert transcript.turns[-1].answer == "An answer after all"


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        (UserLine("a", 1, NOW, {"sillytavern": {"is_user": False}}), (True, False)),
        (AssistantLine("a", 1, NOW, extra={"sillytavern": {"is_user": True}}), (False, False)),
        (AssistantLine("a", 1, NOW, extra={"sillytavern": {"is_system": True}}), (False, False)),
        (AssistantLine("a", 1, NOW, empty=True, extra={"sillytavern": {}}), (False, True)),
        (AssistantLine("a", 1, NOW, extra={"sillytavern": {"mes": 5}}), (False, False)),
    ],
    ids=range(5),
)
def test_what_is_kept_of_a_message_never_changes_who_said_it(line: Line, seen: tuple[bool, bool]) -> None:
    lines = [Metadata("inst_001", "sess_001", NOW), line]
    message = chat_of(lines, "Sera", "Ann")[1]
    assert (message["is_user"], message["is_system"], message["mes"]) == (*seen, "a")
    assert session_of(chat_of(lines, "Sera", "Ann")) == lines


def test_a_message_of_ours_that_was_hidden_elsewhere_is_used_no_more() -> None:
    rows = chat_of(own_session(), "Sera", "Ann")
    rows[3]["is_system"] = True
    lines = session_of(rows)
    assert all(text != "A whole answer" for _, _, text in spoken_lines(lines))
    assert any(isinstance(line, OtherLine) and "A whole answer" in str(line.data) for line in lines)


def test_an_imported_chat_that_was_continued_here_keeps_both() -> None:
    rows = [HEADER, message("Hello.", extra=None), message("Hi", user=True), message("Welcome.")]
    lines = session_of(rows)
    lines += [UserLine("Go on", 2, NOW), AssistantLine("I do", 2, NOW, interrupted=True)]
    back = chat_of(lines, "Sera", "Ann")
    assert [row["mes"] for row in back[1:]] == ["Hello.", "Hi", "Welcome.", "Go on", "I do"]
    assert session_of(back) == lines


JUNK: list[Any] = [None, 5, [], {}, {"format": 1}, {"format": 1, "lines": [{}]}, {"format": "x"}]


@pytest.mark.parametrize("junk", JUNK, ids=range(len(JUNK)))
def test_marks_that_someone_broke_harm_nobody(junk: object) -> None:
    rows = chat_of(own_session(), "Sera", "Ann")
    for row in rows[1:]:
        row["extra"]["personalab"] = junk
    assert ("assistant", 1, "A whole answer") in spoken_lines(session_of(rows))
    rows[0]["chat_metadata"]["personalab"] = junk
    lines = session_of(rows)
    assert ("assistant", 1, "A whole answer") in spoken_lines(lines)
    if junk is None or not isinstance(junk, dict):
        assert chat_of(lines, "Sera", "Ann") == rows


# --- whatever there is

sent = st.one_of(
    values, st.sampled_from([1699221063123, "November 5, 2023 9:51pm", "2023-11-05T21:51:03.123Z"])
)


def in_an_object(given: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Write a text as Chub does."""
    return {**given[1], "message": given[0]}


bodies: st.SearchStrategy[Any] = st.one_of(contents, texts, st.tuples(contents, unknown).map(in_an_object))


def with_thoughts(given: tuple[dict[str, Any], Any]) -> dict[str, Any]:
    """Write reasoning as SillyTavern does."""
    return {**given[0], "reasoning": given[1]}


notes = st.tuples(unknown, st.one_of(thoughts, values)).map(with_thoughts)


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    made: dict[str, Any] = {**draw(unknown), "mes": draw(bodies)}
    made.pop("personalab" if draw(st.booleans()) else "x", None)
    optional = {
        "is_user": st.one_of(st.booleans(), values),
        "is_system": st.sampled_from([False, False, False, True, None]),
        "name": st.one_of(texts, values),
        "send_date": sent,
        "extra": st.one_of(unknown, values, notes),
        "swipe_info": values,
    }
    for name, strategy in optional.items():
        if draw(st.booleans()):
            made[name] = draw(strategy)
    if draw(st.booleans()):
        made["swipes"] = draw(st.one_of(st.lists(bodies, min_size=1, max_size=3), values))
        made["swipe_id"] = draw(st.one_of(st.integers(0, 2), values))
        if draw(st.booleans()) and isinstance(made["swipes"], list) and made["swipes"]:
            made["swipe_id"], made["swipes"][0] = 0, made["mes"]
    return made


@st.composite
def headers(draw: st.DrawFn) -> dict[str, Any]:
    made = {**draw(unknown), "user_name": draw(st.one_of(texts, values))}
    if draw(st.booleans()):
        made |= {"create_date": draw(sent), "chat_metadata": draw(st.one_of(unknown, values))}
    return made


@given(st.one_of(st.none(), headers()), st.lists(messages(), min_size=1, max_size=8))
def test_a_chat_goes_back_as_it_came(header: dict[str, Any] | None, told: list[dict[str, Any]]) -> None:
    rows = [row for row in (header, *told) if row is not None]
    rows = [json.loads(json.dumps(row)) for row in rows]
    lines = again(session_of(rows))
    assert json.loads(as_file_of_list(chat_of(lines, "Sera", "Ann"))) == rows


def as_file_of_list(rows: list[dict[str, Any]]) -> str:
    """Write rows as one JSON list, as another program would read them."""
    return json.dumps(rows)


@given(st.one_of(st.none(), headers()), st.lists(messages(), min_size=1, max_size=5), texts)
def test_a_chat_continued_here_comes_back_whole(
    header: dict[str, Any] | None, told: list[dict[str, Any]], said: str
) -> None:
    rows = [row for row in (header, *told) if row is not None]
    lines = again(session_of(rows))
    lines += [UserLine(said, 99, NOW), Summary(said), OtherLine({"x": said})]
    back = session_of(chat_of(lines, "Sera", "Ann"))
    assert back == lines


@settings(max_examples=300)
@given(
    metadata_lines("inst_001", "sess_001", "sess_000"),
    st.lists(some_lines, max_size=10),
    texts,
    texts,
    st.builds(ShownReply, st.booleans(), st.booleans()),
)
def test_a_session_comes_back_as_it_was(
    metadata: Metadata, told: list[Line], character: str, player: str, shown: ShownReply
) -> None:
    lines = again([metadata, *told])
    rows = chat_of(lines, character, player, shown_too=shown)
    chat = read_chat([dump_object(row) for row in rows])
    assert lines_of(chat, "inst_001", "sess_001", NOW) == lines


# --- markers, reasoning and length limits


def thoughtful_session() -> list[Line]:
    """Make a session whose replies have all that is not speech."""
    return [
        Metadata("inst_001", "sess_001", NOW),
        UserLine(f"Hi {MARKER}", 1, NOW),
        AssistantLine("One", 1, NOW, reasoning="first"),
        AssistantLine(f"Two\n\n{MARKER}", 1, NOW, reasoning="second", truncated=True),
        UserLine("And?", 2, NOW),
        AssistantLine(f"Three {MARKER}", 2, NOW),
        AssistantLine(f"Half {MARKER}\n(System error: x)", 2, NOW, error=True, reasoning="third"),
    ]


def test_other_programs_see_words_only_and_what_else_there_is_comes_back() -> None:
    rows = chat_of(thoughtful_session(), "Sera", "Ann")
    assert [row["mes"] for row in rows[1:]] == [f"Hi {MARKER}", "Two", "And?", "Half"]
    assert rows[2]["swipes"] == ["One", "Two"]
    assert rows[4]["swipes"] == ["Three", "Half"]
    assert all("reasoning" not in row["extra"] for row in rows[1:])
    assert session_of(rows) == thoughtful_session()


def test_an_old_reply_of_nothing_but_a_marker_shows_no_marker_and_comes_back() -> None:
    session: list[Line] = [
        Metadata("inst_001", "sess_001", NOW),
        UserLine("Hi", 1, NOW),
        AssistantLine(MARKER, 1, NOW),
        UserLine("And?", 2, NOW),
        AssistantLine(f"**{MARKER}**", 2, NOW),
        AssistantLine(MARKER, 2, NOW, empty=True),
    ]
    rows = chat_of(session, "Sera", "Ann")
    assert [row["mes"] for row in rows[1:]] == ["Hi", "", "And?", ""]
    assert session_of(rows) == session
    shown = chat_of(session, "Sera", "Ann", shown_too=ShownReply(markers=True))
    assert [row["mes"] for row in shown[1:]] == ["Hi", MARKER, "And?", MARKER]
    assert session_of(shown) == session


def test_markers_and_reasoning_are_shown_when_asked_for() -> None:
    rows = chat_of(thoughtful_session(), "Sera", "Ann", shown_too=ShownReply(markers=True, reasoning=True))
    assert rows[2]["mes"] == f"Two\n\n{MARKER}"
    assert (rows[2]["extra"]["reasoning"], rows[4]["extra"]["reasoning"]) == ("second", "third")
    assert [info["extra"] for info in rows[2]["swipe_info"]] == [
        {"reasoning": "first"},
        {"reasoning": "second"},
    ]
    assert session_of(rows) == thoughtful_session()


def test_a_reply_edited_elsewhere_keeps_its_markers_and_takes_the_new_reasoning() -> None:
    rows = chat_of(thoughtful_session(), "Sera", "Ann", shown_too=ShownReply(reasoning=True))
    rows[2]["mes"] = rows[2]["swipes"][1] = "Zwei"
    rows[2]["extra"] |= {"reasoning": "anew", "bookmark_link": "b"}
    line = session_of(rows)[3]
    assert isinstance(line, AssistantLine)
    assert (line.content, line.reasoning) == (f"Zwei\n\n{MARKER}", "anew")
    assert line.extra == {"sillytavern_added": {"extra": {"bookmark_link": "b"}}}


def test_a_swipe_made_elsewhere_brings_its_reasoning() -> None:
    rows = chat_of(thoughtful_session(), "Sera", "Ann")
    rows[2] |= {"swipes": ["One", "Two", "Drei"], "swipe_id": 2, "mes": "Drei"}
    rows[2]["extra"]["reasoning"] = "elsewhere"
    line = session_of(rows)[4]
    assert isinstance(line, AssistantLine)
    assert (line.content, line.reasoning) == ("Drei", "elsewhere")


@pytest.mark.parametrize(
    ("text", "extra", "reasoning"),
    [
        ("Hello.", {"reasoning": "She is here."}, "She is here."),
        ("<think>She is here.</think>\n\nHello.", {}, "She is here."),
        ("<think>Now.</think>Hello.", {"reasoning": "She is here."}, "She is here.\n\nNow."),
        ("Hello.", {"reasoning": ""}, ""),
        ("Hello.", {"reasoning": 5}, ""),
    ],
)
def test_the_reasoning_of_a_foreign_chat_is_kept_apart_and_goes_back(
    text: str, extra: dict[str, Any], reasoning: str
) -> None:
    rows = [HEADER, message("Hi", user=True), message(text, extra=extra)]
    lines = again(session_of(rows))
    line = lines[-1]
    assert isinstance(line, AssistantLine)
    assert (line.content, line.reasoning) == ("Hello.", reasoning)
    assert chat_of(lines, "x", "y") == rows
    lines.append(UserLine("More", 2, NOW))
    assert session_of(chat_of(lines, "x", "y")) == lines


def test_a_foreign_chat_imported_before_there_was_reasoning_still_goes_back_as_it_came() -> None:
    rows = [HEADER, message("Hello.", extra={"reasoning": "She is here."})]
    lines = session_of(rows)
    kept = lines[1]
    assert isinstance(kept, AssistantLine)
    old = AssistantLine(kept.content, kept.turn, kept.timestamp, extra=kept.extra)
    assert chat_of([lines[0], old], "x", "y") == rows
