"""Stream the reply into the session; a token is durable before anyone sees it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from nodes.chat_turn.assemble_prompt import wordless_reminder
from nodes.chat_turn.state import TurnEmitter, TurnState
from personalab.dialogue import Message
from personalab.errors import PersonaLabError, ProviderError, StorageError
from personalab.leases import STOP_POLL_SECONDS
from personalab.ports import Clock, ReplyModel, ReplyWriter, address_of, stream_speech
from personalab.reasoning import (
    Piece,
    ReasoningSplitter,
    ThinkingHabit,
    begins_thinking,
    split_reasoning,
)
from personalab.story.director import SilentStart
from personalab.story.events import Event, TokenEvent, Usage, added_usage
from personalab.story.open_turn import OpenTurn
from personalab.story.player_lines import PlayerLines
from personalab.story.prompt import with_reminder
from personalab.story.transcript import AssistantLine, error_note
from personalab.tasks import complete, end_tasks
from personalab.texts import PROMPT_LANGUAGES, say
from personalab.texts.actions import rendering_for

FLUSH_SECONDS = 0.05
"""Where tokens have to be flushed, one waits at most this long for it."""

_SHARE_SECONDS, _LONGEST_PAUSE = 0.001, 0.05
"""With many replies at once each is emitted less often: so much time for each of them, at most so much in all."""

_HOLD_SECONDS = 0.002
"""So long a stream may keep the event loop from others."""

_READ_ON = 6_000
"""So many characters are read after a player's line, for the end of a thought that would make all of it reasoning."""
_READ_ON_SECONDS = 5.0
"""And for so long at the most: a person waits for the end of the turn."""
_LONGEST_OPENING = 16
"""So many pieces of text may be needed to see whether it begins with a tag."""

OpenModel = Callable[[], Awaitable[ReplyModel]]

_log = logging.getLogger("personalab.turn")


