"""Operations on an archive that are killed at every step, and the state that must hold afterwards."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from personalab.archive.veloca import check_archive
from personalab.errors import NotFound
from personalab.storage.veloca import VelocaStore
from personalab.storage.veloca_backups import restore_archive, verify_archive
from tests.support.killing import Case, Cases, Scene

TIME = "2024-01-01T00:00:00.000Z"
SESSION = "550e8400-e29b-41d4-a716-446655440000"
WRECK = b"\0" * 300


def warm() -> None:
    """Import what is imported late: nothing."""


def identity(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


def opened(root: Path, backup_seconds: float = 0, **wishes: Any) -> VelocaStore:
    wishes = {"keep_backups": 2, "wait": 1, **wishes}
    return VelocaStore(root / "v.json", now=lambda: TIME, backup_seconds=backup_seconds, **wishes)


def say(store: VelocaStore, number: int) -> None:
    """Say something, unless it has been said."""
    try:
        store.entry(identity(number))
    except NotFound:
        store.create_entry(SESSION, "user", f"第{number}句", entry_id=identity(number))


def begin(store: VelocaStore) -> None:
    if not store.sessions():
        store.create_session("会话", session_id=SESSION)


def document(root: Path) -> dict[str, Any]:
    """Read it all, without writing anything."""
    return opened(root).document()


def said(root: Path) -> list[str]:
    return [entry["entry_id"] for entry in document(root)["entries"]]


def check_whole(scene: Scene) -> None:
    """Look it over, compare with what had been acknowledged, and wreck a copy: all must come back."""
    report = verify_archive(scene.root / "v.json")
    assert report.healthy, report.problems
    found = document(scene.root)
    before = [entry["entry_id"] for entry in document(scene.before)["entries"]]
    entries = [entry["entry_id"] for entry in found["entries"]]
    assert entries[: len(before)] == before
    assert len(set(entries)) == len(entries)
    path = scene.root / "v.json"
    if path.exists():
        assert check_archive(json.loads(path.read_bytes())) == []
    if (scene.root / "v.json.bak1").exists() and path.exists():
        _check_wreck(scene.root, found)


def _check_wreck(root: Path, found: dict[str, Any]) -> None:
    copy = root.with_name(f"{root.name}-wrecked")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(root, copy)
    (copy / "v.json").write_bytes(WRECK)
    restored = restore_archive(copy / "v.json")
    assert restored.lost_lines == 0
    assert document(copy) == found


# --- a first entry, where there is no file yet


async def prepare_nothing(root: Path) -> None:
    root.mkdir()


async def write_first(root: Path) -> None:
    with opened(root) as store:
        begin(store)
        say(store, 1)


async def check_first(scene: Scene) -> bool:
    check_whole(scene)
    return said(scene.root) == [identity(1)]


async def check_first_done(scene: Scene) -> None:
    assert await check_first(scene)


# --- more entries and folds, where backups rotate


async def prepare_backups(root: Path) -> None:
    root.mkdir()
    store = opened(root)
    begin(store)
    for number in range(1, 7):
        say(store, number)
        if number % 2:
            store.fold()


async def write_and_fold(root: Path) -> None:
    with opened(root) as store:
        for number in (7, 8):
            say(store, number)
            store.fold()
        say(store, 9)


async def write_and_join(root: Path) -> None:
    with opened(root, backup_seconds=3_600) as store:
        for number in (7, 8):
            say(store, number)
            store.fold()
        say(store, 9)


async def check_folded(scene: Scene) -> bool:
    check_whole(scene)
    found = said(scene.root)
    assert found == [identity(number) for number in range(1, len(found) + 1)]
    return len(found) == 9


async def check_folded_done(scene: Scene) -> None:
    assert await check_folded(scene)


# --- a compaction, and its undo


async def prepare_talk(root: Path) -> None:
    await prepare_backups(root)


async def compact_and_undo(root: Path) -> None:
    with opened(root, fold_bytes=500) as store:
        if not store.dialogues(status=None):
            store.compact(SESSION, "摘要", identity(5))
        for dialogue in store.dialogues():
            store.undo_compaction(dialogue.entry_id)


async def check_compacted(scene: Scene) -> bool:
    check_whole(scene)
    doc = document(scene.root)
    hidden = [entry["entry_id"] for entry in doc["entries"] if entry["is_compaction"] == 0]
    live = [found for found in doc["compacted_dialogues"] if found["status"] == 0]
    assert hidden == ([identity(number) for number in range(1, 5)] if live else []), "all or none"
    return bool(doc["compacted_dialogues"]) and not live


async def check_compacted_done(scene: Scene) -> None:
    assert await check_compacted(scene)


# --- a restore


async def prepare_wreck(root: Path) -> None:
    await prepare_backups(root)
    shutil.copytree(root, root / "whole")
    (root / "v.json").write_bytes(WRECK)
    (root / "v.json.bak1").write_bytes(WRECK)
    journal = root / "v.json.journal"
    journal.write_bytes(journal.read_bytes() + b"a line that was damaged\n")


async def restore(root: Path) -> None:
    restore_archive(root / "v.json", wait=1)


async def check_restored(scene: Scene) -> bool:
    if not verify_archive(scene.root / "v.json").healthy:
        return False
    assert document(scene.root) == document(scene.root / "whole")
    assert [path.name for path in scene.root.glob("v.json.broken?") if path.read_bytes() == WRECK]
    assert any(b"damaged" in path.read_bytes() for path in scene.root.glob("v.json.broken?.journal"))
    return True


async def check_restored_done(scene: Scene) -> None:
    assert await check_restored(scene)


# --- going back to a backup


async def prepare_to_go_back(root: Path) -> None:
    await prepare_backups(root)
    shutil.copytree(root, root / "whole")


async def go_back(root: Path) -> None:
    wanted = (root / "whole" / "v.json.bak2").read_bytes()
    found = [path for path in root.glob("v.json.bak?") if path.read_bytes() == wanted]
    restore_archive(root / "v.json", int(found[0].name[-1]), wait=1)


async def check_gone_back(scene: Scene) -> bool:
    assert verify_archive(scene.root / "v.json").healthy
    found = document(scene.root)
    is_back = found == json.loads((scene.root / "whole" / "v.json.bak2").read_bytes())
    assert is_back or found == document(scene.root / "whole"), "all there was, or the state of the backup"
    return is_back


async def check_gone_back_done(scene: Scene) -> None:
    assert await check_gone_back(scene)
    kept = [json.loads(path.read_bytes()) for path in scene.root.glob("v.json.before?")]
    assert document(scene.root / "whole") in kept


CASES: Cases = {
    "the first entry": Case(prepare_nothing, write_first, check_first, check_first_done),
    "entries and folds": Case(prepare_backups, write_and_fold, check_folded, check_folded_done),
    "folds within the hour": Case(prepare_backups, write_and_join, check_folded, check_folded_done),
    "going back": Case(prepare_to_go_back, go_back, check_gone_back, check_gone_back_done),
    "a compaction and its undo": Case(prepare_talk, compact_and_undo, check_compacted, check_compacted_done),
    "a restore": Case(prepare_wreck, restore, check_restored, check_restored_done),
}
