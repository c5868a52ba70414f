"""Segments of texts: partition of a text, pools from several skills, and composition of skills from segments."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from personalab.errors import UserError
from personalab.lab.findings import AdvantageSegment, SegmentType
from personalab.lab.records import Dimension, Record

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


_ROLE = re.compile(
    r"\W*+(?:role\b|角色|人设|你是|你扮演|你将扮演|作为一[名个位]|you are |you play |act as )", re.IGNORECASE
)
_ID = re.compile(r"seg_(\d{3,6})", re.ASCII)


class SegmentPosition(Record):
    """A segment's position: its skill, its index, its depth (0 to 1), and its white space."""

    skill_id: str
    skill_order: int
    index: int
    depth: float
    text: str
    after: str


class PoolSegment(Record):
    """A piece that skills can be put together from; ``also`` are further names of it."""

    segment_id: str
    skill_id: str
    text: str
    dimension: Dimension | None
    type: SegmentType
    also: tuple[str, ...]
    places: tuple[SegmentPosition, ...]


# --- finding


def find_exact(content: str, quote: str) -> tuple[int, int] | None:
    """Find where a quote first occurs in a text, verbatim."""
    at = content.find(quote) if quote else -1
    return None if at < 0 else (at, at + len(quote))


def text_hash(text: str) -> str:
    """Hash a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def marks_of(segments: Iterable[AdvantageSegment], contents: Mapping[str, str]) -> dict[str, list[Mark]]:
    """Find the segments of an analysis in the skills, by skill id; a segment that is gone has no mark."""
    found: dict[str, list[Mark]] = {skill_id: [] for skill_id in contents}
    for segment in segments:
        span = find_exact(contents.get(segment.skill_id, ""), segment.content)
        if span is not None:
            found[segment.skill_id].append(Mark(segment.id, *span, segment.type, segment.dimension))
    return found


# --- pooling

_Key = tuple[str, int, str]


def pool(skills: Mapping[str, str], marks: Mapping[str, Sequence[Mark]] | None = None) -> list[PoolSegment]:
    """Cut skills, given by id, into segments to choose from; a segment of several skills is one."""
    marks = marks or {}
    known = {mark.segment_id: mark for rows in marks.values() for mark in rows}
    cuts = {skill_id: partition(content, marks.get(skill_id, ())) for skill_id, content in skills.items()}
    keys = _keys(cuts)
    same: dict[_Key, list[tuple[SegmentPosition, TextSegment]]] = {}
    for order, (skill_id, content) in enumerate(skills.items()):
        for index, (key, part) in enumerate(zip(keys[skill_id], cuts[skill_id], strict=True)):
            place = SegmentPosition(
                skill_id=skill_id,
                skill_order=order,
                index=index,
                depth=part.start / len(content),
                text=part.text,
                after=part.after,
            )
            same.setdefault(key, []).append((place, part))
    number = max((int(found[1]) for name in known if (found := _ID.fullmatch(name))), default=0)
    made: list[PoolSegment] = []
    for (core, *_), rows in same.items():
        names = tuple(dict.fromkeys(name for _, part in rows for name in part.marked))
        if not names:
            number += 1
        mark = known[names[0]] if names else None
        segment = PoolSegment(
            segment_id=names[0] if names else f"seg_{number:03d}",
            skill_id=rows[0][0].skill_id,
            text=core,
            dimension=mark.dimension if mark else None,
            type=mark.type if mark else _type_of(core, rows[0][1].kind),
            also=names[1:],
            places=tuple(place for place, _ in rows),
        )
        made.append(segment)
    return made


def _keys(cuts: Mapping[str, Sequence[TextSegment]]) -> dict[str, list[_Key]]:
    """Group segments that are the same: by their words, and by their ordinal among equal ones in a skill.

    Skills that are made of the same pieces in another way share none, so that a set of pieces means one skill.
    """
    found: dict[str, list[_Key]] = {}
    made: dict[frozenset[_Key], str] = {}
    for skill_id, parts in cuts.items():
        seen = Counter[str]()
        keys: list[_Key] = []
        for part in parts:
            seen[part.core] += 1
            keys.append((part.core, seen[part.core], ""))
        content = "".join(part.text for part in parts)
        if made.setdefault(frozenset(keys), content) != content:
            keys = [(core, number, skill_id) for core, number, _ in keys]
        found[skill_id] = keys
    return found


def _type_of(core: str, kind: Kind) -> SegmentType:
    if _ROLE.match(core):
        return "role"
    return "example" if kind == "code" else "instruction"


def resolve_segments(pieces: Sequence[PoolSegment], ids: Iterable[str]) -> list[PoolSegment]:
    """Find pieces by any of their names, each once, in the pool's order."""
    names = {name: piece.segment_id for piece in pieces for name in (piece.segment_id, *piece.also)}
    wanted = set(ids)
    if unknown := sorted(wanted - names.keys()):
        raise UserError("lab_unknown_segment", segment=unknown[0], known=", ".join(names))
    chosen = {names[name] for name in wanted}
    return [piece for piece in pieces if piece.segment_id in chosen]


