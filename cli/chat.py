"""The ``chat`` command: an interactive conversation at a terminal, one turn per input line in a pipe."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cli.choosing import choose_instance
from cli.markers import marker_style
from cli.output import BOLD, CYAN, DIM, GREEN, YELLOW, is_terminal, note, paint, write
from cli.running import DONE, INTERRUPTED, language_of, wait_for
from cli.stories import names, reasoning_rows, told
from cli.texts import tell
from personalab.app import Application
from personalab.errors import PersonaLabError
from personalab.i18n import DEFAULT, Language
from personalab.settings import spoken_language
from personalab.story.director import current_point, mark_outline
from personalab.story.records import NO_BACKGROUND, Background, InstanceState, check_id

if TYPE_CHECKING:
    from personalab.services import Services

SHOWN_TURNS = 3
_MARKS = {"completed": "✓", "in_progress": "▶", "pending": "○"}


def run_chat(services: Services, instance_id: str | None, model: str | None) -> int:
    """Choose a story if none is named, then talk until the person leaves."""
    from cli.screen import can_draw

    asking = is_terminal(sys.stdin) and is_terminal(sys.stdout)
    if instance_id is None:
        try:
            instance_id = choose_instance(services, asking=asking)
        except KeyboardInterrupt:
            return INTERRUPTED
    check_id(instance_id, "instance_id")
    services.stories.instance(instance_id)
    story = ChatStory(services, instance_id, model)
    if asking and can_draw():
        from cli.conversation import converse

        return wait_for(converse(story))
    return play_lines(story)


@dataclass(slots=True)
class ChatStory:
    """The story a chat is about, and how it is shown."""

    services: Services
    instance_id: str
    model: str | None = None
    speaker: str = field(init=False, default="")

    def __post_init__(self) -> None:
        state = self.services.stories.instance(self.instance_id)
        self.speaker = names(self.services, state, self.language)["character"]

    @property
    def language(self) -> Language:
        """The reader's language, which may change while the chat runs."""
        return language_of(self.services)

    def say(self, code: str, /, **params: object) -> str:
        """Word one of the terminal's sentences for this reader."""
        return tell(code, self.language, **params)

    # --- what is shown

    def opening(self) -> list[str]:
        """Describe the story at the start: character, background, outline point and model."""
        state = self.services.stories.instance(self.instance_id)
        shown = names(self.services, state, self.language)
        place = paint(f"{self.instance_id} / {state.current_session_id}", DIM)
        rows = [f"{paint(shown['character'], BOLD)} · {shown['background']}  {place}"]
        background = self._background(state.background_id)
        if background.world_setting.strip() and self._unbegun(state):
            rows += [background.world_setting.strip(), ""]
        point = current_point(background, state.plot_state)
        if point is not None:
            rows.append(paint(self._point(background, point.index), CYAN))
        model = self.services.model_name(self.model)
        rehearsing = model == "rehearsal"
        rows.append(
            paint(
                self.say("rehearsal" if rehearsing else "model", model=model), YELLOW if rehearsing else DIM
            )
        )
        rows.append(paint(self.say("hint"), DIM))
        if self.language == DEFAULT != (spoken := spoken_language()):
            rows.append(paint(tell("prefer_language", spoken, language=spoken), DIM))
        return rows

    def _unbegun(self, state: InstanceState) -> bool:
        """Return whether nothing has been said in this story yet."""
        try:
            view = self.services.stories.session(self.instance_id, state.current_session_id).view()
        except PersonaLabError:
            return False
        said = any(turn.user is not None for turn in view.turns)
        return not said and not (view.metadata and view.metadata.continued_from)

    def _background(self, background_id: str | None) -> Background:
        try:
            return self.services.stories.background(background_id) if background_id else NO_BACKGROUND
        except PersonaLabError:
            return NO_BACKGROUND

    def _point(self, background: Background, index: int) -> str:
        state = self.services.stories.instance(self.instance_id)
        point = mark_outline(background, state.plot_state)[index - 1]
        status = self.say(point["status"])
        return self.say(
            "point", index=index, count=len(background.story_outline), content=point["content"], status=status
        )

    async def last_turns(self, count: int = SHOWN_TURNS) -> list[str]:
        """Show the session's last turns, and whether the newest one still waits for its answer."""
        page = await Application(self.services).read_turns(self.instance_id, count=count)
        style = await asyncio.to_thread(marker_style, self.services)
        rows = told(page.entries, self.speaker, self.language, style)
        waiting = await asyncio.to_thread(self._unanswered)
        if waiting is not None:
            rows.append(paint(self.say("unanswered", turn=waiting), YELLOW))
        return rows

    def _unanswered(self) -> int | None:
        state = self.services.stories.instance(self.instance_id)
        last = self.services.stories.session(self.instance_id, state.current_session_id).view().last
        return last.number if last is not None and last.user is not None and not last.settled else None

    def outline(self) -> list[str]:
        """List the outline's points with their marks, the current one highlighted."""
        state = self.services.stories.instance(self.instance_id)
        background = self._background(state.background_id)
        here = current_point(background, state.plot_state)
        if here is None:
            return [self.say("no_outline")]
        rows: list[str] = []
        for point in mark_outline(background, state.plot_state):
            row = f"{_MARKS[point['status']]} {point['index']}. {point['content']}"
            if point["index"] == here.index:
                rows.append(paint(f"{row}  ← {self.say(point['status'])}", BOLD))
            else:
                rows.append(paint(row, GREEN if point["status"] == "completed" else DIM))
        return rows

    # --- slash commands that look or set

    async def command(self, line: str) -> list[str]:
        """Do what a slash command asks, and give the rows to show; a mistake is answered, never fatal."""
        name, _, rest = line.strip().partition(" ")
        try:
            match name:
                case "/help":
                    return self.say("help").split("\n")
                case "/outline":
                    return await asyncio.to_thread(self.outline)
                case "/prompt":
                    return await self._prompt(rest.strip())
                case "/reasoning":
                    return await asyncio.to_thread(self._reasoning)
                case "/stop":
                    return [self.say("nothing_to_stop")]
                case "/settings":
                    return await asyncio.to_thread(self._settings, rest.split())
                case _:
                    return [self.say("unknown_command", name=name)]
        except PersonaLabError as error:
            return [paint(error.message(self.language), YELLOW)]

    def _reasoning(self) -> list[str]:
        """Show what the model thought before the last reply."""
        state = self.services.stories.instance(self.instance_id)
        turns = self.services.stories.session(self.instance_id, state.current_session_id).view().turns
        last = next((turn.last_reply for turn in reversed(turns) if turn.last_reply is not None), None)
        if last is None or not last.reasoning.strip():
            return [self.say("no_reasoning")]
        return reasoning_rows(last.reasoning)

    async def _prompt(self, text: str) -> list[str]:
        from cli.looking import prompt_rows
        from graph.preview import preview_prompt

        found = await preview_prompt(self.services, self.instance_id, text or "…")
        preferences = await asyncio.to_thread(self.services.preferences.read)
        return prompt_rows(found, preferences.config, self.language)

    def _settings(self, words: list[str]) -> list[str]:
        from cli.preferences import setting_rows
        from personalab.config import parse_value

        if not words:
            return setting_rows(self.services, Application(self.services).settings().root, self.language)
        if len(words) != 2:
            return [self.say("settings_usage")]
        Application(self.services).change_settings({words[0]: parse_value(words[0], words[1])})
        return [self.say("saved")]


# --- without a terminal to draw on


def play_lines(story: ChatStory) -> int:
    """Play each line of stdin as a turn; the first that fails ends it with its exit code."""
    if is_terminal(sys.stderr):
        for row in story.opening():
            note(row)
    for line in sys.stdin:
        text = line.strip("\r\n")
        if not text.strip():
            continue
        if text.strip() == "/quit":
            break
        code = wait_for(_play_line(story, text))
        if code != DONE:
            return code
    return DONE


async def _play_line(story: ChatStory, text: str) -> int:
    from cli.commands.playing import play

    turn: Any = {"instance_id": story.instance_id, "user_input": text}
    if text.strip() == "/retry":
        turn = {"instance_id": story.instance_id, "action": "retry"}
    elif text.startswith("/"):
        write("\n".join(await story.command(text)))
        return DONE
    return await play(story.services, turn, as_json=False, model=story.model)
