"""Builders for cards, pictures and zips as other programs write them.

They assemble the bytes without the code under test: its readers must agree with the formats, not with its
writers.
"""

from __future__ import annotations

import base64
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def json_bytes(value: object) -> bytes:
    """Write JSON in UTF-8; a lone surrogate is written as its escape."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")


# --- cards


def v1_card(**changes: Any) -> dict[str, Any]:
    """Make a V1 card: six texts, no wrapping."""
    return {
        "name": "Seraphina",
        "description": "{{char}} guards the forest glade.",
        "personality": "gentle, patient",
        "scenario": "{{user}} wakes up in the glade.",
        "first_mes": "*She smiles at {{user}}.* You are awake.",
        "mes_example": "<START>\n{{user}}: Where am I?\n{{char}}: In my glade.",
        **changes,
    }


def v2_card(**changes: Any) -> dict[str, Any]:
    """Make a whole V2 card; the changes are made in its ``data``."""
    return {"spec": "chara_card_v2", "spec_version": "2.0", "data": {**_v2_data(), **changes}}


def v3_card(**changes: Any) -> dict[str, Any]:
    """Make a whole V3 card; the changes are made in its ``data``."""
    data = {
        **_v2_data(),
        "nickname": "Sera",
        "creator_notes_multilingual": {"zh": "请温柔对待她"},
        "source": ["https://cards.invalid/seraphina"],
        "group_only_greetings": ["*She nods to all of you.*"],
        "creation_date": 1_700_000_000,
        "modification_date": 1_700_000_001,
        "assets": [{"type": "icon", "uri": "ccdefault:", "name": "main", "ext": "png"}],
    }
    return {"spec": "chara_card_v3", "spec_version": "3.0", "data": {**data, **changes}}


def _v2_data() -> dict[str, Any]:
    return {
        **v1_card(),
        "creator_notes": "Play her in a warm voice.",
        "system_prompt": "{{original}} Write as {{char}}.",
        "post_history_instructions": "Stay in the glade. {{original}}",
        "alternate_greetings": ["*She sings.*", "*She sleeps.*"],
        "tags": ["fantasy", "guardian"],
        "creator": "someone",
        "character_version": "1.1",
        "character_book": character_book(),
        "extensions": {"talkativeness": "0.5", "depth_prompt": {"prompt": "", "depth": 4}},
    }


def chinese_card(**changes: Any) -> dict[str, Any]:
    """Make a V2 card in Chinese."""
    texts = {
        "name": "青鸾",
        "description": "{{char}}是守护山谷的神鸟，活了三百年，见过许多过客。",
        "personality": "温柔，有耐心，偶尔固执",
        "scenario": "{{user}}在山谷里醒来，天还没有亮。",
        "first_mes": "*她低下头看着{{user}}。* 你醒了。",
        "mes_example": "<START>\n{{user}}: 这是哪里？\n{{char}}: 我的山谷。",
        "alternate_greetings": ["*她在唱歌。*"],
    }
    return v2_card(**{**texts, **changes})


def character_book(**changes: Any) -> dict[str, Any]:
    """Make a book as a card holds it."""
    return {
        "name": "The glade",
        "scan_depth": 4,
        "token_budget": 500,
        "recursive_scanning": False,
        "extensions": {},
        "entries": [book_entry()],
        **changes,
    }


def book_entry(**changes: Any) -> dict[str, Any]:
    """Make one entry of such a book."""
    return {
        "keys": ["glade", "山谷"],
        "content": "The glade heals those who sleep in it.",
        "extensions": {},
        "enabled": True,
        "insertion_order": 10,
        **changes,
    }


# --- PNG


def chunk(kind: bytes, body: bytes = b"", *, crc: int | None = None, length: int | None = None) -> bytes:
    """Make a chunk; its length and checksum may be lies."""
    right = zlib.crc32(kind + body) if crc is None else crc
    return struct.pack(">I", len(body) if length is None else length) + kind + body + struct.pack(">I", right)


def text_chunk(keyword: str, card: object) -> bytes:
    """Make the chunk in which programs keep a card."""
    return chunk(b"tEXt", keyword.encode("latin-1") + b"\0" + base64.b64encode(json_bytes(card)))


def picture(*chunks: bytes, pixels: bytes | None = None, end: bytes | None = None) -> bytes:
    """Make a picture of one grey pixel with more chunks in it."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    shown = chunk(b"IDAT", zlib.compress(b"\0\x80") if pixels is None else pixels)
    return PNG_SIGNATURE + header + shown + b"".join(chunks) + (chunk(b"IEND") if end is None else end)


def card_png(card: object, v3: object = None) -> bytes:
    """Make a picture that holds a card as ``chara``, and another one as ``ccv3``."""
    return picture(text_chunk("chara", card), *([] if v3 is None else [text_chunk("ccv3", v3)]))


def chunks_of(png: bytes) -> list[tuple[bytes, bytes]]:
    """Take a picture apart, checking every checksum."""
    assert png.startswith(PNG_SIGNATURE)
    found: list[tuple[bytes, bytes]] = []
    at = len(PNG_SIGNATURE)
    while not found or found[-1][0] != b"IEND":
        length, kind = struct.unpack_from(">I4s", png, at)
        body = png[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", png, at + 8 + length)[0] == zlib.crc32(kind + body)
        found.append((kind, body))
        at += 12 + length
    return found


def card_in(png: bytes, keyword: str) -> object:
    """Read the one card a picture keeps under a keyword."""
    start = keyword.encode("latin-1") + b"\0"
    [found] = [body for kind, body in chunks_of(png) if kind == b"tEXt" and body.startswith(start)]
    return json.loads(base64.b64decode(found[len(start) :]))


# --- zip


def zip_of(
    members: Mapping[str, bytes], *, compression: int = zipfile.ZIP_DEFLATED, prefix: bytes = b""
) -> bytes:
    """Make a zip of these members, with bytes before it or not."""
    file = io.BytesIO(prefix)
    file.seek(0, io.SEEK_END)
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members.items():
            member = zipfile.ZipInfo(name)
            member.filename = name  # the constructor cuts and mends names that are to stay bad
            member.compress_type = compression
            archive.writestr(member, content)
    return file.getvalue()


def charx(card: object, **assets: bytes) -> bytes:
    """Make a CHARX file of a card and pictures by name."""
    pictures = {f"assets/icon/images/{name}.png": content for name, content in assets.items()}
    return zip_of({"card.json": json_bytes(card), **pictures})
