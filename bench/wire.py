"""The cost of a turn with a model over HTTP, beside a bare reader of the same bytes.

The model is ``bench.wire_server``, in a process of its own. The bare reader posts a request with ``httpx2``, cuts the
stream into lines and parses each with ``json``: nothing is checked, stored or shown.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from bench.mcp import notify, request
from bench.table import Figure
from bench.turns import make_story
from bench.wire_server import WORD, serving
from graph.chat_turn import stream_turn
from personalab.dialogue import Message
from personalab.lab.calling import Call
from personalab.ports import ReplyChunk
from personalab.providers.chat_executor import ChatExecutor
from personalab.providers.chat_models import open_model
from personalab.providers.model_settings import ModelSettings
from personalab.services import Services, open_services
from personalab.settings import read_settings

Work = Callable[[], Awaitable[object]]
_LENGTHS = (20, 2_000, 10_000)
_TEXT = "go on then"
"""Short, so that 10,000 turns are below the limit of a prompt."""
_WORDS = 5_000
_CALLS, _AT_ONCE, _CALL_SECONDS = 1_000, 16, 0.05


def figures() -> list[Figure]:
    """Measure turns, tokens, calls of the lab and the start of a process."""
    with serving() as url, tempfile.TemporaryDirectory() as folder:
        return [
            *asyncio.run(_turns(Path(folder) / "turns", url)),
            *asyncio.run(_tokens(Path(folder) / "tokens", url)),
            *asyncio.run(_lab(Path(folder) / "spool", url)),
            *_start(Path(folder) / "start", url),
        ]


class BareReader:
    """Reads a stream and does nothing with it."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/chat/completions"
        self._client = httpx2.AsyncClient(timeout=None)

    async def read(self, model: str, messages: list[Message]) -> int:
        """Send messages and return how many characters came."""
        body = {"model": model, "stream": True, "messages": messages}
        characters = 0
        async with self._client.stream("POST", self._url, json=body) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    for choice in json.loads(line[6:])["choices"]:
                        characters += len(choice["delta"].get("content") or "")
        return characters

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


async def _fastest(*works: Work, rounds: int) -> list[float]:
    """Time works in turn, round by round; the fastest of each, for what else the machine does only adds."""
    times: list[list[float]] = [[] for _ in works]
    for at in range(rounds + 1):
        for work, found in zip(works, times, strict=True):
            gc.collect()
            start = time.perf_counter()
            await work()
            if at:
                found.append(time.perf_counter() - start)
    return [min(found) for found in times]


def _open(root: Path, model: str, url: str) -> Services:
    given = {"PERSONALAB_DATA": str(root), "PERSONALAB_MODEL": f"openai:{model}", "OPENAI_BASE_URL": url}
    services = open_services(read_settings(given))
    services.preferences.change({"max_total_tokens": 200_000})
    return services


