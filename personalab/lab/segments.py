"""Pools of segments from several skills, and composition of skills from chosen segments.

A skill is cut so that its segments, joined in order, are exactly its text. Segments of several skills form a
pool; any set of them can be joined, and the whole set of one skill gives that skill back unchanged.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from personalab.errors import BadRecord, UserError, pydantic_reason
from personalab.lab.cutting import Kind, Mark, TextSegment, partition
from personalab.lab.dimensions import Dimension
from personalab.lab.findings import AdvantageSegment, SegmentType

__all__ = [
    "Mark",
    "PoolSegment",
    "SegmentPosition",
    "TextSegment",
    "compose",
    "find_exact",
    "marks_of",
    "partition",
    "pool",
    "resolved",
    "text_hash",
]

_ROLE = re.compile(
    r"\W*+(?:role\b|角色|人设|你是|你扮演|你将扮演|作为一[名个位]|you are |you play |act as )", re.IGNORECASE
)
_ID = re.compile(r"seg_(\d{3,6})", re.ASCII)


@dataclass(frozen=True, slots=True)
class SegmentPosition:
    """A segment's position: its skill, its index, its depth (0 to 1), and its white space."""

    skill_id: str
    skill_order: int
    index: int
    depth: float
    text: str
    after: str


@dataclass(frozen=True, slots=True)
class PoolSegment:
    """A piece that skills can be put together from; ``also`` are further names of it."""

    segment_id: str
    skill_id: str
    text: str
    dimension: Dimension | None
    type: SegmentType
    also: tuple[str, ...]
    places: tuple[SegmentPosition, ...]

    def fields(self) -> dict[str, Any]:
        """Return it as JSON."""
        places = [{name: getattr(place, name) for name in SegmentPosition.__slots__} for place in self.places]
        return {name: getattr(self, name) for name in self.__slots__} | {
            "also": list(self.also),
            "places": places,
        }

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> PoolSegment:
        """Read what ``fields`` gave, and refuse anything else."""
        try:
            return _reader().validate_python(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(["segments", *(str(step) for step in first["loc"])])
            raise BadRecord(
                "lab_bad_record", file="x_iteration.json", field=field, reason=pydantic_reason(first)
            ) from error


@cache
def _reader() -> TypeAdapter[PoolSegment]:
    return TypeAdapter(PoolSegment)


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
            place = SegmentPosition(skill_id, order, index, part.start / len(content), part.text, part.after)
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


def resolved(pieces: Sequence[PoolSegment], ids: Iterable[str]) -> list[PoolSegment]:
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
    chosen = resolved(pieces, ids)
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
