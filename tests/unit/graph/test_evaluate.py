"""A project is run to its ranking; what is paid is never paid again, and what stops it loses nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graph.evaluate import stream_evaluate
from personalab.lab.calling import Call, CallAnswer
from personalab.lab.controls import CONTROLS
from personalab.lab.options import NO_SKILL, NO_SKILL_ID
from personalab.lab.records import DIMENSIONS
from personalab.operations.lab.leaderboard import leaderboard
from personalab.operations.lab.projects import pause_project, plan_project, project_status
from personalab.operations.lab.skills import edit_skill
from personalab.ports import AnswerNeeded
from personalab.services import Services
from personalab.storage.lab.project_journal import read_journal
from personalab.storage.lab.projects import ProjectPlace
from tests.support.graph.turns import only
from tests.support.lab.running import (
    SKILLS,
    FakeExecutor,
    broken,
    by_rule,
    evaluate,
    judged,
    make_project,
    scores,
    told,
    use,
)

pytestmark = pytest.mark.anyio


def _result(place: ProjectPlace, name: str = "aaaaaaaa_v1/case_001") -> dict[str, Any]:
    return json.loads((place.results / f"{name}.json").read_text(encoding="utf-8"))


def _failing(match: str, times: int, answer: CallAnswer) -> Callable[[Call], CallAnswer]:
    """Fail the calls whose name has a part, so often."""
    left = [times]

    def rule(call: Call) -> CallAnswer:
        if match in call.call_id and left[0]:
            left[0] -= 1
            return answer
        return by_rule(call)

    return rule


# --- a run


async def test_a_run_executes_judges_and_ranks(services: Services) -> None:
    fake = use(services, FakeExecutor())
    place = await make_project(services)
    events, result = await evaluate(services, place.name)
    assert (result["status"], result["completed"], result["failed"], result["skipped"]) == ("done", 6, 0, 0)
    assert (len(fake.ids("x")), len(fake.ids("j")), len(fake.ids("c"))) == (6, 6, 4)
    assert [row["skill_name"] for row in result["summary"]["ranking"]] == ["alpha", "beta"]
    kept = _result(place)
    assert (kept["actual_output"], kept["scores"]["total"], kept["cli_version"]) == (
        "alpha: Please say the number 1 aloud.",
        89,
        "0.0.0-fake",
    )
    stages = [(event["stage"], event["done"], event["total"]) for event in only(events, "progress")]
    assert stages[0] == ("controls", 0, 4)
    assert ("execute", 6, 6) in stages
    assert stages[-1] == ("judge", 6, 6)
    assert only(events, "progress")[-1]["cost_usd"] == pytest.approx(0.16)
    config = place.again().config
    assert config.status == "completed"
    assert (config.progress.completed_tasks, config.progress.last_checkpoint) == (6, 6)
    assert list(place.spool.iterdir()) == []


async def test_the_judges_see_nothing_of_a_skill(services: Services) -> None:
    fake = use(services, FakeExecutor(rule=lambda call: judged(0.5) if call.schema else told("An answer.")))
    place = await make_project(services, controls=False)
    await evaluate(services, place.name)
    for call in fake.calls:
        if call.schema is not None:
            for secret in ("alpha", "beta", "briefly", *SKILLS):
                assert secret not in call.text + call.system


async def test_every_call_is_accounted_for_without_its_texts(services: Services) -> None:
    """Contradiction 33 of the source: who judged and what it cost stand in calls.jsonl."""
    use(services, FakeExecutor())
    place = await make_project(services, judges=["one", "two"], judge_repeats=2, repeats=2, controls=False)
    await evaluate(services, place.name)
    rows = read_journal(place.journal, "calls.jsonl")
    assert len(rows) == 6 * 2 + 6 * 2 * 2 * 2
    assert {row["judge"] for row in rows if row["role"] == "judge"} == {"one", "two"}
    assert all(row["cost_usd"] == 0.01 and row["cli_version"] == "0.0.0-fake" for row in rows)
    assert "Please say" not in place.journal.read_text(encoding="utf-8")
    calls = place.calls(place.results / "aaaaaaaa_v1/x_case_001.json")
    assert calls is not None
    assert len(calls.calls) == 2 + 8


async def test_several_judges_and_repeats_give_their_mean(services: Services) -> None:
    def rule(call: Call) -> CallAnswer:
        if call.schema is None:
            return told(f"answer {call.repeat}")
        high = call.model == "kind"
        return judged((0.8 if high else 0.4) + (0.2 if "answer 2" in call.text else 0.0))

    use(services, FakeExecutor(rule=rule))
    place = await make_project(services, judges=["kind", "harsh"], repeats=2, controls=False)
    await evaluate(services, place.name)
    kept = _result(place)
    assert (kept["scores"]["functional_correctness"], kept["actual_output"]) == (21, "answer 1")
    assert place.extra_summary()["repeat_sd"] > 0


async def test_several_baselines_keep_their_results_apart(services: Services) -> None:
    """Contradiction 8 of the source."""
    use(services, FakeExecutor())
    place = await make_project(services, baselines=2)
    _, result = await evaluate(services, place.name)
    assert result["completed"] == 12
    names = sorted(path.name for path in (place.results / "aaaaaaaa_v1").glob("[!x]*"))
    assert names == [f"{short}__case_00{n}.json" for short in ("cccccccc", "dddddddd") for n in (1, 2, 3)]
    assert [found["total_cases"] for found in place.extra_summary()["baselines"]] == [3, 3]
    assert result["summary"]["total_cases"] == 6


async def test_the_arm_without_a_skill_is_measured_and_not_ranked(services: Services) -> None:
    fake = use(services, FakeExecutor())
    place = await make_project(services, no_skill_arm=True)
    _, result = await evaluate(services, place.name)
    assert {call.system for call in fake.calls if "00000000_v1" in call.call_id and not call.schema} == {
        NO_SKILL
    }
    assert [row["skill_id"] for row in result["summary"]["ranking"]] == list(SKILLS)
    assert place.extra_summary()["no_skill"]["skill_id"] == NO_SKILL_ID
    assert place.again().config.progress.completed_tasks == place.config.progress.total_tasks == 6
    for call in fake.calls:
        if call.schema is None:
            assert Path(call.system_file or "").read_text(encoding="utf-8") == call.system


async def test_a_dry_run_tells_the_plan_and_changes_nothing(services: Services) -> None:
    fake = use(services, FakeExecutor())
    place = await make_project(services, repeats=2)
    before = {path: path.read_bytes() for path in place.folder.rglob("*") if path.is_file()}
    events, result = await evaluate(services, place.name, dry_run=True, changes={"max_calls": 5})
    plan = result["plan"]
    assert result["status"] == "plan"
    assert (plan["execute_calls"], plan["judge_calls"], plan["control_calls"], plan["calls"]) == (
        12,
        12,
        4,
        28,
    )
    assert (plan["within_budget"], plan["max_calls"], plan["cost_usd"]) == (False, 5, None)
    assert plan["input_tokens"] > 0 < plan["output_tokens"]
    assert [event["type"] for event in events] == ["plan"]
    assert fake.calls == []
    assert {path: path.read_bytes() for path in place.folder.rglob("*") if path.is_file()} == before
    await evaluate(services, place.name)
    assert [len(fake.ids(kind)) for kind in "xjc"] == [12, 12, plan["control_calls"]]


async def test_a_plan_in_the_middle_counts_only_what_is_missing_and_knows_what_calls_cost(
    services: Services,
) -> None:
    use(services, FakeExecutor())
    place = await make_project(services, max_calls=9)
    _, result = await evaluate(services, place.name)
    assert result["status"] == "interrupted"
    plan = await plan_project(services, place.name)
    assert (plan.execute_calls, plan.judge_calls, plan.control_calls) == (1, 6, 0)
    assert (plan.calls_made, plan.spent_usd) == (9, pytest.approx(0.09))
    assert plan.cost_usd is None  # no judgement has told its price yet


# --- failures


async def test_what_passes_is_tried_again_and_what_does_not_is_not(services: Services) -> None:
    fake = use(services, FakeExecutor(rule=_failing("x-aaaaaaaa_v1-case_001", 2, broken())))
    place = await make_project(services)
    _, result = await evaluate(services, place.name)
    assert (result["status"], result["failed"]) == ("done", 0)
    assert fake.ids("x-aaaaaaaa_v1-case_001") == [f"x-aaaaaaaa_v1-case_001-r1-a{n}" for n in (1, 2, 3)]
    assert len(read_journal(place.journal, "")) == 18


async def test_a_case_fails_after_its_last_attempt_and_the_project_is_completed(services: Services) -> None:
    """Contradictions 15 and 19 of the source."""
    refused = broken("HTTP 400", retryable=False)
    fake = use(services, FakeExecutor(rule=_failing("x-", 99, refused)))
    place = await make_project(services)
    _, result = await evaluate(services, place.name)
    assert (result["status"], result["failed"], len(fake.ids("x"))) == ("done", 6, 6)
    kept = _result(place)
    assert (kept["status"], kept["error"], kept["score_reasoning"]) == ("failed", "HTTP 400", "")
    assert set(kept["scores"].values()) == {None} == {kept["score_evaluated_at"]}
    config = place.again().config
    assert (config.status, config.progress.failed_tasks) == ("completed", 6)
    await evaluate(services, place.name)
    assert len(fake.ids("x")) == 6


async def test_failed_cases_are_done_anew_only_when_that_is_wanted(services: Services) -> None:
    fake = use(services, FakeExecutor(rule=_failing("x-aaaaaaaa_v1-case_001", 3, broken())))
    place = await make_project(services)
    _, result = await evaluate(services, place.name)
    assert result["failed"] == 1
    before = len(fake.calls)
    _, result = await evaluate(services, place.name)
    assert (result["failed"], len(fake.calls)) == (1, before)
    _, result = await evaluate(services, place.name, rerun_failed=True)
    assert (result["failed"], result["completed"]) == (0, 6)
    assert [call.call_id for call in fake.calls[before:]] == [
        "x-aaaaaaaa_v1-case_001-r1-a4",
        f"j-aaaaaaaa_v1-case_001-r1-a4-{fake.ids('j')[-1].split('-')[-3]}-k1-a1",
    ]
    assert len({call.call_id for call in fake.calls}) == len(fake.calls)


async def test_a_failed_case_that_was_executed_anew_is_judged_in_any_later_run(services: Services) -> None:
    fake = use(services, FakeExecutor(rule=_failing("x-aaaaaaaa_v1-case_001", 3, broken())))
    place = await make_project(services)
    await evaluate(services, place.name)

    async def die(call: Call) -> None:
        if call.schema is not None:
            raise Death

    fake.before = die
    with pytest.raises(Death):
        await evaluate(services, place.name, rerun_failed=True)
    fake.before = None
    _, result = await evaluate(services, place.name)
    assert (result["failed"], result["completed"]) == (0, 6)
    assert fake.ids("x")[-1] == "x-aaaaaaaa_v1-case_001-r1-a4"


async def test_a_judge_that_fails_keeps_the_answer_and_only_it_is_asked_again(services: Services) -> None:
    """Contradiction 16 of the source."""
    fake = use(services, FakeExecutor(rule=_failing("j-aaaaaaaa_v1-case_001", 3, broken("HTTP 529"))))
    place = await make_project(services)
    _, result = await evaluate(services, place.name)
    kept = _result(place)
    assert (result["failed"], kept["status"], kept["error"]) == (1, "failed", "judge: HTTP 529")
    assert kept["actual_output"] == "alpha: Please say the number 1 aloud."
    before = len(fake.calls)
    _, result = await evaluate(services, place.name)
    assert (result["failed"], result["completed"]) == (0, 6)
    assert [call.call_id[:2] for call in fake.calls[before:]] == ["j-"]


@pytest.mark.parametrize(
    "wrong",
    [told("I like it."), told(json.dumps({**scores(0.5), "robustness": {"score": 99, "reason": "?"}}))],
    ids=["no JSON", "out of range"],
)
async def test_a_judgement_that_cannot_be_read_is_asked_for_once_more_with_the_reason(
    services: Services, wrong: CallAnswer
) -> None:
    fake = use(services, FakeExecutor(rule=_failing("j-aaaaaaaa_v1-case_001", 1, wrong)))
    place = await make_project(services)
    _, result = await evaluate(services, place.name)
    assert result["failed"] == 0
    first, second = [call for call in fake.calls if call.call_id.startswith("j-aaaaaaaa_v1-case_001")]
    assert second.text.startswith(first.text)
    assert "could not be used" in second.text[len(first.text) :]
    fake.rule = _failing("j-", 99, wrong)
    other = await _another(services, place)
    _, result = await evaluate(services, other.name)
    assert (result["failed"], len([name for name in fake.ids("j") if name.endswith("-a2")])) == (6, 1 + 6)
    assert _result(other)["error"].startswith("judge: ")


async def _another(services: Services, place: ProjectPlace) -> ProjectPlace:
    from personalab.operations.lab.projects import create_project

    made = await create_project(
        services,
        name="Second",
        skill_ids=SKILLS,
        baseline_ids=[ref.ref_id for ref in place.config.baselines],
        options=place.options(),
    )
    return services.projects.project(made["project"])


async def test_what_no_call_could_survive_ends_the_run_instead_of_failing_every_case(
    services: Services,
) -> None:
    missing = broken("not there", retryable=False, code="provider.cli_missing")
    fake = use(services, FakeExecutor(rule=_failing("x-", 99, missing)))
    place = await make_project(services, concurrency=1)
    events, result = await evaluate(services, place.name)
    assert (result["status"], only(events, "error")[0]["code"]) == ("error", "lab_run_hopeless")
    assert len(fake.ids("x")) == 1
    assert place.again().config.status == "interrupted"
    assert "：not there；" in result["error"]["message"], "an answer of an older version has no parameters"
    kept = {"cli_path": "claude-9", "reason": "it does not exist, or may not be run"}
    fake.rule = _failing("x-", 99, replace(missing, error_params=kept))
    _, result = await evaluate(services, place.name)
    assert "无法运行 claude 命令行程序 “claude-9”：没有这个程序，或没有运行权限" in result["error"]["message"]
    fake.rule = by_rule
    _, result = await evaluate(services, place.name)
    assert (result["status"], result["failed"]) == ("done", 0)
    assert len(fake.ids("c")) == 4


async def test_a_step_that_fails_gives_the_project_up_before_it_is_told(services: Services) -> None:
    missing = broken("not there", retryable=False, code="provider.cli_missing")
    use(services, FakeExecutor(rule=_failing("x-", 99, missing)))
    place = await make_project(services, controls=False)
    held: list[bool] = []
    async for part in stream_evaluate(services, {"project": place.name}):
        if part.get("type") == "error":
            held.append(services.projects.is_running(place))
    assert held == [False]


async def test_a_case_without_words_fails_alone(services: Services) -> None:
    use(services, FakeExecutor())
    place = await make_project(services)
    path = place.folder / "baselines/baseline_cccccccc_v1/cases.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    data["cases"][0]["input"] = " "
    path.write_text(json.dumps(data), encoding="utf-8")
    _, result = await evaluate(services, place.name)
    assert (result["status"], result["completed"], result["failed"]) == ("done", 4, 2)


@pytest.mark.parametrize("case_id", ["../../x", "x_case_001", "", "a/b", "a" * 60])
async def test_a_case_whose_id_is_no_file_name_is_refused(services: Services, case_id: str) -> None:
    fake = use(services, FakeExecutor())
    place = await make_project(services)
    path = place.folder / "baselines/baseline_cccccccc_v1/cases.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    data["cases"][0]["id"] = case_id
    path.write_text(json.dumps(data), encoding="utf-8")
    _, result = await evaluate(services, place.name)
    assert result["status"] == "error"
    assert result["error"]["code"] in ("lab_unsafe_id", "lab_bad_record")
    assert fake.calls == []


# --- controls


async def test_a_judge_that_cannot_tell_planted_answers_apart_blocks_the_ranking(services: Services) -> None:
    fake = use(services, FakeExecutor(rule=lambda call: judged(0.7) if call.schema else told("x")))
    place = await make_project(services)
    events, result = await evaluate(services, place.name)
    assert (result["status"], result["error"]["code"]) == ("error", "lab_judge_blind")
    assert "fake" in only(events, "error")[0]["message"]
    assert place.summary() is None
    assert place.again().config.status == "interrupted"
    assert (len(fake.ids("c")), len(fake.calls)) == (4, 4)
    await evaluate(services, place.name)
    assert len(fake.calls) == 4  # it is paid for once
    fake.rule = by_rule
    _, result = await evaluate(services, place.name, rerun_failed=True)
    assert (result["status"], len(fake.ids("c"))) == ("done", 8)
    assert place.extra_summary()["judges"][0]["controls_passed"] is True


async def test_a_control_that_fails_is_no_verdict(services: Services) -> None:
    fake = use(services, FakeExecutor(rule=_failing("c-", 99, broken())))
    place = await make_project(services)
    _, result = await evaluate(services, place.name)
    assert result["error"]["code"] == "lab_control_failed"
    fake.rule = by_rule
    _, result = await evaluate(services, place.name)
    assert result["status"] == "done"


async def test_each_judge_is_proven_in_the_language_of_the_cases(services: Services) -> None:
    fake = use(services, FakeExecutor())
    place = await make_project(services, judges=["one", "two"])
    await evaluate(services, place.name)
    asked = [call for call in fake.calls if call.call_id.startswith("c-")]
    assert [call.model for call in asked] == ["one"] * 4 + ["two"] * 4
    english = [control.good for control in CONTROLS if control.language == "en"]
    assert sum(good in call.text for call in asked for good in english) == 4
    assert set(place.controls()["judges"]) == {row["identity"] for row in place.extra_summary()["judges"]}


# --- stopping and going on


@pytest.mark.parametrize("most", [5, 7])
async def test_a_budget_is_never_exceeded_and_a_larger_one_goes_on(services: Services, most: int) -> None:
    async def before(_: Call) -> None:
        for _turn in range(5):
            await asyncio.sleep(0)  # so that several are under way

    fake = use(services, FakeExecutor(before=before))
    place = await make_project(services, max_calls=most, concurrency=3)
    _, result = await evaluate(services, place.name)
    assert (result["status"], len(fake.calls)) == ("interrupted", most)
    assert f"{most} 次调用" in result["budget"]
    assert place.again().config.status == "interrupted"
    left = [found for found in place.all_results() if found.status == "skipped"]
    assert {found.error for found in left} == {f"budget: all {most} calls are used"}
    assert len(left) == 6
    _, result = await evaluate(services, place.name, changes={"max_calls": None})
    assert (result["status"], result["completed"], len(fake.calls)) == ("done", 6, 16)
    assert len({call.call_id for call in fake.calls}) == 16


async def test_a_budget_in_money_stops_in_time(services: Services) -> None:
    fake = use(services, FakeExecutor())
    place = await make_project(services, max_usd=0.0995, concurrency=1)
    _, result = await evaluate(services, place.name)
    assert (result["status"], len(fake.calls)) == ("interrupted", 9)
    assert result["cost_usd"] == pytest.approx(0.09)


async def test_a_pause_lets_calls_under_way_end_and_begins_no_other(services: Services) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def before(call: Call) -> None:
        if call.call_id.startswith("x"):
            begun.set()
            await go.wait()

    fake = use(services, FakeExecutor(before=before))
    place = await make_project(services, concurrency=2, repeats=2)
    run = asyncio.create_task(evaluate(services, place.name))
    await begun.wait()
    assert (await project_status(services, place.name))["status"] == "running"
    assert (await pause_project(services, place.name, wait=0.5))["status"] == "stopping"
    go.set()
    _, result = await run
    assert (result["status"], len(fake.ids("x"))) == ("interrupted", 2)
    assert place.again().config.status == "interrupted"
    assert len(read_journal(place.journal, "")) == 6
    _, result = await evaluate(services, place.name)
    assert (result["status"], len(fake.ids("x"))) == ("done", 12)
    assert len({call.call_id for call in fake.calls}) == len(fake.calls)


async def test_whoever_leaves_ends_the_calls_and_the_project_is_interrupted(services: Services) -> None:
    begun = asyncio.Event()
    ended: list[str] = []

    async def before(call: Call) -> None:
        if call.call_id.startswith("x"):
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.append(call.call_id)
                raise

    fake = use(services, FakeExecutor(before=before))
    place = await make_project(services, concurrency=2)
    stream = stream_evaluate(services, {"project": place.name})
    async for _ in stream:
        if begun.is_set():
            break
    await stream.aclose()
    assert len(ended) == 2
    assert place.again().config.status == "interrupted"
    fake.before = None
    _, result = await evaluate(services, place.name)
    assert result["status"] == "done"


async def test_a_second_run_of_the_same_project_is_told_who_holds_it(hurried: Services) -> None:
    use(hurried, FakeExecutor())
    place = await make_project(hurried)
    async with hurried.projects.leases.holding(place.name, "evaluate", wait=1):
        _, result = await evaluate(hurried, place.name)
        assert (result["error"]["code"], result["error"]["kind"]) == ("lab_project_busy", "busy")
        _, result = await evaluate(hurried, place.name, dry_run=True)
        assert result["status"] == "plan"  # readers never wait


async def test_a_project_that_does_not_exist_is_an_error_of_its_own(services: Services) -> None:
    for name in ("nothing", ""):
        _, result = await evaluate(services, name)
        assert result["status"] == "error"
    assert result["error"]["code"] == "id_missing"


async def test_a_question_to_the_client_passes_through(services: Services) -> None:
    def rule(call: Call) -> CallAnswer:
        raise AnswerNeeded

    use(services, FakeExecutor(rule=rule))
    place = await make_project(services)
    with pytest.raises(AnswerNeeded):
        await evaluate(services, place.name)
    assert place.again().config.status == "interrupted"


class Death(BaseException):
    """What ends a process, as far as a test can have it in its own."""


class Mortal(FakeExecutor):
    """Dies once, at the n-th time it has an answer or is to forget one."""

    def __init__(self, die_at: int, where: str) -> None:
        super().__init__()
        self._left = die_at
        self._where = where

    def _step(self, where: str) -> None:
        if where == self._where:
            self._left -= 1
            if self._left == 0:
                raise Death

    async def run(self, call: Call, spool: Path) -> CallAnswer:
        answer = await super().run(call, spool)
        self._step("answered")
        return answer

    def forget(self, spool: Path, call_id: str) -> None:
        self._step("noted")
        super().forget(spool, call_id)


@pytest.mark.parametrize("where", ["answered", "noted"])
@pytest.mark.parametrize("die_at", [1, 4, 5, 8, 11, 16])
async def test_who_dies_after_an_answer_or_after_it_was_noted_takes_it_from_where_it_is(
    services: Services, where: str, die_at: int
) -> None:
    fake = use(services, Mortal(die_at, where))
    place = await make_project(services)
    with pytest.raises(Death):
        await evaluate(services, place.name)
    _, result = await evaluate(services, place.name)
    assert (result["status"], result["completed"]) == ("done", 6)
    assert len({call.call_id for call in fake.calls}) == len(fake.calls) == 16
    assert len(read_journal(place.journal, "")) == 16
    assert list(place.spool.iterdir()) == []


# --- what others did to the files


async def test_a_result_that_was_spoiled_is_made_again_without_a_call(services: Services) -> None:
    """Contradiction 20 of the source: the files say what is done, not a count."""
    fake = use(services, FakeExecutor())
    place = await make_project(services)
    await evaluate(services, place.name)
    path = place.results / "aaaaaaaa_v1/case_001.json"
    whole, made = path.read_bytes(), len(fake.calls)
    place.save_config(
        place.again().config.changed(
            progress={"total_tasks": 6, "completed_tasks": 0, "failed_tasks": 0, "last_checkpoint": None}
        )
    )
    for spoiled in (b"", b"{", whole[: len(whole) // 2], b'{"status": "completed"}', None):
        if spoiled is None:
            path.unlink()
        else:
            path.write_bytes(spoiled)
        _, result = await evaluate(services, place.name)
        assert (result["status"], len(fake.calls)) == ("done", made)
        assert path.read_bytes() == whole
    assert place.again().config.progress.last_checkpoint == 6


async def test_results_that_another_program_wrote_are_taken_as_they_are(services: Services) -> None:
    fake = use(services, FakeExecutor())
    place = await make_project(services)
    await evaluate(services, place.name)
    path = place.results / "bbbbbbbb_v1/case_001.json"
    foreign = {
        "note": 1,
        **json.loads(path.read_text(encoding="utf-8")),
        "executed_at": "2024-01-01T15:00:00.000Z",
    }
    foreign["scores"] = {**dict.fromkeys(DIMENSIONS, 0), "total": 0}
    path.write_text(json.dumps(foreign), encoding="utf-8")
    made = len(fake.calls)
    _, result = await evaluate(services, place.name)
    assert len(fake.calls) == made
    assert result["summary"]["ranking"][1]["avg_score"] < 49


async def test_an_edit_during_a_run_changes_nothing_in_it_and_makes_its_score_stale(
    services: Services,
) -> None:
    fake = use(services, FakeExecutor())
    place = await make_project(services, concurrency=1, controls=False)
    edited: list[str] = []

    async def edit(call: Call) -> None:
        if call.call_id.startswith("x-") and not edited:
            edited.append(
                (await edit_skill(services, SKILLS[0], content="another skill altogether\n")).meta.version
            )

    fake.before = edit
    _, result = await evaluate(services, place.name)
    assert (result["status"], edited) == ("done", ["v2"])
    contents = {call.system for call in fake.calls if call.call_id.startswith("x-")}
    assert contents == {"alpha answers briefly.\n", "beta answers briefly.\n"}
    board = await leaderboard(services, group=False)
    found = {row["skill_id"]: row for row in board["records"]}
    assert found[SKILLS[0]]["staleness"] == "skill_updated"
    assert (found[SKILLS[0]]["skill_version_tested"], found[SKILLS[0]]["skill_version_current"]) == (
        "v1",
        "v2",
    )
    assert found[SKILLS[1]]["staleness"] == "current"
