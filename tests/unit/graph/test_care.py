"""What follows a turn never harms it, keeps to the switches, and does not do the same again and again."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from nodes.chat_turn.recall_player import recall_player
from nodes.chat_turn.state import TurnEmitter
from personalab.config import Config
from personalab.dialogue import Message
from personalab.errors import StorageError, UserError
from personalab.memory.changes import Change, MemoryRevision, Operation, revise
from personalab.operations.memory import add_entry, get_memory, remove_entry, undo_change
from personalab.ports import ReplyChunk
from personalab.services import Services
from personalab.story.summary import due_after_turn
from tests.support.graph.turns import only, say

pytestmark = pytest.mark.anyio
AGENT, PLAYER = "char_alserqi", "player"


class Talking:
    """Answers turns at length and sums them up; any other question it cannot bear."""

    name = "talking"

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        asked = messages[-1]["content"]
        if '"points"' in asked:
            points = [{"summary": "他们聊了很久。", "plot": "他们聊了很久，很多话。", "turns": [1, 2]}]
            yield ReplyChunk(json.dumps({"points": points}))
        elif '"facts"' in asked:
            raise RuntimeError("no idea")
        else:
            yield ReplyChunk("海风很大，灯塔的光一圈一圈地转着。" * 20)


@pytest.fixture(autouse=True)
def talking(services: Services) -> Talking:
    """The model of these stories."""
    model = Talking()
    services.models["rehearsal"] = model
    return model


async def test_what_nobody_foresaw_is_told_and_the_turns_result_stays(
    services: Services, instance: str
) -> None:
    services.preferences.change({"auto_memorize_turns": 1})
    events, result = await say(services, "我叫小林")
    assert [event["status"] for event in only(events, "care")] == ["begun", "error"]
    assert (result["status"], [told["status"] for told in result["care"]]) == ("done", ["error"])

    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("no disk")

    services.__dict__["memories"] = Broken()
    events, result = await say(services, "我是医生")
    assert [event["status"] for event in only(events, "care")] == ["error"]
    assert "RuntimeError" in result["care"][0]["message"]
    assert result["status"] == "done"


async def test_where_memory_is_switched_off_nothing_is_learned(
    services: Services, instance: str, root: Path
) -> None:
    services.preferences.change({"auto_memorize_turns": 1})
    (root / "modules" / "memory.json").write_text('{"enabled": false}', encoding="utf-8")
    events, result = await say(services, "我叫小林")
    assert only(events, "care") == []
    assert result["care_due"] == []


async def test_turns_taken_over_that_are_too_long_are_not_summed_up_every_time(
    services: Services, instance: str
) -> None:
    services.preferences.change(
        {"auto_summarize": True, "middle_section_warning_tokens": 1_000, "summary_last_n_turns": 3}
    )
    summed: list[int] = []
    for number in range(1, 13):
        events, _ = await say(services, f"第{number}句")
        if any(event["status"] == "done" for event in only(events, "care")):
            summed.append(number)
    assert len(summed) >= 2
    assert all(later - earlier > 3 for earlier, later in pairwise(summed))


@pytest.mark.parametrize(
    ("turn", "is_continued", "due"), [(1, False, True), (10, True, False), (11, True, True)]
)
def test_a_continued_session_waits_for_as_many_new_turns_as_it_took_over(
    turn: int, is_continued: bool, due: bool
) -> None:
    config = Config(auto_summarize=True, summary_last_n_turns=5, middle_section_warning_tokens=1_000)
    found = due_after_turn(config, {"middle": 2_000}, remembers=True, turn=turn, is_continued=is_continued)
    assert found == (["summarize"] if due else [])


# --- taking back


async def test_a_change_of_which_nothing_stands_does_not_keep_older_ones_from_being_undone(
    services: Services,
) -> None:
    await add_entry(services, AGENT, PLAYER, "profile", "玩家是医生")
    await add_entry(services, AGENT, PLAYER, "profile", "玩家喜欢茶")
    memory = await get_memory(services, AGENT, PLAYER)
    gone = memory.of("profile")[1]
    removed = revise(
        memory, [Operation("remove", "profile", "", gone.content_id)], services.now(), origin="edit"
    )
    assert removed.change is not None
    # As a removal that another program made: it is nobody's to take back.
    change: Change = removed.change
    foreign = Change(
        change.change_id, change.memory_id, change.version, change.at, "undo", change.steps, undoes="another"
    )
    assert await services.memories.commit(MemoryRevision(removed.memory, foreign))
    undone = await undo_change(services, AGENT, PLAYER)
    assert [step.verb for step in undone.steps] == ["remove"]
    assert (await get_memory(services, AGENT, PLAYER)).entries == ()
    with pytest.raises(UserError):
        await undo_change(services, AGENT, PLAYER)


async def test_changes_are_taken_back_from_the_newest_on(services: Services) -> None:
    await add_entry(services, AGENT, PLAYER, "profile", "玩家是医生")
    (entry,) = (await get_memory(services, AGENT, PLAYER)).entries
    await remove_entry(services, AGENT, PLAYER, entry.content_id)
    await undo_change(services, AGENT, PLAYER)
    assert (await get_memory(services, AGENT, PLAYER)).texts("profile") == ["玩家是医生"]
    await undo_change(services, AGENT, PLAYER)
    assert (await get_memory(services, AGENT, PLAYER)).entries == ()


# --- a store that does not answer


async def test_a_turn_does_not_wait_for_a_store_that_never_answers(services: Services, instance: str) -> None:
    class Mute:
        async def memory(self, agent_id: str, user_id: str, newest: int) -> None:
            await asyncio.Event().wait()

    scene = await services.turns.preview(instance, "你好", services.now())
    told = TurnEmitter(lambda event: None, scene)
    memories: Any = Mute()
    found = await recall_player(
        scene, memories=memories, counter=await services.counter(), emitter=told, seconds=0.0
    )
    assert found == {"player": ""}
    assert [warning["category"] for warning in scene.warnings] == ["memory_unavailable"]


async def test_a_search_that_fails_leaves_what_is_known_anyway(services: Services, instance: str) -> None:
    await add_entry(services, AGENT, PLAYER, "profile", "玩家是医生")
    await add_entry(services, AGENT, PLAYER, "event", "玩家去了海边")
    store = services.memories

    class Unsearchable:
        memory = staticmethod(store.memory)

        async def search(self, search: object) -> None:
            raise StorageError("memory_index_unreadable", reason="broken")

    scene = await services.turns.preview(instance, "你好", services.now())
    told = TurnEmitter(lambda event: None, scene)
    memories: Any = Unsearchable()
    found = await recall_player(scene, memories=memories, counter=await services.counter(), emitter=told)
    assert found == {"player": "- 玩家是医生"}
    assert [warning["category"] for warning in scene.warnings] == ["memory_unavailable"]


@pytest.fixture
def mute_server() -> Iterator[tuple[str, Callable[[], int]]]:
    """A server that takes connections and says nothing; its address, and how many came."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(50)
        listening.setblocking(False)

        def came() -> int:
            count = 0
            while True:
                try:
                    listening.accept()[0].close()
                except BlockingIOError:
                    return count
                count += 1

        port = listening.getsockname()[1]
        yield f"postgresql://someone@127.0.0.1:{port}/people?connect_timeout=2&sslmode=disable", came


def test_a_database_that_does_not_answer_is_waited_for_once_however_many_ask(
    mute_server: tuple[str, Callable[[], int]],
) -> None:
    pytest.importorskip("psycopg_pool", reason="the extra 'postgres' is not installed")
    from personalab.retrieval.memory.postgres_database import Connection, Database

    url, came = mute_server

    def nothing(connection: Connection, where: str) -> None:
        """Make no tables."""

    database = Database(url, nothing)

    def code(_: int) -> str:
        with pytest.raises(StorageError) as caught:
            database.read(lambda connection: None)
        return caught.value.code

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(code, range(8))) == {"database_unreachable"}
    assert came() == 1
