"""Running from a checkout: the data root beside the shipped samples, and a work tree that stays clean."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from personalab.settings import read_settings
from personalab.storage.seed import SEEDED, SEEDING, seed
from tests.conftest import PROJECT
from tests.support.graph.turns import snapshot

PACKAGES = ("personalab", "nodes", "graph", "mcp_server", "web", "cli")

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

Run = Callable[..., str]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with the code and the shipped data of this project, and nothing else."""
    folder = tmp_path / "checkout"
    for name in (*PACKAGES, "data/shipped"):
        shutil.copytree(PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", ".gitignore", "README.md", "LICENSE"):
        shutil.copyfile(PROJECT / name, folder / name)
    _git(folder, "init", "--quiet")
    _git(folder, "add", "--all")
    _git(folder, "-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "--quiet", "--message", "t")
    return folder


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=60
    ).stdout


@pytest.fixture
def run(checkout: Path, tmp_path: Path) -> Run:
    """Run a terminal command from the checkout, with its default data root."""

    def run(*arguments: str, **environment: str) -> str:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PERSONALAB")}
        kept |= {"PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1", "PERSONALAB_MODEL": "rehearsal"}
        done = subprocess.run(
            [sys.executable, "-P", "-m", "cli", *arguments],
            cwd=tmp_path,
            env={**kept, **environment},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def _config(root: Path) -> dict[str, Any]:
    return json.loads((root / "config.json").read_bytes())


def test_playing_from_a_checkout_leaves_the_work_tree_clean(checkout: Path, run: Run) -> None:
    data = checkout / "data"
    run("settings", "set", "limits.max_total_tokens", "50000")
    made = run("new", "--character", "char_maren", "--background", "bg_lighthouse", "--json")
    run("say", json.loads(made)["instance_id"], "Good evening.")
    run("lab", "samples")
    definition = data / "characters" / "char_maren" / "definition.json"
    definition.write_bytes(definition.read_bytes().replace(b"Maren", b"Marion"))
    run("doctor")
    assert _config(data)["limits"]["max_total_tokens"] == 50000
    assert _git(checkout, "status", "--porcelain") == ""


def test_new_root_has_the_defaults_and_not_the_settings_of_the_checkout(
    checkout: Path, run: Run, tmp_path: Path
) -> None:
    run("settings", "set", "limits.max_total_tokens", "50000")
    other = tmp_path / "other"
    run("settings", PERSONALAB_DATA=str(other))
    assert snapshot(other) == {**snapshot(checkout / "data" / "shipped"), SEEDED: b"4"}


def test_wheel_and_sdist_hold_nothing_of_a_users_own(checkout: Path, tmp_path: Path) -> None:
    data = checkout / "data"
    seed(data, data / "shipped")
    for name in ("instances/inst_001/instance_state.json", "characters/char_own/definition.json"):
        (data / name).parent.mkdir(parents=True)
        (data / name).write_text("mine", encoding="utf-8")
    (data / "config.json").write_text("mine", encoding="utf-8")
    build = "import sys; from hatchling import build; build.build_wheel(sys.argv[1]); build.build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=checkout, check=True, timeout=300)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        held = {name.partition("/shipped/")[2] for name in wheel.namelist() if "/shipped/" in name}
    assert held == set(snapshot(data / "shipped"))
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as sdist:
        held = {name.partition("/data/")[2] for name in sdist.getnames() if "/data/" in name}
    assert held == {f"shipped/{name}" for name in snapshot(data / "shipped")}


def test_older_checkout_gets_missing_samples_once_and_keeps_its_own_files(tmp_path: Path) -> None:
    root, shipped = tmp_path / "data", tmp_path / "data" / "shipped"
    shutil.copytree(read_settings().shipped, shipped)
    own = {
        "config.json": "mine",
        "characters/char_maren/definition.json": "mine",
        "characters/char_own/definition.json": "mine",
        "instances/inst_001/instance_state.json": "mine",
        "workspace/projects/one/meta.json": "mine",
    }
    for name, text in own.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    before = snapshot(root)
    assert seed(root, shipped)
    expected = {name: content for name, content in snapshot(shipped).items() if name not in own}
    assert snapshot(root) == {**expected, **before, SEEDED: b"4"}
    (root / "characters" / "char_alserqi" / "definition.json").unlink()
    before = snapshot(root)
    assert not seed(root, shipped)
    assert snapshot(root) == before


@pytest.mark.parametrize("beside", [False, True])
def test_interrupted_seeding_continues_at_the_next_start(tmp_path: Path, beside: bool) -> None:
    root = tmp_path / "data"
    shipped = root / "shipped" if beside else tmp_path / "elsewhere"
    shutil.copytree(read_settings().shipped, shipped)
    seed(root, shipped)
    whole = snapshot(root)
    os.replace(root / SEEDED, root / SEEDING)
    shutil.rmtree(root / "workspace")
    (root / "characters" / "char_maren" / "definition.json").unlink()
    assert seed(root, shipped)
    assert snapshot(root) == whole
    assert not seed(root, shipped)


def test_root_with_files_of_its_own_is_left_alone(root: Path) -> None:
    (root / "instances").mkdir(parents=True)
    assert not seed(root, read_settings().shipped)
    assert [path.name for path in root.iterdir()] == ["instances"]


def test_root_with_hidden_files_only_is_seeded(root: Path) -> None:
    root.mkdir()
    (root / ".lock").touch()
    assert seed(root, read_settings().shipped)
    assert (root / "config.json").is_file()
