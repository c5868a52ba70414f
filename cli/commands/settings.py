"""Commands that show and change the settings."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands.options import AsJson
from cli.running import services

app = typer.Typer(
    help="Show or change the settings / 查看或修改设置", invoke_without_command=True, rich_markup_mode="rich"
)


@app.callback()
def _default(context: typer.Context, json: AsJson = False) -> None:  # pyright: ignore[reportUnusedFunction] (typer calls it)
    if context.invoked_subcommand is None:
        show(context, json)


def _as_json(context: typer.Context, json: bool) -> bool:
    """Heed ``--json`` also where it stands before the subcommand."""
    above = context.parent.params if context.parent is not None else {}
    return json or bool(above.get("json"))


@app.command("show")
def show(context: typer.Context, json: AsJson = False) -> None:
    """Show every setting with its range / 查看所有设置"""
    from cli.preferences import show_settings

    show_settings(services(), as_json=_as_json(context, json))


@app.command("set")
def change(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="E.g. language, max_total_tokens / 设置的名称")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Its new value / 新的值")],
    json: AsJson = False,
) -> None:
    """Change one setting / 修改一项设置"""
    from cli.preferences import change_setting

    change_setting(services(), name, value, as_json=_as_json(context, json))


@app.command("reset")
def reset(context: typer.Context, json: AsJson = False) -> None:
    """Restore the defaults / 恢复默认设置"""
    from cli.preferences import reset_settings

    reset_settings(services(), as_json=_as_json(context, json))
