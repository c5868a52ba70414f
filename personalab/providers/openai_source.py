"""Replies of servers that speak OpenAI's protocol, read without LangChain.

The ``openai`` package walks through every message of a request and builds an object for every event of a reply. Here a
request is one JSON text, and all events that arrive together become one piece.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar, cast

from personalab.dialogue import AnswerSchema, Message, PairJoiner, well_formed
from personalab.errors import Invalid
from personalab.ports import ReplyChunk
from personalab.providers.connections import (
    LostConnectionError,
    OpenAIEndpoint,
    RequestTarget,
    buffered,
    client_errors,
    client_of_loop,
    lost_connection,
)
from personalab.providers.model_settings import ModelSettings
from personalab.providers.provider_model import (
    Part,
    ReplyEnding,
    content_parts,
    field_reasoning,
    openai_format,
    stall_error,
)
from personalab.story.events import Usage

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")
_decode = json.JSONDecoder().decode
OpenEndpoint = Callable[[], Awaitable[OpenAIEndpoint]]
_SLICE_SIZE = 16 * 1024
"""So many bytes of events are read before others have their turn: about 1 ms."""
_SLICE_LENGTH, _MESSAGE_LENGTH = 250_000, 400
"""So many characters of messages are written before others have theirs; each message takes as long as so many more."""
_LONGEST_EVENT = 4 * 1024 * 1024
_LONGEST_ERROR = 64 * 1024
_KEPT_SIZE = 32 * 1024 * 1024
"""Maximum bytes of messages cached with their JSON, for all stories together."""
_LARGEST_SHARE = 16
"""A message that takes more than one part in so many of that is not kept."""
_ENTRY_SIZE = 300
_TIMER_SECONDS = 0.002
"""Timers of some event loops are early by so much."""
_END_SECONDS = 0.05
"""Seconds to wait for the end of a response once the answer is complete."""


class OpenAIError(Exception):
    """What a server says instead of an answer, with what ``failures`` looks for."""

    def __init__(self, message: str, body: object, response: aiohttp.ClientResponse | None = None) -> None:
        super().__init__(message)
        self.body = body
        self.response = response
        self.status_code = response.status if response is not None else None


@dataclass(frozen=True, slots=True)
class OpenAISource:
    """Asks a server for one answer after the other."""

    open_endpoint: OpenEndpoint
    settings: ModelSettings
    text_lengths: bool = False
    """Whether the lengths of texts in a schema can be enforced."""
    speech_body: Mapping[str, object] = field(default_factory=dict[str, object])
    """What the request for a character's reply says besides."""
    schema_body: Mapping[str, object] = field(default_factory=dict[str, object])
    """What a request with a schema says besides."""

    async def stream(
        self, messages: Sequence[Message], schema: AnswerSchema | None, *, speech: bool
    ) -> AsyncGenerator[ReplyChunk]:
        """Yield the pieces of one answer: one for all that arrives at a time."""
        endpoint = await self.open_endpoint()
        body: dict[str, Any] = {
            "model": endpoint.model,
            "stream": True,
            "stream_options": {"include_usage": True},
            **_options(endpoint, self.settings),
        }
        if schema is not None:
            body |= self.schema_body
            body["response_format"] = openai_format(schema, text_lengths=self.text_lengths)
        elif speech:
            body |= self.speech_body
        answer = EventReader()
        response, patience = await self._request(endpoint, body, messages, keep=speech)
        try:
            if not response.ok:
                raise await patience.wait_for(_refusal(response))
            if _is_packed(response):
                raise Invalid("compressed_answer")
            read, lost, taken = response.content.readany, None, 0
            while not answer.is_done and lost is None:
                data, lost = await _arrived(response, patience)
                if not data:
                    break
                for start in range(0, len(data), _SLICE_SIZE):
                    if taken >= _SLICE_SIZE:  # reading what is there already does not wait
                        await asyncio.sleep(0)
                        taken = 0
                    part = data[start : start + _SLICE_SIZE]
                    taken += len(part)
                    if answer.feed(part):
                        patience.renew(self.settings.stall_seconds)
                    for piece in answer.pieces():
                        yield piece
                    answer.check()
            if lost is not None and not answer.is_done:
                raise lost
            for piece in answer.end():
                yield piece
            # A connection whose response was read to its end can be used again.
            with suppress(Exception):
                async with asyncio.timeout(_END_SECONDS):
                    while await read():
                        pass
        finally:
            patience.close()
            response.close()

    async def _request(
        self, endpoint: OpenAIEndpoint, body: Mapping[str, Any], messages: Sequence[Message], *, keep: bool
    ) -> tuple[aiohttp.ClientResponse, Patience]:
        """Send the request; its body is let go of as soon as a response begins."""
        address = RequestTarget.parse(endpoint.base_url, "/chat/completions")
        client = await client_of_loop()
        data = await encode_request(body, messages, keep=keep)
        patience = Patience(self.settings.first_token_seconds)
        sending = client.post(address, data, _headers(endpoint), self.settings)
        try:
            return await patience.wait_for(sending), patience
        except BaseException:
            patience.close()
            raise


