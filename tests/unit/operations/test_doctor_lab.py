"""Tests of the doctor's findings and repairs in the lab's workspace."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph.iterate import stream_iterate
from personalab.operations.doctor import examine_root
from personalab.operations.doctor_findings import DoctorReport, Finding
from personalab.operations.lab.findings import run_analysis
from personalab.operations.lab.skills import edit_skill
from personalab.services import Services, open_services
from personalab.settings import read_settings
from personalab.storage.lab.projects import ProjectPlace
from tests.support.lab.running import (
    BASELINES,
    NOW,
    SKILLS,
    FakeExecutor,
    broken,
    evaluate,
    make_project,
    use,
)

pytestmark = pytest.mark.anyio
EXAMPLES: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "support" / "lab" / "source_examples.json").read_text(encoding="utf-8")
)
OLD = 1_700_000_000
"""A time long past: what is this old nobody is writing any more."""


async def _run(services: Services, **options: Any) -> ProjectPlace:
    """Run a project of two skills and two cases to its end."""
    place = await make_project(services, cases=2, **options)
    use(services, FakeExecutor())
    _, result = await evaluate(services, place.name)
    assert result["status"] == "done"
    return services.projects.project(place.name)


def _told(report: DoctorReport) -> list[tuple[str, str]]:
    return [(finding.code, finding.file.rpartition("/")[2]) for finding in report.findings]


def _changed(path: Path, change: Callable[[Any], object]) -> None:
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    path.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")


def _written(path: Path, data: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
    return path


def _only(report: DoctorReport, code: str) -> Finding:
    assert [finding.code for finding in report.findings] == [code]
    return report.findings[0]


def _snapshot(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


# --- what is well


async def test_a_workspace_of_ours_is_healthy_whatever_was_done_with_it(services: Services) -> None:
    place = await _run(services, no_skill_arm=True, repeats=2)
    await edit_skill(services, SKILLS[0], content="alpha answers at length.\n")
    services.lab_sessions.settings()
    services.models["rehearsal"] = await services.model("rehearsal")
    del services.__dict__["executor"]
    await run_analysis(services, place.name, model="rehearsal")
    use(services, FakeExecutor())
    async for part in stream_iterate(services, {"project": place.name, "max_rounds": 1}):
        assert part.get("type") != "error", part
    report = await examine_root(services)
    assert report.findings == []
    assert (place.folder / "analysis_report.json").is_file()
    assert (place.folder / "iterations" / "iteration_report.json").is_file()


async def test_a_run_that_was_paused_or_failed_is_healthy_too(services: Services) -> None:
    place = await make_project(services, cases=2, max_calls=7, retry_count=0)
    use(services, FakeExecutor(lambda call: broken(retryable=False) if call.schema is None else broken()))
    await evaluate(services, place.name)
    assert (await examine_root(services)).findings == []
    use(services, FakeExecutor())
    _, result = await evaluate(services, place.name)
    assert result["status"] == "interrupted"
    assert (await examine_root(services)).findings == []


async def test_without_a_workspace_none_is_made(services: Services, root: Path) -> None:
    shutil.rmtree(root / "workspace")
    assert (await examine_root(services)).findings == []
    assert not (root / "workspace").exists()
    (root / "workspace").write_text("", encoding="utf-8")
    assert _told(await examine_root(services)) == [("not_a_folder", "workspace")]


async def test_looking_changes_nothing(services: Services, root: Path) -> None:
    place = await _run(services)
    _changed(place.folder / "config.json", lambda data: data.update(status="running"))
    with (place.folder / "calls.jsonl").open("ab") as file:
        file.write(b'{"call_id": "x')
    before = _snapshot(root / "workspace")
    assert not (await examine_root(services)).healthy
    assert _snapshot(root / "workspace") == before


# --- files that cannot be read


FIELDS = {
    "skills/talk/local/skill_aaaaaaaa_v1/meta.json": "name",
    "skills/talk/local/skill_aaaaaaaa_v1/tags.json": "manual",
    "baselines/talk/local/baseline_cccccccc_v1/meta.json": "status",
    "baselines/talk/local/baseline_cccccccc_v1/cases.json": "cases",
    "cli/config.json": "cli_path",
    "projects/P/config.json": "progress",
    "projects/P/x_run.json": "model",
    "projects/P/skills/skill_aaaaaaaa_v1/meta.json": "id",
    "projects/P/baselines/baseline_cccccccc_v1/cases.json": "baseline_id",
    "projects/P/results/aaaaaaaa_v1/case_001.json": "scores",
    "projects/P/results/aaaaaaaa_v1/x_case_001.json": "content_hash",
    "projects/P/results/summary.json": "ranking",
}
OTHERS = (
    "skills/talk/local/skill_aaaaaaaa_v1/history/v0.json",
    "skills/talk/local/skill_aaaaaaaa_v1/auto_tag_log/session_1.json",
    "skills/talk/local/skill_aaaaaaaa_v1/provenance.json",
    "skills/talk/local/skill_aaaaaaaa_v1/x_source.json",
    "baselines/talk/local/baseline_cccccccc_v1/x_source.json",
    "baselines/talk/local/baseline_cccccccc_v1/x_drafts.json",
    "cli/temp_session/tmp_sess_1.json",
    "projects/P/analysis_report.json",
    "projects/P/x_analysis.json",
    "projects/P/results/x_summary.json",
    "projects/P/results/x_controls.json",
    "projects/P/iterations/x_iteration.json",
    "projects/P/iterations/iteration_report.json",
    "projects/P/iterations/exploration_log.json",
    "projects/P/iterations/x_ledger.json",
    "projects/P/iterations/round_1/config.json",
    "projects/P/iterations/round_1/skills/skill_aaaaaaaa_v1/meta.json",
    "projects/P/iterations/round_1/results/aaaaaaaa_v1/case_001.json",
    "projects/P/iterations/x_retest/results/aaaaaaaa_v1/x_case_001.json",
    "projects/P/x_iterations_20250101000000/iteration_report.json",
)


async def test_a_file_without_a_field_is_named_with_it(services: Services, root: Path) -> None:
    project = await _run(services)
    services.lab_sessions.settings()
    for place, field in FIELDS.items():
        path = root / "workspace" / place.replace("/P/", f"/{project.name}/")
        raw = path.read_bytes()
        _changed(path, lambda data, field=field: data.pop(field))
        report = await examine_root(services)
        path.write_bytes(raw)
        found = next(finding for finding in report.findings if finding.code == "lab_doctor_field")
        assert found.file == path.relative_to(root).as_posix()
        assert found.message("en") == f"the field {field} is invalid: Field required"
        assert found.message("zh") == f"字段 {field} 不对：缺少这个字段"
        assert found.remedy("zh") != found.remedy("en") != ""
        assert not report.healthy
        assert not found.fixable


async def test_a_file_that_is_no_object_or_cut_off_is_named(services: Services, root: Path) -> None:
    project = await _run(services)
    for place in OTHERS:
        path = root / "workspace" / place.replace("/P/", f"/{project.name}/")
        if path.name == "meta.json":
            path.parent.mkdir(parents=True)
            (path.parent / "content.txt").write_text("x", encoding="utf-8")
        raw = path.read_bytes() if path.exists() else None
        _written(path, [1])
        found = _only(await examine_root(services), "lab_doctor_field")
        assert found.file == path.relative_to(root).as_posix()
        path.write_text('{"a": ', encoding="utf-8")
        found = _only(await examine_root(services, fix=True), "lab_doctor_broken")
        assert "JSON" in found.message("zh")
        assert path.read_text(encoding="utf-8") == '{"a": '
        if raw is not None:
            path.write_bytes(raw)
        elif path.name == "meta.json":
            shutil.rmtree(path.parent)
        else:
            path.unlink()


async def test_a_kept_file_that_is_listed_and_gone_is_told(services: Services, root: Path) -> None:
    await _run(services)
    folder = root / "workspace" / "skills/talk/local/skill_aaaaaaaa_v1"
    _written(folder / "x_source.json", {"called": "a", "files": [{"name": "SKILL.md"}, {"name": ".a/b"}]})
    (folder / "x_source").mkdir()
    (folder / "x_source" / "SKILL.md").write_bytes(b"")
    found = _only(await examine_root(services), "missing")
    assert found.file == (folder / "x_source" / "%2Ea" / "b").relative_to(root).as_posix()


async def test_a_number_beyond_all_bounds_is_told(services: Services) -> None:
    project = await _run(services)
    path = project.results / "aaaaaaaa_v1" / "case_001.json"
    raw = path.read_text(encoding="utf-8")
    for name in ("total", "robustness"):
        path.write_text(raw, encoding="utf-8")
        _changed(path, lambda data, name=name: data["scores"].update({name: 10**400}))
        found = next(f for f in (await examine_root(services)).findings if f.file.endswith(path.name))
        assert found.code == "lab_doctor_field"
        assert name in found.message("zh")


async def test_pipes_links_and_missing_files_are_told_and_never_waited_for(
    services: Services, root: Path, tmp_path: Path
) -> None:
    project = await _run(services)
    copy = project.folder / "skills" / "skill_aaaaaaaa_v1"
    (copy / "content.txt").unlink()
    os.mkfifo(copy / "content.txt")
    shelf = root / "workspace" / "skills" / "talk" / "local" / "skill_bbbbbbbb_v1"
    elsewhere = tmp_path / "elsewhere.json"
    (shelf / "meta.json").rename(elsewhere)
    (shelf / "meta.json").symlink_to(elsewhere)
    (root / "workspace" / "baselines" / "talk" / "local" / "baseline_cccccccc_v1" / "cases.json").unlink()
    report = await examine_root(services, fix=True)
    assert _told(report) == [
        ("lab_doctor_broken", "meta.json"),
        ("missing", "cases.json"),
        ("lab_doctor_broken", "content.txt"),
    ]
    assert "链接" in report.findings[0].message("zh")
    assert "普通文件" in report.findings[2].message("zh")


async def test_what_is_not_the_labs_is_left_alone(services: Services, root: Path, tmp_path: Path) -> None:
    project = await _run(services)
    (tmp_path / "other").mkdir()
    (project.folder / "results" / "linked").symlink_to(tmp_path / "other")
    (tmp_path / "other" / "case_001.json").write_text("{", encoding="utf-8")
    for place in (
        "notes.json",
        "skills/talk/README.md",
        "x_spool/some/ask_1_0.done",
        f"projects/{project.name}/mine.json",
    ):
        path = root / "workspace" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{", encoding="utf-8")
    before = _snapshot(root / "workspace")
    assert (await examine_root(services, fix=True)).findings == []
    assert _snapshot(root / "workspace") == before


async def test_a_skill_whose_results_cannot_have_a_folder_is_told(services: Services) -> None:
    project = await _run(services)
    _changed(project.folder / "config.json", lambda data: data["skills"][1].update(ref_id="a/b/c/d/e"))
    found = next(one for one in (await examine_root(services)).findings if one.code == "lab_doctor_field")
    assert found.params["field"] == "skills.1.ref_id"
    assert found.message("zh") == "字段 skills.1.ref_id 不对：它不能用作文件名"


async def test_a_copy_outside_its_project_is_refused(services: Services, tmp_path: Path) -> None:
    project = await _run(services)
    config = project.folder / "config.json"
    for bad in ("../../../skills/talk/local/skill_aaaaaaaa_v1", "/tmp", "skills/linked"):
        (project.folder / "skills" / "linked").unlink(missing_ok=True)
        (project.folder / "skills" / "linked").symlink_to(tmp_path)
        _changed(config, lambda data, bad=bad: data["skills"][0].update(local_path=bad))
        found = _only(await examine_root(services), "lab_doctor_field")
        assert found.params["field"] == "skills.0.local_path"
        assert "项目之外" in found.message("zh")


# --- contradictions


async def test_contradictions_are_notes_that_name_the_field(services: Services, root: Path) -> None:
    project = await _run(services)
    results = project.folder / "results"
    shelf = root / "workspace"
    _changed(shelf / "baselines/talk/local/baseline_cccccccc_v1/meta.json", lambda d: d.update(case_count=9))
    _changed(shelf / "skills/talk/local/skill_aaaaaaaa_v1/meta.json", lambda d: d.update(purpose="sing"))
    _changed(results / "aaaaaaaa_v1" / "case_001.json", lambda d: d["scores"].update(total=12))
    _changed(results / "aaaaaaaa_v1" / "case_002.json", lambda d: d.update(case_id="case_001"))
    _changed(results / "summary.json", lambda d: d["ranking"][0].update(avg_score=1.5))
    _changed(results / "summary.json", lambda d: d.update(project_id=BASELINES[0]))
    _written(
        project.folder / "analysis_report.json",
        {
            **EXAMPLES["6.1"],
            "project_id": project.config.id,
            "dimension_leaders": dict.fromkeys(EXAMPLES["6.1"]["dimension_leaders"], SKILLS[1]),
            "advantage_segments": [
                {
                    **EXAMPLES["6.1"]["advantage_segments"][0],
                    "skill_id": SKILLS[0],
                    "content": "alpha answers",
                },
                {**EXAMPLES["6.1"]["advantage_segments"][0], "skill_id": SKILLS[0], "content": "alpha sings"},
                {**EXAMPLES["6.1"]["advantage_segments"][0], "skill_id": "nobody"},
            ],
        },
    )
    _written(
        project.folder / "iterations" / "exploration_log.json",
        {**EXAMPLES["7.3"], "project_id": project.config.id},
    )
    report = await examine_root(services)
    told = {(finding.file.rpartition("/")[2], finding.params["field"]) for finding in report.findings}
    assert told == {
        ("meta.json", "case_count"),
        ("meta.json", "purpose"),
        ("case_001.json", "scores.total"),
        ("case_002.json", "case_id"),
        ("summary.json", "ranking[0].avg_score"),
        ("summary.json", "project_id"),
        ("exploration_log.json", "best_ever"),
        ("analysis_report.json", "advantage_segments[1].content"),
        ("analysis_report.json", "advantage_segments[2].skill_id"),
        *(
            ("analysis_report.json", f"dimension_leaders.{name}")
            for name in EXAMPLES["6.1"]["dimension_leaders"]
        ),
    }
    assert report.healthy
    for finding in report.findings:
        assert not re.search(r"[a-z]{3,} [a-z]{2,}", finding.message("zh")), finding.message("zh")
        assert finding.remedy("zh")
        assert not finding.fixable


async def test_a_workspace_of_another_program_can_be_read_and_its_own_mistakes_are_told(
    services: Services, root: Path
) -> None:
    shelf = root / "workspace"
    skill = shelf / "skills" / "code_generate" / "provider_internal" / "skill_a1b2c3d4_v1"
    base = shelf / "baselines" / "code_generate_test" / "provider_internal" / "baseline_b2c3d4e5_v1"
    project = shelf / "projects" / "project_code_gen_20240101120000"
    for folder in (skill, project / "skills" / skill.name):
        _written(folder / "meta.json", EXAMPLES["2.1"])
        _written(folder / "tags.json", EXAMPLES["2.2"])
        _written(folder / "history" / "v1_to_v2_20240101130000.json", EXAMPLES["2.3"])
        _written(folder / "auto_tag_log" / "session_20240101121000.json", EXAMPLES["2.4"])
        (folder / "content.txt").write_text("写代码。", encoding="utf-8")
    for folder in (base, project / "baselines" / base.name):
        _written(folder / "meta.json", EXAMPLES["3.1"])
        _written(folder / "cases.json", EXAMPLES["3.2"])
    _written(project / "config.json", EXAMPLES["4.1"])
    _written(project / "results" / "a1b2c3d4_v1" / "case_001.json", EXAMPLES["5.1"])
    _written(project / "results" / "summary.json", EXAMPLES["5.2"])
    _written(project / "iterations" / "iteration_report.json", EXAMPLES["7.2"])
    _written(project / "iterations" / "exploration_log.json", EXAMPLES["7.3"])
    _written(project / "iterations" / "round_1" / "config.json", EXAMPLES["7.1"])
    _written(shelf / "cli" / "config.json", EXAMPLES["8.1"])
    _written(shelf / "cli" / "temp_session" / "tmp_sess_20240101121000.json", EXAMPLES["8.2"])
    before = _snapshot(shelf)
    report = await examine_root(services)
    assert report.healthy
    told = {
        (found.file.rpartition("/")[2], found.params.get("field", found.code)) for found in report.findings
    }
    assert told == {
        ("meta.json", "case_count"),
        ("summary.json", "ranking[0].avg_score"),
        *(("iteration_report.json", f"rounds[{n}].strategy") for n in (1, 2)),
        *(("iteration_report.json", f"rounds[{n}].avg_score") for n in (0, 1, 2)),
        ("exploration_log.json", "best_ever"),
        ("config.json", "lab_doctor_progress"),
        ("tmp_sess_20240101121000.json", "lab_doctor_expired"),
    }
    await examine_root(services, fix=True)
    after = _snapshot(shelf)
    changed = {Path(name).name for name, raw in after.items() if before.get(name) != raw} - {".lock"}
    assert changed == {"config.json", "tmp_sess_20240101121000.json"}
    fixed = json.loads((project / "config.json").read_text(encoding="utf-8"))
    counts = {"total_tasks": 3, "completed_tasks": 1, "failed_tasks": 0, "last_checkpoint": 1}
    assert fixed == {**EXAMPLES["4.1"], "progress": counts, "updated_at": NOW}


# --- what can be mended


async def test_a_project_that_nobody_runs_is_interrupted_and_counted_anew(services: Services) -> None:
    project = await _run(services)
    config = project.folder / "config.json"
    wrong = {"total_tasks": 4, "completed_tasks": 1, "failed_tasks": 0, "last_checkpoint": 1}
    _changed(config, lambda data: data.update(status="running", progress=wrong, other={"kept": [1]}))
    report = await examine_root(services)
    assert _told(report) == [("lab_doctor_running", "config.json"), ("lab_doctor_progress", "config.json")]
    assert all(found.fixable and "--fix" in found.remedy("en") for found in report.findings)
    report = await examine_root(services, fix=True)
    assert report.healthy
    assert all(found.fixed for found in report.findings)
    data = json.loads(config.read_text(encoding="utf-8"))
    assert (data["status"], data["other"]) == ("interrupted", {"kept": [1]})
    assert data["progress"]["completed_tasks"] == 4
    assert (await examine_root(services)).findings == []


async def test_a_project_that_is_run_right_now_is_left_in_peace(hurried: Services) -> None:
    project = await _run(hurried)
    _changed(project.folder / "config.json", lambda data: data.update(status="running"))
    with (project.folder / "calls.jsonl").open("ab") as file:
        file.write(b'{"call_id": "x')
    async with hurried.projects.leases.holding(project.name, "evaluate", wait=1):
        assert (await examine_root(hurried, fix=True)).findings == []
    assert _told(await examine_root(hurried)) == [
        ("torn_line", "calls.jsonl"),
        ("lab_doctor_running", "config.json"),
    ]


async def test_an_account_loses_only_the_line_that_was_cut_off(services: Services) -> None:
    project = await _run(services)
    journal = project.folder / "calls.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"call_id": "x-aaaa')
    report = await examine_root(services)
    assert (_only(report, "torn_line").line, report.healthy) == (whole.count(b"\n") + 1, False)
    assert (await examine_root(services, fix=True)).healthy
    assert journal.read_bytes() == whole
    journal.write_bytes(b"nonsense\n[]\n" + whole)
    report = await examine_root(services, fix=True)
    assert [(found.code, found.line) for found in report.findings] == [
        ("lab_doctor_line", 1),
        ("lab_doctor_line", 2),
    ]
    assert journal.read_bytes() == b"nonsense\n[]\n" + whole


async def test_what_writers_that_died_have_left_is_removed(services: Services, root: Path) -> None:
    project = await _run(services)
    shelf = root / "workspace"
    local = shelf / "skills" / "talk" / "local"
    folders = [local / ".skill_aaaaaaaa_v2.0123abcd.tmp", shelf / "projects" / ".new-0123abcd"]
    left = [
        local / "skill_aaaaaaaa_v1" / ".tags.json.0123abcd.tmp",
        project.folder / ".config.json.0123abcd.tmp",
        project.folder / "results" / "aaaaaaaa_v1" / ".case_001.json.0123abcd.tmp",
    ]
    for folder in folders:
        _written(folder / "meta.json", {})
    for path in left:
        path.write_text("{", encoding="utf-8")
    assert (await examine_root(services)).findings == [], "someone may still be writing them"
    for path in (*folders, *left):
        os.utime(path, (OLD, OLD))
    (project.folder / ".stop-1").write_text("", encoding="utf-8")
    report = await examine_root(services, fix=True)
    assert sorted(found.code for found in report.findings) == ["leftover"] * 5 + ["stop_leftover"]
    assert report.healthy
    assert not any(path.exists() for path in (*folders, *left))
    assert (await examine_root(services)).findings == []


async def test_only_answers_that_are_kept_elsewhere_leave_the_spool(services: Services) -> None:
    project = await _run(services)
    calls = json.loads((project.results / "aaaaaaaa_v1" / "x_case_001.json").read_text(encoding="utf-8"))
    kept = calls["calls"][0]["call_id"]
    project.spool.mkdir(exist_ok=True)
    for name in (f"{kept}.done", f"{kept}.in", "x-never-read-a1.done"):
        (project.spool / name).write_text("{}", encoding="utf-8")
    found = _only(await examine_root(services), "lab_doctor_spool")
    assert (found.params["count"], found.level) == (1, "note")
    assert _only(await examine_root(services, fix=True), "lab_doctor_spool").fixed
    assert os.listdir(project.spool) == ["x-never-read-a1.done"]


async def test_sessions_whose_time_is_over_expire(services: Services) -> None:
    session = services.lab_sessions.open("auto_tag", "skill", SKILLS[0], "2025-10-01T00:00:00Z")
    lasting = services.lab_sessions.open("auto_tag", "skill", SKILLS[0], NOW)
    found = _only(await examine_root(services), "lab_doctor_expired")
    assert found.file == f"workspace/cli/temp_session/{session.session_id}.json"
    assert _only(await examine_root(services, fix=True), "lab_doctor_expired").fixed
    assert services.lab_sessions.session(session.session_id).status == "expired"
    assert services.lab_sessions.session(lasting.session_id).status == "active"


# --- whatever happens to a file


@settings(max_examples=60)
@given(
    number=st.integers(0, 10_000),
    junk=st.one_of(
        st.binary(max_size=60),
        st.sampled_from(
            [b"[" * 100_000, b"1e999", b'{"scores": {"total": 1' + b"0" * 400 + b"}}", b"null", b'{"a": NaN}']
        ),
    ),
    at=st.integers(0, 400),
)
def test_no_damage_to_a_file_stops_the_doctor(number: int, junk: bytes, at: int) -> None:
    root = _damaged_root()
    paths = sorted(
        path for path in (root / "workspace").rglob("*") if path.is_file() and path.name != ".lock"
    )
    path = paths[number % len(paths)]
    raw = path.read_bytes()
    path.write_bytes(raw[: at % (len(raw) + 1)] + junk)
    try:
        report = asyncio.run(examine_root(_services(root)))
        assert {finding.file for finding in report.findings} <= {
            found.relative_to(root).as_posix() for found in paths
        }
        assert all(finding.message("zh") and finding.message("en") for finding in report.findings)
    finally:
        path.write_bytes(raw)


_ROOT: list[TemporaryDirectory[str]] = []


def _damaged_root() -> Path:
    """Make a workspace once, for all examples."""
    if not _ROOT:
        _ROOT.append(TemporaryDirectory())
        root = Path(_ROOT[0].name) / "data"
        asyncio.run(_run(_services(root)))
        project = next((root / "workspace" / "projects").glob("project_*"))
        _written(project / "analysis_report.json", EXAMPLES["6.1"])
        _written(project / "iterations" / "iteration_report.json", EXAMPLES["7.2"])
        _written(project / "iterations" / "exploration_log.json", EXAMPLES["7.3"])
    return Path(_ROOT[0].name) / "data"


def _services(root: Path) -> Services:
    made = open_services(read_settings({"PERSONALAB_DATA": str(root)}))
    made.now = lambda: NOW
    return made
