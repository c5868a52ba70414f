"""The doctor's checks of cards, lorebooks and archives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from personalab.archive.books import read_book
from personalab.archive.cards import read_card
from personalab.archive.foreign_files import MAX_CARD_BYTES, load_json
from personalab.errors import PersonaLabError, as_reason
from personalab.operations.doctor_findings import Finding
from personalab.services import Services
from personalab.storage.exchange import opened
from personalab.storage.veloca_backups import verify_archive

ARCHIVES = "archive"
_SHOWN = 5
"""Maximum number of problems reported per archive."""


def examine_beside(services: Services, folder: Path) -> list[Finding]:
    """Check the card and the lorebook next to a character or a background."""
    reading: dict[str, Callable[[object], object]] = {
        "card.json": read_card,
        "lorebook.json": lambda data: read_book(data, folder.name),
    }
    found: list[Finding] = []
    for name, read in reading.items():
        path = folder / name
        if not path.exists():
            continue
        try:
            with opened(path) as (file, _):
                read(load_json(file.read(MAX_CARD_BYTES + 1)))
        except PersonaLabError as error:
            found.append(
                Finding("beside_broken", services.stories.shown(path), params={"reason": as_reason(error)})
            )
    return found


def examine_archives(services: Services) -> list[Finding]:
    """Check the archives of the data root; ``personalab archive restore`` brings a broken one back."""
    folder = services.settings.data_root / ARCHIVES
    found: list[Finding] = []
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        shown = services.stories.shown(path)
        try:
            problems = verify_archive(path, wait=services.settings.busy_seconds).problems
        except PersonaLabError as error:
            found.append(Finding("archive_broken", shown, params={"reason": as_reason(error)}))
            continue
        for problem in problems[:_SHOWN]:
            found.append(Finding("archive_broken", shown, params={"reason": problem}))
    return found
