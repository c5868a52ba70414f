"""An archived conversation is compacted whole or not at all, whoever writes its summary."""

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
from personalab.providers.scripted import ScriptedModel
from personalab.services import Services
from personalab.storage.veloca import VelocaStore
from tests.graph.turns import Events, only, snapshot

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
STEPS = ("draft_summary", "store_compaction")
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


# --- it works


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


async def test_the_callers_own_summary_asks_no_model(
    services: Services, place: ArchivePlace, session: str, answer_with: Answer
) -> None:
    model = answer_with()
    events, result = await _compact(
        services, session_id=session, summary="In any language, as long as I like."
    )
    assert (result["status"], result["usage"], only(events, "progress")) == ("done", None, [])
    assert (await _seen(place, session))[0] == "In any language, as long as I like."
    assert model.calls == []


@pytest.mark.parametrize("own", [False, True])
async def test_a_preview_shows_the_summary_and_writes_nothing(
    services: Services, root: Path, session: str, answer_with: Answer, own: bool
) -> None:
    answer_with(_answer())
    before = snapshot(root)
    given: dict[str, Any] = {"summary": ACCOUNT} if own else {}
    _, result = await _compact(services, session_id=session, dry_run=True, **given)
    assert (result["status"], result["dialogue"]["summary"], result["entries"]) == ("preview", ACCOUNT, 4)
    assert snapshot(root) == before


class Teller:
    """Sums up whatever piece it is shown in a sentence of its own."""

    name = "teller"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        self.asked.append(messages[-1]["content"])
        yield ReplyChunk(_answer(f"第{len(self.asked)}份记述。"))


async def test_a_long_conversation_is_told_in_pieces_that_know_the_account_so_far(
    services: Services, place: ArchivePlace
) -> None:
    services.preferences.change({"max_total_tokens": 10_000, "conversation_load_all": False})
    services.preferences.change({"conversation_max_tokens": 1_000})
    made = await archives.begin_session(place, "长谈")
    words = [f"第{number}句：" + "我们沿着旧铁路往北走。" * 90 for number in range(6)]
    words.append("最长的一句：" + "然后又往南走。" * 700 + "完了")
    with VelocaStore(place.path) as store:
        for message in [*words, *"abcd"]:
            store.create_entry(made["session_id"], "user", message)
    teller = Teller()
    services.models["rehearsal"] = teller
    events, result = await _compact(services, session_id=made["session_id"])
    assert (result["status"], result["entries"]) == ("done", 7)
    total = len(teller.asked)
    assert total > 2
    assert [event["done"] for event in only(events, "progress")] == list(range(total + 1))
    for number, asked in enumerate(teller.asked[1:], start=1):
        assert f"第{number}份记述。" in asked
    assert result["dialogue"]["summary"] == f"第{total}份记述。"
    whole = "".join(teller.asked)
    assert all(f"第{number}句" in whole for number in range(6))
    assert whole.count("然后又往南走") >= 698  # a cut may fall inside one
    assert "完了" in whole


@pytest.mark.parametrize(
    "said",
    [[message for _, message in SAID], ["Where are we going today?", "We go north by train.", "Fine."] * 3],
)
async def test_with_no_model_the_rehearsal_quotes_the_conversation(
    services: Services, place: ArchivePlace, said: list[str]
) -> None:
    made = await archives.begin_session(place, "talk")
    for message in said:
        await archives.append_entry(place, made["session_id"], "user", message)
    _, first = await _compact(services, session_id=made["session_id"])
    assert first["status"] == "done", first["error"]
    assert said[0][:12] in first["dialogue"]["summary"]
    last = (await archives.entries(place, made["session_id"]))[-1]["entry_id"]
    _, second = await _compact(services, session_id=made["session_id"], trigger_entry_id=last)
    assert second["status"] == "done", second["error"]
    assert said[0][:12] in second["dialogue"]["summary"]
    assert second["dialogue"]["summary"].count("rehearsal") <= 1


