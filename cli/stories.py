"""Terminal output and commands that create, list, move and show stories."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

from cli.markers import MarkerStyle, marker_style, styled
from cli.output import (
    BOLD,
    CYAN,
    DIM,
    RED,
    is_terminal,
    masked,
    note,
    one_line,
    paint,
    short,
    write,
    write_json,
)
from cli.running import Refusal, language_of, wait_for
from cli.texts import tell
from personalab.app import Application
from personalab.story.macros import Names
from personalab.story.records import Background, Character, InstanceState, display_name
from personalab.story.transcript import OPENING_TURN, AssistantLine, usable_reply
from personalab.texts import Language, say

if TYPE_CHECKING:
    from personalab.results.stories import StoryResult
    from personalab.services import Services
    from personalab.storage.stories import StoryListing


# --- beginning


def make_new(
    services: Services,
    character: str | None,
    background: str | None,
    instance_id: str | None,
    greeting: int | None,
    *,
    as_json: bool,
) -> None:
    """Create a story; ask for a character if none is named."""
    from cli.choosing import ask_for_story

    language = language_of(services)
    if character is None:
        if as_json or not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
            known = ", ".join(entry.entry_id for entry in services.stories.characters())
            raise Refusal("need_character", known=known or "-")
        asked = ask_for_story(services, language, background_id=background, greeting=greeting)
        character, background, greeting = asked.character_id, asked.background_id, asked.greeting
    begun = Application(services).begin_story(character, background, instance_id, greeting=greeting)
    story = wait_for(begun)
    if as_json:
        write_json(story.model_dump())
        return
    write(tell("made", language, **names(services, story, language)))


def names(services: Services, state: InstanceState | StoryResult, language: Language) -> dict[str, str]:
    """Name a story's character and background as their authors did; their ids where they cannot be read."""
    return {
        "instance_id": state.instance_id,
        "character": _name(services.stories.characters(), state.character_id),
        "background": _name(services.stories.backgrounds(), state.background_id)
        if state.background_id
        else tell("no_background", language),
    }


def _name(entries: list[StoryListing], entry_id: str | None) -> str:
    for entry in entries:
        if entry.entry_id == entry_id and isinstance(entry.record, Character | Background):
            return masked(short(entry.record.name, 60))
    return entry_id or ""


async def move(
    services: Services, instance_id: str, background: str | None, *, none: bool, as_json: bool
) -> None:
    """Move a story to another background, or to none."""
    if none == (background is not None):
        raise Refusal("one_background")
    story = await Application(services).switch_background(instance_id, background)
    if as_json:
        write_json(story.model_dump())
        return
    language = language_of(services)
    shown = names(services, story, language)["background"]
    write(tell("switched", language, instance_id=instance_id, background=shown))


# --- listing


def show_library(services: Services, *, as_json: bool) -> None:
    """List the characters, the backgrounds and the stories."""
    language = language_of(services)
    listed = {
        "characters": services.stories.characters(),
        "backgrounds": services.stories.backgrounds(),
        "instances": services.stories.all_instances(),
    }
    if as_json:
        app = Application(services)
        write_json(
            {kind: [_entry(app, kind, found) for found in entries] for kind, entries in listed.items()}
        )
        return
    for kind, entries in listed.items():
        write(paint(tell(kind, language), BOLD))
        for entry in entries:
            write(f"  {paint(entry.entry_id, CYAN)}  {_described(entry, language)}")
        if not entries:
            write("  " + paint(tell("none_yet" if kind == "instances" else "nothing", language), DIM))


def _entry(app: Application, kind: str, entry: StoryListing) -> dict[str, Any]:
    """Describe an entry by its file and by what every list of the library shows."""
    known: dict[str, Any] = {"id": entry.entry_id}
    if kind == "characters":
        known |= app.summarize_character(entry).model_dump(exclude_defaults=True)
    elif kind == "backgrounds":
        known |= app.summarize_background(entry).model_dump(exclude_defaults=True)
    elif isinstance(entry.record, InstanceState):
        known |= app.describe_story(entry.record).model_dump()
    elif entry.error is not None:
        known["error"] = entry.error.message(language_of(app.services))
    return known if entry.record is None else {**known, **entry.record.fields()}


