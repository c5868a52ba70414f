"""Reader and writer for character cards in PNG files.

The card is JSON in base64 in a text chunk of the PNG, ``chara`` for V2 and older, ``ccv3`` for V3. The reader
steps through the chunks by their lengths and never reads picture data: a length that does not fit into the
file is refused before memory is allocated for it.
"""

from __future__ import annotations

import base64
import binascii
import colorsys
import io
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from personalab.archive.cards import as_object, read_card
from personalab.archive.foreign_files import MAX_CARD_BYTES, MAX_CARRIER_BYTES, load_json
from personalab.errors import BadRecord, Reason
from personalab.story.transcript import dump_object

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MAX_CHUNKS = 65_536
MAX_TEXT_BYTES = MAX_CARD_BYTES * 3 // 2
"""A card in base64, which is a third longer, with line breaks in it."""

_KEYWORDS = ("ccv3", "chara")
"""Keywords of a card's chunk, in order of precedence."""
_TEXT_KINDS = (b"tEXt", b"zTXt", b"iTXt")
_LONGEST_KEYWORD = 79
_MOST_TRIES = 4
_FRAME_BYTES = 12
"""A chunk's length, kind and checksum."""
_WIDTH, _HEIGHT = 400, 600
_URL_SAFE = bytes.maketrans(b"-_", b"+/")


@dataclass(frozen=True, slots=True)
class _Chunk:
    kind: bytes
    start: int
    """Where its body begins."""
    length: int

    @property
    def shown(self) -> str:
        return self.kind.decode("latin-1")

    @property
    def whole(self) -> slice:
        return slice(self.start - 8, self.start + self.length + 4)


@dataclass(frozen=True, slots=True)
class _Found:
    """A text chunk that may hold a card."""

    keyword: str
    chunk: _Chunk


def read_card_png(file: BinaryIO) -> bytes:
    """Read the JSON of the card in a picture, ``ccv3`` before ``chara``.

    Of several with the same keyword the first is taken, as SillyTavern does, so that a picture shows the same character
    here and there; one that cannot be read leaves the way to the next.
    """
    found = [at for chunk in _chunks(file) if (at := _card_chunk(file, chunk)) is not None]
    if not found:
        raise BadRecord("png_without_card")
    found.sort(key=lambda at: _KEYWORDS.index(at.keyword))
    refusal: BadRecord | None = None
    for at in found[:_MOST_TRIES]:
        try:
            raw = _json_of(file, at)
            read_card(load_json(raw))
        except BadRecord as error:
            refusal = refusal or error
        else:
            return raw
    raise refusal or BadRecord("png_without_card")


# --- walking


def _chunks(file: BinaryIO) -> Iterator[_Chunk]:
    """Walk the chunks up to ``IEND``, each of which has room in the file."""
    size = file.seek(0, io.SEEK_END)
    if size > MAX_CARRIER_BYTES:
        raise BadRecord("too_large", actual=size, limit=MAX_CARRIER_BYTES)
    file.seek(0)
    if file.read(len(SIGNATURE)) != SIGNATURE:
        raise BadRecord("not_png")
    at = len(SIGNATURE)
    for _ in range(MAX_CHUNKS):
        file.seek(at)
        head = file.read(8)
        if len(head) < 8:
            raise BadRecord("png_cut_off", chunk="IEND", place=at)
        length, kind = struct.unpack(">I4s", head)
        chunk = _Chunk(kind, at + 8, length)
        if not kind.isalpha():
            raise BadRecord("png_broken", place=at)
        if at + _FRAME_BYTES + length > size:
            raise BadRecord(
                "png_chunk_too_long", chunk=chunk.shown, place=at, claimed=length, left=size - at - 8
            )
        yield chunk
        if kind == b"IEND":
            return
        at += _FRAME_BYTES + length
    raise BadRecord("png_too_many_chunks", limit=MAX_CHUNKS)


def _card_chunk(file: BinaryIO, chunk: _Chunk) -> _Found | None:
    if chunk.kind not in _TEXT_KINDS:
        return None
    file.seek(chunk.start)
    keyword, end, _ = file.read(min(chunk.length, _LONGEST_KEYWORD + 1)).partition(b"\0")
    name = keyword.decode("latin-1").lower()
    return _Found(name, chunk) if end and name in _KEYWORDS else None


