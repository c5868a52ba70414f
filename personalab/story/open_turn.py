"""The turn that is being answered, from its first step to its last: its lease, its session and what it read.

Graph state carries only ids and results: a run that was paused long enough to lose its lease (a breakpoint in a
debugger) opens the same turn again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from personalab.errors import NotFound, PersonaLabError, Reason, StorageError, UserError, reason_of
from personalab.leases import Lease, Leases
from personalab.ports import Preferences, ReplyWriter, SessionLog, SessionStore, StoryPorts, StoryStore
from personalab.reasoning import split_reasoning
from personalab.story.director import PlotProgress, has_speech, read_progress
from personalab.story.events import Notice, WarningEvent
from personalab.story.macros import Names, player_name
from personalab.story.records import NO_BACKGROUND, Background, CharacterState, InstanceState, is_id, one_line
from personalab.story.transcript import NO_REPLY, AssistantLine, Transcript, Turn, UserLine, left_behind
from personalab.tasks import discard_failure
from personalab.texts import Language, PromptLanguage

_log = logging.getLogger("personalab.turn")


@dataclass(frozen=True, slots=True)
class Loaded:
    """What load_state read for this turn."""

    preferences: Preferences
    background: Background
    templates: dict[str, str]
    language: PromptLanguage
    """The language the model is addressed in: the character's, or else the reader's."""
    names: Names
    """Replaces the placeholders in the character's texts."""
    notices: tuple[Notice, ...]


@dataclass(slots=True)
class Scene:
    """What a turn's prompt is made from; looking at it needs no lock."""

    instance: InstanceState
    character: CharacterState
    transcript: Transcript
    """The session, the turn's own user line included."""
    number: int = 0
    loaded: Loaded | None = None
    warnings: list[WarningEvent] = field(default_factory=list[WarningEvent])
    """What was warned of so far, one a category."""

    @property
    def turn(self) -> Turn:
        """The turn that is being answered."""
        last = self.transcript.last
        if last is None:
            raise RuntimeError("no turn has been begun")
        return last

    @property
    def user_input(self) -> str:
        """What the person said in this turn."""
        return self.turn.user.content if self.turn.user else ""

    @property
    def data(self) -> Loaded:
        """What load_state read."""
        if self.loaded is None:
            raise RuntimeError("load_state has not run")
        return self.loaded


