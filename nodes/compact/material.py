"""A fingerprint of the entries to compact, and a check that they have not changed since."""

from __future__ import annotations

from collections.abc import Callable

from personalab.archive.compacting import fingerprint
from personalab.archive.veloca_compaction import CompactionMaterial
from personalab.errors import UserError


def seen_of(material: CompactionMaterial) -> str:
    """Name what is summed up."""
    return fingerprint(material.entries, material.summaries)


def same_as(seen: str) -> Callable[[CompactionMaterial], None]:
    """Return a check that refuses material which has changed since it was seen."""

    def check(material: CompactionMaterial) -> None:
        if seen_of(material) != seen:
            raise UserError("archive_changed", session_id=material.session_id)

    return check