async def _arrived(
    response: aiohttp.ClientResponse, patience: Patience
) -> tuple[bytes, LostConnectionError | None]:
    """Wait for bytes; with the last ones comes how the connection was lost, if it was."""
    try:
        return await patience.wait_for(response.content.readany()), None
    except client_errors() as error:
        return buffered(response), lost_connection(error)


class Patience:
    """How long a server may take until its next event; the time that others take does not count.

    One timer serves all waits of a stream: ``asyncio.timeout`` would set one for every piece that arrives.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = self._left = seconds
        self._deadline = 0.0
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0
        self._task: asyncio.Task[Any] | None = None
        """Who waits now."""
        self._is_over = False

    def renew(self, seconds: float) -> None:
        """Set the time that the server may take from now on."""
        self._seconds = self._left = seconds

    async def wait_for(self, work: Awaitable[T]) -> T:
        """Await something; a server that takes too long has stalled."""
        loop, task = asyncio.get_running_loop(), cast("asyncio.Task[Any]", asyncio.current_task())
        begun, cancels = loop.time(), task.cancelling()
        self._deadline = begun + self._left
        if self._timer is None or self._timer_at > self._deadline:
            self._set_timer(loop)
        self._task = task
        try:
            return await work
        except asyncio.CancelledError as error:
            if self._is_over and task.cancelling() - 1 <= cancels:
                raise stall_error(self._seconds) from error
            raise
        finally:
            self._task = None
            self._left -= loop.time() - begun
            if self._is_over:
                self._is_over = False
                task.uncancel()

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self.close()
        self._timer_at = self._deadline
        self._timer = loop.call_at(self._deadline, self._check, loop)

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._task is None:
            return
        if loop.time() < self._deadline - _TIMER_SECONDS:
            self._set_timer(loop)
        else:
            self._is_over = True
            self._task.cancel()

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class EventReader:
    """Reads the events of one answer, wherever the stream is cut."""

    def __init__(self) -> None:
        self.is_done = False
        self._rest: list[bytes] = []
        """The beginning of a line, in pieces."""
        self._return = b""
        """A carriage return at the end, after which a line feed may come."""
        self._begun: list[str] = []
        """The lines of an event that goes on."""
        self._plain: list[str] = []
        """The lines of a JSON object that came instead of events."""
        self._size = 0
        """How much is waiting for its end."""
        self._is_error = False
        self._has_deltas = False
        self._failure: Exception | None = None
        self._count = 0
        self._parts: list[Part] = []
        self._text_joiner, self._reasoning_joiner = PairJoiner(), PairJoiner()
        self._ending = ReplyEnding(openai_wire=True)

    def feed(self, data: bytes) -> bool:
        """Take bytes; return whether an event has come."""
        before = self._count
        data = self._return + data
        self._return = b"\r" if data.endswith(b"\r") else b""
        if self._return:
            data = data[:-1]
        self._size += len(data)
        if self._size > _LONGEST_EVENT:
            raise Invalid("event_too_long")
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not end:
            self._rest.append(data)
            return False
        whole = b"".join((*self._rest, data[:end]))  # lines are whole UTF-8, a piece of one may not be
        self._rest = [data[end:]]
        text = whole.decode("utf-8", "replace")
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        try:
            for line in text.split("\n")[:-1]:
                self._take_line(line)
        except Exception as error:  # noqa: BLE001 (what came before it is taken first)
            self._failure = error
        self._size = len(self._rest[0]) + sum(map(len, self._begun)) + sum(map(len, self._plain))
        return self._count > before

    def check(self) -> None:
        """Raise what went wrong while the last bytes were read."""
        if self._failure is not None:
            raise self._failure

    def pieces(self) -> Iterator[ReplyChunk]:
        """Yield what has come since the last time."""
        if not self._parts:
            return
        parts, self._parts = self._parts, []
        for is_reasoning, run in groupby(parts, key=itemgetter(0)):
            text = "".join(text for _, text in run)
            if is_reasoning:
                if text := self._reasoning_joiner.feed(text):
                    yield ReplyChunk(reasoning=text)
            elif text := self._text_joiner.feed(text):
                yield ReplyChunk(text)

    def end(self) -> Iterator[ReplyChunk]:
        """Yield what is left at the end of the stream, and how it ended."""
        self.feed(b"\n")
        with suppress(ValueError):  # an event that was cut says nothing
            self._end_event()
        if self._plain and self._failure is None:
            self._take_answer(_decode("\n".join(self._plain)))
        yield from self.pieces()
        self.check()
        if not self._count and not self.is_done:
            raise Invalid("no_events")
        if reasoning := self._reasoning_joiner.flush():
            yield ReplyChunk(reasoning=reasoning)
        if text := self._text_joiner.flush():
            yield ReplyChunk(text)
        if (last := self._ending.last_chunk()) is not None:
            yield last

    def _take_line(self, line: str) -> None:
        if line.startswith("data:"):
            self._take_data(line[5:].strip())
        elif line.startswith("event:"):
            self._is_error = line[6:].strip() == "error"
        elif self._plain or (not self._count and line.lstrip().startswith("{")):
            self._plain.append(line)
        elif not line.strip():
            self._end_event()
            self._is_error = False

    def _end_event(self) -> None:
        if self._begun:
            lines, self._begun = self._begun, []
            self._take_event(_decode("\n".join(lines)))

    def _take_answer(self, fields: object) -> None:
        """Take a whole answer, or an error, from a server that does not stream."""
        found = cast("dict[str, object]", fields) if isinstance(fields, dict) else {}
        if found and "choices" not in found:
            raise _error(found.get("error") or found)
        self._take_event(found)

    def _take_data(self, data: str) -> None:
        """Take a line of an event, which mostly is all of it."""
        if self.is_done:
            return
        if self._begun:
            self._begun.append(data)
            return
        if data == "[DONE]":
            self.is_done = True
            return
        try:
            fields: object = _decode(data)
        except ValueError:
            self._begun.append(data)
        else:
            self._take_event(fields)

    def _take_event(self, fields: object) -> None:
        if not isinstance(fields, dict):
            raise Invalid("event_not_object")
        event = cast("dict[str, Any]", fields)
        if (error := event.get("error")) or self._is_error:
            raise _error(error or event)
        self._count += 1
        if (usage := event.get("usage")) and isinstance(usage, dict):
            self._ending.add_usage(_usage(cast("Mapping[str, Any]", usage)))
        for choice in event.get("choices") or ():
            if choice.get("index") in (None, 0, "0"):
                self._take_choice(choice)

    def _take_choice(self, choice: Mapping[str, Any]) -> None:
        delta: Mapping[str, Any] | None = choice.get("delta")
        if delta is not None:
            self._has_deltas = True
        elif not self._has_deltas:  # else it is the whole answer once more
            delta = choice.get("message")
        delta = delta or {}
        if reasoning := field_reasoning(delta):
            self._parts.append((True, reasoning))
        content = delta.get("content")
        if isinstance(content, str):
            self._parts.append((False, content))
        elif content:
            self._parts += content_parts(content)
        if reason := choice.get("finish_reason"):
            self._ending.reason = str(reason).lower()


def _options(endpoint: OpenAIEndpoint, settings: ModelSettings) -> dict[str, Any]:
    options: dict[str, Any] = dict(endpoint.extra_body)
    if settings.temperature is not None:
        options["temperature"] = settings.temperature
    if settings.max_output_tokens is not None:
        options["max_tokens"] = settings.max_output_tokens
    if settings.reasoning is not None:
        options["reasoning_effort"] = "none" if settings.reasoning == "off" else settings.reasoning
    return options


async def encode_request(
    body: Mapping[str, Any], messages: Sequence[Message], *, keep: bool = False
) -> bytes:
    """Write a request as JSON; with ``keep``, messages that come again in the next request are written once.

    Others have their turn between two slices of a long story.
    """
    parts: list[bytes] = []
    write = _kept_texts.for_request() if keep else _write_all
    for some in _slices(messages):
        if parts:
            await asyncio.sleep(0)
        parts.append(_encode_messages(some, write))
    head = _write(body).encode("utf-8", "replace")
    return b'%s, "messages": [%s]}' % (head[:-1], b",".join(parts))


def _slices(messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
    """Cut messages into slices that take about the same time; a long one is not cut."""
    start = size = 0
    for end, length in enumerate(map(len, map(itemgetter("content"), messages)), 1):
        size += length + _MESSAGE_LENGTH
        if size >= _SLICE_LENGTH:
            yield messages[start:end]
            start, size = end, 0
    if start < len(messages):
        yield messages[start:]


def _encode_messages(messages: Sequence[Message], write: Callable[[Sequence[Message]], list[str]]) -> bytes:
    """Write messages; lone surrogates, which UTF-8 does not know, are looked for only where there are some."""
    try:
        return ",".join(write(messages)).encode("utf-8")
    except UnicodeEncodeError:
        proper = [Message(role=one["role"], content=well_formed(one["content"])) for one in messages]
        return ",".join(_write_all(proper)).encode("utf-8", "replace")


class MessageTexts:
    """Messages as JSON. Those of a story's past are the same objects in every turn; a system message is a new one.

    An entry keeps its message alive, so that no other object can have the same id. Entries that were not used lately
    make room for others; a story that is larger than the limit is kept in part.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._young: dict[int, _Entry] = {}
        self._old: dict[int, _Entry] = {}
        self._young_size = self._old_size = 0

    def __call__(self, messages: Sequence[Message]) -> list[str]:
        """Return the JSON of each message."""
        return self.for_request()(messages)

    def for_request(self) -> Callable[[Sequence[Message]], list[str]]:
        """Return what writes the messages of one request, slice by slice; it makes room only once."""
        has_turned = False

        def write(messages: Sequence[Message]) -> list[str]:
            nonlocal has_turned
            texts: list[str] = []
            young = [*map(self._young.get, map(id, messages))]
            for message, entry in zip(messages, young, strict=True):
                if entry is None and (entry := self._old.pop(id(message), None)) is not None:
                    self._old_size -= entry.size
                    self._add(entry)
                if (
                    entry is None
                    or entry.content is not message["content"]
                    or entry.role is not message["role"]
                ):
                    entry = _Entry(message, _write(message))
                    if message["role"] != "system" and entry.size <= self._limit // _LARGEST_SHARE:
                        has_turned = self._keep(entry, has_turned)
                texts.append(entry.text)
            return texts

        return write

    def _keep(self, entry: _Entry, has_turned: bool) -> bool:
        """Keep an entry if there is room; return whether room was made in this request."""
        if not has_turned and self.size + entry.size > self._limit:
            has_turned = True
            self._old, self._old_size = self._young, self._young_size
            self._young, self._young_size = {}, 0
        if self.size + entry.size <= self._limit:
            self._add(entry)
        return has_turned

    def _add(self, entry: _Entry) -> None:
        before = self._young.get(id(entry.message))
        self._young_size += entry.size - (before.size if before is not None else 0)
        self._young[id(entry.message)] = entry

    @property
    def size(self) -> int:
        """How many bytes are kept."""
        return self._young_size + self._old_size


