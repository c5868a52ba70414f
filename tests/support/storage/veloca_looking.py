"""Helpers that open an archive and inspect its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from personalab.storage.veloca import VelocaStore

NOW = "2025-10-16T10:30:00Z"


def opened(path: Path, **wishes: Any) -> VelocaStore:
    """Open an archive; time stands still, and each fold makes a backup."""
    wishes.setdefault("backup_seconds", 0)
    return VelocaStore(path, now=lambda: NOW, **wishes)


def beside(path: Path, ending: str) -> Path:
    """Name a file that belongs to an archive."""
    return path.with_name(f"{path.name}.{ending}")


def talk(store: VelocaStore, *messages: str) -> str:
    """Begin a session with some entries."""
    session_id = store.create_session("会话").session_id
    for message in messages:
        store.create_entry(session_id, "user", message)
    return session_id


def said(path: Path) -> list[str]:
    """Read the messages as any later process would."""
    with VelocaStore(path) as store:
        return [entry.message for entry in store.entries()]


def in_file(path: Path) -> list[str]:
    """Read the messages as a program that knows nothing of ours would."""
    return [entry["message"] for entry in json.loads(path.read_text("utf-8"))["entries"]]
