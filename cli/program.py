"""The commands of the terminal.

This module and ``cli.commands`` are all that ``--help`` imports: heavy modules are imported when a command
runs.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from cli.commands import archive, exchange, looking, mcp, memory, playing, settings, stories, upkeep
from cli.running import keep_quiet, speak_up

PLAY, LOOK, KEEP, LAB, JOIN = "Play / 故事", "Look / 查看", "Keep / 维护", "Lab / 实验室", "Connect / 连接"

app = typer.Typer(
    name="personalab",
    help="Characters that live through a story with you, remember it, and grow. / 与你一起经历故事的角色。",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        sys.stdout.write(f"personalab {version('personalab')}\n")
        raise typer.Exit


@app.callback()
def _main(  # pyright: ignore[reportUnusedFunction] (typer calls it)
    debug: Annotated[
        bool,
        typer.Option("--debug", envvar="PERSONALAB_DEBUG", help="Show tracebacks and logs / 显示调试信息"),
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version / 版本")
    ] = False,
) -> None:
    (speak_up if debug else keep_quiet)()


app.command("chat", rich_help_panel=PLAY)(playing.chat)
app.command("say", rich_help_panel=PLAY)(playing.say)
app.command("retry", rich_help_panel=PLAY)(playing.retry)
app.command("stop", rich_help_panel=PLAY)(playing.stop)
app.command("new", rich_help_panel=PLAY)(stories.new)
app.command("switch-background", rich_help_panel=PLAY)(stories.switch_background)
app.command("summarize", rich_help_panel=PLAY)(stories.summarize)
app.command("update-memory", rich_help_panel=PLAY)(stories.update_memory)
app.command("library", rich_help_panel=LOOK)(stories.library)
app.command("read", rich_help_panel=LOOK)(stories.read)
app.command("recall", rich_help_panel=LOOK)(looking.recall)
app.command("prompt", rich_help_panel=LOOK)(looking.prompt)
app.add_typer(memory.app, name="memory", rich_help_panel=LOOK)
app.add_typer(settings.app, name="settings", rich_help_panel=KEEP)
app.command("import", rich_help_panel=KEEP)(exchange.bring_in)
app.command("export", rich_help_panel=KEEP)(exchange.send_out)
app.add_typer(archive.app, name="archive", rich_help_panel=KEEP)
app.command("reindex", rich_help_panel=KEEP)(upkeep.reindex)
app.command("doctor", rich_help_panel=KEEP)(upkeep.doctor)


@app.command(
    "lab",
    rich_help_panel=LAB,
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def _lab(context: typer.Context) -> Any:  # pyright: ignore[reportUnusedFunction] (typer calls it)
    """Find out which prompt is better, and make a better one / 技能实验室"""
    from cli.commands import lab  # its many commands would make every other one start later

    return lab.app(context.args, prog_name="personalab lab", standalone_mode=False)


app.command("mcp-config", rich_help_panel=JOIN)(mcp.mcp_config)
app.command("mcp", rich_help_panel=JOIN)(mcp.mcp)
app.command("serve", rich_help_panel=JOIN)(mcp.serve)
