"""A test run works under a parent that ignores signals, and notices processes that outlive their test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.processes import newest_process, remaining_processes

PROJECT = Path(__file__).resolve().parents[2]
_IGNORING = 'trap "" INT HUP; exec "$@"'


def _run_ignoring_signals(*tests: str) -> subprocess.CompletedProcess[str]:
    pytest_options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    return subprocess.run(
        ["sh", "-c", _IGNORING, "sh", sys.executable, "-m", "pytest", *pytest_options, *tests],
        cwd=PROJECT,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def test_signal_tests_pass_under_a_parent_that_ignores_signals() -> None:
    """``nohup make test &`` starts programs with SIGINT and SIGHUP ignored."""
    done = _run_ignoring_signals(
        "tests/e2e/cli/test_endings.py::test_a_signal_to_end_closes_the_reply_as_interrupted",
        "tests/e2e/cli/test_say.py::test_ctrl_c_interrupts_the_reply_and_ends_with_130",
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_remaining_process_is_found_by_its_folder(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    newest = newest_process()
    with subprocess.Popen(["sleep", "60"], cwd=inside) as process:
        try:
            # Only the number: right after the start, a process may have no command line yet.
            for since in (0, newest):
                [found] = remaining_processes(inside, grace=0, since=since)
                assert found.startswith(f"{process.pid}: ")
        finally:
            process.kill()
    assert remaining_processes(inside) == []
