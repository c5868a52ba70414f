"""Tests of the ``claude`` process: reliable termination, and calls that are never paid twice."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from personalab.lab.calling import CallAnswer
from tests.support.providers.fake_cli import PROJECT, FakeCli, install, question

pytestmark = pytest.mark.timeout(120)

STEPS = ("fcntl.flock", "os.truncate", "subprocess.Popen", "os.killpg", "os.rename", "os.remove", "os.mkdir")

RUNNER = """
import asyncio, json, sys
from pathlib import Path
from personalab.lab.calling import Call
from personalab.providers.claude_cli import ClaudeCli
from tests.support.providers.fake_cli import FakeCli, question
fake = FakeCli(Path(sys.argv[1]))
answer = asyncio.run(fake.executor().run(question(timeout_seconds=float(sys.argv[2])), fake.spool))
print(json.dumps(answer.fields()))
"""


@pytest.fixture
def fake(tmp_path: Path) -> FakeCli:
    return install(tmp_path / "fake")


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something holds; the test's own time limit ends a wait in vain."""
    while not holds():
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def group_of(pid: int) -> list[int]:
    """Find the living processes of a group."""
    found: list[int] = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and is_alive(int(path.name)):
            try:
                if os.getpgid(int(path.name)) == pid:
                    found.append(int(path.name))
            except ProcessLookupError:
                continue
    return found


def begun_elsewhere(fake: FakeCli, timeout: float = 60.0) -> subprocess.Popen[bytes]:
    """Let another process make the call, and wait until the program works on it."""
    parent = subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(fake.folder), str(timeout)],
        cwd=PROJECT,
        stdout=subprocess.DEVNULL,
    )
    eventually(lambda: bool(fake.calls()))
    return parent


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def test_a_flood_is_stopped(fake: FakeCli) -> None:
    fake.rules({"bulk": 400_000, "hang": True})
    answer = fake.run(question(), max_output=100_000)
    assert (answer.error_code, answer.retryable) == ("provider.cli_too_much", False)
    eventually(lambda: not is_alive(fake.calls()[0]["pid"]))


# --- time-outs, cancelling, what is left behind


@pytest.mark.parametrize("rule", [{"hang": True}, {"hang": True, "stubborn": True, "grandchild": 600}])
def test_a_program_that_hangs_is_ended_with_all_it_started(fake: FakeCli, rule: dict[str, Any]) -> None:
    fake.rules(rule)
    answer = fake.run(question(timeout_seconds=5))
    assert (answer.status, answer.error_code, answer.retryable) == ("failed", "provider.call_timeout", True)
    assert group_of(fake.calls()[0]["pid"]) == []


def test_a_result_that_came_before_the_hang_is_an_answer(fake: FakeCli) -> None:
    fake.rules({"garbage": '{"type":"result","subtype":"success","result":"paid"}\n', "hang": True})
    answer = fake.run(question(timeout_seconds=5))
    assert (answer.status, answer.text) == ("ok", "paid")
    assert group_of(fake.calls()[0]["pid"]) == []


def test_what_a_program_leaves_running_is_ended_and_holds_nothing_up(fake: FakeCli) -> None:
    fake.rules({"grandchild": 600, "reply": "paid"})
    assert fake.run(question()).text == "paid"
    eventually(lambda: group_of(fake.calls()[0]["pid"]) == [])


def test_cancelling_ends_the_group_and_leaves_no_files(fake: FakeCli) -> None:
    fake.rules({"hang": True, "stubborn": True, "grandchild": 600})

    async def cancelled() -> None:
        task = asyncio.create_task(fake.executor().run(question(), fake.spool))
        while not fake.calls():
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert group_of(fake.calls()[0]["pid"]) == []
    assert fake.left() == set()