class _Reply:
    """The reply while it grows: a token is durable first and emitted afterwards.

    Tokens that came in one go are emitted in one event, as soon as the event loop is free again, or a little later
    where many replies are written; where the session is buffered, when they are flushed. What the model thinks is kept
    apart from what it says. Blanks and markers before the first words wait for them: a reply without words is never
    shown. It ends where the model writes a line for the player.

    Some servers put the opening tag into the prompt, so that a thought has only its end. Such an end makes reasoning of
    all that came before it. From the next reply on, the model is expected to begin inside a thought; if that thought
    has no end, it was speech.
    """

    running = 0
    """How many replies are being written in this process."""

    def __init__(
        self, turn: OpenTurn, emit: Callable[[Event], None], timestamp: str, *, offset: int = 0
    ) -> None:
        self.turn = turn
        self.timestamp = timestamp
        self.usage: Usage | None = None
        self.truncated = False
        self.frozen = False
        self._emit = emit
        self._line: ReplyWriter | None = None
        self._splitter = ReasoningSplitter()
        self._player_lines = _player_lines(turn)
        self._habit = ThinkingHabit()
        self._presumed: list[str] | None = None
        """The text so far, while it is only presumed to be a thought."""
        self._had_lone_closing = False
        self._withheld: list[str] = []
        """What came after the beginning of a player's line."""
        self._withheld_size = 0
        self._reads_on = False
        self._start = SilentStart(turn.data.names.character)
        self._speaks = False
        self._blank_thought = ""
        """Blanks at the beginning of the thoughts; a thought of nothing else is none."""
        self._pending: list[tuple[bool, str]] = []
        """Whether it is reasoning, and the text."""
        self._emitted = {False: offset, True: 0}
        self._emitted_at = 0.0
        self._written = asyncio.Event()
        self._wake = self._written.set if turn.log.is_buffered else self._emit_soon

    @property
    def offset(self) -> int:
        """How many characters of speech were emitted; an earlier try's count, too."""
        return self._emitted[False]

    @property
    def is_silent(self) -> bool:
        """Whether no words have come."""
        return not self._speaks

    @property
    def has_player_line(self) -> bool:
        """Whether the model has begun to write the player's lines."""
        return self._player_lines.found

    @property
    def is_over(self) -> bool:
        """Whether the model has begun to write the player's lines, and these are no part of its thoughts."""
        if not self._player_lines.found:
            return False
        may_be_thought = not (self._had_lone_closing or self._splitter.has_opened or self.turn.reasoning)
        return not (may_be_thought and self._reads_on and self._withheld_size <= _READ_ON)

    def expect(self, habit: ThinkingHabit, *, careful: bool) -> None:
        """Read the text as this model's; ``careful`` for one that should not lose thoughts again."""
        self._habit = habit
        self._reads_on = careful or habit.begins_inside is None
        if habit.begins_inside:
            self._presumed = []
            self._splitter = ReasoningSplitter(is_thinking=True)

    def add(self, text: str) -> None:
        """Take a piece of the model's text, in which thoughts may be marked by tags."""
        if self._presumed is None:
            self._take(self._splitter.feed(text))
            return
        self._presumed.append(text)
        if len(self._presumed) <= _LONGEST_OPENING and begins_thinking("".join(self._presumed)):
            self._take_back_thought()
            return
        pieces = self._splitter.feed(text)
        if self._splitter.has_closed:
            self._presumed = None
        self._take(pieces)

    def add_reasoning(self, text: str) -> None:
        """Take what the provider sends apart from the text, which then holds no thoughts without a beginning."""
        if self._presumed is not None:
            self._take_back_thought()
        self._take(self._splitter.flush_thought())
        self.think(text)

    def end(self) -> None:
        """Take note that the model has said all it wanted to say."""
        if self.truncated:
            if self._presumed is not None:  # a thought, or speech that no thought precedes any more
                self._habit.begins_inside = None
        elif self._presumed is not None:
            self._take_back_thought()
        elif not self._had_lone_closing and not self._habit.begins_inside and self._speaks:
            self._habit.begins_inside = False

    def flush(self) -> None:
        """Take what was held back at the end of the model's text."""
        self._take(self._splitter.flush())
        if speech := self._player_lines.flush():
            self.say(speech)
        if not self._speaks and (words := self._start.flush()):
            self._speak(words)

    def _take(self, pieces: Sequence[Piece]) -> None:
        for kind, text in pieces:
            match kind:
                case "reasoning":
                    self.think(text)
                case "speech":
                    self._hear(text)
                case "lone_closing":
                    self._end_lone_thought(text)

    def _hear(self, text: str) -> None:
        """Take a piece of speech as far as it is not the player's."""
        if speech := self._player_lines.feed(text):
            self.say(speech)
        if self._player_lines.found:
            rest = self._player_lines.take_rest()
            self._withheld.append(rest)
            self._withheld_size += len(rest)

    def _end_lone_thought(self, tag: str) -> None:
        """Make reasoning of everything that was said: it was a thought without a beginning."""
        if self.frozen:
            return
        turn = self.turn
        hidden = "" if self._speaks else self._start.held
        hidden += self._player_lines.flush() + "".join(self._withheld)
        if thought := "".join(turn.text) + hidden:
            if not turn.reasoning and thought.strip():
                self._habit.begins_inside = True
            if self._emitted[False]:
                self._queue(f"{tag}\n\n", is_reasoning=False)
            else:
                self._drop_pending(is_reasoning=False)
            self._store(hidden + tag, is_reasoning=False)  # a line with both is read as it is written below
            self.think(thought)
            turn.log.rewrite_reply("")
            turn.text.clear()
        self._player_lines = _player_lines(turn)
        self._start = SilentStart(turn.data.names.character)
        self._withheld, self._withheld_size = [], 0
        self._speaks, self._had_lone_closing = False, True

    def _take_back_thought(self) -> None:
        """Make speech of what was presumed to be a thought."""
        text = "".join(self._presumed or ())
        self._presumed, self._splitter = None, ReasoningSplitter()
        self._habit.begins_inside = False
        if self.frozen:
            return
        pieces = self._splitter.feed(text)
        self._blank_thought = ""
        self.turn.reasoning.clear()
        self._drop_pending(is_reasoning=True)
        self.withdraw_reasoning()
        self._emitted[True] = 0
        self._take([piece for piece in pieces if piece[0] != "reasoning"])
        if self._line is not None:
            self.turn.log.drop_reasoning()
        self._take([piece for piece in pieces if piece[0] == "reasoning"])

    def _drop_pending(self, *, is_reasoning: bool) -> None:
        """Drop text that was not emitted yet; its places stay, for others may have counted them."""
        self._pending = [(kind, "" if kind is is_reasoning else text) for kind, text in self._pending]

    def say(self, text: str) -> None:
        """Take a piece of speech; markers and blanks wait for the first words."""
        if not self._speaks:
            if text := self._start.feed(text):
                self._speak(text)
            return
        self._write(text, self.turn.text, is_reasoning=False)

    def _speak(self, text: str) -> None:
        """Take the first words and the blanks and markers before them."""
        self._speaks = True
        follows_thought = bool(self.turn.reasoning or self._blank_thought)
        self._write(text.lstrip() if follows_thought else text, self.turn.text, is_reasoning=False)

    def think(self, text: str) -> None:
        """Take a piece of what the model thinks; blanks wait for its first words."""
        if not self.turn.reasoning:
            text = self._blank_thought + text
            self._blank_thought = "" if text.strip() else text
            if self._blank_thought or not text:
                return
        self._write(text, self.turn.reasoning, is_reasoning=True)

    def _write(self, text: str, kept: list[str], *, is_reasoning: bool) -> None:
        """Write text to the file; it will be emitted soon."""
        if self.frozen:
            return
        self._store(text, is_reasoning=is_reasoning)
        kept.append(text)
        self._queue(text, is_reasoning=is_reasoning)

    def _store(self, text: str, *, is_reasoning: bool) -> None:
        if self._line is None:
            self._line = self.turn.begin_reply(self.timestamp)
        if is_reasoning:
            self._line.think(text)
        else:
            self._line.write(text)

    def _queue(self, text: str, *, is_reasoning: bool) -> None:
        if not self._pending:
            self._wake()
        self._pending.append((is_reasoning, text))

    async def note(self, text: str) -> None:
        """Write the last words of a reply that failed; everything before them has been emitted."""
        self.frozen = False
        self._speaks = True
        try:
            self._write(text, self.turn.text, is_reasoning=False)
        finally:
            self.frozen = True
        if self.turn.log.is_buffered:
            await self.turn.log.flush()
        self.emit_pending(error_note=True)

    def _emit_soon(self) -> None:
        loop = asyncio.get_running_loop()
        due = self._emitted_at + min(_SHARE_SECONDS * (_Reply.running - 1), _LONGEST_PAUSE)
        if due <= loop.time():
            loop.call_soon(self.emit_pending)
        else:
            loop.call_at(due, self.emit_pending)

    def emit_pending(self, count: int | None = None, *, error_note: bool = False) -> None:
        """Emit what is written, or the first so many pieces of it."""
        if not self._pending:
            return
        self._emitted_at = asyncio.get_running_loop().time()
        pieces = self._pending[:count]
        del self._pending[:count]
        for is_reasoning, group in groupby(pieces, key=itemgetter(0)):
            if not (text := "".join(piece for _, piece in group)):
                continue
            offset = self._emitted[is_reasoning]
            self._emitted[is_reasoning] = offset + len(text)
            if is_reasoning:
                self._emit({"type": "reasoning", "turn": self.turn.number, "text": text, "offset": offset})
            else:
                token: TokenEvent = {
                    "type": "token",
                    "turn": self.turn.number,
                    "text": text,
                    "offset": offset,
                }
                self._emit({**token, "error_note": True} if error_note else token)

    def withdraw_reasoning(self) -> None:
        """Tell that the reasoning so far is void: the next try thinks from the beginning."""
        if self._emitted[True]:
            self._emit({"type": "reasoning", "turn": self.turn.number, "text": "", "offset": 0})

    def emit_moved(self, reasoning: str) -> None:
        """Tell thoughts that were found in the speech when the line was closed."""
        offset = self._emitted[True]
        if rest := reasoning[offset:]:
            self._emit({"type": "reasoning", "turn": self.turn.number, "text": rest, "offset": offset})

    async def keep_flushed(self) -> None:
        """Flush written tokens in groups, then emit them."""
        while True:
            await self._written.wait()
            self._written.clear()
            await self.flush_written()
            await asyncio.sleep(FLUSH_SECONDS / 2)

    async def flush_written(self) -> None:
        """Emit what is written, after it is durable."""
        if self._pending:
            count = len(self._pending)
            await self.turn.log.flush()
            self.emit_pending(count)
            if self._pending:
                self._written.set()