# --- what goes wrong


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "抱歉，我不能做这件事。",
        '{"summary": ""}',
        '{"summary": "用户要去',
        _answer("对不起，我无法总结。"),
        _answer("The user wants to go north."),
        _answer("用户" * 4_000),
    ],
)
async def test_an_answer_that_cannot_be_used_is_asked_for_once_more_and_then_refused(
    services: Services, root: Path, session: str, answer_with: Answer, bad: str
) -> None:
    before = snapshot(root)
    model = answer_with(bad, bad, bad, _answer())
    events, result = await _compact(services, session_id=session)
    assert result["status"] == "error"
    assert only(events, "error")[0]["code"] == "provider.bad_summary"
    assert len(model.calls) == 2
    assert snapshot(root) == before
    _, mended = await _compact(services, session_id=session)
    assert (mended["status"], mended["dialogue"]["summary"]) == ("done", ACCOUNT)


class Meanwhile:
    """A model during whose answer something happens to the archive."""

    name = "meanwhile"

    def __init__(self, happens: Callable[[], None]) -> None:
        self._happens = happens

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        self._happens()
        yield ReplyChunk(_answer())


async def test_entries_that_come_meanwhile_stay_as_they_are(
    services: Services, place: ArchivePlace, session: str
) -> None:
    def append() -> None:
        with VelocaStore(place.path) as store:
            store.create_entry(session, "user", "还有一件事。")

    services.models["rehearsal"] = Meanwhile(append)
    _, result = await _compact(services, session_id=session)
    assert result["status"] == "done"
    assert await _seen(place, session) == [ACCOUNT, *(message for _, message in SAID[4:]), "还有一件事。"]


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


@pytest.mark.parametrize("step", STEPS)
async def test_a_run_paused_before_any_step_goes_on_where_it_was(
    services: Services, place: ArchivePlace, session: str, answer_with: Answer, step: str
) -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    answer_with(_answer())
    saver: Any = InMemorySaver()
    graph: Any = build_compact(services).compile(interrupt_before=[step], checkpointer=saver)
    thread = {"configurable": {"thread_id": "1"}}
    await graph.ainvoke({"session_id": session}, thread)
    assert await _seen(place, session) == [message for _, message in SAID]
    result = await graph.ainvoke(None, thread)
    assert result["status"] == "done"
    assert (await _seen(place, session))[0] == ACCOUNT


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


# --- what may be named


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


async def test_what_cannot_be_compacted_is_told_and_leaves_nothing_behind(
    services: Services, root: Path, place: ArchivePlace, session: str
) -> None:
    short = (await archives.begin_session(place, "短"))["session_id"]
    entries = await archives.entries(place, session)
    before = snapshot(root)
    refusals: list[tuple[dict[str, Any], str]] = [
        ({"session_id": short}, "archive_nothing_to_compact"),
        ({"session_id": "0" * 36}, "no_archive_session"),
        ({}, "no_archive_session"),
        ({"session_id": session, "summary": "  "}, "field_missing"),
        ({"session_id": session, "trigger_entry_id": "0" * 36}, "no_archive_entry"),
        ({"session_id": session, "trigger_entry_id": entries[0]["entry_id"]}, "archive_nothing_to_compact"),
        ({"session_id": short, "trigger_entry_id": entries[3]["entry_id"]}, "archive_trigger_other"),
        ({"session_id": session, "archive": "none.json"}, "no_archive"),
        ({"session_id": session, "archive": ["x.json"]}, "bad_archive_name"),
        ({"session_id": 5}, "field_wrong"),
        ({"session_id": session, "trigger_entry_id": {}}, "field_wrong"),
        ({"session_id": session, "summary": ["x"]}, "field_wrong"),
    ]
    for call, code in refusals:
        _, result = await _compact(services, **call)
        assert (result["status"], result["error"]["code"]) == ("error", code)
    assert snapshot(root) == before


async def test_a_file_that_is_no_archive_is_told_and_left_alone(services: Services, root: Path) -> None:
    (root / "archive").mkdir()
    path = root / "archive" / "veloca-storage.json"
    path.write_bytes(b'{"sessions": [')
    _, result = await _compact(services, session_id="x" * 36)
    assert result["error"]["kind"] == "storage"
    with pytest.raises(PersonaLabError, match="cannot be read"):
        await archives.begin_session(archive_of(services), "neu")
    assert path.read_bytes() == b'{"sessions": ['
