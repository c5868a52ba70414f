"""Full disks, read-only roots, vanished files, big sessions, and several processes at once."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from personalab.operations.instances import new_instance
from personalab.services import Services, open_services
from personalab.settings import read_settings
from personalab.storage.sessions import SessionCache
from personalab.story.transcript import AssistantLine, UserLine, dump_line
from personalab.testing.in_memory import InMemoryLibrary
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.conftest import FULL
from tests.support.graph.turns import lines, only, play, plot, say, snapshot

pytestmark = pytest.mark.anyio
Answer = Callable[..., ScriptedModel]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def _services(root: Path) -> Services:
    made = open_services(read_settings({"PERSONALAB_DATA": str(root), "PERSONALAB_BUSY_SECONDS": "1"}))
    made.__dict__["library"] = InMemoryLibrary()
    return made


def _fill(folder: Path, leave: int) -> Path:
    filler = folder / "filler"
    free = os.statvfs(folder)
    filler.write_bytes(b"x" * max(free.f_bavail * free.f_frsize - leave, 0))
    return filler


async def test_a_disk_that_fills_up_while_streaming_keeps_what_was_shown(small_disk: Path) -> None:
    services = _services(small_disk / "data")
    await new_instance(services, "char_alserqi", "bg_wasteland", "inst_001")
    services.models["rehearsal"] = ScriptedModel(
        [ScriptedReply(tuple("潮水" * 200 for _ in range(400))), "好。"]
    )
    filler = _fill(small_disk, 12 * 1024)
    events, result = await say(services, "说下去")
    assert result["status"] == "error"
    assert only(events, "error")[0]["code"] == "disk_full"
    shown = "".join(event["text"] for event in only(events, "token"))
    assert shown
    path = services.stories.session_path("inst_001", "sess_001")
    reply = SessionCache().load(path, "s").view().turns[-1].last_reply
    assert reply is not None
    assert reply.content == shown
    filler.unlink()
    _, again = await say(services, "现在呢")
    assert again["status"] == "done"
    assert [line["content"] for line in lines(services)[1:]] == ["说下去", shown, "现在呢", "好。"]


async def test_a_full_disk_refuses_the_turn_and_leaves_the_files_as_they_were(small_disk: Path) -> None:
    services = _services(small_disk / "data")
    await new_instance(services, "char_alserqi", "bg_wasteland", "inst_001")
    services.models["rehearsal"] = ScriptedModel(["好。"])
    filler = _fill(small_disk, 0)
    before = snapshot(small_disk / "data")
    events, result = await say(services, "说" * 5_000)
    assert (result["error"]["code"], len(events)) == ("disk_full", 1)
    assert snapshot(small_disk / "data") == before
    filler.unlink()
    _, again = await say(services, "说")
    assert again["status"] == "done"


async def test_a_full_disk_does_not_eat_an_unfinished_reply(small_disk: Path) -> None:
    services = _services(small_disk / "data")
    await new_instance(services, "char_alserqi", None, "inst_001")
    path = services.stories.session_path("inst_001", "sess_001")
    reply = dump_line(AssistantLine("半" * 1300, 1, "2025-10-16T10:30:00Z"))[:-1]
    path.write_bytes(path.read_bytes() + dump_line(UserLine("a", 1, "")) + reply)
    path.write_bytes(path.read_bytes() + b"")
    filler = _fill(small_disk, 0)
    before = path.read_bytes()
    await say(services, "x" * 9_000)
    assert path.read_bytes().startswith(before[: before.rindex(b"\n") + 1])
    kept = SessionCache().load(path, "s").view().turns[0].last_reply
    assert kept is not None
    assert kept.content == "半" * 1300
    filler.unlink()


async def test_a_read_only_data_root_is_read_and_refuses_to_be_written(small_disk: Path) -> None:
    services = _services(small_disk / "data")
    await new_instance(services, "char_alserqi", None, "inst_001")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    _, result = await say(services, "hi")
    assert result["error"]["code"] == "not_writable"
    assert "PERSONALAB_DATA" in result["error"]["message"]
    assert services.stories.instance("inst_001").character_id == "char_alserqi"


async def test_a_session_deleted_during_a_turn_comes_back_with_the_reply(
    services: Services, instance: str, answer_with: Answer
) -> None:
    answer_with(ScriptedReply(("one ", "two ", "three"), delay=0.05))
    path = services.stories.session_path(instance, "sess_001")
    running = asyncio.create_task(say(services, "x"))
    while b"one" not in path.read_bytes():
        await asyncio.sleep(0.005)
    path.unlink()
    events, result = await running
    assert result["status"] == "done"
    assert [event["category"] for event in only(events, "warning")] == ["session_restored"]
    assert [line.get("content") for line in lines(services)] == [None, "x", "one two three"]


async def test_an_instance_deleted_during_a_turn_gives_a_clear_error(
    services: Services, root: Path, instance: str, answer_with: Answer
) -> None:
    answer_with(ScriptedReply(("one ", "two ", "three"), delay=0.05))
    path = services.stories.session_path(instance, "sess_001")
    running = asyncio.create_task(say(services, "x"))
    while b"one" not in path.read_bytes():
        await asyncio.sleep(0.005)
    (root / "instances" / instance).rename(root / "gone")
    _, result = await running
    assert (result["status"], result["error"]["code"]) == ("error", "session_gone")


async def test_a_session_of_fifty_megabytes_takes_a_turn(
    services: Services, instance: str, answer_with: Answer
) -> None:
    services.preferences.change({"conversation_load_all": False, "conversation_max_tokens": 2_000})
    path = services.stories.session_path(instance, "sess_001")
    text = "潮水退去之后，灯塔还亮着。" * 40
    with path.open("ab") as file:
        for number in range(1, 16_001):
            file.write(dump_line(UserLine(text, number, "2025-10-16T10:30:00Z")))
            file.write(dump_line(AssistantLine(text, number, "2025-10-16T10:30:00Z")))
    assert path.stat().st_size > 50_000_000
    (services.settings.data_root / "modules" / "recall.json").write_text(
        '{"trigger": "off"}', encoding="utf-8"
    )
    answer_with("好。")
    _, result = await say(services, "还在吗")
    assert (result["status"], result["turn"]) == ("done", 16_001)


_TALK = """
import asyncio, json, sys
from graph.chat_turn import run_turn
from personalab.testing.scripted import ScriptedModel
from personalab.testing.in_memory import InMemoryLibrary
from personalab.services import open_services
services = open_services()
services.__dict__["library"] = InMemoryLibrary()
services.models["rehearsal"] = ScriptedModel(["token " * 20], loop=True)
async def main():
    for n in range(int(sys.argv[2])):
        result = await run_turn(services, {"instance_id": sys.argv[1], "user_input": f"{sys.argv[3]} {n}"})
        print(json.dumps(result.get("error")))
