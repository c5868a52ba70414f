"""Reader for lorebooks in any of the three shapes, and lossless conversion between them.

The shapes: the ``character_book`` of a card, the same in ``{"spec": "lorebook_v3", "data": …}``, and
SillyTavern's World Info, whose ``entries`` are an object by uid and whose fields have names of their own. An
entry is read by the names it has. SillyTavern's fields are in the entry itself in a World Info and in
``extensions`` in a card; null counts as missing. Only values that cannot be used are refused, with the name
of the field.

SillyTavern writes ``use_regex: true`` into every entry, though it treats only ``/pattern/flags`` as a
pattern. The field therefore counts only where SillyTavern did not write the entry: its keys are patterns
then, and its secondary keys are ignored, as V3 specifies. ``constant`` counts all the same: nobody sets it on
an entry that should be left out.

In a conversion, fields that both shapes have are mapped as SillyTavern maps them. Fields that only one of them
has are stored under ``personalab``, which the other's programs ignore, and are restored from there. A book that
already has the requested shape is left unchanged.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any, Literal, NoReturn, TypeAlias, cast

from personalab.archive.foreign_files import object_at
from personalab.errors import BadRecord, Reason
from personalab.story.lore import Lorebook, LoreEntry
from personalab.story.lore_entries import Logic, Position, split_decorators
from personalab.story.lore_matching import PatternKey, read_key

# --- conversion between shapes


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
_EXTENSIONS = """
exclude_recursion prevent_recursion delay_until_recursion display_index probability useProbability
depth selectiveLogic outlet_name group group_override group_weight scan_depth case_sensitive
match_whole_words use_group_scoring automation_id role vectorized sticky cooldown delay
match_persona_description match_character_description match_character_personality
match_character_depth_prompt match_scenario match_creator_notes triggers ignore_budget
"""
_EXTENDED = {name: re.sub("_(.)", lambda found: found[1].upper(), name) for name in _EXTENSIONS.split()}
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


# --- reading


MAX_ENTRIES = 20_000
MAX_KEYS = 100_000
"""All entries of a book together have no more."""
MAX_ENTRY_KEYS = 1_000
MAX_KEY_CHARACTERS = 2_100
MAX_CONTENT_CHARACTERS = 1_000_000
MAX_NAME_CHARACTERS = 400
_LARGEST = 10**15
_LOGICS: tuple[Logic, ...] = ("and_any", "not_all", "not_any", "and_all")

Found: TypeAlias = tuple[object, str]
"""A value and the name of its field."""


def read_book(data: object, name: str) -> Lorebook:
    """Read a lorebook; ``name`` is what it is called where it does not say."""
    whole = object_at(data, "lorebook")
    where = ""
    if "entries" not in whole and isinstance(whole.get("data"), dict):
        whole, where = object_at(whole["data"], "data"), "data."
    entries: list[LoreEntry] = []
    keys = 0
    for uid, found in _named_entries(whole.get("entries"), f"{where}entries"):
        try:
            entry = _read_entry(object_at(found, ""), uid)
        except BadRecord as error:
            raise _in_entry(error, where, uid, whole["entries"]) from error
        keys += len(entry.keys) + len(entry.secondary_keys) + split_decorators(entry.content)[0].keys
        if keys > MAX_KEYS:
            _refuse(f"{where}entries", Reason("too_many_keys", count=keys, limit=MAX_KEYS))
        entries.append(entry)
    return Lorebook(
        _name(whole.get("name")) or _name(name),
        tuple(entries),
        _limit(whole.get("scan_depth"), f"{where}scan_depth"),
        _limit(whole.get("token_budget"), f"{where}token_budget"),
        switch_of(whole.get("recursive_scanning"), f"{where}recursive_scanning"),
    )


def check_book_has_content(book: Lorebook) -> None:
    """Refuse a book whose entries could never be activated: its texts or keys are in another program's fields."""
    if not book.entries:
        return
    told = [entry for entry in book.entries if entry.content.strip()]
    if not told:
        raise BadRecord("book_blank", count=len(book.entries), field="content")
    if not any(entry.keys or entry.constant or entry.content.startswith("@@") for entry in told):
        raise BadRecord("book_blank", count=len(book.entries), field="keys (key), constant")


def _named_entries(found: object, where: str) -> list[tuple[str, object]]:
    """Return each entry with the id it has where it names none."""
    if isinstance(found, dict):
        named = list(cast("dict[str, object]", found).items())
    elif isinstance(found, list):
        named = [(str(number), one) for number, one in enumerate(cast("list[object]", found))]
    elif found is None:
        named = list[tuple[str, object]]()
    else:
        _refuse(where, Reason("not_list"))
    if len(named) > MAX_ENTRIES:
        _refuse(where, Reason("too_many_entries", count=len(named), limit=MAX_ENTRIES))
    return named


def _in_entry(error: BadRecord, where: str, uid: str, entries: object) -> BadRecord:
    """Name the field of an entry as a person finds it in the file."""
    place = f"[{uid}]" if isinstance(entries, list) else f".{uid[:40]}"
    field = f"{where}entries{place}.{error.params['field']}".rstrip(".")
    return BadRecord(error.code, **{**error.params, "field": field})


