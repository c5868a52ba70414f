"""Replies of servers that speak OpenAI's protocol, read without LangChain.

The ``openai`` package walks through every message of a request and builds an object for every event of a reply. Here a
request is one JSON text, and all events that arrive together become one piece. One client for each event loop keeps its
connections open.
"""

from __future__ import annotations

import asyncio
import functools
import json
import math
import sys
import threading
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar, cast

from personalab.answer_schema import AnswerSchema
from personalab.dialogue import Message
from personalab.errors import Invalid
from personalab.ports import ReplyChunk
from personalab.providers.content_blocks import Part, content_parts, field_reasoning
from personalab.providers.model_settings import ModelSettings
from personalab.providers.openai_chat import OpenAIEndpoint, tls
from personalab.providers.provider_model import Ending, stalled
from personalab.providers.schema_requests import openai_format
from personalab.providers.well_formed import PairJoiner, well_formed
from personalab.story.events import Usage

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")
_decode = json.JSONDecoder().decode
OpenEndpoint = Callable[[], Awaitable[OpenAIEndpoint]]
_LONGEST_EVENT = 4 * 1024 * 1024
_LONGEST_ERROR = 64 * 1024
_KEPT_SIZE = 32 * 1024 * 1024
"""So many bytes of messages are kept with their JSON, in all stories together."""
_LARGEST_SHARE = 16
"""A message that takes more than one part in so many of that is not kept."""
_ENTRY_SIZE = 300
_KEEP_SECONDS = 30.0
"""A connection that had no request for so long is not used again."""
_TIMER_SECONDS = 0.002
"""Timers of some event loops are early by so much."""
_END_SECONDS = 0.05
"""So long the end of a response is waited for once the answer is whole."""


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
        client = await _client(endpoint)
        url = f"{endpoint.base_url.rstrip('/')}/chat/completions"
        patience = Patience(self.settings.first_token_seconds)
        limits = _connect_timeout(self.settings.connect_seconds)
        try:
            response = await patience.wait_for(
                client.post(
                    url,
                    data=encode_request(body, messages, keep=speech),
                    headers=_headers(endpoint),
                    timeout=limits,
                )
            )
        except BaseException:
            patience.close()
            raise
        try:
            if not response.ok:
                raise await patience.wait_for(_refusal(response))
            if _is_packed(response):
                raise Invalid("compressed_answer")
            read = response.content.readany
            while not answer.is_done and (data := await patience.wait_for(read())):
                if answer.feed(data):
                    patience.renew(self.settings.stall_seconds)
                for piece in answer.pieces():
                    yield piece
                answer.check()
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
        """Let the server take so long from now on."""
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
                raise stalled(self._seconds) from error
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
        self._begun: list[str] = []
        """The lines of an event that goes on."""
        self._size = 0
        """How much is waiting for its end."""
        self._is_error = False
        self._failure: Exception | None = None
        self._count = 0
        self._parts: list[Part] = []
        self._text_joiner, self._reasoning_joiner = PairJoiner(), PairJoiner()
        self._ending = Ending(openai_wire=True)

    def feed(self, data: bytes) -> bool:
        """Take bytes; return whether an event has come."""
        before = self._count
        self._size += len(data)
        if self._size > _LONGEST_EVENT:
            raise Invalid("event_too_long")
        end = data.rfind(b"\n") + 1
        if not end:
            self._rest.append(data)
            return False
        whole = b"".join((*self._rest, data[:end]))  # lines are whole UTF-8, a piece of one may not be
        self._rest = [data[end:]]
        try:
            for line in whole.decode("utf-8", "replace").split("\n")[:-1]:
                self._take_line(line)
        except Exception as error:  # noqa: BLE001 (what came before it is taken first)
            self._failure = error
        self._size = len(self._rest[0]) + sum(map(len, self._begun))
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
        self.feed(b"\n\n")
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
        elif not line.strip():
            if self._begun:
                lines, self._begun = self._begun, []
                self._take_event(_decode("\n".join(lines)))
            self._is_error = False

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
            if not choice.get("index"):
                self._take_choice(choice)

    def _take_choice(self, choice: Mapping[str, Any]) -> None:
        delta: Mapping[str, Any] = choice.get("delta") or {}
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