asyncio.run(main())
"""


def _talkers(root: Path, instances: list[str], turns: int) -> list[str]:
    environment = {**os.environ, "PERSONALAB_DATA": str(root), "PERSONALAB_BUSY_SECONDS": "120"}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _TALK, instance_id, str(turns), f"talker {number}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for number, instance_id in enumerate(instances)
    ]
    answers: list[str] = []
    for process in running:
        out, problems = process.communicate(timeout=300)
        assert process.returncode == 0, problems
        answers += out.split()
    return answers


async def test_two_processes_talking_to_one_instance_never_interleave(
    services: Services, root: Path, instance: str
) -> None:
    answers = _talkers(root, [instance] * 2, 15)
    assert answers == ["null"] * 30
    found = lines(services)[1:]
    assert [(line["role"], line["turn"]) for line in found] == [
        (role, turn) for turn in range(1, 31) for role in ("user", "assistant")
    ]
    assert all(line["content"] == "token " * 20 for line in found if line["role"] == "assistant")
    assert plot(services)["no_update_count"] == 30


async def test_twenty_processes_on_twenty_instances_have_no_error(services: Services, root: Path) -> None:
    instances = [f"many_{number}" for number in range(20)]
    for instance_id in instances:
        await new_instance(services, "char_alserqi", "bg_wasteland", instance_id)
    assert _talkers(root, instances, 3) == ["null"] * 60
    for instance_id in instances:
        assert len(lines(services, instance_id)) == 7


@pytest.mark.parametrize("model", [[], ["--http"]], ids=["script", "http"])
def test_kills_lose_nothing_that_was_shown(model: list[str]) -> None:
    kills = "100" if FULL else "15"
    command = [sys.executable, "-m", "bench.crash", "--kills", kills, *model]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed while streaming" in done.stdout


async def test_a_stop_from_another_process_ends_the_turn(
    services: Services, root: Path, instance: str, answer_with: Answer
) -> None:
    answer_with(ScriptedReply(("one ", "two "), hang=True))
    path = services.stories.session_path(instance, "sess_001")
    running = asyncio.create_task(say(services, "x"))
    while b"two" not in path.read_bytes():
        await asyncio.sleep(0.01)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cli", "stop", instance), env={**os.environ, "PERSONALAB_DATA": str(root)}
    )
    _, result = await running
    assert await process.wait() == 0
    assert result["status"] == "interrupted"
    assert lines(services)[-1]["interrupted"] is True
    assert not list((root / "instances" / instance).glob(".stop*"))


async def test_settings_changed_in_another_process_hold_from_the_next_turn_on(
    services: Services, root: Path, instance: str, answer_with: Answer
) -> None:
    answer_with("好。", "好。")
    _, first = await say(services, "x")
    elsewhere = _services(root)
    elsewhere.preferences.change({"max_total_tokens": 50_000, "language": "en"})
    _, second = await say(services, "x")
    assert (first["tokens"]["limit"], second["tokens"]["limit"]) == (100_000, 50_000)
    _, refused = await play(services, {"instance_id": instance, "user_input": " "})
    assert refused["error"]["message"] == "The message is empty; write something"
    assert (
        json.loads((root / "config.json").read_text(encoding="utf-8"))["limits"]["max_total_tokens"] == 50_000
    )