@dataclass(slots=True, kw_only=True)
class OpenTurn(Scene):
    """A turn that is being answered; whoever has it holds the story's lock."""

    stories: StoryStore
    sessions: SessionStore
    load: Callable[[Scene], Awaitable[Loaded]]
    """Reads what a turn can do without, for one that ends before that was done."""
    leases: Leases
    lease: Lease
    log: SessionLog
    reply: ReplyWriter | None = None
    restored: bool = False
    """Whether the session had to be restored when the reply was closed."""
    stopped: bool = False
    """Whether someone asked to stop before the reply began."""
    failure: PersonaLabError | None = None
    """The first error of steps that run in parallel."""
    unread: str | None = None
    """A closed reply whose markers were not followed yet."""
    model_asked_at: str | None = None
    """When a model was asked to answer; ``None`` while the caller writes, and after the reply was closed."""
    text: list[str] = field(default_factory=list[str])
    reasoning: list[str] = field(default_factory=list[str])

    # --- the user's line

    async def say(self, text: str, timestamp: str, request_id: str | None = None) -> None:
        """Write the user's line; the turn is numbered after the last one."""
        self.number = self.transcript.next_turn
        extra = {"request_id": request_id} if request_id else {}
        await self.log.append(UserLine(text, self.number, timestamp, extra))

    async def left_behind(self) -> tuple[str, int] | None:
        """Find the turn that the last summary left unanswered in its session, if nothing was said since."""
        metadata = self.transcript.metadata
        before = metadata.continued_from if metadata else None
        if before is None:
            return None
        try:
            older = await self.sessions.transcript(self.instance.instance_id, before)
        except PersonaLabError:
            return None
        found = left_behind(self.transcript.turns, older)
        return (before, found.number) if found else None

    # --- the reply's line

    def begin_reply(self, timestamp: str) -> ReplyWriter:
        """Open the reply's line; tokens are then written to it and added to ``text``."""
        self.reply = self.log.begin_reply(self.number, timestamp)
        return self.reply

    async def close_reply(
        self, timestamp: str, *, interrupted: bool = False, error: bool = False, truncated: bool = False
    ) -> AssistantLine:
        """Close the reply's line, also one that never began; an empty reply is stored as such."""
        written = "".join(self.text)
        thoughts, content = split_reasoning(written)
        empty = not has_speech(content)
        if empty:
            content = NO_REPLY
        reply = self.reply or self.begin_reply(timestamp)
        if thoughts:
            reply.think(thoughts)
            self.reasoning.append(thoughts)
        if content != written:
            self.log.rewrite_reply(content)
        line = AssistantLine(
            content,
            self.number,
            timestamp,
            interrupted=interrupted,
            empty=empty,
            error=error,
            truncated=truncated,
            reasoning="".join(self.reasoning),
        )
        self.restored = await self.log.end_reply(line)
        self.transcript = self.log.transcript
        self.reply = None
        self.text, self.reasoning = [], []
        self.unread = content
        self.model_asked_at = None
        await self.leases.release_hold(self.instance.instance_id, self.number)
        return line

    # --- the plot

    async def record_progress(self, content: str) -> PlotProgress:
        """Follow the reply's markers and save where the story stands; the director may be off."""
        self.unread = None
        if not self.data.preferences.director.enabled:
            return PlotProgress(self.instance.plot_state)
        fresh = await self.stories.instance(self.instance.instance_id)
        progress = read_progress(content, fresh.plot_state, len(self.data.background.story_outline))
        self.instance = fresh.with_plot(progress.plot_state)
        await self.stories.save_instance(self.instance, self.lease.lock, sync=self.log.survives_power_loss)
        return progress

    async def finalize(self, *, abandoned: bool, cancelled: bool) -> None:
        """Close the session; a turn that was left before its last step is brought to its end all the same.

        One that was cancelled before its reply began gets an interrupted one.
        """
        try:
            if cancelled and self.model_asked_at is not None:
                await self.close_reply(self.model_asked_at, interrupted=True)
                if self.loaded is None:
                    await self.load(self)
            if abandoned and self.unread is not None and self.loaded is not None:
                await self.record_progress(self.unread)
        except Exception as error:  # noqa: BLE001 (the lock is given back whatever the turn's end meets)
            _log.warning("turn %d was left and could not be brought to its end: %s", self.number, error)
        finally:
            await self.log.close()


