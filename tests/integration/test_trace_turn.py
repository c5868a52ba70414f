"""Tests that docs/architecture.md shows the files a turn really passes."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_architecture_page_shows_the_path_of_a_turn() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tools.trace_turn"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    paths = run.stdout.splitlines()
    assert len(paths) == 4
    assert all(path.count("→") < 5 for path in paths)
    assert run.stdout in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
