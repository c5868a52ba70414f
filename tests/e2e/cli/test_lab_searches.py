"""A search for a better skill from the terminal: what is paid and agreed to, pauses, its end, and those of others."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

from tests.e2e.cli.conftest import CHECKOUT, SECONDS
from tests.e2e.cli.lab_driver import LabProgram, project_of_two, until
from tests.support.providers.fake_cli import FakeCli

Terminal = Callable[..., "pexpect.spawn[str]"]
Start = Callable[..., "subprocess.Popen[str]"]
EXAMPLES = json.loads((CHECKOUT / "tests" / "support" / "lab" / "source_examples.json").read_text("utf-8"))


def _folder(root: Path, project: str) -> Path:
    return root / "workspace" / "projects" / project


def test_whoever_does_not_agree_to_a_search_leaves_the_project_as_it_was(
    paid: LabProgram, terminal: Terminal, root: Path, tmp_path: Path, fake: FakeCli, outside: dict[str, str]
) -> None:
    project = project_of_two(paid, tmp_path, "--no-controls")["project"]
    assert paid("run", project, "--yes").code == 0
    before, calls = (_folder(root, project) / "x_run.json").read_bytes(), len(fake.calls())
    refused = paid("iterate", project)
    assert refused.is_a_refusal
    assert "--max-calls" in refused.said
    child = terminal("lab", "iterate", project, "--max-calls", "40", **outside)
    child.expect(r"\[y/N\]")
    child.sendline("n")
    child.expect(pexpect.EOF)
    child.close()
    assert (child.exitstatus, len(fake.calls())) == (1, calls)
    assert (_folder(root, project) / "x_run.json").read_bytes() == before


def test_a_paused_search_is_told_as_open_and_one_that_had_ended_takes_no_word(
    paid: LabProgram,
    start: Start,
    root: Path,
    tmp_path: Path,
    fake: FakeCli,
    hold: Path,
    outside: dict[str, str],
) -> None:
    hold.unlink()
    project = project_of_two(paid, tmp_path, "--no-controls", "--concurrency", "1")["project"]
    assert paid("run", project, "--yes").code == 0
    hold.touch()
    (tmp_path / "held").unlink(missing_ok=True)
    fake.rules({"match": "", "sleep": 0.5})  # so that whoever looks now and then sees the wish in time
    searching = start("lab", "iterate", project, "--rounds", "1", "--yes", **outside)
    until((tmp_path / "held").exists, searching)
    pausing = start("lab", "pause", project, "--json")
    until(lambda: any(_folder(root, project).glob(".stop-*")), pausing)
    hold.unlink()
    printed, told = searching.communicate(timeout=SECONDS)
    assert searching.returncode == 1, told
    assert f"迭代没有结束；继续：personalab lab iterate {project}" in told
    assert not any(word in printed + told for word in ("结束原因", "人工停止", "没有候选胜过"))
    paused = json.loads(pausing.communicate(timeout=SECONDS)[0])
    assert (paused["status"], paused["kind"]) == ("interrupted", "iterate")
    assert "迭代没有结束" in paid("iteration", project).said

    fake.rules()
    assert paid.json("iterate", project, "--yes")["stop_cause"] == "max_rounds"
    calls = len(fake.calls())
    again = paid("iterate", project)
    assert (again.code, len(fake.calls())) == (0, calls), again
    assert f"personalab lab iterate {project} --rounds N" in again.said
    assert f"personalab lab iterate {project} --fresh" in again.said
    assert "至多" not in again.said
    assert paid("iterate", project, "--rounds", "2").is_a_refusal  # that is paid, so somebody has to agree
    assert len(fake.calls()) == calls


@pytest.mark.parametrize(
    ("example", "file", "words"),
    [
        ("7.2", "iteration_report.json", ["3 轮", "达到目标分", "92.4"]),
        ("7.3", "exploration_log.json", ["GREEDY, DIMENSION_FOCUS", "mock-ite"]),
    ],
)
def test_a_search_of_another_program_is_shown(
    lab: LabProgram, root: Path, example: str, file: str, words: list[str]
) -> None:
    made = lab.json("project", "new", "P", "--skill", "2abe", "--baseline", "92e1", "--model", "rehearsal")
    folder = _folder(root, made["project"]) / "iterations"
    folder.mkdir()
    (folder / file).write_text(json.dumps(EXAMPLES[example]), encoding="utf-8")
    shown = lab("iteration", "P")
    assert shown.code == 0, shown
    assert [word for word in words if word not in shown.printed] == []
