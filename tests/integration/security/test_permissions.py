"""A new data root and all that is made in it are for their owner alone, whatever the umask."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from personalab.data_files import replace_file
from personalab.operations.doctor import examine_root
from personalab.services import Services, open_services
from personalab.settings import read_settings
from tests.conftest import PROJECT


def _open_to_others(root: Path) -> list[str]:
    return [str(path) for path in (root, *root.rglob("*")) if path.lstat().st_mode & 0o077]


@pytest.mark.parametrize("umask", ["0", "022"])
def test_no_file_of_a_new_root_is_open_to_others(root: Path, tmp_path: Path, umask: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    subprocess.run(
        [sys.executable, "-m", "tests.integration.security.broad_session", str(out), umask],
        cwd=PROJECT,
        env={**os.environ, "PERSONALAB_DATA": str(root)},
        check=True,
        timeout=500,
    )
    assert (root / "exchange" / "out.json").is_file()
    assert _open_to_others(root) == []
    mode = stat.S_IMODE((out / "maren.json").stat().st_mode)
    assert mode == 0o666 & ~int(umask, 8), "a file that is exported elsewhere follows the umask"


def test_existing_root_keeps_its_modes(root: Path) -> None:
    settings = read_settings({"PERSONALAB_DATA": str(root)})
    open_services(settings)
    for path, mode in ((root, 0o755), (root / "config.json", 0o644)):
        path.chmod(mode)
    services = open_services(settings)
    services.preferences.change({"limits.max_total_tokens": 50000})
    assert stat.S_IMODE(root.stat().st_mode) == 0o755
    assert stat.S_IMODE((root / "config.json").stat().st_mode) == 0o644


def test_link_does_not_lend_its_mode(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    replace_file(tmp_path / "link", b"new", "link")
    assert stat.S_IMODE((tmp_path / "link").lstat().st_mode) == 0o600


@pytest.mark.anyio
async def test_doctor_mentions_a_root_that_others_can_read(services: Services, root: Path) -> None:
    assert (await examine_root(services)).findings == []
    root.chmod(0o755)
    report = await examine_root(services)
    assert [(finding.code, finding.level) for finding in report.findings] == [("root_readable", "note")]
    assert report.healthy