async def stream_reply(
    state: TurnState, *, turn: OpenTurn, open_model: OpenModel, now: Clock, emitter: TurnEmitter
) -> dict[str, Any]:
    """Let the model (or the caller's text) write the reply, and close its line however it ends.

    A model that answers with nothing but markers or blanks is asked once more.
    """
    reply = _Reply(turn, emitter.emit, now())
    interrupted = False
    failure: PersonaLabError | None = None
    attempt, usage = state.get("attempt", 1), None
    try:
        interrupted = await _write(reply, state, open_model)
        if reply.is_silent and not interrupted and state.get("mode") != "end":
            await complete(turn.close_reply(reply.timestamp, truncated=reply.truncated))
            attempt, usage = attempt + 1, reply.usage
            reply.withdraw_reasoning()
            reply = _Reply(turn, emitter.emit, now(), offset=reply.offset)
            turn.model_asked_at = reply.timestamp
            interrupted = await _write(reply, state, open_model, again=True)
    except asyncio.CancelledError:
        await _close_cancelled(reply)
        raise
    except PersonaLabError as error:
        failure = error
    except Exception as error:  # noqa: BLE001 (a model is foreign code: its line is closed whatever it raises)
        _log.exception("the model failed in an unexpected way")
        failure = ProviderError("provider.failed", reason=type(error).__name__)
    line = await complete(_close(reply, failure, emitter, interrupted=interrupted))
    reply.emit_moved(line.reasoning)
    try:
        await turn.log.flush()
    except StorageError as error:
        failure = failure or error
    update: dict[str, Any] = {
        "reply": line.content,
        "reasoning": line.reasoning,
        "usage": added_usage(usage, reply.usage),
        "attempt": attempt,
        "status": line.status,
        "truncated": line.truncated,
        "closed": True,
    }
    if failure is not None:
        update["error"] = emitter.error(failure)
    return update


