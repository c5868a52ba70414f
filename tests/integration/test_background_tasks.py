"""No background task ends with an exception that nobody reads, and a failure of one is logged."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import NoReturn

import pytest
from mcp.server.subscriptions import ServerEvent

from mcp_server.updates import Updates
from personalab.operations.lab.calls import all_of
from personalab.services import Services
from personalab.story.recall import Hit, RecallQuery, StoryEvent
from personalab.tasks import BackgroundTasks, discard_failure, end_tasks
from personalab.testing.in_memory import InMemoryLibrary
from tests.support.mcp_server.scribes import tell_story
from tests.support.web.fixtures import live_app
from tests.support.web.serving import SECONDS
from tests.support.web.slow_model import HandedModel

pytestmark = pytest.mark.anyio
TURN = "/api/instances/inst_001/turns"


@pytest.fixture
async def reports(anyio_backend: str) -> AsyncGenerator[list[str]]:
    """What asyncio reports: exceptions of tasks that nobody has read, and others that nobody has caught."""
    found: list[str] = []
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(
        lambda _, context: found.append(f"{context['message']}: {context.get('exception')!r}")
    )
    yield found
    for _ in range(3):
        gc.collect()
        await asyncio.sleep(0)
    loop.set_exception_handler(before)
    assert found == []


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.005)


class StuckLibrary(InMemoryLibrary):
    """An event library that never answers, and fails when it is given up."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def _hang(self) -> NoReturn:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("the connection was closed")

    async def search(self, search: RecallQuery) -> list[Hit]:
        """Hang."""
        await self._hang()

    async def write(self, events: Sequence[StoryEvent]) -> None:
        """Hang."""
        await self._hang()


async def test_stopping_a_turn_during_recall_leaves_no_unread_exception(
    services: Services, instance: str, reports: list[str]
) -> None:
    library = services.__dict__["library"] = StuckLibrary()
    services.models["rehearsal"] = HandedModel()
    tell_story(services, 3, "We walk along the old railway. ")
    async with live_app(services) as live:
        turn = asyncio.create_task(live.client.post(TURN, json={"text": "hello"}))
        await library.asked.wait()
        await turn
        await live.client.post("/api/instances/inst_001/stop")
        await until(lambda: not live.desk.turns.count)


@pytest.mark.parametrize("on_disconnect", ["interrupt", "continue"])
async def test_disconnect_during_a_stream_leaves_no_unread_exception(
    services: Services, instance: str, reports: list[str], on_disconnect: str
) -> None:
    services.preferences.change({"preferences.on_disconnect": on_disconnect})
    model = services.models["rehearsal"] = HandedModel()
    async with live_app(services) as live:
        turn = (await live.client.post(TURN, json={"text": "hello"})).json()
        await model.asked()
        model.say("A word ")
        async with live.client.stream("GET", turn["stream"]) as stream:
            async for _ in stream.aiter_bytes():
                break
        if on_disconnect == "continue":
            model.fail()
        await until(lambda: not live.desk.turns.count)


async def test_cancelled_import_leaves_no_unread_exception(
    services: Services, instance: str, reports: list[str]
) -> None:
    tell_story(services, 3, "We walk along the old railway. ")
    binary = {"content-type": "application/octet-stream"}
    async with live_app(services) as live:
        exported = await live.client.get("/api/export", params={"kind": "instance", "id": instance})
        assert exported.status_code == 200, exported.text
        library = services.__dict__["library"] = StuckLibrary()
        options = {"wait": "false", "id": "inst_002", "name": "story.zip"}
        begun = await live.client.post(
            "/api/import", params=options, content=exported.content, headers=binary
        )
        assert begun.status_code == 202, begun.text
        async with asyncio.timeout(SECONDS):
            await library.asked.wait()
        await live.client.post(f"/api/jobs/{begun.json()['job_id']}/stop")
        await until(lambda: not live.desk.jobs.count)


async def test_failing_listener_leaves_no_unread_exception(
    services: Services, instance: str, reports: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    updates = Updates(services.stories)

    def fail(event: ServerEvent) -> NoReturn:
        raise OSError(f"nobody reads {event}")

    updates.bus.subscribe(fail)
    await updates.story_changed(instance)
    await updates.entry_changed("characters", "char_alserqi", created=True)
    await until(lambda: "nobody reads" in caplog.text)


async def test_second_failure_of_parallel_calls_is_read(reports: list[str]) -> None:
    async def fail(number: int) -> None:
        for _ in range(number):
            await asyncio.sleep(0)
        raise OSError(number)

    with pytest.raises(OSError, match="0"):
        await all_of(fail(number) for number in range(4))


async def test_ended_tasks_have_no_unread_exception(reports: list[str]) -> None:
    async def fail_when_cancelled() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("cleanup failed")

    async def fail() -> None:
        raise OSError("failed at once")

    tasks = [asyncio.create_task(work()) for work in (fail_when_cancelled, fail, fail_when_cancelled)]
    await asyncio.sleep(0)
    await end_tasks(tasks)
    assert all(task.done() for task in tasks)
    unwaited = asyncio.create_task(fail())
    discard_failure(unwaited)
    await asyncio.wait([unwaited])
    del tasks, unwaited


async def test_failure_of_background_task_is_logged(
    reports: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    tasks = BackgroundTasks(logging.getLogger("personalab.tests"))

    async def fail() -> None:
        raise OSError("no space left")

    await asyncio.wait([tasks.keep(asyncio.create_task(fail()))])
    await until(lambda: not tasks)
    assert "no space left" in caplog.text
