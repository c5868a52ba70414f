"""Operations that create and change characters and backgrounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

from personalab.archive.card_reading import Card, clean_name, read_card
from personalab.archive.loading import MAX_CARD_BYTES, load_json
from personalab.archive.worlds import MAX_NAME, MAX_POINT, MAX_POINTS, MAX_TEXT
from personalab.errors import NotFound, PersonaLabError, UserError
from personalab.results.stories import BackgroundSummary, CharacterSummary
from personalab.services import Services
from personalab.storage.files import read_bytes
from personalab.storage.stories import Listed, StoryFiles
from personalab.story.ids import check_id
from personalab.story.library import Background, Character, OutlinePoint
from personalab.tasks import run_uncancellable
from personalab.texts import Language, PromptLanguage

MAX_GREETINGS = 1_000

E = TypeVar("E", Character, Background)


@dataclass(frozen=True, slots=True)
class SaveResult(Generic[E]):
    """What was saved, and whether it is new."""

    entry: E
    created: bool


async def save_character(
    services: Services,
    character_id: str,
    *,
    name: str | None = None,
    base_persona: str | None = None,
    language: PromptLanguage | Literal[""] | None = None,
    greetings: Sequence[str] | None = None,
    overwrite: bool = False,
) -> SaveResult[Character]:
    """Make a character, or change what is given of one that exists; its stories keep who they began with.

    A blank ``language`` leaves it to the reader's.
    """
    check_id(character_id, "character_id")
    name = name if name is None else clean_name(name)
    _check_length("name", name, MAX_NAME)
    _check_length("base_persona", base_persona, MAX_TEXT)
    _check_texts("greetings", greetings, MAX_GREETINGS, MAX_TEXT)
    opening = tuple(greetings or ())

    def fresh() -> Character:
        if base_persona is None or not base_persona.strip():
            raise UserError("field_missing", field="base_persona")
        called = name or character_id
        return Character(character_id, called, base_persona, language or None, greetings=opening)

    _check_given(name=name, base_persona=base_persona)

    def changed(old: Character) -> Character:
        spoken = old.language if language is None else language or None
        kept = {key: value for key, value in old.source.items() if key != "language" or spoken}
        return replace(
            old,
            name=old.name if name is None else name,
            base_persona=old.base_persona if base_persona is None else base_persona,
            language=spoken,
            source=kept,
            greetings=old.greetings if greetings is None else opening,
        )

    stories = services.stories
    return await _save(
        services,
        "character_id",
        character_id,
        stories.character,
        stories.save_character,
        fresh,
        changed,
        overwrite,
    )


async def save_background(
    services: Services,
    background_id: str,
    *,
    name: str | None = None,
    world_setting: str | None = None,
    story_outline: Sequence[str] | None = None,
    overwrite: bool = False,
) -> SaveResult[Background]:
    """Make a background, or change what is given of one that exists; its stories see it from the next turn on."""
    check_id(background_id, "background_id")
    _check_length("name", name, MAX_NAME)
    _check_length("world_setting", world_setting, MAX_TEXT)
    _check_texts("story_outline", story_outline, MAX_POINTS, MAX_POINT)
    outline = tuple(OutlinePoint(place, text) for place, text in enumerate(story_outline or (), start=1))

    def fresh() -> Background:
        if world_setting is None or not world_setting.strip():
            raise UserError("field_missing", field="world_setting")
        return Background(background_id, name or background_id, world_setting, outline)

    _check_given(name=name, world_setting=world_setting)

    def changed(old: Background) -> Background:
        return replace(
            old,
            name=old.name if name is None else name,
            world_setting=old.world_setting if world_setting is None else world_setting,
            story_outline=old.story_outline if story_outline is None else outline,
        )

    stories = services.stories
    return await _save(
        services,
        "background_id",
        background_id,
        stories.background,
        stories.save_background,
        fresh,
        changed,
        overwrite,
    )


def kept_card(stories: StoryFiles, character_id: str) -> Card | None:
    """Read the card a character came in; ``None`` where it came in none, or in one that cannot be read any more."""
    path = stories.beside("characters", character_id, "card.json")
    if not path.exists():
        return None
    try:
        return read_card(load_json(read_bytes(path, stories.shown(path), MAX_CARD_BYTES)))
    except PersonaLabError:
        return None


def character_summary(listed: Listed, language: Language) -> CharacterSummary:
    """Describe a character for a list."""
    found = listed.record
    if isinstance(found, Character):
        return CharacterSummary(character_id=found.character_id, name=found.name, language=found.language)
    reason = listed.error.message(language) if listed.error else ""
    return CharacterSummary(character_id=listed.entry_id, name=listed.entry_id, error=reason)


def background_summary(listed: Listed, language: Language) -> BackgroundSummary:
    """Describe a background for a list."""
    found = listed.record
    if isinstance(found, Background):
        return BackgroundSummary(
            background_id=found.background_id, name=found.name, points=len(found.story_outline)
        )
    reason = listed.error.message(language) if listed.error else ""
    return BackgroundSummary(background_id=listed.entry_id, name=listed.entry_id, error=reason)


async def _save(
    services: Services,
    what: str,
    entry_id: str,
    read: Callable[[str], E],
    write: Callable[[E], None],
    fresh: Callable[[], E],
    changed: Callable[[E], E],
    overwrite: bool,
) -> SaveResult[E]:
    """Read, change and write under the library's lock."""

    def save() -> SaveResult[E]:
        with services.stories.library_lock():
            try:
                old = read(entry_id)
            except NotFound:
                old = None
            if old is not None and not overwrite:
                raise UserError("entry_exists", what=what, entry_id=entry_id)
            entry = fresh() if old is None else changed(old)
            write(entry)
            return SaveResult(entry, old is None)

    return await run_uncancellable(save)


def _check_given(**fields: str | None) -> None:
    """Refuse a text that is given and blank; one that is left out stays as it is."""
    for field, value in fields.items():
        if value is not None and not value.strip():
            raise UserError("field_missing", field=field)


def _check_texts(field: str, texts: Sequence[str] | None, most: int, longest: int) -> None:
    """Refuse a list that is too long, or has a text that is blank or too long."""
    _check_length(field, texts, most)
    for text in texts or ():
        _check_length(field, text, longest)
        if not text.strip():
            raise UserError("field_missing", field=f"{field}[]")


def _check_length(field: str, value: Sequence[str] | None, limit: int) -> None:
    if value is not None and len(value) > limit:
        raise UserError("field_too_long", field=field, actual=len(value), limit=limit)
