"""A wheel is built from the project, installed elsewhere, and played from a folder of the user's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's content, as an installer would lay it out."""
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", build, str(folder)], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    site = folder / "site"
    with zipfile.ZipFile(folder / done.stdout.split()[-1]) as wheel:
        wheel.extractall(site)
    return site


def _run(installed: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PERSONALAB")}
    environment |= {"PYTHONPATH": str(installed), "HOME": str(home), "XDG_DATA_HOME": str(home / "share")}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return subprocess.run(
        [sys.executable, "-P", "-m", "cli", *arguments],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
    )


def test_an_installed_copy_plays_from_a_folder_of_the_users_own(installed: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in installed.rglob("*")}
    made = _run(
        installed, tmp_path, "new", "--character", "char_maren", "--background", "bg_lighthouse", "--json"
    )
    assert made.returncode == 0, made.stderr
    instance_id = json.loads(made.stdout)["instance_id"]
    said = _run(installed, tmp_path, "say", instance_id, "Good evening.")
    assert said.returncode == 0, said.stderr
    assert "rehearsal" in said.stdout
    assert (tmp_path / "share" / "personalab" / "instances" / instance_id).is_dir()
    assert {path: path.stat().st_mtime_ns for path in installed.rglob("*")} == before


def test_the_wheel_holds_the_samples_the_vocabularies_and_the_vectors(installed: Path) -> None:
    assert (installed / "personalab" / "shipped" / "prompt_templates" / "zh" / "turn.txt").is_file()
    assert (installed / "personalab" / "providers" / "vocab" / "o200k_base.tiktoken.gz").is_file()
    assert (installed / "personalab" / "i18n" / "en.json").is_file()
    assert any((installed / "personalab" / "retrieval" / "vectors").iterdir())
    assert not (installed / "data").exists()
    assert not (installed / "tests").exists()
