"""The settings a person can change: ranges, defaults, reading and storage.

The settings are in ``data/config.json`` (thresholds, limits, preferences) and in the modules' own switches
under ``data/modules``. Reading is lenient: an older shape is mapped, and a value out of range falls back to
the default and is reported. Changing is strict: every value is checked before anything is saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from personalab.errors import Invalid, UserError
from personalab.i18n import DEFAULT, Language, languages
from personalab.texts import PromptLanguage, prompt_language

SummaryOrder = Literal["summary_first", "last_n_first"]
Durability = Literal["os", "fsync"]
OnDisconnect = Literal["continue", "interrupt"]
Trigger = Literal["auto", "keywords", "always", "off"]


@dataclass(frozen=True, slots=True)
class IntRange:
    """A whole number within a range."""

    low: int
    high: int
    default: int

    def accepts(self, value: object) -> bool:
        """Return whether a value may be stored."""
        return isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low}–{self.high}"


@dataclass(frozen=True, slots=True)
class ChoiceSetting:
    """One of a few words."""

    words: tuple[str, ...]
    default: str

    def accepts(self, value: object) -> bool:
        """Return whether a value may be stored."""
        return value in self.words

    def __str__(self) -> str:
        return " | ".join(self.words)


@dataclass(frozen=True, slots=True)
class Switch:
    """On or off."""

    default: bool

    def accepts(self, value: object) -> bool:
        """Return whether a value may be stored."""
        return isinstance(value, bool)

    def __str__(self) -> str:
        return "true | false"


@dataclass(frozen=True, slots=True)
class Name:
    """A short text on one line; blank for none."""

    longest: int
    default: str = ""

    def accepts(self, value: object) -> bool:
        """Return whether a value may be stored."""
        return isinstance(value, str) and len(value) <= self.longest and (value.isprintable() or not value)

    def __str__(self) -> str:
        return f"≤ {self.longest}"


Rule = IntRange | ChoiceSetting | Switch | Name

SOURCE_FIELDS: dict[str, Rule] = {
    "thresholds.rag_fallback_threshold": IntRange(1, 10, 3),
    "thresholds.summary_last_n_turns": IntRange(1, 20, 5),
    "limits.max_total_tokens": IntRange(10_000, 200_000, 100_000),
    "limits.middle_section_warning_tokens": IntRange(1_000, 50_000, 20_000),
    "limits.conversation_max_tokens": IntRange(1_000, 200_000, 100_000),
    "preferences.summary_order": ChoiceSetting(("summary_first", "last_n_first"), "summary_first"),
    "preferences.conversation_load_all": Switch(True),
}
"""What every config.json holds and ``reset`` restores."""

FIELDS: dict[str, Rule] = {
    **SOURCE_FIELDS,
    "preferences.language": ChoiceSetting(languages(), DEFAULT),
    "preferences.durability": ChoiceSetting(("os", "fsync"), "os"),
    "preferences.auto_summarize": Switch(False),
    "preferences.auto_memorize_turns": IntRange(0, 1_000, 0),
    "preferences.player_name": Name(64),
    "preferences.show_markers": Switch(True),
    "preferences.on_disconnect": ChoiceSetting(("continue", "interrupt"), "continue"),
}
"""All settings; those listed only here are written when they are set."""

_OLD_PLACES = {
    "features.director_plot_control.rag_fallback_threshold": "thresholds.rag_fallback_threshold",
    "summary.order": "preferences.summary_order",
    "summary.last_n_turns": "thresholds.summary_last_n_turns",
    "conversation_file.load_all": "preferences.conversation_load_all",
    "conversation_file.max_tokens": "limits.conversation_max_tokens",
}
_OLD_GROUPS = ("features", "summary", "conversation_file")


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of a turn."""

    rag_fallback_threshold: int = 3
    summary_last_n_turns: int = 5
    max_total_tokens: int = 100_000
    middle_section_warning_tokens: int = 20_000
    conversation_max_tokens: int = 100_000
    summary_order: SummaryOrder = "summary_first"
    conversation_load_all: bool = True
    language: Language = DEFAULT
    """The reader's language."""
    durability: Durability = "os"
    auto_summarize: bool = False
    """Whether a session is summed up when its prompt passes the warning threshold."""
    auto_memorize_turns: int = 0
    """Number of turns after which the character's memory is updated automatically; 0 for never."""
    player_name: str = ""
    """The value of ``{{user}}`` in a character's texts; blank for a plain word of the language."""
    show_markers: bool = True
    """Whether views show the progress markers in replies; files always keep them."""
    on_disconnect: OnDisconnect = "continue"
    """What becomes of a reply when the last page that watched it goes away."""

    @property
    def prompt_language(self) -> PromptLanguage:
        """The language of prompts for this reader, where the story has none."""
        return prompt_language(self.language)


