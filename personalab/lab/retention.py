"""Which segments a recomposition or an iteration has to keep, and which it has to drop.

They are given as lists, or by a sentence in the documented form: ``keep seg_001 to seg_003; drop seg_005``.
Other text is for the writer. Losing a segment is worse than asking back: a sentence that names segments in
another form is refused, and so is text beside it that could change what it means.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from personalab.errors import UserError

MAX_RULES = 20_000
_QUOTED = 120

_NAME = r"(?:segment|seg|片段)[\s_\-]*(\d{1,6})(?!\w)"
_ASIDE = re.compile(rf"({_NAME})\s*\(([^()]*)\)", re.IGNORECASE)
_SENTENCE = re.compile(r"[;。!\n]|\.(?=\s|$)")
_CLAUSE = re.compile(r"[,、]|\band\b|和|与|及", re.IGNORECASE)
_WISH = re.compile(
    r"(?:please |请)?(?:(?P<keep>(?:must )?keep|(?:必须|务必)?保留)|(?P<drop>drop|remove|delete|去掉|删除))?\s*"
    rf"{_NAME}(?:\s*(?:to|到|至|-|~)\s*{_NAME})?",
    re.IGNORECASE,
)
_LOOKS_NAMED = re.compile(r"seg(?:ment)?s?[\s_\-#.]*\d|seg_|片段\s*\d|^\d", re.IGNORECASE)
_SPEAKS_OF_SEGMENTS = re.compile(r"片段|(?<![a-z])seg(?:ment)?s?(?![a-z])", re.IGNORECASE)
_KEEPS = re.compile(r"keep|retain|保留", re.IGNORECASE)
_REVERSES = re.compile(
    r"不|别|勿|无|没|未|非|禁|除|删|去|掉|移|丢|弃|错|算了"
    r"|\bnot?\b|n't\b|never|without|except|other than|all but|besides|circumstances|instead|unless|\bif\b|forbid"
    r"|drop|remov|delet|omit|discard|\bcut\b|skip|ignor|\brid\b|\blos[es]|exclud|cancel|kidding|forget",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Retention:
    """The segments to keep and to drop; all others are free."""

    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


def read_retention(
    rules: str, known: Iterable[str], *, keep: Sequence[str] = (), drop: Sequence[str] = ()
) -> Retention:
    """Return what lists and a text demand; unknown segments, contradictions and unclear sentences are refused."""
    if len(rules) > MAX_RULES:
        raise UserError("input_too_long", actual=len(rules), limit=MAX_RULES)
    names = {int(name.removeprefix("seg_")): name for name in known if re.fullmatch(r"seg_\d{1,6}", name)}
    wishes: dict[str, bool] = {}
    listed = ((name, keeps) for wanted, keeps in ((keep, True), (drop, False)) for name in wanted)
    for name, keeps in (*listed, *_read(rules, names)):
        if name not in names.values():
            raise _unknown(name, names)
        if wishes.setdefault(name, keeps) != keeps:
            raise UserError("lab_retention_contradiction", segment=name)
    return Retention(
        tuple(name for name, keeps in wishes.items() if keeps),
        tuple(name for name, keeps in wishes.items() if not keeps),
    )


def rules_text(rules: str, keep: Sequence[str], drop: Sequence[str]) -> str:
    """Write lists as a sentence in front of a text, for the files' only field."""
    lists = [f"{verb} {', '.join(names)}" for verb, names in (("keep", keep), ("drop", drop)) if names]
    return "\n".join(filter(None, ("; ".join(lists), rules)))


def _read(rules: str, names: Mapping[int, str]) -> Iterator[tuple[str, bool]]:
    """Read the clauses that name segments; no other text that could reverse them is allowed."""
    found: list[tuple[str, bool]] = []
    others: list[str] = []
    for sentence in _SENTENCE.split(_plain(rules)):
        keeps: bool | None = None
        for clause in filter(None, map(str.strip, _CLAUSE.split(sentence))):
            wish = _WISH.fullmatch(clause)
            if wish is None:
                others.append(clause)
                keeps = None
                continue
            if wish["keep"] or wish["drop"]:
                keeps = bool(wish["keep"])
            if keeps is None:
                raise _unclear(clause)
            found += [(name, keeps) for name in _named(int(wish[3]), int(wish[4] or wish[3]), names)]
    drops = not all(keeps for _, keeps in found)
    for clause in others:
        speaks = _SPEAKS_OF_SEGMENTS.search(clause) and (_KEEPS.search(clause) or _REVERSES.search(clause))
        if _LOOKS_NAMED.search(clause) or speaks or (found and (drops or _REVERSES.search(clause))):
            raise _unclear(clause)
    yield from found


def _plain(rules: str) -> str:
    """Write full-width text plainly, and leave out what a name is called in parentheses."""
    text = unicodedata.normalize("NFKC", rules).replace("’", "'")
    text = "".join(sign for sign in text if unicodedata.category(sign) != "Cf")
    return _ASIDE.sub(lambda found: found[1] if _is_label(found[3]) else found[0], text)


def _is_label(aside: str) -> bool:
    return not any(sign.search(aside) for sign in (_SPEAKS_OF_SEGMENTS, _LOOKS_NAMED, _REVERSES))


def _named(first: int, last: int, names: Mapping[int, str]) -> Iterator[str]:
    for number in range(min(first, last), max(first, last) + 1):
        if number not in names:
            raise _unknown(f"seg_{number:03d}", names)
        yield names[number]


def _unknown(name: str, names: Mapping[int, str]) -> UserError:
    return UserError("lab_unknown_segment", segment=name[:80], known=", ".join(names.values()) or "–")


def _unclear(clause: str) -> UserError:
    return UserError("lab_retention_unclear", clause=" ".join(clause.split())[:_QUOTED])
