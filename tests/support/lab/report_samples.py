"""Sample data for tests of reports: a project with all its parts, a hostile one, and a large one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from personalab.lab.assets import Case, Cases
from personalab.lab.options import NO_SKILL, NO_SKILL_ID
from personalab.lab.ranking import CaseResult, RankedArm, RankedBaseline
from personalab.lab.records import CATEGORIES, DIMENSIONS, MAXIMA, Dimension
from personalab.lab.reports.building import case_rows, rank, result_notices
from personalab.lab.reports.data import (
    Analysis,
    CandidateDot,
    Cell,
    ContentPair,
    Costs,
    Excerpt,
    FoundIssue,
    FoundSegment,
    Iteration,
    Judge,
    ReportData,
    ReportSkill,
    RoundMark,
)
from personalab.lab.statistics import Interval

NOW = "2026-03-01T12:00:00Z"
HOSTILE = (
    '"><script>window.hit=1</script><img src=x onerror="window.hit=2"></style></pre></title>'
    "<svg onload=window.hit=3>]]>&amp;\u202egnitirw\u202c \x00\x1b[31m\ufffe {name} שלום مرحبا"
)
BEFORE = """# Role
You are a careful Python developer.

## Rules
- Write short functions.
- Handle the usual errors.

## Output
Give the code first, then an explanation.
"""
AFTER = """# Role
You are a careful Python developer.

## Rules
- Write short functions with type hints.
- Check every argument and name what is wrong with it.
- Handle the usual errors.

