"""Lossless conversion of lorebooks between their three shapes.

Fields that both shapes have are mapped as SillyTavern maps them. Fields that only one of them has are stored
under ``personalab``, which the other's programs ignore, and are restored from there. A book that already has
the requested shape is left unchanged.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Literal, cast

from personalab.archive.loading import object_at
from personalab.errors import BadRecord, Reason
from personalab.story.lore_matching import PatternKey, read_key

BookShape = Literal["character_book", "lorebook_v3", "world_info"]
OURS = "personalab"
"""Where a book and its entries hold what their shape has no field for."""
_V3 = "lorebook_v3"
_WORLD_INFO = "world_info"
_ENTRY = "entry"
_SILLYTAVERN = frozenset({"selectiveLogic", "useProbability", "display_index", "exclude_recursion"})
"""What in ``extensions`` tells that SillyTavern wrote an entry."""

_SAME: Mapping[str, str] = {
    "keys": "key",
    "secondary_keys": "keysecondary",
    "comment": "comment",
    "content": "content",
    "constant": "constant",
    "selective": "selective",
    "insertion_order": "order",
}
"""What an entry has in both shapes: in a card and in a World Info."""
_EXTENDED: Mapping[str, str] = {
    "exclude_recursion": "excludeRecursion",
    "prevent_recursion": "preventRecursion",
    "delay_until_recursion": "delayUntilRecursion",
    "display_index": "displayIndex",
    "probability": "probability",
    "useProbability": "useProbability",
    "depth": "depth",
    "selectiveLogic": "selectiveLogic",
    "outlet_name": "outletName",
    "group": "group",
    "group_override": "groupOverride",
    "group_weight": "groupWeight",
    "scan_depth": "scanDepth",
    "case_sensitive": "caseSensitive",
    "match_whole_words": "matchWholeWords",
    "use_group_scoring": "useGroupScoring",
    "automation_id": "automationId",
    "role": "role",
    "vectorized": "vectorized",
    "sticky": "sticky",
    "cooldown": "cooldown",
    "delay": "delay",
    "match_persona_description": "matchPersonaDescription",
    "match_character_description": "matchCharacterDescription",
    "match_character_personality": "matchCharacterPersonality",
    "match_character_depth_prompt": "matchCharacterDepthPrompt",
    "match_scenario": "matchScenario",
    "match_creator_notes": "matchCreatorNotes",
    "triggers": "triggers",
    "ignore_budget": "ignoreBudget",
}
"""What a World Info has in the entry and a card in its ``extensions``."""
_NEW: Mapping[str, Any] = {
    "key": [],
    "keysecondary": [],
    "comment": "",
    "content": "",
    "constant": False,
    "vectorized": False,
    "selective": False,
    "selectiveLogic": 0,
    "addMemo": False,
    "order": 100,
    "position": 1,
    "disable": False,
    "excludeRecursion": False,
    "preventRecursion": False,
    "delayUntilRecursion": False,
    "probability": 100,
    "useProbability": True,
    "depth": 4,
    "group": "",
    "groupOverride": False,
    "groupWeight": 100,
    "scanDepth": None,
    "caseSensitive": None,
    "matchWholeWords": None,
    "useGroupScoring": None,
    "automationId": "",
    "role": 0,
    "sticky": None,
    "cooldown": None,
    "delay": None,
}
"""What SillyTavern expects of an entry of a World Info, as it is where a card does not say."""


def is_world_info(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry has the field names of a World Info, whatever book contains it."""
    return "keys" not in entry and "key" in entry


