"""Helpers that start the MCP server as a real process, talk to it and wait for its end."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, overload

from personalab.services import open_services
from personalab.settings import read_settings
from tests.support.openai_server import DONE, Behaviour, OpenAIServer, Request, Step, delta, says

Json = dict[str, Any]
Era = Literal["legacy", "modern"]

CHECKOUT = Path(__file__).resolve().parents[3]
SECONDS = 60
"""Nothing here takes as long; what hangs is ended."""
SERVER = (sys.executable, "-m", "mcp_server")
LEGACY, MODERN = "2025-11-25", "2026-07-28"
ERAS: tuple[Era, ...] = ("legacy", "modern")
MODES: Mapping[Era, str] = {"legacy": "legacy", "modern": MODERN}
"""What the official client calls them."""

_URL = re.compile(r"http://\S+/mcp")
_OUTSIDE = ("OPENAI_", "PERSONALAB_", "LANGSMITH_", "LANGCHAIN_", "PYTHON", "LC_")


def world(folder: Path, **more: str) -> dict[str, str]:
    """Make an environment with a data root of its own and nothing of the person who runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OUTSIDE)}
    return {
        **kept,
        "HOME": str(folder / "home"),
        "LANG": "en_US.UTF-8",
        "PERSONALAB_DATA": str(folder / "data"),
        "PERSONALAB_BUSY_SECONDS": str(SECONDS),
        **more,
    }


def with_provider(environment: Mapping[str, str], provider: OpenAIServer) -> dict[str, str]:
    """Let a server on a loopback port write the replies."""
    answering = {"OPENAI_BASE_URL": provider.url, "OPENAI_API_KEY": "sk-tests"}
    return {**environment, **answering, "PERSONALAB_MODEL": "openai:scripted"}


def begin_stories(environment: Mapping[str, str], *instance_ids: str) -> None:
    """Make stories that look nothing up, before a server is there."""
    services = open_services(read_settings(environment))
    modules = services.settings.data_root / "modules"
    modules.mkdir(parents=True, exist_ok=True)
    (modules / "recall.json").write_text('{"trigger": "off"}', encoding="utf-8")
    character = services.stories.character("char_maren")
    background = services.stories.background("bg_lighthouse")
    for instance_id in instance_ids:
        services.stories.create_instance(character, background, instance_id, "2026-01-01T00:00:00Z")


# --- what the processes left


def session_lines(environment: Mapping[str, str], instance_id: str) -> list[Json]:
    """Read a session's lines as any program would, its metadata left out."""
    path = _session(environment, instance_id)
    metadata, *lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert metadata["type"] == "metadata"
    return lines


def written(environment: Mapping[str, str], instance_id: str, text: str) -> bool:
    """Tell whether some text is in a session's file by now."""
    return text in _session(environment, instance_id).read_text(encoding="utf-8")


def _session(environment: Mapping[str, str], instance_id: str) -> Path:
    return Path(environment["PERSONALAB_DATA"], "instances", instance_id, "sessions", "sess_001.jsonl")


def silent_replies(environment: Mapping[str, str], instance_id: str) -> int:
    """Read how many replies in a row brought no progress: the director counts each reply once."""
    path = Path(environment["PERSONALAB_DATA"], "instances", instance_id, "instance_state.json")
    return json.loads(path.read_text(encoding="utf-8"))["plot_state"]["no_update_count"]


def ending_of(line: Json) -> str:
    """Say how a reply ended."""
    return next((flag for flag in ("interrupted", "empty", "error") if line.get(flag)), "done")


def check_echoes(lines: Sequence[Json], *texts: str) -> None:
    """Check that turns are numbered from 1, none lost or doubled, each followed by the reply to it."""
    assert [(line["role"], line["turn"]) for line in lines] == [
        (role, number) for number in range(1, len(texts) + 1) for role in ("user", "assistant")
    ]
    assert sorted(line["content"] for line in lines[::2]) == sorted(texts)
    for said, reply in zip(lines[::2], lines[1::2], strict=True):
        assert (reply["content"], ending_of(reply)) == (f"echo of {said['content']}.", "done")