class OpenTurns:
    """Begins turns and finds them again at each step."""

    def __init__(self, ports: StoryPorts, leases: Leases, *, wait: float) -> None:
        self._stories = ports.stories
        self._sessions = ports.sessions
        self._settings = ports.settings
        self._leases = leases
        self.wait = wait
        self._open: dict[str, OpenTurn] = {}
        self._reopening: dict[str, asyncio.Task[OpenTurn]] = {}

    @property
    def closing(self) -> bool:
        """Whether no turn may begin any more."""
        return self._leases.closing

    async def held_turn(self, instance_id: str) -> int | None:
        """Find, without the lock, the turn for whose reply a story is held for a client that writes elsewhere."""
        return await self._leases.held_turn(instance_id)

    async def is_requested(self, instance_id: str, request_id: str) -> bool:
        """Tell, without the lock, whether a call with this ``request_id`` has begun a turn."""
        instance = await self._stories.instance(instance_id)
        transcript = await self._sessions.transcript(instance_id, instance.current_session_id)
        return transcript.requested(request_id) is not None

    async def begin(
        self,
        instance_id: str,
        task: str,
        prepare: Callable[[OpenTurn], Awaitable[None]],
        *,
        wait: float | None = None,
    ) -> OpenTurn:
        """Acquire the story's lock, check what the turn needs, then let ``prepare`` write; all or nothing."""
        lease = await self._leases.acquire(instance_id, task, wait=self.wait if wait is None else wait)
        async with lease.step():
            instance = await self._checked_instance(instance_id)
            character = await self._stories.character_state(instance_id)
            log = await self._sessions.open(instance_id, instance.current_session_id, lease.lock)
            turn = OpenTurn(
                instance,
                character,
                log.transcript,
                stories=self._stories,
                sessions=self._sessions,
                load=self.load,
                leases=self._leases,
                lease=lease,
                log=log,
            )
            lease.on_release = turn.finalize
            await prepare(turn)
        self._open = {key: found for key, found in self._open.items() if not found.lease.released}
        self._open[lease.lease_id] = turn
        return turn

    async def _checked_instance(self, instance_id: str) -> InstanceState:
        instance = await self._stories.instance(instance_id)
        if instance.instance_id != instance_id:
            shown = f"instances/{instance_id}/instance_state.json"
            raise StorageError(
                "file_broken", file=shown, reason=Reason("other_instance", instance_id=instance.instance_id)
            )
        return instance

    def stop_all(self) -> None:
        """Ask every turn of this process to stop, as if someone had called ``stop``; none begins any more."""
        self._leases.close()
        for turn in list(self._open.values()):
            turn.lease.stopping = True

    @asynccontextmanager
    async def step(
        self, lease_id: str, instance_id: str, number: int, *, closed: bool, for_model: bool = False
    ) -> AsyncGenerator[OpenTurn]:
        """Work on a turn; one whose lease was given up meanwhile is opened again if nothing came after it."""
        turn = self._open.get(lease_id)
        if turn is None or turn.lease.released:
            opening = self._reopening.get(lease_id)
            if opening is None:
                opening = asyncio.ensure_future(
                    self._reopen(instance_id, number, closed=closed, for_model=for_model)
                )
                self._reopening[lease_id] = opening
                opening.add_done_callback(lambda _: self._reopening.pop(lease_id, None))
                discard_failure(opening)  # whoever asked for it may be cancelled first
            turn = self._open[lease_id] = await opening
        async with turn.lease.step():
            yield turn

    async def _reopen(self, instance_id: str, number: int, *, closed: bool, for_model: bool) -> OpenTurn:
        async def check(turn: OpenTurn) -> None:
            last = turn.transcript.last
            if last is None or last.number != number or (last.settled and not closed):
                raise UserError("turn_overtaken", turn=number)
            turn.number = number
            if for_model and not closed and last.user is not None:
                turn.model_asked_at = last.user.timestamp

        turn = await self.begin(instance_id, f"turn {number}", check)
        await self.load(turn)
        return turn

    async def preview(self, instance_id: str, user_input: str, timestamp: str) -> Scene:
        """Set the scene of the turn that would come next, without a lock and without writing."""
        instance = await self._stories.instance(instance_id)
        seen = await self._sessions.transcript(instance_id, instance.current_session_id, open_reply=True)
        transcript = Transcript(seen.metadata, list(seen.turns), list(seen.trailing))
        transcript.add(UserLine(user_input, transcript.next_turn, timestamp))
        scene = Scene(instance, await self._stories.character_state(instance_id), transcript)
        scene.number = scene.turn.number
        await self.load(scene)
        return scene

    async def load(self, turn: Scene) -> Loaded:
        """Read what a turn can do without: settings, background, templates; each has a careful default."""
        preferences = await self._settings.preferences()
        notices = list(preferences.notices)
        background = await self._background(turn.instance.background_id, notices)
        language = turn.character.language or preferences.config.prompt_language
        templates, odd = await self._settings.templates(language)
        if isinstance(turn, OpenTurn):
            notices += [Notice(f"session_{done}", {}) for done in turn.log.repaired]
            turn.log.survives_power_loss = preferences.config.durability == "fsync"
        player = player_name(preferences.config, language)
        names = await names_of(self._stories, turn.instance, turn.character, player)
        turn.loaded = Loaded(preferences, background, templates, language, names, (*notices, *odd))
        return turn.loaded

    async def _background(self, background_id: str | None, notices: list[Notice]) -> Background:
        if background_id is None:
            return NO_BACKGROUND
        try:
            if not is_id(background_id):
                raise NotFound("no_background", background_id=background_id[:80])
            return await self._stories.background(background_id)
        except PersonaLabError as error:
            params = {"background_id": background_id[:80], "reason": reason_of(error)}
            notices.append(Notice("background_unreadable", params))
            return replace(NO_BACKGROUND, background_id=background_id)

    async def language(self) -> Language:
        """Read the reader's language."""
        return await self._settings.language()


async def names_of(
    stories: StoryStore, instance: InstanceState, character: CharacterState, player: str
) -> Names:
    """Find who the two of a story are; one from before names were kept has its character's in the library."""
    return Names(one_line(character.name) or await stories.character_name(instance.character_id), player)
