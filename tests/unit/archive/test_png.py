"""A card comes out of a picture, and goes into it without touching the rest."""

from __future__ import annotations

import base64
import io
import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.archive import png
from personalab.archive.foreign_files import MAX_CARRIER_BYTES
from personalab.archive.png import read_card_png, write_card_png
from personalab.errors import BadRecord
from tests.support.archive import making

V2, V3 = making.v2_card(name="Two"), making.v3_card(name="Three")


def _read(raw: bytes) -> Any:
    return json.loads(read_card_png(io.BytesIO(raw)).removeprefix(b"\xef\xbb\xbf"))


def _refused(raw: bytes) -> str:
    with pytest.raises(BadRecord) as raised:
        read_card_png(io.BytesIO(raw))
    return str(raised.value)


def test_of_both_chunks_v3_wins_wherever_it_stands() -> None:
    assert _read(making.card_png(V2, V3)) == V3
    assert _read(making.picture(making.text_chunk("ccv3", V3), making.text_chunk("chara", V2))) == V3
    assert _read(making.card_png(V2)) == V2


def test_of_two_with_the_same_keyword_the_first_is_taken_as_elsewhere() -> None:
    assert _read(making.picture(making.text_chunk("chara", V2), making.text_chunk("chara", V3))) == V2


def test_the_keyword_may_be_in_capitals() -> None:
    assert _read(making.picture(making.text_chunk("Chara", V2))) == V2
    assert _read(making.picture(making.text_chunk("CCV3", V3))) == V3


@pytest.mark.parametrize(
    "broken",
    [
        making.chunk(b"tEXt", b"ccv3\0!!!"),
        making.chunk(b"tEXt", b"ccv3\0" + base64.b64encode(b"{")),
        making.chunk(b"tEXt", b"ccv3\0" + base64.b64encode(b"[]")),
        making.chunk(b"tEXt", b"ccv3\0" + base64.b64encode(b"{}")),
        making.chunk(b"tEXt", b"ccv3\0" + base64.b64encode(making.json_bytes(V3)), crc=1),
    ],
    ids=["no base64", "no JSON", "no object", "no card", "wrong checksum"],
)
def test_a_v3_chunk_that_cannot_be_read_leaves_the_v2_one(broken: bytes) -> None:
    assert _read(making.picture(broken, making.text_chunk("chara", V2))) == V2
    assert _refused(making.picture(broken))


def test_the_card_may_be_packed_or_international_text() -> None:
    text = base64.b64encode(making.json_bytes(V2))
    packed = zlib.compress(text)
    for body, kind in [
        (b"chara\0\0" + packed, b"zTXt"),
        (b"chara\0\0\0en\0card\0" + text, b"iTXt"),
        (b"chara\0\1\0\0\0" + packed, b"iTXt"),
    ]:
        assert _read(making.picture(making.chunk(kind, body))) == V2


def test_base64_may_be_wrapped_unpadded_url_safe_or_left_out() -> None:
    card = making.v2_card(name="Ne?>", description="~~~???>>>")
    raw = making.json_bytes(card)
    for text in (
        base64.encodebytes(raw),
        base64.b64encode(raw).rstrip(b"="),
        base64.urlsafe_b64encode(raw),
        b" " + base64.b64encode(raw) + b"\r\n",
        raw,
        base64.b64encode(b"\xef\xbb\xbf" + raw),
    ):
        assert _read(making.picture(making.chunk(b"tEXt", b"chara\0" + text))) == card


def test_what_follows_the_picture_does_not_matter_and_stays() -> None:
    raw = making.card_png(V2) + b"more"
    assert _read(raw) == V2
    assert write_card_png(raw, {"chara": V3}).endswith(b"more")


def test_a_picture_without_a_card_is_said_to_hold_none() -> None:
    other = making.picture(making.chunk(b"tEXt", b"Software\0paint"))
    assert "this PNG contains no character card" in _refused(other)
    assert "not a PNG" in _refused(b"GIF89a" + other)


