"""The picture among a card's assets, and its location in a CHARX file.

The picture of a card in a PNG is the PNG itself (``ccdefault:``), that of a card in a CHARX file is a member
of the zip (``embeded://``, as the format spells it).
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any, BinaryIO, cast

from personalab.archive.card_reading import as_object
from personalab.archive.charx import CARD_NAME, is_member_name, read_member
from personalab.archive.png import SIGNATURE, without_cards
from personalab.errors import BadRecord

MAX_PICTURE_BYTES = 32 * 1024 * 1024
"""What is larger in a CHARX is not unpacked to become a PNG card."""
MAIN_ICON = "assets/icon/main.png"
_EMBEDDED = re.compile(r"(?:embeded|embedded)://(.+)", re.IGNORECASE)
_SCHEME = "embeded://"


def with_main_icon(card: Mapping[str, Any]) -> tuple[dict[str, Any], str] | None:
    """Return a V3 card with a main icon in the zip, and its path there; ``None`` if its icon is elsewhere."""
    fields = dict(as_object(card.get("data")))
    icon = _main_icon(fields)
    uri = str((icon or {}).get("uri") or "")
    if (place := _place(uri)) is not None:
        return dict(card), place
    if uri and not uri.lower().startswith("ccdefault:"):
        return None
    made = {**(icon or {}), "type": "icon", "uri": _SCHEME + MAIN_ICON, "name": "main", "ext": "png"}
    others = [asset for asset in _assets(fields) if asset is not icon]
    return {**card, "data": {**fields, "assets": [made, *others]}}, MAIN_ICON


def picture_in_charx(charx: bytes, card: Mapping[str, Any]) -> bytes | None:
    """Take the main icon out of a CHARX file, if it is a PNG of a bearable size."""
    found = icon_in_charx(io.BytesIO(charx), card)
    try:
        return without_cards(found) if found is not None and found.startswith(SIGNATURE) else None
    except BadRecord:
        return None


def icon_in_charx(charx: BinaryIO, card: Mapping[str, Any]) -> bytes | None:
    """Take the main icon out of a CHARX file, whatever kind of file it is, if it is of a bearable size."""
    icon = _main_icon(as_object(card.get("data")))
    place = _place(str(icon.get("uri") or "")) if icon is not None else None
    if place is None:
        return None
    try:
        return read_member(charx, place, MAX_PICTURE_BYTES)
    except BadRecord:
        return None


def _main_icon(fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Find the icon that is called main, or else the first."""
    icons = [asset for asset in _assets(fields) if as_object(asset).get("type") == "icon"]
    named = (icon for icon in icons if icon.get("name") == "main")
    return next(named, icons[0] if icons else None)


def _assets(fields: Mapping[str, Any]) -> list[Any]:
    found: object = fields.get("assets")
    return cast("list[Any]", found) if isinstance(found, list) else []


def _place(uri: str) -> str | None:
    found = _EMBEDDED.fullmatch(uri)
    return found[1] if found and is_member_name(found[1]) and found[1] != CARD_NAME else None
