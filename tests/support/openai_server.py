"""A scriptable OpenAI-compatible server, with good behaviour and every kind of failure.

A real HTTP server on a loopback port that plays a script, one behaviour a request; the last one repeats::

    with OpenAIServer() as server:
        server.script(refuses(429, headers={"Retry-After": "0"}), says("Hello", " there"))
        ...  # talk to server.url
        assert server.requests[0].body["model"] == "some-model"

A behaviour is a list of steps, so that a test can also write its own.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, cast

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer with a status and a whole body; ends the request."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Event:
    """Send one server-sent event; ``data`` may be no JSON at all."""

    data: str


@dataclass(frozen=True, slots=True)
class Cut:
    """Break the connection off, in the middle of the body."""


@dataclass(frozen=True, slots=True)
class Hang:
    """Send nothing more until the client goes away, and note that it did."""


Step = Answer | Event | Cut | Hang
Behaviour = Sequence[Step]


@dataclass(frozen=True, slots=True)
class Request:
    """What a client sent."""

    path: str
    headers: Mapping[str, str]
    body: Json
    client: object = None
    """The address it came from."""


def delta(text: str | None, *, finish: str | None = None, **fields: object) -> Event:
    """Make an event of one choice's delta; more ``fields`` join the text in it."""
    choice = {"index": 0, "delta": {"content": text, **fields}, "finish_reason": finish}
    return _event({"choices": [choice]})


def usage(prompt: int, completion: int, cached: int = 0) -> Event:
    """Make the event that tells the tokens used."""
    told = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    return _event({"choices": [], "usage": told})


def _event(fields: Json) -> Event:
    whole = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "scripted",
        **fields,
    }
    return Event(json.dumps(whole))


DONE = Event("[DONE]")


def says(*pieces: str, finish: str = "stop") -> Behaviour:
    """Stream a whole reply, with its usage."""
    return [*map(delta, pieces), delta(None, finish=finish), usage(11, len(pieces), 3), DONE]


def refuses(status: int, error: Json | None = None, *, headers: Mapping[str, str] | None = None) -> Behaviour:
    """Answer with an error status and OpenAI's error body."""
    body = {"error": error or {"message": f"scripted {status}", "type": "scripted", "code": None}}
    return [Answer(status, json.dumps(body).encode(), headers or {})]


def cuts_after(*pieces: str) -> Behaviour:
    """Break the connection off after some pieces (or before the first)."""
    return [*map(delta, pieces), Cut()]


def errs_after(*pieces: str, error: Json) -> Behaviour:
    """Send an error event in mid-reply."""
    return [*map(delta, pieces), Event(json.dumps({"error": error}))]


def ends_after(*pieces: str) -> Behaviour:
    """End the body properly, but without a finish reason."""
    return list(map(delta, pieces))


def hangs_after(*pieces: str) -> Behaviour:
    """Fall silent after some pieces, until the client goes away."""
    return [*map(delta, pieces), Hang()]


def garbles_after(*pieces: str) -> Behaviour:
    """Send an event that is no JSON."""
    return [*map(delta, pieces), Event('{"choices": [')]


CONTEXT_OVERFLOWS: Mapping[str, Behaviour] = {
    "openai": refuses(
        400,
        {
            "message": "This model's maximum context length is 8192 tokens. However, you requested 9001.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        },
    ),
    "openai code alone": refuses(
        400, {"message": "Too long.", "type": "invalid_request_error", "code": "context_length_exceeded"}
    ),
    "llama.cpp": refuses(
        400,
        {
            "code": 400,
            "message": "request (5031 tokens) exceeds the available context size (2048 tokens)",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 5031,
            "n_ctx": 2048,
        },
    ),
    "vllm": [
        Answer(
            400,
            json.dumps(
                {
                    "object": "error",
                    "message": "This model's maximum context length is 4096 tokens. Please reduce it.",
                    "type": "BadRequestError",
                    "param": None,
                    "code": 400,
                }
            ).encode(),
        )
    ],
    "event": errs_after(error={"message": "the prompt exceeds the context window", "code": 400}),
}


SCHEMA_REFUSALS: Mapping[str, Behaviour] = {
    "openai": refuses(
        400,
        {
            "message": "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
            "type": "invalid_request_error",
            "param": None,
            "code": None,
        },
    ),
    "openai schema": refuses(
        400,
        {
            "message": "Invalid schema for response_format 'tags': In context=(), 'oneOf' is not permitted.",
            "type": "invalid_request_error",
            "param": "response_format",
            "code": None,
        },
    ),
    "deepseek": refuses(
        400, {"message": "This response_format type is unavailable now", "type": "invalid_request_error"}
    ),
    "groq": refuses(
        400, {"message": "This model does not support response format `json_schema`.", "type": "x"}
    ),
    "llama.cpp": refuses(
        400, {"code": 400, "message": "Failed to parse grammar", "type": "invalid_request_error"}
    ),
    "older llama.cpp": refuses(
        500, {"code": 500, "message": "failed to initialize samplers: grammar", "type": "server_error"}
    ),
    "vllm": [
        Answer(
            500,
            json.dumps(
                {"object": "error", "message": "Failed to compile grammar from JSON schema", "code": 500}
            ).encode(),
        )
    ],
    "openrouter": refuses(
        404, {"message": "No endpoints found that can handle the requested parameters.", "code": 404}
    ),
    "fastapi": [
        Answer(
            422,
            json.dumps(
                {"detail": [{"loc": ["body", "response_format", "type"], "msg": "Input should be 'text'"}]}
            ).encode(),
        )
    ],
    "no reason": [Answer(400, b"Bad Request", {}, "text/plain")],
    "event": errs_after(error={"message": "xgrammar: unsupported JSON schema", "code": 500}),
    "event without a reason": errs_after(error={"message": "Bad Request", "code": 400}),
}


class OpenAIServer:
    """Plays a script to its clients and keeps what they sent."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.client_left = threading.Event()
        """Set when a client went away while a request of it hung."""
        self._script: list[Behaviour] = [says("Hello")]
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = False
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """What a client takes as its base URL."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def script(self, *behaviours: Behaviour) -> None:
        """Set what the next requests meet, in order."""
        with self._lock:
            self._script = list(behaviours)

    def take(self, request: Request) -> Behaviour:
        """Keep a request and give the behaviour it meets."""
        with self._lock:
            self.requests.append(request)
            return self._script.pop(0) if len(self._script) > 1 else self._script[0]

    def keep(self, connection: socket.socket) -> None:
        """Remember a connection, to be closed with the server."""
        with self._lock:
            self._connections.add(connection)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self._http.server_close()
        self._thread.join()


def _handler(server: OpenAIServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            server.keep(self.connection)

        def do_POST(self) -> None:
            body = cast("Json", json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            headers = {name.lower(): value for name, value in self.headers.items()}
            steps = server.take(Request(self.path, headers, body, self.client_address))
            try:
                self._play(steps)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True
                server.client_left.set()

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

        def _play(self, steps: Behaviour) -> None:
            if steps and isinstance(steps[0], Answer):
                return self._answer(steps[0])
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.flush()
            for step in steps:
                if isinstance(step, Event):
                    self._chunk(f"data: {step.data}\n\n".encode())
                else:
                    return self._leave(waits=isinstance(step, Hang))
            self.wfile.write(b"0\r\n\r\n")

        def _answer(self, answer: Answer) -> None:
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()

        def _leave(self, *, waits: bool) -> None:
            self.close_connection = True
            if waits:
                while self.connection.recv(1024):
                    pass
                server.client_left.set()

    return Handler
