"""How tests run a turn and look at what it left."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graph.chat_turn import stream_turn
from nodes.chat_turn.state import TurnInput
from personalab.dialogue import Message
from personalab.services import Services

Events = list[dict[str, Any]]


async def play(services: Services, turn: TurnInput) -> tuple[Events, dict[str, Any]]:
    """Run a turn; return its events and its result."""
    events: Events = []
    result: dict[str, Any] = {}
    async for part in stream_turn(services, turn):
        if "type" in part:
            events.append(dict(part))
        else:
            result = dict(part)
    return events, result


async def say(services: Services, text: str, instance_id: str = "inst_001") -> tuple[Events, dict[str, Any]]:
    """Say something to an instance."""
    return await play(services, {"instance_id": instance_id, "user_input": text})


def lines(services: Services, instance_id: str = "inst_001", session_id: str = "sess_001") -> Events:
    """Read a session's lines as any program would."""
    path = services.stories.session_path(instance_id, session_id)
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def plot(services: Services, instance_id: str = "inst_001") -> dict[str, Any]:
    """Read an instance's plot state."""
    return services.stories.instance(instance_id).plot_state.fields()


_REMINDER = re.compile(r"\n\n\[(?:请保持角色|Stay in character).*", re.DOTALL)


def sent_words(call: Sequence[Message]) -> list[str]:
    """Give what the messages after the system message say, without the reminder that closes the last one."""
    return [_REMINDER.sub("", message["content"]) for message in call if message["role"] != "system"]


def snapshot(folder: Path) -> dict[str, bytes]:
    """Read every file below a folder but locks."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def only(events: Events, kind: str) -> list[dict[str, Any]]:
    """Pick the events of a type."""
    return [event for event in events if event["type"] == kind]