@dataclass(frozen=True, slots=True)
class _BareModel:
    """The bare reader in the place of our own."""

    reader: BareReader
    name: str = "bare"

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        characters = await self.reader.read("words-1-0", list(messages))
        yield ReplyChunk(WORD * (characters // len(WORD)))


def _turn(services: Services, story: str, model: str | None = None) -> Work:
    async def run() -> None:
        async for part in stream_turn(services, {"instance_id": story, "user_input": "继续。"}, model=model):
            if "type" not in part:
                assert part.get("status") == "done", part

    return run


async def _turns(root: Path, url: str) -> list[Figure]:
    services, reader = _open(root, "words-1-0", url), BareReader(url)
    works: list[Work] = []
    for turns in _LENGTHS:
        await make_story(services, f"turns_{turns}", turns, _TEXT)
        works.append(_turn(services, f"turns_{turns}"))
    for turns in _LENGTHS:
        said: list[Message] = [
            Message(role=role, content=_TEXT) for _ in range(turns) for role in ("user", "assistant")
        ]
        works.append(lambda said=said: reader.read("words-1-0", said))
    works.append(_turn(services, f"turns_{_LENGTHS[1]}", model="bare"))
    services.models["bare"] = _BareModel(reader)
    *times, in_place = await _fastest(*works, rounds=7)
    await reader.close()
    await services.close()
    ours, bare = times[:3], times[3:]
    shown = " / ".join(f"{seconds * 1e3:.0f}" for seconds in ours)
    beside = " / ".join(f"{seconds * 1e3:.0f}" for seconds in bare)
    return [
        Figure(
            "turn on 2,000 turns / with the bare reader as its model",
            ours[1] / in_place,
            note=f"{in_place * 1e3:.0f} ms",
        ),
        Figure("turn on 2,000 turns / on 20", ours[1] / ours[0], at_most=2.5, note=f"{shown} ms"),
        Figure("turn on 10,000 turns / on 20", ours[2] / ours[0], at_most=8),
        Figure("turn on 2,000 turns / bare reader", ours[1] / bare[1], at_most=2, note=f"bare {beside} ms"),
        Figure("turn on 10,000 turns / bare reader", ours[2] / bare[2]),
    ]


async def _tokens(root: Path, url: str) -> list[Figure]:
    model = f"words-{_WORDS}-0"
    services, reader = _open(root, model, url), BareReader(url)
    await make_story(services, "tokens", 1)

    async def read() -> None:
        assert await reader.read(model, [Message(role="user", content="go")]) == _WORDS * len(WORD)

    ours, bare = await _fastest(_turn(services, "tokens"), read, rounds=5)
    await reader.close()
    await services.close()
    note = (
        f"{ours / _WORDS * 1e6:.1f} µs / {bare / _WORDS * 1e6:.1f} µs, {_WORDS} words at once, with the file"
    )
    return [Figure("a token / bare reader", ours / bare, at_most=3, note=note)]


async def _lab(spool: Path, url: str) -> list[Figure]:
    model = f"words-20-0-{_CALL_SECONDS * 1e3:.0f}"
    executor, reader = (
        ChatExecutor(open_model(f"openai:{model}", settings=ModelSettings(base_url=url))),
        BareReader(url),
    )
    spool.mkdir(parents=True)

    async def all_of(call: Callable[[int], Awaitable[object]]) -> float:
        places = asyncio.Semaphore(_AT_ONCE)

        async def one(number: int) -> None:
            async with places:
                await call(number)

        start = time.perf_counter()
        await asyncio.gather(*(one(number) for number in range(_CALLS)))
        return time.perf_counter() - start

    async def ours(number: int) -> None:
        call = Call(f"call_{number}", "Be brief.", None, "go", None, model, 60.0)
        answer = await executor.run(call, spool)
        assert answer.status == "ok", answer.error

    took = await all_of(ours)
    bare = await all_of(lambda _: reader.read(model, [Message(role="user", content="go")]))
    await reader.close()
    ideal = _CALLS / _AT_ONCE * _CALL_SECONDS
    note = (
        f"{took:.1f} s; bare reader {bare:.1f} s; {_CALLS} calls of {_CALL_SECONDS:g} s, {_AT_ONCE} at once"
    )
    return [Figure("lab calls / the ideal", took / ideal, at_most=1.6, note=note)]


_BARE_PROGRAM = """
import json, sys, httpx2
with httpx2.Client(timeout=None).stream("POST", sys.argv[1] + "/chat/completions", json={
    "model": "words-20-0", "stream": True, "messages": [{"role": "user", "content": "go"}]}) as response:
    for line in response.iter_lines():
        if line.startswith("data: {"):
            for choice in json.loads(line[6:])["choices"]:
                print(choice["delta"].get("content") or "", end="", flush=True)
"""


def _start(root: Path, url: str) -> list[Figure]:
    environment: dict[str, Any] = {
        **os.environ,
        "PERSONALAB_DATA": str(root),
        "PERSONALAB_MODEL": "openai:words-20-0",
        "OPENAI_BASE_URL": url,
    }

    def run(*command: str, typed: bytes = b"") -> float:
        start = time.perf_counter()
        subprocess.run(command, env=environment, check=True, capture_output=True, input=typed)
        return time.perf_counter() - start

    program = str(Path(sys.executable).with_name("personalab"))
    run(program, "new", "-c", "char_alserqi", "-b", "bg_wasteland", "--id", "start")
    bare: list[float] = []
    ours: dict[str, list[float]] = {"say": [], "chat, one piped line": [], "mcp, until the first reply": []}
    for _ in range(5):
        bare.append(run(sys.executable, "-c", _BARE_PROGRAM, url))
        ours["say"].append(run(program, "say", "start", "你好"))
        ours["chat, one piped line"].append(run(program, "chat", "start", typed="你好\n".encode()))
        ours["mcp, until the first reply"].append(_first_mcp_turn(program, environment))
    return [
        *(
            Figure(
                f"personalab {what} / a bare program",
                min(times) / min(bare),
                note=f"{min(times):.2f} s / {min(bare):.2f} s",
            )
            for what, times in ours.items()
        ),
        *_beside_llm(run, url),
    ]


def _first_mcp_turn(program: str, environment: dict[str, Any]) -> float:
    """Start the MCP server over stdio and play one turn."""
    start = time.perf_counter()
    with subprocess.Popen(
        [program, "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as process:
        client = {"name": "bench", "version": "1"}
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        request(process, {"id": 1, "method": "initialize", "params": hello})
        notify(process, {"method": "notifications/initialized"})
        turn = {"name": "persona_chat", "arguments": {"instance_id": "start", "text": "你好"}}
        answer = request(process, {"id": 2, "method": "tools/call", "params": turn})
        took = time.perf_counter() - start
        assert not answer.get("isError"), answer
        process.kill()
    return took


def _beside_llm(run: Callable[..., float], url: str) -> list[Figure]:
    """Compare with the ``llm`` program, where it is installed (``LLM`` names another place than the path)."""
    llm = shutil.which(os.environ.get("LLM", "llm"))
    if llm is None:
        return []
    with tempfile.TemporaryDirectory() as home:
        model = {"model_id": "words", "model_name": "words-20-0", "api_base": url}
        (Path(home) / "extra-openai-models.yaml").write_text(json.dumps([model]), encoding="utf-8")
        (Path(home) / "keys.json").write_text(json.dumps({"openai": "none"}), encoding="utf-8")
        program = str(Path(sys.executable).with_name("personalab"))
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(5):
            ours.append(run(program, "say", "start", "你好"))
            theirs.append(run("env", f"LLM_USER_PATH={home}", llm, "-m", "words", "go"))
    note = f"{min(ours):.2f} s / {min(theirs):.2f} s"
    return [Figure("personalab say / llm", min(ours) / min(theirs), at_most=1.5, note=note)]