class _Entry:
    __slots__ = ("content", "message", "role", "size", "text")

    def __init__(self, message: Message, text: str) -> None:
        self.message = message
        self.role = message["role"]
        self.content = message["content"]
        self.text = text
        self.size = _ENTRY_SIZE + sys.getsizeof(text) + sys.getsizeof(self.content)


_write = json.JSONEncoder(ensure_ascii=False).encode


def _write_all(messages: Sequence[Message]) -> list[str]:
    return list(map(_write, messages))


_kept_texts = MessageTexts(_KEPT_SIZE)


def _headers(endpoint: OpenAIEndpoint) -> dict[str, str]:
    return {
        "Authorization": f"Bearer {endpoint.api_key}",
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        "Accept-Encoding": "identity",
    }


async def _refusal(response: aiohttp.ClientResponse) -> OpenAIError:
    """Read the body of an error, as far as it is of use."""
    data, found = b"", None
    with suppress(Exception):
        while not _is_packed(response) and len(data) < _LONGEST_ERROR:
            if not (piece := await response.content.readany()):
                break
            data += piece
    text = data[:_LONGEST_ERROR].decode("utf-8", "replace")
    with suppress(ValueError, RecursionError):
        found = json.loads(text)
    if found is None:
        return OpenAIError(text or response.reason or str(response.status), None, response)
    error = cast("Mapping[str, object]", found).get("error") if isinstance(found, dict) else None
    return _error(error or cast("object", found), response)


def _is_packed(response: aiohttp.ClientResponse) -> bool:
    """Return whether a body is compressed: unpacking it could take any amount of time and memory."""
    return response.headers.get("content-encoding", "").strip().lower() not in ("", "identity")


def _error(body: object, response: aiohttp.ClientResponse | None = None) -> OpenAIError:
    said: object = cast("Mapping[str, object]", body).get("message") if isinstance(body, dict) else None
    return OpenAIError(str(said or cast("object", body)), cast("object", body), response)


def _usage(told: Mapping[str, Any]) -> Usage:
    details = told.get("prompt_tokens_details")
    cached: object = (
        cast("Mapping[str, object]", details).get("cached_tokens") if isinstance(details, dict) else 0
    )
    return Usage(
        input_tokens=_count(told.get("prompt_tokens")),
        output_tokens=_count(told.get("completion_tokens")),
        cached_tokens=_count(cached),
    )


def _count(value: object) -> int:
    return max(int(value), 0) if isinstance(value, int | float) and math.isfinite(value) else 0
