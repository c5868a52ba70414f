"""What every ``SessionLog`` and ``SessionStore`` guarantees."""

from __future__ import annotations

import asyncio

import pytest

from personalab.errors import PersonaLabError, StorageError
from personalab.ports import HeldLock, SessionLog, StoryPorts
from personalab.story.transcript import AssistantLine, UserLine
from tests.support.contract.worlds import NOW, SESSION, STORY, StoryWorld

pytestmark = pytest.mark.anyio


async def _open(ports: StoryPorts) -> tuple[HeldLock, SessionLog]:
    lock = await ports.lock.acquire(STORY, "say", wait=1)
    return lock, await ports.sessions.open(STORY, SESSION, lock)


async def _close(lock: HeldLock, log: SessionLog) -> None:
    await log.close()
    await lock.release()


async def _replies(ports: StoryPorts, *, open_reply: bool = True) -> list[AssistantLine]:
    found = await ports.sessions.transcript(STORY, SESSION, open_reply=open_reply)
    return [reply for turn in found.turns for reply in turn.replies]


async def test_appended_line_is_seen_by_others_when_the_call_returns(world: StoryWorld) -> None:
    lock, log = await _open(world.open_process())
    await log.append(UserLine("在吗", 1, NOW, {"request_id": "a"}))
    found = await world.open_process().sessions.transcript(STORY, SESSION)
    assert [turn.user and turn.user.content for turn in found.turns] == ["在吗"]
    assert found.requested("a") is not None
    assert log.transcript.requested("a") is not None
    await _close(lock, log)


async def test_flushed_text_survives_the_process_and_is_closed_by_the_next_writer(
    world: StoryWorld,
) -> None:
    lock, log = await _open(world.open_process())
    await log.append(UserLine("x", 1, NOW))
    reply = log.begin_reply(1, NOW)
    reply.think("想")
    reply.write("一")
    reply.write("二")
    await log.flush()
    world.end_process(lock)
    other = world.open_process()
    [found] = await _replies(other)
    assert (found.content, found.reasoning, found.closed) == ("一二", "想", False)
    assert await _replies(other, open_reply=False) == []
    lock, log = await _open(other)
    assert list(log.repaired) == ["repaired"]
    [found] = await _replies(world.open_process())
    assert (found.content, found.interrupted, found.closed) == ("一二", True, True)
    await _close(lock, log)
    lock, log = await _open(world.open_process())
    assert list(log.repaired) == []
    await _close(lock, log)


async def test_text_is_durable_once_written_or_once_flushed(world: StoryWorld) -> None:
    lock, log = await _open(world.open_process())
    await log.append(UserLine("x", 1, NOW))
    log.begin_reply(1, NOW).write("shown")
    if not log.is_buffered:
        assert [reply.content for reply in await _replies(world.open_process())] == ["shown"]
    await log.flush()
    assert [reply.content for reply in await _replies(world.open_process())] == ["shown"]
    world.end_process(lock)
    assert [reply.content for reply in await _replies(world.open_process())] == ["shown"]


async def test_ended_reply_has_its_text_and_flags(world: StoryWorld) -> None:
    lock, log = await _open(world.open_process())
    await log.append(UserLine("x", 1, NOW))
    reply = log.begin_reply(1, NOW)
    reply.think("t")
    reply.write("half")
    line = AssistantLine("half", 1, NOW, interrupted=True, truncated=True, reasoning="t")
    assert await log.end_reply(line) is False
    await _close(lock, log)
    [found] = await _replies(world.open_process(), open_reply=False)
    assert found == line
    assert log.transcript.turns[-1].last_reply == line


async def test_rewritten_reply_replaces_the_text(world: StoryWorld) -> None:
    lock, log = await _open(world.open_process())
    await log.append(UserLine("x", 1, NOW))
    log.begin_reply(1, NOW).write("  ")
    log.rewrite_reply("(无回复)")
    await log.end_reply(AssistantLine("(无回复)", 1, NOW, empty=True))
    await _close(lock, log)
    [found] = await _replies(world.open_process(), open_reply=False)
    assert (found.content, found.empty) == ("(无回复)", True)