# --- putting together


def compose(pieces: Sequence[PoolSegment], ids: Iterable[str]) -> str:
    """Join chosen segments, always in the same way.

    All pieces of one skill are that skill. Otherwise each skill's pieces keep their order, those of different skills
    are ordered by how far down they stood, a role at its skill's beginning comes first, and between pieces that did
    not follow each other there is one blank line.
    """
    chosen = resolve_segments(pieces, ids)
    if not chosen:
        return ""
    homes = _homes(pieces, chosen)
    places = _ordered(chosen, homes)
    home = places[0].skill_id
    whole = sorted(
        (place for piece in pieces for place in piece.places if place.skill_id == home),
        key=lambda place: place.index,
    )
    if sorted(places, key=lambda place: place.index) == whole:
        return "".join(place.text for place in whole)
    return "".join(
        _joined(place, following) for place, following in zip(places, [*places[1:], None], strict=True)
    )


def _homes(pieces: Sequence[PoolSegment], chosen: Sequence[PoolSegment]) -> dict[str, str]:
    """Decide for each segment which of its skills gives its position: the one with most of the others."""
    every = [{place.skill_id for place in piece.places} for piece in chosen]
    counts = {skill_id: sum(skill_id in found for found in every) for found in every for skill_id in found}
    sizes = dict.fromkeys(counts, 0)
    orders: dict[str, int] = {}
    for place in (place for piece in pieces for place in piece.places):
        orders[place.skill_id] = place.skill_order
    for piece in pieces:
        for skill_id in {place.skill_id for place in piece.places} & sizes.keys():
            sizes[skill_id] += 1
    # Of two skills that have all of the pieces, the one that has nothing else is meant.
    rank = {skill_id: (-counts[skill_id], sizes[skill_id], orders[skill_id]) for skill_id in counts}
    return {
        piece.segment_id: min(found, key=lambda skill_id: rank[skill_id])
        for piece, found in zip(chosen, every, strict=True)
    }


def _ordered(chosen: Sequence[PoolSegment], homes: Mapping[str, str]) -> list[SegmentPosition]:
    placed = [
        (place, piece.type)
        for piece in chosen
        for place in piece.places
        if place.skill_id == homes[piece.segment_id]
    ]
    placed.sort(key=lambda pair: (pair[0].skill_order, pair[0].index))
    keyed: list[tuple[float, int, int, SegmentPosition]] = []
    deepest: dict[str, float] = {}
    for place, kind in placed:
        own = -1.0 if kind == "role" else place.depth
        depth = deepest[place.skill_id] = max(own, deepest.get(place.skill_id, -1.0))
        keyed.append((depth, place.skill_order, place.index, place))
    return [place for *_, place in sorted(keyed, key=lambda row: row[:3])]


def _joined(place: SegmentPosition, following: SegmentPosition | None) -> str:
    """Return a piece with the white space that belongs between it and the next one."""
    core = place.text.removesuffix(place.after) if place.after else place.text
    if place.index == 0:
        core = core.lstrip("\r\n")
    if following is None:
        return core if core.endswith("\n") else f"{core}\n"
    if following.skill_id == place.skill_id and following.index == place.index + 1:
        return core + place.after
    return core + "\n" * (2 - min(2, len(core) - len(core.rstrip("\n"))))