# --- reading


def _json_of(file: BinaryIO, found: _Found) -> bytes:
    chunk = found.chunk
    if chunk.length > MAX_TEXT_BYTES:
        raise BadRecord("png_text_too_long", chunk=found.keyword, actual=chunk.length, limit=MAX_TEXT_BYTES)
    file.seek(chunk.start)
    body = file.read(chunk.length)
    if file.read(4) != zlib.crc32(chunk.kind + body).to_bytes(4, "big"):
        raise BadRecord("png_chunk_wrong", chunk=found.keyword, reason=Reason("wrong_checksum"))
    text = _text_of(chunk.kind, body.partition(b"\0")[2], found.keyword)
    return _decoded(text, found.keyword)


def _text_of(kind: bytes, rest: bytes, keyword: str) -> bytes:
    """Take the text out of what follows the keyword."""
    if kind == b"tEXt":
        return rest
    if kind == b"zTXt":
        return _unpacked(rest[1:], keyword)
    flags, rest = rest[:2], rest[2:]
    text = rest.partition(b"\0")[2].partition(b"\0")[2]
    return _unpacked(text, keyword) if flags[:1] == b"\1" else text


def _unpacked(packed: bytes, keyword: str) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(packed, MAX_TEXT_BYTES + 1)
    except zlib.error as error:
        raise BadRecord("png_chunk_wrong", chunk=keyword, reason=Reason("cannot_unpack")) from error
    if len(text) > MAX_TEXT_BYTES:
        raise BadRecord(
            "png_text_too_long", chunk=keyword, actual=f"> {MAX_TEXT_BYTES}", limit=MAX_TEXT_BYTES
        )
    if not unpacking.eof:
        raise BadRecord("png_chunk_wrong", chunk=keyword, reason=Reason("cannot_unpack"))
    return text


def _decoded(text: bytes, keyword: str) -> bytes:
    """Take a card out of its base64, whether it is wrapped, padded, made for addresses or left out."""
    packed = b"".join(text.split())
    if packed.startswith(b"{"):
        return text
    packed = packed.translate(_URL_SAFE).rstrip(b"=")
    try:
        return base64.b64decode(packed + b"=" * (-len(packed) % 4), validate=True)
    except binascii.Error as error:
        raise BadRecord("png_chunk_wrong", chunk=keyword, reason=Reason("not_base64")) from error


# --- writing


def write_card_png(png: bytes | None, chunks: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Put cards into a picture by their keywords, in place of those it had; without one, into a plain picture."""
    old = png if png is not None else _plain_picture(chunks)
    file, parts, tail = io.BytesIO(old), [SIGNATURE], b""
    for chunk in _chunks(file):
        if chunk.kind == b"IEND":
            # What a program appended after the picture stays there.
            tail = old[chunk.start - 8 :]
        elif _card_chunk(file, chunk) is None:
            parts.append(old[chunk.whole])
    for keyword in ("chara", "ccv3"):
        if (card := chunks.get(keyword)) is not None:
            parts.append(_text_chunk(keyword, card))
    return b"".join([*parts, tail])


def without_cards(png: bytes) -> bytes:
    """Return a picture as it is without the cards in it."""
    return write_card_png(png, {})


def _text_chunk(keyword: str, card: Mapping[str, Any]) -> bytes:
    raw = dump_object(card)
    if len(raw) > MAX_CARD_BYTES:
        raise BadRecord("too_large", actual=len(raw), limit=MAX_CARD_BYTES)
    return _chunk(b"tEXt", keyword.encode("latin-1") + b"\0" + base64.b64encode(raw))


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _plain_picture(chunks: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Draw a picture of one colour, the same for the same name."""
    cards = [as_object(card.get("data")) or card for card in chunks.values()]
    name = str(cards[0].get("name")) if cards else ""
    hue = zlib.crc32(name.encode("utf-8", "backslashreplace")) % 360 / 360
    colour = bytes(round(255 * part) for part in colorsys.hls_to_rgb(hue, 0.45, 0.35))
    rows = (b"\0" + colour * _WIDTH) * _HEIGHT
    header = struct.pack(">IIBBBBB", _WIDTH, _HEIGHT, 8, 2, 0, 0, 0)
    return (
        SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows, 9)) + _chunk(b"IEND", b"")
    )
