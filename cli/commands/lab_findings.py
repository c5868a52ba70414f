"""Commands for analysis, recomposition, iteration, the leaderboard and reports of a project."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from cli.commands.lab_options import LabModel, MaxCalls, MaxUsd, Project, Purpose, Yes, limits
from cli.commands.options import AsJson
from cli.running import wait_for

Format = Literal["html", "junit", "csv"]
Rules = Annotated[
    str,
    typer.Option(
        "--rules", metavar="TEXT", help="What has to stay, e.g. 'keep seg_001'; - reads stdin / 保留规则"
    ),
]


Keep = Annotated[
    str | None, typer.Option("--keep", metavar="IDS", help="Keep word for word: seg_001,seg_002 / 必须保留")
]


def _ids(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def analyse(word: Project, model: LabModel = None, json: AsJson = False) -> None:
    """Find out what makes each skill good or bad / 分析差异"""
    from cli.lab.findings import analyse as find_out

    wait_for(find_out(word, model, as_json=json))


def recompose(
    word: Project,
    segments: Annotated[
        str | None,
        typer.Option("--segments", metavar="IDS", help="E.g. seg_001,seg_002; else all / 所用片段"),
    ] = None,
    keep: Keep = None,
    drop: Annotated[
        str | None, typer.Option("--drop", metavar="IDS", help="Leave out: seg_003 / 去掉的片段")
    ] = None,
    rules: Rules = "",
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Of the new skill / 新名称")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Let a model join the segments / 由模型连成文字")
    ] = False,
    model: LabModel = None,
    json: AsJson = False,
) -> None:
    """Make a new skill of the best segments; kept ones stay word for word / 重组出新技能"""
    from cli.lab.findings import recompose as make

    wishes = {
        "segments": None if segments is None else _ids(segments),
        "keep": _ids(keep),
        "drop": _ids(drop),
        "name": name or "",
        "write": write,
    }
    wait_for(make(word, wishes, rules, model, as_json=json))


def iterate(
    word: Project,
    rounds: Annotated[
        int | None, typer.Option("--rounds", metavar="N", min=1, max=1000, help="At most / 最多轮数")
    ] = None,
    beam: Annotated[
        int | None, typer.Option("--beam", metavar="N", min=1, max=16, help="Candidates a round / 每轮候选数")
    ] = None,
    plateau: Annotated[
        float | None,
        typer.Option("--plateau", metavar="POINTS", min=0, help="A smaller gain is none / 平台期的增益阈值"),
    ] = None,
    escape: Annotated[
        int | None,
        typer.Option(
            "--escape", metavar="N", min=1, max=100, help="Rounds before trying harder / 逃逸前的轮数"
        ),
    ] = None,
    stop_at: Annotated[
        float | None,
        typer.Option("--stop-at", metavar="SCORE", min=0, max=100, help="Good enough / 达到即停"),
    ] = None,
    max_evaluations: Annotated[
        int | None,
        typer.Option(
            "--max-evaluations",
            metavar="N",
            min=1,
            help="Evaluations at most, re-tests too / 最多评测次数（含复测）",
        ),
    ] = None,
    max_calls: MaxCalls = None,
    max_usd: MaxUsd = None,
    keep: Keep = None,
    rules: Rules = "",
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="ID", help="Of the project, else its first / 所用基线")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", help="Of the search / 随机种子")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew / 重新开始")] = False,
    yes: Yes = False,
    json: AsJson = False,
) -> int:
    """Search for a better skill, or go on with the search / 迭代寻找更好的技能

    What it takes at the most is printed first. If a model may cost money you are asked; where nobody can be asked,
    give --yes, --max-evaluations or a budget for the project (--max-calls, --max-usd; none takes it away).
    """
    from cli.lab.iterations import iterate as search

    wishes = {
        "max_rounds": rounds,
        "beam_width": beam,
        "plateau_threshold": plateau,
        "plateau_rounds_before_escape": escape,
        "stop_threshold": stop_at,
        "max_evaluations": max_evaluations,
        "keep": _ids(keep) or None,
        "retention_rules": rules or None,
        "baseline_id": baseline,
        "seed": seed,
        "fresh": fresh or None,
    }
    work = search(word, wishes, limits(max_calls, max_usd), yes=yes, as_json=json)
    return wait_for(work)


def iteration(word: Project, json: AsJson = False) -> None:
    """Show how far a search is, or its report / 查看迭代进展或报告"""
    from cli.lab.iterations import show_iteration

    wait_for(show_iteration(word, as_json=json))


def stop(word: Project, json: AsJson = False) -> None:
    """Ask a search to end; what it found so far is reported / 停止迭代"""
    from cli.lab.iterations import stop as end

    wait_for(end(word, as_json=json))


def board(
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="BASELINE", help="Only on this one / 只看此基线")
    ] = None,
    purpose: Purpose = None,
    flat: Annotated[bool, typer.Option("--flat", help="One list, not by baseline / 不按基线分组")] = False,
    json: AsJson = False,
) -> None:
    """Show who did best, and what is out of date / 排行榜"""
    from cli.lab.findings import show_board

    wait_for(show_board(baseline, purpose, flat=flat, as_json=json))


def report(
    word: Project,
    format: Annotated[Format, typer.Option("--format", help="What kind of report / 格式")] = "html",
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="FILE", help="A file, a folder, or - / 输出位置")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file / 覆盖已有的文件")] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Exit 100 if a case scores less than the pass score / 低于及格分时退出码为 100"
        ),
    ] = False,
    json: AsJson = False,
) -> int:
    """Write a project's report: a page, JUnit XML for CI, or a table / 生成报告

    With --check the exit code is 100 if a case scores less than the project's pass score, 1 if one could not be run,
    and 0 otherwise; the arm without a skill does not count.

    加 --check：有用例低于及格分则退出码 100，有用例无法运行则 1。
    """
    from cli.lab.findings import write_report

    return wait_for(write_report(word, format, out, overwrite=overwrite, check=check, as_json=json))
