"""Reader and writer for CHARX files, which carry a character card, and the picture among a card's assets.

A CHARX file is a zip with ``card.json`` at its root and the card's assets next to it. Only ``card.json`` and
a picture for a PNG card are ever unpacked; assets are copied in their packed form, and no name in the zip
becomes a path. The picture of a card in a PNG is the PNG itself (``ccdefault:``), that of a card in a CHARX file
is a member of the zip (``embeded://``, as the format spells it).
"""

from __future__ import annotations

import copy
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from personalab.archive.cards import as_object
from personalab.archive.foreign_files import MAX_CARD_BYTES, MAX_CARRIER_BYTES
from personalab.archive.png import SIGNATURE, without_cards
from personalab.errors import BadRecord, Reason, as_reason
from personalab.story.transcript import dump_object

CARD_NAME = "card.json"
MAX_UNPACKED_BYTES = 1024 * 1024 * 1024
"""What all members together say they have, unpacked."""
MAX_MEMBERS = 10_000
MAX_RATIO = 250
"""A member does not unpack to more than so many times its size, unless it is small."""

_LONGEST_NAME = 200
_NO_ASSETS: Mapping[str, bytes] = {}
_SMALL = 1024 * 1024
_PIECE = 64 * 1024
_DIRECTORY_BYTES = 2 * 1024 * 1024
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_LOCAL_SIGNATURE = b"PK\x03\x04"
_DRIVE = re.compile(r"[A-Za-z]:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ENCRYPTED, _SIZES_LATER = 0x1, 0x8
_BEGINNING = (1980, 1, 1, 0, 0, 0)
"""The zip's first day: the same card gives the same bytes."""
_ZIP_FAILURES = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    ValueError,
    OverflowError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OSError,
)
"""What reading a zip made to do harm can raise."""


