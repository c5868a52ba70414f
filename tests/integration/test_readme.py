"""What the READMEs show is what happens.

``PERSONALAB_UPDATE_README=1 pytest tests/integration/test_readme.py`` writes the sessions anew.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
READMES = ["README.md", "README.zh-CN.md"]
_CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
_PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)


def _play(session: str) -> str:
    """Run each command of a console session; return the session with what they really print."""
    shown: list[str] = []
    for row in session.splitlines():
        if not row.startswith("$ personalab "):
            continue
        done = subprocess.run(
            [sys.executable, "-m", "cli", *shlex.split(row)[2:]],
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=PROJECT,
            timeout=60,
            env={**os.environ, "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"},
        )
        assert done.returncode == 0, done.stderr
        shown += [row, done.stdout.rstrip("\n")]
    return "\n".join(shown) + "\n"


@pytest.mark.parametrize("name", [*READMES, "docs/memory.md"])
def test_the_session_in_the_readme_is_a_real_one(name: str) -> None:
    text = (PROJECT / name).read_text(encoding="utf-8")
    found = _CONSOLE.search(text)
    assert found is not None
    real = _play(found[1])
    if os.environ.get("PERSONALAB_UPDATE_README"):
        (PROJECT / name).write_text(text.replace(found[1], real), encoding="utf-8")
    else:
        assert found[1] == real


@pytest.mark.parametrize("name", ["README.md", "docs/memory.md"])
def test_the_readmes_python_runs_and_streams_a_reply(name: str) -> None:
    code = _PYTHON.search((PROJECT / name).read_text(encoding="utf-8"))
    assert code is not None
    done = subprocess.run(
        [sys.executable, "-c", code[1]],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=PROJECT,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "rehearsal" in done.stdout
    assert done.stderr == ""


def test_the_python_of_the_archives_page_runs_anywhere(tmp_path: Path) -> None:
    code = _PYTHON.search((PROJECT / "docs" / "archive.md").read_text(encoding="utf-8"))
    assert code is not None
    done = subprocess.run(
        [sys.executable, "-c", code[1]],
        capture_output=True,
        encoding="utf-8",
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(PROJECT), "PYTHONIOENCODING": "utf-8"},
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0].count("They spoke of the rain.") == 1
    assert "Since noon." in done.stdout
    assert "Is it raining?" not in done.stdout


@pytest.mark.parametrize("name", READMES)
def test_every_path_and_make_target_a_readme_names_exists(name: str) -> None:
    text = (PROJECT / name).read_text(encoding="utf-8")
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"\bmake ([a-z-]+)\b(?=`|\s+#|`)", text):
        assert f"\n{target}:" in makefile, target
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (PROJECT / link).exists(), link


@pytest.mark.parametrize("name", READMES)
def test_every_command_a_readme_names_exists(name: str) -> None:
    text = (PROJECT / name).read_text(encoding="utf-8")
    helped = subprocess.run(
        [sys.executable, "-m", "cli", "--help"], capture_output=True, text=True, encoding="utf-8", cwd=PROJECT
    ).stdout
    named = set(re.findall(r"personalab ([a-z][a-z-]+)", text))
    assert named
    for command in named:
        assert re.search(rf"\b{command}\b", helped), command