@dataclass(frozen=True, slots=True)
class DirectorModule:
    """``modules/director.json``."""

    enabled: bool = False


SOURCE_KEYWORDS = ("还记得", "之前", "当时", "那次", "记得吗")


@dataclass(frozen=True, slots=True)
class RecallModule:
    """``modules/recall.json``: when the past is looked up."""

    trigger: Trigger = "off"
    keywords: tuple[str, ...] = SOURCE_KEYWORDS
    """What triggers in ``keywords`` mode."""
    auto_keywords: tuple[str, ...] = ()
    """What triggers in ``auto`` mode beside ``keywords``."""
    detail_words: tuple[str, ...] = ("怎么", "如何", "详细过程")
    """What asks for the plots rather than the summaries."""
    n_results: int = 20


@dataclass(frozen=True, slots=True)
class MemoryModule:
    """``modules/memory.json``: whether and how much of what is known about the player is in the prompt."""

    enabled: bool = False
    user_id: str = "player"
    """Who plays, as memories name them."""
    max_tokens: int = 800
    n_events: int = 5


@dataclass(frozen=True, slots=True)
class LoreModule:
    """``modules/lorebook.json``: whether and how much of the lorebooks is in the prompt."""

    enabled: bool = False
    scan_depth: int = 4
    """Number of newest messages searched for keys, unless a book sets its own."""
    max_tokens: int = 2_048
    """All entries of a turn together cost no more, whatever a book allows itself."""
    recursive: bool = True
    """Whether entries may call up others, where a book does not say."""


def place(data: Mapping[str, Any], dotted: str) -> object:
    """Look up ``a.b.c`` in nested objects; ``None`` where it is missing."""
    found: object = data
    for name in dotted.split("."):
        if not isinstance(found, Mapping):
            return None
        found = cast("Mapping[str, object]", found).get(name)
    return found


