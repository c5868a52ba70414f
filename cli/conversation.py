"""The interactive chat loop, which accepts input while a reply is streaming.

The prompt is always shown. A reply runs in a task of its own; lines entered meanwhile are queued, except
``/stop``, ``/quit`` and Ctrl-C, which end the reply. Ctrl-C never ends the program and never discards what
was typed while a reply was running.
"""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from collections.abc import Generator
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from cli.chat import ChatStory
from cli.markers import marker_style
from cli.output import BOLD, CYAN, DIM, RED, YELLOW, one_line, paint, short, warning_text
from cli.running import DONE
from cli.screen import ChatScreen, fragments, open_history, open_session

if TYPE_CHECKING:
    from nodes.chat_turn.state import TurnInput

_DURING_REPLY = ("/help", "/outline")


async def converse(story: ChatStory) -> int:
    """Talk until the person leaves."""
    from prompt_toolkit.patch_stdout import patch_stdout

    talk = ChatLoop(story)
    with patch_stdout(raw=True), talk.catching_interrupts():
        await talk.run()
    return DONE


class ChatLoop:
    """The person's side and the reply that may be running."""

    def __init__(self, story: ChatStory) -> None:
        self.story = story
        history = open_history(story.instance_id, story.services.settings.data_root)
        self.session = open_session(history, self._message, self.interrupt)
        self.screen = ChatScreen(self.session)
        self.waiting: deque[str] = deque()
        self.reply: asyncio.Task[None] | None = None
        self.begun = False
        """Whether the reply's first text has come."""
        self.thought = 0
        """How many characters the model has thought, until a line says so."""

    # --- the person

    async def run(self) -> None:
        """Show the story's state, then read line after line."""
        self.screen.show("\n".join([*self.story.opening(), "", *await self.story.last_turns()]).rstrip("\n"))
        warm = asyncio.create_task(asyncio.to_thread(_load_graph))
        try:
            while (line := await self._read()) is not None:
                if not await self._heed(line):
                    break
        finally:
            self.waiting.clear()
            await self._stop()
            with suppress(Exception):  # it only loads ahead; what is wrong shows when it is used
                await warm
        self.screen.show(paint(self.story.say("bye", instance_id=self.story.instance_id), DIM))

    async def _read(self) -> str | None:
        """Read a line; ``None`` when the person leaves."""
        try:
            return await self.session.prompt_async(handle_sigint=False)
        except EOFError:
            return None

    async def _heed(self, line: str) -> bool:
        """Do what a line says; return whether the conversation goes on."""
        words = line.strip()
        if not words:
            return True
        if words == "/quit":
            return False
        if words == "/stop":
            if self.reply is None:
                self.screen.show(self.story.say("nothing_to_stop"))
            await self._stop()
        elif words.startswith("/") and words != "/retry":
            await self._command(words)
        elif self.reply is not None:
            self.waiting.append(line)
        else:
            self._begin(line)
        return True

    async def _command(self, words: str) -> None:
        if self.reply is not None and words.split()[0] not in _DURING_REPLY:
            self.screen.show(self.story.say("wait_first"))
            return
        self.screen.show(paint(f"› {words}", DIM))
        self.screen.show("\n".join(await self.story.command(words)))

    def interrupt(self) -> None:
        """Take Ctrl-C: it ends the reply; where there is none, it empties the line and says how to leave."""
        if self.reply is not None:
            self.reply.cancel()
        else:
            self.session.default_buffer.reset()
            self.screen.show(paint(self.story.say("ctrl_c"), DIM))

    @contextmanager
    def catching_interrupts(self) -> Generator[None]:
        """Take SIGINT ourselves while the conversation lasts; before and after, it ends the program."""
        loop = asyncio.get_running_loop()
        before = signal.getsignal(signal.SIGINT)
        loop.add_signal_handler(signal.SIGINT, self.interrupt)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, before)

    def _message(self) -> list[tuple[str, str]]:
        prompt = ("fg:ansicyan bold", "› ")
        if self.reply is None:
            return [prompt]
        row = fragments(self.screen.growing) if self.begun else [("fg:ansibrightblack", self._waiting_for())]
        queued = [self.story.say("queued", text=short(line, 60)) for line in self.waiting]
        return [*row, ("", "\n"), *(("fg:ansibrightblack", f"{text}\n") for text in queued), prompt]

    def _waiting_for(self) -> str:
        """Describe what the model does before the first words of its reply arrive."""
        if self.thought:
            return self.story.say("reasoning_now", count=self.thought)
        return self.story.say("thinking", name=self.story.speaker)

    # --- the character

    def _begin(self, line: str) -> None:
        turn: TurnInput = {"instance_id": self.story.instance_id, "user_input": line}
        if line.strip() == "/retry":
            turn = {"instance_id": self.story.instance_id, "action": "retry"}
        self.screen.show(f"\n{paint('› ', CYAN)}{line}")
        self.begun, self.thought = False, 0
        self.reply = asyncio.create_task(self._answer(turn))
        self.reply.add_done_callback(self._ended)

    async def _answer(self, turn: TurnInput) -> None:
        """Stream one turn to the screen; being cancelled closes the reply's line in the file first."""
        from graph.chat_turn import stream_turn

        warnings: list[str] = []
        try:
            self.screen.begin(await asyncio.to_thread(marker_style, self.story.services))
            async with aclosing(stream_turn(self.story.services, turn, model=self.story.model)) as stream:
                async for part in stream:
                    event = cast("dict[str, Any]", part)
                    if "type" in event and not event.get("error_note"):
                        self._take(event, warnings)
        except asyncio.CancelledError:
            self.screen.settle()
            self._fold_reasoning()
            self.screen.show(paint(self.story.say("interrupted"), DIM))
        finally:
            self.screen.settle()
            if warnings:
                self.screen.show(paint("⚠ " + " · ".join(warnings), YELLOW))

    def _take(self, event: dict[str, Any], warnings: list[str]) -> None:
        match event.get("type"):
            case "reasoning":
                self.thought = event["offset"] + len(str(event["text"]))
                self.session.app.invalidate()
            case "token":
                if not self.begun:
                    self._fold_reasoning()
                    self.begun = True
                    self.screen.show(paint(self.story.speaker, BOLD))
                self.screen.grow(str(event["text"]))
            case "warning":
                warnings.append(warning_text(event))
            case "error":
                self.screen.settle()
                self._fold_reasoning()
                self.screen.show(paint(str(event["message"]), RED))
            case "done":
                self.screen.settle()
                self._fold_reasoning()
                for ending in ("interrupted", "empty", "truncated"):
                    if event[ending]:
                        self.screen.show(paint(self.story.say(ending), DIM))
            case "care":
                self.screen.show(paint(str(event["message"]), YELLOW if event["status"] == "error" else DIM))
            case _:
                pass

    def _fold_reasoning(self) -> None:
        """Print one line that the model has reasoned, and how to see it."""
        if self.thought:
            self.screen.show(paint(self.story.say("reasoning_folded", count=self.thought), DIM))
            self.thought = 0

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Take the reply's end, whatever it was; the next line that waits is said."""
        self.reply = None
        failure = None if task.cancelled() else task.exception()
        if failure is not None:
            kind = one_line(f"{type(failure).__name__}: {failure}")
            self.screen.show(paint(self.story.say("unexpected", kind=short(kind, 120)), RED))
        self.session.app.invalidate()
        if self.waiting:
            self._begin(self.waiting.popleft())

    async def _stop(self) -> None:
        """End the reply that is running and wait until its line is closed."""
        if (task := self.reply) is not None:
            task.cancel()
            await asyncio.wait({task})


def _load_graph() -> None:
    """Import what the first turn needs while the person reads and types."""
    import importlib

    importlib.import_module("graph.chat_turn")
