"""Which work on a story may die at any step, and what must hold then?"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from graph.summarize import stream_summary
from personalab.errors import UserError
from personalab.operations.doctor import examine_root
from personalab.operations.reindex import reindex, session_events
from personalab.operations.summaries import undo_summary
from personalab.providers.scripted import ScriptedModel
from personalab.providers.tokens import OfflineCounter, encoding_for
from personalab.retrieval.store import Store
from personalab.services import Services, open_services
from personalab.settings import read_settings
from personalab.story.lines import Metadata, dump_line
from personalab.story.recall import Search
from tests.graph.turns import snapshot
from tests.graph.worked_example import lay_out
from tests.killing import STEP, Case, Cases, Scene

NOW = "2025-10-16T10:30:00Z"
STORY = "inst_001"
STATE = f"{STORY}/instance_state.json"
POINTS = (("他们立下约定", 1, 12), ("他们潜入了据点", 13, 38), ("他们发现了 Victor", 39, 41))
_PASSING = re.compile(r"\.tmp$|\.aside\d+$")
Events = dict[str, str]


# --- what any case needs


@cache
def counter() -> OfflineCounter:
    """Read the vocabulary of the model that answers."""
    made = OfflineCounter(encoding_for("rehearsal"))
    made.count("")
    return made


def warm() -> None:
    """Import and read what takes long; no library is opened, for that starts threads."""
    for name in ("chromadb.api.rust", "langchain_chroma", "personalab.retrieval.shelves"):
        importlib.import_module(name)
    counter()


def opened(root: Path, *replies: str) -> Services:
    """Open a data root; time stands still, and a scripted model answers."""
    services = open_services(read_settings({"PERSONALAB_DATA": str(root), "PERSONALAB_BUSY_SECONDS": "1"}))
    services.now = lambda: NOW
    services.counters[counter().encoding] = counter()
    services.models["rehearsal"] = ScriptedModel(replies)
    return services


def check_locks_are_free(root: Path) -> None:
    """Take every lock of a data root, as the next writer will."""
    for path in (path for path in root.rglob("*") if path.name in (".lock", "lock")):
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(fd)


async def check_doctor_can_mend(services: Services) -> None:
    """Let the doctor look: what is not only a note can be mended."""
    found = (await examine_root(services)).findings
    assert all(finding.fixable or finding.level == "note" for finding in found), found


async def check_doctor_mends(services: Services) -> None:
    """Let the doctor mend all there is; drafts of files that nobody finished are made old for it."""
    for draft in services.settings.data_root.rglob("*.tmp"):
        os.utime(draft, (0, 0))
    report = await examine_root(services, fix=True)
    assert report.healthy, report.findings
    assert (await examine_root(services)).findings == []


# --- a story


def files(root: Path) -> dict[str, bytes]:
    """Read the files of all stories, but locks."""
    return snapshot(root / "instances")


def standing(root: Path) -> dict[str, bytes]:
    """Read the files of the story that count: not set aside, not unfinished, and no draft of a session to come."""
    services = opened(root)
    current = services.stories.instance(STORY).current_session_id
    draft = f"{STORY}/sessions/{services.summaries.next_session_id(current)}."
    return {
        name: content
        for name, content in files(root).items()
        if not _PASSING.search(name) and not name.startswith(draft)
    }


def indexed(root: Path) -> Events:
    """Read what the library holds."""
    folder = root / "event_library" / "chroma_db"
    if not folder.exists():
        return {}
    store = Store(folder)
    try:
        return {event.event_id: event.text for name in store.counts() for event in store.read(name)}
    finally:
        store.close()


def derived(root: Path) -> Events:
    """Collect what a rebuilt library would hold."""
    services = opened(root)
    state = services.stories.instance(STORY)
    sessions = services.stories.session_ids(STORY)
    return {
        event.event_id: event.text
        for session in sessions
        for event in session_events(services, state, session)
    }


async def check_between(scene: Scene) -> bool:
    """Find the old story with nothing lost, or the new one, whole; it can be read and written."""
    check_locks_are_free(scene.root)
    services = opened(scene.root)
    await check_doctor_can_mend(services)
    await services.library.search(Search("据点", ("summary", "plot", "turn"), 5, STORY))
    before, after, now = standing(scene.before), standing(scene.after), files(scene.root)
    lost = set(files(scene.before).values()) - set(now.values())
    done = now[STATE] == after[STATE]
    assert lost <= ({before[STATE]} if done else set())
    assert standing(scene.root) == (after if done else before)
    assert derived(scene.root) == derived(scene.after if done else scene.before)
    return done


async def check_done(scene: Scene) -> None:
    """Find the new story once, in its files and in the library, and a doctor who has nothing left to mend."""
    services = opened(scene.root, "好。")
    assert standing(scene.root) == standing(scene.after)
    known = {*files(scene.before).values(), *files(scene.after).values()}
    assert {content for name, content in files(scene.root).items() if ".aside" in name} <= known
    assert indexed(scene.root) == indexed(scene.after)
    await check_doctor_mends(services)


# --- summaries


def _answer() -> str:
    told = [
        {"summary": f"{text}。", "plot": f"{text}的详细经过。", "turns": [first, last]}
        for text, first, last in POINTS
    ]
    return json.dumps({"points": told}, ensure_ascii=False)


async def summarize(root: Path) -> None:
    """Summarise the worked example's session."""
    last: object = None
    async for part in stream_summary(opened(root, _answer()), {"instance_id": STORY}):
        sys.audit(STEP)
        last = part
    assert isinstance(last, dict)
    assert last.get("status") == "done", last


async def lay_out_story(root: Path) -> None:
    """Lay out the worked example."""
    opened(root)
    lay_out(root)


async def lay_out_draft(root: Path) -> None:
    """Lay out the worked example with what an earlier try left; nothing is indexed yet."""
    await lay_out_story(root)
    sessions = root / "instances" / STORY / "sessions"
    draft = Metadata(STORY, "sess_004", NOW, "sess_003")
    (sessions / "sess_004.jsonl").write_bytes(dump_line(draft))
    (sessions / "sess_004.plots.json").write_bytes(b'{"points": []}\n')


async def lay_out_summary(root: Path) -> None:
    """Lay out the worked example after its summary."""
    await lay_out_story(root)
    await reindex(opened(root))
    await summarize(root)


async def undo(root: Path) -> None:
    """Take the summary back."""
    await undo_summary(opened(root), STORY)


async def check_undone(scene: Scene) -> None:
    """Find the summary undone, once: there is no other to undo."""
    await check_done(scene)
    with pytest.raises(UserError) as raised:
        await undo(scene.root)
    assert raised.value.code == "nothing_to_undo"


CASES: Cases = {
    "summarize": Case(lay_out_draft, summarize, check_between, check_done),
    "undo_summary": Case(lay_out_summary, undo, check_between, check_undone),
}