def _described(entry: StoryListing, language: Language) -> str:
    match entry.record:
        case Character() as character:
            return described(character, language, 50)
        case Background(name=name, story_outline=outline):
            return f"{masked(short(name, 60))}  {paint(tell('points', language, count=len(outline)), DIM)}"
        case InstanceState() as state:
            where = state.background_id or tell("no_background", language)
            tail = paint(f"{state.current_session_id}  {state.created_at}", DIM)
            return f"{state.character_id} · {where}  {tail}"
        case _:
            return paint(one_line(entry.error.message(language)) if entry.error else "", RED)


def described(character: Character, language: Language, width: int) -> str:
    """Name a character with the beginning of who it is, its placeholders filled."""
    names = Names(display_name(character), say("player", language))
    persona = masked(short(names.fill(character.base_persona[:1_000]), width))
    return f"{masked(short(character.name, 60))}  {paint(persona, DIM)}"


# --- reading


async def show_session(
    services: Services,
    instance_id: str,
    session_id: str | None,
    before: int | None,
    count: int,
    *,
    reasoning: bool,
    as_json: bool,
) -> None:
    """Print some turns of a session."""
    page = await Application(services).read_turns(instance_id, session_id, before=before, count=count)
    if not reasoning:
        for entry in page.entries:
            if entry.get("role") == "assistant":
                entry.pop("reasoning", None)
    if as_json:
        write_json(page.model_dump())
        return
    language = await asyncio.to_thread(language_of, services)
    state = await asyncio.to_thread(services.stories.instance, instance_id)
    heading = f"{instance_id} / {page.session_id}"
    if page.continued_from:
        heading += f" · {tell('continued', language, session_id=page.continued_from)}"
    write(paint(heading, DIM))
    speaker = names(services, state, language)["character"]
    style = await asyncio.to_thread(marker_style, services)
    rows = told(page.entries, speaker, language, style, reasoning=reasoning)
    write("\n".join(rows) or tell("no_turns", language))
    if page.older is not None:
        place = {"instance_id": instance_id, "session_id": page.session_id, "turn": page.older}
        note(tell("older", language, **place))


def told(
    entries: list[dict[str, Any]],
    speaker: str,
    language: Language,
    markers: MarkerStyle = "plain",
    *,
    reasoning: bool = False,
) -> list[str]:
    """Lay out a session's lines as a reader sees them, turn by turn."""
    rows: list[str] = []
    turn: object = None
    for entry in entries:
        if entry.get("type") == "summary":
            rows.append(f"{paint(tell('summary', language), DIM)} {entry['content']}")
            continue
        if entry["turn"] != turn:
            turn = entry["turn"]
            if turn != OPENING_TURN:
                rows.append(paint(tell("turn", language, turn=turn), DIM))
        if entry["role"] == "user":
            rows.append(f"{paint(tell('you', language), CYAN)}  {entry['content']}")
            continue
        thoughts = entry.get("reasoning")
        if reasoning and isinstance(thoughts, str) and thoughts.strip():
            rows += reasoning_rows(thoughts)
        rows.append(f"{paint(speaker, BOLD)}  {_reply(entry, language, markers)}")
    return rows


def reasoning_rows(reasoning: str) -> list[str]:
    """Lay out what a model thought."""
    return [paint(row, DIM) for row in f"💭 {masked(reasoning.strip())}".split("\n")]


def _reply(entry: dict[str, Any], language: Language, markers: MarkerStyle) -> str:
    """Word a reply; that it failed, is empty or was cut short is a notice, not speech."""
    content = str(entry["content"])
    failed, empty = bool(entry.get("error")), bool(entry.get("empty"))
    speech = usable_reply(AssistantLine(content, entry["turn"], "", empty=empty, error=failed)) or ""
    note_text = content[len(speech) :].strip() if failed else ""
    notices = [paint(note_text, RED)] if note_text else []
    shown = styled(speech, markers)
    if not shown.strip() and not failed:
        notices.append(paint(say("no_reply", language), DIM))
    notices += [paint(tell(mark, language), DIM) for mark in ("interrupted", "truncated") if entry.get(mark)]
    return " ".join([shown, *notices] if shown else notices)