def test_cancelling_at_any_early_moment_leaves_nothing(fake: FakeCli) -> None:
    fake.rules({"hang": True})
    executor = fake.executor()

    async def cancelled() -> None:
        await executor.version()
        for steps in range(8):
            task = asyncio.create_task(executor.run(question(call_id=f"c{steps}"), fake.spool))
            for _ in range(steps):
                await asyncio.sleep(0.0005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert fake.left() == set()

    asyncio.run(cancelled())
    for called in fake.calls():
        assert not is_alive(called["pid"])


# --- a call once paid is never paid again


def test_an_answer_is_given_again_without_a_call_until_it_is_forgotten(fake: FakeCli) -> None:
    executor = fake.executor()
    first = asyncio.run(executor.run(question(), fake.spool))
    again = asyncio.run(fake.executor().run(question(), fake.spool))
    assert (again.text, again.cli_version, again.usage) == (first.text, first.cli_version, first.usage)
    assert len(fake.calls()) == 1
    executor.forget(fake.spool, "call_1")
    assert fake.left() == set()
    executor.forget(fake.spool, "call_1")
    asyncio.run(executor.run(question(), fake.spool))
    assert len(fake.calls()) == 2


def test_a_program_outlives_our_death_and_its_answer_is_taken(fake: FakeCli) -> None:
    fake.rules({"sleep": 1.0, "reply": "still paid"})
    kill(begun_elsewhere(fake))
    assert is_alive(fake.calls()[0]["pid"])
    answer = fake.run(question())
    assert (answer.status, answer.text, answer.cli_version) == ("ok", "still paid", "0.0.0-fake")
    assert len(fake.calls()) == 1


def test_an_answer_that_came_after_our_death_is_taken_without_a_program(fake: FakeCli) -> None:
    fake.rules({"sleep": 0.3, "reply": "still paid"})
    kill(begun_elsewhere(fake))
    eventually(lambda: not is_alive(fake.calls()[0]["pid"]))
    fake.path.unlink()
    answer = fake.run(question())
    assert (answer.text, answer.cli_version) == ("still paid", "0.0.0-fake")
    assert len(fake.calls()) == 1


def dies_at(fake: FakeCli, step: int) -> bool:
    """Make the call in a process that is killed just before one of its steps; tell whether it came to that step."""
    pid = os.fork()
    if pid == 0:
        steps = itertools.count(1)

        def look(event: str, arguments: tuple[Any, ...]) -> None:
            counts = event in STEPS or (event == "open" and str(fake.spool) in str(arguments[0]))
            if counts and next(steps) == step:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(look)
            fake.run(question())
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def test_wherever_we_are_killed_the_call_is_made_once(tmp_path: Path) -> None:
    step, died = 0, True
    while died:
        step += 1
        fake = install(tmp_path / str(step))
        fake.rules({"sleep": 0.05, "reply": "once"})
        died = dies_at(fake, step)
        answer = fake.run(question())
        assert (answer.status, answer.text, len(fake.calls())) == ("ok", "once", 1), f"killed at step {step}"
        fake.executor().forget(fake.spool, "call_1")
        assert fake.left() == set()
    assert step > 8, "there are steps to be killed at"


def test_a_program_that_dies_with_us_is_started_anew(fake: FakeCli) -> None:
    fake.rules({"hang": True, "times": 1}, {"reply": "anew"})
    kill(begun_elsewhere(fake))
    os.kill(fake.calls()[0]["pid"], signal.SIGKILL)
    assert fake.run(question()).text == "anew"
    assert len(fake.calls()) == 2


def test_a_program_of_an_earlier_process_has_only_the_time_it_had(fake: FakeCli) -> None:
    fake.rules({"hang": True, "stubborn": True, "grandchild": 600})
    kill(begun_elsewhere(fake, timeout=1.0))
    answer = fake.run(question())
    assert (answer.error_code, answer.retryable) == ("provider.call_timeout", True)
    assert group_of(fake.calls()[0]["pid"]) == []
    assert fake.run(question()).error_code == "provider.call_timeout", "until it is forgotten"
    assert len(fake.calls()) == 1


def test_what_an_earlier_program_left_running_does_not_hold_up_its_answer(fake: FakeCli) -> None:
    fake.rules({"sleep": 0.5, "grandchild": 600, "reply": "done"})
    kill(begun_elsewhere(fake, timeout=600.0))
    assert fake.run(question()).text == "done"
    assert len(fake.calls()) == 1
    eventually(lambda: group_of(fake.calls()[0]["pid"]) == [])


def test_cancelling_ends_a_program_of_an_earlier_process_too(fake: FakeCli) -> None:
    fake.rules({"hang": True, "grandchild": 600})
    kill(begun_elsewhere(fake))

    async def cancelled() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await fake.executor().run(question(), fake.spool)

    asyncio.run(cancelled())
    eventually(lambda: group_of(fake.calls()[0]["pid"]) == [])
    assert fake.left() == set()


def test_two_at_once_share_one_call(fake: FakeCli) -> None:
    fake.rules({"sleep": 0.3, "reply": "shared"})

    async def both() -> list[CallAnswer]:
        runs = (fake.executor().run(question(), fake.spool) for _ in range(2))
        return await asyncio.gather(*runs)

    assert [answer.text for answer in asyncio.run(both())] == ["shared", "shared"]
    assert len(fake.calls()) == 1


@pytest.mark.parametrize(
    "broken", [b"", b"{", b"[]", b'{"status":"fine"}', b'{"status":"ok","text":3}', b"\xff"]
)
def test_a_kept_answer_that_cannot_be_read_is_asked_for_anew(fake: FakeCli, broken: bytes) -> None:
    fake.spool.mkdir()
    (fake.spool / "call_1.done").write_bytes(broken)
    assert fake.run(question()).status == "ok"
