"""Reader for lorebooks in any of the three shapes, whichever program wrote them.

The shapes: the ``character_book`` of a card, the same in ``{"spec": "lorebook_v3", "data": …}``, and
SillyTavern's World Info, whose ``entries`` are an object by uid and whose fields have names of their own. An
entry is read by the names it has. SillyTavern's fields are in the entry itself in a World Info and in
``extensions`` in a card; null counts as missing. Only values that cannot be used are refused, with the name
of the field.

SillyTavern writes ``use_regex: true`` into every entry, though it treats only ``/pattern/flags`` as a
pattern. The field therefore counts only where SillyTavern did not write the entry: its keys are patterns
then, and its secondary keys are ignored, as V3 specifies. ``constant`` counts all the same: nobody sets it on
an entry that should be left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, TypeAlias, cast

from personalab.archive.book_shapes import BookShape, book_as, has_patterns, is_world_info, switch_of
from personalab.archive.loading import object_at
from personalab.errors import BadRecord, Reason
from personalab.story.lore import Lorebook, LoreEntry
from personalab.story.lore_decorators import Position, split_decorators
from personalab.story.lore_entries import Logic

__all__ = ["BookShape", "book_as", "read_book"]

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
    for uid, found in _entries(whole.get("entries"), f"{where}entries"):
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


def check_book_says_something(book: Lorebook) -> None:
    """Refuse a book whose entries could never be activated: its texts or keys are in another program's fields."""
    if not book.entries:
        return
    told = [entry for entry in book.entries if entry.content.strip()]
    if not told:
        raise BadRecord("book_blank", count=len(book.entries), field="content")
    if not any(entry.keys or entry.constant or entry.content.startswith("@@") for entry in told):
        raise BadRecord("book_blank", count=len(book.entries), field="keys (key), constant")


def _entries(found: object, where: str) -> list[tuple[str, object]]:
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


def _read_entry(data: Mapping[str, Any], uid: str) -> LoreEntry:
    fields = _Fields(data)
    switch = _Switches(fields)
    content, content_at = fields.own("content")
    case, case_at = fields.theirs("caseSensitive", "case_sensitive")
    own_case = switch_of(*fields.own("case_sensitive"))
    return LoreEntry(
        entry_id=_id(fields.own("uid", "id")[0], uid),
        content=_text(content, content_at),
        keys=_keys(*fields.own("keys", "key")),
        secondary_keys=_keys(*fields.own("secondary_keys", "keysecondary")),
        name=_name(data.get("name")) or _name(data.get("comment")),
        enabled=switch.own("enabled", default=not switch.own("disable")),
        constant=switch.own("constant"),
        selective=switch.own("selective"),
        logic=_logic(fields),
        order=_number(*fields.own("insertion_order", "order"), default=100),
        priority=_number(*fields.own("priority"), default=None),
        position=_position(fields),
        case_sensitive=switch_of(case, case_at) or (case is None and own_case) or False,
        whole_words=switch.theirs("matchWholeWords", "match_whole_words"),
        use_regex=has_patterns(data),
        scan_depth=_limit(*fields.theirs("scanDepth", "scan_depth")),
        probability=_probability(fields),
        exclude_recursion=switch.theirs("excludeRecursion", "exclude_recursion"),
        prevent_recursion=switch.theirs("preventRecursion", "prevent_recursion"),
        delay_until_recursion=_level(*fields.theirs("delayUntilRecursion", "delay_until_recursion")),
        delay=_limit(*fields.theirs("delay", "delay")) or 0,
        groups=_keys(*fields.theirs("group", "group")),
        group_override=switch.theirs("groupOverride", "group_override"),
        group_weight=_number(*fields.theirs("groupWeight", "group_weight"), default=100),
    )


class _Switches:
    """The fields of an entry that are true or false."""

    def __init__(self, fields: _Fields) -> None:
        self._fields = fields

    def own(self, name: str, *, default: bool = False) -> bool:
        found = switch_of(*self._fields.own(name))
        return default if found is None else found

    def theirs(self, name: str, snake: str, *, default: bool = False) -> bool:
        found = switch_of(*self._fields.theirs(name, snake))
        return default if found is None else found


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