def wait_until(condition: Callable[[], object], what: str = "it never came true") -> None:
    """Wait for a condition, but not for ever."""
    deadline = time.monotonic() + SECONDS
    turn = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, what
        turn.wait(0.01)


# --- who writes the replies


class EchoServer(OpenAIServer):
    """Answers each request with its own words, so that no reply can be taken for another's.

    What is said with ``hold`` in it is answered up to the last piece, and then only when ``go_on`` is set.
    """

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self._http.socket.listen(256)

    def take(self, request: Request) -> Behaviour:
        """Give the words of the last message back."""
        super().take(request)
        said = str(request.body["messages"][-1]["content"])
        found = re.search(r"(?:hold|call)-\w+", said)
        text = found[0] if found else "something else"
        if text.startswith("hold"):
            return _Held([delta("echo of "), delta(text)], self.go_on, [*says("."), DONE])
        return says("echo of ", text, ".")

    def asked(self, text: str) -> int:
        """Count the requests so far that end with some words."""
        return sum(text in str(request.body["messages"][-1]["content"]) for request in self.requests)

    def __exit__(self, *error: object) -> None:
        self.go_on.set()
        super().__exit__(*error)


@dataclass(frozen=True)
class _Held(Sequence[Step]):
    """Steps with a pause until an event is set."""

    first: Sequence[Step]
    go_on: threading.Event
    rest: Sequence[Step]

    def __len__(self) -> int:
        return len(self.first) + len(self.rest)

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | Sequence[Step]:
        return [*self.first, *self.rest][index]

    def __iter__(self) -> Iterator[Step]:
        yield from self.first
        self.go_on.wait(SECONDS)
        yield from self.rest


# --- processes


@dataclass
class Running:
    """A server process; what it says on stderr is kept."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def errors(self) -> str:
        """What it said on stderr so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait(self) -> int:
        """Wait for its end; one that does not end fails the test."""
        return self.process.wait(timeout=SECONDS)


@contextlib.contextmanager
def started(
    environment: Mapping[str, str], log: Path, command: Sequence[str], *, piped: bool, cwd: Path = CHECKOUT
) -> Generator[Running]:
    """Start a process that is killed in the end, whatever happens."""
    pipe = subprocess.PIPE if piped else subprocess.DEVNULL
    with log.open("wb") as errors:
        process = subprocess.Popen(command, cwd=cwd, env=environment, stdin=pipe, stdout=pipe, stderr=errors)
    try:
        yield Running(process, log)
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        # Shown by pytest where a test failed.
        print(log.read_text(encoding="utf-8", errors="replace"), file=sys.stderr)


