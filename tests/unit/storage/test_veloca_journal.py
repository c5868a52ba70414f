"""A change is in the journal when it is acknowledged, and in the file after a fold."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from personalab.archive.veloca import new_id
from personalab.errors import StorageError, UserError
from personalab.storage.veloca_backups import restore_archive, verify_archive
from personalab.storage.veloca_files import place_of
from personalab.storage.veloca_journal import encode_line
from personalab.storage.veloca_open import OpenArchive
from tests.support.killing import PROJECT
from tests.support.storage.veloca_looking import beside, in_file, opened, said, talk
from tests.unit.archive.test_veloca_archive import SESSION, SOURCE, source


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "veloca-storage.json"


def test_a_record_is_there_for_others_when_the_call_returns(path: Path) -> None:
    with opened(path) as one, opened(path) as two:
        session_id = talk(one, "一")
        two.create_entry(session_id, "user", "二")
        assert [entry.message for entry in one.entries()] == ["一", "二"]
        assert not path.exists()
        one.fold()
        two.create_entry(session_id, "user", "三")
        one.fold()
        one.create_entry(session_id, "user", "四")
        two.fold()
        two.fold()
        assert [entry.message for entry in one.entries()] == ["一", "二", "三", "四"]
        assert in_file(path) == ["一", "二", "三", "四"]


def test_what_others_write_and_fold_is_followed_without_reading_the_file_again(path: Path) -> None:
    path.write_text(json.dumps(SOURCE), "utf-8")
    place = place_of(path)
    mine = OpenArchive(place, keep_backups=5, sync=False, fold_bytes=10**6)
    with mine.reading() as first:
        pass
    with opened(path) as other:
        for number in range(3):
            other.create_entry(SESSION, "user", f"{number}")
            with mine.reading() as archive:
                assert archive is first
            other.fold()
            other.create_entry(SESSION, "user", f"{number} again")
            with mine.reading() as archive:
                assert archive is first
                assert archive.document() == other.document()
        for _ in range(2):
            other.create_entry(SESSION, "user", "two folds at once")
            other.fold()
        with mine.reading() as archive:
            assert archive is not first
            assert archive.document() == other.document()


def test_the_journal_is_folded_when_it_has_grown(path: Path) -> None:
    with opened(path, fold_bytes=20_000) as store:
        session_id = talk(store)
        sizes: list[int] = []
        for number in range(200):
            store.create_entry(session_id, "user", f"{number} " + "x" * 1_000)
            sizes.append(beside(path, "journal").stat().st_size)
        folds = sum(later < sooner for sooner, later in pairwise(sizes))
        assert 3 < folds < 12, "each fold waits for half of a file that grows"
        assert max(sizes) > 50_000
        assert [entry.message.split()[0] for entry in store.entries()] == [str(n) for n in range(200)]
    assert len(in_file(path)) == 200


def test_a_store_that_only_read_writes_nothing(path: Path) -> None:
    path.write_text(json.dumps(SOURCE, ensure_ascii=False, indent=4), "utf-8")
    before = path.read_bytes()
    with opened(path) as store:
        assert store.document() == SOURCE
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_store_that_is_closed_says_so(path: Path) -> None:
    store = opened(path)
    session_id = talk(store, "一")
    store.close()
    store.close()
    with pytest.raises(UserError) as raised:
        store.create_entry(session_id, "user", "二")
    assert raised.value.code == "archive_closed"
    assert in_file(path) == ["一"]


def test_unknown_fields_and_unreadable_records_outlive_a_fold(path: Path) -> None:
    doc: dict[str, Any] = {**source(), "version": 3, "personalab": {"kept": [1, 2]}}
    doc["sessions"][0]["colour"] = "blue"
    doc["entries"].append({"entry_id": "not one of ours", "role": "tool"})
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(doc).encode("utf-8"))
    with opened(path) as store:
        store.update_session(SESSION, name="新名")
        store.create_entry(SESSION, "user", "末")
    found = json.loads(path.read_text("utf-8"))
    added = found["entries"].pop()
    doc["sessions"][0]["name"] = "新名"
    assert found == doc
    assert added["message"] == "末"


@pytest.mark.parametrize("torn", [b"{", b'{"sum":"00000000","put":{"entries":[{"entry_id":', b"\0" * 300])
def test_a_torn_last_line_is_dropped_and_written_over(path: Path, torn: bytes) -> None:
    store = opened(path)
    session_id = talk(store, "一")
    with beside(path, "journal").open("ab") as journal:
        journal.write(torn)
    assert verify_archive(path).healthy
    assert [entry.message for entry in opened(path).entries()] == ["一"]
    store.create_entry(session_id, "user", "二")
    assert all(json.loads(line) for line in beside(path, "journal").read_bytes().splitlines())
    assert said(path) == ["一", "二"]


def flip(path: Path, line: int) -> None:
    """Change one digit inside a line, which stays good JSON."""
    lines = path.read_bytes().split(b"\n")
    lines[line] = lines[line].replace(b"2025-", b"2026-", 1)
    path.write_bytes(b"\n".join(lines))


@pytest.mark.parametrize("line", [1, 2, 3, -2])
def test_a_damaged_line_is_never_passed_over_in_silence(path: Path, line: int) -> None:
    store = opened(path)
    talk(store, "一", "二", "三")
    journal = beside(path, "journal")
    flip(journal, line)
    damaged = journal.read_bytes()
    for attempt in (lambda: opened(path), lambda: store.restore(9)):
        with pytest.raises(StorageError):
            attempt()
    assert journal.read_bytes() == damaged
    assert verify_archive(path).problems[0].code == "archive_line_damaged"
    restored = restore_archive(path)
    assert restored.lost_lines == 1
    assert beside(path, "broken1.journal").read_bytes() == damaged
    assert len(said(path)) == (3 if line == 1 else 2)


@pytest.mark.parametrize("content", [b"", b"\0" * 500])
def test_a_journal_without_its_head_is_damaged_too(path: Path, content: bytes) -> None:
    with opened(path) as store:
        talk(store, "一")
    beside(path, "journal").write_bytes(content)
    with pytest.raises(StorageError) as raised:
        opened(path)
    assert raised.value.code == "archive_journal_broken"
    assert not verify_archive(path).healthy
    assert restore_archive(path).set_aside == (str(beside(path, "broken1.journal")),)
    assert said(path) == ["一"]


def test_what_another_program_writes_is_taken_and_the_journal_put_into_it(path: Path) -> None:
    with opened(path) as store:
        session_id = talk(store, "一")
        store.fold()
        store.create_entry(session_id, "user", "二")
        doc = json.loads(path.read_bytes())
        doc["entries"].append({**doc["entries"][0], "entry_id": new_id(), "message": "外"})
        doc["theirs"] = True
        path.write_text(json.dumps(doc, indent=2), "utf-8")
        assert [entry.message for entry in store.entries()] == ["一", "外", "二"]
        store.create_entry(session_id, "user", "三")
    assert in_file(path) == ["一", "外", "二", "三"]
    assert json.loads(path.read_bytes())["theirs"] is True


def test_what_another_program_writes_while_we_fold_is_not_overwritten(path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "tests.support.storage.veloca_child", "interfere", str(path)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.split() == ["True", "False"]
    assert in_file(path) == ["one", "theirs", "two"]
    assert verify_archive(path).healthy


def test_a_program_that_is_caught_writing_is_waited_for(path: Path) -> None:
    with opened(path) as store:
        session_id = talk(store, "一")
        store.fold()
        whole = path.read_bytes()
        path.write_bytes(whole[:50])
        with pytest.raises(StorageError):
            store.create_entry(session_id, "user", "二")
        path.write_bytes(whole)
        store.create_entry(session_id, "user", "三")
    assert in_file(path) == ["一", "三"]


@pytest.mark.parametrize(
    "body",
    [
        b'"put":7}',
        b'"put":{"entries":{}}}',
        b'"put":{"entries":[7]}}',
        b'"put":{"entries":[{}]}}',
        b'"put":{"kings":[]}}',
        b'"other":{}}',
        b'"put":' + b"[" * 100_000 + b"}",
    ],
    ids=range(7),
)
def test_a_line_with_a_good_checksum_and_no_records_is_damaged(path: Path, body: bytes) -> None:
    store = opened(path)
    session_id = talk(store, "一")
    with beside(path, "journal").open("ab") as journal:
        journal.write(encode_line(body))
    with pytest.raises(StorageError) as raised:
        store.create_entry(session_id, "user", "二")
    assert raised.value.code == "archive_journal_broken"
    assert raised.value.params["line"] == 4
    restore_archive(path)
    store.create_entry(session_id, "user", "三")
    assert said(path) == ["一", "三"]


def test_an_archive_that_only_its_owner_may_read_stays_so(path: Path) -> None:
    path.write_text(json.dumps(SOURCE), "utf-8")
    path.chmod(0o600)
    with opened(path) as store:
        store.create_entry(SESSION, "user", "一")
        assert beside(path, "journal").stat().st_mode & 0o777 == 0o600
        store.fold()
        store.create_entry(SESSION, "user", "二")
    path.write_bytes(b"")
    restore_archive(path)
    kept = list(path.parent.glob(f"{path.name}*"))
    assert len(kept) > 6
    assert {found.stat().st_mode & 0o777 for found in kept} == {0o600}


def test_what_is_synced_to_the_disk_is_the_same(path: Path) -> None:
    store = opened(path, sync=True)
    session_id = talk(store, "一")
    assert [entry.message for entry in opened(path).entries()] == ["一"]
    store.create_entry(session_id, "user", "二")
    store.close()
    assert in_file(path) == ["一", "二"]