## Output
Give the code only.
"""


def cases(
    count: int, baseline_id: str = "b2c3d4e5-f6a7-4901-8cde-f12345678901", text: str = ""
) -> RankedBaseline:
    """A baseline of so many cases."""
    names = ("Fibonacci with edges", "排序：空值与极端整数", "Read a JSON file that may be broken")
    found = [
        Case(
            id=f"case_{n + 1:03}",
            name=text or names[n % 3],
            category=CATEGORIES[n % 3],
            input=text or "Write a function that gives the n-th Fibonacci number; n may be 0 or negative.",
            expected_output=text
            or "Right recurrence, a clear error for n < 0, no recursion without a limit.",
            created_at=NOW,
            updated_at=NOW,
        )
        for n in range(count)
    ]
    told = Cases(baseline_id=baseline_id, version="v1", cases=tuple(found))
    return RankedBaseline(baseline_id, text or "Python 编程基线", "v1", told)


def arms(names: Sequence[str], *, no_skill: bool = False) -> list[RankedArm]:
    """Skills of these names."""
    found = [
        RankedArm(f"{n:08x}-0000-4000-8000-000000000001", name, "v1", f"content {n}")
        for n, name in enumerate(names, 1)
    ]
    return (
        [*found, RankedArm(NO_SKILL_ID, "No skill", "v1", NO_SKILL, is_no_skill=True)] if no_skill else found
    )


def cell(dice: random.Random, level: float, text: str = "") -> Cell:
    """A completed result near a level."""
    scores: dict[Dimension, float] = {
        name: round(min(max(dice.gauss(level, 0.07), 0), 1) * MAXIMA[name], 1) for name in DIMENSIONS
    }
    answer = text or "def fibonacci(n: int) -> int:\n    if n < 0:\n        raise ValueError(n)\n    ..."
    reason = text or "功能正确性(28/30)：递推正确；健壮性(16/20)：缺少类型检查。"
    total = sum(scores.values())
    return Cell("completed", total, scores, Excerpt(answer), Excerpt(reason), "", dice.randrange(900, 9_000))


def matrix(
    found: Sequence[RankedArm], baseline: RankedBaseline, seed: int = 7, text: str = ""
) -> list[list[Cell | None]]:
    """Results of skills, each a little worse than the one before."""
    dice = random.Random(seed)
    lines = list[list[Cell | None]]()
    for at, _ in enumerate(found):
        level = max(0.92 - 0.05 * at, 0.2)
        lines.append([cell(dice, level, text) for _ in baseline.cases.cases])
    return lines


def assembled(
    name: str, found: Sequence[RankedArm], baseline: RankedBaseline, lines: Sequence[Sequence[Cell | None]]
) -> ReportData:
    """A report of a matrix."""
    results = [
        [
            CaseResult(baseline.baseline_id, case.id, each.status, each.scores)
            for case, each in zip(baseline.cases.cases, line, strict=True)
            if each is not None and each.status != "broken"
        ]
        for line in lines
    ]
    ranking = rank(found, results, [baseline])
    cells = tuple(tuple(lines[at]) for at in ranking.order)
    return ReportData(
        name=name,
        rows=ranking.rows,
        cases=case_rows([baseline]),
        cells=cells,
        detectable=ranking.detectable,
        notices=tuple(result_notices(ranking.rows, cells, [])),
        made_at=NOW,
    )


def whole(text: str = "") -> ReportData:
    """A project with all its parts; ``text`` stands in for everything a stranger could have written."""
    names = (
        "Python 代码生成助手",
        "Careful coder",
        "通用代码助手 B",
        "Terse",
        "Long-winded but kind helper of all",
    )
    found = arms([text or name for name in names], no_skill=True)
    baseline = cases(12, text=text)
    lines = matrix(found, baseline, text=text)
    lines[1][3] = Cell("failed", error=text or "timeout after 60 s")
    lines[3][5] = Cell("skipped", error=text or "skipped by a person")
    lines[4][7] = None
    lines[2][9] = Cell("broken", error=text or "case_010.json cannot be read")
    data = assembled(text or "Python代码生成Skill对比实验", found, baseline, lines)
    told = text or "对比五个不同来源的 Python 代码生成 Skill。\nWhich one should be the default?"
    rehearsal = result_notices((), (), ["0.0.0-fake"])
    return replace(
        data,
        project_id=text or "c3d4e5f6-a7b8-4012-8def-234567890123",
        description=told,
        status="completed",
        created_at=NOW,
        scored_at=NOW,
        model=text or "claude-opus-4-6",
        executors=(text or "0.0.0-fake",),
        judges=(
            Judge(text or "openai:judge-large", 41.5, True),
            Judge(text or "claude-opus-4-6", 38.0, True),
        ),
        costs=Costs(1_204, 3, 1_204_332, 201_110, 4.318, 1_100),
        notices=(*rehearsal, *data.notices),
        iteration=iteration(text),
        pair=ContentPair(
            text or "Careful coder", text or "重组-v4", text or BEFORE, f"{text}\n{text}" if text else AFTER
        ),
        analysis=Analysis(
            (
                FoundSegment(
                    "seg_001",
                    text or "Careful coder",
                    "role",
                    "readability",
                    text or BEFORE[:42],
                    text or "角色设定明确",
                ),
            ),
            (FoundIssue(text or "Terse", "robustness", text or "Says nothing about errors."),),
        ),
    )


def iteration(text: str = "") -> Iteration:
    """An iteration of six rounds."""
    dice, best, rounds = random.Random(3), 84.0, list[RoundMark]()
    for number in range(1, 7):
        scores = [round(best + dice.gauss(0.6, 2), 1) for _ in range(3)]
        dots = [CandidateDot(text or "GREEDY", score, won=score == max(scores)) for score in scores]
        dots.append(CandidateDot(text or "RANDOM_SUBSET", None, error=text or "screened_out 4/12"))
        best = max(best, *scores)
        rounds.append(
            RoundMark(
                number, text or "GREEDY", text or f"重组-v{number}", max(scores), number % 3, tuple(dots)
            )
        )
    return Iteration(
        rounds=tuple(rounds),
        stop_cause=text or "plateau",
        start_score=84.0,
        best_round=6,
        best_name=text or "重组-v6",
        best_score=best,
        corrected=best - 1.2,
        corrected_interval=Interval(best - 2.6, best + 0.2),
        evaluations=204,
    )


def large(skills: int, count: int, text: str = "") -> ReportData:
    """A project of so many skills and cases."""
    dice = random.Random(1)
    few = [cell(dice, 0.6, text) for _ in range(11)]
    cells = tuple(tuple(few[(at + n) % len(few)] for n in range(count)) for at in range(skills))
    rows = tuple(ReportSkill(f"{at:08x}", f"Skill {at}", "v1", at + 1, mean=60.0) for at in range(skills))
    return ReportData("Large", rows=rows, cases=case_rows([cases(count)]), cells=cells)
