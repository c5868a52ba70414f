"""The JSON records of a story: characters, backgrounds, an instance's state, and the ids that become part of a path."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, cast, get_args

from personalab.errors import BadRecord, Invalid, Reason, UserError
from personalab.texts import PROMPT_LANGUAGES, PromptLanguage

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", *(f"com{n}" for n in range(10)), *(f"lpt{n}" for n in range(10))]
)


def is_id(value: object) -> bool:
    """Return whether a value may be used as an id."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None and value.lower() not in _DEVICES


def check_id(value: object, what: str) -> str:
    """Return the id unchanged, or refuse it before any path is built from it."""
    text = check_given(value, what)
    if is_id(text):
        return text
    raise UserError("bad_id", what=what, value=text[:80])


def check_given(value: object, what: str) -> str:
    """Return the text that names something, or refuse a call that leaves it out or gives something else."""
    if value is None:
        raise UserError("id_missing", what=what)
    if not isinstance(value, str):
        raise BadRecord("field_wrong", field=what, reason=Reason("not_text"))
    return value


PlotStatus = Literal["completed", "in_progress", "pending"]
PLOT_STATUSES: tuple[PlotStatus, ...] = get_args(PlotStatus)


def object_of(data: object, what: str = "the file") -> dict[str, Any]:
    """Take a JSON value as an object, or say that it is none."""
    if not isinstance(data, dict):
        raise Invalid("field_not_json_object", field=what)
    return cast("dict[str, Any]", data)


