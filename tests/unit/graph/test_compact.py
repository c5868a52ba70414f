"""Compaction of archives as files: their format, their names, and changes by other programs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from graph.compact import build_compact, stream_compact
from nodes.compact.state import CompactInput
from personalab.archive.veloca import Role
from personalab.dialogue import Message
from personalab.errors import PersonaLabError
from personalab.operations import archives
from personalab.operations.archives import ArchivePlace, archive_of
from personalab.ports import ReplyChunk
from personalab.services import Services
from personalab.storage.veloca import VelocaStore
from personalab.testing.scripted import ScriptedModel
from tests.support.graph.turns import Events, only, snapshot

pytestmark = pytest.mark.anyio
Answer = Callable[..., ScriptedModel]
SAID: tuple[tuple[Role, str], ...] = (
    ("user", "我要去北方，帮我看看天气。"),
    ("assistant", "北方明天下雪，零下五度。"),
    ("user", "那我后天出发，记得提醒我带手套。"),
    ("assistant", "好，后天出发，带手套。"),
    ("user", "谢谢。"),
    ("assistant", "不客气。"),
    ("user", "再见。"),
    ("assistant", "再见。"),
)
ACCOUNT = "用户后天去北方，要带手套；明天北方下雪。"


def _answer(text: str = ACCOUNT) -> str:
    return json.dumps({"summary": text}, ensure_ascii=False)


async def _compact(
    services: Services, file: Path | None = None, **given: Any
) -> tuple[Events, dict[str, Any]]:
    events: Events = []
    result: dict[str, Any] = {}
    async for part in stream_compact(services, cast("CompactInput", given), file=file):
        if "type" in part:
            events.append(dict(part))
        else:
            result = dict(part)
    return events, result


@pytest.fixture
def place(services: Services) -> ArchivePlace:
    """The archive of the data root."""
    return archive_of(services)


@pytest.fixture
async def session(place: ArchivePlace) -> str:
    """A session of eight entries."""
    made = await archives.begin_session(place, "天气")
    for role, message in SAID:
        await archives.append_entry(place, made["session_id"], role, message, tokens=3)
    return made["session_id"]


async def _seen(place: ArchivePlace, session: str) -> list[str]:
    return [message["content"] for message in await archives.context(place, session)]


async def test_a_model_sums_up_the_old_entries_and_the_last_stay(
    services: Services, place: ArchivePlace, session: str, answer_with: Answer
) -> None:
    model = answer_with(_answer())
    events, result = await _compact(services, session_id=session)
    assert (result["status"], result["entries"], result["archive"]) == ("done", 4, "veloca-storage.json")
    assert [(event["done"], event["total"]) for event in only(events, "progress")] == [(0, 1), (1, 1)]
    assert await _seen(place, session) == [ACCOUNT, *(message for _, message in SAID[4:])]
    document = json.loads(place.path.read_text(encoding="utf-8"))
    assert [entry["is_compaction"] for entry in document["entries"]] == [0] * 4 + [1] * 4
    kept = document["compacted_dialogues"][0]
    assert kept == result["dialogue"]
    assert (kept["summary"], kept["trigger_entry_id"]) == (ACCOUNT, document["entries"][4]["entry_id"])
    asked = model.calls[0][-1]["content"]
    assert all(message in asked for _, message in SAID[:4])
    assert "谢谢" not in asked


async def test_a_later_compaction_is_told_the_earlier_summary_and_an_undo_brings_all_back(
    services: Services, place: ArchivePlace, session: str, answer_with: Answer
) -> None:
    model = answer_with(_answer(), _answer("用户去北方，已道别。"))
    await _compact(services, session_id=session)
    entries = await archives.entries(place, session)
    _, result = await _compact(services, session_id=session, trigger_entry_id=entries[-1]["entry_id"])
    assert (result["status"], result["entries"]) == ("done", 3)
    assert ACCOUNT in model.calls[1][-1]["content"]
    assert await _seen(place, session) == ["用户去北方，已道别。", "再见。"]
    undone = await archives.undo_compaction(place, session)
    assert undone["entries"] == 3
    assert await _seen(place, session) == [ACCOUNT, *(message for _, message in SAID[4:])]
    await archives.undo_compaction(place, session)
    assert await _seen(place, session) == [message for _, message in SAID]


class Meanwhile:
    """A model during whose answer something happens to the archive."""

    name = "meanwhile"

    def __init__(self, happens: Callable[[], None]) -> None:
        self._happens = happens

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        self._happens()
        yield ReplyChunk(_answer())


async def test_a_compaction_or_a_change_by_someone_else_meanwhile_is_not_written_over(
    services: Services, place: ArchivePlace, session: str
) -> None:
    entries = await archives.entries(place, session)

    def compact() -> None:
        with VelocaStore(place.path) as store:
            store.compact(session, "别人的摘要", entries[2]["entry_id"])

    def edit() -> None:
        with VelocaStore(place.path) as store:
            store.update_entry(entries[2]["entry_id"], message="另一句话")

    for happens in (compact, edit):
        services.models["rehearsal"] = Meanwhile(happens)
        _, result = await _compact(services, session_id=session)
        assert (result["status"], result["error"]["code"]) == ("error", "archive_changed")
    assert (await _seen(place, session))[:2] == ["别人的摘要", "另一句话"]


async def test_on_a_servers_thread_each_call_means_only_what_it_says(
    services: Services, place: ArchivePlace, session: str, answer_with: Answer
) -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    answer_with(_answer())
    entries = await archives.entries(place, session)
    saver: Any = InMemorySaver()
    graph: Any = build_compact(services).compile(checkpointer=saver)
    thread = {"configurable": {"thread_id": "1"}}
    call = {"session_id": session, "summary": "先看看", "dry_run": True}
    shown = await graph.ainvoke({**call, "trigger_entry_id": entries[2]["entry_id"]}, thread)
    assert (shown["status"], shown["entries"]) == ("preview", 2)
    done = await graph.ainvoke({"session_id": session}, thread)
    assert (done["status"], done["entries"], done["dialogue"]["summary"]) == ("done", 4, ACCOUNT)


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd.json",
        "/tmp/x.json",
        "a/b.json",
        "..json",
        ".json",
        "x.txt",
        "",
        "con.json",
        "a\n.json",
    ],
)
async def test_a_caller_of_the_graph_names_no_paths(services: Services, root: Path, name: str) -> None:
    before = snapshot(root)
    _, result = await _compact(services, archive=name, session_id="x" * 36)
    assert result["error"]["code"] == "bad_archive_name"
    assert snapshot(root) == before


async def test_another_archive_of_the_root_is_named_and_any_file_by_code_alone(
    services: Services, root: Path, tmp_path: Path
) -> None:
    second = archive_of(services, name="second.json")
    elsewhere = archive_of(services, file=tmp_path / "mine.json")
    named: list[tuple[ArchivePlace, dict[str, Any]]] = [
        (second, {"archive": "second.json"}),
        (elsewhere, {"file": tmp_path / "mine.json"}),
    ]
    for place, given in named:
        made = await archives.begin_session(place, "天气")
        for role, message in SAID:
            await archives.append_entry(place, made["session_id"], role, message)
        _, result = await _compact(services, session_id=made["session_id"][:8], summary="短", **given)
        assert (result["status"], result["archive"]) == ("done", place.path.name)
        assert (await _seen(place, made["session_id"]))[0] == "短"
    assert not (root / "archive" / "veloca-storage.json").exists()


async def test_a_file_that_is_no_archive_is_told_and_left_alone(services: Services, root: Path) -> None:
    (root / "archive").mkdir()
    path = root / "archive" / "veloca-storage.json"
    path.write_bytes(b'{"sessions": [')
    _, result = await _compact(services, session_id="x" * 36)
    assert result["error"]["kind"] == "storage"
    with pytest.raises(PersonaLabError, match="cannot be read"):
        await archives.begin_session(archive_of(services), "neu")
    assert path.read_bytes() == b'{"sessions": ['
