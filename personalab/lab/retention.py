"""Parser for retention rules, which name the segments to keep and to drop.

Rules are free text. Only the names of segments in it are binding, and those are enforced; the rest is for the
writer. Losing a segment is worse than asking back: only a short, known clause drops, and a clause that names
segments and is not understood with certainty is refused.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from personalab.errors import UserError
from personalab.lab import retention_words as words

Wish = Literal["keep", "drop", "neither"]
Reading = Literal["keep", "spare", "drop", "deny", "not", "change", "bare", "label", "unclear"]

_KEEPING = {"keep", "spare", "bare", "label"}

MAX_RULES = 20_000
_QUOTED = 120
_MOST = 100
"""Clauses in a sentence; each is held against the others."""

_SPACE = r"[^\S\n]*"
_NAME = re.compile(
    r"(?<![A-Za-z0-9_])(?:segments?|segs?|片段)(?:[_\-#.]|[^\S\n])*(\d{1,6})(?![A-Za-z0-9_])",
    re.ASCII | re.IGNORECASE,
)
_NUMBER = re.compile(r"(\d{1,6})(?![A-Za-z0-9_%])", re.ASCII)
_TO = re.compile(
    rf"{_SPACE}(?:-{{1,2}}|~|\bto\b|\bthrough\b|\bthru\b|一?直?到|至|\.{{2,3}}){_SPACE}", re.IGNORECASE
)
_AND = re.compile(
    rf"{_SPACE}(?:(?:[,、/&+]|\b(?:and also|and|or|plus|as well as|along with|together with|but also)\b"
    rf"|以及|还有|或者|连同|和|与|及|或|跟){_SPACE})*",
    re.IGNORECASE,
)
_AFTER_NUMBER = re.compile(
    r"\s*(?:$|[,、/&+;。.!?)\-~]|\b(?:and|or|to)\b|和|与|及|或|到|至|都|也)", re.IGNORECASE
)
_BULLET = re.compile(r"(?m)^[^\S\n]*(?:[-*•·>]+|\(?\d{1,3}[.)、](?!\d))[^\S\n]*")
_SENTENCE = re.compile(r"(?<=[。;!?\n])|(?<=\.)(?=\s|$)")
_CLAUSE = re.compile(
    rf"[,、…]|(?<!{words.N}):(?!\s*{words.N})|\b(?:and|but|while|whereas|then|yet|though|although)\b"
    rf"|(?<!不)但是?|不过|而且|并且|同时|然后|以及"
    rf"|(?<={words.N})\s+(?=(?:keep|retain|保留)\s*{words.N})"
    rf"|(?<={words.N})\s*(?:和|与|及|且|(?:并|而)(?![不非没无未]))",
    re.IGNORECASE,
)
_ASIDE = re.compile(r"\(([^()]*)\)")
_BROKEN = re.compile(r"(?:[,、:]|\b(?:and|or|not|to|the|but|except)|和|或|与|及|不|但)$", re.IGNORECASE)
_MARK = re.compile(words.N)
_NAMES_ASIDE = re.compile(rf"({words.N})?\s*\(\s*({words.N})\s*\)")


@dataclass(frozen=True, slots=True)
class Retention:
    """What rules demand; segments they do not name, or only want changed, are free."""

    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


def read_retention(rules: str, known: Iterable[str]) -> Retention:
    """Read rules; what names an unknown segment, contradicts itself or is not surely understood is refused."""
    if len(rules) > MAX_RULES:
        raise UserError("input_too_long", actual=len(rules), limit=MAX_RULES)
    text, groups = _with_marks(_plain(rules), tuple(known))
    wishes: dict[str, Wish] = {}
    for mark, wish in _wishes(_without_asides(text), groups):
        for name in groups[mark]:
            if wishes.setdefault(name, wish) != wish:
                raise UserError("lab_retention_contradiction", segment=name)
    return Retention(
        tuple(name for name, wish in wishes.items() if wish == "keep"),
        tuple(name for name, wish in wishes.items() if wish == "drop"),
    )


# --- the names


def _plain(rules: str) -> str:
    """Write full-width and decorated text plainly, and lists as lines that go on."""
    text = unicodedata.normalize("NFKC", rules).replace("’", "'").replace("\\", "").replace("\r", "\n")
    text = "".join(sign for sign in text if unicodedata.category(sign) not in {"Cf", "Co", "Cs"})
    text = re.sub(r"[‐-―−]", "-", text)
    text = re.sub(r"\.{3,}", ", ", text)
    text = re.sub(r"[\"“”„「」『』《》【】\[\]`|]|\*\*|(?<![A-Za-z])'|'(?![A-Za-z])", " ", text)
    return _as_lines(text)


def _as_lines(text: str) -> str:
    """Join lists to the text above them, and a broken line to the next."""
    said, listed, headed, blank = "", False, False, False
    for line in text.split("\n"):
        found, bullet = _BULLET.sub("", line).strip(), bool(_BULLET.match(line))
        if not found:
            blank = True
            continue
        listed = headed and (bullet or (listed and not blank))
        if listed:
            said = said.rstrip(" .。;!") + (" " if said.endswith(":") else ", ") + found
        else:
            said += (" " if _goes_on(said) and not bullet else "\n") + found
            headed = not bullet
        if found.endswith(":"):
            headed = listed = True
        blank = False
    return said


def _goes_on(said: str) -> bool:
    """Whether the last line ends within a sentence."""
    last = re.split(r"[。;!?\n]|\.\s", said)[-1].strip()
    if not last or last.endswith("."):
        return False
    return bool(_BROKEN.search(last)) or not _NAME.search(last)


def _with_marks(text: str, known: tuple[str, ...]) -> tuple[str, dict[str, tuple[str, ...]]]:
    """Replace each list or range of names with one private-use character."""
    names = {int(found[1]): name for name in known if (found := re.fullmatch(r"seg_(\d{1,6})", name))}
    groups: dict[str, tuple[str, ...]] = {}
    parts: list[str] = []
    at = 0
    while found := _NAME.search(text, at):
        mark = chr(words.FIRST + len(groups))
        numbers, end = _listed(text, found, names)
        groups[mark] = tuple(_known(number, names) for number in numbers)
        parts += [text[at : found.start()], mark]
        at = end
    return "".join([*parts, text[at:]]), groups


def _known(number: int, names: Mapping[int, str]) -> str:
    if number not in names:
        told = ", ".join(names.values()) or "–"
        raise UserError("lab_unknown_segment", segment=f"seg_{number:03d}", known=told)
    return names[number]


def _listed(text: str, found: re.Match[str], names: Mapping[int, str]) -> tuple[list[int], int]:
    """Read on from a name: what is joined to it, and where that ends."""
    numbers, end = [int(found[1])], found.end()
    while True:
        if (to := _TO.match(text, end)) and (
            last := _NAME.match(text, to.end()) or _NUMBER.match(text, to.end())
        ):
            low, high = sorted((numbers[-1], int(last[1])))
            _known(low, names)
            _known(high, names)
            numbers += [number for number in range(low, high + 1) if _known(number, names)]
            end = last.end()
            continue
        joint = _AND.match(text, end)
        start = joint.end() if joint else end
        if start > end and (more := _NAME.match(text, start)):
            numbers, end = [*numbers, int(more[1])], more.end()
        elif start > end and text[end:start].strip() and (more := _NUMBER.match(text, start)):
            if len(more[1]) < 3 and not _AFTER_NUMBER.match(text, more.end()):
                raise _unclear(text[max(0, found.start() - 20) : more.end() + 20], {})
            numbers, end = [*numbers, int(more[1])], more.end()
        else:
            return numbers, end


def _without_asides(text: str) -> str:
    """Take away asides that demand nothing; the others are read like the rest."""

    def named(found: re.Match[str]) -> str:
        return f"{found[1]} ({found[2]}" if found[1] else f" {words.ASIDE}{found[2]}"

    def aside(found: re.Match[str]) -> str:
        said = found[1]
        signs = (words.DENY, words.LOSE, words.EXCEPT, words.KEEP, words.BROKEN_NAME, _MARK)
        return f", {said} ," if any(sign.search(said) for sign in signs) else " "

    return _ASIDE.sub(aside, _NAMES_ASIDE.sub(named, text))


# --- what is said of them


@dataclass(frozen=True, slots=True)
class _Clause:
    said: str
    mark: str
    """Stands for the names in it; blank if it has none."""
    reading: Reading

    def has(self, *signs: re.Pattern[str]) -> bool:
        return any(sign.search(self.said) for sign in signs)


@dataclass(frozen=True, slots=True)
class _Whole:
    """What the clauses of all sentences say together."""

    named: bool
    drops: bool
    keeps_only: bool
    """Whether nothing but keeping is said, so that names alone are kept."""


def _whole(clauses: list[_Clause]) -> _Whole:
    readings = {clause.reading for clause in clauses if clause.mark}
    against = any(clause.has(words.LOSE, words.DENY, words.EXCEPT) for clause in clauses if not clause.mark)
    return _Whole(
        bool(readings), bool(readings - _KEEPING - {"unclear"}), readings <= _KEEPING and not against
    )


def _wishes(text: str, groups: Mapping[str, tuple[str, ...]]) -> list[tuple[str, Wish]]:
    sentences = [(said, _clauses(said)) for said in _SENTENCE.split(text)]
    whole = _whole([clause for _, sentence in sentences for clause in sentence])
    found: list[tuple[str, Wish]] = []
    for said, sentence in sentences:
        last: Wish | None = None
        for at, clause in enumerate(sentence):
            if not clause.mark:
                if _loose_end(clause, whole):
                    raise _unclear(said, groups)
                continue
            wish = _wish(clause, at, sentence, last, whole)
            if wish is None:
                raise _unclear(said, groups)
            found.append((clause.mark, wish))
            last = wish
    return found


def _clauses(sentence: str) -> list[_Clause]:
    asked = sentence.rstrip().endswith("?")
    found: list[_Clause] = []
    parts = _CLAUSE.split(sentence)
    for part in parts:
        said = _plainer(part.strip(" \t\n。.;!?"))
        if said:
            marks = _MARK.findall(said)
            reading = "unclear" if asked or len(marks) > 1 or len(parts) > _MOST else _reading(said)
            found.append(_Clause(said, "".join(marks), reading))
    return found


def _plainer(said: str) -> str:
    for idiom, instead in words.IDIOMS:
        said = idiom.sub(instead, said)
    return said.strip()


def _reading(said: str) -> Reading:
    """Read a single clause: narrow patterns first, then a clause must neither deny nor drop."""
    if words.BROKEN_NAME.search(said) or _excepts(said):
        return "unclear"
    whole: tuple[tuple[re.Pattern[str], Reading], ...] = (
        (words.DROPS, "drop"),
        (words.DENIED, "deny"),
        (words.NOT_THIS, "not"),
        (words.REWRITES, "change"),
    )
    for pattern, reading in whole:
        if pattern.fullmatch(said):
            return reading
    if spared := words.SPARES.fullmatch(said):
        tail = spared["tail"] or spared["tail2"] or ""
        signs = (words.DENY, words.LOSE, words.CHANGE)
        return "unclear" if any(sign.search(tail) for sign in signs) else "spare"
    if words.DENY.search(said) or words.LOSE.search(said):
        return "unclear"
    if words.KEEPS.fullmatch(said):
        return "keep"
    if words.BARE.fullmatch(said):
        return "bare"
    if words.LABELLED.fullmatch(said) and not words.CHANGE.search(said):
        return "label"
    return "unclear"


def _excepts(said: str) -> bool:
    return bool(words.EXCEPT.search(re.sub(r"删除|去除|移除|剔除|排除", "", said)))


def _wish(clause: _Clause, at: int, sentence: list[_Clause], last: Wish | None, whole: _Whole) -> Wish | None:
    """Return a clause's intention among the others; ``None`` if that is not certain."""
    before, nameless = sentence[:at], [part for part in sentence if not part.mark]
    match clause.reading:
        case "keep":
            loses = any(part.has(words.LOSE) for part in before if part.reading not in {"drop", "spare"})
            return None if loses and words.INCLUDED.search(clause.said) else "keep"
        case "spare":
            return "keep"
        case "drop" | "change" | "deny":
            against = words.LOSE if clause.reading == "deny" else words.DENY
            denied = any(part.has(against, words.EXCEPT) for part in before if not _agree(part, clause))
            if denied or any(part.has(words.IF) for part in sentence) or not all(map(_harmless, nameless)):
                return None
            return "neither" if clause.reading == "change" else "drop"
        case "not":
            return "drop" if before and before[-1].reading == "keep" and last == "keep" else None
        case "bare" if last is None:
            return "keep" if whole.keeps_only else None
        case "bare":
            return last
        case "label":
            return "keep" if last == "keep" else None
        case "unclear":
            return None


