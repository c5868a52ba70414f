"""Reader for character cards of every version, and conversion between cards and characters.

A V1 card has its fields at the root, a later one in ``data``. Fields that are null count as missing, and
fields that a program repeats at the root count where ``data`` lacks them. A version newer than these is read
as the newest known one. Only values that cannot be used are refused, with the name of the field.

What a person changed here is written into the card's fields; everything else of the original card is written
unchanged. V1 has room for six texts: it has no fields for further greetings, instructions, notes, tags, the
lorebook and extensions. Fields that V2 lacks are stored in its extensions, and restored where the next
version has a field for them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from personalab.archive.books import book_as, is_world_info
from personalab.archive.foreign_files import list_at, object_at, text_at
from personalab.dialogue import language_among
from personalab.errors import BadRecord, Reason
from personalab.story.records import Character, Instructions, is_id
from personalab.texts import PROMPT_LANGUAGES, PromptLanguage, say

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


def check_card_has_content(card: Card) -> None:
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


# --- cards and characters


_PERSONA = ("description", "personality", "scenario")
_EXAMPLES = "mes_example"
_TOLD = {
    "system_prompt": "system_prompt",
    "post_history_instructions": "post_history_instructions",
    "example_dialogue": _EXAMPLES,
}
"""Which field of a card holds which of a character's instructions."""
_START = re.compile(r"<START>", re.IGNORECASE)
_MACRO = re.compile(r"\{\{[^{}]*\}\}|<(?:bot|user|char|start)>", re.IGNORECASE)
_BETWEEN_EXAMPLES = "\n---\n"
_TELLING_CHARACTERS = 2_000
"""A text shows its language by its beginning."""
_SPECS = {"v2": "chara_card_v2", "v3": "chara_card_v3"}
_SPEC_VERSIONS = {"v2": "2.0", "v3": "3.0"}
_WRAPPING = ("spec", "spec_version", "data")
_KNOWN_FIELDS = (*V2_DEFAULTS, "character_book", *V3_ONLY)
_ENTRY_DEFAULTS: Mapping[str, Any] = {
    "keys": [],
    "content": "",
    "extensions": {},
    "enabled": True,
    "insertion_order": 100,
}
_ID = "character_id"
"""Under what a card carries the id it had here."""
_BLANK = Card({}, "v1", {})
_CARRIED = (
    "character_id",
    "name",
    "base_persona",
    "language",
    "greetings",
    "system_prompt",
    "post_history_instructions",
    "example_dialogue",
)
"""The parts of a definition that a card has fields for."""


# --- a card becomes a character


def character_of(card: Card, character_id: str) -> Character:
    """Make a character of a card; placeholders stay for the story to fill, and notes to the reader stay out."""
    kept = _beyond_a_card(as_object(card.ours.get("definition")))
    called = {"nickname": card.nickname} if card.nickname else {}
    return Character(
        character_id,
        card.name,
        _persona_of(card),
        _language_of(card),
        {**called, **kept},
        card.greetings,
        Instructions(**{name: card.text(field) for name, field in _TOLD.items()}),
    )


def book_of(card: Card) -> dict[str, Any] | None:
    """Take the lorebook out of a card, as it came."""
    return card.book


def _persona_of(card: Card) -> str:
    """Join who the character is, the description first, each of the rest under its name."""
    return _joined(card, {})


def _persona_with_examples(card: Card) -> str:
    """Join it as earlier versions did, with the example dialogues at its end."""
    examples = [block.strip() for block in _START.split(card.text(_EXAMPLES))]
    return _joined(card, {"card.examples": _BETWEEN_EXAMPLES.join(block for block in examples if block)})


def _joined(card: Card, more: Mapping[str, str]) -> str:
    language = _language_among(*(card.text(name) for name in (*_PERSONA, _EXAMPLES))) or "en"
    rest = {
        "card.personality": card.text("personality").strip(),
        "card.scenario": card.text("scenario").strip(),
        **more,
    }
    named = [say(code, language, text=text) for code, text in rest.items() if text]
    description = card.text("description")
    return "\n\n".join([description, *named] if description.strip() or not named else named)


def _language_of(card: Card) -> PromptLanguage | None:
    """Return the language that was set here, or else that of the texts."""
    if "language" in card.ours:
        found: object = card.ours["language"]
        return next((language for language in PROMPT_LANGUAGES if language == found), None)
    texts = (card.text(name) for name in (*_PERSONA, _EXAMPLES))
    return _language_among(*texts, *card.greetings[:1])


