"""Partition of a text into segments that, joined in order, give exactly the same text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from personalab.lab.dimensions import Dimension
from personalab.lab.findings import SegmentType

Kind = Literal["marked", "heading", "list", "code", "text"]

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE = re.compile(r"[ \t]*(?:(`{3,})[^`\n]*|(~{3,}).*)(?:\n|$)")
_WORD = re.compile(r"\w")
_CLOSING = re.compile("[。．.！!？?；;，,、…:：”’）)】\\]」』]*")
_SIGNS_TO_THE_END = re.compile(r"[^\w\n]*+(?=\n|\Z)")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_ITEM = re.compile(
    r"[ \t]*(?:[-*+•·][ \t]+|\d{1,3}[.)、．](?!\d)"
    r"|[（(][\d一二三四五六七八九十]{1,3}[)）]|[一二三四五六七八九十]{1,3}、)"
)
_BEFORE_A_MARK = re.compile(r"[^\w\n]*+(?:\d{1,3}[.)、．])?[^\w\n]*+")
"""Bullets, numbers and signs that may precede a mark in its line and belong to it."""
_LONG_LINE = 80
"""A line with more characters is numbered sentence by sentence."""
_SHORTEST_SENTENCE = 8
_SENTENCE_END = re.compile(r"[。！？；…]+[”’）】」』]*|[.!?;]+[\"')\]]*(?=\s)")


@dataclass(frozen=True, slots=True)
class Mark:
    """A stretch of a skill that somebody gave a name."""

    segment_id: str
    start: int
    end: int
    type: SegmentType = "instruction"
    dimension: Dimension | None = None


@dataclass(frozen=True, slots=True)
class TextSegment:
    """A piece of a text; the white space after it belongs to it, and so it does before the first.

    ``core_start`` and ``core_end`` tell where it is without that. ``marked`` names the marks in it: more than one
    where they overlap.
    """

    text: str
    start: int
    end: int
    kind: Kind
    marked: tuple[str, ...]
    core_start: int
    core_end: int

    @property
    def core(self) -> str:
        """The piece itself."""
        return self.text[self.core_start - self.start : self.core_end - self.start]

    @property
    def after(self) -> str:
        """The white space after it."""
        return self.text[self.core_end - self.start :]


_Span = tuple[int, int]
_Core = tuple[int, int, Kind, tuple[str, ...]]
_Marked = tuple[int, int, tuple[str, ...]]


def partition(content: str, marks: Sequence[Mark] = ()) -> list[TextSegment]:
    """Cut a text into pieces that together are the text.

    Marked stretches are pieces of their own, with the signs around them. Those that overlap are one, and one that
    reaches into a code block takes the whole block along. The rest is cut at blank lines, headings, lists and code
    blocks; a heading stays with what it is over.
    """
    if not content:
        return []
    cores = _cores(content, marks)
    if not cores:
        return [TextSegment(content, 0, len(content), "text", (), 0, len(content))]
    starts = [0, *(core[0] for core in cores[1:]), len(content)]
    return [
        TextSegment(content[start:end], start, end, kind, marked, core_start, core_end)
        for (core_start, core_end, kind, marked), (start, end) in zip(cores, pairwise(starts), strict=True)
    ]


def _cores(content: str, marks: Sequence[Mark]) -> list[_Core]:
    units = list(_units(content))
    fences = [(start, end) for start, end, kind in units if kind == "code"]
    marked = _merged([_widened(content, mark, fences) for mark in marks if mark.start < mark.end])
    found: list[_Core] = [(start, end, "marked", ids) for start, end, ids in marked]
    taken = [(start, end) for start, end, _ in marked]
    for start, end, kind in _blocks(content, units):
        for gap in _gaps(start, end, taken):
            # What has no word in it, like a rule or a comma, is a separator; in code it may mean something.
            if _WORD.search(content, *gap) or (kind == "code" and content[slice(*gap)].strip()):
                found.append((*_stripped(content, *gap), kind, ()))
    return sorted(found)


def _widened(content: str, mark: Mark, fences: Sequence[_Span]) -> _Marked:
    """Take along the signs around a mark in its line, and the code blocks it reaches into."""
    start, end = max(mark.start, 0), min(mark.end, len(content))
    line = content.rfind("\n", 0, start) + 1
    if _BEFORE_A_MARK.fullmatch(content, line, start):
        start = line
    if content[end - 1] != "\n":
        signs = _SIGNS_TO_THE_END.match(content, end) or _CLOSING.match(content, end)
        end += len(signs[0].rstrip()) if signs else 0
    touched = [fence for fence in fences if fence[0] < end and start < fence[1]]
    start = min([start, *(fence[0] for fence in touched)])
    end = max([end, *(_stripped(content, *fence)[1] for fence in touched)])
    return start, end, (mark.segment_id,)


def _merged(marked: Iterable[_Marked]) -> list[_Marked]:
    merged: list[_Marked] = []
    for start, end, ids in sorted(marked):
        if merged and start < merged[-1][1]:
            before = merged.pop()
            merged.append((before[0], max(before[1], end), tuple(dict.fromkeys((*before[2], *ids)))))
        else:
            merged.append((start, end, ids))
    return merged


def _gaps(start: int, end: int, taken: Sequence[_Span]) -> Iterator[_Span]:
    at = start
    for taken_start, taken_end in taken:
        if taken_start >= end:
            break
        if at < taken_start:
            yield at, taken_start
        at = max(at, taken_end)
    if at < end:
        yield at, end


def _stripped(content: str, start: int, end: int) -> _Span:
    """Leave out the white space around a stretch, but not the indentation of a line that begins in it."""
    body = content[start:end]
    lead = len(body) - len(body.lstrip())
    broken = body.rfind("\n", 0, lead)
    begins_line = start == 0 or content[start - 1] == "\n"
    first = broken + 1 if broken >= 0 or begins_line else lead
    return start + first, start + len(body.rstrip())


def _units(content: str) -> Iterator[tuple[int, int, Kind | None]]:
    """Yield a text line by line, a code block in one; ``None`` is a blank line."""
    fence, begun = "", 0
    for found in _LINE.finditer(content):
        line, opening = found[0], _FENCE.fullmatch(found[0])
        sign = (opening[1] or opening[2]) if opening else ""
        if fence:
            if sign.startswith(fence) and line.strip() == sign:
                yield begun, found.end(), "code"
                fence = ""
        elif sign:
            fence, begun = sign, found.start()
        else:
            yield found.start(), found.end(), _kind(line)
    if fence:
        yield begun, len(content), "code"


def _kind(line: str) -> Kind | None:
    if not line.strip():
        return None
    if _HEADING.match(line):
        return "heading"
    return "list" if _ITEM.match(line) else "text"


def _blocks(content: str, units: Iterable[tuple[int, int, Kind | None]]) -> list[tuple[int, int, Kind]]:
    found: list[tuple[int, int, Kind]] = []
    is_apart = True
    for start, end, kind in units:
        if kind is None:
            is_apart = True
            continue
        begun, last = (found[-1][0], found[-1][2]) if found else (start, None)
        is_under = last == "heading" and kind != "heading"
        goes_on = kind == last and kind in ("list", "text")
        goes_on = goes_on or (last == "list" and kind == "text" and content[start] in " \t\u3000")
        if is_under or (goes_on and not is_apart):
            found[-1] = (begun, end, kind if is_under else last or kind)
        else:
            found.append((start, end, kind))
        is_apart = kind == "code"
    return found


# --- numbering


def numbered_spans(text: str) -> list[tuple[int, int]]:
    """Find the lines of a text that are not blank, without the white space around them; long ones by sentences."""
    found: list[_Span] = []
    for line in _LINE.finditer(text):
        for start, end in _sentences(text, *line.span()):
            part = text[start:end]
            if core := part.strip():
                start += len(part) - len(part.lstrip())
                found.append((start, start + len(core)))
    return found


def _sentences(text: str, start: int, end: int) -> Iterator[_Span]:
    if end - start > _LONG_LINE:
        for found in _SENTENCE_END.finditer(text, start, end):
            # A number before the text of an item, such as "1.", is no sentence.
            if len(text[start : found.end()].strip()) > _SHORTEST_SENTENCE:
                yield start, found.end()
                start = found.end()
    yield start, end
