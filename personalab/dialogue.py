"""Messages to a model, JSON in its answers, schemas of answers, and language detection.

These are the rules that every feature shares for talking to a model: the shape of a message, the JSON in an
answer, which a model may wrap in prose, whether a text is in the expected language, and well-formed Unicode.

Schemas are built from the few parts that every provider can enforce: every object lists all its fields as required
and allows no others, as OpenAI's strict mode demands. Patterns and references are left out: llama.cpp and others do
not enforce them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, cast

from personalab.errors import Because, Invalid, json_reason
from personalab.reasoning import begins_thinking, without_thoughts
from personalab.texts import PromptLanguage, fill

Role = Literal["system", "user", "assistant"]

_BEGIN = re.compile(r"(?i:</think(?:ing)?>)|\{(?=\s*[\"}])|\[(?=\s*[\[\]{\"\d\-tfn])")
"""Where JSON may begin, or a thought ends."""
_FENCE = "```"
_VAIN_WORK = 4_000_000
"""Maximum characters read in vain in search of JSON."""
_LEAST_TRY = 1_000
"""What a try is reckoned at that fails at once: to say where it failed, lines are counted from the beginning."""

_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
_HAN_SENTENCE = re.compile("[\u3400-\u9fff\uf900-\ufaff]{5}")
"""Longer than names are."""
_KANA_OR_HANGUL = re.compile("[\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u1100-\u11ff\uac00-\ud7af]")
_WORD = re.compile(r"[^\W\d_\u1100-\u11ff\u3041-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_LEAST_WORDS = 3
"""Fewer English words ("ok, thanks") are said in every language."""

HEADING = re.compile("[\\s\u200b-\u200f\u2060\ufeff]*[=＝]{3}")
"""Begins a line that a model takes for a heading of the prompt."""

_NUMBER = re.compile(r"\s*\[?(\d{1,9})\]?\s*", re.ASCII)
_CONTINUED = "\n    "
_SHOWN_ANSWER = 20_000


class Message(TypedDict):
    """A message as every chat model takes it."""

    role: Role
    content: str


def digest(messages: Sequence[Message]) -> str:
    """Name a question: the same messages have the same name."""
    said = json.dumps([[message["role"], message["content"]] for message in messages])
    return hashlib.sha256(said.encode("ascii")).hexdigest()[:32]


def repair_messages(asked: Sequence[Message], answer: str, reason: str, template: str) -> list[Message]:
    """Ask once more, saying what was wrong with the answer; its thoughts are not sent back."""
    return [
        *asked,
        {"role": "assistant", "content": without_thoughts(answer)[:_SHOWN_ANSWER] or "…"},
        {"role": "user", "content": fill(template, reason=reason)},
    ]


def indented(text: str) -> str:
    """Set off the lines after the first, so that none of them can be taken for a heading or another speaker."""
    return _CONTINUED.join(text.splitlines())


def indented_block(text: str) -> str:
    """Set off all lines, for a text that begins a line of its own; blank stays blank."""
    return _CONTINUED[1:] + indented(text) if text.strip() else ""


def without_indentation(text: str) -> str:
    """Undo what ``indented`` and ``indented_block`` added, for a model may copy it."""
    first, *rest = text.splitlines() or [""]
    if not all(line.startswith(_CONTINUED[1:]) for line in rest if line.strip()):
        return text
    return "\n".join([first.removeprefix(_CONTINUED[1:]), *(line[len(_CONTINUED) - 1 :] for line in rest)])


# --- the JSON in an answer


def json_of(answer: str, name: str = "") -> object:
    """Read the JSON value in an answer, among other words or not; ``ValueError`` says what is wrong with it.

    Of several values it is the last object that has the name, or else the last list of objects. What comes before the
    end of a thought is not a part of the answer.
    """
    if (whole := _whole(answer)) is not None:
        return whole
    values, wrong, begin = _values(answer)
    if not begin and begins_thinking(answer):
        raise Invalid("thinking_unfinished")
    text = answer[begin:]
    if (whole := _whole(text)) is not None:
        return whole
    named = [(value, end) for value, end in values if _has(value, name)]
    # What comes before an answer that is cut off is a draft; a list in one that is cut off is a part of it.
    if named and not (wrong and name and f'"{name}"' in answer[named[-1][1] :]):
        return named[-1][0]
    lists = [value for value, _ in values if not wrong and _holds_objects(value)]
    if lists and not named:
        return lists[-1]
    for part in reversed(text.split(_FENCE)[1:]):
        if (whole := _whole(part.removeprefix("json"))) is not None:
            return whole
    if wrong:
        raise Invalid("json_unreadable", reason=wrong)
    if name or not values:
        raise Invalid("no_json_with", field=name) if values else Invalid("no_json")
    return values[-1][0]


def _whole(text: str) -> object:
    """Read a text that is JSON and nothing else; ``None`` if it is not."""
    text = text.strip()
    if not text.startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _values(text: str) -> tuple[list[tuple[object, int]], Because | None, int]:
    """Read the values after the last end of a thought.

    Return each value with its end, the first thing wrong with the rest, and where the thoughts end. The end of a
    thought that is quoted inside a value does not count.
    """
    decoder, values, begin, vain, at = json.JSONDecoder(), list[tuple[object, int]](), 0, 0, 0
    wrong: Because | None = None
    while vain < _VAIN_WORK and (found := _BEGIN.search(text, at)) is not None:
        at = found.start()
        if found[0].startswith("<"):
            values, wrong, begin = [], None, found.end()
            at = begin
            continue
        try:
            value, at = decoder.raw_decode(text, at)
            values.append((value, at))
        except (ValueError, RecursionError) as error:
            wrong = wrong or json_reason(error)
            vain += max(getattr(error, "pos", at) - at, _LEAST_TRY)
            at += 1
    return values, wrong, begin


def _has(value: object, name: str) -> bool:
    return isinstance(value, dict) and (not name or name in value)


def _holds_objects(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in cast("list[object]", value))


def object_in(answer: str, name: str = "") -> dict[str, object]:
    """Read the JSON object in an answer, the one that has the name."""
    found = json_of(answer, name)
    if not isinstance(found, dict):
        raise Invalid("json_not_object")
    return cast("dict[str, object]", found)


def list_in(answer: str, name: str) -> list[object]:
    """Read a list in an answer: under its name in an object, or bare."""
    found = json_of(answer, name)
    return list_of(cast("dict[str, object]", found) if isinstance(found, dict) else {name: found}, name)


def list_of(found: dict[str, object], name: str) -> list[object]:
    """Read a list under its name."""
    value = found.get(name)
    if not isinstance(value, list):
        raise Invalid("no_list_in_json", field=name)
    return cast("list[object]", value)


def whole_numbers(value: object) -> list[int]:
    """Read a list of whole numbers, or one alone, whether they are written as numbers or as texts."""
    rows = cast("list[object]", value) if isinstance(value, list) else [value]
    return [_whole_number(row) for row in rows]


def _whole_number(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and (found := _NUMBER.fullmatch(value)) is not None:
        return int(found[1])
    shown = json.dumps(value, ensure_ascii=False, default=str)[:80]
    raise Invalid("field_not_whole", field=shown)


# --- the language of a text


def is_in(language: PromptLanguage, text: str) -> bool:
    """Return whether a text may be in a language: Chinese has Chinese characters, English few, for names at most."""
    if language == "zh":
        return _HAN.search(text) is not None
    foreign = len(_HAN.findall(text)) + len(_KANA_OR_HANGUL.findall(text))
    # Two such characters weigh as much as a word.
    return foreign == 0 or foreign < 2 * len(_WORD.findall(text))


def language_in(text: str) -> PromptLanguage | None:
    """Return which of the two a text is in; ``None`` if it mixes them, is in a third or has hardly a word."""
    if _KANA_OR_HANGUL.search(text):
        return None
    han = len(_HAN.findall(text))
    letters = sum(character.isalpha() for character in text)
    if han * 2 > letters:
        return "zh"
    if _HAN_SENTENCE.search(text) or han * 8 > letters:
        return None
    return "en" if len(_WORD.findall(text)) >= _LEAST_WORDS else None


def language_among(texts: Iterable[str]) -> PromptLanguage | None:
    """Return which of the two most of the texts are in, with equal weights; ``None`` if that is unclear.

    Who writes Chinese even once may paste any amount of English, so that is never taken for an English talk.
    """
    telling = [text for text in texts if _tells(text)]
    found = [language_in(text) for text in telling]
    if found.count("zh") * 2 > len(found):
        return "zh"
    return "en" if "zh" not in found and found.count("en") * 2 > len(found) else None


def _tells(text: str) -> bool:
    return bool(_HAN.search(text) or _KANA_OR_HANGUL.search(text)) or len(_WORD.findall(text)) >= _LEAST_WORDS


Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """The JSON schema that an answer has to fit; providers want a name with it."""

    name: str
    """ASCII letters, digits and underscores, at most 64."""
    schema: Mapping[str, Any]


def object_schema(**properties: Schema) -> Schema:
    """Describe an object with exactly these fields; a model writes them in this order."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def list_schema(items: Schema, *, at_least: int = 0, at_most: int | None = None) -> Schema:
    """Describe a list."""
    bounds = {"minItems": at_least or None, "maxItems": at_most}
    return {"type": "array", "items": items, **_given(bounds)}


