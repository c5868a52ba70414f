"""Prints the events of turns and follows long work, on a terminal or into a pipe, as text or JSON."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, cast

from cli.markers import MarkerFilter, MarkerStyle
from cli.output import (
    DIM,
    RED,
    ProgressLine,
    is_terminal,
    masked,
    note,
    one_line,
    paint,
    warn,
    write,
    write_beside,
    write_json,
)
from cli.running import BAD_INPUT, DONE, FAILED
from cli.texts import TEXTS, tell
from personalab.texts import Language


def read_text(text: str) -> str:
    """Take what is said from the command line, or from stdin for ``-``."""
    return sys.stdin.read().rstrip("\n") if text == "-" else text


def error_code(event: dict[str, Any]) -> int:
    """Return the exit code of an error event."""
    return BAD_INPUT if event["kind"] == "user" else FAILED


class JsonView:
    """Prints each event as one JSON line; an error is one sentence on stderr, too."""

    def take(self, event: dict[str, Any]) -> None:
        """Print an event."""
        write_json(event)
        if event["type"] == "error":
            note(one_line(str(event["message"])))


class TextView:
    """Prints the reply as it comes, and what else is said on stderr."""

    def __init__(
        self, language: Language, markers: MarkerStyle = "plain", *, reasoning: bool = False
    ) -> None:
        self._language: Language = language
        self._open = False
        self._screen = is_terminal(sys.stdout)
        self._markers = MarkerFilter(markers)
        self._shows_reasoning = reasoning
        self._thinks = False
        """Whether reasoning is being printed on stderr."""
        self._progress = ProgressLine()

    def take(self, event: dict[str, Any]) -> None:
        """Print what an event means to a reader; the error event says what a failed reply's note does."""
        if event.get("error_note"):
            return
        if event["type"] == "reasoning":
            self._think(event)
            return
        self._end_reasoning()
        if event["type"] == "token":
            text = str(event["text"])
            self._print(self._markers.feed(masked(text) if self._screen else text))
            return
        self._end_line()
        match event["type"]:
            case "warning":
                warn(event, self._language)
            case "error":
                note(paint(one_line(str(event["message"])), RED, sys.stderr))
            case "done":
                for ending in ("interrupted", "empty", "truncated"):
                    if event[ending]:
                        note(paint(tell(ending, self._language), DIM, sys.stderr))
            case "care":
                note(paint(one_line(str(event["message"])), DIM, sys.stderr))
            case _:
                pass

    def _print(self, text: str) -> None:
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()
            self._open = not text.endswith("\n")

    def _think(self, event: dict[str, Any]) -> None:
        text = str(event["text"])
        if not self._shows_reasoning:
            if not (self._open and self._screen):  # the reply's row is on the same screen
                count = event["offset"] + len(text)
                self._progress.show(tell("reasoning_now", self._language, count=count))
            return
        if event["offset"] == 0:  # another attempt reasons again
            self._end_reasoning()
        if not text:
            return
        begins = not self._thinks
        if begins and self._screen:  # a pipe gets the reply as it is stored
            self._end_line()
        self._thinks = True
        text = masked(text) if is_terminal(sys.stderr) else text
        write_beside(paint(f"💭 {text}" if begins else text, DIM, sys.stderr))

    def _end_reasoning(self) -> None:
        self._progress.clear()
        if self._thinks:
            self._thinks = False
            write_beside("\n")

    def _end_line(self) -> None:
        self._print(self._markers.flush())
        if self._open:
            write("")
            self._open = False


def task_name(task: str, language: Language) -> str:
    """Name what was running as its reader knows it."""
    code = f"task_{task}"
    return tell(code, language) if code in TEXTS else task


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
