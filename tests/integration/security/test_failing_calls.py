"""File systems without locks, and writes whose rollback fails as well."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from personalab.operations.doctor import examine_root
from personalab.services import Services
from tests.conftest import PROJECT
from tests.integration.security.shims import NO_LOCKS, NO_TRUNCATE, build_shim
from tests.support.graph.turns import lines, say, snapshot

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="LD_PRELOAD is for Linux"),
]


def _run(shim: Path, root: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LD_PRELOAD": str(shim), "PERSONALAB_DATA": str(root), **more}
    return subprocess.run(
        [sys.executable, "-m", "cli", *words],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )


@pytest.mark.parametrize(
    "command",
    [
        ("say", "inst_001", "Good evening"),
        ("settings", "set", "limits.max_total_tokens", "50000"),
        ("archive", "new", "weather"),
        ("lab", "samples"),
        ("memory", "add", "char_alserqi", "event", "Tea"),
    ],
)
async def test_missing_lock_support_is_named_with_its_folder(
    services: Services, root: Path, instance: str, tmp_path: Path, command: list[str]
) -> None:
    skill = next((root / "workspace" / "skills").rglob("meta.json")).parent
    shutil.rmtree(skill)
    before = snapshot(root / "instances")
    texts = {"zh": "不支持文件锁", "en": "does not support file locks"}
    shim = build_shim(NO_LOCKS, tmp_path)
    for language in ("zh", "en") if command[0] == "say" else ("en",):
        services.preferences.change({"preferences.language": language})
        done = _run(shim, root, *command)
        assert done.returncode == 1, done
        assert texts[language] in done.stderr
        assert str(root) in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    assert snapshot(root / "instances") == before


async def test_stories_can_be_read_without_lock_support(
    services: Services, root: Path, instance: str, tmp_path: Path
) -> None:
    await say(services, "Good evening")
    shim = build_shim(NO_LOCKS, tmp_path)
    for command in (("library",), ("read", "inst_001")):
        assert _run(shim, root, *command).returncode == 0


async def test_refused_turn_leaves_no_line_when_truncation_fails(
    services: Services, root: Path, instance: str, tmp_path: Path
) -> None:
    await say(services, "Good evening")
    before = lines(services)
    done = _run(build_shim(NO_TRUNCATE, tmp_path), root, "say", "inst_001", "This turn is refused")
    assert lines(services) == before
    assert done.returncode == 1
    assert "磁盘已满" in done.stderr
    assert not [finding for finding in (await examine_root(services)).findings if finding.level == "problem"]
    await say(services, "And this one is not")
    said = [line["content"] for line in lines(services) if line.get("role") == "user"]
    assert said == ["Good evening", "And this one is not"]
