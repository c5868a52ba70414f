"""Runs long work with a progress line on the terminal."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, cast

from cli.output import ProgressLine
from cli.running import DONE
from cli.turns import error_code


async def follow(work: AsyncGenerator[Any], told: Callable[[int, int], str]) -> tuple[dict[str, Any], int]:
    """Run work to its end; return its result and the exit code. ``told`` formats the progress."""
    progress, code = ProgressLine(), DONE
    result: dict[str, Any] = {}
    try:
        async with aclosing(work) as stream:
            async for part in stream:
                event = cast("dict[str, Any]", part)
                match event.get("type"):
                    case "progress":
                        progress.show(told(event["done"], event["total"]))
                    case "error":
                        code = error_code(event)
                    case None:
                        result = event
                    case _:
                        pass
    finally:
        progress.clear()
    return result, code