class _Cautious(io.RawIOBase):
    """Reads no more at once than a zip's directory may be long: its length is only claimed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        if size > _DIRECTORY_BYTES:
            raise BadRecord("zip_too_many", limit=MAX_MEMBERS)
        return self._file.read(_DIRECTORY_BYTES if size < 0 else size)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True


def read_charx(file: BinaryIO) -> bytes:
    """Read the JSON of the card in a CHARX file, after every member was looked at."""
    with _opened(file) as (archive, members):
        return _unpacked(archive, _card_member(members), MAX_CARD_BYTES)


def read_member(file: BinaryIO, name: str, limit: int) -> bytes | None:
    """Read an asset of a CHARX file; ``None`` if there is none of that name."""
    with _opened(file) as (archive, members):
        found = next((member for member in members if member.filename == name), None)
        return _unpacked(archive, found, limit) if found is not None else None


def is_member_name(name: str) -> bool:
    """Return whether a file in a zip may have this name."""
    return 0 < len(name) <= _LONGEST_NAME and not name.endswith("/") and not _wrong_name(name)


def write_charx(
    original: bytes | None, card: Mapping[str, Any], assets: Mapping[str, bytes] = _NO_ASSETS
) -> bytes:
    """Put a card into a CHARX file in place of the one it had, all else as it was; without one, into a new file.

    A new file has these assets, by their places in the zip.
    """
    raw = dump_object(card)
    if len(raw) > MAX_CARD_BYTES:
        raise BadRecord("too_large", actual=len(raw), limit=MAX_CARD_BYTES)
    fresh = io.BytesIO()
    if original is None:
        with zipfile.ZipFile(fresh, "w") as target:
            _add(target, CARD_NAME, raw, zipfile.ZIP_DEFLATED)
            for name, content in assets.items():
                # Pictures are packed already.
                _add(target, name, content, zipfile.ZIP_STORED)
        return fresh.getvalue()
    with _opened(io.BytesIO(original)) as (source, members):
        # A picture may precede the zip, so that the file is both.
        fresh.write(original[: min((member.header_offset for member in members), default=source.start_dir)])
        with zipfile.ZipFile(fresh, "w") as target:
            target.comment = source.comment
            for member in members:
                if member.filename != CARD_NAME:
                    _copy(target, member, original)
            _add(target, CARD_NAME, raw, zipfile.ZIP_DEFLATED)
    return fresh.getvalue()


# --- looking


@contextmanager
def _opened(file: BinaryIO) -> Generator[tuple[zipfile.ZipFile, list[zipfile.ZipInfo]]]:
    """Open a zip whose members do no harm; whatever is wrong with it is said as ``BadRecord``."""
    try:
        size = file.seek(0, io.SEEK_END)
        if size > MAX_CARRIER_BYTES:
            raise BadRecord("too_large", actual=size, limit=MAX_CARRIER_BYTES)
        with zipfile.ZipFile(_Cautious(file)) as archive:
            members = archive.infolist()
            _check_members(members, archive.start_dir)
            yield archive, members
    except BadRecord:
        raise
    except _ZIP_FAILURES as error:
        raise BadRecord("zip_broken", reason=as_reason(error)) from error


def _check_members(members: list[zipfile.ZipInfo], directory: int) -> None:
    if len(members) > MAX_MEMBERS:
        raise BadRecord("zip_too_many", limit=MAX_MEMBERS)
    names = set[str]()
    for member in members:
        _check_member(member)
        if member.filename in names:
            raise BadRecord("zip_member", member=_shown(member), reason=Reason("twice_in_archive"))
        names.add(member.filename)
    if (unpacked := sum(member.file_size for member in members)) > MAX_UNPACKED_BYTES:
        raise BadRecord("zip_bomb", actual=unpacked, limit=MAX_UNPACKED_BYTES)
    _check_places(members, directory)


def _check_member(member: zipfile.ZipInfo) -> None:
    if reason := _wrong_with(member):
        raise BadRecord("zip_member", member=_shown(member), reason=reason)


def _wrong_with(member: zipfile.ZipInfo) -> Reason | None:
    if reason := _wrong_name(member.orig_filename):
        return reason
    if member.flag_bits & _ENCRYPTED:
        return Reason("encrypted")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return Reason("packed_otherwise")
    if member.file_size > max(_SMALL, member.compress_size * MAX_RATIO):
        return Reason("unpacks_too_large", limit=MAX_RATIO)
    return None


def _wrong_name(name: str) -> Reason | None:
    if name.startswith("/") or "\\" in name or _DRIVE.match(name) or ".." in name.split("/"):
        return Reason("outside_archive")
    if not name or _CONTROL.search(name):
        return Reason("control")
    return None


def _check_places(members: list[zipfile.ZipInfo], directory: int) -> None:
    """Refuse members that lie in one another: few bytes would unpack to many."""
    ordered = sorted(members, key=lambda member: member.header_offset)
    ends = [member.header_offset for member in ordered[1:]] + [directory]
    for member, end in zip(ordered, ends, strict=False):
        least = _LOCAL_HEADER.size + len(member.orig_filename) + member.compress_size
        if member.header_offset < 0 or member.header_offset + least > end:
            raise BadRecord("zip_member", member=_shown(member), reason=Reason("overlaps"))


def _shown(member: zipfile.ZipInfo) -> str:
    """Name a member so that its name cannot harm a terminal."""
    return _CONTROL.sub("�", member.orig_filename)[:200]


# --- reading


def _card_member(members: list[zipfile.ZipInfo]) -> zipfile.ZipInfo:
    for member in members:
        if member.filename == CARD_NAME:
            return member
    raise BadRecord("charx_without_card")


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo, limit: int) -> bytes:
    """Unpack a member piece by piece, for its size is only claimed."""
    if member.file_size > limit:
        raise BadRecord("zip_bomb", actual=member.file_size, limit=limit)
    content = bytearray()
    with archive.open(member) as file:
        while piece := file.read(_PIECE):
            content += piece
            if len(content) > limit:
                raise BadRecord("zip_bomb", actual=len(content), limit=limit)
    return bytes(content)


# --- writing


def _copy(target: zipfile.ZipFile, member: zipfile.ZipInfo, original: bytes) -> None:
    """Copy a member as it is packed."""
    signature, name_bytes, extra_bytes = _LOCAL_HEADER.unpack_from(original, member.header_offset)
    start = member.header_offset + _LOCAL_HEADER.size + name_bytes + extra_bytes
    packed = original[start : start + member.compress_size]
    if signature != _LOCAL_SIGNATURE or len(packed) != member.compress_size or target.fp is None:
        raise BadRecord("zip_member", member=_shown(member), reason=Reason("cut_off"))
    entry = copy.copy(member)
    entry.header_offset = target.fp.tell()
    entry.flag_bits &= ~_SIZES_LATER
    target.fp.write(entry.FileHeader() + packed)
    target.filelist.append(entry)
    target.NameToInfo[entry.filename] = entry
    target.start_dir = target.fp.tell()


def _add(target: zipfile.ZipFile, name: str, raw: bytes, packing: int) -> None:
    member = zipfile.ZipInfo(name, _BEGINNING)
    member.compress_type = packing
    target.writestr(member, raw)


# --- the card's picture


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
