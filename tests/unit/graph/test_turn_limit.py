"""A session that has reached the highest turn number takes no turn, and can be summarized to go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from graph.summarize import stream_summary
from personalab.services import Services
from personalab.story.transcript import MAX_TURN, AssistantLine, UserLine, dump_line
from tests.support.graph.turns import lines, only, say, snapshot

pytestmark = pytest.mark.anyio


async def test_turn_above_the_limit_is_refused_before_it_is_written(
    services: Services, root: Path, instance: str
) -> None:
    await say(services, "Good evening")
    path = services.stories.session_path(instance, "sess_001")
    last = (UserLine("Late", MAX_TURN, ""), AssistantLine("Very late", MAX_TURN, ""))
    path.write_bytes(path.read_bytes() + b"".join(dump_line(line) for line in last))
    before = snapshot(root)
    for _ in range(2):
        events, _ = await say(services, "One more")
        (error,) = only(events, "error")
        assert (error["code"], error["kind"]) == ("turns_used_up", "user")
        assert str(MAX_TURN) in error["message"]
    assert snapshot(root) == before
    async for _ in stream_summary(services, {"instance_id": instance}):
        pass
    await say(services, "One more")
    assert lines(services, session_id="sess_002")[-2]["content"] == "One more"
