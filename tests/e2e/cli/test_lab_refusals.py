"""What the lab's commands refuse: with exit code 2, in one sentence, and with nothing left behind."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from personalab.services import Services
from tests.e2e.cli.lab_driver import LabProgram

NOBODY = "nobody"
REFUSED: tuple[tuple[str, ...], ...] = (
    ("skill", "show", NOBODY),
    ("skill", "show", "2ab"),
    ("skill", "show", "2abe", "--version", "v9"),
    ("skill", "show", "skill_2abeadd6_v9"),
    ("skill", "new", "A", "--purpose", "coding"),
    ("skill", "new", "A", "--purpose", "../up", "--content", "x"),
    ("skill", "new", " ", "--purpose", "coding", "--content", "x"),
    ("skill", "new", "A", "--purpose", "coding", "--content", " "),
    ("skill", "new", "A", "--purpose", "coding", "--content", "x", "--file", "y"),
    ("skill", "new", "A", "--purpose", "coding", "--file", "no/such/file"),
    ("skill", "new", "A", "--content", "x"),
    ("skill", "edit", "2abe"),
    ("skill", "edit", "2abe", "--type", "robot"),
    ("skill", "edit", "2abe", "--content", "x", "--expect", "v7"),
    ("skill", "diff", "2abe", "v1", "v2"),
    ("skill", "import", "no/such/file"),
    ("skill", "import", "nofile"),
    ("skill", "import", "README.md", "README.md", "--name", "both"),
    ("skill", "export", "2abe", "--baseline", NOBODY),
    ("skill", "from-character", "char_nobody"),
    ("skill", "to-character", "2abe", "char_maren"),
    ("skill", "to-character", "2abe", "../char"),
    ("tag", "add", "2abe", " "),
    ("tag", "add", NOBODY, "x"),
    ("tag", "remove", "2abe", "missing"),
    ("tag", "approve", "2abe"),
    ("tag", "approve", "2abe", "--all"),
    ("tag", "list", "2abe", "--kind", "baseline"),
    ("baseline", "show", NOBODY),
    ("baseline", "new", "B", "--purpose", "coding", "--cases", "README.md"),
    ("baseline", "new", "B", "--purpose", "coding", "--cases", "langgraph.json"),
    ("baseline", "edit", "92e1"),
    ("baseline", "generate", "92e1", " ", "--model", "rehearsal"),
    ("baseline", "generate", "92e1", "x", "--count", "0"),
    ("baseline", "accept", "92e1", "draft_404"),
    ("baseline", "accept", "92e1"),
    ("case", "add", "92e1", "--name", "c", "--input", " ", "--expected", "x"),
    ("case", "add", "92e1", "--name", "c", "--input", "-", "--expected", "-"),
    ("case", "edit", "92e1", "case_404", "--name", "x"),
    ("case", "remove", "92e1", "case_404"),
    ("project", "new", "P", "--skill", NOBODY, "--baseline", "92e1"),
    ("project", "new", "P", "--skill", "2abe", "--baseline", NOBODY),
    ("project", "new", "P", "--skill", "2abe", "--skill", "2abe", "--baseline", "92e1"),
    ("project", "new", " ", "--skill", "2abe", "--baseline", "92e1"),
    ("project", "new", "P", "--skill", "2abe", "--baseline", "92e1", "--repeats", "0"),
    ("project", "new", "P", "--skill", "2abe", "--baseline", "92e1", "--flag=--model=x"),
    ("project", "new", "P", "--skill", "2abe", "--baseline", "92e1", "--model", " "),
    ("project", "new", "P", "--skill", "2abe", "--baseline", "92e1", "--max-calls", "1.5"),
    ("project", "new", "P", "--skill", "2abe", "--baseline", "92e1", "--max-usd", "nan"),
    ("project", "new", "P", "--baseline", "92e1"),
    ("project", "show", NOBODY),
    ("plan", NOBODY),
    ("run", NOBODY),
    ("run", "../projects"),
    ("pause", NOBODY),
    ("skip", NOBODY, "2abe", "case_001"),
    ("analyse", NOBODY),
    ("recompose", NOBODY),
    ("iterate", NOBODY),
    ("iteration", NOBODY),
    ("stop", NOBODY),
    ("board", "--baseline", NOBODY),
    ("report", NOBODY),
    ("report", NOBODY, "--format", "pdf"),
    ("report", NOBODY, "--out", "-", "--json"),
    ("cli", "set", "nothing", "1"),
    ("cli", "set", "updated_at", "2025-01-01T00:00:00Z"),
    ("cli", "set", "default_retry_count", "many"),
    ("cli", "set", "default_retry_count", "-1"),
    ("cli", "set", "cli_path", ""),
    ("cli", "set", "context.auto_export", "maybe"),
    ("bench", "--seeds", "5-1"),
    ("bench", "--seeds", "0-99999"),
    ("bench", "--preset", "flat"),
    ("bench", "--engine", "steam"),
    ("nothing",),
)
IN_A_PROJECT: tuple[tuple[str, ...], ...] = (
    ("run", "P", "--concurrency", "0"),
    ("run", "P", "--fail-below", "101"),
    ("skip", "P", "2abe", "case_404"),
    ("skip", "P", "2abe", "case_001", "--undo"),
    ("stop", "P"),
    ("skip", "P", "fa22", "case_001"),
    ("analyse", "P"),
    ("recompose", "P"),
    ("iterate", "P", "--yes"),
    ("iterate", "P", "--yes", "--max-calls", "5"),
    ("iterate", "P", "--beam", "0"),
    ("iteration", "P"),
    ("report", "P", "--out", "no/such/folder/report.html"),
    ("report", "P", "--out", "README.md"),
)


@pytest.fixture
def lab(services: Services) -> Iterator[LabProgram]:
    """The program, in a process for all commands of a test, speaking English."""
    services.preferences.change({"language": "en"})
    services.lab_sessions.settings()  # they are written when first read
    program = LabProgram()
    yield program
    program.close()


def _files(folder: Path) -> dict[str, bytes]:
    """Read what stands in a workspace; locks are no content."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


