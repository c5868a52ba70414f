"""Commands that create, list, show, move and summarize stories, and update the memory of a character."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands.options import AsJson, Instance, Model, Reasoning
from cli.running import services, wait_for


def new(
    character: Annotated[
        str | None, typer.Option("--character", "-c", metavar="ID", help="The character / 角色")
    ] = None,
    background: Annotated[
        str | None, typer.Option("--background", "-b", metavar="ID", help="The background / 背景")
    ] = None,
    instance_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The story's id / 故事的 ID")
    ] = None,
    greeting: Annotated[
        int | None,
        typer.Option("--greeting", min=0, help="Which greeting opens it; 0 none / 第几个开场白，0 不用"),
    ] = None,
    json: AsJson = False,
) -> None:
    """Begin a story / 开始一个故事"""
    from cli.stories import make_new

    make_new(services(), character, background, instance_id, greeting, as_json=json)


def library(json: AsJson = False) -> None:
    """List characters, backgrounds and stories / 列出角色、背景和故事"""
    from cli.stories import show_library

    show_library(services(), as_json=json)


def read(
    instance: Instance,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Another session / 会话")
    ] = None,
    before: Annotated[
        int | None, typer.Option("--before", min=1, help="Only turns before this one / 此轮之前")
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many turns / 轮数")] = 20,
    reasoning: Reasoning = False,
    json: AsJson = False,
) -> None:
    """Read a story back / 阅读对话记录"""
    from cli.stories import show_session

    work = show_session(services(), instance, session, before, count, reasoning=reasoning, as_json=json)
    wait_for(work)


def switch_background(
    instance: Instance,
    background: Annotated[
        str | None, typer.Argument(metavar="[BACKGROUND]", help="Its id / 背景的 ID")
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="No background / 不用背景")] = False,
    json: AsJson = False,
) -> None:
    """Move a story to another background / 更换背景"""
    from cli.stories import move

    wait_for(move(services(), instance, background, none=none, as_json=json))


def summarize(
    instance: Instance,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show it, write nothing / 只看不写")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take the last summary back / 撤销上一次汇总")] = False,
    model: Model = None,
    json: AsJson = False,
) -> int:
    """Sum up a long session and go on in a new one / 汇总长会话，在新会话里继续"""
    from cli.growth import summarise, undo_summary_and_show
    from cli.running import one_of

    one_of({"--dry-run": dry_run, "--undo": undo})
    if undo:
        wait_for(undo_summary_and_show(services(), instance, as_json=json))
        return 0
    return wait_for(summarise(services(), instance, dry_run=dry_run, model=model, as_json=json))


def update_memory(
    instance: Instance,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show it, write nothing / 只看不写")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take the last change back / 撤销上一次改变")] = False,
    history: Annotated[bool, typer.Option("--history", help="Show every change / 查看每次改变")] = False,
    model: Model = None,
    json: AsJson = False,
) -> int:
    """Let the character grow by the last turns / 让角色因最近的经历而成长"""
    from cli.growth import grow, show_history, undo_growth_and_show
    from cli.running import one_of

    one_of({"--dry-run": dry_run, "--undo": undo, "--history": history})
    if history:
        wait_for(show_history(services(), instance, as_json=json))
        return 0
    if undo:
        wait_for(undo_growth_and_show(services(), instance, as_json=json))
        return 0
    return wait_for(grow(services(), instance, dry_run=dry_run, model=model, as_json=json))
