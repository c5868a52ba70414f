"""Which segments does a person's rule keep, and which does it drop?

Rules are free text in any language. Only the names of segments in it are binding, and those are enforced; the rest is
for whoever writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from personalab.errors import UserError

Wish = Literal["keep", "drop", "neither"]

_NAME = re.compile(r"(?<![A-Za-z0-9])seg[_\- ]?(\d{1,6})(?![A-Za-z0-9_])", re.ASCII | re.IGNORECASE)
_ASIDE = re.compile(r"（[^（）]*）|\([^()]*\)")
_CLAUSE = re.compile(r"[，,、。.；;！!？?\n]|\band\b|\bbut\b|但|和|并|且|而|与|及", re.IGNORECASE)
_NOT = re.compile(
    r"不(?![仅但光只同错论管])|(?<![特区分识级类个])别|勿|无需|无须|没必要"
    r"|\bnot\b(?! only)|n['’]t\b|\bnever\b|\bwithout\b|\bno\b",
    re.IGNORECASE,
)
_LOSE = re.compile(
    r"删|去掉|去除|移除|剔除|排除|丢|弃|缺|(?<!至)少|漏"
    r"|drop|remov|delet|omit|\blos[ei]|exclud|discard|leave out|leaving out",
    re.IGNORECASE,
)
_CHANGE = re.compile(r"改|变|动|chang|alter|modif|edit|touch|rewrit|replac", re.IGNORECASE)
_KEEP = re.compile(
    r"保留|保持|留下|包含|包括|含有|必须|需要|keep|kept|retain|includ|preserv|contain|must", re.IGNORECASE
)
_BETWEEN = re.compile(r"[\s，,、和与及跟&/]*+(?:and)?+\s*+", re.IGNORECASE)
"""What may stand between names that are said in one breath."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What rules demand; segments they do not name, or only want changed, are free."""

    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


def kept_segments(rules: str, known: Iterable[str]) -> tuple[str, ...]:
    """Name the segments that rules keep."""
    return read_retention(rules, known).kept


def read_retention(rules: str, known: Iterable[str]) -> Retention:
    """Read rules; a name that is not known, or is both kept and dropped, is refused.

    What is said before a name decides ("不要保留seg_003", "drop seg_003"), else what is said behind it
    ("把seg_003删掉"), else what was said about the name before it. "不要删除seg_003" keeps it.
    """
    wishes: dict[str, Wish] = {}
    names = tuple(known)
    for name, wish in _wishes(_ASIDE.sub(" ", rules)):
        if name not in names:
            raise UserError("lab_unknown_segment", segment=name, known=", ".join(names) or "–")
        if wish == "neither":
            continue
        if wishes.setdefault(name, wish) != wish:
            raise UserError("lab_retention_contradiction", segment=name)
    return Retention(
        tuple(name for name, wish in wishes.items() if wish == "keep"),
        tuple(name for name, wish in wishes.items() if wish == "drop"),
    )


def _wishes(rules: str) -> list[tuple[str, Wish]]:
    found: list[tuple[str, Wish]] = []
    names = list(_NAME.finditer(rules))
    ends = [*(name.start() for name in names[1:]), len(rules)]
    said_until, waiting = 0, list[str]()
    last: Wish = "keep"
    for name, end in zip(names, ends, strict=False):
        before = _CLAUSE.split(rules[said_until : name.start()])[-1]
        behind = _CLAUSE.split(rules[name.end() : end])[0]
        said_until = name.end()
        waiting.append(f"seg_{int(name[1]):03d}")
        wish = _wish(before)
        if wish is None and (wish := _wish(behind)) is not None:
            said_until += len(behind)
        # "seg_001、seg_002都不要": the first waits for what is said about both.
        if wish is None and end < len(rules) and _BETWEEN.fullmatch(rules, name.end(), end):
            continue
        if wish is not None:
            last = wish
        found.extend((waited, last) for waited in waiting)
        waiting = []
    return found


def _wish(said: str) -> Wish | None:
    """Read what a few words want; ``None`` if they want nothing."""
    not_, lose, change = (bool(sign.search(said)) for sign in (_NOT, _LOSE, _CHANGE))
    if lose or change:
        if not_:
            return "keep"
        return "drop" if lose else "neither"
    if not_:
        return "drop"
    return "keep" if _KEEP.search(said) else None
