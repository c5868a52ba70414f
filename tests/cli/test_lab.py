"""The skill lab from the terminal: a whole session, assets and their life, money, pausing, and how commands explain
themselves."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.cli.conftest import CHECKOUT, SECONDS, Run
from tests.cli.lab_driver import LabProgram
from tests.providers.fake_cli import FakeCli, install

Terminal = Callable[..., "pexpect.spawn[str]"]
Start = Callable[..., "subprocess.Popen[str]"]
CASES = [
    {"name": "sum", "input": "Write add(a, b).", "expected_output": "A function add that returns a + b."},
    {
        "name": "nothing",
        "category": "boundary",
        "input": "Add up an empty list.",
        "expected_output": "The sum of an empty list is 0, without an error.",
    },
    {
        "name": "nonsense",
        "category": "exception",
        "input": "Add a text to a number.",
        "expected_output": "It raises a TypeError that names both values.",
    },
]


def _json(run: Run, *words: str, typed: str | None = None, **environment: str) -> Any:
    done = run("lab", *words, "--json", typed=typed, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _project(run: Run, tmp_path: Path, *options: str, **environment: str) -> dict[str, Any]:
    """Make a project of two sample skills and three cases."""
    cases = tmp_path / "cases.json"
    cases.write_text(json.dumps({"cases": CASES}), encoding="utf-8")
    tests = _json(
        run, "baseline", "new", "Adding", "--purpose", "coding", "--cases", str(cases), **environment
    )
    assert tests["case_count"] == 3
    return _json(
        run, "project", "new", "Who adds best", "--skill", "2abe", "--skill", "严谨的 Python 工程师",
        "--baseline", "Adding", *options, **environment,
    )  # fmt: skip


@pytest.fixture
def lab() -> Iterator[LabProgram]:
    """The program, in a process for all commands of a test."""
    program = LabProgram()
    yield program
    program.close()


def _calls(root: Path, project: str) -> list[dict[str, Any]]:
    path = root / "workspace" / "projects" / project / "calls.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# --- a whole session


def test_a_whole_session_leads_from_nothing_to_a_better_skill(
    personalab: Run, root: Path, tmp_path: Path
) -> None:
    assert _json(personalab, "samples") == []  # a new root has them
    [sample] = (root / "workspace" / "skills").glob("*/*/skill_fa1c653c_v1")
    shutil.rmtree(sample)
    assert [(row["id"][:8], row["outcome"]) for row in _json(personalab, "samples")] == [
        ("fa1c653c", "created")
    ]

    made = _project(
        personalab, tmp_path, "--model", "rehearsal", "--no-skill", "--pass-score", "1", "--concurrency", "32"
    )
    project = made["project"]
    planned = _json(personalab, "plan", project)
    assert (planned["tasks"], planned["execute_calls"], planned["judge_calls"]) == (9, 9, 9)
    assert planned["calls"] == 18 + planned["control_calls"]

    ran = personalab("lab", "run", "Who adds best", "--json")
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert (result["status"], result["total"], result["completed"], result["failed"]) == ("done", 9, 9, 0)
    assert str(planned["calls"]) in ran.stderr  # the plan is stated
    calls = _calls(root, project)
    assert len(calls) == planned["calls"]
    again = personalab("lab", "resume", project)
    assert (again.returncode, _calls(root, project)) == (0, calls)
    assert "严谨的 Python 工程师" in again.stdout

    shown = _json(personalab, "project", "show", made["id"][:6])
    assert [row["rank"] for row in shown["ranking"]] == [1, 2]
    assert all(row["interval"] for row in shown["details"]["skills"])
    assert (shown["status"], shown["stand_ins"]) == ("completed", ["0.0.0-rehearsal"])
    told = personalab("lab", "project", "show", project)
    assert "（无技能）" in told.stdout
    assert "替身" in told.stderr

    report = _json(personalab, "analyse", project)
    assert report["best_skill_id"] == shown["ranking"][0]["skill_id"]
    first = report["advantage_segments"][0]
    new = _json(
        personalab, "recompose", project, "--segments", first["id"], "--rules", f"keep {first['id']}",
        "--name", "Joined",
    )  # fmt: skip
    kept = _json(personalab, "skill", "show", "Joined")
    assert (kept["meta"]["id"], first["content"] in kept["content"]) == (new["id"], True)
    assert kept["provenance"]["source_project_id"] == made["id"]

    searched = _json(personalab, "iterate", project, "--rounds", "2", "--seed", "1")
    assert (searched["status"], searched["report"]["total_rounds"] <= 2) == ("done", True)
    status = _json(personalab, "iteration", project)
    assert (status["report"], status["running"]) == (searched["report"], False)

    edited = _json(personalab, "skill", "edit", "2abe", "--content", "Be brief.\n")
    assert edited["version"] == "v2"
    [group] = _json(personalab, "board")["groups"]
    stale = {row["skill_id"][:8]: row["staleness"] for row in group["records"]}
    assert stale == {"2abeadd6": "skill_updated", "fa2286f2": "current"}
    assert "技能已更新" in personalab("lab", "board", "--flat", "--baseline", "Adding").stdout

    page = _json(personalab, "report", project, "--out", str(tmp_path / "page.html"))
    assert Path(page["file"]).read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html")
    junit = personalab("lab", "report", project, "--format", "junit", "--out", "-", "--check")
    assert (junit.returncode, len(ET.fromstring(junit.stdout).findall(".//testcase"))) == (0, 6)

    out = _json(
        personalab, "skill", "export", "Joined", "--out", str(tmp_path / "out"), "--baseline", "Adding"
    )
    folder = next(Path(file).parent for file in out["files"] if file.endswith("SKILL.md"))
    came = _json(personalab, "skill", "import", str(folder))["imported"]
    assert {(row["kind"], row["outcome"]) for row in came} == {("skill", "same"), ("baseline", "same")}


# --- assets


def test_a_skill_is_written_changed_compared_and_put_away(lab: LabProgram, tmp_path: Path) -> None:
    made = lab.json(
        "skill",
        "new",
        "Mine \x1b[31m",
        "--purpose",
        "coding",
        "--content",
        "-",
        typed="one\ntwo\n",
    )
    short = made["id"][:5]
    assert lab.json("skill", "show", short)["content"] == "one\ntwo\n"
    text = tmp_path / "next.txt"
    text.write_bytes(b"one\r\nthree\n")
    changed = lab.json("skill", "edit", short, "--file", str(text), "--expect", "v1", "--type", "agent")
    assert (changed["version"], changed["type"]) == ("v2", "agent")
    assert lab.json("skill", "show", short)["content"] == "one\r\nthree\n"
    same = lab.json("skill", "edit", short, "--type", "agent")
    assert same["version"] == "v2"
    difference = lab("skill", "diff", short)
    assert "-two" in difference.printed
    assert "+three" in difference.printed
    assert "\x1b" not in lab("skills", "--query", "three").printed
    lab.json("skill", "archive", short)
    assert made["id"] not in [row["id"] for row in lab.json("skills")]
    assert made["id"] in [row["id"] for row in lab.json("skills", "--all")]
    assert lab.json("skill", "unarchive", short)["status"] == "active"


def test_a_baseline_and_its_cases_are_changed_and_drafts_wait_for_a_word(lab: LabProgram) -> None:
    made = lab.json("baseline", "new", "Mine", "--purpose", "coding")
    added = lab.json(
        "case",
        "add",
        "Mine",
        "--name",
        "c",
        "--input",
        "-",
        "--expected",
        "42",
        typed="6 times 7?",
    )
    assert (added["case"]["id"], added["case"]["input"], added["version"]) == ("case_001", "6 times 7?", "v2")
    assert lab.json("case", "edit", "Mine", "case_001", "--category", "boundary")["version"] == "v3"
    drafted = lab.json(
        "baseline", "generate", "Mine", "adding numbers", "--count", "2", "--model", "rehearsal"
    )
    ids = [draft["id"] for draft in drafted["drafts"]]
    assert [row["id"] for row in lab.json("baseline", "drafts", "Mine")] == ids
    assert lab.json("baseline", "accept", "Mine", ids[0])["case_count"] == 2
    assert lab.json("baseline", "reject", "Mine", "--all") == []
    assert lab.json("case", "remove", "Mine", "case_001")["case_count"] == 1
    [session] = lab.json("sessions", "--expire")["sessions"]
    assert (session["purpose"], session["related_target_id"]) == ("baseline_gen", made["id"])
    whole = lab("baseline", "show", "Mine")
    assert "case_002" in whole.printed


def test_tags_are_given_proposed_and_judged(lab: LabProgram) -> None:
    assert [tag["value"] for tag in lab.json("tag", "add", "2abe", "short", "new")["manual"]][-2:] == [
        "short",
        "new",
    ]
    assert "new" not in json.dumps(lab.json("tag", "remove", "2abe", "new")["manual"])
    proposed = lab.json("tag", "auto", "2abe", "--model", "rehearsal")["tags"]
    assert {tag["status"] for tag in proposed} == {"pending"}
    value = proposed[0]["value"]
    refused = lab.json("tag", "reject", "2abe", value)
    assert {tag["value"]: tag["status"] for tag in refused["auto"]}[value] == "rejected"
    if len(proposed) > 1:
        accepted = lab.json("tag", "approve", "2abe", "--all")
        assert {tag["status"] for tag in accepted["auto"]} == {"rejected", "approved"}
    assert lab.json("tag", "batch", "--model", "rehearsal") == []  # every sample has tags


def test_a_persona_becomes_a_skill_and_a_skill_a_character(lab: LabProgram, root: Path) -> None:
    came = lab.json("skill", "from-character", "char_maren")
    shown = lab.json("skill", "show", came["id"])
    assert (came["outcome"], shown["meta"]["purpose"]) == ("created", "persona")
    made = lab.json("skill", "to-character", came["id"], "char_second")
    assert (made["created"], (root / "characters" / "char_second").is_dir()) == (True, True)
    assert lab("skill", "to-character", came["id"], "char_second").code == 2


# --- money, budgets, pauses


@pytest.fixture
def fake(tmp_path: Path) -> FakeCli:
    """A ``claude`` that costs nothing, though the program cannot know."""
    return install(tmp_path / "fake")


@pytest.fixture
def outside(fake: FakeCli) -> dict[str, str]:
    """What the fake needs around it."""
    wanted = ("PYTHONPATH", "FAKE_CLAUDE_RULES", "FAKE_CLAUDE_LOG")
    return {name: fake.environment[name] for name in wanted}


def test_money_is_spent_only_with_a_word_or_a_budget(
    personalab: Run,
    terminal: Terminal,
    root: Path,
    tmp_path: Path,
    fake: FakeCli,
    outside: dict[str, str],
) -> None:
    assert _json(personalab, "cli", "set", "cli_path", str(fake.path))["cli_path"] == str(fake.path)
    project = _project(personalab, tmp_path, "--concurrency", "2")["project"]
    refused = personalab("lab", "run", project, **outside)
    assert (refused.returncode, refused.stdout, len(refused.stderr.splitlines())) == (2, "", 1)
    assert "--yes" in refused.stderr
    child = terminal("lab", "run", project, **outside)
    child.expect(r"\[y/N\]")
    child.sendline("n")
    child.expect(pexpect.EOF)
    child.close()
    assert (child.exitstatus, fake.calls()) == (1, [])

    few = personalab("lab", "run", project, "--max-calls", "6", "--json", **outside)
    result = json.loads(few.stdout)
    assert (few.returncode, result["completed"] < 6, len(_calls(root, project))) == (1, True, 6)
    assert result["budget"]
    rest = personalab("lab", "run", project, "--max-calls", "100", "--fail-below", "100", **outside)
    assert rest.returncode == 100, rest.stderr
    assert len(_calls(root, project)) == len({call["call_id"] for call in _calls(root, project)}) == 16
    checked = personalab("lab", "report", project, "--format", "csv", "--out", str(tmp_path), "--check")
    assert (checked.returncode, len(list(tmp_path.glob("*.csv")))) == (100, 1)


def test_a_run_is_paused_and_goes_on_without_paying_again(
    personalab: Run,
    start: Start,
    root: Path,
    tmp_path: Path,
    fake: FakeCli,
    outside: dict[str, str],
) -> None:
    hold, held = tmp_path / "hold", tmp_path / "held"
    hold.touch()
    waiting = (
        f'case $1 in --version) ;; *) while [ -e "{hold}" ]; do touch "{held}"; sleep 0.02; done ;; esac'
    )
    fake.path.write_text(fake.path.read_text("utf-8").replace("\n", f"\n{waiting}\n", 1), encoding="utf-8")
    _json(personalab, "cli", "set", "cli_path", str(fake.path))
    project = _project(personalab, tmp_path, "--concurrency", "1", "--no-controls")["project"]
    fake.rules({"match": "", "sleep": 0.5})  # so that whoever looks now and then sees the wish in time
    running = start("lab", "run", project, "--yes", "--json", **outside)
    _until(held.exists, running)  # the first call is under way
    pausing = start("lab", "pause", project, "--json")
    _until(lambda: any((root / "workspace" / "projects" / project).glob(".stop-*")), pausing)
    hold.unlink()
    said, told = running.communicate(timeout=SECONDS)
    assert (running.returncode, json.loads(said)["status"]) == (1, "interrupted"), told
    assert json.loads(pausing.communicate(timeout=SECONDS)[0])["status"] == "interrupted"
    before = _calls(root, project)
    assert 0 < len(before) == len(fake.calls()) < 12
    fake.rules()
    assert _json(personalab, "skip", project, "fa22", "case_003")["status"] == "skipped"
    ended = personalab("lab", "resume", project, "--yes", **outside)
    assert ended.returncode == 0, ended.stderr
    after = _calls(root, project)
    assert after[: len(before)] == before
    assert len(after) == len(fake.calls()) == 10


def _until(true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for something that a process does."""
    while not true():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


