"""A pipe, a device, a socket or a folder in the place of a data file is named, and nothing waits for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from personalab.data_files import open_regular
from personalab.errors import StorageError
from personalab.services import Services
from tests.conftest import PROJECT
from tests.integration.security.special_files_process import KINDS
from tests.support.graph.turns import say
from tests.support.web.serving import serving


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data root in which much has happened."""
    folder = tmp_path_factory.mktemp("played")
    environment = {**os.environ, "PERSONALAB_DATA": str(folder / "data"), "PERSONALAB_MODEL": "rehearsal"}
    (folder / "out").mkdir()
    command = [sys.executable, "-m", "tests.integration.security.broad_session", str(folder / "out")]
    subprocess.run(command, cwd=PROJECT, env=environment, check=True, timeout=500)
    return folder


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
def test_no_command_hangs_or_fails_without_a_sentence(played: Path, kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.security.special_files_process", kind, str(played), "4"],
        cwd=PROJECT,
        env={**os.environ, "PERSONALAB_MODEL": "rehearsal"},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert [json.loads(row) for row in done.stdout.splitlines()] == []


@pytest.mark.parametrize("kind", KINDS)
def test_open_regular_names_the_file_and_the_remedy(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    KINDS[kind](tmp_path / "x.json")
    for flags in (os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_APPEND):
        with pytest.raises(StorageError) as refused:
            open_regular(tmp_path / "x.json", flags, shown="folder/x.json")
        assert refused.value.code == "not_regular"
        for language in ("zh", "en"):
            assert "folder/x.json" in refused.value.message(language)


def test_links_to_regular_files_are_opened(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"text")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    with os.fdopen(open_regular(tmp_path / "link"), "rb") as file:
        assert file.read() == b"text"


def _check_answer(response: httpx.Response) -> None:
    """A file that cannot be used is named; no other error is the server's own."""
    assert response.status_code < 500 or '"not_regular"' in response.text, response.text


@pytest.mark.anyio
@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "instances/inst_001/.lock",
        "instances/inst_001/sessions/sess_001.jsonl",
        "memory/memory.db",
    ],
)
async def test_server_stays_responsive_and_ends_on_sigterm(
    services: Services, root: Path, instance: str, tmp_path: Path, name: str
) -> None:
    await say(services, "Good evening")
    (root / name).unlink(missing_ok=True)
    (root / name).parent.mkdir(exist_ok=True)
    os.mkfifo(root / name)
    with serving({**os.environ, "PERSONALAB_DATA": str(root)}, tmp_path / "log") as served:
        async with served.client() as client:
            for path in (
                "/api/instances",
                f"/api/instances/{instance}",
                f"/api/instances/{instance}/sessions",
                "/api/settings",
                "/api/memory/memories",
            ):
                _check_answer(await client.get(path))
                assert (await client.get("/healthz")).is_success
            turn = await client.post(f"/api/instances/{instance}/turns", json={"text": "Hello"})
            _check_answer(turn)
            assert (await client.get("/healthz")).is_success
        assert served.stop() == -signal.SIGTERM
        assert "Traceback" not in served.errors
