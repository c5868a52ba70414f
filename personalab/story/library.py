"""Records of the library: characters and backgrounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from personalab.errors import Invalid
from personalab.story.instance import (
    NO_INSTRUCTIONS,
    CharacterState,
    Instructions,
    language_of,
    object_of,
    text_of,
)
from personalab.texts import PromptLanguage

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


def began_as(character: Character) -> CharacterState:
    """Return who a character is at the beginning of a story: later changes of the library leave it alone."""
    return CharacterState(
        character.base_persona,
        language=character.language,
        name=called(character),
        instructions=character.instructions,
    )


def placeholder(character_id: str, name: str) -> Character:
    """Make the character of a chat whose card has not been imported yet: it has a name and nothing else."""
    return Character(character_id, name, name)


def is_placeholder(character: Character) -> bool:
    """Return whether a character is still what ``placeholder`` made, so that no one's words are overwritten."""
    made = placeholder(character.character_id, character.name)
    return character.fields() == made.fields()


def called(character: Character) -> str:
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
        given = found.get("story_outline", [])
        if not isinstance(given, list):
            raise Invalid("field_not_list", field="story_outline")
        points = cast("list[object]", given)
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
