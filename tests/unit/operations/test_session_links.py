"""Sessions whose ``continued_from`` was edited into a loop: read once, repaired by the doctor, and playable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graph.summarize import stream_summary
from personalab.errors import UserError
from personalab.operations.doctor import examine_root
from personalab.operations.instances import read_session
from personalab.operations.learning import unlearned
from personalab.operations.reindex import reindex
from personalab.operations.summaries import undo_summary
from personalab.services import Services
from tests.support.graph.turns import say, snapshot

pytestmark = pytest.mark.anyio

LOOPS = [
    {"sess_001": "sess_001"},
    {"sess_001": "sess_002", "sess_002": "sess_001"},
    {"sess_001": "sess_003", "sess_002": "sess_001", "sess_003": "sess_002"},
    {"sess_001": "sess_002", "sess_002": "sess_001", "sess_003": "sess_002"},
    {"sess_003": "sess_003"},
]


def _link(root: Path, links: dict[str, str]) -> None:
    """Write sessions that continue each other in this way; the last one is current."""
    folder = root / "instances" / "inst_001"
    for session_id in {"sess_001", *links}:
        head = {
            "type": "metadata",
            "instance_id": "inst_001",
            "session_id": session_id,
            "created_at": "2025-10-16T10:00:00Z",
            "continued_from": links.get(session_id),
        }
        said = [
            {
                "role": role,
                "content": f"{role} in {session_id}",
                "turn": 1,
                "timestamp": "2025-10-16T10:00:00Z",
            }
            for role in ("user", "assistant")
        ]
        text = "".join(json.dumps(line) + "\n" for line in (head, *said))
        (folder / "sessions" / f"{session_id}.jsonl").write_text(text, encoding="utf-8")
    state = folder / "instance_state.json"
    fields = json.loads(state.read_bytes())
    state.write_text(json.dumps({**fields, "current_session_id": max(links)}), encoding="utf-8")


@pytest.mark.parametrize("links", LOOPS)
async def test_chain_of_sessions_ends(
    services: Services, root: Path, instance: str, links: dict[str, str]
) -> None:
    _link(root, links)
    current: str | None = max(links)
    chain: list[str] = []
    while current is not None:
        assert current not in chain
        chain.append(current)
        current = (await read_session(services, instance, session_id=current)).continued_from
    assert chain == sorted(chain, reverse=True)


@pytest.mark.parametrize("links", LOOPS)
async def test_doctor_reports_a_loop_and_repairs_it(
    services: Services, root: Path, instance: str, links: dict[str, str]
) -> None:
    _link(root, links)
    before = snapshot(root)
    report = await examine_root(services)
    assert [(found.code, found.fixable) for found in report.findings] == [("session_loop", True)]
    assert snapshot(root) == before
    fixed = await examine_root(services, fix=True)
    assert [(found.code, found.fixed) for found in fixed.findings] == [("session_loop", True)]
    assert (await examine_root(services)).findings == []
    changed = {name for name, content in snapshot(root).items() if before.get(name) != content}
    assert changed == {report.findings[0].file}


@pytest.mark.parametrize("links", LOOPS)
async def test_story_with_a_loop_goes_on(
    services: Services, root: Path, instance: str, links: dict[str, str]
) -> None:
    _link(root, links)
    rebuilt = await reindex(services)
    assert rebuilt.counts["turn"] == len({"sess_001", *links})
    await say(services, "Good evening")
    left = await unlearned(services, instance, "player")
    assert left.fresh_turns >= 2
    async for _ in stream_summary(services, {"instance_id": instance}):
        pass
    assert services.stories.instance(instance).current_session_id > max(links)


async def test_undo_of_a_session_that_continues_itself_changes_nothing(
    services: Services, root: Path, instance: str
) -> None:
    _link(root, LOOPS[0])
    before = snapshot(root)
    with pytest.raises(UserError) as refused:
        await undo_summary(services, instance)
    assert refused.value.code == "nothing_to_undo"
    assert snapshot(root) == before
