"""A file is told by what is in it, whatever it is called; what is nothing of ours is refused by what it looks like."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.archive.foreign_files import (
    MAX_CARD_BYTES,
    MAX_CARRIER_BYTES,
    MAX_RECORD_BYTES,
    Format,
    detect,
)
from personalab.errors import BadRecord
from personalab.texts import languages
from tests.support.archive import making

FORMATS = get_args(Format)
HEADER: dict[str, Any] = {
    "user_name": "You",
    "character_name": "Seraphina",
    "create_date": "2024-01-01",
    "chat_metadata": {},
}
MESSAGE: dict[str, Any] = {"name": "You", "is_user": True, "mes": "hello", "send_date": 1_700_000_000_000}
VELOCA: dict[str, Any] = {"sessions": [], "entries": [], "compacted_dialogues": []}
WORLD: dict[str, Any] = {"entries": {"0": {"uid": 0, "key": ["a"], "content": "b"}}}


def told(content: bytes, name: str = "file", size: int | None = None) -> str:
    return detect(name, io.BytesIO(content), len(content) if size is None else size)


def refused(content: bytes, size: int | None = None) -> BadRecord:
    with pytest.raises(BadRecord) as raised:
        told(content, size=size)
    return raised.value


def answer(content: bytes) -> str:
    try:
        return told(content)
    except BadRecord as error:
        return error.code


def jsonl(*values: object) -> bytes:
    return b"".join(making.json_bytes(value) + b"\n" for value in values)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (lambda: making.card_png(making.v2_card()), "card_png"),
        (lambda: making.charx(making.v3_card()), "charx"),
        (
            lambda: making.zip_of({"card.json": b"{}"}, prefix=b"\xff\xd8\xff\xe0 a picture before it"),
            "charx",
        ),
        (lambda: making.json_bytes(making.v1_card()), "card_json"),
        (lambda: making.json_bytes(making.v2_card()), "card_json"),
        (lambda: b"\xef\xbb\xbf" + making.json_bytes(making.v3_card()), "card_json"),
        (lambda: json.dumps(making.v2_card(), indent=2).encode(), "card_json"),
        (lambda: making.json_bytes({"data": {"name": "x"}, "spec": 4}), "card_json"),
        (lambda: making.json_bytes({"spec": "chara_card_v9", "data": {}}), "card_json"),
        (lambda: making.json_bytes(making.character_book()), "lorebook"),
        (lambda: making.json_bytes(making.character_book(description="of a world")), "lorebook"),
        (lambda: making.json_bytes({"spec": "lorebook_v3", "data": {"entries": []}}), "lorebook"),
        (lambda: making.json_bytes(WORLD), "world_info"),
        (lambda: making.json_bytes({**WORLD, "name": "x", "description": "y"}), "world_info"),
        (lambda: making.json_bytes(VELOCA), "veloca"),
        (lambda: json.dumps(VELOCA, indent=4).encode(), "veloca"),
        (lambda: jsonl(HEADER, MESSAGE), "chat"),
        (lambda: jsonl(HEADER), "chat"),
        (lambda: jsonl(MESSAGE, MESSAGE), "chat"),
        (lambda: b"\xef\xbb\xbf\n\n" + jsonl(HEADER, MESSAGE), "chat"),
        (lambda: jsonl(HEADER) + b"{broken\n", "chat"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_is_told_by_its_content(content: Callable[[], bytes], expected: str) -> None:
    for name in ("a.png", "a.json", "a"):
        assert told(content(), name) == expected


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xd8\xff\xe0\x00\x10JFIF", "JPEG"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "WebP"),
        (b"GIF89a", "GIF"),
        (b"%PDF-1.7", "PDF"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"Rar!\x1a\x07", "RAR"),
        ("{}".encode("utf-16"), "UTF-16"),
        (b"\x00\x01\x02", "binary"),
        ("一段文字".encode(), "plain text"),
        (b" \n\t ", "blanks"),
        (b"[1, 2]", "list"),
        (b'{"answer": 42}', "answer"),
        (b"{}", "fields"),
        (jsonl({"type": "metadata"}, {"role": "user"}), "type"),
        (jsonl(making.v1_card(), making.v1_card()), "several"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_nothing_of_ours_is_refused_with_what_it_looks_like(content: bytes, words: str) -> None:
    error = refused(content)
    assert error.code == "format_unknown"
    assert words in str(error)
    assert "SillyTavern" in str(error)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"name": "talk", "scenario": "An inn.", "messages": [{"msg": "Hi."}]}, ("Agnai", "JSONL")),
        (
            {
                "kind": "character",
                "name": "Bo",
                "persona": {"kind": "text"},
                "greeting": "Hi.",
                "scenario": "An inn.",
            },
            ("Agnai", "V2"),
        ),
        ({"name": "Bo", "persona": {"attributes": {}}, "description": "x"}, ("Agnai", "V2")),
        ({"lorebookVersion": 5, "entries": [{"text": "Salt.", "keys": ["sea"]}]}, ("NovelAI", "World Info")),
        (
            {"kind": "memory", "name": "b", "entries": [{"entry": "Salt.", "keywords": ["sea"]}]},
            ("Agnai", "World Info"),
        ),
        ({"type": "risu", "ver": 1, "data": [{"key": "sea", "content": "Salt."}]}, ("RisuAI", "World Info")),
    ],
    ids=["chat", "character", "older character", "novelai", "memory", "risu"],
)
def test_a_file_of_another_program_is_named_with_what_to_bring_instead(
    value: object, words: tuple[str, ...]
) -> None:
    error = refused(making.json_bytes(value))
    assert error.code == "format_unknown"
    for language in languages():
        assert all(word in error.message(language) for word in words)
    assert "看起来是" in error.message("zh")


def test_a_card_that_happens_to_say_so_too_stays_a_card() -> None:
    for card in (
        making.v1_card(kind="character", greeting="x"),
        making.v2_card(kind="character", messages=[]),
    ):
        assert told(making.json_bytes(card)) == "card_json"


def test_an_empty_file_says_so() -> None:
    assert refused(b"").code == "file_empty"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b'{"name": "x", "description": ', "not_json"),
        (b'{"name": "\xff"}', "not_utf8"),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "too_deep"),
        (b'{"a":' * 200_000 + b"1" + b"}" * 200_000, "too_deep"),
        (b'{"description": NaN, "name": "x"}', "not_json"),
    ],
    ids=["cut off", "not UTF-8", "deep", "very deep", "NaN"],
)
def test_json_that_cannot_be_read_says_why(content: bytes, code: str) -> None:
    assert refused(content).code == code


class _Counted(io.BytesIO):
    """Counts how much is read of it."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        self.taken += len(found)
        return found


