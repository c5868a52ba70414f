"""Terminal output: streams, colours, tables, progress, and control characters made visible."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from personalab.texts import Language

DIM, BOLD, CYAN, GREEN, YELLOW, RED = "2", "1", "36", "32", "33", "31"


def prepare_streams() -> None:
    """Keep unsupported characters, lone surrogates and closed streams from ending the program."""
    for number in (0, 1, 2):  # else a story's file would get the number, and what libraries print
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison] (it is, after 2>&-)
        sys.stderr = io.StringIO()
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] (it is, after <&-)
        sys.stdin = io.StringIO()
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def is_terminal(stream: TextIO) -> bool:
    """Return whether a stream is connected to a terminal."""
    try:
        return stream.isatty()
    except (ValueError, AttributeError):
        return False


def can_show(text: str) -> bool:
    """Return whether a text can be printed at all."""
    try:
        text.encode((sys.stdout or sys.stderr).encoding or "ascii")
    except (UnicodeEncodeError, LookupError, AttributeError):
        return False
    return True


def write(text: str, end: str = "\n") -> None:
    """Print data for the reader, at once."""
    sys.stdout.write(for_reader(text, sys.stdout) + end)
    sys.stdout.flush()


def note(text: str) -> None:
    """Print a line beside the data, on stderr."""
    write_beside(f"{text}\n")


def write_beside(text: str) -> None:
    """Print text beside the data, on stderr, at once."""
    with suppress(OSError, ValueError):
        sys.stderr.write(for_reader(text, sys.stderr))
        sys.stderr.flush()


def warn(event: Mapping[str, Any], language: Language) -> None:
    """Print a warning as one line on stderr."""
    from cli.texts import tell

    note(paint(tell("warning", language, message=warning_text(event)), YELLOW, sys.stderr))


def warning_text(event: Mapping[str, Any]) -> str:
    """Word a warning with what can be done about it."""
    message, suggestion = str(event.get("message", "")), event.get("suggestion")
    return one_line(
        f"{message}；{suggestion}"
        if _is_chinese(message) and suggestion
        else f"{message}. {suggestion}"
        if suggestion
        else message
    )


def _is_chinese(text: str) -> bool:
    return any("\u4e00" <= character <= "\u9fff" for character in text)


def write_json(data: object) -> None:
    """Print data as JSON on one line; a stream that cannot show a character gets its escape."""
    import json

    wide = (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(data, ensure_ascii=not wide, default=str)
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode("utf-8") + "\n")
    sys.stdout.flush()


def paint(text: str, style: str, stream: TextIO | None = None) -> str:
    """Colour a text where a person looks at it."""
    return f"\x1b[{style}m{text}\x1b[0m" if is_terminal(stream or sys.stdout) else text


def for_reader(text: str, stream: TextIO) -> str:
    """Keep a story from steering the terminal: on a screen, control characters of ours alone get through."""
    return visible(text) if is_terminal(stream) else text


_OURS = tuple(f"\x1b[{code}m" for code in ("0", DIM, BOLD, CYAN, GREEN, YELLOW, RED))


def masked(text: str) -> str:
    """Show control and direction characters of a story as a mark, colours too: only line ends and tabs stay."""
    return text if text.isprintable() else _UNSEEN.sub("\ufffd", text)


def visible(text: str) -> str:
    """Show control and direction characters as a mark, except line ends, tabs and our own colours."""
    if text.isprintable():
        return text
    for number, code in enumerate(_OURS):
        text = text.replace(code, chr(0xF0000 + number))
    text = _UNSEEN.sub("\ufffd", text)
    for number, code in enumerate(_OURS):
        text = text.replace(chr(0xF0000 + number), code)
    return text


_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff"  # control characters and half pairs
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # turn the direction of writing
    "\u2028\u2029"  # end a line where none is counted
    "\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"  # are invisible
)
"""What changes how other characters look, except the joiners that scripts and emoji need."""


def one_line(text: str) -> str:
    """Fold a text into one line."""
    return " ".join(text.split())


def short(text: str, width: int) -> str:
    """Cut a text for a list, by the columns it takes."""
    line, used = one_line(text), 0
    for at, character in enumerate(line):
        used += columns(character)
        if used > width:
            return line[:at] + "…"
    return line


def columns(text: str) -> int:
    """Count the columns of a text nearly enough for a list: Chinese takes two a character."""
    return sum(1 + ("\u1100" <= character <= "\uffef" and character not in "…—") for character in text)


def bar(value: int, limit: int, width: int = 20) -> str:
    """Draw how much of a limit is used."""
    filled = min(width, round(width * value / limit)) if limit > 0 else 0
    if value > 0 and filled == 0:
        return "▏" + "·" * (width - 1)
    return "█" * filled + "·" * (width - filled)


class ProgressLine:
    """A progress line on stderr that changes while something takes long; silent without a terminal."""

    def __init__(self) -> None:
        self._shown = is_terminal(sys.stderr)
        self._used = False

    def show(self, text: str) -> None:
        """Replace the line."""
        if self._shown:
            sys.stderr.write(f"\r\x1b[K{visible(short(text, 76))}")
            sys.stderr.flush()
            self._used = True

    def clear(self) -> None:
        """Take the line away."""
        if self._used:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._used = False
