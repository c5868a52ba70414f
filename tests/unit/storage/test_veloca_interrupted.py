"""Whoever is interrupted, forked or slow at an archive loses nothing and keeps nobody out."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from personalab.data_files import locked_file
from personalab.storage.veloca import VelocaStore
from personalab.storage.veloca_files import place_of
from tests.support.storage.veloca_looking import beside, in_file, opened, said, talk
from tests.unit.archive.test_veloca_archive import SESSION, SOURCE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "veloca-storage.json"


@contextmanager
def at_call(function: str, number: int, do: Callable[[], None]) -> Generator[None]:
    """Do something just when a function of ours is called for the nth time."""
    left = number

    def watch(frame: FrameType, event: str, _: object) -> None:
        nonlocal left
        if event == "call" and frame.f_code.co_name == function:
            left -= 1
            if left == 0:
                do()

    old = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(old)
    assert left <= 0, "it was not called so often"


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("call", [1, 3, 5])
@pytest.mark.parametrize("folded", [False, True])
def test_what_others_wrote_is_not_lost_when_taking_it_in_is_interrupted(
    path: Path, call: int, folded: bool
) -> None:
    mine = opened(path)
    session_id = talk(mine)
    other = opened(path)
    for number in range(6):
        other.create_entry(session_id, "user", str(number))
        if folded and number == 3:
            other.fold()
    with pytest.raises(KeyboardInterrupt), at_call("_set", call, interrupt):
        mine.sessions()
    mine.create_entry(session_id, "user", "末")
    mine.close()
    assert in_file(path) == [*"012345", "末"]


@pytest.mark.parametrize(("function", "call"), [("append", 1), ("_write_at", 1), ("_set", 1), ("_set", 3)])
def test_a_compaction_that_is_interrupted_is_written_whole_or_not_at_all(
    path: Path, function: str, call: int
) -> None:
    store = opened(path)
    session_id = talk(store, *"01234567")
    with pytest.raises(KeyboardInterrupt), at_call(function, call, interrupt):
        store.compact(session_id, "摘要")
    store.create_session("另一个")
    store.close()
    doc = json.loads(path.read_bytes())
    hidden = [entry for entry in doc["entries"] if entry["is_compaction"] == 0]
    assert len(hidden) == 4 * len(doc["compacted_dialogues"])
    assert len(doc["sessions"]) == 2


@pytest.mark.parametrize("function", ["_keep_old", "settle", "begin", "reopen"])
def test_a_fold_that_is_interrupted_is_finished_by_the_next(path: Path, function: str) -> None:
    store = opened(path)
    session_id = talk(store, "一")
    with pytest.raises(KeyboardInterrupt), at_call(function, 1, interrupt):
        store.fold()
    opened(path).create_entry(session_id, "user", "二")
    store.create_entry(session_id, "user", "三")
    store.close()
    assert in_file(path) == ["一", "二", "三"]


def test_a_lock_whose_taking_is_interrupted_is_free(path: Path) -> None:
    place = place_of(path, wait=0.05)
    with pytest.raises(KeyboardInterrupt), at_call("samestat", 1, interrupt), place.locked():
        pass
    with place.locked():
        pass


@contextmanager
def forked() -> Generator[None]:
    """Have a child that was forked now and does nothing."""
    to_read, to_write = os.pipe()
    child = os.fork()
    if not child:
        os.close(to_write)
        os.read(to_read, 1)
        os._exit(0)
    try:
        yield
    finally:
        os.close(to_write)
        os.close(to_read)
        os.waitpid(child, 0)


def test_a_child_that_was_forked_under_the_lock_does_not_keep_it(path: Path, tmp_path: Path) -> None:
    place = place_of(path, wait=0.05)
    taken = place.locked()
    settings = locked_file(tmp_path / ".lock", "config.json")
    taken.__enter__()
    settings.__enter__()
    with forked():
        settings.__exit__(None, None, None)
        taken.__exit__(None, None, None)
        with place.locked():
            pass
        with (tmp_path / ".lock").open("rb") as again:
            fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_others_write_while_an_archive_is_looked_over(path: Path) -> None:
    path.write_text(json.dumps(SOURCE), "utf-8")
    with opened(path, wait=0.05) as store:
        store.create_entry(SESSION, "user", "一")

        def meanwhile() -> None:
            store.create_entry(SESSION, "user", "二")
            store.fold()

        with at_call("check_archive", 1, meanwhile):
            assert store.verify().healthy
        with at_call("_check_parts", 2, meanwhile):
            assert store.verify().healthy, "while a backup is read"


@pytest.mark.parametrize("folds", [0, 1, 2])
def test_others_write_and_fold_while_an_archive_is_read(path: Path, folds: int) -> None:
    path.write_text(json.dumps(SOURCE), "utf-8")
    before = len(SOURCE["entries"])
    with opened(path, wait=0.05) as store:
        store.create_entry(SESSION, "user", "一")

        def meanwhile() -> None:
            for number in range(max(folds, 1)):
                store.create_entry(SESSION, "user", str(number))
                if folds:
                    store.fold()
            store.create_entry(SESSION, "user", "末")

        with at_call("_check_parts", 1, meanwhile):
            reader = VelocaStore(path, wait=0.05)
        assert reader.document() == store.document()
        assert len(reader.entries()) == before + 2 + max(folds, 1)


def test_looking_at_a_file_leaves_nothing_beside_it(path: Path) -> None:
    path.write_text(json.dumps(SOURCE), "utf-8")
    other = path.with_name("other.json")
    other.write_text('{"hello": 1}', "utf-8")
    assert said(path)
    with opened(path) as store:
        assert store.verify().healthy
        assert not store.restore().changed
    for attempt in (lambda: opened(other), lambda: VelocaStore(other).restore()):
        with pytest.raises(Exception, match=r"other\.json"):
            attempt()
    assert sorted(path.parent.iterdir()) == [other, path]


def test_a_lock_that_is_missing_beside_a_journal_is_made_by_a_reader(path: Path) -> None:
    store = opened(path)
    talk(store, "一")
    beside(path, "lock").unlink()
    assert len(opened(path).entries()) == 1
    assert beside(path, "lock").exists()
