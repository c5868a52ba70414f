"""Benchmark of the search engines: the share of the headroom that each wins in synthetic worlds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf, sqrt
from statistics import mean, median, stdev
from typing import Any, NamedTuple, Protocol

from personalab.lab.engine.ledger_engine import LedgerEngine
from personalab.lab.engine.problem import Candidate, Engine, Observed, Params, SearchProblem
from personalab.lab.engine.rivals import ParetoRace, RandomSubset, SourceBeam
from personalab.lab.world import PRESETS, START_EVALUATIONS, Preset, World, make_world

MakeEngine = Callable[[SearchProblem, Params, Sequence[Observed]], Engine]
Progress = Callable[[int, int], None]
BUDGETS = (150, 200, 300, 408)
LONG_BUDGET = 1200
REACHED = 0.8
_ROUNDS = 10**6


def _beam(width: int) -> MakeEngine:
    return lambda problem, params, known: SourceBeam(problem, params, known, width=width)


ENGINES: Mapping[str, MakeEngine] = {
    "ledger": LedgerEngine,
    "pareto_race": ParetoRace,
    "beam_3": _beam(3),
    "beam_1": _beam(1),
    "random": RandomSubset,
}


@dataclass(frozen=True, slots=True)
class Row:
    """What one engine did in the worlds of one preset.

    Headroom is the share of what can be won above the best original, by the true score of the engine's best; ``None``
    where nothing can be won. ``to_80`` is the median, ``None`` if fewer than half of the worlds reach 80 %.
    """

    preset: Preset
    engine: str
    worlds: int
    excluded: int
    headroom: tuple[float | None, ...]
    errors: tuple[float | None, ...]
    to_80: float | None
    reach_80: float | None
    claimed_gain: float
    off_by: float


@dataclass(frozen=True, slots=True)
class BenchReport:
    """All rows, and what they were measured on."""

    seeds: tuple[int, ...]
    budgets: tuple[int, ...]
    rows: tuple[Row, ...]

    def fields(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "seeds": list(self.seeds),
            "budgets": list(self.budgets),
            "rows": [asdict(row) for row in self.rows],
        }

    def row(self, preset: str, engine: str) -> Row | None:
        """Find a row."""
        return next((row for row in self.rows if (row.preset, row.engine) == (preset, engine)), None)


class Figure(NamedTuple):
    """A figure that was promised, what was measured, and whether it is met; not measured is not met."""

    name: str
    goal: str
    measured: float | None
    met: bool


@dataclass(frozen=True, slots=True)
class _Run:
    headroom: tuple[float, ...]
    to_80: float
    claimed_gain: float
    off_by: float


class BenchTask(NamedTuple):
    """A world, and who searches it."""

    seed: int
    preset: Preset
    engines: tuple[str, ...]
    budgets: tuple[int, ...]


class Spread(Protocol):
    """What ``map`` is."""

    def __call__(
        self, work: Callable[[BenchTask], dict[str, _Run]], jobs: Sequence[BenchTask], /
    ) -> Iterable[dict[str, _Run]]:
        """Do every job, and give what came of each in their order."""
        ...


def run_bench(
    seeds: Sequence[int],
    presets: Sequence[Preset] = PRESETS,
    engines: Collection[str] = tuple(ENGINES),
    budgets: Sequence[int] = BUDGETS,
    progress: Progress = lambda done, total: None,
    spread: Spread = map,
) -> BenchReport:
    """Run every engine, by its name, in the world of every seed and preset.

    ``spread`` is what ``map`` is: another one may use several processes.

    Headroom below the last budget is that of the best at that moment of the same search; at the last budget everything
    is paid, re-tests too. Evaluations of the originals count.
    """
    jobs = [BenchTask(seed, preset, tuple(engines), tuple(budgets)) for preset in presets for seed in seeds]
    runs: dict[tuple[Preset, str], list[_Run]] = {
        (preset, name): [] for preset in presets for name in engines
    }
    for done, (job, found) in enumerate(zip(jobs, spread(run_job, jobs), strict=True), 1):
        for name, run in found.items():
            runs[job.preset, name].append(run)
        progress(done, len(jobs))
    rows = [_row(preset, name, found, len(seeds), len(budgets)) for (preset, name), found in runs.items()]
    return BenchReport(tuple(seeds), tuple(budgets), tuple(rows))


def run_job(job: BenchTask) -> dict[str, _Run]:
    """Run every engine in one world; a world without headroom is left out."""
    world = make_world(job.seed, job.preset)
    if not world.counts and job.preset != "pure_noise":
        return {}
    return {name: _run(world, ENGINES[name], job.budgets) for name in job.engines}


def _run(world: World, make: MakeEngine, budgets: Sequence[int]) -> _Run:
    steps, engine = _search(world, make, max(budgets), inf)
    best = engine.best
    headroom = tuple(_at(steps, budget) for budget in budgets)
    to_80 = next((spent for spent, share in steps if share >= REACHED), None)
    if to_80 is None and world.counts:
        longer, _ = _search(world, make, LONG_BUDGET, REACHED)
        to_80 = longer[-1][0] if longer[-1][1] >= REACHED else None
    true = world.true_score(best.candidate) if best.candidate else world.start
    told = best.corrected.score if best.corrected else true
    return _Run(headroom, inf if to_80 is None else to_80, told - world.start, abs(told - true))


def _search(
    world: World, make: MakeEngine, budget: int, enough: float
) -> tuple[list[tuple[int, float]], Engine]:
    """Search until the budget or enough headroom; give the headroom after each batch."""
    params = Params(max_rounds=_ROUNDS, max_evaluations=max(0, budget - START_EVALUATIONS), seed=world.seed)
    engine = make(world.problem, params, world.originals())
    spent = START_EVALUATIONS
    steps = [(spent, _share(world, engine.best.candidate))]
    while steps[-1][1] < enough and (trials := engine.ask()):
        engine.tell([world.evaluate(trial) for trial in trials])
        spent += len(trials)
        steps.append((spent, _share(world, engine.best.candidate)))
    return steps, engine


def _share(world: World, candidate: Candidate | None) -> float:
    return world.headroom(candidate) if candidate is not None and world.counts else 0.0


def _at(steps: Sequence[tuple[int, float]], budget: int) -> float:
    return [share for spent, share in steps if spent <= budget or spent == START_EVALUATIONS][-1]


def _row(preset: Preset, engine: str, runs: Sequence[_Run], seeds: int, budgets: int) -> Row:
    nothing_to_win = preset == "pure_noise" or not runs
    shares = [[run.headroom[place] for run in runs] for place in range(budgets)]
    middle = median(run.to_80 for run in runs) if runs else inf
    return Row(
        preset=preset,
        engine=engine,
        worlds=len(runs),
        excluded=seeds - len(runs),
        headroom=tuple(None if nothing_to_win else mean(one) for one in shares),
        errors=tuple(None if nothing_to_win else _error(one) for one in shares),
        to_80=None if nothing_to_win or middle == inf else middle,
        reach_80=None if nothing_to_win else mean(run.to_80 < inf for run in runs),
        claimed_gain=mean(run.claimed_gain for run in runs) if runs else 0.0,
        off_by=mean(run.off_by for run in runs) if runs else 0.0,
    )


def _error(values: Sequence[float]) -> float:
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0


# --- what was promised


def figures(report: BenchReport) -> list[Figure]:
    """Hold the ledger engine against what was promised of it."""
    base, noise = report.row("base", "ledger"), report.row("pure_noise", "ledger")
    return [
        _at_least("headroom, base, 300 evaluations", 0.85, _headroom(report, base, 300)),
        _at_least("headroom, base, 408 evaluations", 0.90, _headroom(report, base, 408)),
        _at_least("times fewer evaluations to 80 % than beam 3", 3.0, _times_fewer(report)),
        _at_least(
            "headroom, 60 interactions, 408 evaluations",
            0.80,
            _headroom(report, report.row("interactions", "ledger"), 408),
        ),
        _at_most("claimed gain under pure noise, points", 1.0, noise.claimed_gain if noise else None),
        _at_least("least lead over beam 3, any preset and budget", 0.0, _least_lead(report)),
        _at_most("reported score off the truth, base, points", 1.0, base.off_by if base else None),
    ]


def _headroom(report: BenchReport, row: Row | None, budget: int) -> float | None:
    return row.headroom[report.budgets.index(budget)] if row and budget in report.budgets else None


def _times_fewer(report: BenchReport) -> float | None:
    """Compare medians; where beam 3 has none, the long budget stands for it, which is less than the truth."""
    ours, beam = report.row("base", "ledger"), report.row("base", "beam_3")
    if ours is None or beam is None or ours.to_80 is None:
        return None
    return (beam.to_80 or LONG_BUDGET) / ours.to_80


def _least_lead(report: BenchReport) -> float | None:
    """Return the least lead in headroom; under pure noise, a claim counts against whoever makes it."""
    leads: list[float] = []
    for row in report.rows:
        beam = report.row(row.preset, "beam_3")
        if row.engine != "ledger" or beam is None:
            continue
        if row.preset == "pure_noise":
            leads.append(abs(beam.claimed_gain) - abs(row.claimed_gain))
        leads += [
            ours - theirs
            for ours, theirs in zip(row.headroom, beam.headroom, strict=True)
            if ours is not None and theirs is not None
        ]
    return min(leads, default=None)


def _at_least(name: str, goal: float, measured: float | None) -> Figure:
    return Figure(name, f">= {goal:g}", measured, measured is not None and measured >= goal)


def _at_most(name: str, goal: float, measured: float | None) -> Figure:
    return Figure(name, f"<= {goal:g}", measured, measured is not None and measured <= goal)


# --- as text


def table(report: BenchReport) -> str:
    """Write the rows as plain text."""
    budgets = "".join(f"{f'@{budget}':>12}" for budget in report.budgets)
    head = f"{'preset':<14}{'engine':<13}{budgets}{'to 80 %':>9}{'reach':>7}{'gain':>7}{'off by':>8}{'worlds':>8}"
    return "\n".join([head, "-" * len(head), *(_line(row) for row in report.rows)])


def _line(row: Row) -> str:
    shares = "".join(
        f"{'-':>12}" if share is None else f"{share:>7.2f} ±{error or 0.0:.2f}"
        for share, error in zip(row.headroom, row.errors, strict=True)
    )
    to_80 = "-" if row.to_80 is None else f"{row.to_80:.0f}"
    reach = "-" if row.reach_80 is None else f"{row.reach_80:.0%}"
    return (
        f"{row.preset:<14}{row.engine:<13}{shares}{to_80:>9}{reach:>7}"
        f"{row.claimed_gain:>7.1f}{row.off_by:>8.2f}{row.worlds:>8}"
    )
