"""The ``recall`` and ``prompt`` commands, which show recalled events and the next prompt."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from cli.commands.options import AsJson, Instance
from cli.running import services, wait_for

Depth = Literal["auto", "summaries", "plots", "turns"]


def recall(
    instance: Instance,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for / 要找什么")],
    depth: Annotated[Depth, typer.Option("--depth", help="Where to look / 查找的层次")] = "auto",
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=100, help="At most so many / 条数")] = 10,
    json: AsJson = False,
) -> None:
    """Look up what happened in a story / 回忆发生过的事"""
    from cli.looking import show_recalled

    wait_for(show_recalled(services(), instance, query, depth, count, as_json=json))


def prompt(
    instance: Instance,
    text: Annotated[str, typer.Argument(metavar="[TEXT]", help="What you would say / 你要说的话")] = "…",
    section: Annotated[
        str | None, typer.Option("--section", metavar="NAME", help="One section's text / 一段")
    ] = None,
    whole: Annotated[bool, typer.Option("--text", help="The single text / 全文")] = False,
    messages: Annotated[bool, typer.Option("--messages", help="The messages as sent / 消息")] = False,
    json: AsJson = False,
) -> None:
    """Show what the next turn would send / 查看下一轮的提示词"""
    from cli.looking import show_prompt

    wait_for(show_prompt(services(), instance, text, section, whole=whole, messages=messages, as_json=json))
