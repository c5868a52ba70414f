"""Commands that play a story: ``chat``, ``say``, ``retry`` and ``stop``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from cli.commands.options import AsJson, Instance, Model, Reasoning
from cli.running import DONE, language_of, services, wait_for

if TYPE_CHECKING:
    from nodes.chat_turn.state import TurnInput
    from personalab.services import Services


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
    from cli.turns import read_text

    turn: TurnInput = {"instance_id": instance, "user_input": read_text(text)}
    return wait_for(play(services(), turn, as_json=json, reasoning=reasoning, model=model))


def retry(instance: Instance, reasoning: Reasoning = False, json: AsJson = False, model: Model = None) -> int:
    """Answer the last turn again if it failed or was interrupted / 上一轮失败或中断时重新回答"""
    turn: TurnInput = {"instance_id": instance, "action": "retry"}
    return wait_for(play(services(), turn, as_json=json, reasoning=reasoning, model=model))


async def play(
    services: Services, turn: TurnInput, *, as_json: bool, model: str | None, reasoning: bool = False
) -> int:
    """Stream a turn to stdout; leaving early closes the reply's line as interrupted."""
    import asyncio
    from contextlib import aclosing

    from cli.markers import marker_style
    from cli.turns import JsonView, TextView, error_code
    from graph.chat_turn import stream_turn

    language = await asyncio.to_thread(language_of, services)
    style = await asyncio.to_thread(marker_style, services)
    view = JsonView() if as_json else TextView(language, style, reasoning=reasoning)
    code = DONE
    async with aclosing(stream_turn(services, turn, model=model)) as stream:
        async for part in stream:
            event = cast("dict[str, Any]", part)
            if event.get("type") == "error":
                code = error_code(event)
            if "type" in event:
                view.take(event)
    return code


def stop(instance: Instance, json: AsJson = False) -> None:
    """Stop the reply that is being written, in any process / 停止正在进行的回复"""
    wait_for(_stop(services(), instance, as_json=json))


async def _stop(services: Services, instance_id: str, *, as_json: bool) -> None:
    import asyncio

    from cli.output import write, write_json
    from cli.texts import tell
    from cli.turns import task_name
    from personalab.app import Application
    from personalab.story.records import check_id

    check_id(instance_id, "instance_id")
    await asyncio.to_thread(services.stories.instance, instance_id)
    found = await Application(services).stop(instance_id)
    if as_json:
        write_json(found.model_dump())
    else:
        language = await asyncio.to_thread(language_of, services)
        write(tell("stopped", language, instance_id=instance_id, task=task_name(found.stopped, language)))
