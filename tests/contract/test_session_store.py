"""What every ``SessionStore`` guarantees for the sessions that a story is not in."""

from __future__ import annotations

import asyncio

import pytest

from personalab.errors import NotFound, StorageError
from personalab.ports import HeldLock, StoryPorts
from personalab.story.summary import PlotPoint
from personalab.story.transcript import AssistantLine, Line, Metadata, Summary, UserLine
from tests.support.contract.worlds import NOW, SESSION, STORY, StoryWorld

pytestmark = pytest.mark.anyio

POINTS = [PlotPoint("他们出发了。", "他们天亮时出发。", 1, 2)]


def session(name: str, before: str | None, text: str = "走吧") -> list[Line]:
    """Make the lines of a session that continues another one."""
    return [
        Metadata(STORY, name, NOW, before),
        Summary("他们出发了。", {"turns": [1, 2]}),
        UserLine(text, 1, NOW),
        AssistantLine("好。", 1, NOW),
    ]


async def locked(ports: StoryPorts) -> HeldLock:
    """Acquire the story's lock."""
    return await ports.lock.acquire(STORY, "summarize", wait=1)


async def said(world: StoryWorld, name: str) -> list[str | None]:
    """Read what was said in a session, as another process does."""
    found = await world.open_process().sessions.transcript(STORY, name)
    return [turn.user and turn.user.content for turn in found.turns]


async def test_created_session_is_seen_by_others_and_the_story_stays_where_it_is(world: StoryWorld) -> None:
    ports = world.open_process()
    lock = await locked(ports)
    await ports.sessions.create(STORY, "sess_002", session("sess_002", SESSION), POINTS, lock)
    other = world.open_process()
    found = await other.sessions.transcript(STORY, "sess_002")
    assert found.metadata == Metadata(STORY, "sess_002", NOW, SESSION)
    assert [note.content for note in found.summaries()] == ["他们出发了。"]
    assert await said(world, "sess_002") == ["走吧"]
    assert world.plot_points("sess_002") == POINTS
    assert (await other.stories.instance(STORY)).current_session_id == SESSION
    await lock.release()


async def test_what_had_the_id_before_is_set_aside(world: StoryWorld) -> None:
    ports = world.open_process()
    lock = await locked(ports)
    await ports.sessions.create(STORY, "sess_002", session("sess_002", SESSION, "erst"), POINTS, lock)
    await said(world, "sess_002")
    await ports.sessions.create(STORY, "sess_002", session("sess_002", SESSION, "dann"), [], lock)
    assert await said(world, "sess_002") == ["dann"]
    assert world.plot_points("sess_002") == []
    places = [await ports.sessions.set_aside(STORY, "sess_002", lock)]
    await ports.sessions.create(STORY, "sess_002", session("sess_002", SESSION), POINTS, lock)
    places.append(await ports.sessions.set_aside(STORY, "sess_002", lock))
    assert all("sess_002" in place for place in places)
    assert len(set(places)) == 2
    with pytest.raises(StorageError) as caught:
        await world.open_process().sessions.transcript(STORY, "sess_002")
    assert caught.value.code == "file_missing"
    assert await ports.sessions.set_aside(STORY, "sess_002", lock) == ""
    await lock.release()


async def test_previous_session_is_the_one_it_names_if_it_is_there(world: StoryWorld) -> None:
    ports = world.open_process()
    lock = await locked(ports)
    for name, before in (("sess_002", SESSION), ("sess_003", "sess_002"), ("sess_009", "sess_008")):
        await ports.sessions.create(STORY, name, session(name, before), [], lock)
    sessions = world.open_process().sessions
    found = [await sessions.previous(STORY, name) for name in (SESSION, "sess_002", "sess_003", "sess_009")]
    assert found == [None, SESSION, "sess_002", None]
    await ports.sessions.set_aside(STORY, "sess_002", lock)
    assert await sessions.previous(STORY, "sess_003") is None
    await lock.release()


async def test_sessions_in_a_loop_begin_with_the_first_by_number(world: StoryWorld) -> None:
    ports = world.open_process()
    lock = await locked(ports)
    for name, before in (("sess_002", "sess_004"), ("sess_003", "sess_002"), ("sess_004", "sess_003")):
        await ports.sessions.create(STORY, name, session(name, before), [], lock)
    await ports.sessions.create(STORY, "sess_005", session("sess_005", "sess_005"), [], lock)
    names = ("sess_002", "sess_003", "sess_004", "sess_005")
    found = [await ports.sessions.previous(STORY, name) for name in names]
    assert found == [None, "sess_002", "sess_003", None]
    await lock.release()


async def test_writer_that_lost_its_lock_is_refused(world: StoryWorld) -> None:
    ports = world.open_process()
    lock = await locked(ports)
    await ports.sessions.create(STORY, "sess_002", session("sess_002", SESSION), POINTS, lock)
    if not world.can_lose_locks:
        await lock.release()
        return
    world.end_process(lock)
    following = await locked(world.open_process())
    before = world.dump()
    for write in (
        lambda: ports.sessions.create(STORY, "sess_002", session("sess_002", SESSION, "x"), [], lock),
        lambda: ports.sessions.set_aside(STORY, "sess_002", lock),
    ):
        with pytest.raises(StorageError) as caught:
            await write()
        assert caught.value.code == "lock_lost"
    assert world.dump() == before
    await following.release()


@pytest.mark.parametrize("operation", ["create", "set_aside"])
async def test_failed_write_changes_nothing(world: StoryWorld, operation: str) -> None:
    ports = world.open_process()
    lock = await locked(ports)
    await ports.sessions.create(STORY, "sess_002", session("sess_002", SESSION), POINTS, lock)
    before = world.dump()
    if world.fail(operation):
        calls = {
            "create": lambda: ports.sessions.create(STORY, "sess_002", session("sess_002", None), [], lock),
            "set_aside": lambda: ports.sessions.set_aside(STORY, "sess_002", lock),
        }
        with pytest.raises(StorageError):
            await calls[operation]()
        assert world.dump() == before
    await lock.release()


async def test_cancelled_call_has_ended_when_it_raises(world: StoryWorld) -> None:
    ports = world.open_process()
    lock = await locked(ports)
    for number in range(2, 12):
        name = f"sess_{number:03}"
        lines = session(name, SESSION, "x" * 200_000)
        writing = asyncio.create_task(ports.sessions.create(STORY, name, lines, POINTS, lock))
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        whole = [line["content"][:1] for line in world.lines(name) if line.get("role") == "user"]
        assert (whole, world.plot_points(name)) == (["x"], POINTS)
    await lock.release()


async def test_unknown_story_is_not_found(world: StoryWorld) -> None:
    ports = world.open_process()
    lock = await locked(ports)
    for call in (
        lambda: ports.sessions.previous("inst_404", SESSION),
        lambda: ports.sessions.create("inst_404", SESSION, session(SESSION, None), [], lock),
        lambda: ports.sessions.set_aside("inst_404", SESSION, lock),
    ):
        with pytest.raises(NotFound):
            await call()
    await lock.release()