# --- how commands explain themselves

_WALK = """
import json, sys, typer.main
from cli.commands.lab import app
def walk(command, path):
    for name, found in getattr(command, "commands", {}).items():
        yield from walk(found, [*path, name])
    if not getattr(command, "commands", None):
        yield path, command.help or "", [name for option in command.params for name in option.opts]
rows = list(walk(typer.main.get_command(app), ["lab"]))
heavy = [name for name in ("pydantic", "asyncio", "numpy", "langgraph", "personalab.lab") if name in sys.modules]
print(json.dumps([rows, heavy]))
"""


def test_every_command_explains_itself_in_both_languages_and_loads_nothing_heavy_for_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WALK], capture_output=True, encoding="utf-8", cwd=CHECKOUT, check=True
    )
    rows, heavy = json.loads(done.stdout)
    assert heavy == []
    assert len(rows) > 45
    for path, said, options in rows:
        assert any("\u4e00" <= character <= "\u9fff" for character in said), path
        assert "--json" in options, path


def test_everything_the_lab_says_is_said_in_both_languages_with_the_same_parts() -> None:
    from string import Formatter

    from cli.lab_texts import LAB_TEXTS

    for code, text in LAB_TEXTS.items():
        parts = [{name for _, name, _, _ in Formatter().parse(words) if name} for words in (text.zh, text.en)]
        assert parts[0] == parts[1], code
        assert any("\u4e00" <= character <= "\u9fff" for character in text.zh), code
        assert not any("\u4e00" <= character <= "\u9fff" for character in text.en), code
