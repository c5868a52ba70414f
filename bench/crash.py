"""Crash test: a session must survive ``kill -9`` at any moment of a streaming turn.

Run: ``python -m bench.crash --kills 1000``. A child process streams a turn and prints each token it is shown; it is
killed at a random moment. Then the file must open, every printed token must be in it, what it holds must end with a
whole token, and the next turn must work. With ``--http`` the tokens come from ``bench.wire_server``, a process of its
own, through the reader of OpenAI's protocol; else from a script in the child.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

import aiohttp  # noqa: F401  # pyright: ignore[reportUnusedImport] (before the children are forked)

from bench.wire_server import random_pieces, serving
from graph.chat_turn import run_turn, stream_turn
from personalab.operations.instances import new_instance
from personalab.ports import ReplyModel
from personalab.providers.chat_models import open_model
from personalab.providers.model_settings import ModelSettings
from personalab.services import Services, open_services
from personalab.settings import read_settings
from personalab.storage.sessions import SessionCache
from personalab.story.player_lines import PlayerLines
from personalab.testing.in_memory import InMemoryLibrary
from personalab.testing.scripted import ScriptedModel, ScriptedReply


def _services(root: Path, durability: str) -> Services:
    services = open_services(read_settings({"PERSONALAB_DATA": str(root), "PERSONALAB_BUSY_SECONDS": "2"}))
    services.__dict__["library"] = InMemoryLibrary()
    services.preferences.change({"durability": durability})
    asyncio.run(services.counter())
    return services


def _model(seed: int, delay: float, url: str | None) -> ReplyModel:
    """Make a model that writes the random pieces of a seed."""
    if url is not None:
        return open_model(f"openai:pieces-{seed}-{delay * 1e3:g}", settings=ModelSettings(base_url=url))
    return ScriptedModel([ScriptedReply(random_pieces(seed), delay=delay)], rest_every=1)


def _child(services: Services, model: ReplyModel, out: int) -> None:
    """Stream one turn; print a dot for each character that was shown. Ends by being killed, or at the end."""
    services.models["rehearsal"] = model

    async def stream() -> None:
        async for event in stream_turn(services, {"instance_id": "inst_001", "user_input": "继续。"}):
            if event.get("type") == "token":
                os.write(out, b"." * len(event.get("text", "")))

    asyncio.run(stream())
    os._exit(0)


def _kill_once(
    services: Services, random_: random.Random, longest: float, url: str | None
) -> tuple[tuple[str, ...], int]:
    seed, delay = random_.randrange(10**6), random_.choice([0.0, 0.0005, 0.002])
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            _child(services, _model(seed, delay, url), write)
        finally:
            os._exit(1)
    os.close(write)
    time.sleep(random_.uniform(0, longest))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    shown = 0
    while got := os.read(read, 65536):
        shown += len(got)
    os.close(read)
    return random_pieces(seed), shown


def _check(services: Services, pieces: tuple[str, ...], shown: int, turns_before: int) -> str:
    """Open the file as any reader does; return what kind of moment the kill hit."""
    path = services.stories.session_path("inst_001", "sess_001")
    seen = SessionCache().load(path, path.name).view()
    if len(seen.turns) == turns_before:
        assert shown == 0, "tokens were shown, but the user's line is gone"
        return "before the user's line"
    turn = seen.turns[-1]
    reply = turn.last_reply
    if reply is None:
        assert shown == 0, "tokens were shown, but there is no reply"
        return "before the first token"
    assert len(reply.content) >= shown, f"{shown} characters were shown, the file holds {len(reply.content)}"
    whole_tokens = {"".join(pieces[:count]) for count in range(len(pieces) + 1)}
    # What may become a line of the player waits for what follows it.
    lines, written = PlayerLines((), ("玩家", "User")), ""
    for piece in pieces:
        written += lines.feed(piece)
        whole_tokens.add(written)
    assert reply.content in whole_tokens, "the file does not end with a whole token"
    return "after the last token" if reply.closed else "while streaming"


async def _next_turn(services: Services) -> None:
    services.models["rehearsal"] = ScriptedModel(["好。"])
    result = await run_turn(services, {"instance_id": "inst_001", "user_input": "然后呢？"})
    assert result.get("status") == "done", result
    path = services.stories.session_path("inst_001", "sess_001")
    turns = SessionCache().load(path, path.name).transcript.turns
    assert [turn.number for turn in turns] == list(range(1, len(turns) + 1))
    assert turns[-1].answer == "好。"
    torn = [turn for turn in turns if turn.last_reply is not None and not turn.last_reply.closed]
    assert not torn


def run(kills: int, seed: int, durability: str, url: str | None = None) -> dict[str, int]:
    """Kill so many times; return how often each moment was hit. ``url`` is where the model is, if over HTTP."""
    random_ = random.Random(seed)
    hit: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        services = _services(Path(folder) / "data", durability)
        asyncio.run(new_instance(services, "char_alserqi", "bg_wasteland", "inst_001"))
        for number in range(kills):
            path = services.stories.session_path("inst_001", "sess_001")
            before = len(SessionCache().load(path, path.name).transcript.turns)
            pieces, shown = _kill_once(services, random_, longest=0.15 if url is None else 0.3, url=url)
            moment = _check(services, pieces, shown, before)
            hit[moment] = hit.get(moment, 0) + 1
            asyncio.run(_next_turn(services))
            if sys.stderr.isatty():
                print(f"\r{number + 1}/{kills}", end="", file=sys.stderr)
    return hit


def main() -> None:
    """Parse the arguments, kill, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--durability", choices=["os", "fsync"], default="os")
    parser.add_argument("--http", action="store_true", help="let the tokens come from a server")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.randrange(10**9)
    print(f"seed {seed}, durability {given.durability}")
    with serving() if given.http else nullcontext() as url:
        hit = run(given.kills, seed, given.durability, url)
    for moment, count in sorted(hit.items()):
        print(f"{count:6} killed {moment}")
    print(f"{given.kills} kills: every file opened, nothing shown was lost, every next turn worked")


if __name__ == "__main__":
    main()
