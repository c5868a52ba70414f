"""Tests of reports built from a project's files in any state."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from personalab.errors import NotFound, UserError
from personalab.lab.assets import Cases
from personalab.lab.options import RunOptions
from personalab.lab.projects import (
    NO_SCORES,
    BaselineRef,
    ContextConfig,
    ProjectConfig,
    ProjectProgress,
    Result,
    SkillRef,
    scores_of,
)
from personalab.lab.records import DIMENSIONS, MAXIMA
from personalab.lab.reports.data import ReportData
from personalab.lab.reports.html import html_report
from personalab.operations.lab.reporting import project_report, report_data
from personalab.services import Services
from personalab.storage.lab.projects import ProjectPlace
from personalab.texts import Language
from tests.support.lab.report_samples import AFTER, BEFORE, HOSTILE, NOW, cases

SKILLS = ("aaaaaaaa-0000-4000-8000-000000000001", "bbbbbbbb-0000-4000-8000-000000000002")
BASELINES = ("cccccccc-0000-4000-8000-000000000003", "dddddddd-0000-4000-8000-000000000004")
WINNER = "eeeeeeee-0000-4000-8000-000000000005"
PROJECT = "c3d4e5f6-a7b8-4012-8def-234567890123"


@dataclass
class Bench:
    """A project on disk."""

    services: Services
    place: ProjectPlace

    def result(self, skill: int, case: int, share: float | None, baseline: int = 0, **changes: Any) -> Path:
        """Write a result; one without a share of the points failed."""
        done = share is not None
        scores = (
            NO_SCORES if share is None else scores_of({name: MAXIMA[name] * share for name in DIMENSIONS})
        )
        record = Result(
            case_id=f"case_{case:03}",
            skill_id=SKILLS[skill],
            skill_version="v1",
            baseline_id=BASELINES[baseline],
            baseline_version="v1",
            executed_at=NOW,
            status="completed" if done else "failed",
            input="in",
            expected_output="out",
            actual_output="an answer",
            duration_ms=1200,
            cli_version="2.1.80",
            error=None if done else "timeout",
            scores=scores,
            score_reasoning="because" if done else "",
            score_evaluated_at=NOW if done else None,
        )
        prefix = f"{BASELINES[baseline][:8]}__" if len(self.place.config.baselines) > 1 else ""
        path = self.place.results / f"{SKILLS[skill][:8]}_v1" / f"{prefix}case_{case:03}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        self.place.write(path, record.changed(**changes))
        return path

    def all_results(self) -> None:
        """Let the first skill do well and the second badly."""
        for case in (1, 2, 3):
            self.result(0, case, 0.9 + case / 100)
            self.result(1, case, 0.4 + case / 100)

    def write(self, name: str, data: Mapping[str, Any] | str) -> None:
        """Write any file of the project."""
        path = self.place.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")

    def data(self, language: Language = "en") -> ReportData:
        """Gather the report."""
        return asyncio.run(report_data(self.services, PROJECT, language))

    def codes(self) -> list[str]:
        """Name the notices of the report."""
        return [notice.code for notice in self.data().notices]

    def html(self, language: Language = "en") -> str:
        """Make the page."""
        return asyncio.run(project_report(self.services, PROJECT, "html", language)).content.decode()


def make(
    services: Services, tmp_path: Path, *, baselines: int = 1, name: str = "Compare", **options: Any
) -> Bench:
    """Make a project of two skills on baselines of three cases."""
    copies: dict[str, Path] = {}
    for skill, content in zip(SKILLS, (BEFORE, "Answer briefly.\n"), strict=True):
        folder = copies.setdefault(f"skills/skill_{skill[:8]}_v1", tmp_path / skill)
        folder.mkdir()
        (folder / "content.txt").write_text(content, encoding="utf-8")
    for baseline in BASELINES[:baselines]:
        folder = copies.setdefault(f"baselines/baseline_{baseline[:8]}_v1", tmp_path / baseline)
        folder.mkdir()
        found: Cases = cases(3, baseline).cases
        (folder / "cases.json").write_text(json.dumps(found.fields()), encoding="utf-8")
    run = RunOptions(model="opus", judges=("openai:judge",), **options)
    config = ProjectConfig(
        id=PROJECT,
        name=name,
        status="interrupted",
        created_at=NOW,
        updated_at=NOW,
        skills=tuple(
            SkillRef(ref_id=skill, name=named, version="v1", local_path=f"skills/skill_{skill[:8]}_v1")
            for skill, named in zip(SKILLS, ("Alpha", "Beta"), strict=True)
        ),
        baselines=tuple(
            BaselineRef(
                ref_id=each, name=f"Base {at}", version="v1", local_path=f"baselines/baseline_{each[:8]}_v1"
            )
            for at, each in enumerate(BASELINES[:baselines])
        ),
        cli_config=run.call_config(),
        context_config=ContextConfig(token_threshold=80_000),
        progress=ProjectProgress(total_tasks=6, completed_tasks=0, failed_tasks=0, last_checkpoint=None),
    )
    return Bench(services, services.projects.create(config, run, "compare", copies))


@pytest.fixture
def bench(services: Services, tmp_path: Path) -> Bench:
    """A project that has not run."""
    return make(services, tmp_path)


def test_a_project_is_ranked_from_its_results(bench: Bench) -> None:
    bench.all_results()
    data = bench.data()
    assert [(row.name, row.rank, row.tie_group, row.mean) for row in data.rows] == [
        ("Alpha", 1, 1, 92.0),
        ("Beta", 2, 2, 42.0),
    ]
    assert data.rows[1].behind == -50.0
    assert [cell.total if cell else None for cell in data.cells[1]] == pytest.approx([41, 42, 43])
    assert bench.codes() == ["notice_no_summary"]
    assert "Alpha</bdi> leads with" in bench.html()


def test_every_format_has_its_name_and_kind(bench: Bench) -> None:
    bench.all_results()
    found = [asyncio.run(project_report(bench.services, PROJECT, each)) for each in ("html", "junit", "csv")]
    name = bench.place.name
    assert [report.name for report in found] == [f"{name}.html", f"{name}.junit.xml", f"{name}.csv"]
    assert [report.media_type.split(";")[0] for report in found] == [
        "text/html",
        "application/xml",
        "text/csv",
    ]
    assert [report.not_passed for report in found] == [3, 3, 3]
    root = ET.fromstring(found[1].content)
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("6", "3", "0")
    rows = list(csv.DictReader(io.StringIO(found[2].content.decode("utf-8-sig"), newline="")))
    assert [row["skill_name"] for row in rows] == ["Alpha"] * 3 + ["Beta"] * 3
    assert {row["baseline"] for row in rows} == {"Base 0"}


def test_the_pass_score_of_the_run_decides(services: Services, tmp_path: Path) -> None:
    bench = make(services, tmp_path, pass_score=40)
    bench.all_results()
    report = asyncio.run(project_report(services, PROJECT, "junit"))
    assert ET.fromstring(report.content).get("failures") == "0"


def test_an_unknown_format_and_an_unknown_project_are_refused(bench: Bench) -> None:
    with pytest.raises(UserError, match="html, junit, csv"):
        asyncio.run(project_report(bench.services, PROJECT, "pdf"))
    with pytest.raises(NotFound):
        asyncio.run(project_report(bench.services, "nothing"))


def test_a_project_that_has_not_run_is_told(bench: Bench) -> None:
    assert [row.rank for row in bench.data().rows] == [None, None]
    assert bench.codes() == ["notice_unfinished"]
    assert "The project is not finished: <bdi>6</bdi> of <bdi>6</bdi> tasks" in bench.html()
    assert "项目还没有跑完：<bdi>6</bdi> / <bdi>6</bdi> 个任务没有结果" in bench.html("zh")


def test_holes_are_told(bench: Bench) -> None:
    bench.all_results()
    bench.result(1, 2, None)
    (bench.place.results / "bbbbbbbb_v1" / "case_003.json").unlink()
    codes = bench.codes()
    assert codes[:3] == ["notice_unfinished", "notice_failed", "notice_incomplete"]
    data = bench.data()
    assert [row.incomplete for row in data.rows] == [False, True]
    assert (data.rows[1].completed, data.rows[1].failed) == (1, 1)


def test_a_broken_result_is_a_broken_place_and_a_notice(bench: Bench) -> None:
    bench.all_results()
    path = bench.result(0, 2, 0.5)
    path.write_text('{"case_id": ', encoding="utf-8")
    other = bench.result(0, 3, 0.5)
    other.write_text('{"case_id": "case_003"}', encoding="utf-8")
    data = bench.data()
    line = next(data.cells[at] for at, row in enumerate(data.rows) if row.name == "Alpha")
    assert [cell.status if cell else None for cell in line] == ["completed", "broken", "broken"]
    files = [notice.params["file"] for notice in data.notices if notice.code == "notice_broken"]
    assert [str(file).rpartition("/")[2] for file in files] == ["case_002.json", "case_003.json"]


def test_many_broken_files_are_counted_not_listed(services: Services, tmp_path: Path) -> None:
    bench = make(services, tmp_path, baselines=2)
    for skill in (0, 1):
        for baseline in (0, 1):
            for case in (1, 2, 3):
                bench.result(skill, case, 0.5, baseline).write_text("[", encoding="utf-8")
    codes = bench.codes()
    assert codes.count("notice_broken") == 10
    assert codes[-1] == "notice_more_broken"


@pytest.mark.parametrize(
    "name",
    [
        *(
            "x_run.json",
            "calls.jsonl",
            "results/x_controls.json",
            "results/summary.json",
            "analysis_report.json",
        ),
        *("iterations/iteration_report.json", "iterations/exploration_log.json", "iterations/x_ledger.json"),
        *("iterations/x_iteration.json", f"baselines/baseline_{BASELINES[0][:8]}_v1/cases.json"),
    ],
)
def test_no_broken_file_keeps_a_report_from_being_made(bench: Bench, name: str) -> None:
    bench.all_results()
    for text in ("", "[", "[]", "null", '{"judges": {"a": 3}}', '{"rounds": 3, "best": []}'):
        bench.write(name, text)
        assert "Alpha" in bench.html()
        assert "Alpha" in bench.html("zh")


def test_a_total_that_contradicts_its_parts_is_told(bench: Bench) -> None:
    path = bench.result(0, 1, 0.5)
    data = json.loads(path.read_bytes())
    data["scores"]["total"] = 99
    path.write_text(json.dumps(data), encoding="utf-8")
    assert "notice_doubt" in bench.codes()
    assert bench.data().rows[0].mean == 50.0


def test_two_baselines_stand_side_by_side(services: Services, tmp_path: Path) -> None:
    bench = make(services, tmp_path, baselines=2)
    for baseline in (0, 1):
        for case in (1, 2, 3):
            bench.result(0, case, 0.9, baseline)
            bench.result(1, case, 0.5 + baseline / 10, baseline)
    data = bench.data()
    assert [case.baseline for case in data.cases] == ["Base 0"] * 3 + ["Base 1"] * 3
    assert [cell.total if cell else None for cell in data.cells[1]] == pytest.approx([50] * 3 + [60] * 3)


def test_the_arm_without_a_skill_takes_part(services: Services, tmp_path: Path) -> None:
    bench = make(services, tmp_path, no_skill_arm=True)
    bench.all_results()
    assert [row.name for row in bench.data().rows] == ["Alpha", "Beta", "No skill"]


def test_a_fake_run_is_told_by_results_or_by_calls(bench: Bench) -> None:
    bench.all_results()
    bench.write(
        "calls.jsonl",
        '{"call_id": "j-1", "status": "ok", "cli_version": "0.0.0-rehearsal", "cost_usd": 0.25}\n{"cal',
    )
    data = bench.data()
    assert [notice.params for notice in data.notices if notice.loud] == [{"versions": "0.0.0-rehearsal"}]
    assert data.costs is not None
    assert (data.costs.calls, data.costs.usd) == (1, 0.25)
    bench.result(0, 1, 0.9, cli_version="0.0.0-fake")
    assert "0.0.0-fake, 0.0.0-rehearsal" in bench.html()


def test_a_blind_judge_takes_the_ranks_away(bench: Bench) -> None:
    bench.all_results()
    bench.write(
        "results/x_controls.json", {"judges": {"id": {"model": "openai:judge", "passed": False, "gap": 3.25}}}
    )
    data = bench.data()
    assert [row.rank for row in data.rows] == [None, None]
    assert [notice.code for notice in data.notices if notice.loud] == ["notice_judge"]
    assert "do not trust these scores" in bench.html()


def test_a_judge_that_scores_itself_is_told(services: Services, tmp_path: Path) -> None:
    bench = make(services, tmp_path)
    bench.place.save_options(RunOptions(model="opus"))
    assert "notice_self_judged" in bench.codes()


def iterate(bench: Bench) -> None:
    """Write the files of an iteration whose second round won."""
    six = {name: MAXIMA[name] * 0.95 for name in DIMENSIONS}
    rounds = [
        {
            "round": n,
            "strategy": "GREEDY",
            "skill_id": WINNER,
            "skill_name": f"Alpha-v{n}",
            "avg_score": score,
        }
        | {"score_delta": None, "score_breakdown": six}
        for n, score in ((1, 93.0), (2, 95.0))
    ]
    report = {"project_id": PROJECT, "generated_at": NOW, "total_rounds": 2, "stop_reason": "max_rounds"}
    report |= {
        "best_round": 2,
        "best_skill_id": WINNER,
        "best_skill_name": "Alpha-v2",
        "best_avg_score": 95.0,
    }
    bench.write("iterations/iteration_report.json", report | {"rounds": rounds})
    out = {
        "strategy": "RANDOM_SUBSET",
        "skill_id": "x",
        "avg_score": None,
        "score_breakdown": None,
        "won": False,
    }
    candidate = {
        "strategy": "GREEDY",
        "skill_id": WINNER,
        "avg_score": 95.0,
        "score_breakdown": six,
        "won": True,
    }
    log = {"project_id": PROJECT, "started_at": NOW, "completed_at": NOW, "original_skill_ids": list(SKILLS)}
    log |= {"params": {"maxRounds": 2, "beamWidth": 2, "plateauThreshold": 1}, "best_ever": None}
    tried = [candidate | {"error": None}, out | {"error": "screened_out 4/12"}]
    explored = {"round": 2, "plateau_level": 1, "strategies_tried": ["GREEDY"], "candidates": tried}
    bench.write("iterations/exploration_log.json", log | {"rounds": [explored | {"winner_skill_id": WINNER}]})
    best = {"corrected": {"score": 94.1, "low": 92.5, "high": 95.7}}
    bench.write("iterations/x_ledger.json", {"evaluations": 48, "stop_cause": "plateau", "best": best})
    bench.write(f"iterations/round_2/skills/skill_{WINNER[:8]}_v1/content.txt", AFTER)


@pytest.mark.parametrize(
    ("times", "told"), [(None, "by a re-test"), (8, "by a re-test"), (0, "not re-tested")]
)
def test_only_what_was_tested_again_is_called_corrected(bench: Bench, times: int | None, told: str) -> None:
    bench.all_results()
    iterate(bench)
    best: dict[str, Any] = {"corrected": {"score": 94.1, "low": 92.5, "high": 95.7}}
    best |= {} if times is None else {"retested": times}
    bench.write("iterations/x_ledger.json", {"evaluations": 48, "stop_cause": "budget", "best": best})
    page = html_report(bench.data(), "en")
    assert told in page
    assert ("Estimate (not re-tested)" in page) == (times == 0)


def test_an_iteration_is_told_with_its_winners_difference(bench: Bench) -> None:
    bench.all_results()
    iterate(bench)
    data = bench.data()
    assert data.iteration is not None
    assert data.iteration.start_score == 92.0
    assert (data.iteration.corrected, data.iteration.evaluations) == (94.1, 48)
    assert [(mark.round, mark.score, mark.plateau_level) for mark in data.iteration.rounds] == [
        (1, 93.0, None),
        (2, 95.0, 1),
    ]
    assert data.pair is not None
    assert (data.pair.parent, data.pair.winner) == ("Alpha", "Alpha-v2")
    assert (data.pair.before, data.pair.after) == (BEFORE, AFTER)
    page = bench.html()
    assert '<section id="iteration">' in page
    assert "<ins> with type hints</ins>" in page


def test_an_iteration_that_goes_on_has_no_winner_yet(bench: Bench) -> None:
    bench.all_results()
    iterate(bench)
    (bench.place.folder / "iterations" / "iteration_report.json").unlink()
    data = bench.data()
    assert data.pair is None
    assert data.iteration is not None
    assert data.iteration.best_score == 95.0


def test_a_winner_whose_text_is_gone_is_a_notice(bench: Bench) -> None:
    bench.all_results()
    iterate(bench)
    (
        bench.place.folder / "iterations" / "round_2" / "skills" / f"skill_{WINNER[:8]}_v1" / "content.txt"
    ).unlink()
    data = bench.data()
    assert data.pair is None
    assert "notice_broken" in [notice.code for notice in data.notices]


def test_a_recomposed_first_is_compared_with_what_it_was_made_of(bench: Bench) -> None:
    bench.all_results()
    source = {
        "skill_id": SKILLS[1],
        "skill_name": "Beta",
        "skill_version": "v1",
        "contributed_segments": ["seg_001"],
    }
    told = {"type": "recomposed", "source_project_id": PROJECT, "source_project_name": "P", "created_at": NOW}
    told |= {"recomposition_strategy": "", "user_retention_rules": "", "source_skills": [source]}
    bench.write(f"skills/skill_{SKILLS[0][:8]}_v1/provenance.json", told)
    pair = bench.data().pair
    assert pair is not None
    assert (pair.parent, pair.winner) == ("Beta v1", "Alpha v1")


def test_hostile_texts_in_files_are_text_in_every_format(services: Services, tmp_path: Path) -> None:
    bench = make(services, tmp_path, name=HOSTILE.replace("\x00", ""))
    for case in (1, 2, 3):
        bench.result(0, case, 0.1, actual_output=HOSTILE, score_reasoning=HOSTILE, cli_version=HOSTILE)
        bench.result(1, case, None, error=HOSTILE)
    page = bench.html()
    assert "<script" not in page
    assert "onerror=&quot;" in page
    ET.fromstring(asyncio.run(project_report(services, PROJECT, "junit")).content)
    table = asyncio.run(project_report(services, PROJECT, "csv")).content.decode("utf-8-sig")
    assert len(list(csv.reader(io.StringIO(table, newline="")))) == 7


def test_reading_a_report_changes_nothing(bench: Bench) -> None:
    bench.all_results()
    before = {path: path.stat().st_mtime_ns for path in bench.place.folder.rglob("*")}
    bench.html()
    assert {path: path.stat().st_mtime_ns for path in bench.place.folder.rglob("*")} == before
