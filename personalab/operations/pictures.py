"""The picture of a character: that of its card, if it is of a kind that a browser shows and cannot execute."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal

from personalab.archive.charx import icon_in_charx
from personalab.archive.foreign_files import MAX_CARRIER_BYTES
from personalab.archive.png import without_cards
from personalab.errors import BadRecord, NotFound
from personalab.operations.library import kept_card
from personalab.services import Services
from personalab.storage.exchange import opened
from personalab.storage.files import read_bytes
from personalab.storage.stories import StoryFiles
from personalab.story.ids import check_id

PictureType = Literal["image/png", "image/jpeg", "image/webp", "image/gif"]
_BEGINNINGS: tuple[tuple[bytes, PictureType], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_CARRIERS = ("card.png", "card.charx")


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture and its type, detected from its bytes and not from its name."""

    content: bytes
    media_type: PictureType


def picture_mark(stories: StoryFiles, character_id: str) -> str | None:
    """Return a word that changes when the file of the picture does; ``None`` where there is no such file."""
    for name in _CARRIERS:
        try:
            found = stories.beside("characters", character_id, name).stat()
        except OSError:
            continue
        return f"{found.st_mtime_ns:x}-{found.st_size:x}"
    return None


async def character_picture(services: Services, character_id: str) -> Picture:
    """Find a character's picture; the card that is hidden in it is left out."""
    check_id(character_id, "character_id")
    content = await asyncio.to_thread(_content, services.stories, character_id)
    media_type = _type_of(content) if content is not None else None
    if content is None or media_type is None:
        raise NotFound("no_picture", character_id=character_id)
    return Picture(content, media_type)


def _content(stories: StoryFiles, character_id: str) -> bytes | None:
    picture, packed = (stories.beside("characters", character_id, name) for name in _CARRIERS)
    try:
        if picture.exists():
            return without_cards(read_bytes(picture, stories.shown(picture), MAX_CARRIER_BYTES))
        if packed.exists():
            card = kept_card(stories, character_id)
            with opened(packed) as (stream, _):
                return icon_in_charx(stream, card.data) if card is not None else None
    except BadRecord:
        return None
    return None


def _type_of(content: bytes) -> PictureType | None:
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for beginning, kind in _BEGINNINGS if content.startswith(beginning)), None)
