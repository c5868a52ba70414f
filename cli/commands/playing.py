"""Commands that play a story: ``chat``, ``say``, ``retry`` and ``stop``."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands.options import AsJson, Instance, Model, Reasoning
from cli.running import services, wait_for


def chat(
    instance: Annotated[
        str | None,
        typer.Argument(metavar="[INSTANCE]", help="The story's id; chosen if left out / 故事的 ID"),
    ] = None,
    model: Model = None,
) -> int:
    """Talk to a character / 与角色对话

    Without INSTANCE you choose a story or begin one. With no terminal on stdin, each line of it is played.
    """
    from cli.chat import run_chat

    return run_chat(services(), instance, model)


def say(
    instance: Instance,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What you say; - reads stdin / 你说的话")],
    reasoning: Reasoning = False,
    json: AsJson = False,
    model: Model = None,
) -> int:
    """Say one thing and stream the reply / 说一句话

    With --json each event of the stream is one line. With --reasoning what the model thinks is printed on stderr.
    """
    from cli.turns import read_text, say_once

    said = read_text(text)
    return wait_for(say_once(services(), instance, said, as_json=json, reasoning=reasoning, model=model))


def retry(instance: Instance, reasoning: Reasoning = False, json: AsJson = False, model: Model = None) -> int:
    """Answer the last turn again if it failed or was interrupted / 上一轮失败或中断时重新回答"""
    from cli.turns import retry_last

    return wait_for(retry_last(services(), instance, as_json=json, reasoning=reasoning, model=model))


def stop(instance: Instance, json: AsJson = False) -> None:
    """Stop the reply that is being written, in any process / 停止正在进行的回复"""
    from cli.turns import stop_running

    wait_for(stop_running(services(), instance, as_json=json))
