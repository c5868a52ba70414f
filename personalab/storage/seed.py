"""Filling a new data root with the samples and defaults that come with the program."""

from __future__ import annotations

import os
from pathlib import Path

from personalab.data_files import locked_file, make_folder, replace_file, writing
from personalab.storage.template_updates import update_templates

SEEDING = ".seeding"
"""Marks a data root whose samples are still being copied; the next start continues."""
SEEDED = ".seeded"
"""Marks a data root that has got its samples; what is deleted later stays deleted.

It holds the version of the prompt templates that the root has seen.
"""


def seed(root: Path, shipped: Path) -> bool:
    """Copy the shipped files into a new data root; of one that has files of its own, update the templates alone.

    The ``data`` folder of a checkout holds the shipped files (``data/shipped``) and may hold stories from the time
    when the samples were kept beside them: it gets what it lacks, once.
    """
    seeded = _fill(root, shipped)
    update_templates(root, shipped, SEEDED)
    return seeded


def _fill(root: Path, shipped: Path) -> bool:
    with writing(f"PERSONALAB_DATA ({root})"):
        if not _is_unseeded(root, shipped):
            return False
        root.parent.mkdir(parents=True, exist_ok=True)
        make_folder(root)
        with locked_file(root / ".lock", f"PERSONALAB_DATA ({root})"):
            if not _is_unseeded(root, shipped):
                return False
            (root / SEEDING).touch(mode=0o600)
            for source in sorted(shipped.rglob("*")):
                if source.is_file():
                    _copy(source, root / source.relative_to(shipped))
            os.replace(root / SEEDING, root / SEEDED)
    return True


def _is_unseeded(root: Path, shipped: Path) -> bool:
    if not root.is_dir() or (root / SEEDING).exists():
        return True
    holds_shipped = (root / shipped.name).is_dir() and (root / shipped.name).samefile(shipped)
    if holds_shipped and not (root / SEEDED).exists():
        return True
    own = (name for name in os.listdir(root) if not name.startswith("."))
    return not any(name != shipped.name or not holds_shipped for name in own)


def _copy(source: Path, target: Path) -> None:
    if not os.path.lexists(target):
        make_folder(target.parent)
        replace_file(target, source.read_bytes(), str(target))
