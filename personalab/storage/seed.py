"""How does a new data root get its samples?"""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

from personalab.storage.files import writing

SHIPPED = (
    "config.json",
    "modules",
    "characters",
    "backgrounds",
    "prompt_templates",
    "workspace/skills",
    "workspace/baselines",
)


def seed(root: Path, shipped: Path) -> bool:
    """Fill a data root that does not exist or is empty with the shipped samples; leave any other alone."""
    if root.is_dir() and any(root.iterdir()):
        return False
    fresh = root.with_name(f".{root.name}.{secrets.token_hex(4)}.new")
    with writing(f"PERSONALAB_DATA ({root})"):
        root.parent.mkdir(parents=True, exist_ok=True)
        try:
            for name in SHIPPED:
                _copy(shipped / name, fresh / name)
            os.rename(fresh, root)
        except OSError:
            if root.is_dir() and any(root.iterdir()):
                return False
            raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return True


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target)
    elif source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