def text_schema(*, at_least: int = 1, at_most: int | None = None) -> Schema:
    """Describe a text; the bounds are in characters and reach only providers that take them."""
    return {"type": "string", **_given({"minLength": at_least or None, "maxLength": at_most})}


def choice_schema(values: Iterable[str]) -> Schema:
    """Describe one of some words."""
    return {"type": "string", "enum": list(values)}


def whole_number_schema(allowed: Collection[int]) -> Schema:
    """Describe a whole number: one of those allowed, or one between them where they are too many to list."""
    numbers = sorted(set(allowed))
    if not numbers:
        return {"type": "integer"}
    low, high = numbers[0], numbers[-1]
    if len(numbers) == high - low + 1 or len(numbers) > _MAX_LISTED:
        return number_range_schema(low, high)
    return {"type": "integer", "enum": numbers}


def number_range_schema(low: int, high: int) -> Schema:
    """Describe a whole number from a range, which may be huge."""
    return {"type": "integer", "minimum": low, "maximum": high}


def share_schema() -> Schema:
    """Describe a number from 0 to 1 in steps of 0.05: llama.cpp enforces a list of numbers, but no bounds of them."""
    return {"type": "number", "enum": [step / 20 for step in range(21)]}


def any_schema(choices: list[Schema]) -> Schema:
    """Describe a value of one of some kinds; providers tell objects apart by the value of their first field."""
    return choices[0] if len(choices) == 1 else {"anyOf": choices}


_MAX_LISTED = 100
"""OpenAI takes 1,000 listed values in a whole schema."""


def _given(bounds: Mapping[str, int | None]) -> Schema:
    return {name: value for name, value in bounds.items() if value is not None}


_SURROGATE = re.compile("[\ud800-\udfff]")


def well_formed(text: str) -> str:
    """Join surrogate pairs and put U+FFFD in the place of lone surrogates."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class PairJoiner:
    """Makes a stream of pieces well-formed; a trailing high surrogate waits for its other half."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return the text that can be shown so far."""
        text = self._held + piece
        self._held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._held, text = text[-1], text[:-1]
        return well_formed(text)

    def flush(self) -> str:
        """Return what was held back, at the end of the stream."""
        held, self._held = self._held, ""
        return well_formed(held)
