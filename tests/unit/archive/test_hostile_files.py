"""Files made to do harm are refused by what is wrong with them, within the memory a good one may take."""

from __future__ import annotations

import base64
import io
import json
import random
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from personalab.archive.cards import read_card
from personalab.archive.charx import read_charx
from personalab.archive.foreign_files import load_json
from personalab.archive.png import read_card_png
from personalab.errors import BadRecord
from tests.support.archive import making

MEGABYTE = 1024 * 1024
BOMB_BYTES = 300 * MEGABYTE


def _read_json(file: Any) -> object:
    return read_card(load_json(file.read()))


READERS: dict[str, Callable[[Any], object]] = {
    "png": read_card_png,
    "charx": read_charx,
    "json": _read_json,
}
SMALL = {"spec": "chara_card_v2", "spec_version": "2.0", "data": {"name": "青鸾", "description": "鸟"}}
GOOD: dict[str, bytes] = {
    "png": making.card_png(SMALL, SMALL),
    "charx": making.charx(SMALL, main=b"abc"),
    "json": making.json_bytes(SMALL),
}


@contextmanager
def at_most(megabytes: float) -> Generator[None]:
    """Fail when more memory than this was taken at once."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < megabytes * MEGABYTE, f"{peak / MEGABYTE:.1f} MB"


def _zeros(count: int) -> bytes:
    """Pack zeros without having them in memory."""
    packing = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = bytes(MEGABYTE)
    parts = [packing.compress(piece) for _ in range(count // MEGABYTE)]
    return b"".join([*parts, packing.flush()])


def _zip_with(name: str, packed: bytes, claimed: int) -> bytes:
    """Make a zip of one packed member that claims to unpack to so many bytes."""
    shown = name.encode("utf-8")
    fields = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, 0, len(packed), claimed, len(shown), 0)
    local = b"PK\3\4" + fields + shown + packed
    entry = b"PK\1\2" + struct.pack("<H", 20) + fields + struct.pack("<HHHII", 0, 0, 0, 0, 0) + shown
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(entry), len(local), 0)
    return local + entry + end


def _with_refusal(kind: str, raw: bytes, megabytes: float) -> str:
    with at_most(megabytes), pytest.raises(BadRecord) as raised:
        READERS[kind](io.BytesIO(raw))
    return str(raised.value)


@pytest.fixture(scope="module")
def zeros() -> bytes:
    return _zeros(BOMB_BYTES)


@pytest.mark.parametrize("name", ["card.json", "assets/a.png"])
def test_a_zip_bomb_is_refused_by_what_it_claims(zeros: bytes, name: str) -> None:
    raw = _zip_with(name, zeros, BOMB_BYTES)
    assert name in _with_refusal("charx", raw, 4)


@pytest.mark.parametrize("claimed", [10, 10 * MEGABYTE])
def test_a_zip_bomb_that_lies_about_its_size_is_unpacked_no_further(zeros: bytes, claimed: int) -> None:
    assert "zip" in _with_refusal("charx", _zip_with("card.json", zeros, claimed), 40)


def test_many_members_that_are_too_much_together_are_refused() -> None:
    packed = _zeros(4 * MEGABYTE) + random.Random(1).randbytes(20_000)
    members = {f"assets/{number}": packed for number in range(300)}
    raw = bytearray(making.zip_of(members, compression=zipfile.ZIP_STORED))
    at = 0
    while (at := raw.find(b"PK\1\2", at + 1)) > 0:
        raw[at + 10 : at + 12] = struct.pack("<H", zipfile.ZIP_DEFLATED)
        raw[at + 24 : at + 28] = struct.pack("<I", 4 * MEGABYTE)
    assert "unpacks to" in _with_refusal("charx", bytes(raw), 4)


def test_a_directory_of_a_million_members_is_not_read() -> None:
    entry = b"PK\1\2" + bytes(24) + struct.pack("<HHH", 1, 0, 0) + bytes(12) + b"a"
    directory = entry * 1_000_000
    raw = directory + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 65535, 65535, len(directory), 0, 0)
    assert "members" in _with_refusal("charx", raw, 4)


def test_a_packed_text_that_swells_is_unpacked_no_further_than_a_card_may_be() -> None:
    swelling = zlib.compress(bytes(BOMB_BYTES // 3), 9)
    raw = making.picture(making.chunk(b"zTXt", b"chara\0\0" + swelling))
    assert "chara" in _with_refusal("png", raw, 64)


def test_a_chunk_of_a_gigabyte_is_refused_unread() -> None:
    raw = making.PNG_SIGNATURE + struct.pack(">I4s", 2**30, b"tEXt") + b"chara\0e30="
    message = _with_refusal("png", raw, 1)
    assert "tEXt" in message
    assert "claims 1073741824 bytes" in message


def test_a_gigabyte_of_picture_in_a_sparse_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    with path.open("wb") as file:
        file.write(making.PNG_SIGNATURE + struct.pack(">I4s", 2**30, b"IDAT"))
        file.truncate(2**30 + 100)
    with at_most(1), path.open("rb") as file, pytest.raises(BadRecord, match="limit"):
        read_card_png(file)


@pytest.mark.parametrize("kind", READERS)
def test_a_file_cut_off_at_any_byte_is_refused(kind: str) -> None:
    whole = GOOD[kind]
    READERS[kind](io.BytesIO(whole))
    for length in range(len(whole)):
        with pytest.raises(BadRecord) as raised:
            READERS[kind](io.BytesIO(whole[:length]))
        assert str(raised.value)
        assert raised.value.message("zh")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"a":' * 100_000, "nested"),
        (b"[" * 100_000 + b"]" * 100_000, "nested"),
        (b"[" * 70 + b"]" * 70, "nested"),
        (b'{"name": "x", "description": NaN}', "NaN"),
        (b'{"name": "x", "description": "", "n": -Infinity}', "Infinity"),
        (b'{"name": "x", "description": "", "n": 1e999}', "1e999"),
        (b'{"name": "x", "description": "", "n": ' + b"9" * 100_000 + b"}", "JSON"),
        (b'{"name": "x", "description": "\xff"}', "UTF-8"),
        (b"\xff\xfe{\0}\0", "UTF-8"),
        (b"[]", "the card"),
        (b"null", "the card"),
        (b"{}", "not a character card"),
        (b"", "JSON"),
    ],
    ids=range(13),
)
def test_json_that_is_too_much_or_none_is_refused_in_every_carrier(text: bytes, reason: str) -> None:
    assert reason in _with_refusal("json", text, 32)
    packed = making.chunk(b"tEXt", b"chara\0" + base64.b64encode(text))
    assert reason in _with_refusal("png", making.picture(packed), 32)
    with pytest.raises(BadRecord, match=reason):
        _read_json(io.BytesIO(read_charx(io.BytesIO(making.zip_of({"card.json": text})))))


@pytest.mark.parametrize("part", [b"[],", b"{},", b"1,", b'"ab",'])
def test_a_json_of_nothing_but_tiny_parts_is_refused_before_it_fills_the_memory(part: bytes) -> None:
    raw = b'{"name": "x", "a": [' + part * (12 * MEGABYTE // len(part)) + b"0]}"
    with at_most(64), pytest.raises(BadRecord, match="tiny parts"):
        load_json(raw)


def test_brackets_and_commas_inside_texts_are_no_parts() -> None:
    text = '[[0.25,0.5],\\"{\\"\\\\]' * 250_000
    raw = json.dumps({"name": "x", "said": [text, text]}).encode("utf-8")
    assert load_json(raw) == {"name": "x", "said": [text, text]}


def test_a_json_longer_than_a_card_may_be_is_refused_unparsed() -> None:
    raw = b'{"name": "x", "description": "' + b"a" * (17 * MEGABYTE) + b'"}'
    with at_most(4), pytest.raises(BadRecord, match="limit"):
        load_json(raw)


@pytest.mark.parametrize("kind", READERS)
@given(raw=st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(kind: str, raw: bytes) -> None:
    _read_or_refuse(kind, raw)
    _read_or_refuse("png", making.PNG_SIGNATURE + raw)
    _read_or_refuse("png", making.picture(making.chunk(b"iTXt", b"chara\0" + raw)))
    _read_or_refuse("png", making.picture(making.chunk(b"zTXt", b"ccv3\0" + raw)))
    _read_or_refuse("charx", making.zip_of({"card.json": raw}))


@pytest.mark.parametrize("kind", READERS)
@settings(max_examples=300)
@given(data=st.data())
def test_a_good_file_with_any_bytes_changed_is_read_or_refused(kind: str, data: st.DataObject) -> None:
    raw = bytearray(GOOD[kind])
    places = st.integers(0, len(raw) - 1)
    for at, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=6)):
        raw[at] = value
    _read_or_refuse(kind, bytes(raw))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = (
    "name",
    "description",
    "first_mes",
    "alternate_greetings",
    "extensions",
    "character_book",
    "nickname",
)


@given(
    st.dictionaries(st.sampled_from((*FIELDS, "data", "spec", "spec_version")), JSON_VALUES), st.booleans()
)
def test_fields_of_any_kind_are_read_or_refused_by_name(fields: dict[str, object], is_inside: bool) -> None:
    inside = {"spec": "chara_card_v3", "spec_version": "3.0", "data": {"name": "x", **fields}}
    card: object = inside if is_inside else {"name": "x", **fields}
    with suppress(BadRecord):
        read = read_card(card)
        assert read.name
        assert isinstance(json.dumps([read.greetings, read.nickname, read.book, read.is_newer]), str)


def _read_or_refuse(kind: str, raw: bytes) -> None:
    """Read a file, or see it refused: any other failure is one."""
    with suppress(BadRecord):
        assert READERS[kind](io.BytesIO(raw)) is not None
