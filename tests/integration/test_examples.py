"""The programs in ``examples/`` run as they are, without a key or a network."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
EXAMPLES = PROJECT / "examples"
PRINTED = {
    "python_story": "[point 1, in_progress]",
    "mcp_client": "'current_status': 'in_progress'",
    "custom_model": "Read them to me.",
    "story_tool": "Maren",
}
"""What each program prints, among other things."""


def test_every_example_is_tested_and_listed() -> None:
    programs = {path.stem for path in EXAMPLES.glob("*.py")} - {"__init__"}
    assert programs == set(PRINTED)
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    names = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".sh")} - {"__init__.py"}
    assert {name for name in names if name not in listed} == set()


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_example_program_runs(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"examples.{name}"],
        capture_output=True,
        encoding="utf-8",
        cwd=PROJECT,
        timeout=120,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert PRINTED[name] in done.stdout


@pytest.mark.parametrize(("score", "code"), [("0", 0), ("100", 100)])
def test_lab_example_fails_a_build_below_its_score(score: str, code: int, tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", EXAMPLES / "lab_in_ci.sh", score, report],
        capture_output=True,
        encoding="utf-8",
        cwd=tmp_path,
        timeout=300,
        env={**os.environ, "PATH": programs},
    )
    assert done.returncode == code, done.stderr
    suites = ElementTree.parse(report).getroot()
    assert {case.get("classname") or case.get("name") for case in suites.iter("testcase")}
