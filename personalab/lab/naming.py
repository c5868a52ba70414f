"""Validation of names that become parts of workspace paths, and generation of unique names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container
from dataclasses import dataclass
from typing import Literal

from personalab.errors import UserError
from personalab.lab.assets import HistoryRecord
from personalab.lab.records import SHORT, AssetKind, compact_time

_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", *(f"com{n}" for n in range(10)), *(f"lpt{n}" for n in range(10))]
)
_VERSIONED = re.compile(r"(skill|baseline)_(.+)_v([1-9][0-9]{0,6})", re.ASCII | re.DOTALL)
_APART = re.compile(r"[^a-z0-9]+")
_LONGEST_SLUG = 40


def is_folder_name(value: object) -> bool:
    """Return whether a value may name a folder on any system."""
    return isinstance(value, str) and bool(_FOLDER.fullmatch(value)) and value.lower() not in _DEVICES


def check_folder_name(value: object, what: str) -> str:
    """Return the name unchanged, or refuse it before any path is built from it; ``what`` names the field."""
    if isinstance(value, str) and is_folder_name(value):
        return value
    shown = value if isinstance(value, str) else repr(value)
    raise UserError("lab_bad_name", what=what, value=shown[:80])


@dataclass(frozen=True, slots=True)
class VersionFolder:
    """What the name of a version's folder says."""

    kind: AssetKind
    short: str
    number: int

    @property
    def version(self) -> str:
        """The version, as it is written."""
        return f"v{self.number}"


def version_folder(name: str) -> VersionFolder | None:
    """Read the name of a version's folder; ``None`` if it is none."""
    found = _VERSIONED.fullmatch(name)
    if found is None:
        return None
    kind: Literal["skill", "baseline"] = "skill" if found[1] == "skill" else "baseline"
    return VersionFolder(kind, found[2], int(found[3]))


def project_slug(name: str, project_id: str) -> str:
    """Make the middle of a project's folder name: the name's Latin letters and digits, else ``p`` and the short id."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii").lower()
    found = _APART.sub("_", plain).strip("_")[:_LONGEST_SLUG].strip("_")
    return found or f"p{project_id[:SHORT]}"


def numbered(stem: str, taken: Container[str], ending: str = "") -> str:
    """Return the stem with its ending, or with ``_2``, ``_3``… between them, the first that is not taken."""
    found, number = f"{stem}{ending}", 2
    while found in taken:
        found = f"{stem}_{number}{ending}"
        number += 1
    return found


def history_name(record: HistoryRecord) -> str:
    """Name the file of a change."""
    return f"{record.from_version}_to_{record.to_version}_{compact_time(record.timestamp)}.json"