def read_values(data: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Collect the settings a file holds, in either shape, and the fields whose values cannot be used."""
    values: dict[str, Any] = {}
    bad: list[str] = []
    for old, new in (*_OLD_PLACES.items(), *((name, name) for name in FIELDS)):
        value = place(data, old)
        if value is None:
            continue
        if FIELDS[new].accepts(value):
            values[new] = value
        else:
            bad.append(old)
    return values, bad


def config_of(values: Mapping[str, Any]) -> Config:
    """Make the settings of a turn; what is not given has its default."""
    return Config(**{name.split(".")[1]: value for name, value in values.items()})


def all_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return every setting by its dotted name, the defaults filled in."""
    return {name: values.get(name, rule.default) for name, rule in FIELDS.items()}


def check_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes by full name, or refuse all of them for the first that is wrong."""
    checked: dict[str, Any] = {}
    for given, value in changes.items():
        name = full_name(given)
        rule = FIELDS[name]
        if not rule.accepts(value):
            raise UserError("setting_out_of_range", field=name, value=_shown(value), range=str(rule))
        checked[name] = value
    return checked


def full_name(given: str) -> str:
    """Find a setting by its dotted name or its last part."""
    for name in FIELDS:
        if given in (name, name.split(".")[1]):
            return name
    raise UserError("unknown_setting", field=str(given)[:80], known=", ".join(FIELDS))


def parse_value(given: str, text: str) -> object:
    """Read a setting's value as it is typed on a command line."""
    match FIELDS[full_name(given)]:
        case IntRange():
            try:
                return int(text)
            except ValueError:
                return text
        case Switch():
            return {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}.get(
                text.lower(), text
            )
        case ChoiceSetting() | Name():
            return text


def _shown(value: object) -> str:
    return repr(value)[:80]


def new_shape(data: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Write settings in today's shape into what a file holds: unknown fields stay, the older shape goes."""
    kept = {name: value for name, value in data.items() if name not in _OLD_GROUPS}
    for name, rule in FIELDS.items():
        if name not in SOURCE_FIELDS and name not in values:
            continue
        group, key = name.split(".")
        inner = kept.get(group)
        kept[group] = {**cast("dict[str, Any]", inner)} if isinstance(inner, dict) else {}
        kept[group][key] = values.get(name, rule.default)
    return kept


def reset_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults; the language stays, for it is the reader's, not a tuning."""
    return {name: values[name] for name in ("preferences.language",) if name in values}


def old_director_switch(data: Mapping[str, Any]) -> bool | None:
    """Find the director's switch in the older shape, where it stood in config.json."""
    value = place(data, "features.director_plot_control.enabled")
    return value if isinstance(value, bool) else None


def read_director(data: Mapping[str, Any]) -> DirectorModule:
    """Read the director's switch."""
    if not isinstance(data.get("enabled"), bool):
        raise Invalid("field_not_bool", field="enabled")
    return DirectorModule(data["enabled"])


def read_recall(data: Mapping[str, Any]) -> RecallModule:
    """Read when and how much is recalled."""
    trigger = data.get("trigger", "auto")
    if trigger not in ("auto", "keywords", "always", "off"):
        raise Invalid("bad_trigger", value=repr(trigger))
    count = data.get("n_results", 20)
    if not IntRange(1, 100, 20).accepts(count):
        raise Invalid("field_not_whole_within", field="n_results", low=1, high=100)
    lists = {
        name: _words(data, name) for name in ("keywords", "auto_keywords", "detail_words") if name in data
    }
    return RecallModule(trigger=trigger, n_results=count, **lists)


def read_memory(data: Mapping[str, Any]) -> MemoryModule:
    """Read whether and how much of what is known about the player is shown."""
    enabled, user_id = data.get("enabled"), data.get("user_id", "player")
    if not isinstance(enabled, bool):
        raise Invalid("field_not_bool", field="enabled")
    if not isinstance(user_id, str) or not user_id.strip() or not user_id.isprintable() or len(user_id) > 200:
        raise Invalid("field_not_name", field="user_id", low=1, high=200)
    counts = {"max_tokens": IntRange(50, 20_000, 800), "n_events": IntRange(0, 50, 5)}
    for name, rule in counts.items():
        if not rule.accepts(data.get(name, rule.default)):
            raise Invalid("field_not_whole_within", field=name, low=rule.low, high=rule.high)
    numbers = {name: data.get(name, rule.default) for name, rule in counts.items()}
    return MemoryModule(enabled, user_id, **numbers)


def read_lore(data: Mapping[str, Any]) -> LoreModule:
    """Read whether and how much of the lorebooks is shown."""
    for name in ("enabled", "recursive"):
        if not isinstance(data.get(name, True if name == "recursive" else None), bool):
            raise Invalid("field_not_bool", field=name)
    counts = {"scan_depth": IntRange(0, 1_000, 4), "max_tokens": IntRange(0, 100_000, 2_048)}
    for name, rule in counts.items():
        if not rule.accepts(data.get(name, rule.default)):
            raise Invalid("field_not_whole_within", field=name, low=rule.low, high=rule.high)
    numbers = {name: data.get(name, rule.default) for name, rule in counts.items()}
    return LoreModule(data["enabled"], **numbers, recursive=data.get("recursive", True))


def _words(data: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = data[name]
    words = cast("list[object]", found) if isinstance(found, list) else [None]
    if not all(isinstance(word, str) and word for word in words):
        raise Invalid("field_not_words", field=name)
    return tuple(cast("list[str]", words))
