"""A file that is written over keeps its place and its mode; what is no plain file is left alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from personalab.errors import UserError
from personalab.storage.exchange import write_outside


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_private_file_stays_private(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    path.chmod(0o600)
    assert write_outside(path, [b"new"], overwrite=True) == 3
    assert (path.read_bytes(), mode_of(path)) == (b"new", 0o600)


def test_a_link_is_written_through(tmp_path: Path) -> None:
    target = tmp_path / "folder" / "target.json"
    target.parent.mkdir()
    target.write_bytes(b"old")
    (tmp_path / "link").symlink_to(target)
    write_outside(tmp_path / "link", [b"new"], overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert target.read_bytes() == b"new"
    assert [path.name for path in target.parent.iterdir()] == ["target.json"]


def test_a_link_to_nothing_makes_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target.json")
    with pytest.raises(UserError) as refused:
        write_outside(tmp_path / "link", [b"new"], overwrite=False)
    assert refused.value.code == "export_exists"
    write_outside(tmp_path / "link", [b"new"], overwrite=True)
    assert (tmp_path / "target.json").read_bytes() == b"new"
    assert (tmp_path / "link").is_symlink()


def test_what_is_no_plain_file_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to pipe").symlink_to(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "folder").mkdir()
    before = {path.name: path.lstat() for path in tmp_path.iterdir()}
    for name in before:
        with pytest.raises(UserError) as refused:
            write_outside(tmp_path / name, [b"new"], overwrite=True)
        assert refused.value.code == "export_not_plain"
        assert name in refused.value.message("zh")
    after = {path.name: path.lstat() for path in tmp_path.iterdir()}
    assert {name: (one.st_ino, one.st_mode) for name, one in after.items()} == {
        name: (one.st_ino, one.st_mode) for name, one in before.items()
    }
