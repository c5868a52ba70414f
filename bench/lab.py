"""Throughput of a project's run compared with its calls alone, and the time to resume a large project.

The calls go through the real adapter to a small program that answers after 50 ms. It is not written in
Python, whose start alone would occupy both cores. The figures include the lab's own files, its cost records
and its progress.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.table import Figure
from graph.evaluate import stream_evaluate
from personalab.lab.assets import NO_TAGS, BaselineMeta, Case, Cases, SkillMeta
from personalab.lab.calling import Call, CallAnswer
from personalab.lab.options import RunOptions
from personalab.lab.records import DIMENSIONS, MAXIMA
from personalab.operations.lab.evaluating import Evaluator
from personalab.operations.lab.projects import create_project, save_changes
from personalab.operations.lab.tasks import arms_of, tasks_of
from personalab.services import Services, open_services
from personalab.settings import read_settings
from personalab.storage.lab.projects import ProjectPlace

CASES, AT_ONCE, SECONDS = 1_000, 16, 0.05
LARGE = 10_000
NOW = "2025-10-16T10:30:00Z"
_SCORES = {name: {"score": MAXIMA[name] // 2, "reason": "half of it"} for name in DIMENSIONS}
_PROGRAM = """#!/usr/bin/perl
if ("@ARGV" =~ /--version/) {{ print "0.0.0-bench (not Claude Code)\\n"; exit 0 }}
select(undef, undef, undef, {seconds});
my $judged = "@ARGV" =~ /--json-schema/ ? ',"structured_output":{scores}' : '';
print '{{"type":"result","subtype":"success","is_error":false,"result":"An answer of some words.","duration_ms":50,',
  '"total_cost_usd":0.001,"usage":{{"input_tokens":20,"output_tokens":6}}', $judged, "}}\\n";
"""


def figures() -> list[Figure]:
    """Measure it all."""
    return [*asyncio.run(_throughput()), *asyncio.run(_resume())]


# --- throughput


async def _throughput() -> list[Figure]:
    async with _project(cases=CASES, concurrency=AT_ONCE, controls=False) as (services, place):
        program = services.settings.data_root / "bench-claude"
        program.write_text(_PROGRAM.format(seconds=SECONDS, scores=json.dumps(_SCORES)), encoding="ascii")
        program.chmod(0o755)
        settings = services.lab_sessions.settings()
        services.lab_sessions.save_settings(settings.changed(cli_path=str(program)))
        options, ideal = place.options(), CASES * SECONDS / AT_ONCE
        tasks = tasks_of(place, arms_of(place, options), place.baselines())
        evaluator = Evaluator(services, place, options, lambda event: None)
        bare = await _timed(lambda: _bare_starts(program))
        executed = await _timed(lambda: evaluator.execute(tasks))
        judged = await _timed(lambda: evaluator.judge(tasks))
        results = await evaluator.results(tasks)
        assert sum(result is not None and result.status == "completed" for result in results) == CASES
    note = f"{CASES:,} calls of {SECONDS * 1000:g} ms, {AT_ONCE} at a time, files and account included"
    return [
        Figure("execute: share of the ideal throughput", ideal / executed, "", at_least=0.85, note=note),
        Figure(
            "execute: share of what bare starts of the program reach",
            bare / executed,
            "",
            note=f"{bare:.2f} s",
        ),
        Figure("judge: share of the ideal throughput", ideal / judged, "", note="the same, with results"),
    ]


async def _bare_starts(program: Path) -> None:
    """Start the program as often, as many at a time, and do nothing else."""
    loop, slots = asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE)

    async def one() -> None:
        async with slots:
            nowhere = subprocess.DEVNULL
            process = subprocess.Popen([program], stdin=nowhere, stdout=nowhere, stderr=nowhere)
            ended, fd = loop.create_future(), os.pidfd_open(process.pid)
            loop.add_reader(fd, lambda: ended.done() or ended.set_result(None))
            await ended
            loop.remove_reader(fd)
            os.close(fd)
            process.wait()

    await asyncio.gather(*(one() for _ in range(CASES)))


async def _timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    await work()
    return time.perf_counter() - start


# --- resume


class _Watched:
    """Answers at once, and notes when it was first asked."""

    name = "watched"

    def __init__(self) -> None:
        self.first: float | None = None

    async def version(self) -> str:
        return "0.0.0-bench"

    async def run(self, call: Call, spool: Path) -> CallAnswer:
        self.first = self.first or time.perf_counter()
        structured = None if call.schema is None else _SCORES
        return CallAnswer("ok", "An answer.", structured, executor="watched", cli_version="0.0.0-bench")

    def forget(self, spool: Path, call_id: str) -> None:
        pass


async def _resume() -> list[Figure]:
    async with _project(cases=LARGE, concurrency=AT_ONCE, controls=False, max_calls=2 * LARGE - 20) as (
        services,
        place,
    ):
        await _run(services, place, _Watched())
        save_changes(services, place.again(), {"max_calls": None})
        fresh = Services(services.settings)
        watched = _Watched()
        start = time.perf_counter()
        await _run(fresh, place, watched)
        assert watched.first is not None
        started = watched.first - start
        again = await _timed(lambda: _run(Services(services.settings), place, _Watched()))
    note = f"{LARGE:,} cases on disk, the last judgements missing; until the first call"
    return [
        Figure("resume of a large project", started, "s", at_most=2.0, note=note),
        Figure("run of a large project that is done", again, "s", note="until its summary is written anew"),
    ]


async def _run(services: Services, place: ProjectPlace, executor: _Watched) -> None:
    async def find(_: str) -> _Watched:
        return executor

    services.__dict__["executor"] = find
    async for part in stream_evaluate(services, {"project": place.name}):
        assert part.get("type") != "error", part


# --- a project


@asynccontextmanager
async def _project(cases: int, **options: Any) -> AsyncGenerator[tuple[Services, ProjectPlace]]:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PERSONALAB_DATA"] = folder
        services = open_services(read_settings())
        await asyncio.to_thread(_assets, services, cases)
        made = await create_project(
            services,
            name="bench",
            skill_ids=[_SKILL],
            baseline_ids=[_BASELINE],
            options=RunOptions(model="bench", backoff_seconds=0, **options),
        )
        yield services, services.projects.project(made["project"])


_SKILL = "aaaaaaaa-0000-4000-8000-000000000001"
_BASELINE = "cccccccc-0000-4000-8000-000000000003"


def _assets(services: Services, cases: int) -> None:
    common = {"name": "bench", "purpose": "bench", "provider": "bench", "version": "v1", "status": "active"}
    times = {"created_at": NOW, "updated_at": NOW}
    skill = SkillMeta.read({"id": _SKILL, **common, **times}, "bench")
    services.assets.add_skill(skill, "Answer in a few words.\n" * 20, tags=NO_TAGS)
    baseline = BaselineMeta.read({"id": _BASELINE, "case_count": cases, **common, **times}, "bench")
    rows = tuple(
        Case(
            id=f"case_{number:03d}",
            name=str(number),
            category="standard",
            input=f"What about the number {number}? " * 10,
            expected_output="A few words about it. " * 5,
            created_at=NOW,
            updated_at=NOW,
        )
        for number in range(1, cases + 1)
    )
    found = Cases(baseline_id=_BASELINE, version="v1", cases=rows)
    services.assets.add_baseline(baseline, found, tags=NO_TAGS)
