"""Cost of a turn, how it grows with the story, and the number of concurrent streams."""

from __future__ import annotations

import asyncio
import gc
import operator
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from bench.table import Figure, median
from graph.chat_turn import build_chat_turn
from personalab.operations.instances import new_instance
from personalab.services import Services, open_services
from personalab.settings import read_settings
from personalab.storage.sessions import SessionCache
from personalab.story.transcript import AssistantLine, UserLine, dump_line
from personalab.testing.scripted import ScriptedModel, ScriptedReply

SENTENCE = "潮水退去之后，灯塔还亮着，Maren 望着海面。"


def _services(root: Path) -> Services:
    return open_services(read_settings({"PERSONALAB_DATA": str(root)}))


async def make_story(services: Services, instance_id: str, turns: int, text: str = SENTENCE) -> str:
    """Start story in which both sides have said the same in every turn."""
    await new_instance(services, "char_alserqi", "bg_wasteland", instance_id)
    path = services.stories.session_path(instance_id, "sess_001")
    with path.open("ab") as file:
        for number in range(1, turns + 1):
            file.write(dump_line(UserLine(text, number, "2025-10-16T10:30:00Z")))
            file.write(dump_line(AssistantLine(text, number, "2025-10-16T10:30:00Z")))
    return instance_id


class _Empty(TypedDict, total=False):
    """The state of the graph that does nothing."""

    n: Annotated[list[int], operator.add]


def _to(*names: str) -> Callable[[_Empty], Awaitable[list[str]]]:
    async def choose(state: _Empty) -> list[str]:
        return list(names)

    return choose


def _empty_graph() -> Any:
    """Join nine empty steps the way the chat turn joins its own."""

    async def nothing(state: _Empty) -> _Empty:
        return {}

    builder = StateGraph(_Empty)
    parallel = ["recall", "player", "lorebooks", "direct"]
    for name in ["append", "load", *parallel, "assemble", "reply", "progress"]:
        builder.add_node(name, nothing)
    builder.add_edge(START, "append")
    builder.add_conditional_edges("append", _to("load"), ["load", END])
    builder.add_conditional_edges("load", _to(*parallel), [*parallel, "reply", END])
    builder.add_edge(parallel, "assemble")
    builder.add_conditional_edges("assemble", _to("reply"), ["reply", END])
    builder.add_conditional_edges("reply", _to("progress"), ["progress", END])
    return builder.compile()


def _token_graph(model: ScriptedModel) -> Any:
    """Stream the same model's tokens from one step with LangGraph's own custom stream, into no file."""

    async def tokens(state: _Empty) -> _Empty:
        write, offset = get_stream_writer(), 0
        async for chunk in model.stream([]):
            write({"type": "token", "turn": 1, "text": chunk.text, "offset": offset})
            offset += len(chunk.text)
        return {}

    builder = StateGraph(_Empty)
    builder.add_node("tokens", tokens)
    builder.add_edge(START, "tokens")
    return builder.compile()


async def _time(*works: Callable[[], Awaitable[object]], rounds: int) -> list[float]:
    """Time some works in turn, round by round, and take each one's fastest: what else the machine did only adds."""
    times: list[list[float]] = [[] for _ in works]
    for at in range(rounds + 3):
        for work, found in zip(works, times, strict=True):
            start = time.perf_counter()
            await work()
            if at >= 3:
                found.append(time.perf_counter() - start)
    return [min(found) for found in times]


WORD = "word "


async def _drain(stream: Any) -> int:
    """Consume a stream; return how many tokens it told (several may come in one event)."""
    characters = 0
    async for part in stream:
        if part["data"]["type"] == "token":
            characters += len(part["data"]["text"])
    return characters // len(WORD)


def _pieces(count: int) -> ScriptedReply:
    return ScriptedReply((WORD,) * count)