def test_what_cannot_be_done_is_said_in_one_sentence_and_changes_nothing(lab: LabProgram, root: Path) -> None:
    before, characters = _files(root / "workspace"), _files(root / "characters")
    assert [ended for line in REFUSED if not (ended := lab(*line)).is_a_refusal] == []
    assert _files(root / "workspace") == before
    assert _files(root / "characters") == characters


def test_what_a_project_cannot_do_is_said_in_one_sentence(
    lab: LabProgram, root: Path, tmp_path: Path
) -> None:
    made = lab("project", "new", "P", "--skill", "2abe", "--baseline", "92e1", "--model", "rehearsal")
    assert made.code == 0, made
    before = _files(root / "workspace")
    assert [ended for line in IN_A_PROJECT if not (ended := lab(*line)).is_a_refusal] == []
    assert _files(root / "workspace") == before
    link = tmp_path / "link.html"
    link.symlink_to(tmp_path / "nothing")
    assert lab("report", "P", "--out", str(link)).is_a_refusal
    assert link.is_symlink()


def test_what_is_ambiguous_is_refused_and_named(lab: LabProgram) -> None:
    twins = [
        lab.json("skill", "new", "Twin", "--purpose", "a", "--content", content)["id"] for content in "xy"
    ]
    refused = lab("skill", "show", "Twin")
    assert refused.is_a_refusal
    assert all(twin[:8] in refused.said for twin in twins)
    assert lab.json("skill", "show", twins[0][:8])["meta"]["id"] == twins[0]
    lab.json("skill", "new", "Both", "--purpose", "a", "--content", "x")
    baseline = lab.json("baseline", "new", "Both", "--purpose", "a")
    assert "--kind" in lab("tag", "list", "Both").said
    assert lab.json("tag", "list", "Both", "--kind", "baseline")["id"] == baseline["id"]


def test_several_files_come_in_without_the_one_that_cannot(lab: LabProgram, tmp_path: Path) -> None:
    good = tmp_path / "good.md"
    good.write_text("# Good\n\nBe good.\n", encoding="utf-8")
    ended = lab("skill", "import", str(good), str(tmp_path / "no.md"), "--json")
    report = json.loads(ended.printed)
    assert (ended.code, [row["name"] for row in report["imported"]]) == (1, ["Good"])
    assert [row["code"] for row in report["failed"]] == ["lab_nothing_there"]


def test_a_reader_is_told_in_the_saved_language(lab: LabProgram, services: Services) -> None:
    lines = [
        ("skill", "show", NOBODY),
        ("run", NOBODY),
        ("cli", "set", "x", "1"),
        ("skill", "show", "2abe", "--version", "v9"),
    ]
    assert not any(re.search("[\u4e00-\u9fff]", lab(*line).said) for line in lines)
    services.preferences.change({"language": "zh"})
    assert all(re.search("[\u4e00-\u9fff]", lab(*line).said) for line in lines)


def test_a_small_bench_prints_its_table_and_what_was_promised(lab: LabProgram) -> None:
    line = ("bench", "--seeds", "1", "--preset", "base", "--engine", "random", "--engine", "ledger")
    shown, checked, data = lab(*line), lab(*line, "--check"), lab.json(*line)
    assert (shown.code, checked.code) == (0, 1)  # not everything was measured
    assert "not measured" in " ".join(re.findall(r"\w+", lab("bench", "--help").printed))
    assert "random" in shown.printed
    assert data["seeds"] == [1]
    assert {row["engine"] for row in data["rows"]} == {"random", "ledger"}
    assert all({"name", "goal", "measured", "met"} == set(figure) for figure in data["figures"])
