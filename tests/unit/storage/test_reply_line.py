"""The reply's line is whole after every token and can be read after any tear."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from personalab.storage.reply_line import ReplyLine, recover
from personalab.story.transcript import AssistantLine, parse_line

TIME = "2025-10-16T10:30:15Z"
anything = st.text(st.characters(), max_size=12)


def _open(path: Path, before: bytes = b"") -> int:
    path.write_bytes(before)
    return os.open(path, os.O_RDWR)


@given(st.lists(anything, max_size=12))
@example(["\ud83d", "\ude00"])
@example(['"}', "\\", "\u2028", "\x00", '","turn":1,"timestamp":"x"}'])
def test_the_file_is_valid_json_with_all_the_text_after_every_token(
    tmp_path_factory: pytest.TempPathFactory, tokens: list[str]
) -> None:
    path = tmp_path_factory.mktemp("line") / "s.jsonl"
    fd = _open(path, b'{"role":"user","content":"x","turn":1,"timestamp":""}\n')
    line = ReplyLine(fd, path.stat().st_size, 1, TIME)
    said = ""
    for token in tokens:
        line.write(token)
        said += token
        raw = path.read_bytes().split(b"\n")[1]
        assert json.loads(raw)["content"] == json.loads(json.dumps(said))
    end = line.close("interrupted")
    os.close(fd)
    assert path.stat().st_size == end
    found = parse_line(path.read_bytes().split(b"\n")[1])
    assert found.interrupted  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def test_the_closed_line_is_the_sources_line_to_the_byte(tmp_path: Path) -> None:
    fd = _open(tmp_path / "s")
    line = ReplyLine(fd, 0, 42, TIME)
    for token in ("我当然记得。（沉默片刻）", "我答应过你，不会"):
        line.write(token)
    line.close("interrupted")
    os.close(fd)
    expected = (
        '{"role":"assistant","content":"我当然记得。（沉默片刻）我答应过你，不会","turn":42,'
        '"timestamp":"2025-10-16T10:30:15Z","interrupted":true}\n'
    )
    assert (tmp_path / "s").read_text(encoding="utf-8") == expected


@given(st.lists(anything, min_size=1, max_size=6), st.data())
@example(['say "}', "x"], None)
def test_a_torn_write_loses_nothing_that_was_written_before_it(
    tmp_path_factory: pytest.TempPathFactory, tokens: list[str], data: st.DataObject | None
) -> None:
    path = tmp_path_factory.mktemp("torn") / "s"
    fd = _open(path)
    line = ReplyLine(fd, 0, 7, TIME)
    for token in tokens[:-1]:
        line.write(token)
    before = path.read_bytes()
    line.write(tokens[-1])
    after = path.read_bytes()
    os.close(fd)
    shown, whole = "".join(tokens[:-1]), "".join(tokens)
    start = len(before) - len(f'","turn":7,"timestamp":"{TIME}"}}'.encode())
    cuts = range(start, len(after) + 1) if data is None else [data.draw(st.integers(start, len(after)))]
    for cut in cuts:
        for torn in (after[:cut], after[:cut] + before[cut:], after[:cut] + b"\x00" * 40):
            found = recover(torn, 7)
            assert found is not None
            _same_start(found.content, shown)
            assert found.turn == 7
            if cut == len(after):
                assert _plain(found.content) == _plain(whole)


@given(
    st.lists(st.tuples(st.booleans(), st.text("ab甲\n", min_size=1, max_size=30)), max_size=8),
    st.text('xy乙"\\', max_size=20),
    st.booleans(),
)
def test_a_torn_write_keeps_reasoning_out_of_the_content(
    tmp_path_factory: pytest.TempPathFactory, written: list[tuple[bool, str]], last: str, thinks: bool
) -> None:
    path = tmp_path_factory.mktemp("torn") / "s"
    fd = _open(path)
    line = ReplyLine(fd, 0, 7, TIME)
    line.think("RRR")
    shown = {True: "RRR", False: ""}
    for is_reasoning, text in written:
        # Reasoning is upper case, speech is lower case.
        text = text.upper().replace("甲", "丙") if is_reasoning else text
        line.think(text) if is_reasoning else line.write(text)
        shown[is_reasoning] += text
        found = parse_line(path.read_bytes())
        assert isinstance(found, AssistantLine)
        assert (found.content, found.reasoning) == (shown[False], shown[True])
    before = path.read_bytes()
    for token in [last] if thinks else [last[at : at + 4] for at in range(0, len(last), 4)]:
        line.think(token.upper()) if thinks else line.write(token)
        after = path.read_bytes()
        for cut in range(len(after) + 1):
            for torn in (after[:cut] + before[cut:], after[: max(cut, len(before) - 2)]):
                found = recover(torn, 7)
                assert found is not None
                assert found.content.startswith(shown[False])
                assert not set(found.content) & set("RABXY丙")
                assert not set(found.reasoning) & set("abxy甲")
                if thinks:
                    assert found.content == shown[False]
        before = after
    os.close(fd)


def _plain(text: str) -> str:
    """Join surrogate halves as JSON does."""
    return json.loads(json.dumps(text))


def _same_start(found: str, shown: str) -> None:
    wanted = _plain(shown)
    if wanted and "\ud800" <= wanted[-1] <= "\udbff":
        wanted = wanted[:-1]
    assert found.startswith(wanted)


def test_what_is_no_reply_is_not_recovered() -> None:
    assert recover(b'{"role":"user","content":"half a sen', 1) is None


def test_an_empty_reply_can_be_replaced_by_its_note(tmp_path: Path) -> None:
    fd = _open(tmp_path / "s")
    line = ReplyLine(fd, 0, 1, TIME)
    line.write(" \n " * 50)
    line.restart("(无回复)")
    line.close("empty")
    os.close(fd)
    found = json.loads((tmp_path / "s").read_bytes())
    assert found == {"role": "assistant", "content": "(无回复)", "turn": 1, "timestamp": TIME, "empty": True}