@pytest.mark.parametrize(
    ("content", "size", "limit"),
    [
        (b"{", MAX_RECORD_BYTES + 1, MAX_RECORD_BYTES),
        (making.PNG_SIGNATURE, MAX_CARRIER_BYTES + 1, MAX_CARRIER_BYTES),
        (b"PK\x03\x04", MAX_CARRIER_BYTES + 1, MAX_CARRIER_BYTES),
    ],
)
def test_a_size_is_refused_before_the_file_is_read(content: bytes, size: int, limit: int) -> None:
    file = _Counted(content)
    with pytest.raises(BadRecord) as raised:
        detect("file", file, size)
    assert (raised.value.code, raised.value.params["limit"]) == ("too_large", limit)
    assert file.taken <= 4096


def test_a_long_file_is_a_chat_or_an_archive_and_is_not_read_for_that() -> None:
    pad = b" " * MAX_CARD_BYTES
    archive = _Counted(b'{"sessions": [' + pad + b"], \n" + b'"entries": []}')
    assert detect("file", archive, len(archive.getvalue())) == "veloca"
    assert archive.taken < 1024 * 1024
    chat = _Counted(jsonl(HEADER, {**MESSAGE, "mes": "x" * MAX_CARD_BYTES}))
    assert detect("file", chat, len(chat.getvalue())) == "chat"
    assert chat.taken < 1024 * 1024
    book = b'{"name": "x", \n"entries": [' + pad + b"]}"
    assert refused(book).code == "too_large"


@given(
    st.one_of(
        st.binary(max_size=300), st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))
    )
)
def test_whatever_a_file_holds_it_is_told_or_refused(content: bytes) -> None:
    assert answer(content) in (*FORMATS, "format_unknown", "file_empty", "not_json", "not_utf8")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["spec", "data", "name", "entries", "sessions", "mes", "chat_metadata", "description"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(_JSON)
def test_whatever_json_a_file_holds_it_is_told_or_refused(value: object) -> None:
    assert answer(making.json_bytes(value)) in (*FORMATS, "format_unknown")
