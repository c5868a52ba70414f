"""A whole story by a client that has no model of ours leaves the same files as the same story in the terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from mcp_server.server import build_server
from personalab.services import open_services
from personalab.settings import read_settings
from tests.conftest import PROJECT
from tests.integration.mcp_server.conftest import Mode
from tests.support.graph.turns import snapshot
from tests.support.mcp_server.calls import call

pytestmark = pytest.mark.anyio

SAID = [f"第 {n} 句话：" + "我们沿着旧铁路往北走，一路上没有人说话。" * 12 for n in range(1, 11)]
REPLIES = [
    "（点头）走吧。[PROGRESS:1:in_progress]",
    "线索就在这里。[PROGRESS:1:completed]",
    "前面有灯。",
    "别出声。",
    "我听见了。",
    "[PROGRESS:9:completed] 那不是我们的路。",
    "进去。[PROGRESS:2:in_progress]",
    "门开了。[PROGRESS:2:completed][PROGRESS:3:in_progress]",
    'He said "now".\n\t\\ \u2028 🌊',
    "就到这里。[PROGRESS:3:completed]",
]
SETTINGS = {"middle_section_warning_tokens": 1_000}
SWITCH_AFTER = 5


async def test_ten_turns_by_a_host_equal_the_terminals(tmp_path: Path, mode: Mode) -> None:
    hosted, typed = tmp_path / "hosted", tmp_path / "typed"
    warned = await _by_host(hosted, mode)
    _by_terminal(typed)
    assert _story(hosted) == _story(typed)
    lines = [json.loads(line) for line in _story(hosted)["sessions/sess_001.jsonl"].split("\n")[1:-1]]
    assert [line["turn"] for line in lines] == [n for n in range(1, 11) for _ in range(2)]
    assert [line["content"] for line in lines[1::2]] == REPLIES
    state = json.loads(_story(hosted)["instance_state.json"])
    assert state["background_id"] == "bg_lighthouse"
    assert state["plot_state"] == {
        "current_plot_index": 3,
        "current_status": "completed",
        "no_update_count": 0,
    }
    assert {"middle_section_overflow", "progress_out_of_range"} <= warned


async def _by_host(root: Path, mode: Mode) -> set[str]:
    services = open_services(read_settings({"PERSONALAB_DATA": str(root)}))
    warned: set[str] = set()
    async with Client(build_server(services), mode=mode) as client:
        await call(client, "persona_settings", changes=SETTINGS)
        begun = await call(
            client, "persona_new_instance", character_id="char_alserqi", background_id="bg_wasteland"
        )
        story: dict[str, Any] = {"instance_id": begun["instance_id"]}
        for number, (said, reply) in enumerate(zip(SAID, REPLIES, strict=True), start=1):
            if number == SWITCH_AFTER + 1:
                await call(client, "persona_switch_background", **story, background_id="bg_lighthouse")
            waiting = await call(client, "persona_begin_turn", **story, text=said)
            assert (waiting["turn"], waiting["status"]) == (number, "awaiting_reply")
            ended = await call(client, "persona_end_turn", **story, turn=number, reply=reply)
            assert (ended["turn"], ended["status"], ended["reply"]) == (number, "done", reply)
            warned |= {warning["category"] for warning in waiting["warnings"] + ended["warnings"]}
        page = await call(client, "persona_read", **story)
        assert page["entries"][1]["content"] == REPLIES[-1]
    return warned


def _by_terminal(root: Path) -> None:
    def run(*command: str, said: list[str] | None = None, replies: list[str] | None = None) -> None:
        environment = {**os.environ, "PERSONALAB_DATA": str(root)}
        if replies is not None:
            script = root.parent / "script.json"
            script.write_text(json.dumps(replies), encoding="utf-8")
            environment["PERSONALAB_MODEL"] = f"scripted:{script}"
        done = subprocess.run(
            [sys.executable, "-m", "cli", *command],
            cwd=PROJECT,
            env=environment,
            input="".join(f"{line}\n" for line in said or []),
            text=True,
            capture_output=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr

    for name, value in SETTINGS.items():
        run("settings", "set", name, str(value))
    run("new", "--character", "char_alserqi", "--background", "bg_wasteland")
    run("chat", "inst_001", said=SAID[:SWITCH_AFTER], replies=REPLIES[:SWITCH_AFTER])
    run("switch-background", "inst_001", "bg_lighthouse")
    run("chat", "inst_001", said=SAID[SWITCH_AFTER:], replies=REPLIES[SWITCH_AFTER:])


def _story(root: Path) -> dict[str, str]:
    """Read a story's files with their times left out."""
    found = snapshot(root / "instances" / "inst_001")
    return {
        name: re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "T", content.decode())
        for name, content in found.items()
    }
