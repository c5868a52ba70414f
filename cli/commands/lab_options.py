"""Arguments and options that several commands of the lab share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Kind = Literal["skill", "baseline"]
SkillType = Literal["skill", "agent"]
Category = Literal["standard", "boundary", "exception"]

Skill = Annotated[
    str, typer.Argument(metavar="SKILL", help="Its id, the beginning of it, or its name / 技能的 ID 或名称")
]
Baseline = Annotated[
    str,
    typer.Argument(metavar="BASELINE", help="Its id, the beginning of it, or its name / 基线的 ID 或名称"),
]
Asset = Annotated[
    str, typer.Argument(metavar="ASSET", help="A skill or a baseline: id or name / 技能或基线的 ID 或名称")
]
Project = Annotated[
    str,
    typer.Argument(
        metavar="PROJECT", help="Its folder's name, its id or its name / 项目的文件夹名、ID 或名称"
    ),
]
KindOption = Annotated[
    Kind | None, typer.Option("--kind", help="Which of the two is meant / 指明是技能还是基线")
]
Purpose = Annotated[str | None, typer.Option("--purpose", metavar="NAME", help="What it is for / 用途")]
NeededPurpose = Annotated[
    str, typer.Option("--purpose", metavar="NAME", help="What it is for, e.g. coding / 用途，例如 coding")
]
Provider = Annotated[
    str | None,
    typer.Option("--provider", metavar="NAME", help="Whose it is, e.g. local / 来源目录，例如 local"),
]
Tag = Annotated[str | None, typer.Option("--tag", metavar="TAG", help="With this tag / 带有此标签")]
Query = Annotated[
    str | None, typer.Option("--query", "-q", metavar="WORDS", help="That speak of it / 含有这些词")
]
Name = Annotated[str | None, typer.Option("--name", metavar="NAME", help="What it is called / 名称")]
Description = Annotated[str | None, typer.Option("--description", metavar="TEXT", help="What it is / 说明")]
Author = Annotated[str | None, typer.Option("--author", metavar="NAME", help="Who wrote it / 作者")]
Source = Annotated[str | None, typer.Option("--source", metavar="TEXT", help="Where it is from / 出处")]
Content = Annotated[
    str | None,
    typer.Option("--content", metavar="TEXT", help="The prompt; - reads stdin / 提示词；- 读标准输入"),
]
ContentFile = Annotated[
    Path | None, typer.Option("--file", "-f", metavar="PATH", help="A file with the prompt / 提示词文件")
]
Expected = Annotated[
    str | None,
    typer.Option(
        "--expect", metavar="vN", help="Refuse unless this is the newest version / 仅当最新版本如此"
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there / 覆盖已有的")]
LabModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="provider:model, rehearsal, or a model of the claude program / 模型",
    ),
]


def limit_given(text: str) -> str:
    """Check a limit: a number from 0 on, or ``none`` to take it away."""
    if text == NO_LIMIT:
        return text
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise typer.BadParameter(f"{text[:40]}: a number from 0 on, or none / 请写不小于 0 的数，或 none")
    return text


def whole_limit_given(text: str) -> str:
    """Check a limit that counts."""
    if limit_given(text) != NO_LIMIT and not (text.isascii() and text.isdigit()):
        raise typer.BadParameter(f"{text[:40]}: a whole number, or none / 请写整数，或 none")
    return text


NO_LIMIT = "none"
MaxCalls = Annotated[
    str | None,
    typer.Option(
        "--max-calls",
        metavar="N|none",
        parser=whole_limit_given,
        help="No more calls in all / 调用总数上限",
    ),
]
MaxUsd = Annotated[
    str | None,
    typer.Option(
        "--max-usd", metavar="USD|none", parser=limit_given, help="No more money in all / 总花费上限"
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before spending / 花费前不再确认")]


def limits(max_calls: str | None, max_usd: str | None) -> dict[str, int | float | None]:
    """Give the limits that were given; ``None`` takes one away."""
    found: dict[str, int | float | None] = {}
    if max_calls is not None:
        found["max_calls"] = None if max_calls == NO_LIMIT else int(max_calls)
    if max_usd is not None:
        found["max_usd"] = None if max_usd == NO_LIMIT else float(max_usd)
    return found


def given(**values: str | None) -> dict[str, str]:
    """Leave out what was not given, so that defaults hold."""
    return {name: value for name, value in values.items() if value is not None}
