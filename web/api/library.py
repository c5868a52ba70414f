"""Routes for characters and backgrounds: list, show, create and change."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import Field

from personalab.dialogue import well_formed
from personalab.operations.library import (
    MAX_GREETINGS,
    MAX_NAME,
    MAX_POINT,
    MAX_POINTS,
    MAX_TEXT,
    character_picture,
    kept_card,
    picture_mark,
)
from personalab.operations.overview import worlds_of
from personalab.results import Readable, ResultModel
from personalab.results.stories import (
    BackgroundSummary,
    CharacterSummary,
    SavedBackground,
    SavedCharacter,
    SavedEntryResult,
)
from personalab.services import Services
from personalab.storage.stories import Kind, StoryListing
from personalab.story.records import Background, Character
from personalab.texts import PromptLanguage
from web.desk import AppContext, ContextDep
from web.shapes import BackgroundId, CharacterId, RequestModel

router = APIRouter(prefix="/api", tags=["library"])

EXCERPT = 240
_MOST_TAGS = 50
_PICTURES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The picture",
        "content": {
            kind: {"schema": {"type": "string", "format": "binary"}}
            for kind in ("image/png", "image/jpeg", "image/webp", "image/gif")
        },
    }
}
_PICTURE_HEADERS = {
    # It is shown, never opened as a page; its address changes when it does.
    "content-security-policy": "default-src 'none'; sandbox",
    "x-content-type-options": "nosniff",
    "cache-control": "private, max-age=31536000, immutable",
}
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]


class CharacterEntry(CharacterSummary):
    """A character in a list."""

    excerpt: Readable = Field(default="", description="How its text begins")
    has_lorebook: bool = False
    picture: str | None = Field(
        default=None, description="Where its picture is; another one has another place"
    )
    greetings: int = Field(default=0, description="How many ways there are to open a story with it")


class CharacterList(ResultModel):
    """All characters."""

    characters: list[CharacterEntry]


class CardNotes(ResultModel):
    """What a card says to people, not to the model."""

    creator: Readable
    notes: Readable
    tags: list[Readable]


class WholeCharacter(ResultModel):
    """A character as its author wrote it."""

    character_id: str
    name: Readable
    base_persona: Readable
    language: PromptLanguage | None
    greetings: list[Readable]
    nickname: Readable = Field(description="What it is called in stories, where that is not its name")
    system_prompt: Readable
    post_history_instructions: Readable
    example_dialogue: Readable = Field(description="How it speaks: dialogues separated by <START>")
    card: CardNotes | None = Field(description="What the card says that it came in")
    picture: str | None
    has_lorebook: bool
    worlds: list[str] = Field(description="The backgrounds that speak of it by its name")


class WrittenCharacter(RequestModel):
    """A character to be saved."""

    name: Name
    base_persona: str = Field(min_length=1, max_length=MAX_TEXT)
    language: PromptLanguage | None = Field(default=None, description="null: the reader's")
    greetings: list[Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]] | None = Field(
        default=None, max_length=MAX_GREETINGS, description="Left out: as they are"
    )
    replace: bool = Field(default=False, description="Change one that exists; else its id has to be free")


class BackgroundEntry(BackgroundSummary):
    """A background in a list."""

    excerpt: Readable = Field(default="", description="How its text begins")
    has_lorebook: bool = False


class BackgroundList(ResultModel):
    """All backgrounds."""

    backgrounds: list[BackgroundEntry]


class WholeBackground(ResultModel):
    """A background as its author wrote it."""

    background_id: str
    name: Readable
    world_setting: Readable
    story_outline: list[Readable] = Field(description="The points a story passes, in order")
    has_lorebook: bool


class WrittenBackground(RequestModel):
    """A background to be saved."""

    name: Name
    world_setting: str = Field(min_length=1, max_length=MAX_TEXT)
    story_outline: list[Annotated[str, Field(min_length=1, max_length=MAX_POINT)]] = Field(
        default=[], max_length=MAX_POINTS
    )
    replace: bool = Field(default=False, description="Change one that exists; else its id has to be free")


def _new(model: type[SavedEntryResult]) -> dict[int | str, dict[str, Any]]:
    return {201: {"model": model, "description": "It is new"}}


# --- characters


@router.get("/characters")
async def list_characters(desk: ContextDep) -> CharacterList:
    """List the characters, also those whose files cannot be read."""

    def read() -> list[CharacterEntry]:
        listed = desk.services.stories.characters()
        return [_character_entry(desk, entry) for entry in listed]

    return CharacterList(characters=await asyncio.to_thread(read))


def _character_entry(desk: AppContext, listed: StoryListing) -> CharacterEntry:
    entry, found = CharacterEntry(**dict(desk.app.summarize_character(listed))), listed.record
    if isinstance(found, Character):
        entry.excerpt = well_formed(found.base_persona[:EXCERPT])
        entry.picture = _picture(desk.services, found.character_id)
        entry.has_lorebook = _has_book(desk.services, "characters", found.character_id)
        entry.greetings = len(found.greetings)
    return entry


@router.get("/characters/{character_id}")
async def show_character(desk: ContextDep, character_id: CharacterId) -> WholeCharacter:
    """Show a character whole."""
    return await asyncio.to_thread(_whole_character, desk.services, character_id)


def _whole_character(services: Services, character_id: str) -> WholeCharacter:
    found = services.stories.character(character_id)
    nickname = found.source.get("nickname")
    return WholeCharacter(
        character_id=character_id,
        name=found.name,
        base_persona=found.base_persona,
        language=found.language,
        greetings=list(found.greetings),
        nickname=nickname if isinstance(nickname, str) else "",
        system_prompt=found.instructions.system_prompt,
        post_history_instructions=found.instructions.post_history_instructions,
        example_dialogue=found.instructions.example_dialogue,
        card=_card_notes(services, character_id),
        picture=_picture(services, character_id),
        has_lorebook=_has_book(services, "characters", character_id),
        worlds=worlds_of(services.stories, found),
    )


def _card_notes(services: Services, character_id: str) -> CardNotes | None:
    card = kept_card(services.stories, character_id)
    if card is None:
        return None
    tags: object = card.content.get("tags")
    named = [str(tag) for tag in tags[:_MOST_TAGS]] if isinstance(tags, list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] (whatever a card holds)
    return CardNotes(creator=card.text("creator"), notes=card.text("creator_notes"), tags=named)


@router.put("/characters/{character_id}", responses=_new(SavedCharacter))
async def write_character(
    desk: ContextDep, response: Response, character_id: CharacterId, asked: WrittenCharacter
) -> SavedCharacter:
    """Make a character, or change one; stories that were begun keep the one they began with."""
    saved = await desk.app.save_character(
        character_id,
        name=asked.name,
        base_persona=asked.base_persona,
        language=asked.language or "",
        greetings=asked.greetings,
        overwrite=asked.replace,
    )
    response.status_code = 201 if saved.created else 200
    return saved


@router.get("/characters/{character_id}/picture", response_class=Response, responses=_PICTURES)
async def show_picture(
    desk: ContextDep,
    character_id: CharacterId,
    v: Annotated[str | None, Query(max_length=64, description="Which one, as lists name it")] = None,
) -> Response:
    """Show the picture a character's card came in."""
    picture = await character_picture(desk.services, character_id)
    headers = _PICTURE_HEADERS if v else {**_PICTURE_HEADERS, "cache-control": "no-store"}
    return Response(picture.content, media_type=picture.media_type, headers=headers)


