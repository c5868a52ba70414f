"""The skill lab from the terminal: a whole session, assets and their life, money, pausing, and how commands explain
themselves."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.e2e.cli.conftest import CHECKOUT, SECONDS, Run
from tests.e2e.cli.lab_driver import LabProgram, calls_of, project_of_two, until
from tests.support.providers.fake_cli import FakeCli

Terminal = Callable[..., "pexpect.spawn[str]"]
Start = Callable[..., "subprocess.Popen[str]"]
# --- a whole session


def test_a_whole_session_leads_from_nothing_to_reports_and_a_new_skill(
    personalab: Run, lab: LabProgram, root: Path, tmp_path: Path
) -> None:
    assert lab.json("samples") == []  # a new root has them
    [sample] = (root / "workspace" / "skills").glob("*/*/skill_fa1c653c_v1")
    shutil.rmtree(sample)
    assert [(row["id"][:8], row["outcome"]) for row in lab.json("samples")] == [("fa1c653c", "created")]

    made = project_of_two(
        lab, tmp_path, "--model", "rehearsal", "--no-skill", "--pass-score", "1", "--concurrency", "32"
    )
    project = made["project"]
    planned = lab.json("plan", project)
    assert (planned["tasks"], planned["execute_calls"], planned["judge_calls"]) == (9, 9, 9)
    assert planned["calls"] == 18 + planned["control_calls"]

    ran = lab("run", "Who adds best", "--json")
    result = ran.json()
    assert (result["status"], result["total"], result["completed"], result["failed"]) == ("done", 9, 9, 0)
    assert str(planned["calls"]) in ran.said  # the plan is stated
    calls = calls_of(root, project)
    assert len(calls) == planned["calls"]
    again = personalab("lab", "resume", project)
    assert (again.returncode, calls_of(root, project)) == (0, calls)
    assert "严谨的 Python 工程师" in again.stdout

    shown = lab.json("project", "show", made["id"][:6])
    assert [row["rank"] for row in shown["ranking"]] == [1, 2]
    assert all(row["interval"] for row in shown["details"]["skills"])
    assert (shown["status"], shown["stand_ins"]) == ("completed", ["0.0.0-rehearsal"])
    told = lab("project", "show", project)
    assert "（无技能）" in told.printed
    assert "另有 3 项不用技能" in told.printed
    assert "替身" in told.said

    report = lab.json("analyse", project)
    assert report["best_skill_id"] == shown["ranking"][0]["skill_id"]
    first = report["advantage_segments"][0]
    new = lab.json(
        "recompose", project, "--segments", first["id"], "--keep", first["id"],
        "--name", "Joined",
    )  # fmt: skip
    kept = lab.json("skill", "show", "Joined")
    assert (kept["meta"]["id"], first["content"] in kept["content"]) == (new["id"], True)
    assert kept["provenance"]["source_project_id"] == made["id"]

    known = lab.json("skills")
    searched = lab.json("iterate", project, "--rounds", "2", "--seed", "1")
    assert (searched["status"], searched["stop_cause"], searched["report"]["total_rounds"]) == (
        "done",
        "max_rounds",
        2,
    )
    assert searched["best"]["skill_id"] == report["best_skill_id"]
    assert searched["skill_id"] is None  # what a skill says is nothing to the stand-in: none is better
    assert len(lab.json("skills")) == len(known)
    status = lab.json("iteration", project)
    assert (status["report"], status["running"]) == (searched["report"], False)

    edited = lab.json("skill", "edit", "2abe", "--content", "Be brief.\n")
    assert edited["version"] == "v2"
    [group] = lab.json("board")["groups"]
    stale = {row["skill_id"][:8]: row["staleness"] for row in group["records"]}
    assert stale == {"2abeadd6": "skill_updated", "fa2286f2": "current"}
    assert "技能已更新" in lab("board", "--flat", "--baseline", "Adding").printed

    page = lab.json("report", project, "--out", str(tmp_path / "page.html"))
    assert Path(page["file"]).read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html")
    junit = lab("report", project, "--format", "junit", "--out", "-", "--check")
    assert (junit.code, len(ET.fromstring(junit.printed).findall(".//testcase"))) == (0, 6)

    out = lab.json("skill", "export", "Joined", "--out", str(tmp_path / "out"), "--baseline", "Adding")
    folder = next(Path(file).parent for file in out["files"] if file.endswith("SKILL.md"))
    came = lab.json("skill", "import", str(folder))["imported"]
    assert {(row["kind"], row["outcome"]) for row in came} == {("skill", "same"), ("baseline", "same")}

    [gone] = (root / "workspace" / "skills").glob("*/*/skill_fa2286f2_v1")
    shutil.rmtree(gone)
    assert "严谨的 Python 工程师（fa2286f2" in lab("board").said


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
    assert len(proposed) > 1
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


def test_money_is_spent_only_with_a_word_or_a_budget(
    paid: LabProgram, terminal: Terminal, root: Path, tmp_path: Path, fake: FakeCli, outside: dict[str, str]
) -> None:
    project = project_of_two(paid, tmp_path, "--concurrency", "2")["project"]
    refused = paid("run", project)
    assert refused.is_a_refusal
    assert "--yes" in refused.said
    child = terminal("lab", "run", project, **outside)
    child.expect(r"\[y/N\]")
    child.sendline("n")
    child.expect(pexpect.EOF)
    child.close()
    assert (child.exitstatus, fake.calls()) == (1, [])

    few = paid("run", project, "--max-calls", "6", "--json")
    result = json.loads(few.printed)
    counts = tuple(result[name] for name in ("completed", "failed", "skipped"))
    assert (few.code, counts, len(calls_of(root, project))) == (1, (0, 0, 6), 6)  # 4 tested the judge
    assert result["budget"]
    assert f"personalab lab run {project} --max-calls" in few.said
    shown = paid("project", "show", project).said
    assert "没有失败的" in shown
    assert "重跑失败" not in shown
    rest = paid("run", project, "--max-calls", "none", "--yes", "--fail-below", "100")
    assert rest.code == 100, rest
    assert "替身" in rest.said
    assert paid.json("project", "show", project)["options"]["max_calls"] is None
    assert len(calls_of(root, project)) == len({call["call_id"] for call in calls_of(root, project)}) == 16
    checked = paid("report", project, "--format", "csv", "--out", str(tmp_path), "--check")
    assert (checked.code, len(list(tmp_path.glob("*.csv")))) == (100, 1)

    bound = paid("iterate", project, "--rounds", "1", "--max-calls", "0")
    assert "至多 18 次评估，每次 2 次调用，共至多 36 次调用" in bound.said
    assert (paid.json("project", "show", project)["options"]["max_calls"], len(fake.calls())) == (0, 16)


def test_a_budget_in_money_is_no_word_for_a_model_whose_price_nobody_tells(
    lab: LabProgram, tmp_path: Path
) -> None:
    project = project_of_two(lab, tmp_path, "--model", "openai:gpt-x")["project"]
    refused = lab("run", project, "--max-usd", "5")
    assert refused.is_a_refusal
    assert "openai:gpt-x" in refused.said
    assert "--max-calls" in refused.said


def test_ctrl_c_at_the_question_ends_it_with_nothing_run(
    paid: LabProgram, terminal: Terminal, tmp_path: Path, fake: FakeCli, outside: dict[str, str]
) -> None:
    project = project_of_two(paid, tmp_path)["project"]
    child = terminal("lab", "run", project, **outside)
    child.expect(r"\[y/N\]")
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert (child.exitstatus, fake.calls()) == (130, [])


def test_ctrl_c_during_a_run_ends_it_and_says_how_it_goes_on(
    paid: LabProgram, start: Start, root: Path, tmp_path: Path, hold: Path, outside: dict[str, str]
) -> None:
    project = project_of_two(paid, tmp_path, "--concurrency", "2", "--no-controls")["project"]
    running = start("lab", "run", project, "--yes", **outside)
    until((tmp_path / "held").exists, running)
    running.send_signal(signal.SIGINT)
    said, told = running.communicate(timeout=SECONDS)
    assert (running.returncode, said) == (130, ""), told
    assert [line for line in told.splitlines() if f"personalab lab resume {project}" in line] == [
        told.splitlines()[-1]
    ]
    hold.unlink()
    assert paid.json("project", "show", project)["status"] == "interrupted"
    assert paid("resume", project, "--yes").code == 0
    assert len({call["call_id"] for call in calls_of(root, project) if call["status"] == "ok"}) == 12


def test_a_run_is_paused_and_goes_on_without_paying_again(
    paid: LabProgram,
    start: Start,
    root: Path,
    tmp_path: Path,
    fake: FakeCli,
    hold: Path,
    outside: dict[str, str],
) -> None:
    project = project_of_two(paid, tmp_path, "--concurrency", "1", "--no-controls")["project"]
    fake.rules({"match": "", "sleep": 0.5})  # so that whoever looks now and then sees the wish in time
    running = start("lab", "run", project, "--yes", "--json", **outside)
    until((tmp_path / "held").exists, running)  # the first call is under way
    pausing = start("lab", "pause", project, "--json")
    until(lambda: any((root / "workspace" / "projects" / project).glob(".stop-*")), pausing)
    hold.unlink()
    said, told = running.communicate(timeout=SECONDS)
    assert (running.returncode, json.loads(said)["status"]) == (1, "interrupted"), told
    assert json.loads(pausing.communicate(timeout=SECONDS)[0])["status"] == "interrupted"
    before = calls_of(root, project)
    assert 0 < len(before) == len(fake.calls()) < 12
    fake.rules()
    assert paid.json("skip", project, "fa22", "case_003")["status"] == "skipped"
    assert paid("resume", project, "--yes").code == 0
    after = calls_of(root, project)
    assert after[: len(before)] == before
    assert len(after) == len(fake.calls()) == 10
    assert paid.json("skip", project, "fa22", "case_003", "--undo")["status"] == "open"
    again = paid("skip", project, "fa22", "case_003", "--undo")
    assert again.is_a_refusal


# --- what a ranking says


@pytest.mark.parametrize(("ends", "told"), [([3.7, 9.9], True), ([-1.2, 9.9], False)])
def test_a_tie_is_told_with_the_lead_that_a_comparison_case_by_case_sees(
    ends: list[float], told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    from cli.lab.projects import show_ranking

    row = {"skill_version": "v1", "gain_over_no_skill": None, "completed": 9, "failed": 0, "skipped": 0}
    first = {**row, "skill_name": "A", "rank": 1, "tie_group": 1, "mean": 47.2, "interval": [43.6, 50.8]}
    gap = {"mean": 6.8, "n": 9, "interval": ends, "minimum_detectable": 4.3}
    second = {**row, "skill_name": "B", "rank": 2, "tie_group": 1, "mean": 40.4, "interval": [36.1, 44.8]}
    rows = [{**first, "difference_to_first": None}, {**second, "difference_to_first": gap}]
    show_ranking({"skills": rows, "minimum_detectable_difference": 4.3})
    printed, said = capsys.readouterr()
    assert printed.count("1=") == 2
    assert any("6.8" in line and "3.7" in line and "9.9" in line for line in said.splitlines()) == told


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


def test_every_command_that_a_text_or_a_page_names_is_there() -> None:
    import typer.main

    from cli.commands.lab import app
    from personalab.i18n import languages
    from tests.support.catalogues import texts_of

    pages = [(CHECKOUT / "docs" / name).read_text("utf-8") for name in ("lab.md", "lab.zh-CN.md")]
    words = [text for language in languages() for text in texts_of(language).values()]
    known: Any = typer.main.get_command(app)
    found: set[str] = set()
    for text in (*pages, *words):
        for line in re.findall(r"personalab lab ([a-z][a-z -]*[a-z])", text):
            found.add(line)
            command, path = known, line.split()
            while hasattr(command, "commands") and path and path[0] in command.commands:
                command = command.commands[path.pop(0)]
            assert command is not known, line
            needs_more = hasattr(command, "commands") and not command.invoke_without_command
            assert not needs_more, line
    assert len(found) > 20