@dataclass
class Talk:
    """A conversation in raw JSON lines with a server on stdio."""

    running: Running
    era: Era = "legacy"
    capabilities: Json = field(default_factory=dict[str, Any])
    heard: list[bytes] = field(default_factory=list[bytes])
    """Every line of its stdout."""
    _lines: queue.SimpleQueue[bytes] = field(default_factory=queue.SimpleQueue[bytes])
    _aside: list[Json] = field(default_factory=list[Json])
    _last: int = 0

    def __post_init__(self) -> None:
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        stdout = self.running.process.stdout
        assert stdout is not None
        with contextlib.suppress(OSError, ValueError):
            for line in stdout:
                self.heard.append(line)
                self._lines.put(line)
        self._lines.put(b"")

    def say(self, data: bytes) -> None:
        """Send bytes as they are."""
        stdin = self.running.process.stdin
        assert stdin is not None
        stdin.write(data)
        stdin.flush()

    def notify(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self.say(_line({"method": method, "params": params}))

    def ask(self, method: str, **params: Any) -> int:
        """Send a request; return its id."""
        self._last += 1
        if self.era == "modern":
            params["_meta"] = {**modern_meta(self.capabilities), **params.get("_meta", {})}
        self.say(_line({"id": self._last, "method": method, "params": params}))
        return self._last

    def hear(self) -> Json:
        """Take the next message."""
        line = self._lines.get(timeout=SECONDS)
        assert line, "the server has closed its stdout"
        return json.loads(line)

    def answer(self, request_id: object) -> Json:
        """Take the answer to a request; what else comes is put aside."""
        while True:
            for message in self._aside:
                if message.get("id", ...) == request_id and "method" not in message:
                    self._aside.remove(message)
                    return message
            self._aside.append(self.hear())

    def notified(self, method: str) -> Json:
        """Take the next notification of a kind."""
        while True:
            for message in self._aside:
                if message.get("method") == method:
                    self._aside.remove(message)
                    return message["params"]
            self._aside.append(self.hear())

    def request(self, method: str, **params: Any) -> Json:
        """Send a request and wait for its result."""
        answer = self.answer(self.ask(method, **params))
        assert "result" in answer, answer
        return answer["result"]

    def call(self, tool: str, **arguments: Any) -> Json:
        """Call a tool; give its structured content."""
        found = self.request("tools/call", name=tool, arguments=arguments)
        assert not found.get("isError"), found
        return found["structuredContent"]

    def begin_call(self, tool: str, **arguments: Any) -> int:
        """Call a tool without waiting for it; its progress is told."""
        return self.ask("tools/call", name=tool, arguments=arguments, _meta={"progressToken": self._last + 1})

    def shake_hands(self) -> Self:
        """Begin as an older client does; a modern one needs no beginning."""
        if self.era == "legacy":
            info = {"name": "tests", "version": "1"}
            self.request(
                "initialize", protocolVersion=LEGACY, capabilities=self.capabilities, clientInfo=info
            )
            self.notify("notifications/initialized")
        return self

    def listen_no_more(self) -> None:
        """Close the reading end of the server's stdout; a reader that waits there is let out with a last answer."""
        stdout = self.running.process.stdout
        assert stdout is not None
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, stdout.fileno())
        os.close(nothing)
        self.ask("tools/list")
        self._listener.join(SECONDS)
        assert not self._listener.is_alive()

    def hang_up(self) -> None:
        """Close the server's stdin."""
        stdin = self.running.process.stdin
        assert stdin is not None
        stdin.close()


def modern_meta(capabilities: Json) -> Json:
    """Say what a modern request says of its client."""
    return {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }


def _line(message: Json) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


@contextlib.contextmanager
def talking(
    environment: Mapping[str, str],
    log: Path,
    *options: str,
    era: Era = "legacy",
    capabilities: Json | None = None,
    command: Sequence[str] = SERVER,
    cwd: Path = CHECKOUT,
) -> Generator[Talk]:
    """Start the server on stdio and shake hands."""
    with started(environment, log, [*command, *options], piped=True, cwd=cwd) as running:
        yield Talk(running, era, capabilities or {}).shake_hands()


@dataclass
class Serving(Running):
    """A server reached over HTTP."""

    url: str = ""


@contextlib.contextmanager
def serving(environment: Mapping[str, str], log: Path, *options: str) -> Generator[Serving]:
    """Start the server on a free port and wait for its address."""
    command = [*SERVER, "--http", "--port", "0", *options]
    with started(environment, log, command, piped=False) as running:
        process = running.process
        wait_until(lambda: process.poll() is not None or "/mcp\n" in running.errors)
        found = _URL.search(running.errors)
        assert found, f"the server ended without an address:\n{running.errors}"
        yield Serving(process, log, found[0])


@dataclass(frozen=True, slots=True)
class Post:
    """A request as it goes over HTTP."""

    headers: dict[str, str]
    json: Json


def post(era: Era, method: str, *, session: str | None = None, request_id: int = 1, **params: Any) -> Post:
    """Word a request of an era; an older one belongs to a session."""
    headers = {"Accept": "application/json, text/event-stream"}
    if era == "modern":
        params["_meta"] = {**modern_meta({}), **params.get("_meta", {})}
        headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        if "name" in params:
            headers["Mcp-Name"] = params["name"]
    elif session is not None:
        headers |= {"MCP-Protocol-Version": LEGACY, "Mcp-Session-Id": session}
    return Post(headers, {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def opening() -> Post:
    """Word the request that opens an older client's session."""
    info = {"name": "tests", "version": "1"}
    return post("legacy", "initialize", protocolVersion=LEGACY, capabilities={}, clientInfo=info)


def run(
    environment: Mapping[str, str], *options: str, command: Sequence[str] = SERVER
) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself."""
    return subprocess.run(
        [*command, *options],
        cwd=CHECKOUT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