# --- backgrounds


@router.get("/backgrounds")
async def list_backgrounds(desk: ContextDep) -> BackgroundList:
    """List the backgrounds, also those whose files cannot be read."""

    def read() -> list[BackgroundEntry]:
        listed = desk.services.stories.backgrounds()
        return [_background_entry(desk, entry) for entry in listed]

    return BackgroundList(backgrounds=await asyncio.to_thread(read))


def _background_entry(desk: AppContext, listed: StoryListing) -> BackgroundEntry:
    entry, found = BackgroundEntry(**dict(desk.app.summarize_background(listed))), listed.record
    if isinstance(found, Background):
        entry.excerpt = well_formed(found.world_setting[:EXCERPT])
        entry.has_lorebook = _has_book(desk.services, "backgrounds", found.background_id)
    return entry


@router.get("/backgrounds/{background_id}")
async def show_background(desk: ContextDep, background_id: BackgroundId) -> WholeBackground:
    """Show a background whole."""

    def read() -> WholeBackground:
        found = desk.services.stories.background(background_id)
        return WholeBackground(
            background_id=background_id,
            name=found.name,
            world_setting=found.world_setting,
            story_outline=[point.content for point in found.story_outline],
            has_lorebook=_has_book(desk.services, "backgrounds", background_id),
        )

    return await asyncio.to_thread(read)


@router.put("/backgrounds/{background_id}", responses=_new(SavedBackground))
async def write_background(
    desk: ContextDep, response: Response, background_id: BackgroundId, asked: WrittenBackground
) -> SavedBackground:
    """Make a background, or change one; its stories see it from the next turn on."""
    saved = await desk.app.save_background(
        background_id,
        name=asked.name,
        world_setting=asked.world_setting,
        story_outline=asked.story_outline,
        overwrite=asked.replace,
    )
    response.status_code = 201 if saved.created else 200
    return saved


# --- both


def _has_book(services: Services, kind: Kind, entry_id: str) -> bool:
    return services.stories.beside(kind, entry_id, "lorebook.json").exists()


def _picture(services: Services, character_id: str) -> str | None:
    mark = picture_mark(services.stories, character_id)
    return f"/api/characters/{character_id}/picture?v={mark}" if mark else None