def text_of(data: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """Take a text field; one that is missing and has no default, or is no text, is named in the error."""
    value = data.get(name, default)
    if not isinstance(value, str):
        raise Invalid("field_missing_or_not_text", field=name)
    return value


def rows_of(data: Mapping[str, Any], name: str) -> list[object]:
    """Take a field that is a list; a missing one is empty."""
    value = data.get(name, [])
    if not isinstance(value, list):
        raise Invalid("field_not_list", field=name)
    return cast("list[object]", value)


def _number_of(data: Mapping[str, Any], name: str, default: int) -> int:
    value = data.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Invalid("field_not_whole", field=name)
    return value


@dataclass(frozen=True, slots=True)
class PlotState:
    """The story's position in its outline, and how many replies lacked a marker."""

    current_plot_index: int = 1
    current_status: PlotStatus = "pending"
    no_update_count: int = 0

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> PlotState:
        """Read it from its JSON object."""
        status = text_of(data, "current_status", "pending")
        if status not in PLOT_STATUSES:
            raise Invalid(
                "field_other_value",
                field="current_status",
                value=repr(status),
                known=", ".join(PLOT_STATUSES),
            )
        return cls(_number_of(data, "current_plot_index", 1), status, _number_of(data, "no_update_count", 0))

    def fields(self) -> dict[str, Any]:
        """Return its JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class InstanceState:
    """``instance_state.json``."""

    instance_id: str
    character_id: str
    background_id: str | None
    current_session_id: str
    created_at: str
    plot_state: PlotState
    source: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def read(cls, data: object) -> InstanceState:
        """Read it from its JSON value; ids are checked, for they become paths."""
        found = object_of(data)
        background = found.get("background_id")
        for name in ("instance_id", "character_id", "current_session_id"):
            if not is_id(found.get(name)):
                raise Invalid("field_missing_or_not_id", field=name)
        if background is not None and not isinstance(background, str):
            raise Invalid("field_not_text", field="background_id")
        return cls(
            found["instance_id"],
            found["character_id"],
            background or None,
            found["current_session_id"],
            text_of(found, "created_at", ""),
            PlotState.read(object_of(found.get("plot_state", {}), "plot_state")),
            found,
        )

    def fields(self) -> dict[str, Any]:
        """Return its JSON object, with what was unknown in the file."""
        known = {
            "instance_id": self.instance_id,
            "character_id": self.character_id,
            "background_id": self.background_id,
            "current_session_id": self.current_session_id,
            "created_at": self.created_at,
        }
        plot_before = self.source.get("plot_state")
        kept = cast("dict[str, Any]", plot_before) if isinstance(plot_before, dict) else {}
        return {**self.source, **known, "plot_state": {**kept, **self.plot_state.fields()}}

    def with_plot(self, plot_state: PlotState) -> InstanceState:
        """Return the same instance at another point of its story."""
        return replace(self, plot_state=plot_state)


@dataclass(frozen=True, slots=True)
class Instructions:
    """What an author gives the model besides the persona.

    A blank instruction leaves the reader's own template in place.
    """

    system_prompt: str = ""
    post_history_instructions: str = ""
    example_dialogue: str = ""
    """How the character speaks: dialogues that did not happen, separated by ``<START>``."""

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Instructions:
        """Read them from their object."""
        return cls(*(text_of(data, name, "") for name in INSTRUCTION_FIELDS))

    def fields(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """Return those that are there, or were there before."""
        known: dict[str, str] = {name: getattr(self, name) for name in INSTRUCTION_FIELDS}
        return {name: text for name, text in known.items() if text or name in before}


INSTRUCTION_FIELDS = ("system_prompt", "post_history_instructions", "example_dialogue")
NO_INSTRUCTIONS = Instructions()


@dataclass(frozen=True, slots=True)
class CharacterState:
    """``character_state.json``: who the character was made as, and who it has become."""

    base_persona: str
    evolved_persona: str = ""
    language: PromptLanguage | None = None
    source: Mapping[str, Any] = field(default_factory=dict[str, Any])
    name: str = ""
    """What the character is called; blank in stories from before this was kept."""
    instructions: Instructions = NO_INSTRUCTIONS

    @classmethod
    def read(cls, data: object) -> CharacterState:
        """Read it from its JSON value."""
        found = object_of(data)
        return cls(
            text_of(found, "base_persona"),
            text_of(found, "evolved_persona", ""),
            language_of(found),
            found,
            text_of(found, "name", ""),
            Instructions.read(found),
        )

    def fields(self) -> dict[str, Any]:
        """Return its JSON object, with what was unknown in the file."""
        known: dict[str, Any] = {"base_persona": self.base_persona, "evolved_persona": self.evolved_persona}
        if self.language:
            known["language"] = self.language
        if self.name:
            known["name"] = self.name
        return {**self.source, **known, **self.instructions.fields(self.source)}


def language_of(data: Mapping[str, Any]) -> PromptLanguage | None:
    """Take the language a character speaks, where its file names one we have."""
    value = data.get("language")
    return value if value in PROMPT_LANGUAGES else None


MAX_NAME = 400
"""A longer name is no name to be called by."""


@dataclass(frozen=True, slots=True)
class Character:
    """``definition.json``: a character as its author wrote it."""

    character_id: str
    name: str
    base_persona: str
    language: PromptLanguage | None = None
    source: Mapping[str, Any] = field(default_factory=dict[str, Any])
    greetings: tuple[str, ...] = ()
    """What a story may open with; the first is the usual one."""
    instructions: Instructions = NO_INSTRUCTIONS

    @classmethod
    def read(cls, character_id: str, data: object) -> Character:
        """Read it from its JSON value; the folder's name is the id."""
        found = object_of(data)
        name = text_of(found, "name", character_id)
        return cls(
            character_id,
            name,
            text_of(found, "base_persona"),
            language_of(found),
            found,
            _texts(found, "greetings"),
            Instructions.read(found),
        )

    def fields(self) -> dict[str, Any]:
        """Return its JSON object, with what was unknown in the file."""
        known: dict[str, Any] = {
            "character_id": self.character_id,
            "name": self.name,
            "base_persona": self.base_persona,
        }
        if self.language:
            known["language"] = self.language
        if self.greetings or "greetings" in self.source:
            known["greetings"] = list(self.greetings)
        return {**self.source, **known, **self.instructions.fields(self.source)}


def initial_state(character: Character) -> CharacterState:
    """Return who a character is at the beginning of a story: later changes of the library leave it alone."""
    return CharacterState(
        character.base_persona,
        language=character.language,
        name=display_name(character),
        instructions=character.instructions,
    )


def placeholder(character_id: str, name: str) -> Character:
    """Make the character of a chat whose card has not been imported yet: it has a name and nothing else."""
    return Character(character_id, name, name)


def is_placeholder(character: Character) -> bool:
    """Return whether a character is still what ``placeholder`` made, so that no one's words are overwritten."""
    made = placeholder(character.character_id, character.name)
    return character.fields() == made.fields()


def display_name(character: Character) -> str:
    """Return a character's name in its story: the nickname its author gave it, or else its name."""
    given = character.source.get("nickname")
    nickname = one_line(given) if isinstance(given, str) and len(given) <= MAX_NAME else ""
    return nickname or one_line(character.name[:MAX_NAME]) or character.character_id


def one_line(name: str) -> str:
    """Write a name on one line: line breaks and runs of blanks become single spaces."""
    return " ".join(name.split())


def _texts(data: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = data.get(name, [])
    if not isinstance(found, list) or not all(isinstance(text, str) for text in cast("list[object]", found)):
        raise Invalid("field_not_texts", field=name)
    return tuple(cast("list[str]", found))


@dataclass(frozen=True, slots=True)
class OutlinePoint:
    """One point the story is meant to pass; ``index`` counts from 1."""

    index: int
    content: str


@dataclass(frozen=True, slots=True)
class Background:
    """``background.json``: a world and the line its story follows."""

    background_id: str
    name: str = ""
    world_setting: str = ""
    story_outline: tuple[OutlinePoint, ...] = ()
    source: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def read(cls, background_id: str, data: object) -> Background:
        """Read it from its JSON value; the points are numbered by their order."""
        found = object_of(data)
        points = rows_of(found, "story_outline")
        outline = tuple(
            OutlinePoint(place, text_of(object_of(point, f"point {place}"), "content"))
            for place, point in enumerate(points, start=1)
        )
        return cls(
            background_id,
            text_of(found, "name", background_id),
            text_of(found, "world_setting", ""),
            outline,
            found,
        )

    def fields(self) -> dict[str, Any]:
        """Return its JSON object, with what was unknown in the file."""
        return {
            **self.source,
            "background_id": self.background_id,
            "name": self.name,
            "world_setting": self.world_setting,
            "story_outline": [
                {"index": point.index, "content": point.content} for point in self.story_outline
            ],
        }


NO_BACKGROUND = Background("")
