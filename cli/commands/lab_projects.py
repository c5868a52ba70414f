"""Commands that create, run and show projects."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands.lab_options import LabModel, MaxCalls, MaxUsd, Project, Yes, limits
from cli.commands.options import AsJson
from cli.running import wait_for
from personalab.texts import PromptLanguage

project = typer.Typer(help="One project / 单个项目", no_args_is_help=True, rich_markup_mode="rich")
Concurrency = Annotated[
    int | None, typer.Option("--concurrency", metavar="N", min=1, max=64, help="So many at a time / 并发数")
]
RerunFailed = Annotated[bool, typer.Option("--rerun-failed", help="What failed, too / 重做失败的用例")]
FailBelow = Annotated[
    float | None,
    typer.Option(
        "--fail-below",
        metavar="SCORE",
        min=0,
        max=100,
        help="Exit 100 if a case scores less / 低于此分时退出码为 100",
    ),
]


def projects(json: AsJson = False) -> None:
    """List the projects / 列出项目"""
    from cli.lab.projects import show_projects

    wait_for(show_projects(as_json=json))


@project.command("new")
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is called / 名称")],
    skills: Annotated[
        list[str], typer.Option("--skill", metavar="SKILL", help="Once for each / 技能，可多次")
    ],
    baselines: Annotated[
        list[str], typer.Option("--baseline", metavar="BASELINE", help="Once for each / 基线，可多次")
    ],
    model: LabModel = None,
    judges: Annotated[
        list[str] | None,
        typer.Option("--judge", metavar="MODEL", help="Who judges, else the model / 评分模型，可多次"),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option("--repeats", metavar="N", min=1, max=100, help="Runs of each case / 每个用例的次数"),
    ] = None,
    judge_repeats: Annotated[
        int | None,
        typer.Option("--judge-repeats", metavar="N", min=1, max=100, help="Judgements of each / 评分次数"),
    ] = None,
    concurrency: Concurrency = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", metavar="SECONDS", min=0.1, max=86_400, help="Of one call / 单次调用的时限"
        ),
    ] = None,
    retries: Annotated[
        int | None,
        typer.Option("--retries", metavar="N", min=0, max=20, help="Of a failed call / 失败后的重试次数"),
    ] = None,
    flags: Annotated[
        list[str] | None,
        typer.Option(
            "--flag", metavar="FLAG", help="For claude, as --flag=--effort=high / 传给 claude 的参数"
        ),
    ] = None,
    max_calls: MaxCalls = None,
    max_usd: MaxUsd = None,
    no_skill: Annotated[
        bool, typer.Option("--no-skill", help="Measure without any skill, too / 加上无技能的对照")
    ] = False,
    controls: Annotated[
        bool, typer.Option("--controls/--no-controls", help="Test the judges first / 先检验评分模型")
    ] = True,
    language: Annotated[
        PromptLanguage | None, typer.Option("--language", help="Of the judges / 评分所用的语言")
    ] = None,
    pass_score: Annotated[
        float | None,
        typer.Option("--pass-score", metavar="SCORE", min=0, max=100, help="Passes from here on / 及格分"),
    ] = None,
    description: Annotated[str, typer.Option("--description", metavar="TEXT", help="What it is / 说明")] = "",
    json: AsJson = False,
) -> None:
    """Make a project with copies of skills and baselines / 新建项目"""
    from cli.lab.projects import new_project

    wishes = {
        "model": model,
        "judges": judges or None,
        "repeats": repeats,
        "judge_repeats": judge_repeats,
        "concurrency": concurrency,
        "timeout_seconds": timeout,
        "retry_count": retries,
        "extra_flags": flags or None,
        **limits(max_calls, max_usd),
        "no_skill_arm": no_skill,
        "controls": controls,
        "language": language,
        "pass_score": pass_score,
    }
    wait_for(new_project(name, skills, baselines, wishes, description, as_json=json))


@project.command("show")
def show(word: Project, json: AsJson = False) -> None:
    """Show how a project stands, and its ranking / 查看项目和排名

    The score is an average over the cases, with the interval it lies in at 95 %. Ranks with = are ties: their
    intervals overlap.
    """
    from cli.lab.projects import show_project

    wait_for(show_project(word, as_json=json))


def plan(word: Project, rerun_failed: RerunFailed = False, json: AsJson = False) -> None:
    """Tell how many calls, tokens and how much money a run takes / 运行前的估算"""
    from cli.lab.projects import show_plan

    wait_for(show_plan(word, rerun_failed=rerun_failed, as_json=json))


def run(
    word: Project,
    concurrency: Concurrency = None,
    max_calls: MaxCalls = None,
    max_usd: MaxUsd = None,
    rerun_failed: RerunFailed = False,
    yes: Yes = False,
    fail_below: FailBelow = None,
    json: AsJson = False,
) -> int:
    """Run what is left of a project; what is paid is never paid again / 运行项目

    The plan is printed first. If a model may cost money you are asked; where nobody can be asked, give --yes or a
    budget (--max-calls, --max-usd; none takes it away).

    Exit codes: 0 everything ran that you did not skip yourself, 100 it did and a case scored less than
    --fail-below, 1 something failed, was left out by the budget or was paused, 2 bad input, 130 Ctrl-C.

    退出码：0 除自行跳过的外全部完成；100 也全部完成，但有用例低于 --fail-below；1 有失败、被预算略去或被暂停；
    2 输入有误；130 按了 Ctrl-C。
    """
    from cli.lab.runs import run_project

    changes = {} if concurrency is None else {"concurrency": concurrency}
    changes |= limits(max_calls, max_usd)
    work = run_project(word, changes, rerun_failed=rerun_failed, yes=yes, fail_below=fail_below, as_json=json)
    return wait_for(work)


def resume(
    word: Project,
    concurrency: Concurrency = None,
    max_calls: MaxCalls = None,
    max_usd: MaxUsd = None,
    rerun_failed: RerunFailed = False,
    yes: Yes = False,
    fail_below: FailBelow = None,
    json: AsJson = False,
) -> int:
    """Go on with a project, as `run` does / 继续运行项目"""
    return run(word, concurrency, max_calls, max_usd, rerun_failed, yes, fail_below, json)


def pause(word: Project, json: AsJson = False) -> None:
    """Let the calls under way end, and begin no more / 暂停项目"""
    from cli.lab.runs import pause_project

    wait_for(pause_project(word, as_json=json))


def skip(
    word: Project,
    skill: Annotated[str, typer.Argument(metavar="SKILL", help="A skill of the project / 项目里的技能")],
    case: Annotated[str, typer.Argument(metavar="CASE", help="E.g. case_001 / 用例编号")],
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", metavar="ID", help="Whose case, if there are several / 所属基线"),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take it in again / 取消跳过")] = False,
    json: AsJson = False,
) -> None:
    """Leave a skill's case out of the next runs / 跳过某个用例"""
    from cli.lab.projects import skip_task

    wait_for(skip_task(word, skill, case, baseline, undo=undo, as_json=json))