def _language_among(*texts: str) -> PromptLanguage | None:
    return language_among(_MACRO.sub(" ", text[:_TELLING_CHARACTERS]) for text in texts)


def _beyond_a_card(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Keep what a card has no field for: unknown fields, and the presence of empty known ones."""
    return {
        name: value
        for name, value in fields.items()
        if name not in _CARRIED
        or (name == "language" and value not in PROMPT_LANGUAGES)
        or (name in _CARRIED[4:] and value in ("", []))
    }


# --- a character becomes a card


def card_of(
    character: Character,
    kept: Mapping[str, Any] | None,
    book: Mapping[str, Any] | None,
    version: CardVersion | None,
) -> dict[str, Any]:
    """Make a card of a character and its lorebook; ``kept`` is the card it came from, if any.

    Without a version it is of the one it came in, or V3; a V1 card that something was added to for which V1 has no
    place becomes V3, too.
    """
    card, book = read_card(dict(kept)) if kept is not None else None, book or None
    character = _with_examples_apart(card, character)
    wanted = version or (card.version if card else "v3")
    written = _written(card, character, book, wanted)
    if version is None and wanted == "v1" and not _says_all(written, character, book):
        return _written(card, character, book, "v3")
    return written


def _with_examples_apart(card: Card | None, character: Character) -> Character:
    """Take the example dialogues out of a persona that an earlier version joined of the card's fields."""
    had_field = character.instructions.example_dialogue or "example_dialogue" in character.source
    if card is None or had_field or character.base_persona != _persona_with_examples(card):
        return character
    apart = replace(character.instructions, example_dialogue=card.text(_EXAMPLES))
    return replace(character, base_persona=_persona_of(card), instructions=apart)


def _written(
    card: Card | None, character: Character, book: Mapping[str, Any] | None, version: CardVersion
) -> dict[str, Any]:
    changes = _changes(card, character)
    if book != (card.book if card else None):
        changes["character_book"] = book and _whole_book(
            book_as(book, "character_book", character.name), version
        )
    root = dict(card.data) if card is not None and card.version == version else _converted(card, version)
    if version == "v1":
        return {**root, **{name: changes[name] for name in changes if name in V1_TEXTS or name in root}}
    fields = {**cast("dict[str, Any]", root["data"]), **changes}
    if changes.get("character_book", ...) is None:
        del fields["character_book"]
    _call(fields, character, version)
    repeated = {name: changes[name] for name in V1_TEXTS if name in changes and name in root}
    written = {**root, **repeated, "data": fields}
    return _with_ours(written, character)


def _changes(card: Card | None, character: Character) -> dict[str, Any]:
    """Return the card's fields in which the character differs from the card now."""
    was = character_of(card, character.character_id) if card else Character("", "", "")
    changes: dict[str, Any] = {}
    if character.name != was.name or card is None:
        changes["name"] = character.name if clean_name(character.name) else character.character_id
    if character.base_persona != was.base_persona:
        changes |= {**dict.fromkeys(_PERSONA, ""), "description": character.base_persona}
    if character.greetings != was.greetings:
        first, *others = character.greetings or ("",)
        changes |= {"first_mes": first, "alternate_greetings": others}
    for name, field in _TOLD.items():
        if (text := getattr(character.instructions, name)) != getattr(was.instructions, name):
            changes[field] = text
    return changes


def _call(fields: dict[str, Any], character: Character, version: CardVersion) -> None:
    """Write what the character is called in its story, where the version has a place for it."""
    nickname: object = character.source.get("nickname")
    wanted = nickname if isinstance(nickname, str) and nickname.strip() else ""
    if clean_name(wanted) == Card({}, version, fields).nickname:
        return
    if version == "v3" or "nickname" in fields:
        fields["nickname"] = wanted
    else:
        _put_ours(fields, {KEPT_V3: {**_aside(fields), "nickname": wanted}})


def _aside(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Take what V2 has no field for out of the extensions."""
    return dict(as_object(Card({}, "v2", fields).ours.get(KEPT_V3)))


def _with_ours(written: dict[str, Any], character: Character) -> dict[str, Any]:
    """Add to the extensions what the card's own fields do not tell of the character."""
    card = read_card(written)
    back = character_of(card, character.character_id)
    ours: dict[str, Any] = {}
    if back.language != character.language:
        ours["language"] = character.language
    beyond = _beyond_a_card(character.fields())
    if beyond != _beyond_a_card(back.fields()):
        if card.nickname and beyond.get("nickname") == card.nickname:
            del beyond["nickname"]
        ours["definition"] = beyond
    if ours:
        _put_ours(cast("dict[str, Any]", written["data"]), ours)
    return written


def _put_ours(fields: dict[str, Any], ours: Mapping[str, Any]) -> None:
    extensions = as_object(fields.get("extensions"))
    together = {**as_object(extensions.get(OURS)), **ours}
    kept = {name: value for name, value in together.items() if value != {} or name not in ours}
    others = {name: value for name, value in extensions.items() if name != OURS}
    fields["extensions"] = {**others, OURS: kept} if kept else others


def _says_all(written: dict[str, Any], character: Character, book: Mapping[str, Any] | None) -> bool:
    card = read_card(written)
    return card.book == book and character_of(card, character.character_id).fields() == character.fields()


# --- the id it has here


def marked_id(card: Card) -> str | None:
    """Return the id that a card was exported with, if it carries one."""
    found: object = card.ours.get(_ID)
    return str(found) if is_id(found) else None


def with_id(written: dict[str, Any], character_id: str) -> dict[str, Any]:
    """Write into a card which id it has here, so that it is recognised when it comes back; V1 has no place for it."""
    if read_card(written).version == "v1":
        return written
    fields = dict(as_object(written["data"]))
    _put_ours(fields, {_ID: character_id})
    return {**written, "data": fields}


def without_id(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a card as it is whichever id it left with, to compare it."""
    fields: object = data.get("data")
    if not isinstance(fields, dict):
        return dict(data)
    rest = dict(cast("dict[str, Any]", fields))
    extensions = dict(as_object(rest.pop("extensions", None)))
    ours = {name: value for name, value in as_object(extensions.pop(OURS, None)).items() if name != _ID}
    if ours:
        extensions[OURS] = ours
    return {**data, "data": {**rest, "extensions": extensions} if extensions else rest}


# --- from version to version


def _converted(card: Card | None, version: CardVersion) -> dict[str, Any]:
    """Convert a card to another version, with all the fields that it requires."""
    card = card or _BLANK
    fields, taken = _fields_of(card), _KNOWN_FIELDS if card.version == "v1" else ()
    around = {name: value for name, value in card.data.items() if name not in (*_WRAPPING, *taken)}
    if version == "v1":
        return {**around, **{name: fields.get(name, "") for name in V1_TEXTS}}
    fields = {
        **deepcopy(dict(V2_DEFAULTS)),
        **fields,
        "extensions": dict(as_object(fields.get("extensions"))),
    }
    if fields.get("character_book"):
        fields["character_book"] = _whole_book(fields["character_book"], version)
    else:
        fields.pop("character_book", None)
    _move_v3_fields(fields, version)
    return {**around, "spec": _SPECS[version], "spec_version": _SPEC_VERSIONS[version], "data": fields}


def _fields_of(card: Card) -> dict[str, Any]:
    """Collect a card's fields, including unknown ones; a known one that is null is missing."""
    inner = as_object(card.data.get("data"))
    unknown = {name: value for name, value in inner.items() if name not in _KNOWN_FIELDS}
    return {**unknown, **{name: value for name, value in card.content.items() if name in _KNOWN_FIELDS}}


def _move_v3_fields(fields: dict[str, Any], version: CardVersion) -> None:
    """Put what V3 alone has a field for aside in V2, and back into its place in V3."""
    aside = _aside(fields)
    if version == "v2":
        aside |= {name: fields.pop(name) for name in V3_ONLY if name in fields}
        if not aside.get("group_only_greetings", True):
            # V3 must have this field, even to say nothing.
            del aside["group_only_greetings"]
    else:
        back = {name: aside.pop(name) for name in V3_ONLY if name in aside}
        fields |= {name: value for name, value in back.items() if name not in fields}
        fields.setdefault("group_only_greetings", [])
    _put_ours(fields, {KEPT_V3: aside})


def _whole_book(book: Mapping[str, Any], version: CardVersion) -> dict[str, Any]:
    """Fill in what a book and its entries must have."""
    entries: object = book.get("entries") or []
    if isinstance(entries, list):
        entries = [_whole_entry(entry, version) for entry in cast("list[object]", entries)]
    return {**book, "extensions": book.get("extensions") or {}, "entries": entries}


def _whole_entry(entry: object, version: CardVersion) -> object:
    found = as_object(entry)
    # One with SillyTavern's own names would be read by those filled in instead.
    if not found or is_world_info(found):
        return entry
    needed = {**deepcopy(dict(_ENTRY_DEFAULTS)), **found}
    return {"use_regex": False, **needed} if version == "v3" else needed
