"""Operations on a story that are killed at every step, and the state that must hold afterwards."""

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

from graph.compact import stream_compact
from graph.memorize import stream_memorize
from graph.summarize import stream_summary
from graph.update_memory import stream_update
from personalab.errors import UserError
from personalab.memory.records import CONTENT_TYPES
from personalab.operations import archives
from personalab.operations.archives import ArchivePlace, archive_of
from personalab.operations.doctor import examine_root
from personalab.operations.memory import add_entry, get_memory, search_memory
from personalab.operations.personas import persona_history
from personalab.operations.reindex import reindex, session_events
from personalab.operations.summaries import undo_summary
from personalab.providers.tokens import OfflineCounter, encoding_for
from personalab.retrieval.event_store import EventStore
from personalab.services import Services, open_services
from personalab.settings import read_settings
from personalab.story.recall import RecallQuery
from personalab.story.records import CharacterState
from personalab.story.summary import next_session_id
from personalab.story.transcript import Metadata, dump_line
from personalab.testing.scripted import ScriptedModel
from tests.support.graph.turns import snapshot
from tests.support.graph.worked_example import lay_out
from tests.support.killing import STEP, Case, Cases, Scene

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
    for name in ("chromadb.api.rust", "personalab.retrieval.event_store"):
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
    draft = f"{STORY}/sessions/{next_session_id(current)}."
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
    store = EventStore(folder)
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
    await services.library.search(RecallQuery("据点", ("summary", "plot", "turn"), 5, STORY))
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


# --- what is known about a person

AGENT, PLAYER = "char_alserqi", "player"
FACTS = {"facts": [{"text": "用户想去北方", "type": "event", "messages": [0]}]}
WISHES = {
    "operations": [
        {"op": "add", "type": "event", "text": "用户想去北方", "reason": "说过", "messages": [0]},
        {"op": "replace", "target": "p1", "text": "用户是一名医生", "reason": "说过", "messages": [0]},
    ]
}
MIND = {
    "insights": "用户很坚决。",
    "confidence_score": 0.6,
    "operations": [{"op": "add", "text": "用户很坚决", "reason": "语气", "messages": [0]}],
}
EVOLVED = {"evolved_persona": "学会了等待。", "changes": [{"change": "更有耐心", "turns": [41]}]}
REQUEST = {
    "agent_id": AGENT,
    "user_id": PLAYER,
    "messages": [
        {"role": "user", "content": "我是医生，我要去北方"},
        {"role": "assistant", "content": "好。"},
    ],
}
Known = tuple[dict[str, list[str]], int, int]
"""The entries by their lists, how many changes made them, and how many conversations are kept."""


def _learning(count: int) -> list[str]:
    return [json.dumps(answer, ensure_ascii=False) for answer in (FACTS, WISHES, MIND)] * count


async def lay_out_memory(root: Path) -> None:
    """Lay out the worked example and something that is known."""
    await lay_out_story(root)
    services = opened(root)
    await add_entry(services, AGENT, PLAYER, "profile", "用户是一名护士")
    await services.memories.close()


async def known(root: Path) -> Known:
    """Read what is known; a search must work, too."""
    services = opened(root)
    memory = await get_memory(services, AGENT, PLAYER)
    await search_memory(services, "北方", AGENT, PLAYER)
    changes = await services.memories.changes(AGENT, PLAYER)
    talks = await services.memories.conversations(AGENT, PLAYER, limit=100)
    await services.memories.close()
    texts = {kind: memory.texts(kind) for kind in CONTENT_TYPES}
    return texts, len(changes), len(talks)


async def memorize(root: Path) -> None:
    """Learn from a conversation."""
    services = opened(root, *_learning(1))
    last: object = None
    async for part in stream_memorize(services, {"request": REQUEST}):
        sys.audit(STEP)
        last = part
    await services.memories.close()
    assert isinstance(last, dict)
    assert last.get("status") in ("done", "unchanged"), last


async def check_memory_between(scene: Scene) -> bool:
    """Find all that was known, or all that is known now; the conversation may be kept already."""
    texts, changes, _ = await known(scene.root)
    before, after = await known(scene.before), await known(scene.after)
    assert (texts, changes) in (before[:2], after[:2])
    await check_doctor_can_mend(opened(scene.root))
    return (texts, changes) == after[:2]


async def check_memory_done(scene: Scene) -> None:
    """Find it learned once."""
    assert await known(scene.root) == await known(scene.after)
    await check_doctor_mends(opened(scene.root))