def has_patterns(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry's keys are patterns even where they are not written as such."""
    if not switch_of(entry.get("use_regex"), "use_regex") or is_world_info(entry):
        return False
    extensions = entry.get("extensions")
    return not isinstance(extensions, dict) or _SILLYTAVERN.isdisjoint(cast("dict[str, Any]", extensions))


def switch_of(value: object, where: str) -> bool | None:
    """Read what is true or false, also where it is written as a text or a number; null is neither."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    words = {"true": True, "false": False, "1": True, "0": False, "": None}
    if isinstance(value, str) and value.strip().lower() in words:
        return words[value.strip().lower()]
    raise BadRecord("field_wrong", field=where, reason=Reason("not_bool"))


def shape_of(data: Mapping[str, Any]) -> BookShape:
    """Return the shape of a book."""
    if "entries" not in data and isinstance(data.get("data"), dict):
        return "lorebook_v3"
    return "world_info" if isinstance(data.get("entries"), dict) else "character_book"


def book_as(data: Mapping[str, Any], shape: BookShape, name: str) -> dict[str, Any]:
    """Return a book in a shape; ``name`` is what it is called where it does not say.

    The book has been read without complaint before.
    """
    book = copy.deepcopy(dict(data))
    given = shape_of(book)
    if given == shape:
        return book
    if given == "lorebook_v3":
        book = _unwrapped(book)
    if isinstance(book.get("entries"), dict):
        book = _book_of_world_info(book)
    if not book.get("name"):
        book["name"] = name
    if shape == "lorebook_v3":
        return _wrapped(book)
    return _world_info(book) if shape == "world_info" else book


def with_name(book: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Set the name of a standalone book, where only its surroundings named it."""
    if shape_of(book) == "lorebook_v3":
        return {**book, "data": with_name(object_at(book["data"], "data"), name)}
    return dict(book) if book.get("name") else {**book, "name": name}


# --- the wrapping of V3


def _unwrapped(whole: dict[str, Any]) -> dict[str, Any]:
    book = object_at(whole.pop("data"), "data")
    whole.pop("spec", None)
    if whole:
        _ours(_extensions(book))[_V3] = whole
    return book


def _wrapped(book: dict[str, Any]) -> dict[str, Any]:
    """Wrap a book; what V3 demands and older books may lack is added as it is where nothing was said."""
    extensions = _extensions(book)
    wrapping = _taken(extensions, _V3)
    for entry in _entries(book):
        _extensions(entry)
        entry.setdefault("use_regex", False)
    return {"spec": "lorebook_v3", **wrapping, "data": book}


# --- World Info


def _book_of_world_info(book: dict[str, Any]) -> dict[str, Any]:
    """Convert the entries; the other fields have the same names in both shapes."""
    rows = object_at(book["entries"], "entries")
    book["entries"] = [_card_entry(object_at(entry, f"entries.{uid}"), uid) for uid, entry in rows.items()]
    return book


def _card_entry(row: dict[str, Any], uid: str) -> dict[str, Any]:
    if not is_world_info(row) and "keys" in row:
        return row
    ours = row.pop(OURS, None)
    before = cast("dict[str, Any]", ours) if isinstance(ours, dict) else {}
    kept = before.get(_ENTRY)
    entry: dict[str, Any] = cast("dict[str, Any]", kept) if isinstance(kept, dict) else {}
    extensions = _extensions(row)
    del row["extensions"]
    own = row.pop("uid", None)
    entry.setdefault("id", own if own is not None else (int(uid) if uid.isdecimal() else uid))
    for card, world in _SAME.items():
        if world in row or card in ("keys", "content", "insertion_order"):
            entry[card] = row.pop(world, _NEW[world])
    if "priority" in row:
        entry["priority"] = row.pop("priority")
    entry["enabled"] = not switch_of(row.pop("disable", None), "disable")
    position = _or(row.pop("position", None), 0)
    entry["position"] = "before_char" if str(position) == "0" else "after_char"
    entry.setdefault("use_regex", _any_pattern(entry["keys"]))
    extensions["position"] = position
    extensions["selectiveLogic"] = _or(row.pop("selectiveLogic", None), 0)
    # A World Info that does not say so throws no dice; a card does.
    extensions["useProbability"] = _or(row.pop("useProbability", None), False)
    for card, world in _EXTENDED.items():
        if world in row:
            extensions[card] = row.pop(world)
    if row:
        _ours(extensions)[_WORLD_INFO] = row
    entry["extensions"] = extensions
    return entry


def _world_info(book: dict[str, Any]) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    taken: set[int] = {number for entry in _entries(book) if (number := _uid(entry)) is not None}
    free = 0
    for place, entry in enumerate(_entries(book)):
        uid = _uid(entry)
        if uid is None or str(uid) in rows:
            while free in taken:
                free += 1
            uid = free
            taken.add(uid)
        rows[str(uid)] = _world_entry(entry, uid, place)
    book["entries"] = rows
    return book


def _uid(entry: Mapping[str, Any]) -> int | None:
    found = entry.get("id")
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


def _world_entry(entry: dict[str, Any], uid: int, place: int) -> dict[str, Any]:
    if is_world_info(entry):
        return {**entry, "uid": uid}
    native = has_patterns(entry)
    extensions = _extensions(entry)
    del entry["extensions"]
    kept = _taken(extensions, _WORLD_INFO)
    row: dict[str, Any] = {"uid": uid, **_NEW, "displayIndex": place}
    if _uid(entry) == uid:
        del entry["id"]
    for card, world in _SAME.items():
        found = entry.pop(card, None)
        row[world] = copy.copy(_NEW[world]) if found is None else found
    row["comment"] = row["comment"] or entry.get("name") or ""
    row["addMemo"] = bool(row["comment"])
    row["disable"] = switch_of(entry.pop("enabled", None), "enabled") is False
    position = entry.pop("position", None)
    own = extensions.pop("position", None)
    row["position"] = _or(own, int(str(position) not in ("before_char", "0")))
    if "priority" in entry:
        row["priority"] = entry.pop("priority")
    if extensions.get("case_sensitive") is None and entry.get("case_sensitive") is not None:
        row["caseSensitive"] = entry["case_sensitive"]
    for card, world in _EXTENDED.items():
        places = ((entry, world), (extensions, card), (extensions, world))
        holder, name = next((pair for pair in places if pair[0].get(pair[1]) is not None), (None, ""))
        if holder is not None:
            row[world] = holder.pop(name)
        elif card in extensions:
            del extensions[card]
    if entry.get("use_regex") is _any_pattern(row["key"]):
        del entry["use_regex"]
    if native:
        row["key"] = [_slashed(key, entry) for key in _listed(row["key"])]
        row["selective"] = False
    if extensions:
        row["extensions"] = extensions
    if entry:
        row[OURS] = {_ENTRY: entry}
    return {**row, **kept}


def _slashed(key: object, entry: Mapping[str, Any]) -> object:
    """Write a pattern as SillyTavern knows it: between slashes, which it takes for a pattern in no other way."""
    if not isinstance(key, str) or _is_pattern(key):
        return key
    read = read_key(key, False, False, True)
    if not isinstance(read, PatternKey):
        return key
    flags = "" if entry.get("case_sensitive") else "i"
    return "/" + "/".join(_parts(read.pattern)) + "/" + flags


def _parts(pattern: str) -> list[str]:
    """Part a pattern at its slashes, so that each can be joined again behind a backslash."""
    parts = pattern.replace("\\/", "/").split("/")
    return [part + "\\" for part in parts[:-1]] + parts[-1:]


def _any_pattern(keys: object) -> bool:
    """Return whether any key is a pattern, for programs that look at ``use_regex`` alone."""
    return any(_is_pattern(key) for key in _listed(keys))


def _is_pattern(key: object) -> bool:
    return isinstance(key, str) and isinstance(read_key(key, False, False, False), PatternKey)


# --- objects inside objects


def _or(value: object, otherwise: object) -> object:
    return otherwise if value is None else value


def _entries(book: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [cast("dict[str, Any]", entry) for entry in _listed(book.get("entries"))]


def _listed(value: object) -> list[Any]:
    if isinstance(value, str):
        return [value]
    return cast("list[Any]", value) if isinstance(value, list) else []


def _extensions(holder: dict[str, Any]) -> dict[str, Any]:
    """Return an object's ``extensions``, made where they are missing."""
    found = holder.get("extensions")
    if not isinstance(found, dict):
        found = holder["extensions"] = {}
    return cast("dict[str, Any]", found)


def _ours(extensions: dict[str, Any]) -> dict[str, Any]:
    found = extensions.get(OURS)
    if not isinstance(found, dict):
        found = extensions[OURS] = {}
    return cast("dict[str, Any]", found)


def _taken(extensions: dict[str, Any], name: str) -> dict[str, Any]:
    """Take out what was carried for a shape."""
    ours = extensions.get(OURS)
    if not isinstance(ours, dict):
        return {}
    found = cast("dict[str, Any]", ours).pop(name, None)
    if not ours:
        del extensions[OURS]
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
