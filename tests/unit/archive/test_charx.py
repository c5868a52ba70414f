"""A card comes out of a CHARX file, and goes into it without touching the assets."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.archive import charx
from personalab.archive.charx import read_charx, write_charx
from personalab.archive.foreign_files import MAX_CARRIER_BYTES
from personalab.errors import BadRecord
from tests.support.archive import making

CARD = making.v3_card()
RAW = making.json_bytes(CARD)


def _read(raw: bytes) -> Any:
    return json.loads(read_charx(io.BytesIO(raw)))


def _refused(raw: bytes) -> str:
    with pytest.raises(BadRecord) as raised:
        read_charx(io.BytesIO(raw))
    return str(raised.value)


def _packed(raw: bytes) -> dict[str, tuple[int, int, bytes]]:
    """List every member of a zip with how it is packed, checking that it unpacks."""
    found: dict[str, tuple[int, int, bytes]] = {}
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        assert archive.testzip() is None
        for member in archive.infolist():
            name, extra = struct.unpack_from("<HH", raw, member.header_offset + 26)
            start = member.header_offset + 30 + name + extra
            packed = raw[start : start + member.compress_size]
            found[member.filename] = (member.compress_type, member.CRC, packed)
    return found


def test_the_card_is_read_packed_or_not() -> None:
    assert _read(making.charx(CARD, main=b"\x89PNG")) == CARD
    assert _read(making.zip_of({"card.json": RAW}, compression=zipfile.ZIP_STORED)) == CARD


def test_a_picture_may_stand_before_the_archive() -> None:
    assert _read(making.zip_of({"card.json": RAW}, prefix=b"\xff\xd8\xff a picture")) == CARD
    moved = b"\xff\xd8\xff a picture" + making.charx(CARD)
    assert _read(moved) == CARD


def test_an_archive_without_a_card_is_said_to_hold_none() -> None:
    assert "no card.json" in _refused(making.zip_of({"sub/card.json": RAW}))
    assert "no card.json" in _refused(making.zip_of({}))


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "assets/../../evil",
        "assets/..",
        "/etc/passwd",
        "C:evil",
        "c:/evil",
        "..\\evil",
        "assets\\evil.png",
        "evil\0.png",
        "evil\x1b[2J.png",
    ],
)
def test_a_member_whose_name_leads_astray_has_the_whole_file_refused(name: str) -> None:
    raw = making.zip_of({"card.json": RAW, name: b"x"})
    message = _refused(raw)
    assert "evil" in message or "passwd" in message or "assets/.." in message
    assert not any(ord(letter) < 32 for letter in message)
    with pytest.raises(BadRecord):
        write_charx(raw, CARD)


def test_names_with_dots_that_lead_nowhere_are_fine() -> None:
    assert _read(making.zip_of({"card.json": RAW, "assets/a..b/...png": b"x", "资源/图.png": b"x"})) == CARD


def test_a_member_that_is_there_twice_is_refused() -> None:
    twice = making.zip_of({"card.json": RAW, "card.jsoX": b"{}"}).replace(b"card.jsoX", b"card.json")
    assert "twice" in _refused(twice)


def test_an_encrypted_member_is_refused() -> None:
    raw = bytearray(making.zip_of({"card.json": RAW}))
    raw[6] |= 1
    raw[raw.index(b"PK\1\2") + 8] |= 1
    message = _refused(bytes(raw))
    assert "card.json" in message
    assert "encrypted" in message


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_packings_whose_memory_cannot_be_bounded_are_refused(compression: int) -> None:
    assert "not supported" in _refused(making.zip_of({"card.json": RAW}, compression=compression))


def test_more_members_than_allowed_are_refused() -> None:
    many = {str(number): b"" for number in range(charx.MAX_MEMBERS)}
    raw = making.zip_of({"card.json": RAW, **many}, compression=zipfile.ZIP_STORED)
    assert str(charx.MAX_MEMBERS) in _refused(raw)


def test_members_that_lie_in_one_another_are_refused() -> None:
    raw = making.zip_of({"card.json": RAW, "a": b"x"}, compression=zipfile.ZIP_STORED)
    second = raw.index(b"PK\1\2", raw.index(b"PK\1\2") + 1)
    raw = raw[: second + 42] + struct.pack("<I", 4) + raw[second + 46 :]
    assert "overlaps" in _refused(raw)


def test_a_damaged_card_is_refused() -> None:
    raw = bytearray(making.zip_of({"card.json": RAW}, compression=zipfile.ZIP_STORED))
    raw[raw.index(b"Seraphina")] ^= 1
    assert "broken" in _refused(bytes(raw))


def test_an_archive_that_is_too_large_is_refused_before_it_is_read() -> None:
    class Endless(io.BytesIO):
        def seek(self, offset: int, whence: int = 0, /) -> int:
            return MAX_CARRIER_BYTES + 1 if whence else super().seek(offset)

        def read(self, size: int | None = -1, /) -> bytes:
            raise AssertionError("it was read")

    with pytest.raises(BadRecord, match=str(MAX_CARRIER_BYTES)):
        read_charx(Endless())


# --- writing


def test_a_new_archive_holds_the_card_alone_and_is_always_the_same() -> None:
    fresh = write_charx(None, CARD)
    assert list(_packed(fresh)) == ["card.json"]
    assert _read(fresh) == CARD
    assert fresh == write_charx(None, CARD)


def test_assets_travel_packed_as_they_were_and_the_old_card_is_gone() -> None:
    secret = making.v3_card(description="an old secret")
    before = making.zip_of(
        {"assets/a.png": b"\x89PNG" * 99, "card.json": making.json_bytes(secret), "模块.risum": b"\0\1"},
        compression=zipfile.ZIP_STORED,
    )
    after = write_charx(before, CARD)
    assert _read(after) == CARD
    assert {name: kept for name, kept in _packed(after).items() if name != "card.json"} == {
        name: kept for name, kept in _packed(before).items() if name != "card.json"
    }
    assert b"an old secret" not in after


def test_sizes_that_stand_behind_the_data_are_brought_to_the_front() -> None:
    class Stream(io.BytesIO):
        def seekable(self) -> bool:
            return False

    stream = Stream()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.bin", b"abc" * 100)
        archive.writestr("card.json", RAW)
    before = stream.getvalue()
    after = write_charx(before, CARD)
    assert _packed(after)["a.bin"] == _packed(before)["a.bin"]


def test_the_picture_before_an_archive_and_its_comment_stay() -> None:
    before = making.zip_of({"card.json": b"{}", "a": b"x"}, prefix=b"\xff\xd8\xff a picture")
    after = write_charx(before, CARD)
    assert after.startswith(b"\xff\xd8\xff a picturePK\3\4")
    assert _read(after) == CARD


@given(st.dictionaries(st.text("abc/é山", min_size=1, max_size=6), st.binary(max_size=60), max_size=5))
def test_whatever_was_beside_a_card_is_there_afterwards(members: dict[str, bytes]) -> None:
    members = {f"assets/{name}": content for name, content in members.items()}
    before = making.zip_of({**members, "card.json": b"{}"})
    after = write_charx(before, CARD)
    with zipfile.ZipFile(io.BytesIO(after)) as archive:
        assert {name: archive.read(name) for name in archive.namelist() if name != "card.json"} == members
    assert _read(after) == CARD