async def _write(reply: _Reply, state: TurnState, open_model: OpenModel, *, again: bool = False) -> bool:
    """Write the reply to its end; return whether someone asked to stop before it was done."""
    if state.get("mode") == "end":
        reply.truncated = state.get("brought_truncated", False)
        reasoning, speech = split_reasoning(state.get("brought", ""))
        if reasoning:
            reply.think(reasoning)
        if state.get("brought_by_model"):
            lines = _player_lines(reply.turn)
            speech = lines.feed(speech) + lines.flush()
        reply.say(speech)
        reply.flush()
        await _emit_rest(reply)
        return False
    if reply.turn.stopped or reply.turn.lease.stop_requested():
        return True
    messages = _messages(state)
    if again:
        messages = with_reminder(messages, wordless_reminder(reply.turn.data))
    careful = state.get("mode") == "retry"
    consumer = asyncio.create_task(_consume(reply, open_model, messages, careful=careful))
    flusher = asyncio.create_task(reply.keep_flushed()) if reply.turn.log.is_buffered else None
    running = {consumer} if flusher is None else {consumer, flusher}
    _Reply.running += 1
    try:
        while not consumer.done():
            await asyncio.wait(running, timeout=STOP_POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if flusher is not None and flusher.done():
                flusher.result()
            if not consumer.done() and reply.turn.lease.stop_requested():
                reply.frozen = True
                return True
        consumer.result()
        return False
    finally:
        _Reply.running -= 1
        reply.frozen = True
        await end_tasks(running, 0.5)  # not for ever: the reply is frozen already
        await _emit_rest(reply)


def _player_lines(turn: OpenTurn) -> PlayerLines:
    """Look for lines of the player, by the name and the words a model may have for them."""
    names = turn.data.names
    words = {say("player", each) for each in PROMPT_LANGUAGES} - {names.character}
    return PlayerLines({names.player} - words - {names.character}, words, names.character)


def _messages(state: TurnState) -> list[Message]:
    prompt = state.get("prompt") or {}
    system: list[Message] = [{"role": "system", "content": prompt["system"]}] if prompt.get("system") else []
    return [*system, *prompt.get("messages", [])]


async def _consume(reply: _Reply, open_model: OpenModel, messages: list[Message], *, careful: bool) -> None:
    model = await open_model()
    reply.expect(ThinkingHabit.of(model.name, address_of(model)), careful=careful)
    stream = stream_speech(model, messages)
    now = asyncio.get_running_loop().time
    held = now()
    reading_on = asyncio.timeout(None)
    try:
        add = reply.add
        async with reading_on:
            async for chunk in stream:
                if chunk.reasoning:
                    reply.add_reasoning(chunk.reasoning)
                if chunk.text:
                    add(chunk.text)
                if chunk.usage is not None:
                    reply.usage = chunk.usage
                if chunk.truncated:
                    reply.truncated = True
                if reply.has_player_line:
                    if reply.is_over:
                        break
                    if reading_on.when() is None:
                        reading_on.reschedule(now() + _READ_ON_SECONDS)
                elif reading_on.when() is not None:  # the line was a part of the thoughts
                    reading_on.reschedule(None)
                if now() - held > _HOLD_SECONDS:  # chunks that are there already come without a pause
                    await asyncio.sleep(0)
                    held = now()
        reply.end()
    except TimeoutError:
        if not reading_on.expired():
            raise
        reply.end()
    except ProviderError:
        if not reply.has_player_line:  # the reply was whole, and was only read on
            raise
    finally:
        try:
            reply.flush()
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()


async def _emit_rest(reply: _Reply) -> None:
    """Emit the rest of what is written."""
    if reply.turn.log.is_buffered:
        await reply.flush_written()
    reply.emit_pending()


async def _close(
    reply: _Reply, failure: PersonaLabError | None, emitter: TurnEmitter, *, interrupted: bool
) -> AssistantLine:
    """Close the reply's line, with a note of what failed."""
    if failure is not None:
        await _note(reply, failure, emitter)
    return await reply.turn.close_reply(
        reply.timestamp, interrupted=interrupted, error=failure is not None, truncated=reply.truncated
    )


async def _note(reply: _Reply, error: PersonaLabError, emitter: TurnEmitter) -> None:
    """Leave word of the error in the reply's line, where the session can still be written."""
    if isinstance(error, StorageError):
        return
    with rendering_for("terminal"):  # a file is the same from every entrance
        message = error.message(emitter.language)
    try:
        await reply.note(error_note(message, "".join(reply.turn.text), emitter.language))
    except StorageError as lost:
        _log.warning("the note of a failed reply could not be written: %s", lost)


async def _close_cancelled(reply: _Reply) -> None:
    """Close the line as interrupted and run the director, even if we are cancelled again meanwhile."""
    reply.frozen = True
    turn = reply.turn

    async def finish() -> None:
        line = await turn.close_reply(reply.timestamp, interrupted=True)
        await turn.record_progress(line.content)
        await turn.log.flush()

    await complete(finish())
