"""A program that uses an archive from another process. The tests start it with ``… MODE PATH …``."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

from personalab.archive.veloca import new_id
from personalab.errors import StorageError
from personalab.storage.veloca import VelocaStore

SESSION = "550e8400-e29b-41d4-a716-446655440000"


def append(path: Path, name: str, count: int, fold_bytes: int) -> None:
    """Append entries to a session that is there; print the id of each when it is acknowledged."""
    with VelocaStore(path, fold_bytes=fold_bytes, wait=60) as store:
        for number in range(count):
            entry = store.create_entry(SESSION, "user", f"{name}-{number}", entry_id=new_id())
            print(entry.entry_id, flush=True)


def fill(path: Path) -> None:
    """Write under a limit of the size of files, as on a disk that is full."""
    with VelocaStore(path) as store:
        session_id = store.create_session("s").session_id
        for number in range(10):
            store.create_entry(session_id, "user", f"{number} " + "x" * 1_000)
        store.fold()
        store.create_entry(session_id, "user", "x")
        print("kept")
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, limits[1]))
        before = store.document()
        journal = path.with_name(f"{path.name}.journal").read_bytes()
        try:
            store.create_entry(session_id, "user", "y" * 5_000)
        except StorageError:
            assert store.document() == before
            assert path.with_name(f"{path.name}.journal").read_bytes() == journal
            print("refused")
        whole = path.read_bytes()
        try:
            store.fold()
        except StorageError:
            assert path.read_bytes() == whole
            assert store.document() == before
            print("unfolded")
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        store.create_entry(session_id, "user", "z")
        print("usable")


def interfere(path: Path) -> None:
    """Let a program that knows no lock write the file just when a fold has kept the old one; print what folds tell."""
    wanted = False

    def write(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal wanted
        if wanted and event == "os.link" and str(arguments[0]) == str(path):
            wanted = False
            doc = json.loads(path.read_bytes())
            doc["entries"].append({**doc["entries"][0], "entry_id": new_id(), "message": "theirs"})
            path.write_text(json.dumps(doc, indent=2), "utf-8")

    with VelocaStore(path, backup_seconds=0) as store:
        session_id = store.create_session("s").session_id
        store.create_entry(session_id, "user", "one")
        print(store.fold())
        store.create_entry(session_id, "user", "two")
        sys.addaudithook(write)
        wanted = True
        print(store.fold())


def main() -> None:
    """Do what the arguments say."""
    match sys.argv[1:]:
        case ["append", path, name, count, fold_bytes]:
            append(Path(path), name, int(count), int(fold_bytes))
        case ["full", path]:
            fill(Path(path))
        case ["interfere", path]:
            interfere(Path(path))
        case _:
            sys.exit(2)


if __name__ == "__main__":
    main()
