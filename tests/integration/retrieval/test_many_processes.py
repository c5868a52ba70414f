"""Tests of several processes that share one event library, including killed ones."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.integration.retrieval.library_process import turn
from tests.support.retrieval.events import looking, open_library

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]
ROUNDS = 12


def start(folder: Path, *arguments: object) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "tests.integration.retrieval.library_process",
        str(folder),
        *map(str, arguments),
    ]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(folder: Path, *arguments: object) -> None:
    process = start(folder, *arguments)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors


async def test_three_processes_write_and_search_at_once_and_all_see_everything(tmp_path: Path) -> None:
    folder = tmp_path / "event_library"
    here = open_library(folder)
    await here.write([turn("inst_0", 1)])
    names = ["inst_1", "inst_2", "inst_3"]
    pairs = zip(names, names[1:] + names[:1], strict=True)
    processes = [start(folder, "mix", name, other, ROUNDS) for name, other in pairs]
    waiting = [asyncio.to_thread(process.communicate, timeout=240) for process in processes]
    told = asyncio.gather(*waiting)
    while not told.done():
        await here.search(looking("灯塔", instance="shared"))
        await asyncio.wait([told], timeout=0.02)
    for process, (_, errors) in zip(processes, told.result(), strict=True):
        assert process.returncode == 0, errors
    state = await here.state()
    assert state.counts["turn"] == 1 + 2 * 3 * ROUNDS
    wanted = [turn("shared", n * 10 + who).event_id for n in range(1, ROUNDS + 1) for who in (1, 2, 3)]
    assert await here.missing("shared", wanted) == []
    hits = await here.search(looking("灯塔", instance="shared", limit=100))
    assert {hit.event.event_id for hit in hits} == set(wanted)
    assert sum(hit.dense_rank is not None for hit in hits) == len(wanted)


async def test_a_process_that_stays_open_sees_what_another_writes_replaces_and_resets(tmp_path: Path) -> None:
    folder = tmp_path / "event_library"
    here = open_library(folder)
    await here.write([turn("inst_1", n) for n in range(1, 11)])
    assert (await here.search(looking("lighthouse 3", instance="inst_1")))[0].event.index == 3
    await asyncio.to_thread(run, folder, "put", "inst_1", 11, 60)
    hits = await here.search(looking("lighthouse 57", instance="inst_1"))
    assert hits[0].event.index == 57
    assert hits[0].dense_rank is not None
    await here.write([turn("inst_1", 61)])
    assert (await here.state()).counts["turn"] == 61
    await here.reset()
    await asyncio.to_thread(run, folder, "put", "inst_2", 1, 5)
    assert await here.search(looking("lighthouse 3", instance="inst_1")) == []
    assert len(await here.search(looking("lighthouse 3", instance="inst_2"))) == 5


async def test_what_another_process_does_to_other_instances_costs_this_one_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "event_library"
    here = open_library(folder)
    await here.write([turn("inst_1", n) for n in range(1, 11)])
    await here.search(looking("lighthouse 3", instance="inst_1"))
    before = {thread.ident for thread in threading.enumerate()}, len(os.listdir("/proc/self/fd"))
    for first in (1, 11, 21):
        await asyncio.to_thread(run, folder, "put", "inst_2", first, first + 9)
        await here.search(looking("lighthouse 3", instance="inst_1"))
        await here.search(looking("lighthouse 3", instance="inst_2"))
    after = {thread.ident for thread in threading.enumerate()}, len(os.listdir("/proc/self/fd"))
    assert len(after[0]) <= len(before[0]) + 2
    assert after[1] <= before[1] + 15


@pytest.mark.parametrize("lines", [1, 3, 5])
async def test_a_process_killed_while_it_writes_leaves_a_usable_library(tmp_path: Path, lines: int) -> None:
    folder = tmp_path / "event_library"
    process = start(folder, "write", "inst_1", 1)
    assert process.stdout is not None
    kept = [int(process.stdout.readline()) for _ in range(lines)][-1]
    process.kill()
    process.communicate()
    here = open_library(folder)
    wanted = [turn("inst_1", n) for n in range(1, kept + 1)]
    assert await here.missing("inst_1", [one.event_id for one in wanted]) == []
    hits = await here.search(looking(f"第{kept}轮 lighthouse {kept}", instance="inst_1"))
    assert hits[0].event.index == kept
    again = [turn("inst_1", n) for n in range(1, kept + 250)]
    await here.write(again)
    assert await here.missing("inst_1", [one.event_id for one in again]) == []
    hits = await here.search(looking(f"第{kept + 9}轮 lighthouse {kept + 9}", instance="inst_1"))
    assert hits[0].event.index == kept + 9
    assert (await here.state()).status == "ready"


async def test_many_tasks_of_one_process_may_use_the_library_at_once(tmp_path: Path) -> None:
    libraries = [open_library(tmp_path / "event_library") for _ in range(2)]

    async def work(number: int) -> None:
        library = libraries[number % 2]
        await library.write([turn("inst_1", number)])
        hits = await library.search(looking(f"第{number}轮 lighthouse {number}", instance="inst_1"))
        assert hits[0].event.index == number

    await asyncio.gather(*(work(number) for number in range(1, 25)))
    assert (await libraries[0].state()).counts["turn"] == 24