def encode_request(body: Mapping[str, Any], messages: Sequence[Message], *, keep: bool = False) -> bytes:
    """Write a request as JSON; with ``keep``, messages that come again in the next request are written once.

    Lone surrogates, which UTF-8 does not know, are looked for only where there are some.
    """
    try:
        said = ",".join(_kept_texts(messages) if keep else map(_write, messages)).encode("utf-8")
    except UnicodeEncodeError:
        proper = [Message(role=one["role"], content=well_formed(one["content"])) for one in messages]
        said = ",".join(map(_write, proper)).encode("utf-8", "replace")
    head = _write(body).encode("utf-8", "replace")
    return b'%s, "messages": [%s]}' % (head[:-1], said)


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
        texts: list[str] = []
        has_turned = False
        for message in messages:
            entry = self._young.get(id(message))
            if entry is None and (entry := self._old.pop(id(message), None)) is not None:
                self._old_size -= entry.size
                self._add(entry)
            if entry is None or entry.content is not message["content"] or entry.role is not message["role"]:
                entry = _Entry(message, _write(message))
                if message["role"] != "system" and entry.size <= self._limit // _LARGEST_SHARE:
                    if not has_turned and self._young_size + self._old_size + entry.size > self._limit:
                        has_turned = True
                        self._old, self._old_size = self._young, self._young_size
                        self._young, self._young_size = {}, 0
                    if self._young_size + self._old_size + entry.size <= self._limit:
                        self._add(entry)
            texts.append(entry.text)
        return texts

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


# --- clients

_Clients = dict[bool, "aiohttp.ClientSession"]
_registering = threading.Lock()
"""Several threads may have an event loop each."""
_clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Clients] = weakref.WeakKeyDictionary()
_keepers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncGenerator[None]] = (
    weakref.WeakKeyDictionary()
)


async def _client(endpoint: OpenAIEndpoint) -> aiohttp.ClientSession:
    """Return the client of this event loop; those of other machines use proxies and certificates."""
    loop, keeper = asyncio.get_running_loop(), None
    with _registering:
        clients = _clients.get(loop)
        if clients is None:
            for other in [other for other in _keepers if other.is_closed()]:
                _forget(other)
            clients = _clients[loop] = {}
            # A loop that ends closes its asynchronous generators, and this one closes the clients.
            keeper = _keepers[loop] = _keep(clients, weakref.ref(loop))
    if keeper is not None:
        await anext(keeper)
    if endpoint.use_proxy not in clients:
        await asyncio.to_thread(_prepare, endpoint.use_proxy)
    if endpoint.use_proxy not in clients:
        clients[endpoint.use_proxy] = _new_client(endpoint.use_proxy)
    return clients[endpoint.use_proxy]


async def _keep(clients: _Clients, loop: weakref.ref[asyncio.AbstractEventLoop]) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        for client in clients.values():
            with suppress(Exception):
                await client.close()
        if (ended := loop()) is not None:
            with _registering:
                _forget(ended)


def _forget(loop: asyncio.AbstractEventLoop) -> None:
    """Let go of a loop: its generators refer to it, so that it would stay for ever."""
    _clients.pop(loop, None)
    _keepers.pop(loop, None)


def _prepare(is_remote: bool) -> None:
    """Do what takes long about a client; this runs in a thread."""
    import aiohttp  # noqa: F401  # pyright: ignore[reportUnusedImport]

    if is_remote:
        tls()


def _new_client(is_remote: bool) -> aiohttp.ClientSession:
    import aiohttp

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=0, ssl=tls() if is_remote else True, keepalive_timeout=_KEEP_SECONDS
        ),
        trust_env=is_remote,
        cookie_jar=aiohttp.DummyCookieJar(),  # several keys and servers share a client
        auto_decompress=False,
    )


@functools.cache
def _connect_timeout(seconds: float) -> aiohttp.ClientTimeout:
    """Limit the time to connect; ``Patience`` limits the rest."""
    import aiohttp

    return aiohttp.ClientTimeout(sock_connect=seconds)