async def update_memory(root: Path) -> None:
    """Let the character grow, and learn about the player."""
    services = opened(root, json.dumps(EVOLVED, ensure_ascii=False), *_learning(5))
    last: object = None
    async for part in stream_update(services, {"instance_id": STORY}):
        sys.audit(STEP)
        last = part
    await services.memories.close()
    assert isinstance(last, dict)
    assert last.get("status") == "done", last
    assert not last.get("warnings"), last


def _persona(root: Path) -> CharacterState:
    return opened(root).stories.character_state(STORY)


async def check_update_between(scene: Scene) -> bool:
    """Find who the character was or is now, never in between; what is known only grows towards the end."""
    check_locks_are_free(scene.root)
    now, before, after = _persona(scene.root), _persona(scene.before), _persona(scene.after)
    assert now.base_persona == before.base_persona
    assert now.fields() in (before.fields(), after.fields())
    texts, _, _ = await known(scene.root)
    assert texts in ((await known(scene.before))[0], (await known(scene.after))[0])
    done = now.fields() == after.fields()
    history = await persona_history(opened(scene.root), STORY)
    assert len(history["revisions"]) == int(done)
    await check_doctor_can_mend(opened(scene.root))
    return done


async def check_update_done(scene: Scene) -> None:
    """Find the character grown once and the player's words learned once."""
    assert _persona(scene.root).fields() == _persona(scene.after).fields()
    assert (await known(scene.root))[0] == (await known(scene.after))[0]
    assert (await known(scene.root))[2] == (await known(scene.after))[2]
    assert len((await persona_history(opened(scene.root), STORY))["revisions"]) == 1
    await check_doctor_mends(opened(scene.root))


# --- an archived conversation

TALK = ("我要去北方。", "路上小心。", "明天出发。", "好。", "谢谢。", "不客气。")
ACCOUNT = "用户明天去北方。"


def _archive(root: Path) -> ArchivePlace:
    return archive_of(opened(root))


async def lay_out_archive(root: Path) -> None:
    """Write a conversation into the archive."""
    place = _archive(root)
    session = (await archives.begin_session(place, "北行"))["session_id"]
    for message in TALK:
        await archives.append_entry(place, session, "user", message)


async def compact(root: Path) -> None:
    """Sum the conversation up."""
    session = (await archives.sessions(_archive(root)))[0]["session_id"]
    services = opened(root, json.dumps({"summary": ACCOUNT}, ensure_ascii=False))
    last: object = None
    async for part in stream_compact(services, {"session_id": session}):
        sys.audit(STEP)
        last = part
    assert isinstance(last, dict)
    assert last.get("status") == "done", last


async def _told(root: Path) -> tuple[list[str], list[int]]:
    """Read what a model sees of the conversation, and which entries a summary stands for; the file must be whole."""
    place = _archive(root)
    assert (await archives.verify(place, "en"))["healthy"]
    session = (await archives.sessions(place))[0]["session_id"]
    seen = [message["content"] for message in await archives.context(place, session)]
    return seen, [entry["is_compaction"] for entry in await archives.entries(place, session)]


async def check_compact_between(scene: Scene) -> bool:
    """Find the conversation as it was, or summed up; never in between."""
    found, after = await _told(scene.root), await _told(scene.after)
    assert found in (await _told(scene.before), after)
    await check_doctor_can_mend(opened(scene.root))
    return found == after


async def check_compact_done(scene: Scene) -> None:
    """Find it summed up once."""
    assert await _told(scene.root) == await _told(scene.after) == ([ACCOUNT, *TALK[2:]], [0, 0, 1, 1, 1, 1])
    document = json.loads(_archive(scene.root).path.read_text(encoding="utf-8"))
    folded = await archives.fold(_archive(scene.root))
    assert len(document["compacted_dialogues"]) == 1 or folded["folded"]
    await check_doctor_mends(opened(scene.root))


CASES: Cases = {
    "compact": Case(lay_out_archive, compact, check_compact_between, check_compact_done),
    "memorize": Case(lay_out_memory, memorize, check_memory_between, check_memory_done),
    "update_memory": Case(lay_out_memory, update_memory, check_update_between, check_update_done),
    "summarize": Case(lay_out_draft, summarize, check_between, check_done),
    "undo_summary": Case(lay_out_summary, undo, check_between, check_undone),
}
