"""A run that is killed again and again ends as one that nobody disturbed, and pays for no call twice."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from personalab.services import Services, open_services
from personalab.settings import read_settings
from personalab.storage.lab.project_journal import read_journal
from personalab.storage.lab.projects import ProjectPlace
from tests.support.lab.running import make_project

PROJECT = Path(__file__).resolve().parents[3]
KILLS = 50
TIMES = ("at", "duration_ms", "executed_at", "score_evaluated_at", "generated_at", "updated_at")


class Runner:
    """Runs projects in processes of their own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert self._answer() == "ready"

    def run(self, root: Path, project: str, seconds: float | None = None) -> str:
        """Run a project, kill it after some seconds, and tell how it ended."""
        assert self._process.stdin is not None
        print(json.dumps([str(root), project, seconds]), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


@contextmanager
def _runner(log: Path) -> Generator[Runner]:
    environment = {**os.environ, "FAKE_CLAUDE_LOG": str(log), "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.graph.killed_run"],
        cwd=PROJECT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    try:
        yield Runner(process)
    finally:
        process.communicate(timeout=60)


@pytest.fixture
def prepared(tmp_path: Path) -> tuple[Path, str]:
    """A data root with a project that a stand-in for the command line runs; tells the project's name."""
    root = tmp_path / "prepared"
    services = open_services(read_settings({"PERSONALAB_DATA": str(root)}))
    program = tmp_path / "claude"
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH={PROJECT} exec {sys.executable} -S -m personalab.testing.fake_claude "$@"\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    settings = services.lab_sessions.settings()
    services.lab_sessions.save_settings(settings.changed(cli_path=str(program)))
    place = asyncio.run(make_project(services, cases=3, concurrency=4, model="opus"))
    return root, place.name


def _place(root: Path, project: str) -> ProjectPlace:
    return Services(read_settings({"PERSONALAB_DATA": str(root)})).projects.project(project)


def _plain(value: Any) -> Any:
    """Leave out when things happened and how long they took, and let calls stand in the order of their names."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {key: _plain(part) for key, part in fields.items() if key not in TIMES}
    if isinstance(value, list):
        rows = [_plain(part) for part in cast("list[Any]", value)]
        named = all(isinstance(row, dict) and "call_id" in row for row in rows)
        return sorted(rows, key=lambda row: row["call_id"]) if named else rows
    return value


def _state(place: ProjectPlace) -> dict[str, Any]:
    """Read everything a run leaves."""
    found: dict[str, Any] = {
        str(path.relative_to(place.folder)): _plain(json.loads(path.read_text(encoding="utf-8")))
        for path in sorted(place.folder.rglob("*.json"))
    }
    found["calls"] = _plain(read_journal(place.journal, ""))
    found["spool"] = sorted(path.name for path in place.spool.iterdir())
    found["left"] = sorted(path.name for path in place.folder.rglob("*.tmp"))
    return found


def _asked(log: Path) -> Counter[tuple[str, str]]:
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []
    return Counter((row["system"], row["stdin"]) for row in rows)


def test_a_run_killed_at_any_moment_ends_as_if_nothing_had_been(
    prepared: tuple[Path, str], tmp_path: Path
) -> None:
    source, project = prepared
    log = tmp_path / "log"
    with _runner(log) as runner:
        undisturbed = tmp_path / "undisturbed"
        shutil.copytree(source, undisturbed)
        assert runner.run(undisturbed, project) == "done"
        wanted, asked = _state(_place(undisturbed, project)), _asked(log)
        assert len(wanted["calls"]) == len(asked) == asked.total() == 4 + 6 + 6
        chance, kills, number = random.Random(20251016), 0, 0
        while kills < KILLS:
            number += 1
            root = tmp_path / f"killed-{number}"
            shutil.copytree(source, root)
            log.unlink()
            longest = 0.3
            while (ended := runner.run(root, project, chance.uniform(0, longest))) == "killed":
                kills += 1
                longest *= 1.05  # so that it comes to an end on a slow machine, too
            assert ended == "done"
            assert _asked(log) == asked
            assert _state(_place(root, project)) == wanted
