"""Planted links, pipes and devices in a spool never lead out of it, block a run or get a stranger signalled."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from personalab.errors import StorageError
from personalab.lab.findings import RoundConfig
from personalab.operations.lab.calls import spooled_calls
from personalab.providers.chat_executor import ChatExecutor
from personalab.providers.claude_cli import answer_left, is_running
from personalab.services import Services
from personalab.storage.lab.iterations import IterationFiles
from personalab.storage.lab.sessions import SessionFiles
from personalab.testing.scripted import ScriptedModel
from tests.conftest import NOW
from tests.support.lab.running import FakeExecutor, evaluate, make_project, use
from tests.support.providers.fake_cli import FakeCli, install, question

pytestmark = pytest.mark.timeout(120)

FILES = ("call_1.in", "call_1.system", "call_1.out", "call_1.err", "call_1.done", ".call_1.done.tmp")
KINDS = ("link", "dangling", "hard_link", "pipe", "terminal", "socket", "folder")
TREASURE = b"a file that is not ours"


@pytest.fixture
def fake(tmp_path: Path) -> FakeCli:
    return install(tmp_path / "fake")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder outside the data root, with a file that nobody may touch."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "treasure").write_bytes(TREASURE)
    (folder / ".treasure").write_bytes(TREASURE)
    return folder


def untouched(outside: Path) -> bool:
    found = {path.name: path.read_bytes() for path in outside.iterdir()}
    return found == {"treasure": TREASURE, ".treasure": TREASURE}


@contextlib.contextmanager
def planted(path: Path, kind: str, outside: Path) -> Generator[None]:
    """Put something where a file of a call should be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        if kind == "link":
            path.symlink_to(outside / "treasure")
        elif kind == "dangling":
            path.symlink_to(outside / "made through a link")
        elif kind == "hard_link":
            path.hardlink_to(outside / "treasure")
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "terminal":
            path.symlink_to("/dev/ptmx")
        elif kind == "socket":
            stack.enter_context(socket.socket(socket.AF_UNIX)).bind(str(path))
        else:
            path.mkdir()
        yield


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FILES)
def test_planted_files_never_lead_outside(fake: FakeCli, outside: Path, name: str, kind: str) -> None:
    with planted(fake.spool / name, kind, outside):
        with contextlib.suppress(StorageError):
            assert fake.run(question()).status == "ok"
        with contextlib.suppress(StorageError):
            is_running(fake.spool, "call_1")
            answer_left(fake.spool, "call_1")
        with contextlib.suppress(StorageError):
            fake.executor().forget(fake.spool, "call_1")
    assert untouched(outside)


@pytest.mark.parametrize("kind", KINDS)
def test_planted_answer_of_a_chat_model_is_replaced_or_refused(
    tmp_path: Path, outside: Path, kind: str
) -> None:
    spool = tmp_path / "spool"
    with planted(spool / "call_1.done", kind, outside):
        run = ChatExecutor(ScriptedModel(["Ebb and flow."])).run(question(), spool)
        if kind == "folder":
            with pytest.raises(StorageError):
                asyncio.run(run)
        else:
            assert asyncio.run(run).text == "Ebb and flow."
            assert (spool / "call_1.done").is_file()
    assert untouched(outside)


@pytest.mark.parametrize("kind", ["link", "pipe", "hard_link"])
def test_refusal_names_the_file_and_a_remedy(fake: FakeCli, outside: Path, kind: str) -> None:
    with planted(fake.spool / "call_1.out", kind, outside), pytest.raises(StorageError) as refused:
        fake.run(question())
    assert refused.value.code == "lab_spool_foreign"
    assert "spool/call_1" in str(refused.value)
    assert "remove it" in str(refused.value)


def test_spool_folder_that_is_a_link_is_refused(fake: FakeCli, outside: Path) -> None:
    fake.spool.symlink_to(outside)
    for content in ("call_1.out", "call_1.done", ".call_1.done.tmp"):
        (outside / content).write_bytes(TREASURE)
    for run in (
        lambda: fake.run(question()),
        lambda: fake.executor().forget(fake.spool, "call_1"),
        lambda: asyncio.run(ChatExecutor(ScriptedModel(["x"])).run(question(), fake.spool)),
    ):
        with pytest.raises(StorageError):
            run()
    assert len(list(outside.iterdir())) == 5
    assert {path.read_bytes() for path in outside.iterdir()} == {TREASURE}