async def test_dropped_reasoning_is_gone_and_more_may_come(world: StoryWorld) -> None:
    lock, log = await _open(world.open_process())
    await log.append(UserLine("x", 1, NOW))
    reply = log.begin_reply(1, NOW)
    reply.think("a thought that was none")
    reply.write("said")
    log.drop_reasoning()
    reply.write(" and done")
    reply.think("t")
    await log.flush()
    [found] = await _replies(world.open_process(), open_reply=True)
    assert (found.content, found.reasoning) == ("said and done", "t")
    await log.end_reply(AssistantLine("said and done", 1, NOW, reasoning="t"))
    await _close(lock, log)
    [found] = await _replies(world.open_process(), open_reply=False)
    assert (found.content, found.reasoning) == ("said and done", "t")


async def test_several_replies_of_a_turn_follow_one_another(world: StoryWorld) -> None:
    lock, log = await _open(world.open_process())
    await log.append(UserLine("x", 1, NOW))
    for text in ("a", "b"):
        log.begin_reply(1, NOW).write(text)
        await log.end_reply(AssistantLine(text, 1, NOW))
    await log.append(UserLine("y", 2, NOW))
    await _close(lock, log)
    found = await world.open_process().sessions.transcript(STORY, SESSION)
    assert [[reply.content for reply in turn.replies] for turn in found.turns] == [["a", "b"], []]


async def test_transcript_that_was_read_never_changes(world: StoryWorld) -> None:
    reader = world.open_process()
    before = await reader.sessions.transcript(STORY, SESSION, open_reply=True)
    lock, log = await _open(reader)
    await log.append(UserLine("x", 1, NOW))
    log.begin_reply(1, NOW).write("a")
    await log.end_reply(AssistantLine("a", 1, NOW))
    await _close(lock, log)
    assert before.turns == []


async def test_cancelled_write_has_ended_when_it_raises(world: StoryWorld) -> None:
    lock, log = await _open(world.open_process())
    task = asyncio.create_task(_append(log, UserLine("x", 1, NOW)))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    found = await world.open_process().sessions.transcript(STORY, SESSION)
    assert found.turns == log.transcript.turns
    await _close(lock, log)


async def _append(log: SessionLog, line: UserLine) -> None:
    await log.append(line)


async def test_failed_write_leaves_the_session_as_it_was(world: StoryWorld) -> None:
    lock, log = await _open(world.open_process())
    if not world.fail("append"):
        await _close(lock, log)
        return
    with pytest.raises(StorageError):
        await log.append(UserLine("x", 1, NOW))
    assert log.transcript.turns == []
    await log.append(UserLine("x", 1, NOW))
    log.begin_reply(1, NOW).write("a")
    if log.is_buffered:
        world.fail("flush")
        with pytest.raises(StorageError):
            await log.flush()
    world.fail("end_reply")
    with pytest.raises(StorageError):
        await log.end_reply(AssistantLine("a", 1, NOW))
    await log.end_reply(AssistantLine("a", 1, NOW))
    assert [reply.content for reply in await _replies(world.open_process())] == ["a"]
    await _close(lock, log)


async def test_writer_that_lost_its_lock_is_refused(world: StoryWorld) -> None:
    lock, log = await _open(world.open_process())
    if not world.can_lose_locks:
        await _close(lock, log)
        return
    await log.append(UserLine("x", 1, NOW))
    log.begin_reply(1, NOW).write("shown")
    await log.flush()
    world.end_process(lock)
    other = world.open_process()
    held, fresh = await _open(other)
    log_calls = (
        lambda: log.append(UserLine("late", 2, NOW)),
        lambda: log.end_reply(AssistantLine("shown and more", 1, NOW)),
        log.flush,
        lambda: other.sessions.open(STORY, SESSION, lock),
    )
    for call in log_calls:
        with pytest.raises(StorageError) as caught:
            await call()
        assert caught.value.code == "lock_lost"
    found = await other.sessions.transcript(STORY, SESSION, open_reply=True)
    assert [(turn.number, turn.replies[0].content) for turn in found.turns] == [(1, "shown")]
    await _close(held, fresh)


async def test_unknown_session_cannot_be_read_or_opened(world: StoryWorld) -> None:
    ports = world.open_process()
    with pytest.raises(PersonaLabError):
        await ports.sessions.transcript(STORY, "sess_404")
    with pytest.raises(PersonaLabError):
        await ports.sessions.transcript("inst_404", SESSION)
    lock = await ports.lock.acquire(STORY, "say", wait=1)
    with pytest.raises(PersonaLabError):
        await ports.sessions.open(STORY, "sess_404", lock)
    await lock.release()