async def _one_turn(services: Services) -> list[Figure]:
    graph, empty = build_chat_turn(services).compile(), _empty_graph()
    services.models["rehearsal"] = ScriptedModel([ScriptedReply(("好。",))], loop=True)
    for turns in (20, 42, 2_000):
        await make_story(services, f"turns_{turns}", turns)

    services.preferences.change({"max_total_tokens": 200_000})

    def turn(name: str) -> Callable[[], Awaitable[object]]:
        async def run() -> None:
            result = await graph.ainvoke({"instance_id": name, "user_input": "继续。"})
            assert result["status"] == "done", result["error"]

        return run

    floor, plain = await _time(lambda: empty.ainvoke({}), turn("turns_42"), rounds=80)
    short, long = await _time(turn("turns_20"), turn("turns_2000"), rounds=60)
    note = f"{plain * 1e3:.1f} ms / {floor * 1e3:.1f} ms"
    return [
        Figure(
            "turn without tokens, 42 turns / empty graph of the same shape",
            plain / floor,
            at_most=2.5,
            note=note,
        ),
        Figure(
            "turn on 2,000 turns / on 20, warm",
            long / short,
            at_most=3,
            note=f"{long * 1e3:.1f} ms / {short * 1e3:.1f} ms",
        ),
    ]


async def _per_token(services: Services, count: int = 4_000) -> Figure:
    graph = build_chat_turn(services).compile()
    fresh = iter([await make_story(services, f"tokens_{number}", 2) for number in range(40)])

    def ours(tokens: int) -> Callable[[], Awaitable[object]]:
        async def run() -> None:
            services.models["rehearsal"] = ScriptedModel([_pieces(tokens)])
            turn = {"instance_id": next(fresh), "user_input": "x"}
            await _drain(graph.astream(turn, stream_mode="custom", version="v2"))

        return run

    def theirs(tokens: int) -> Callable[[], Awaitable[object]]:
        bare = _token_graph(ScriptedModel([_pieces(tokens)], loop=True))
        return lambda: _drain(bare.astream({}, stream_mode="custom", version="v2"))

    times = await _time(ours(count), ours(1), theirs(count), theirs(1), rounds=15)
    mine, floor = (times[0] - times[1]) / count, (times[2] - times[3]) / count
    note = f"{mine * 1e6:.1f} µs / {floor * 1e6:.1f} µs"
    return Figure(
        "a token through the graph / LangGraph's custom stream without a file",
        mine / floor,
        at_most=1.5,
        note=note,
    )


async def _many(services: Services, count: int = 200, tokens: int = 2_000) -> list[Figure]:
    graph = build_chat_turn(services).compile()
    for number in range(count):
        await make_story(services, f"many_{number}", 1)

    async def stream(name: str) -> int:
        turn = {"instance_id": name, "user_input": "x"}
        told = await _drain(graph.astream(turn, stream_mode="custom", version="v2"))
        assert told == tokens
        return told

    services.models["rehearsal"] = ScriptedModel([_pieces(tokens)], loop=True)
    rates: list[float] = []
    for number in range(9):
        start = time.perf_counter()
        rates.append(await stream(f"many_{number}") / (time.perf_counter() - start))
    alone = median(rates)
    start = time.perf_counter()
    together = sum(await asyncio.gather(*(stream(f"many_{n}") for n in range(count)))) / (
        time.perf_counter() - start
    )
    note = f"{together:,.0f} / {alone:,.0f} tokens a second"
    return [
        Figure("200 instances at once, tokens/s / one stream's", together / alone, at_least=0.7, note=note)
    ]


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def _idle(services: Services, count: int = 1_000) -> Figure:
    names = [await make_story(services, f"idle_{number}", 42) for number in range(count)]
    gc.collect()
    before = _resident()
    cache = SessionCache(keep=count)
    for name in names:
        path = services.stories.session_path(name, "sess_001")
        cache.load(path, path.name)
    return Figure(
        "memory of an idle instance (42 turns, read)", (_resident() - before) / count / 1024, unit="KiB"
    )


def _cold(folder: Path) -> Figure:
    path = folder / "big.jsonl"
    with path.open("wb") as file:
        number = 0
        while file.tell() < 10_000_000:
            number += 1
            file.write(dump_line(UserLine(SENTENCE * 5, number, "2025-10-16T10:30:00Z")))
            file.write(dump_line(AssistantLine(SENTENCE * 5, number, "2025-10-16T10:30:00Z")))
    start = time.perf_counter()
    SessionCache().load(path, path.name)
    return Figure("opening a 10 MB session cold", time.perf_counter() - start, unit="s", at_most=1)


def figures() -> list[Figure]:
    """Measure turns."""

    async def measure(folder: Path) -> list[Figure]:
        services = _services(folder / "data")
        found = await _one_turn(services)
        found.append(await _per_token(services))
        found += await _many(services)
        found.append(await _idle(services))
        return found

    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measure(Path(folder)))
        return [*found, _cold(Path(folder))]
