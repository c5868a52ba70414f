"""How tests make a project of pieces that are known to help or to harm, and search it."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

from graph.iterate import stream_iterate
from nodes.iterate.state import IterateInput
from personalab.lab.assets import NO_TAGS, BaselineMeta, Case, Cases, SkillMeta
from personalab.lab.calling import Call, CallAnswer
from personalab.lab.records import CATEGORIES, DIMENSIONS, MAXIMA
from personalab.operations.lab.projects import create_project
from personalab.services import Services
from personalab.storage.lab.projects import ProjectPlace
from tests.support.lab.running import BASELINES, NOW, OPTIONS, SKILLS, FakeExecutor, evaluate, told, use

ALPHA = (
    "You are a careful writer. [good-8]\n",
    "Use many long words. [bad-6]\n",
    "Name your sources. [good-4]\n",
)
BETA = ("You answer at once. [bad-4]\n", "Give an example. [good-7]\n", "End with a question. [bad-5]\n")
POINTS = {text.partition("[")[2].rstrip("]\n"): 0 for text in (*ALPHA, *BETA)}
CASES = 6
Sent = dict[str, Any]


def by_pieces(call: Call) -> CallAnswer:
    """Answer with the skill itself; judge an answer by the pieces that stand in it."""
    if call.schema is None:
        return told(call.system)
    share = 0.5
    for name in POINTS:
        kind, _, weight = name.partition("-")
        if f"[{name}]" in call.text:
            share += int(weight) / 50 * (1 if kind == "good" else -1)
    scores = {name: {"score": round(MAXIMA[name] * share), "reason": "by its pieces"} for name in DIMENSIONS}
    return told(json.dumps(scores))


async def prepared(services: Services, **options: Any) -> tuple[ProjectPlace, FakeExecutor]:
    """Make a project of two skills of three pieces each, run it, and give what makes the calls."""
    executor = use(services, FakeExecutor(by_pieces))

    def add() -> None:
        for skill_id, name, pieces in zip(SKILLS, ("alpha", "beta"), (ALPHA, BETA), strict=True):
            meta = SkillMeta(
                id=skill_id, name=name, purpose="talk", provider="local", version="v1", status="active",
                created_at=NOW, updated_at=NOW,
            )  # fmt: skip
            services.assets.add_skill(meta, "\n".join(pieces), tags=NO_TAGS)
        rows = tuple(
            Case(
                id=f"case_{number:03d}",
                name=f"Case {number}",
                category=CATEGORIES[number % 3],
                input=f"Say {number}.",
                expected_output="A number.",
                created_at=NOW,
                updated_at=NOW,
            )
            for number in range(1, CASES + 1)
        )
        meta = BaselineMeta(
            id=BASELINES[0], name="numbers", purpose="talk", provider="local", version="v1",
            case_count=CASES, status="active", created_at=NOW, updated_at=NOW,
        )  # fmt: skip
        cases = Cases(baseline_id=BASELINES[0], version="v1", cases=rows)
        services.assets.add_baseline(meta, cases, tags=NO_TAGS)

    await asyncio.to_thread(add)
    made = await create_project(
        services,
        name="Pieces",
        skill_ids=SKILLS,
        baseline_ids=BASELINES[:1],
        options=OPTIONS.changed(controls=False, **options),
    )
    place = services.projects.project(made["project"])
    _, result = await evaluate(services, place.name)
    assert result["status"] == "done"
    return services.projects.project(place.name), executor


async def iterate(services: Services, place: ProjectPlace, **given: Any) -> Sent:
    """Iterate to the end and give the result."""
    result: Sent = {}
    async for part in stream_iterate(services, cast("IterateInput", {"project": place.name, **given})):
        if "type" not in part:
            result = dict(part)
    return result


async def iterated(services: Services, **given: Any) -> tuple[ProjectPlace, FakeExecutor, Sent]:
    """Make a project and iterate."""
    place, executor = await prepared(services)
    executor.calls.clear()
    return place, executor, await iterate(services, place, **{"max_rounds": 6, **given})


def files_of(place: ProjectPlace) -> dict[str, str]:
    """Read everything an iteration wrote, but times of calls."""
    top = place.folder / "iterations"
    return {
        str(path.relative_to(top)): path.read_text(encoding="utf-8") for path in sorted(top.rglob("*.json"))
    }
