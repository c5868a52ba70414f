"""Prompts and answer checks for a character that grows by its experiences.

The model receives the original persona (which never changes), the current one, and the last turns; it answers
as JSON with the new text and the changes in it, each with the turns it is based on. The answer is validated
here, because a model may answer anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal, TypedDict, cast

from personalab.answer_schema import (
    AnswerSchema,
    list_schema,
    object_schema,
    text_schema,
    whole_number_schema,
)
from personalab.dialogue import (
    HEADING,
    Message,
    indented_block,
    is_in,
    object_in,
    whole_numbers,
    without_indentation,
)
from personalab.errors import Invalid, UserError
from personalab.story.prompt import turn_text
from personalab.story.quantities import figure_in
from personalab.story.summary import as_material
from personalab.story.transcript import Transcript, Turn
from personalab.texts import PromptLanguage, fill

LAST_TURNS = 20
"""Number of answered turns that are considered."""
MAX_PERSONA = 8_000
MAX_CHANGES = 20
"""More changes at once are another character."""
MAX_CHANGE = 1_000
NONE = "–"
"""Stands for a persona that has not grown yet."""

Count = Callable[[str], int]
Templates = Mapping[str, str]

_CUT = " … "
_LEAST_TURN = 40
"""Tokens of a turn below which it says nothing any more."""
_LONG_BASE = 40
"""Minimum length of a base persona whose occurrence in a text means that it was copied."""
_MARKER = re.compile(r"[\[［【]\s*PROGRESS\b", re.IGNORECASE)
_REFUSAL = re.compile(
    r"\s*(?:I(?:['’]m| am) (?:very |really )?sorry\b.{0,60}(?:can['’]?t|cannot|unable)"
    r"|I(?: can['’]?t| cannot| am unable to|['’]m unable to) (?:help|assist|comply|continue|fulfil|do|write|provide)"
    r"|As an? (?:AI|artificial|large language)\b"
    r"|(?:很|非常)?(?:对不起|抱歉).{0,20}(?:不能|无法|没办法|没法)"
    r"|作为(?:一个|一名|一款)?\s*(?:AI|人工智能|大?语言模型)"
    r"|我(?:不能|无法)(?:协助|帮助|满足|完成|提供|继续))",
    re.IGNORECASE | re.DOTALL,
)
_SENTENCE_END = re.compile(
    r"(?<=[。！？!?…])(?![。！？!?…”’」』）)\"'])|(?<=[.])(?=\s)|(?<=[”’」』）)\"'])(?<=[。！？.!?].)|\n"
)


@dataclass(frozen=True, slots=True)
class PersonaChange:
    """One thing that has changed in a character, and the turns that changed it."""

    change: str
    turns: tuple[int, ...]

    @classmethod
    def read(cls, data: object) -> PersonaChange:
        """Read it from its JSON value."""
        given = cast("dict[str, object]", data) if isinstance(data, dict) else {}
        change, turns = given.get("change"), given.get("turns")
        if isinstance(change, str) and isinstance(turns, list):
            rows = cast("list[object]", turns)
            numbers = tuple(turn for turn in rows if isinstance(turn, int))
            if len(numbers) == len(rows):
                return cls(change, numbers)
        raise Invalid("change_incomplete")

    def fields(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {"change": self.change, "turns": list(self.turns)}


@dataclass(frozen=True, slots=True)
class Evolution:
    """Who a character has become, and by what; without changes it is who it was."""

    evolved_persona: str
    changes: tuple[PersonaChange, ...]


class DiffPart(TypedDict):
    """A sentence that stayed, came or went."""

    op: Literal["same", "add", "remove"]
    text: str


# --- what the model reads


def turns_to_learn_from(transcript: Transcript) -> list[Turn]:
    """Pick the newest turns that were said and answered."""
    told = [turn for turn in transcript.turns if turn.user is not None and turn.answer is not None]
    return told[-LAST_TURNS:]


def evolve_messages(
    base: str, old: str, turns: Sequence[Turn], templates: Templates, count: Count, budget: int
) -> list[Message]:
    """Ask who the character has become; long turns are cut so that everything fits the budget."""

    def asked(conversation: str) -> list[Message]:
        text = fill(
            templates["evolve"],
            base=indented_block(base),
            evolved=indented_block(old.strip()) or NONE,
            conversation=conversation,
            first=turns[0].number,
            last=turns[-1].number,
            max_changes=MAX_CHANGES,
            max_characters=MAX_PERSONA,
        )
        return [{"role": "system", "content": templates["evolve_system"]}, {"role": "user", "content": text}]

    used = sum(count(message["content"]) for message in asked(""))
    if used + _LEAST_TURN * len(turns) > budget:
        raise UserError("persona_too_long", actual=used, limit=budget)
    texts = [turn_text(as_material(turn), templates) for turn in turns]
    return asked("".join(_fitting(texts, count, budget - used)).rstrip("\n"))


def _fitting(texts: Sequence[str], count: Count, budget: int) -> list[str]:
    """Cut the longest texts to one length, so that all of them fit and short ones stay whole."""
    costs = [count(text) for text in texts]
    left, limit = budget, budget
    for place, cost in enumerate(sorted(costs)):
        limit = left // (len(costs) - place)
        if cost > limit:
            break
        left -= cost
    return [
        text if cost <= limit else _shortened(text, cost, count, limit)
        for text, cost in zip(texts, costs, strict=True)
    ]


def _shortened(text: str, cost: int, count: Count, limit: int) -> str:
    """Take out the middle: a turn begins with what was said and ends with what was answered."""
    size = len(text) * limit // cost
    while size > 1:
        half = size // 2
        shorter = f"{text[:half]}{_CUT}{text[len(text) - half :].rstrip()}\n\n"
        if (cost := count(shorter)) <= limit:
            return shorter
        size = min(size - 1, size * limit // cost)
    return _CUT


# --- what the model answers


def evolution_schema(shown: Collection[int]) -> AnswerSchema:
    """Return the JSON schema of the persona that ``read_evolution`` reads."""
    change = object_schema(
        change=text_schema(at_most=MAX_CHANGE),
        turns=list_schema(whole_number_schema(shown), at_least=1, at_most=len(shown)),
    )
    schema = object_schema(
        evolved_persona=text_schema(at_least=0, at_most=MAX_PERSONA),
        changes=list_schema(change, at_most=MAX_CHANGES),
    )
    return AnswerSchema("evolved_persona", schema)


def read_evolution(
    answer: str, shown: Collection[int], base: str, old: str, language: PromptLanguage
) -> Evolution:
    """Read the new persona and its changes, which rest on ``shown`` turns; ``ValueError`` says what is wrong."""
    given = object_in(answer, "evolved_persona")
    text = given.get("evolved_persona")
    if not isinstance(text, str):
        raise Invalid("quoted_missing_or_not_text", field="evolved_persona")
    text = _clean(without_indentation(text))
    rows = _listed(given.get("changes"))
    if text == _clean(old) or (not rows and _folded(text) == _folded(old)):
        if rows:
            raise Invalid("changes_unfounded")
        return Evolution(old, ())
    _check_persona(text, base, language)
    if not rows:
        raise Invalid("changes_unnamed")
    if len(rows) > MAX_CHANGES:
        raise Invalid("changes_over", count=len(rows), limit=MAX_CHANGES)
    changes = [_change(row, place, shown, language) for place, row in enumerate(rows, start=1)]
    return Evolution(text, tuple(changes))


def _listed(changes: object) -> list[object]:
    """Read the list of changes: left out where there are none, and one alone needs no list."""
    if changes is None or isinstance(changes, dict):
        return [] if changes is None else [cast("object", changes)]
    if not isinstance(changes, list):
        raise Invalid("no_list_in_json", field="changes")
    return cast("list[object]", changes)


def _check_persona(text: str, base: str, language: PromptLanguage) -> None:
    if not text:
        raise Invalid("quoted_blank", field="evolved_persona")
    if len(text) > MAX_PERSONA:
        raise Invalid("quoted_too_long", field="evolved_persona", count=len(text), limit=MAX_PERSONA)
    if _REFUSAL.match(text):
        raise Invalid("persona_refused")
    made, grown = _folded(base), _folded(text)
    if made and (grown == made or (len(made) > _LONG_BASE and made in grown)):
        raise Invalid("persona_repeated")
    _check_words(text, '"evolved_persona"', language)


def _check_words(text: str, what: str, language: PromptLanguage) -> None:
    if not is_in(language, text):
        raise Invalid("story_language", what=what, language=language)
    if any(map(HEADING.match, text.splitlines())):
        raise Invalid("heading_inside", what=what)
    if _MARKER.search(text):
        raise Invalid("marker_inside", what=what)
    if (figure := figure_in(text)) is not None:
        raise Invalid("trait_in_figures", what=what, figure=figure[:40])


def _change(data: object, place: int, shown: Collection[int], language: PromptLanguage) -> PersonaChange:
    if not isinstance(data, dict):
        raise Invalid("change_not_object", place=place)
    given = cast("dict[str, object]", data)
    text = given.get("change")
    if not isinstance(text, str) or not (text := _clean(text)):
        raise Invalid("change_without_text", place=place)
    if len(text) > MAX_CHANGE:
        raise Invalid("change_too_long", place=place, count=len(text), limit=MAX_CHANGE)
    _check_words(text, f"change {place}", language)
    turns: object = given.get("turns")
    if turns is None and len(set(shown)) == 1:
        turns = list(shown)
    try:
        numbers = whole_numbers(turns)
    except ValueError:
        numbers = []
    if not numbers or not set(numbers) <= set(shown):
        said = json.dumps(turns, ensure_ascii=False, default=str)[:80]
        known = ", ".join(map(str, sorted(set(shown))))
        raise Invalid("change_turns", place=place, value=said, known=known)
    return PersonaChange(text, tuple(sorted(set(numbers))))


def _clean(text: str) -> str:
    """Make a text storable: neither half pairs nor the character 0 can be."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8").strip()


def _folded(text: str) -> str:
    return "".join(text.split()).casefold()


# --- what is shown of it


def sentences(text: str) -> list[str]:
    """Cut a text behind the ends of its sentences and lines."""
    return [part.strip() for part in _SENTENCE_END.split(text) if part and part.strip()]


def diff(before: str, after: str) -> list[DiffPart]:
    """Compare two texts sentence by sentence."""
    old, new = sentences(before), sentences(after)
    parts: list[DiffPart] = []
    for op, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new, False).get_opcodes():
        if op == "equal":
            parts += [DiffPart(op="same", text=text) for text in old[old_from:old_to]]
            continue
        parts += [DiffPart(op="remove", text=text) for text in old[old_from:old_to]]
        parts += [DiffPart(op="add", text=text) for text in new[new_from:new_to]]
    return parts
