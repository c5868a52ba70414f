"""Commands for the settings of the lab, temporary model sessions and the search engine benchmark."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands.options import AsJson
from cli.running import wait_for

settings = typer.Typer(
    help="How the claude program is called / claude 命令行的设置",
    invoke_without_command=True,
    rich_markup_mode="rich",
)


@settings.callback()
def _default(context: typer.Context, json: AsJson = False) -> None:  # pyright: ignore[reportUnusedFunction] (typer calls it)
    if context.invoked_subcommand is None:
        show(context, json)


def _as_json(context: typer.Context, json: bool) -> bool:
    """Heed ``--json`` also where it stands before the subcommand."""
    above = context.parent.params if context.parent is not None else {}
    return json or bool(above.get("json"))


@settings.command("show")
def show(context: typer.Context, json: AsJson = False) -> None:
    """Show the settings / 查看设置"""
    from cli.lab.settings import show_settings

    wait_for(show_settings(as_json=_as_json(context, json)))


@settings.command("set")
def change(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="E.g. cli_path, default_model / 设置的名称")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Its new value / 新的值")],
    json: AsJson = False,
) -> None:
    """Change one setting / 修改一项设置"""
    from cli.lab.settings import change_setting

    wait_for(change_setting(name, value, as_json=_as_json(context, json)))


def sessions(
    expire: Annotated[
        bool, typer.Option("--expire", help="Mark those whose time has come / 标记已过期的会话")
    ] = False,
    json: AsJson = False,
) -> None:
    """List the temporary sessions of models / 列出临时会话"""
    from cli.lab.settings import show_sessions

    wait_for(show_sessions(expire=expire, as_json=json))


def bench(
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", metavar="SEEDS", help="E.g. 0-39 or 1,2,5; else 2000-2039 / 随机种子"),
    ] = None,
    presets: Annotated[
        list[str] | None, typer.Option("--preset", metavar="NAME", help="Else all / 世界的种类，可多次")
    ] = None,
    engines: Annotated[
        list[str] | None, typer.Option("--engine", metavar="NAME", help="Else all / 搜索引擎，可多次")
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Exit 1 if a figure is not met; one that was not measured is not / "
            "有指标未达到（未测量的也算）时退出码为 1",
        ),
    ] = False,
    json: AsJson = False,
) -> int:
    """Measure the search engines in a world whose best skill is known / 测量迭代引擎

    Takes minutes with all seeds. Prints the share of the headroom that each engine reaches, the evaluations it needs
    for 80 % of it, and which figures of the specification are met.
    """
    from cli.lab.bench import run

    return run(seeds, presets or [], engines or [], check=check, as_json=json)
