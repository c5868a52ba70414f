"""The screen of the interactive chat: the reply grows above the input line.

Whole rows are written above the prompt; the row that is still growing is part of the prompt's own message.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.markers import MarkerFilter, MarkerStyle
from cli.output import DIM, masked, visible
from personalab.data_files import open_regular
from personalab.errors import StorageError

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History


_PIECES = re.compile(r"\x1b\[\d+m|.", re.DOTALL)
_COLOUR = re.compile(r"\x1b\[(\d+)m")
_RESET = "0"


def wrap(text: str, width: int) -> Iterator[str]:
    """Cut a text into rows that fit; words stay whole where they can, Chinese breaks anywhere."""
    from prompt_toolkit.utils import get_cwidth

    row: list[tuple[str, int]] = []
    used, space = 0, -1
    for piece in _PIECES.findall(text):
        size = 0 if len(piece) > 1 else get_cwidth(piece)
        if used + size > width and row:
            cut = space + 1 if space >= 0 and size == 1 and piece != " " else len(row)
            yield "".join(part for part, _ in row[:cut]).rstrip(" ")
            row = row[cut:]
            used, space = sum(columns for _, columns in row), -1
            if piece == " ":
                continue
        row.append((piece, size))
        used += size
        if piece == " " or size == 2:
            space = len(row) - 1
    yield "".join(part for part, _ in row)


def closed_rows(rows: Iterable[str]) -> list[str]:
    """End colours at the end of each row and start them again in the next one."""
    made: list[str] = []
    style = _RESET
    for row in rows:
        opening = f"\x1b[{style}m" if style != _RESET else ""
        for found in _COLOUR.finditer(row):
            style = found[1]
        made.append(f"{opening}{row}\x1b[{_RESET}m" if style != _RESET else f"{opening}{row}")
    return made


def fragments(row: str) -> list[tuple[str, str]]:
    """Return a row of the reply as prompt_toolkit takes it: its dimmed parts are grey."""
    parts = _COLOUR.split(row)
    styles = ["", *("fg:ansibrightblack" if code == DIM else "" for code in parts[1::2])]
    return [(style, text) for style, text in zip(styles, parts[::2], strict=True) if text]


class ChatScreen:
    """The terminal of an interactive chat: a prompt, and what is shown above it."""

    def __init__(self, session: PromptSession[str]) -> None:
        self._session = session
        self._markers = MarkerFilter("plain")
        self.growing = ""
        """The row of the reply that is not full yet."""

    @property
    def width(self) -> int:
        """How many columns a row may use."""
        return max(20, self._session.app.output.get_size().columns - 1)

    def show(self, text: str) -> None:
        """Write whole lines above the prompt, broken where words end."""
        app = self._session.app
        rows = [row for line in visible(text).expandtabs(4).split("\n") for row in wrap(line, self.width)]
        if app.is_running:
            app.renderer.erase()
        app.output.write_raw("\r\n".join(rows) + "\r\n")
        app.output.flush()
        if app.is_running:
            app.invalidate()

    def begin(self, markers: MarkerStyle) -> None:
        """Start a reply, whose markers are shown in a style."""
        self._markers = MarkerFilter(markers)

    def grow(self, text: str) -> None:
        """Extend the reply: full rows move up, the last one stays with the prompt."""
        self._add(self._markers.feed(masked(text)))

    def _add(self, text: str) -> None:
        *whole, last = (self.growing + text.expandtabs(4)).split("\n")
        rows = [row for line in whole for row in wrap(line, self.width)]
        *full, self.growing = closed_rows([*rows, *wrap(last, self.width)])
        if full:
            self.show("\n".join(full))
        self._session.app.invalidate()

    def settle(self) -> None:
        """Move the last row up: the reply is over."""
        if held := self._markers.flush():
            self._add(held)
        if self.growing:
            last, self.growing = self.growing, ""
            self.show(last)
        self._session.app.invalidate()


def open_session(history: History, message: Any, interrupt: Callable[[], None]) -> PromptSession[str]:
    """Make the line a person types on: history, pasted lines, Alt-Enter for a new line, Ctrl-C to interrupt."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.filters import is_searching
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction] (bound by its decorator)
        event.current_buffer.insert_text("\n")

    @keys.add("c-c", filter=~is_searching)
    def _(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction] (bound by its decorator)
        interrupt()

    session: PromptSession[str] = PromptSession(
        message, history=history, key_bindings=keys, erase_when_done=True, enable_history_search=False
    )
    session.app.min_redraw_interval = 0.02
    return session


def open_history(name: str, root: Path) -> History:
    """Open what was typed before in a story; where nothing can be written it lasts for this run."""
    import hashlib

    import platformdirs
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    class CarefulHistory(FileHistory):
        """Never fails a chat for the sake of its history."""

        def load_history_strings(self) -> Any:
            try:
                return list(super().load_history_strings())
            except (OSError, ValueError):
                return []

        def store_string(self, string: str) -> None:
            try:
                super().store_string(string)
            except (OSError, ValueError):
                return

    try:
        place = hashlib.blake2b(str(root).encode("utf-8", "replace"), digest_size=4).hexdigest()
        folder = Path(platformdirs.user_state_dir("personalab", appauthor=False)) / "history" / place
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(open_regular(folder / name, os.O_RDWR | os.O_CREAT))
    except (OSError, StorageError):
        return InMemoryHistory()
    return CarefulHistory(str(folder / name))


def can_draw() -> bool:
    """Return whether a prompt can be drawn: a terminal for input and output that can move its cursor."""
    from prompt_toolkit.utils import is_dumb_terminal

    return sys.stdin.isatty() and sys.stdout.isatty() and not is_dumb_terminal()