def test_foreign_names_in_a_spool_are_not_deleted(outside: Path) -> None:
    assert spooled_calls(outside) == {"treasure"}
    assert untouched(outside)


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["x_spool", "results", "results/aaaaaaaa_v1", "calls.jsonl"])
async def test_run_refuses_links_in_a_project(services: Services, outside: Path, name: str) -> None:
    use(services, FakeExecutor())
    place = await make_project(services)
    path = place.folder / name
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(outside / "treasure" if name == "calls.jsonl" else outside)
    _, result = await evaluate(services, place.name)
    assert result["status"] == "error"
    assert result["error"]["code"] == "link_refused"
    assert untouched(outside)


@pytest.mark.parametrize("name", ["iterations", "iterations/round_1"])
def test_search_refuses_links_on_the_way_to_a_round(tmp_path: Path, outside: Path, name: str) -> None:
    link = tmp_path / "project" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    config = RoundConfig(
        round=1,
        skill_id="a",
        skill_name="A",
        skill_version="v1",
        baseline_id="b",
        retention_rules="",
        started_at=NOW,
        status="running",
    )
    with pytest.raises(StorageError) as refusal:
        IterationFiles(tmp_path / "project").save_round(config)
    assert refusal.value.code == "link_refused"
    assert untouched(outside)


@pytest.mark.parametrize("name", ["cli", "cli/temp_session", "cli/temp_session/exports"])
def test_sessions_refuse_links(tmp_path: Path, outside: Path, name: str) -> None:
    files = SessionFiles(tmp_path / "workspace")
    (tmp_path / "workspace" / name).parent.mkdir(parents=True)
    (tmp_path / "workspace" / name).symlink_to(outside)

    def export() -> None:
        opened = files.open("auto_tag", "skill", "a", NOW)
        files.export(opened.session_id, "a long prompt")

    with pytest.raises(StorageError) as refusal:
        export()
    assert refusal.value.code == "link_refused"
    assert untouched(outside)


@pytest.mark.anyio
async def test_project_folder_that_is_a_link_is_no_project(services: Services, tmp_path: Path) -> None:
    use(services, FakeExecutor())
    place = await make_project(services)
    moved = tmp_path / "moved"
    place.folder.rename(moved)
    place.folder.symlink_to(moved)
    before = sorted(moved.rglob("*"))
    _, result = await evaluate(services, place.name)
    assert result["error"]["code"] == "lab_no_project"
    assert sorted(moved.rglob("*")) == before


# --- who is signalled

STRANGER = "import sys, time; sys.stdin.read()"


@contextlib.contextmanager
def stranger(output: Path, *, locked: bool) -> Generator[subprocess.Popen[bytes]]:
    """Run a process that is none of ours and writes into a file."""
    fd = os.open(output, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    if locked:
        fcntl.flock(fd, fcntl.LOCK_EX)
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", STRANGER],
        stdin=subprocess.PIPE,
        stdout=fd,
        start_new_session=True,
    )
    os.close(fd)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


@pytest.mark.parametrize("how", ["link", "hard_link"])
def test_planted_link_to_the_output_of_a_stranger_gets_nobody_signalled(
    fake: FakeCli, outside: Path, how: str
) -> None:
    log = outside.parent / "log of a stranger"
    with stranger(log, locked=True) as process:
        fake.spool.mkdir()
        path = fake.spool / "call_1.out"
        path.symlink_to(log) if how == "link" else path.hardlink_to(log)
        with pytest.raises(StorageError):
            fake.run(question(timeout_seconds=0.1))
        assert process.poll() is None


def test_only_the_program_that_holds_the_lock_is_ended(fake: FakeCli) -> None:
    """A hung program of an earlier run is ended; a process that merely writes into the same file is not."""
    fake.spool.mkdir()
    path = fake.spool / "call_1.out"
    with stranger(path, locked=True) as hung, stranger(path, locked=False) as bystander:
        answer = fake.run(question(timeout_seconds=0.2))
        assert answer.error_code == "provider.call_timeout"
        assert hung.wait(60) == -signal.SIGTERM
        assert bystander.poll() is None
