"""What this server did not write itself, or no longer as it wrote it, is told as its file has it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from personalab.services import Services, open_services
from personalab.storage.sessions import Session, SessionCache, SessionWriter
from personalab.storage.story_lock import FileStoryLock, HeldFileLock
from personalab.story.transcript import NO_REPLY, AssistantLine, UserLine, dump_line
from tests.conftest import NOW
from tests.integration.web.test_streams import begin, forget, session
from tests.support.web.fixtures import Live
from tests.support.web.listening import listen, listening, take, text_of
from tests.support.web.slow_model import HandedModel
from tests.unit.web.test_watching import ODD
from web.replies import ReplyQuery
from web.watching import Log, size_of

pytestmark = pytest.mark.anyio

STREAM = "/api/chat/stream?instance_id=inst_001&turn=1"
CURRENT = "/api/sessions/sess_001/current_response?instance_id=inst_001&turn=1"


def write(root: Path, reply: str) -> None:
    """Write a turn into the file, as an editor would: JSON with every odd character escaped."""
    line = {"role": "assistant", "content": reply, "turn": 1, "timestamp": NOW}
    kept = session(root).read_bytes().splitlines(keepends=True)[0]
    user = dump_line(UserLine("hello", 1, NOW))
    session(root).write_bytes(kept + user + json.dumps(line).encode("ascii") + b"\n")


class Elsewhere:
    """Another program that is writing the reply of turn 1."""

    def __init__(self, lock: HeldFileLock, writer: SessionWriter) -> None:
        self._lock, self._writer = lock, writer
        writer.append(UserLine("hello", 1, NOW))
        self.again()

    def again(self) -> None:
        """Begin a reply."""
        self._line = self._writer.begin_reply(1, NOW)
        self.text = self.reasoning = ""

    def say(self, text: str) -> None:
        """Write more."""
        self._line.write(text)
        self.text += text

    def think(self, text: str) -> None:
        """Think more."""
        self._line.think(text)
        self.reasoning += text

    def close(self, *, empty: bool = False) -> None:
        """Close the reply; what has left its text, or that there is none, is written first."""
        text = NO_REPLY if empty else self.text
        self._writer.rewrite_reply(text)
        self._writer.end_reply(AssistantLine(text, 1, NOW, empty=empty, reasoning=self.reasoning))

    def end(self) -> None:
        """Close the reply and let the story go."""
        self.close()
        self.release()

    def release(self) -> None:
        """Let the story go, as a program does that ends."""
        self._writer.close()
        os.close(self._lock.fd)


async def write_elsewhere(services: Services) -> Elsewhere:
    """Begin a turn as another program does."""
    other = open_services(services.settings)
    lock = await FileStoryLock(other.stories.instances).acquire("inst_001", "say", wait=1)
    return Elsewhere(lock, other.stories.writer("inst_001", "sess_001"))


class Looked(SessionCache):
    """Reads files as ever, and counts it; something may happen right after one was read."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.times = 0
        self._then = then

    def load(self, path: Path, shown: str, *, keep: bool = True) -> Session:
        """Read a file."""
        found = super().load(path, shown, keep=keep)
        self.times += 1
        self._then()
        return found


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=st.lists(st.one_of(st.sampled_from(ODD), st.text(max_size=4)), min_size=1),
    offset=st.integers(0, 30),
)
async def test_a_file_is_told_as_it_would_have_been_when_it_was_written(
    live: Live, instance: str, root: Path, pieces: list[str], offset: int
) -> None:
    """Wherever a client goes on, also inside a character: the same text at the same offsets, and it is no error."""
    write(root, "a" + "".join(pieces))
    found = (await live.client.get(CURRENT)).json()
    log = Log()
    log.token(1, found["content"])
    log.end()
    [*_, told] = [part async for part in log.watch(min(offset, log.offset - 1))]
    answer = await live.client.get(f"{STREAM}&offset={min(offset, log.offset - 1)}")
    assert answer.content.startswith(told)
    heard = await listen(live.client, f"{STREAM}&offset={offset}")
    assert heard[-1].data["content"] == found["content"]
    assert found["offset"] == size_of(found["content"])


async def test_a_session_with_the_older_name_is_found_by_the_name_the_story_has_for_it(
    live: Live, instance: str, handed: HandedModel, root: Path
) -> None:
    session(root).rename(session(root, "session_001"))
    turn = await begin(live.client)
    await handed.asked()
    handed.finish("still here")
    await listen(live.client, turn["stream"])
    forget(live)
    assert text_of(await listen(live.client, turn["stream"])) == "still here"
    assert (await live.client.get(CURRENT)).json()["content"] == "still here"


async def test_what_was_told_before_gives_way_to_what_the_file_says_now(
    live: Live, instance: str, handed: HandedModel, root: Path
) -> None:
    """A story may be edited by hand, or removed and another one begun that has its name."""
    turn = await begin(live.client)
    await handed.asked()
    handed.finish("what was")
    await listen(live.client, turn["stream"])
    write(root, "what is")
    heard = await listen(live.client, turn["stream"])
    assert text_of(heard) == heard[-1].data["content"] == "what is"


async def test_a_reply_that_ends_while_it_is_looked_at_is_not_taken_for_one_whose_writer_died(
    live: Live, instance: str, services: Services
) -> None:
    elsewhere = await write_elsewhere(services)
    elsewhere.say("all of it, ")
    ends = [elsewhere.end]
    services.stories.cache = Looked(lambda: ends.pop()() if ends else None)
    found = await live.desk.turns.find(ReplyQuery("inst_001", 1))
    assert not ends
    assert found.is_being_written
    heard = await listen(live.client, STREAM)
    assert text_of(heard) == elsewhere.text
    assert not heard[-1].data["interrupted"]


async def test_a_reply_of_another_program_has_ended_when_the_plot_is_saved(
    live: Live, instance: str, services: Services
) -> None:
    elsewhere = await write_elsewhere(services)
    async with listening(live.client, STREAM) as events:
        elsewhere.say("[PLOT:1:done]")
        await take(events, 1)
        elsewhere.close()
        assert (await live.client.get(CURRENT)).json()["status"] == "writing"
        state = services.stories.instance(instance)
        services.stories.save_instance(state.with_plot(replace(state.plot_state, no_update_count=7)))
        elsewhere.release()
        [done] = [event async for event in events]
    assert done.data["plot_state"]["no_update_count"] == 7
    assert (await live.client.get(CURRENT)).json()["status"] == "done"


async def test_all_who_watch_another_program_look_at_its_file_together(
    live: Live, instance: str, services: Services
) -> None:
    elsewhere = await write_elsewhere(services)
    elsewhere.say("灯")
    services.stories.cache = looked = Looked()
    clients, updates = 40, 5
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(listening(live.client, STREAM)) for _ in range(clients)]
        for stream in streams:
            await take(stream, 1)
        before = looked.times
        for number in range(updates):
            elsewhere.say(f" {number}")
            for stream in streams:
                await take(stream, 1)
        assert looked.times - before < clients * updates
        elsewhere.end()
        for stream in streams:
            [end] = [event async for event in stream]
            assert end.data["content"] == "灯 0 1 2 3 4"
