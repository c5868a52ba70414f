"""A session file is read once, kept in step with its file, mended when it was torn, and written by one writer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.errors import StorageError
from personalab.storage.sessions import SessionCache, SessionWriter
from personalab.story.transcript import AssistantLine, Metadata, UserLine, dump_line, line_fields, parse_line

HEAD = Metadata("inst_001", "sess_001", "2025-10-16T10:00:00Z")


def _session(folder: Path, *lines: Any, tail: bytes = b"") -> Path:
    path = folder / "sess_001.jsonl"
    path.write_bytes(b"".join(dump_line(line) for line in (HEAD, *lines)) + tail)
    return path


def _turns(cache: SessionCache, path: Path) -> list[tuple[int, str, list[str]]]:
    found = cache.load(path, path.name).transcript.turns
    return [(t.number, t.user.content if t.user else "", [r.content for r in t.replies]) for t in found]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
extras = st.dictionaries(st.text(min_size=1, max_size=8).map("x_".__add__), json_values, max_size=3)


@given(st.text(max_size=40), st.integers(0, 10**9), extras, st.booleans())
def test_a_line_survives_being_written_and_read_with_its_unknown_fields(
    content: str, turn: int, extra: dict[str, Any], flag: bool
) -> None:
    for line in (
        UserLine(content, turn, "2025-10-16T10:30:00Z", extra),
        AssistantLine(content, turn, "2025-10-16T10:30:00Z", interrupted=flag, error=not flag, extra=extra),
    ):
        written = dump_line(line)
        assert written.count(b"\n") == 1
        again = parse_line(written)
        assert line_fields(again) == line_fields(line)
        assert dump_line(again) == written


def test_only_what_another_process_appended_is_parsed_again(tmp_path: Path) -> None:
    path, cache = _session(tmp_path, UserLine("a", 1, "")), SessionCache()
    first = cache.load(path, "s").transcript.turns[0]
    with path.open("ab") as file:
        file.write(dump_line(AssistantLine("b", 1, "")) + dump_line(UserLine("c", 2, "")))
    cache.load(path, "s")
    with path.open("ab") as file:
        file.write(dump_line(AssistantLine("d", 2, "")))
    again = cache.load(path, "s").transcript
    assert again.turns[0].user is first.user
    assert first.replies == [], "what was handed out before stays as it was"
    assert _turns(cache, path) == [(1, "a", ["b"]), (2, "c", ["d"])]


def test_an_edit_by_hand_that_changes_neither_size_nor_time_is_noticed(tmp_path: Path) -> None:
    path, cache = _session(tmp_path, UserLine("aaa", 1, "")), SessionCache()
    stat = path.stat()
    assert _turns(cache, path)[0][1] == "aaa"
    path.write_bytes(path.read_bytes().replace(b"aaa", b"bbb"))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert _turns(cache, path)[0][1] == "bbb"


def test_a_file_replaced_by_an_editor_is_read_anew(tmp_path: Path) -> None:
    path, cache = _session(tmp_path, UserLine("long ago", 1, "")), SessionCache()
    _turns(cache, path)
    path.unlink()
    _session(tmp_path, UserLine("x", 1, ""), UserLine("y", 2, ""))
    assert [turn[1] for turn in _turns(cache, path)] == ["x", "y"]


def test_line_separators_of_unicode_do_not_split_a_line(tmp_path: Path) -> None:
    text = "one\u2028two\u2029three\x85four\x0bfive"
    path = _session(tmp_path, UserLine(text, 1, ""))
    assert _turns(SessionCache(), path) == [(1, text, [])]


def test_a_broken_line_in_the_middle_is_named_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(dump_line(HEAD) + b'{"role":"user","content":\n' + dump_line(UserLine("a", 1, "")))
    with pytest.raises(StorageError) as caught:
        SessionCache().load(path, "sessions/s.jsonl")
    assert caught.value.code == "line_broken"
    assert "Line 2 of sessions/s.jsonl" in str(caught.value)
    assert "doctor" in str(caught.value)


@pytest.mark.parametrize(
    "junk", [b"[1]\n", b"1\n", b'{"role":"user"}\n', b"\xff\xfe\n", b"[" * 100_000 + b"\n"]
)
def test_what_is_no_line_is_refused_and_not_half_taken(tmp_path: Path, junk: bytes) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(dump_line(HEAD) + junk)
    cache = SessionCache()
    for _ in range(2):
        with pytest.raises(StorageError):
            cache.load(path, "s")


def test_opening_closes_a_reply_whose_writer_died_as_interrupted(tmp_path: Path) -> None:
    open_line = dump_line(AssistantLine("half a rep", 1, "2025-10-16T10:30:15Z")).rstrip(b"\n")
    path = _session(tmp_path, UserLine("a", 1, ""), tail=open_line)
    cache = SessionCache()
    seen = cache.load(path, "s").view().turns[-1].last_reply
    assert seen is not None
    assert (seen.content, seen.closed) == ("half a rep", False)
    writer = SessionWriter(cache.load(path, "s"), "s")
    writer.close()
    assert writer.mended == ["repaired"]
    last = parse_line(path.read_bytes().splitlines()[-1])
    assert last == AssistantLine("half a rep", 1, "2025-10-16T10:30:15Z", interrupted=True)
    assert path.read_bytes().endswith(b"\n")


@given(st.integers(0, 200))
def test_opening_a_session_cut_anywhere_in_its_last_line_gives_a_session_that_can_be_written(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    reply = dump_line(AssistantLine('他说："走吧\\n" \U0001f600 ok', 1, "2025-10-16T10:30:15Z"))
    path = _session(folder, UserLine("a", 1, "2025-10-16T10:30:00Z"), tail=reply[: min(cut, len(reply))])
    writer = SessionWriter(SessionCache().load(path, "s"), "s")
    writer.append(UserLine("next", 2, ""))
    writer.close()
    fresh = SessionCache().load(path, "s").transcript
    assert [turn.number for turn in fresh.turns] == [1, 2]
    assert all(parse_line(line) for line in path.read_bytes().splitlines())


def test_a_user_line_that_was_cut_off_is_kept_aside(tmp_path: Path) -> None:
    path = _session(tmp_path, tail=b'{"role":"user","content":"half a sen')
    SessionWriter(SessionCache().load(path, "s"), "s").close()
    assert path.read_bytes() == dump_line(HEAD)
    assert (tmp_path / "sess_001.torn").read_bytes() == b'{"role":"user","content":"half a sen\n'


def test_a_session_deleted_while_a_reply_is_written_comes_back_with_it(tmp_path: Path) -> None:
    path = _session(tmp_path, UserLine("a", 1, ""))
    writer = SessionWriter(SessionCache().load(path, "s"), "s")
    reply = writer.begin_reply(1, "t")
    reply.write("hello")
    path.unlink()
    reply.write(" there")
    assert writer.end_reply(AssistantLine("hello there", 1, "t"))
    writer.close()
    assert _turns(SessionCache(), path) == [(1, "a", ["hello there"])]


def test_a_session_replaced_by_an_editor_while_a_reply_is_written_gets_the_reply(tmp_path: Path) -> None:
    path = _session(tmp_path, UserLine("a", 1, ""))
    writer = SessionWriter(SessionCache().load(path, "s"), "s")
    reply = writer.begin_reply(1, "t")
    reply.write("hello")
    path.unlink()
    _session(tmp_path, UserLine("edited", 1, ""))
    writer.end_reply(AssistantLine("hello", 1, "t"))
    writer.close()
    assert _turns(SessionCache(), path) == [(1, "edited", ["hello"])]


def test_an_edit_by_hand_with_its_time_set_back_is_noticed_later_too(tmp_path: Path) -> None:
    path, cache = _session(tmp_path, UserLine("aaa", 1, "")), SessionCache()
    os.utime(path, ns=(10**18, 10**18))
    time.sleep(0.06)
    assert _turns(cache, path)[0][1] == "aaa"
    assert cache.load(path, "s") is cache.load(path, "s")
    path.write_bytes(path.read_bytes().replace(b"aaa", b"bbb"))
    os.utime(path, ns=(10**18, 10**18))
    assert _turns(cache, path)[0][1] == "bbb"


def _truncate(path: Path) -> None:
    os.truncate(path, 10)


def _save_longer(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(dump_line(HEAD) + dump_line(UserLine("a much longer text than before " * 9, 1, "")))


def _save_elsewhere(path: Path) -> None:
    half = path.read_bytes()
    path.unlink()
    path.write_bytes(half)


def _save_without_line_end(path: Path) -> None:
    path.unlink()
    path.write_bytes((dump_line(HEAD) + dump_line(UserLine("a", 1, ""))).rstrip())


@pytest.mark.parametrize("edit", [_truncate, _save_longer, _save_elsewhere, _save_without_line_end])
def test_a_session_changed_in_any_way_during_a_reply_can_be_read_and_holds_the_reply_once(
    tmp_path: Path, edit: Callable[[Path], None]
) -> None:
    path = _session(tmp_path, UserLine("a", 1, ""))
    writer = SessionWriter(SessionCache().load(path, "s"), "s")
    reply = writer.begin_reply(1, "t")
    reply.write("one ")
    edit(path)
    reply.write("two")
    assert writer.end_reply(AssistantLine("one two", 1, "t"))
    writer.close()
    fresh = SessionCache().load(path, "s")
    assert not fresh.torn
    assert [line.content for turn in fresh.transcript.turns for line in turn.replies] == ["one two"]
    SessionWriter(fresh, "s").append(UserLine("next", 2, ""))


def test_a_session_that_changed_since_it_was_read_is_not_written(tmp_path: Path) -> None:
    path = _session(tmp_path)
    writer = SessionWriter(SessionCache().load(path, "s"), "s")
    with path.open("ab") as file:
        file.write(dump_line(UserLine("someone else", 1, "")))
    with pytest.raises(StorageError) as caught:
        writer.append(UserLine("me", 1, ""))
    writer.close()
    assert caught.value.code == "session_changed"
    assert _turns(SessionCache(), path) == [(1, "someone else", [])]


def test_a_file_without_one_readable_line_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b'{"role":"user"\r{"role":"user"\r')
    with pytest.raises(StorageError):
        SessionWriter(SessionCache().load(path, "s"), "s")
    assert path.read_bytes() == b'{"role":"user"\r{"role":"user"\r'
    assert not path.with_suffix(".torn").exists()


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    raw = dump_line(HEAD) + dump_line(UserLine("a", 1, ""))
    path.write_bytes(b"\xef\xbb\xbf" + raw.replace(b"\n", b"\r\n"))
    assert _turns(SessionCache(), path) == [(1, "a", [])]
