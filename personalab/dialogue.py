"""How is a model asked, and what can be read out of its answer?

What the rules of every room need of a talk with a model: the shape of a message, the JSON in an answer, which a model
may wrap in prose, and whether a text is in the language it should be in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Literal, TypedDict, cast

from personalab.texts import Language, fill

Role = Literal["system", "user", "assistant"]

_FENCED = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
_SHOWN_ANSWER = 20_000


class Message(TypedDict):
    """A message as every chat model takes it."""

    role: Role
    content: str


def repair_messages(asked: Sequence[Message], answer: str, reason: str, template: str) -> list[Message]:
    """Ask once more, saying what was wrong with the answer."""
    return [
        *asked,
        {"role": "assistant", "content": answer[:_SHOWN_ANSWER] or "…"},
        {"role": "user", "content": fill(template, reason=reason)},
    ]


def json_of(answer: str) -> object:
    """Read the JSON value in an answer, in a fence or among other words; ``ValueError`` says what is wrong with it."""
    fenced = _FENCED.search(answer)
    text = (fenced[1] if fenced else answer).strip()
    begin = min((at for at in (text.find("{"), text.find("[")) if at >= 0), default=-1)
    if begin < 0:
        raise ValueError("there is no JSON in the answer")
    end = max(text.rfind("}"), text.rfind("]")) + 1
    try:
        return json.loads(text[begin:end])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the JSON cannot be read: {error}") from error


def object_in(answer: str) -> dict[str, object]:
    """Read the JSON object in an answer."""
    found = json_of(answer)
    if not isinstance(found, dict):
        raise ValueError("the JSON is not an object")
    return cast("dict[str, object]", found)


def list_in(answer: str, name: str) -> list[object]:
    """Read a list in an answer: under its name in an object, or bare."""
    found = json_of(answer)
    value: object = cast("dict[str, object]", found).get(name) if isinstance(found, dict) else found
    if not isinstance(value, list):
        raise ValueError(f'the JSON has no list "{name}"')
    return cast("list[object]", value)


def is_in(language: Language, text: str) -> bool:
    """Tell whether a text may be in a language: Chinese has Chinese characters, English hardly any."""
    han = len(_HAN.findall(text))
    letters = sum(character.isalpha() for character in text)
    return han > 0 if language == "zh" else han * 5 <= letters


def language_in(text: str) -> Language | None:
    """Tell which of the two a text is written in; ``None`` where it mixes them or has no words."""
    han = len(_HAN.findall(text))
    letters = sum(character.isalpha() for character in text)
    if han * 2 > letters:
        return "zh"
    return "en" if letters and han * 20 <= letters else None
