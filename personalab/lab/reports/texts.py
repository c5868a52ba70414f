"""Texts of the reports: escaping of untrusted texts, our own words, and differences between two texts."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from personalab.i18n import Language, Section, fill

_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufdd0-\ufdef"
    "\ufeff\ufff9-\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)
"""What XML forbids, what turns the direction of the text around it, and letters without any shape."""


def visible(text: str) -> str:
    """Replace characters that act instead of being seen with a mark like ``⟦U+202E⟧``."""
    return _UNSEEN.sub(_mark, text.replace("\r\n", "\n").replace("\r", "\n"))


def _mark(match: re.Match[str]) -> str:
    return "\ufffd" if match[0] == "\ufffd" else f"⟦U+{ord(match[0]):04X}⟧"


def one_line(text: str) -> str:
    """Write a text on one line."""
    return " ".join(visible(text).split())


def markup(text: str) -> str:
    """Write a text so that HTML and XML show it, in an element or an attribute."""
    return html.escape(visible(text))


def shortened(text: str, width: int) -> str:
    """Write a name on one line of so many columns; a Chinese character takes two."""
    text, used = one_line(text), 0
    for at, letter in enumerate(text):
        used += 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        if used > width:
            return text[: max(at - 1, 1)].rstrip() + "…"
    return text


def figure(value: float | None, places: int = 1) -> str:
    """Write a number; one that is not there is a dash."""
    return "–" if value is None else f"{value:,.{places}f}"


def grouped(value: int) -> str:
    """Write a count with its thousands apart; both languages do it in this way."""
    return f"{value:,}"


WORDS = Section("reports")


def word(key: str, language: Language, **params: object) -> str:
    """Return the words of a key; a key without words is returned itself."""
    return WORDS.say(key, language, **params)


@dataclass(frozen=True, slots=True)
class Translator:
    """The words of one language, as markup."""

    language: Language

    def __call__(self, key: str, **params: object) -> str:
        """Return our words; what is put into them cannot turn their direction."""
        template = WORDS.template(key, self.language)
        if template is None:
            return quote(key)
        shown = {name: quote(str(value)) for name, value in params.items()}
        return fill(markup(template), **shown)

    def plain(self, key: str, **params: object) -> str:
        """Return our words as text."""
        return word(key, self.language, **params)


def quote(text: str) -> str:
    """Show an untrusted text on one line, with a direction of its own."""
    return f"<bdi>{markup(one_line(text))}</bdi>"


def block(text: str) -> str:
    """Show an untrusted text unchanged."""
    return f'<pre dir="auto">{markup(text)}</pre>'


LineKind = Literal["same", "gone", "new", "skipped"]
_CONTEXT = 3
"""Equal lines shown around a change."""
_MAX_LINES = 2_000
_MAX_LINE = 4_000
_MAX_WORDS = 400
"""A longer line is marked as a whole: comparing words takes the square of their number."""
_MAX_WORK = 200_000
"""Maximum pairs of words compared in total."""
_ALIKE = 0.3
"""Lines that share less than this are different lines, not a changed one."""
_WORDS = re.compile(r"[A-Za-z0-9_]+|\s+|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class DiffSpan:
    """A stretch of a line; a marked one occurs in this line only."""

    text: str
    marked: bool = False


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a difference; ``skipped`` stands for ``count`` equal ones."""

    kind: LineKind
    pieces: tuple[DiffSpan, ...] = ()
    count: int = 0

    @property
    def text(self) -> str:
        """The whole line."""
        return "".join(piece.text for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class TextDifference:
    """What changed; ``cut`` tells that a text was too long to be compared whole."""

    lines: tuple[DiffLine, ...]
    cut: bool = False


def difference(before: str, after: str) -> TextDifference:
    """Compare two texts; only what changed and a little around it is given."""
    if before == after:
        return TextDifference(())
    old, old_cut = _lines(before)
    new, new_cut = _lines(after)
    return TextDifference(tuple(_compared(old, new)), old_cut or new_cut)


def _lines(text: str) -> tuple[list[str], bool]:
    lines = text.replace("\r\n", "\n").split("\n")
    cut = len(lines) > _MAX_LINES or any(len(line) > _MAX_LINE for line in lines)
    return [line[:_MAX_LINE] for line in lines[:_MAX_LINES]], cut


def _compared(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffLine]:
    work = _MAX_WORK
    steps = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for at, (kind, a, b, c, d) in enumerate(steps):
        if kind == "equal":
            yield from _around(old[a:b], first=at == 0, last=at == len(steps) - 1)
            continue
        gone, came = list[DiffLine](), list[DiffLine]()
        for left, right in zip(old[a:b], new[c:d], strict=False):
            pair, spent = _words(left, right, work)
            work -= spent
            gone.append(pair[0])
            came.append(pair[1])
        paired = len(gone)
        gone += [_whole("gone", line) for line in old[a + paired : b]]
        came += [_whole("new", line) for line in new[c + paired : d]]
        yield from gone
        yield from came


def _around(lines: Sequence[str], *, first: bool, last: bool) -> Iterator[DiffLine]:
    """Show the edges of equal lines that touch a change."""
    head = 0 if first else _CONTEXT
    tail = 0 if last else _CONTEXT
    if len(lines) <= head + tail + 1:
        yield from (_whole("same", line) for line in lines)
        return
    yield from (_whole("same", line) for line in lines[:head])
    yield DiffLine("skipped", count=len(lines) - head - tail)
    yield from (_whole("same", line) for line in lines[len(lines) - tail :])


def _whole(kind: LineKind, line: str) -> DiffLine:
    return DiffLine(kind, (DiffSpan(line),))


def _words(left: str, right: str, work: int) -> tuple[tuple[DiffLine, DiffLine], int]:
    """Mark the words that differ in a line that was changed; give what comparing them took."""
    plain = (_whole("gone", left), _whole("new", right))
    old, new = _WORDS.findall(left), _WORDS.findall(right)
    cost = len(old) * len(new)
    if max(len(old), len(new)) > _MAX_WORDS or cost > work:
        return plain, 0
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return plain, cost
    gone, came = list[DiffSpan](), list[DiffSpan]()
    for kind, a, b, c, d in matcher.get_opcodes():
        same = kind == "equal"
        if a < b:
            gone.append(DiffSpan("".join(old[a:b]), not same))
        if c < d:
            came.append(DiffSpan("".join(new[c:d]), not same))
    return (DiffLine("gone", tuple(gone)), DiffLine("new", tuple(came))), cost