class _Fields:
    """The fields of an entry, under any of the names they may have."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        extensions = entry.get("extensions")
        self.entry = entry
        self.extensions = cast("dict[str, Any]", extensions) if isinstance(extensions, dict) else {}
        self.is_world_info = is_world_info(entry)

    def own(self, *names: str) -> Found:
        """Look up what every program writes in the entry itself."""
        for name in names:
            if (found := self.entry.get(name)) is not None:
                return found, name
        return None, names[0]

    def theirs(self, name: str, snake: str) -> Found:
        """Look up what SillyTavern added: in its own files by one name, in a card's ``extensions`` by another."""
        if (found := self.entry.get(name)) is not None:
            return found, name
        for key in (snake, name):
            if (found := self.extensions.get(key)) is not None:
                return found, f"extensions.{key}"
        return None, name

    def switch(self, name: str, snake: str = "", *, default: bool = False) -> bool:
        """Look up what is true or false, in the entry itself or, with both of its names, where SillyTavern has it."""
        found = switch_of(*(self.theirs(name, snake) if snake else self.own(name)))
        return default if found is None else found


def _read_entry(data: Mapping[str, Any], uid: str) -> LoreEntry:
    fields = _Fields(data)
    switch = fields.switch
    content, content_at = fields.own("content")
    case, case_at = fields.theirs("caseSensitive", "case_sensitive")
    own_case = switch_of(*fields.own("case_sensitive"))
    return LoreEntry(
        entry_id=_id(fields.own("uid", "id")[0], uid),
        content=_text(content, content_at),
        keys=_keys(*fields.own("keys", "key")),
        secondary_keys=_keys(*fields.own("secondary_keys", "keysecondary")),
        name=_name(data.get("name")) or _name(data.get("comment")),
        enabled=switch("enabled", default=not switch("disable")),
        constant=switch("constant"),
        selective=switch("selective"),
        logic=_logic(fields),
        order=_number(*fields.own("insertion_order", "order"), default=100),
        priority=_number(*fields.own("priority"), default=None),
        position=_position(fields),
        case_sensitive=switch_of(case, case_at) or (case is None and own_case) or False,
        whole_words=switch("matchWholeWords", "match_whole_words"),
        use_regex=has_patterns(data),
        scan_depth=_limit(*fields.theirs("scanDepth", "scan_depth")),
        probability=_probability(fields),
        exclude_recursion=switch("excludeRecursion", "exclude_recursion"),
        prevent_recursion=switch("preventRecursion", "prevent_recursion"),
        delay_until_recursion=_level(*fields.theirs("delayUntilRecursion", "delay_until_recursion")),
        delay=_limit(*fields.theirs("delay", "delay")) or 0,
        groups=_keys(*fields.theirs("group", "group")),
        group_override=switch("groupOverride", "group_override"),
        group_weight=_number(*fields.theirs("groupWeight", "group_weight"), default=100),
    )


def _logic(fields: _Fields) -> Logic:
    found = _number(*fields.theirs("selectiveLogic", "selectiveLogic"), default=0)
    return _LOGICS[int(found)] if found in range(len(_LOGICS)) else "and_any"


def _position(fields: _Fields) -> Position:
    """Return an entry's side of the character; SillyTavern's other positions count as after it."""
    found = fields.extensions.get("position")
    if found is None:
        found = fields.entry.get("position")
    if found is None:
        return "before_char" if fields.is_world_info else "after_char"
    return "before_char" if str(found) in ("0", "before_char") else "after_char"


def _probability(fields: _Fields) -> float:
    used = switch_of(*fields.theirs("useProbability", "useProbability"))
    # A World Info that does not say so throws no dice; a card does.
    if used is False or (used is None and fields.is_world_info):
        return 100
    return min(max(_number(*fields.theirs("probability", "probability"), default=100), 0), 100)


# --- values, as programs write them


def _refuse(field: str, reason: Reason) -> NoReturn:
    raise BadRecord("field_wrong", field=field, reason=reason)


def _text(value: object, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        _refuse(where, Reason("not_text"))
    if len(value) > MAX_CONTENT_CHARACTERS:
        _refuse(where, Reason("too_many_characters", count=len(value), limit=MAX_CONTENT_CHARACTERS))
    return value


def _keys(value: object, where: str) -> tuple[str, ...]:
    """Read keys, also where they are one text with commas; blank ones are none."""
    if value is None:
        return ()
    rows = value.replace("，", ",").split(",") if isinstance(value, str) else value
    if not isinstance(rows, list):
        _refuse(where, Reason("not_list"))
    found = cast("list[object]", rows)
    if len(found) > MAX_ENTRY_KEYS:
        _refuse(where, Reason("too_many_keys", count=len(found), limit=MAX_ENTRY_KEYS))
    return tuple(key for row in found if (key := _key(row, where)))


def _key(value: object, where: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        _refuse(where, Reason("not_all_texts"))
    key = str(value).strip()
    if len(key) > MAX_KEY_CHARACTERS:
        _refuse(where, Reason("too_many_characters", count=len(key), limit=MAX_KEY_CHARACTERS))
    return key


def _number(value: object, where: str, *, default: Any) -> Any:
    """Read a number, also where it is written as a text; ``default`` is what it is where nothing was said."""
    if isinstance(value, str):
        try:
            value = float(value) if value.strip() else None
        except ValueError:
            _refuse(where, Reason("not_number"))
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(where, Reason("not_number"))
    if not -_LARGEST <= value <= _LARGEST:
        _refuse(where, Reason("not_number"))
    return int(value) if value == int(value) else value


def _level(value: object, where: str) -> int:
    """Read a level, which may be a mere yes."""
    yes = isinstance(value, bool) or (isinstance(value, str) and not value.strip().isdecimal())
    return int(switch_of(value, where) or 0) if yes else _limit(value, where) or 0


def _limit(value: object, where: str) -> int | None:
    """Read a count; one below zero is none, as some programs write it."""
    found = _number(value, where, default=-1)
    return int(found) if found >= 0 else None


def _name(value: object) -> str:
    return " ".join(value.split())[:MAX_NAME_CHARACTERS] if isinstance(value, str) else ""


def _id(value: object, otherwise: str) -> str:
    named = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else otherwise
    return named[:MAX_NAME_CHARACTERS]
