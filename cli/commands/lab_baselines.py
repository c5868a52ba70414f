"""Commands for baselines and their cases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.commands.lab_options import (
    Author,
    Baseline,
    Category,
    Description,
    Expected,
    LabModel,
    Name,
    NeededPurpose,
    Provider,
    Purpose,
    Source,
    given,
)
from cli.commands.options import AsJson
from cli.running import wait_for

baseline = typer.Typer(help="One baseline / 单个测试基线", no_args_is_help=True, rich_markup_mode="rich")
case = typer.Typer(help="The cases of a baseline / 基线的用例", no_args_is_help=True, rich_markup_mode="rich")
CaseId = Annotated[str, typer.Argument(metavar="CASE", help="E.g. case_001 / 用例编号")]
Drafts = Annotated[list[str] | None, typer.Argument(metavar="[DRAFT...]", help="Their ids / 草稿编号")]
AllDrafts = Annotated[bool, typer.Option("--all", help="All that wait / 所有待审核的")]
CaseName = Annotated[str, typer.Option("--name", metavar="NAME", help="What it is called / 用例名称")]
Input = Annotated[str, typer.Option("--input", metavar="TEXT", help="What is asked; - reads stdin / 输入")]
ExpectedOutput = Annotated[
    str, typer.Option("--expected", metavar="TEXT", help="What a good answer has; - reads stdin / 期望的输出")
]
CategoryOption = Annotated[Category | None, typer.Option("--category", help="Else standard / 类别")]


@baseline.command("show")
def show(
    word: Baseline,
    version: Annotated[
        str | None, typer.Option("--version", metavar="vN", help="Not the newest / 指定版本")
    ] = None,
    json: AsJson = False,
) -> None:
    """Show a baseline and its cases / 查看基线和用例"""
    from cli.lab.baselines import show_baseline

    wait_for(show_baseline(word, version, as_json=json))


@baseline.command("new")
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is called / 名称")],
    purpose: NeededPurpose,
    cases: Annotated[
        Path | None,
        typer.Option(
            "--cases", metavar="FILE", help="A JSON file of cases, as cases.json / 用例文件（JSON）"
        ),
    ] = None,
    provider: Provider = None,
    description: Description = None,
    author: Author = None,
    source: Source = None,
    json: AsJson = False,
) -> None:
    """Keep a new baseline / 新建基线"""
    from cli.lab.baselines import new_baseline

    fields = given(purpose=purpose, provider=provider, description=description, author=author, source=source)
    wait_for(new_baseline(name, cases, dict(fields), as_json=json))


@baseline.command("edit")
def edit(
    word: Baseline,
    name: Name = None,
    purpose: Purpose = None,
    provider: Provider = None,
    description: Description = None,
    author: Author = None,
    source: Source = None,
    expect: Expected = None,
    json: AsJson = False,
) -> None:
    """Make the next version of a baseline / 修改基线（生成新版本）"""
    from cli.lab.baselines import edit_baseline

    fields = given(
        name=name, purpose=purpose, provider=provider, description=description, author=author, source=source
    )
    wait_for(edit_baseline(word, dict(fields), expect, as_json=json))


@baseline.command("archive")
def archive(word: Baseline, json: AsJson = False) -> None:
    """Put a baseline away / 归档基线"""
    from cli.lab.baselines import archive_baseline

    wait_for(archive_baseline(word, archived=True, as_json=json))


@baseline.command("unarchive")
def unarchive(word: Baseline, json: AsJson = False) -> None:
    """Bring a baseline back / 取消归档"""
    from cli.lab.baselines import archive_baseline

    wait_for(archive_baseline(word, archived=False, as_json=json))


@baseline.command("generate")
def generate(
    word: Baseline,
    description: Annotated[
        str, typer.Argument(metavar="DESCRIPTION", help="What is to be tested; - reads stdin / 要测试什么")
    ],
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=50, help="How many / 数量")] = 5,
    model: LabModel = None,
    json: AsJson = False,
) -> None:
    """Let a model draft cases; they wait for review / 由模型起草用例"""
    from cli.lab.baselines import generate as draft

    wait_for(draft(word, description, count, model, as_json=json))


@baseline.command("drafts")
def drafts(word: Baseline, json: AsJson = False) -> None:
    """Show the drafts that wait for review / 查看待审核的草稿"""
    from cli.lab.baselines import show_drafts

    wait_for(show_drafts(word, as_json=json))


@baseline.command("accept")
def accept(word: Baseline, ids: Drafts = None, everything: AllDrafts = False, json: AsJson = False) -> None:
    """Make cases of drafts / 采用草稿"""
    from cli.lab.baselines import accept_drafts

    wait_for(accept_drafts(word, ids or [], everything=everything, as_json=json))


@baseline.command("reject")
def reject(word: Baseline, ids: Drafts = None, everything: AllDrafts = False, json: AsJson = False) -> None:
    """Refuse drafts / 放弃草稿"""
    from cli.lab.baselines import reject_drafts

    wait_for(reject_drafts(word, ids or [], everything=everything, as_json=json))


# --- cases


@case.command("add")
def add(
    word: Baseline,
    name: CaseName,
    input: Input,
    expected: ExpectedOutput,
    category: CategoryOption = None,
    description: Description = None,
    json: AsJson = False,
) -> None:
    """Add a case / 添加用例"""
    from cli.lab.baselines import add_case

    fields = given(
        name=name, input=input, expected_output=expected, category=category, description=description
    )
    wait_for(add_case(word, dict(fields), as_json=json))


@case.command("edit")
def edit_one(
    word: Baseline,
    case_id: CaseId,
    name: Name = None,
    input: Annotated[
        str | None, typer.Option("--input", metavar="TEXT", help="What is asked; - reads stdin / 输入")
    ] = None,
    expected: Annotated[
        str | None,
        typer.Option("--expected", metavar="TEXT", help="What a good answer has; - reads stdin / 期望的输出"),
    ] = None,
    category: CategoryOption = None,
    description: Description = None,
    json: AsJson = False,
) -> None:
    """Change a case / 修改用例"""
    from cli.lab.baselines import edit_case

    fields = given(
        name=name, input=input, expected_output=expected, category=category, description=description
    )
    wait_for(edit_case(word, case_id, dict(fields), as_json=json))


@case.command("remove")
def remove(word: Baseline, case_id: CaseId, json: AsJson = False) -> None:
    """Remove a case; its id is never used again / 移除用例"""
    from cli.lab.baselines import remove_case

    wait_for(remove_case(word, case_id, as_json=json))
