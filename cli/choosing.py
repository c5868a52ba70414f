"""Interactive choice of a story, or of a character and a background for a new one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cli.output import BOLD, CYAN, DIM, can_show, note, paint, short, write
from cli.running import Refusal, language_of, wait_for
from cli.stories import described, names
from cli.texts import tell
from personalab.app import Application
from personalab.i18n import ABOUT, DEFAULT, Language, languages
from personalab.settings import spoken_language
from personalab.story.records import Background, Character, InstanceState

if TYPE_CHECKING:
    from personalab.services import Services


def choose_instance(services: Services, *, asking: bool) -> str:
    """Find the story to continue; without a terminal, the only one there is, or a new one."""
    language = language_of(services)
    stories = [
        entry.record for entry in services.stories.all_instances() if isinstance(entry.record, InstanceState)
    ]
    stories.sort(key=lambda state: state.created_at, reverse=True)
    if not asking:
        return _unasked(services, stories, language)
    if not stories:
        if len(_offered()) > 1:
            language = _ask_language(services, language)
        write(paint(tell("welcome", language), BOLD))
        return _begin(services, ask_for_story(services, language))
    rows = [_row(services, state, language) for state in stories]
    rows.append(tell("new_story", language))
    others = [each for each in _offered() if each != language]
    rows += [tell("other_language", each, name=ABOUT.say("name", each)) for each in others]
    chosen = ask(tell("pick_instance", language), rows, language)
    if chosen < len(stories):
        return stories[chosen].instance_id
    if chosen == len(stories):
        return _begin(services, ask_for_story(services, language))
    services.preferences.change({"preferences.language": others[chosen - len(stories) - 1]})
    return choose_instance(services, asking=asking)


def _ask_language(services: Services, language: Language) -> Language:
    """Ask a newcomer for a language and save it; the terminal's own is proposed."""
    first = spoken_language() if language == DEFAULT else language
    offered = sorted(_offered(), key=lambda each: each != first)
    rows = [ABOUT.say("name", each) for each in offered]
    chosen = offered[ask(tell("pick_language", first), rows, first)]
    if chosen != language:
        services.preferences.change({"preferences.language": chosen})
    return chosen


def _offered() -> list[Language]:
    """List the languages that this terminal can show."""
    return [each for each in languages() if can_show(ABOUT.say("name", each))]


def _unasked(services: Services, stories: list[InstanceState], language: Language) -> str:
    if len(stories) > 1:
        known = ", ".join(state.instance_id for state in stories[:5])
        raise Refusal("need_instance", count=len(stories), known=known)
    if stories:
        return stories[0].instance_id
    character = _characters(services, language)[0]
    home = _home(character, _backgrounds(services))
    instance_id = _begin(services, Wished(character.character_id, home.background_id if home else None))
    shown = names(services, services.stories.instance(instance_id), language)
    note(paint(tell("auto_made", language, **shown), DIM))
    return instance_id


def _row(services: Services, state: InstanceState, language: Language) -> str:
    shown = names(services, state, language)
    return f"{shown['character']} · {shown['background']}  {paint(state.instance_id, DIM)}"


@dataclass(frozen=True, slots=True)
class Wished:
    """The story a person wants to begin."""

    character_id: str
    background_id: str | None = None
    greeting: int | None = None


def _begin(services: Services, wished: Wished) -> str:
    app, place = Application(services), (wished.character_id, wished.background_id)
    return wait_for(app.begin_story(*place, greeting=wished.greeting)).instance_id


def ask_for_story(
    services: Services, language: Language, *, background_id: str | None = None, greeting: int | None = None
) -> Wished:
    """Ask for a character, a background and a greeting, as far as they are not given and there is a choice."""
    characters = _characters(services, language)
    rows = [described(found, language, 56) for found in characters]
    character = characters[ask(tell("pick_character", language), rows, language)]
    if background_id is None:
        background_id = _ask_background(services, character, language)
    if greeting is None and len(character.greetings) > 1:
        rows = [short(text, 70) for text in character.greetings]
        chosen = ask(tell("pick_greeting", language), [*rows, tell("without_greeting", language)], language)
        greeting = (chosen + 1) % (len(rows) + 1)
    return Wished(character.character_id, background_id, greeting)


def _ask_background(services: Services, character: Character, language: Language) -> str | None:
    """Ask for a background; the one that knows the character is proposed."""
    backgrounds = _backgrounds(services)
    home = _home(character, backgrounds)
    backgrounds.sort(key=lambda found: found is not home)
    rows = [f"{found.name}  {paint(short(found.world_setting, 56), DIM)}" for found in backgrounds]
    chosen = ask(tell("pick_background", language), [*rows, tell("without_background", language)], language)
    return backgrounds[chosen].background_id if chosen < len(backgrounds) else None


def ask(question: str, rows: list[str], language: Language) -> int:
    """Ask for one of several rows by its number; Enter takes the first."""
    write(paint(question, BOLD))
    for number, row in enumerate(rows, start=1):
        write(f"  {paint(str(number), CYAN)}  {row}")
    while True:
        try:
            answer = input(tell("choice", language, default=1)).strip()
        except EOFError:
            write("")
            raise KeyboardInterrupt from None
        if not answer:
            return 0
        if answer.isdecimal() and 1 <= int(answer[:9]) <= len(rows):
            return int(answer) - 1
        note(tell("bad_choice", language, count=len(rows)))


def _characters(services: Services, language: Language) -> list[Character]:
    """List the characters that can be met, those who speak the reader's language first."""
    found = [entry.record for entry in services.stories.characters() if isinstance(entry.record, Character)]
    if not found:
        raise Refusal("no_characters", root=services.settings.data_root)
    return sorted(found, key=lambda character: character.language not in (language, None))


def _backgrounds(services: Services) -> list[Background]:
    return [entry.record for entry in services.stories.backgrounds() if isinstance(entry.record, Background)]


def _home(character: Character, backgrounds: list[Background]) -> Background | None:
    """Find the background that names the character."""
    for background in backgrounds:
        outline = " ".join(point.content for point in background.story_outline)
        if character.name in f"{background.world_setting} {outline}":
            return background
    return None
