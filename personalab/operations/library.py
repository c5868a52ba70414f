"""Operations on characters and backgrounds: creating, changing, finding and reading them, and pictures.

A character's picture is that of its card, if it is of a kind that a browser shows and cannot execute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

from personalab.archive.cards import Card, clean_name, read_card
from personalab.archive.charx import icon_in_charx
from personalab.archive.foreign_files import MAX_CARD_BYTES, MAX_CARRIER_BYTES, load_json, object_at
from personalab.archive.png import without_cards
from personalab.data_files import read_bytes
from personalab.errors import BadRecord, NotFound, PersonaLabError, Reason, UserError, as_reason
from personalab.results.stories import BackgroundSummary, CharacterSummary
from personalab.services import Services
from personalab.storage.exchange import opened
from personalab.storage.stories import Kind, StoryFiles, StoryListing
from personalab.story.records import Background, Character, OutlinePoint, check_id
from personalab.tasks import run_uncancellable
from personalab.texts import Language, PromptLanguage

# --- backgrounds from elsewhere


MAX_NAME = 200
MAX_TEXT = 200_000
MAX_POINTS = 200
MAX_POINT = 10_000


def read_background(data: object, background_id: str) -> Background:
    """Read a world that comes from elsewhere."""
    found = object_at(data, "background")
    try:
        world = Background.read(background_id, found)
    except ValueError as error:
        raise BadRecord("field_wrong", field="background", reason=as_reason(error)) from error
    _check_foreign_length("name", world.name, MAX_NAME)
    _check_foreign_length("world_setting", world.world_setting, MAX_TEXT)
    if len(world.story_outline) > MAX_POINTS:
        reason = Reason("too_many_points", count=len(world.story_outline), limit=MAX_POINTS)
        raise BadRecord("field_wrong", field="story_outline", reason=reason)
    for point in world.story_outline:
        _check_foreign_length(f"story_outline[{point.index - 1}]", point.content, MAX_POINT)
    if not world.world_setting.strip() and not any(point.content.strip() for point in world.story_outline):
        raise BadRecord("field_wrong", field="world_setting", reason=Reason("blank_without_outline"))
    return world


def background_content(world: Background) -> dict[str, Any]:
    """Return what a world says, whichever id it has."""
    return {name: value for name, value in world.fields().items() if name != "background_id"}


def _check_foreign_length(field: str, text: str, limit: int) -> None:
    if len(text) > limit:
        reason = Reason("too_many_characters", count=len(text), limit=limit)
        raise BadRecord("field_wrong", field=field, reason=reason)


# --- creating and changing


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


def character_summary(listed: StoryListing, language: Language) -> CharacterSummary:
    """Describe a character for a list."""
    found = listed.record
    if isinstance(found, Character):
        return CharacterSummary(character_id=found.character_id, name=found.name, language=found.language)
    reason = listed.error.message(language) if listed.error else ""
    return CharacterSummary(character_id=listed.entry_id, name=listed.entry_id, error=reason)


def background_summary(listed: StoryListing, language: Language) -> BackgroundSummary:
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


# --- finding by an id that several kinds may share


KINDS: tuple[Kind, ...] = ("instances", "characters", "backgrounds")


def find_entry(stories: StoryFiles, named: str, among: Sequence[Kind] = KINDS) -> tuple[Kind, str]:
    """Find the kind of an entry; ``characters/ID`` names the kind, too, as the folders do."""
    said, _, entry_id = named.rpartition("/")
    chosen: list[Kind] = [kind for kind in among if not said or kind == said]
    check_id(entry_id if chosen else named, "id")
    found: list[Kind] = [kind for kind in chosen if (stories.root / kind / entry_id).is_dir()]
    if not found:
        raise NotFound("no_library_entry", entry_id=named, kinds=", ".join(among))
    if len(found) > 1:
        choices = ", ".join(f"{kind}/{entry_id}" for kind in found)
        raise UserError("entry_ambiguous", entry_id=entry_id, choices=choices)
    return found[0], entry_id


# --- pictures


PictureType = Literal["image/png", "image/jpeg", "image/webp", "image/gif"]
_BEGINNINGS: tuple[tuple[bytes, PictureType], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_CARRIERS = ("card.png", "card.charx")


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture and its type, detected from its bytes and not from its name."""

    content: bytes
    media_type: PictureType


def picture_mark(stories: StoryFiles, character_id: str) -> str | None:
    """Return a word that changes when the file of the picture does; ``None`` where there is no such file."""
    for name in _CARRIERS:
        try:
            found = stories.beside("characters", character_id, name).stat()
        except OSError:
            continue
        return f"{found.st_mtime_ns:x}-{found.st_size:x}"
    return None


async def character_picture(services: Services, character_id: str) -> Picture:
    """Find a character's picture; the card that is hidden in it is left out."""
    check_id(character_id, "character_id")
    content = await asyncio.to_thread(_content, services.stories, character_id)
    media_type = _type_of(content) if content is not None else None
    if content is None or media_type is None:
        raise NotFound("no_picture", character_id=character_id)
    return Picture(content, media_type)


def _content(stories: StoryFiles, character_id: str) -> bytes | None:
    picture, packed = (stories.beside("characters", character_id, name) for name in _CARRIERS)
    try:
        if picture.exists():
            return without_cards(read_bytes(picture, stories.shown(picture), MAX_CARRIER_BYTES))
        if packed.exists():
            card = kept_card(stories, character_id)
            with opened(packed) as (stream, _):
                return icon_in_charx(stream, card.data) if card is not None else None
    except BadRecord:
        return None
    return None


def _type_of(content: bytes) -> PictureType | None:
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for beginning, kind in _BEGINNINGS if content.startswith(beginning)), None)