def _agree(one: _Clause, other: _Clause) -> bool:
    """Whether both drop, and in the same way."""
    return one.reading == other.reading or (one.reading == "drop" and other.reading == "deny")


def _harmless(clause: _Clause) -> bool:
    """Whether a clause without names changes nothing about one that drops: it speaks of the rest, or of nothing."""
    if words.HARMLESS.fullmatch(clause.said):
        return True
    return bool(words.REST.search(clause.said)) and not clause.has(words.DENY, words.EXCEPT, words.LOSE)


def _loose_end(clause: _Clause, whole: _Whole) -> bool:
    """Whether a clause without a name may speak of a segment all the same."""
    if words.BROKEN_NAME.search(clause.said):
        return True
    speaks = clause.has(words.DENY, words.LOSE, words.KEEP)
    if words.SPEAKS_OF_SEGMENTS.search(clause.said) and speaks:
        return True
    if not whole.named:
        return False
    alone = bool(words.VERB_ALONE.fullmatch(clause.said))
    back = bool(words.BACK.search(clause.said))
    opposes = clause.has(words.LOSE) or (whole.drops and speaks)
    return (alone and (opposes or clause.has(words.DENY))) or (back and opposes)


def _unclear(said: str, groups: Mapping[str, tuple[str, ...]]) -> UserError:
    shown = "".join(" ".join(("", *groups[sign], "")) if sign in groups else sign for sign in said)
    return UserError(
        "lab_retention_unclear", clause=" ".join(shown.replace(words.ASIDE, "").split())[:_QUOTED]
    )
