"""Reader for character cards of every version, whichever program wrote them.

A V1 card has its fields at the root, a later one in ``data``. Fields that are null count as missing, and
fields that a program repeats at the root count where ``data`` lacks them. A version newer than these is read
as the newest known one. Only values that cannot be used are refused, with the name of the field.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from personalab.archive.loading import list_at, object_at, text_at
from personalab.errors import BadRecord, Reason

CardVersion = Literal["v1", "v2", "v3"]

V1_TEXTS = ("name", "description", "personality", "scenario", "first_mes", "mes_example")
"""All there is in V1."""
V2_DEFAULTS: Mapping[str, Any] = {
    **dict.fromkeys(V1_TEXTS, ""),
    "creator_notes": "",
    "system_prompt": "",
    "post_history_instructions": "",
    "alternate_greetings": [],
    "tags": [],
    "creator": "",
    "character_version": "",
    "extensions": {},
}
"""What a V2 card must have, as it is where nothing was said."""
V3_ONLY = (
    "nickname",
    "creator_notes_multilingual",
    "source",
    "group_only_greetings",
    "creation_date",
    "modification_date",
    "assets",
)
"""What a V3 card may have besides."""
OURS = "personalab"
"""Where a card's ``extensions`` hold what only this program knows."""
KEPT_V3 = "v3"
"""There, what V2 has no field for."""

MAX_TEXT_CHARACTERS = 1_000_000
MAX_NAME_CHARACTERS = 400
MAX_GREETINGS = 1_000
_SPEC = "chara_card_v"
_NEWEST = 3.0
_USED_TEXTS = (*V1_TEXTS, "system_prompt", "post_history_instructions")
_TELLING = ("description", "personality", "scenario", "first_mes", "mes_example")
_NOTHING: Mapping[str, Any] = {}
_OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Control characters, line ends, and what turns the direction of writing."""


@dataclass(frozen=True, slots=True)
class Card:
    """A card that can be used; ``data`` is its whole JSON as it came."""

    data: Mapping[str, Any]
    version: CardVersion
    content: Mapping[str, Any]
    """Its fields, wherever they stood."""

    @property
    def name(self) -> str:
        """What the character is called, on one line."""
        return clean_name(self.text("name"))

    @property
    def nickname(self) -> str:
        """What it is called in the story, where that differs; blank otherwise."""
        kept = as_object(self.ours.get(KEPT_V3))
        found: object = self.content.get("nickname", kept.get("nickname"))
        return clean_name(found) if isinstance(found, str) else ""

    @property
    def greetings(self) -> tuple[str, ...]:
        """What it may open with, the usual one first; blank ones are none."""
        others = cast("list[str | None]", self.content.get("alternate_greetings", []))
        return tuple(text for text in (self.text("first_mes"), *others) if text and text.strip())

    @property
    def book(self) -> dict[str, Any] | None:
        """Its lorebook as it came."""
        found: object = self.content.get("character_book")
        return cast("dict[str, Any]", found) if found and isinstance(found, dict) else None

    @property
    def extensions(self) -> Mapping[str, Any]:
        """What programs keep in it beyond the format."""
        return as_object(self.content.get("extensions"))

    @property
    def ours(self) -> Mapping[str, Any]:
        """What this program kept in it."""
        return as_object(self.extensions.get(OURS))

    @property
    def world(self) -> str:
        """The name of the World Info that SillyTavern links to it; blank where there is none."""
        found: object = self.extensions.get("world")
        return clean_name(found)[:MAX_NAME_CHARACTERS] if isinstance(found, str) else ""

    @property
    def is_newer(self) -> bool:
        """Whether it claims a version that was unknown when this was written."""
        return _number_of(self.data.get("spec_version")) > _NEWEST

    def text(self, name: str) -> str:
        """Take one of its texts; one that is missing is blank."""
        return str(self.content.get(name) or "")


def read_card(data: object) -> Card:
    """Take a JSON value as a card, or say which of its fields is wrong."""
    root = object_at(data, "the card")
    inner, spec = root.get("data"), root.get("spec")
    is_card = isinstance(spec, str) and spec.lower().startswith(_SPEC)
    at_root = {name: root[name] for name in V1_TEXTS if root.get(name) is not None}
    if isinstance(inner, dict):
        content = {**at_root, **_without_nulls(cast("dict[str, Any]", inner))}
        card, where = Card(root, _version_of(root), content), "data."
    elif inner is not None and is_card and not any(name in at_root for name in _TELLING):
        raise BadRecord("field_wrong", field="data", reason=Reason("not_object"))
    else:
        card, where = Card(root, "v1", _without_nulls(root)), ""
    if not is_card and ("entries" in card.content or not any(name in card.content for name in _TELLING)):
        raise BadRecord("not_a_card")
    _check_fields(card.content, where)
    return card


def check_card_says_something(card: Card) -> None:
    """Refuse a card with nothing but a name: a file of another program, with fields of its own."""
    spec = card.data.get("spec")
    if isinstance(spec, str) and spec.lower().startswith(_SPEC):
        return
    if not any(card.text(name).strip() for name in _TELLING):
        raise BadRecord("card_blank", fields=", ".join(_TELLING))


def clean_name(name: str) -> str:
    """Return a name on one line, without what a terminal would obey."""
    return " ".join(_OBEYED.sub(" ", name).split())


def as_object(value: object) -> Mapping[str, Any]:
    """Take a value as an object; some programs write an empty one as ``[]``, or not at all."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else _NOTHING


def _without_nulls(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if value is not None}


def _version_of(root: Mapping[str, Any]) -> CardVersion:
    """Return the version by its spec, and without one by its number; anything newer is V3."""
    spec = str(root.get("spec") or "").lower().removeprefix(_SPEC)
    number = _number_of(spec or root.get("spec_version"))
    return "v3" if number >= _NEWEST else "v2"


def _number_of(value: object) -> float:
    try:
        number = float(cast("str | float", value))
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if math.isfinite(number) else 0.0


def _check_fields(content: Mapping[str, Any], where: str) -> None:
    for name in _USED_TEXTS:
        _check_length(text_at(content, name, where), f"{where}{name}", MAX_TEXT_CHARACTERS)
    name = text_at(content, "name", where)
    if not clean_name(name):
        raise BadRecord("field_wrong", field=f"{where}name", reason=Reason("missing_or_blank"))
    _check_length(name, f"{where}name", MAX_NAME_CHARACTERS)
    _check_greetings(content.get("alternate_greetings", []), f"{where}alternate_greetings")
    if book := content.get("character_book"):
        object_at(book, f"{where}character_book")


def _check_greetings(value: object, field: str) -> None:
    greetings = list_at(value, field)
    if len(greetings) > MAX_GREETINGS:
        raise BadRecord(
            "field_wrong",
            field=field,
            reason=Reason("too_many_entries", count=len(greetings), limit=MAX_GREETINGS),
        )
    for place, greeting in enumerate(greetings):
        one = f"{field}[{place}]"
        _check_length(text_at({one: greeting}, one), one, MAX_TEXT_CHARACTERS)


def _check_length(text: str, field: str, limit: int) -> None:
    if len(text) > limit:
        reason = Reason("too_many_characters", count=len(text), limit=limit)
        raise BadRecord("field_wrong", field=field, reason=reason)
