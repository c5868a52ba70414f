"""How tests make a project and run it with calls that cost nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from graph.evaluate import stream_evaluate
from nodes.evaluate.state import EvaluateInput
from personalab.lab.assets import NO_TAGS, BaselineMeta, Case, Cases, SkillMeta
from personalab.lab.calling import Call, CallAnswer
from personalab.lab.controls import CONTROLS
from personalab.lab.options import RunOptions
from personalab.lab.records import DIMENSIONS, MAXIMA
from personalab.operations.lab.projects import create_project
from personalab.services import Services
from personalab.storage.lab.projects import ProjectPlace

NOW = "2025-10-16T10:30:00Z"
SKILLS = ("aaaaaaaa-0000-4000-8000-000000000001", "bbbbbbbb-0000-4000-8000-000000000002")
BASELINES = ("cccccccc-0000-4000-8000-000000000003", "dddddddd-0000-4000-8000-000000000004")
Events = list[dict[str, Any]]
OPTIONS = RunOptions(model="fake", backoff_seconds=0)


def scores(share: float, reason: str = "as it should be") -> dict[str, Any]:
    """Make a judge's answer in which every dimension has this share of its points, in whole points."""
    return {name: {"score": int(MAXIMA[name] * share), "reason": reason} for name in DIMENSIONS}


def by_rule(call: Call) -> CallAnswer:
    """Answer a case with its skill's first word and its input; judge planted answers, and others by that word."""
    if call.schema is None:
        return told(f"{call.system.split()[0]}: {call.text}")
    if any(control.good in call.text for control in CONTROLS):
        return judged(0.95)
    return judged(0.9 if "alpha: " in call.text else 0.5 if "beta: " in call.text else 0.2)


def told(text: str, cost: float | None = 0.01) -> CallAnswer:
    """Make an answer."""
    usage = {"input_tokens": 10, "output_tokens": 5, "cached_tokens": 0}
    return CallAnswer(
        "ok",
        text,
        duration_ms=7,
        executor="fake",
        cli_version="0.0.0-fake",
        model_version="fake-1",
        usage=cast("Any", usage),
        cost_usd=cost,
    )


def judged(share: float) -> CallAnswer:
    """Make a judgement."""
    return told(json.dumps(scores(share)))


def broken(error: str = "HTTP 503", *, retryable: bool = True, code: str = "provider.server") -> CallAnswer:
    """Make a failure."""
    return CallAnswer("failed", error=error, error_code=code, retryable=retryable, executor="fake")


@dataclass
class FakeExecutor:
    """Answers by a rule, and keeps each answer until it is forgotten, as every executor does."""

    rule: Callable[[Call], CallAnswer] = by_rule
    name: str = "fake"
    calls: list[Call] = field(default_factory=list[Call])
    before: Callable[[Call], Any] | None = None
    """Awaited while a call is under way."""

    async def version(self) -> str:
        """Say that it is none."""
        return "0.0.0-fake"

    async def run(self, call: Call, spool: Path) -> CallAnswer:
        """Answer, or give the answer that is kept."""
        kept = spool / f"{call.call_id}.done"
        if kept.exists():
            return CallAnswer.read(json.loads(kept.read_text(encoding="utf-8")))
        self.calls.append(call)
        if self.before is not None:
            await self.before(call)
        answer = self.rule(call)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(answer.fields()), encoding="utf-8")
        return answer

    def forget(self, spool: Path, call_id: str) -> None:
        """Forget an answer."""
        (spool / f"{call_id}.done").unlink(missing_ok=True)

    def ids(self, kind: str = "") -> list[str]:
        """Name the calls that were made, of a kind."""
        return [call.call_id for call in self.calls if call.call_id.startswith(kind)]


def use(services: Services, executor: FakeExecutor) -> FakeExecutor:
    """Let it make all calls."""

    async def find(_: str) -> FakeExecutor:
        return executor

    services.__dict__["executor"] = find
    return executor


def case(number: int, text: str = "") -> Case:
    """Make a case."""
    return Case(
        id=f"case_{number:03d}",
        name=f"Case {number}",
        category="standard",
        input=text or f"Please say the number {number} aloud.",
        expected_output=f"It says {number} and nothing else.",
        created_at=NOW,
        updated_at=NOW,
    )


def add_assets(services: Services, *, cases: int = 3, baselines: int = 1) -> None:
    """Put two skills, alpha and beta, and some baselines on the shelf."""
    for skill_id, name in zip(SKILLS, ("alpha", "beta"), strict=True):
        meta = SkillMeta(
            id=skill_id,
            name=name,
            purpose="talk",
            provider="local",
            version="v1",
            status="active",
            created_at=NOW,
            updated_at=NOW,
        )
        services.assets.add_skill(meta, f"{name} answers briefly.\n", tags=NO_TAGS)
    for baseline_id in BASELINES[:baselines]:
        meta = BaselineMeta(
            id=baseline_id,
            name=f"baseline {baseline_id[:4]}",
            purpose="talk",
            provider="local",
            version="v1",
            case_count=cases,
            status="active",
            created_at=NOW,
            updated_at=NOW,
        )
        rows = tuple(case(number) for number in range(1, cases + 1))
        found = Cases(baseline_id=baseline_id, version="v1", cases=rows)
        services.assets.add_baseline(meta, found, tags=NO_TAGS)


async def make_project(
    services: Services, *, cases: int = 3, baselines: int = 1, name: str = "First test", **options: Any
) -> ProjectPlace:
    """Make a project of two skills."""
    await asyncio.to_thread(add_assets, services, cases=cases, baselines=baselines)
    made = await create_project(
        services,
        name=name,
        skill_ids=SKILLS,
        baseline_ids=BASELINES[:baselines],
        options=OPTIONS.changed(**options),
    )
    return services.projects.project(made["project"])


async def evaluate(services: Services, project: str, **given: Any) -> tuple[Events, dict[str, Any]]:
    """Run a project; return its events and its result."""
    events: Events = []
    result: dict[str, Any] = {}
    async for part in stream_evaluate(services, cast("EvaluateInput", {"project": project, **given})):
        if "type" in part:
            events.append(part)
        else:
            result = part
    return events, result