def test_a_claim_longer_than_the_file_is_refused_naming_the_chunk() -> None:
    raw = making.picture(making.chunk(b"tEXt", b"chara\0", length=2**30))
    message = _refused(raw)
    assert "tEXt" in message
    assert str(2**30) in message


def test_a_text_of_too_many_bytes_is_refused_packed_or_not() -> None:
    blank = b" " * (png.MAX_TEXT_BYTES + 1)
    assert "chara" in _refused(making.picture(making.chunk(b"tEXt", b"chara\0" + blank)))
    packed = making.chunk(b"zTXt", b"chara\0\0" + zlib.compress(blank))
    assert str(png.MAX_TEXT_BYTES) in _refused(making.picture(packed))


def test_too_many_chunks_are_refused() -> None:
    many = making.chunk(b"abCd") * png.MAX_CHUNKS
    assert str(png.MAX_CHUNKS) in _refused(making.picture(many))


def test_a_picture_that_is_too_large_is_refused_before_it_is_read() -> None:
    class Endless(io.BytesIO):
        def seek(self, offset: int, whence: int = 0, /) -> int:
            return MAX_CARRIER_BYTES + 1 if whence else super().seek(offset)

        def read(self, size: int | None = -1, /) -> bytes:
            raise AssertionError("it was read")

    with pytest.raises(BadRecord, match=str(MAX_CARRIER_BYTES)):
        read_card_png(Endless())


def test_large_chunks_of_others_do_not_stand_in_the_way() -> None:
    asset = making.chunk(b"tEXt", b"chara-ext-asset_:1\0" + b"A" * (png.MAX_TEXT_BYTES + 1))
    assert _read(making.picture(asset, making.text_chunk("chara", V2))) == V2


# --- writing


def test_writing_replaces_the_cards_and_leaves_every_other_chunk_alone() -> None:
    others = (making.chunk(b"tEXt", b"Software\0paint"), making.chunk(b"eXIf", b"\0\1\2"))
    packed = making.chunk(b"zTXt", b"CHARA\0\0" + zlib.compress(b"e30="))
    before = making.picture(others[0], making.text_chunk("chara", V3), packed, others[1])
    after = write_card_png(before, {"chara": V2, "ccv3": V3})
    assert making.card_in(after, "chara") == V2
    assert making.card_in(after, "ccv3") == V3
    left = [part for part in making.chunks_of(after) if not part[1].startswith((b"chara\0", b"ccv3\0"))]
    assert left == making.chunks_of(making.picture(*others))
    assert making.chunks_of(after)[-1][0] == b"IEND"


def test_writing_the_same_card_again_gives_the_same_bytes() -> None:
    once = write_card_png(making.picture(), {"chara": V2, "ccv3": V3})
    assert write_card_png(once, {"chara": V2, "ccv3": V3}) == once


def test_without_a_picture_a_plain_one_is_drawn_whose_colour_goes_by_the_name() -> None:
    drawn = write_card_png(None, {"chara": V2, "ccv3": V3})
    header, pixels = (body for kind, body in making.chunks_of(drawn) if kind in (b"IHDR", b"IDAT"))
    width, height = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:8], "big")
    rows = zlib.decompress(pixels)
    assert len(rows) == height * (1 + 3 * width)
    assert len({rows[at : at + 3] for at in range(1, 3 * width, 3)}) == 1
    assert _read(drawn) == V3
    assert drawn == write_card_png(None, {"chara": V2, "ccv3": V3})
    other = write_card_png(None, {"chara": making.v2_card(name="Someone else")})
    assert making.chunks_of(other)[1] != making.chunks_of(drawn)[1]


def test_a_picture_that_is_none_is_not_written_to() -> None:
    with pytest.raises(BadRecord, match="not a PNG"):
        write_card_png(b"GIF89a", {"chara": V2})


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=30)


@given(ANY_TEXT, ANY_TEXT)
def test_every_text_comes_out_of_a_picture_as_it_went_in(description: str, unknown: str) -> None:
    card = json.loads(json.dumps(making.v2_card(description=description, unknown={unknown: unknown})))
    assert _read(write_card_png(making.picture(), {"chara": card})) == card
