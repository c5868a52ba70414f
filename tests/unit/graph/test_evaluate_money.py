"""A run keeps to its budget in calls and in money, loses nothing that is paid, and accounts for all of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graph.evaluate import stream_evaluate
from personalab.dialogue import Message
from personalab.lab.calling import Call, CallAnswer
from personalab.operations.lab.projects import plan_project, skip_task
from personalab.ports import ReplyChunk
from personalab.providers.chat_executor import ChatExecutor
from personalab.services import Services
from personalab.storage.lab.project_journal import read_journal
from personalab.storage.lab.projects import ProjectPlace
from tests.support.graph.turns import only
from tests.support.lab.running import FakeExecutor, broken, by_rule, evaluate, make_project, told, use

pytestmark = pytest.mark.anyio


def _priced(cost: float | None) -> Callable[[Call], CallAnswer]:
    return lambda call: replace(by_rule(call), cost_usd=cost)


async def _a_while(_: Call) -> None:
    for _turn in range(10):
        await asyncio.sleep(0)  # so that as many as may be are under way


def _rows(place: ProjectPlace) -> list[dict[str, Any]]:
    return read_journal(place.journal, "")


def _result(place: ProjectPlace, name: str = "aaaaaaaa_v1/case_001") -> dict[str, Any]:
    return json.loads((place.results / f"{name}.json").read_text(encoding="utf-8"))


# --- money


@pytest.mark.parametrize("controls", [True, False])
@pytest.mark.parametrize("most", [1.0, 2.6])
async def test_a_limit_in_money_holds_however_many_calls_may_be_under_way(
    services: Services, most: float, controls: bool
) -> None:
    fake = use(services, FakeExecutor(rule=_priced(0.5), before=_a_while))
    place = await make_project(services, concurrency=16, max_usd=most, controls=controls, judges=["a", "b"])
    _, result = await evaluate(services, place.name)
    assert result["status"] == "interrupted"
    assert len(fake.calls) == int(most / 0.5)
    assert sum(row["cost_usd"] for row in _rows(place)) <= most
    _, result = await evaluate(services, place.name, changes={"max_usd": 100})
    assert (result["status"], result["completed"]) == ("done", 6)


async def test_calls_are_made_side_by_side_again_once_their_price_is_known(services: Services) -> None:
    most = 0
    under_way = 0

    async def before(call: Call) -> None:
        nonlocal most, under_way
        under_way += 1
        most = max(most, under_way)
        await _a_while(call)
        under_way -= 1

    use(services, FakeExecutor(before=before))
    place = await make_project(services, concurrency=4, max_usd=10)
    _, result = await evaluate(services, place.name)
    assert (result["status"], most > 1) == ("done", True)


async def test_whoever_must_wait_for_a_price_gets_on_when_it_is_less_than_feared(services: Services) -> None:
    dear = [0.6]

    def rule(call: Call) -> CallAnswer:
        return replace(by_rule(call), cost_usd=dear.pop() if dear else 0.01)

    use(services, FakeExecutor(rule=rule, before=_a_while))
    place = await make_project(services, concurrency=8, max_usd=2.0, controls=False)
    _, result = await evaluate(services, place.name)
    assert (result["status"], result["completed"]) == ("done", 6)


async def test_where_no_price_is_told_a_limit_in_money_ends_the_run_after_one_call(
    services: Services,
) -> None:
    fake = use(services, FakeExecutor(rule=_priced(None), before=_a_while))
    place = await make_project(services, concurrency=8, max_usd=5)
    assert (await plan_project(services, place.name)).within_budget is None
    _, result = await evaluate(services, place.name)
    assert (result["status"], len(fake.calls)) == ("interrupted", 1)
    assert "不知道每次调用的价格" in result["budget"]
    assert "max_calls" in result["budget"]
    assert (await plan_project(services, place.name)).within_budget is None
    _, result = await evaluate(services, place.name, changes={"max_usd": None, "max_calls": 100})
    assert (result["status"], len(fake.calls)) == ("done", 16)


async def test_a_failure_without_a_price_does_not_end_a_run_that_has_a_limit(services: Services) -> None:
    left = [broken(), broken()]
    use(services, FakeExecutor(rule=lambda call: left.pop() if left else by_rule(call)))
    place = await make_project(services, max_usd=5)
    _, result = await evaluate(services, place.name)
    assert (result["status"], result["completed"]) == ("done", 6)


# --- calls


def _spool(place: ProjectPlace, *names: str, cost: float = 0.01) -> None:
    """Leave answers behind as a run does that is killed."""
    place.make_folder(place.spool)
    for name in names:
        content = json.dumps(told("hi", cost).fields())
        (place.spool / f"{name}.done").write_text(content, encoding="utf-8")


async def test_calls_that_a_killed_run_made_count(services: Services) -> None:
    fake = use(services, FakeExecutor())
    place = await make_project(services, concurrency=1, controls=False, max_calls=3)
    _spool(place, *(f"x-aaaaaaaa_v1-case_00{number}-r1-a1" for number in (2, 3)))
    _, result = await evaluate(services, place.name)
    assert (result["status"], len(fake.calls), len(_rows(place))) == ("interrupted", 1, 3)
    assert list(place.spool.iterdir()) == []


async def test_the_price_of_calls_that_a_killed_run_made_is_set_aside(services: Services) -> None:
    fake = use(services, FakeExecutor(rule=_priced(0.5)))
    place = await make_project(services, concurrency=1, controls=False, max_usd=2.0)
    _spool(place, *(f"x-bbbbbbbb_v1-case_00{number}-r1-a1" for number in (1, 2, 3)), cost=0.5)
    _, result = await evaluate(services, place.name)
    assert result["status"] == "interrupted"
    assert sum(row["cost_usd"] for row in _rows(place)) == 2.0
    assert len(fake.calls) == 1


class Talker:
    """A chat model that gives no JSON."""

    name = "openai:gpt-x"

    def __init__(self) -> None:
        self.requests = 0

    async def stream(self, messages: Sequence[Message]) -> AsyncGenerator[ReplyChunk]:
        """Count a request."""
        self.requests += 1
        yield ReplyChunk("I would rather not say.")


async def test_a_call_is_one_request_and_an_unreadable_judgement_is_asked_for_once_more(
    services: Services,
) -> None:
    model = Talker()
    executor = ChatExecutor(model)

    async def find(_: str) -> ChatExecutor:
        return executor

    services.__dict__["executor"] = find
    place = await make_project(services, cases=1, controls=False)
    _, result = await evaluate(services, place.name)
    assert (result["status"], result["failed"]) == ("done", 2)
    assert model.requests == len(_rows(place)) == 2 * (1 + 2)
    assert [row["status"] for row in _rows(place) if row["role"] == "judge"] == ["unreadable"] * 4


# --- failures that end a run


@pytest.mark.parametrize("repeats", [1, 3])
async def test_calls_under_way_are_kept_when_another_ends_the_run(services: Services, repeats: int) -> None:
    go = asyncio.Event()
    ended: list[str] = []

    async def before(call: Call) -> None:
        if "bbbbbbbb_v1-case_001-r1" in call.call_id:
            while len(fake.calls) < 4:
                await asyncio.sleep(0)
            go.set()
        else:
            await go.wait()
            await _a_while(call)
            ended.append(call.call_id)

    def rule(call: Call) -> CallAnswer:
        if "bbbbbbbb_v1-case_001-r1" in call.call_id:
            return broken("who are you?", retryable=False, code="provider.cli_login")
        return by_rule(call)

    fake = use(services, FakeExecutor(rule=rule, before=before))
    place = await make_project(services, cases=1, concurrency=4, controls=False, repeats=repeats)
    if repeats == 1:
        place = await make_project_of_more(services, place)
    events, result = await evaluate(services, place.name)
    assert only(events, "error")[0]["code"] == "lab_run_hopeless"
    assert result["status"] == "error"
    assert sorted(row["call_id"] for row in _rows(place)) == sorted(ended)
    assert len(ended) == len(fake.calls) - 1 == 3
    made = len(fake.calls)
    fake.rule, fake.before = by_rule, None
    _, result = await evaluate(services, place.name)
    assert result["status"] == "done"
    again = [call.call_id for call in fake.calls[made:]]
    assert not set(again) & set(ended)


async def make_project_of_more(services: Services, place: ProjectPlace) -> ProjectPlace:
    """Give the project four cases, of which the second skill has the fourth call."""
    path = place.folder / "baselines/baseline_cccccccc_v1/cases.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    first = data["cases"][0]
    data["cases"] = [first, {**first, "id": "case_002"}, {**first, "id": "case_003"}]
    path.write_text(json.dumps(data), encoding="utf-8")
    return place.again()


async def test_a_failure_that_ends_a_run_is_accounted_for_if_it_cost_something(services: Services) -> None:
    costly = replace(broken("log in", retryable=False, code="provider.cli_login"), cost_usd=0.3)
    left = [costly]
    fake = use(services, FakeExecutor(rule=lambda call: left.pop() if left else by_rule(call)))
    place = await make_project(services, concurrency=1, controls=False, retry_count=0)
    _, result = await evaluate(services, place.name)
    assert (result["status"], [row["cost_usd"] for row in _rows(place)]) == ("error", [0.3])
    _, result = await evaluate(services, place.name)
    assert (result["status"], result["failed"], result["completed"]) == ("done", 0, 6)
    assert {f"x-aaaaaaaa_v1-case_001-r1-a{number}" for number in (1, 2)} <= set(fake.ids("x"))
    assert len(_rows(place)) == len(fake.calls) == 13


# --- what an earlier run left


async def test_what_nobody_asks_for_any_more_is_accounted_for_and_kept_for_its_case(
    services: Services,
) -> None:
    fake = use(services, FakeExecutor())
    place = await make_project(services, controls=False)
    left = "x-aaaaaaaa_v1-case_001-r1-a1"
    search = "x-eeeeeeee_v1-case_001-r1-a1"
    retest = "x-aaaaaaaa_v1-case_002-r2-a1"
    _spool(place, left, search, retest, "c-00000000-p1-good-t1-a1", cost=5.0)
    (place.spool / ".x-aaaaaaaa_v1-case_001-r1-a1.done.tmp").write_text("half", encoding="utf-8")
    await skip_task(services, place.name, "aaaaaaaa", "case_001")
    _, result = await evaluate(services, place.name)
    assert (result["status"], result["cost_usd"]) == ("done", pytest.approx(5.0 + 5.0 + 10 * 0.01))
    assert sorted(path.name for path in place.spool.iterdir()) == [f"{retest}.done", f"{search}.done"]
    await skip_task(services, place.name, "aaaaaaaa", "case_001", undo=True)
    _, result = await evaluate(services, place.name)
    assert (result["status"], result["completed"]) == ("done", 6)
    assert left not in fake.ids("x")
    assert _result(place)["actual_output"] == "hi"


async def test_answers_that_a_later_stage_asks_for_are_left_for_it(services: Services) -> None:
    fake = use(services, FakeExecutor())
    place = await make_project(services, controls=False)

    async def die(call: Call) -> None:
        if call.call_id.startswith("j-bbbbbbbb_v1-case_003"):
            raise _Death

    class Careless(FakeExecutor):
        def forget(self, spool: Path, call_id: str) -> None:
            raise _Death

    fake.before = die
    with pytest.raises(_Death):
        await evaluate(services, place.name)
    fake.before = None
    use(services, Careless(rule=by_rule, calls=fake.calls))
    with pytest.raises(_Death):
        await evaluate(services, place.name)
    assert any(path.name.startswith("j-") for path in place.spool.iterdir())
    use(services, fake)
    _, result = await evaluate(services, place.name)
    assert (result["status"], len(_rows(place))) == ("done", 12)
    finished = [row["call_id"] for row in _rows(place)]
    assert len(set(finished)) == 12
    assert list(place.spool.iterdir()) == []


async def test_who_stops_at_once_takes_nothing_that_a_later_run_asks_for(services: Services) -> None:
    fake = use(services, FakeExecutor())
    place = await make_project(services, controls=False)
    left = "x-aaaaaaaa_v1-case_001-r1-a1"
    _spool(place, left)
    stream = stream_evaluate(services, {"project": place.name}, stop_asked=lambda: True)
    *_, result = [part async for part in stream]
    assert (result["status"], _rows(place)) == ("interrupted", [])
    assert [path.name for path in place.spool.iterdir()] == [f"{left}.done"]
    _, result = await evaluate(services, place.name)
    assert (result["completed"], left in fake.ids("x"), len(_rows(place))) == (6, False, 12)


class _Death(BaseException):
    """What ends a process, as far as a test can have it in its own."""


# --- cases that failed


async def _with_a_failure(services: Services, rule: Callable[[Call], CallAnswer]) -> ProjectPlace:
    use(services, FakeExecutor(rule=rule))
    place = await make_project(services, controls=False)
    _, result = await evaluate(services, place.name)
    assert (result["completed"], result["failed"]) == (5, 1)
    return place


def _broken_one(call: Call) -> CallAnswer:
    return broken() if call.call_id.startswith("x-aaaaaaaa_v1-case_001") else by_rule(call)


async def test_a_failed_case_for_which_the_budget_does_not_suffice_stays_failed_and_can_be_done_later(
    services: Services,
) -> None:
    place = await _with_a_failure(services, _broken_one)
    before = (place.results / "aaaaaaaa_v1/case_001.json").read_bytes()
    fake = use(services, FakeExecutor())
    made = len(_rows(place))
    _, result = await evaluate(services, place.name, rerun_failed=True, changes={"max_calls": made})
    assert (result["status"], result["failed"], result["skipped"]) == ("interrupted", 1, 0)
    assert (place.results / "aaaaaaaa_v1/case_001.json").read_bytes() == before
    assert place.again().config.progress.failed_tasks == 1
    assert fake.calls == []
    changes = {"max_calls": made + 50}
    _, result = await evaluate(services, place.name, rerun_failed=True, changes=changes)
    assert (result["status"], result["completed"], result["failed"]) == ("done", 6, 0)
    assert place.again().config.progress.failed_tasks == 0


async def test_a_case_done_anew_whose_judgement_the_budget_does_not_allow_goes_on_later(
    services: Services,
) -> None:
    place = await _with_a_failure(services, _broken_one)
    fake = use(services, FakeExecutor())
    made = len(_rows(place))
    _, result = await evaluate(services, place.name, rerun_failed=True, changes={"max_calls": made + 1})
    assert (result["failed"], result["skipped"], _result(place)["status"]) == (0, 1, "skipped")
    _, result = await evaluate(services, place.name, changes={"max_calls": made + 2})
    assert (result["status"], result["completed"], len(fake.calls)) == ("done", 6, 2)


async def test_a_failed_case_that_was_left_out_and_taken_in_again_is_really_tried(
    services: Services,
) -> None:
    place = await _with_a_failure(services, _broken_one)
    await skip_task(services, place.name, "aaaaaaaa", "case_001")
    await skip_task(services, place.name, "aaaaaaaa", "case_001", undo=True)
    fake = use(services, FakeExecutor())
    _, result = await evaluate(services, place.name)
    assert (result["completed"], result["failed"], len(fake.calls)) == (6, 0, 2)
    assert fake.ids("x") == ["x-aaaaaaaa_v1-case_001-r1-a4"]
