"""An archived conversation is compacted whole or not at all, on every adapter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import pytest

from graph.compact import build_compact, stream_compact
from nodes.compact.state import CompactInput
from personalab.archive.veloca import Role
from personalab.dialogue import Message
from personalab.ports import ReplyChunk
from personalab.services import Services
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.support.contract.archives import ArchiveWriter
from tests.support.contract.worlds import StoryWorld
from tests.support.graph.turns import Events, only

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
MESSAGES = [message for _, message in SAID]
STEPS = ("draft_summary", "store_compaction")
ACCOUNT = "用户后天去北方，要带手套；明天北方下雪。"


def _answer(text: str = ACCOUNT) -> str:
    return json.dumps({"summary": text}, ensure_ascii=False)


async def _compact(services: Services, **given: Any) -> tuple[Events, dict[str, Any]]:
    events: Events = []
    result: dict[str, Any] = {}
    async for part in stream_compact(services, cast("CompactInput", given)):
        if "type" in part:
            events.append(dict(part))
        else:
            result = dict(part)
    return events, result


@pytest.fixture
def services(world: StoryWorld) -> Services:
    """Services of one process."""
    return world.open_services()


@pytest.fixture
def archive(world: StoryWorld) -> ArchiveWriter:
    """The archive that calls mean which name none."""
    return world.archive()


@pytest.fixture
def session(archive: ArchiveWriter) -> str:
    """A session of eight entries."""
    made = archive.begin_session("天气")
    for role, message in SAID:
        archive.add_entry(made, role, message)
    return made


async def test_model_sums_up_the_old_entries_and_the_last_stay(
    services: Services, archive: ArchiveWriter, session: str, answer_with: Answer
) -> None:
    model = answer_with(_answer())
    events, result = await _compact(services, session_id=session)
    assert (result["status"], result["entries"], result["archive"]) == ("done", 4, "veloca-storage.json")
    assert [(event["done"], event["total"]) for event in only(events, "progress")] == [(0, 1), (1, 1)]
    assert result["dialogue"]["summary"] == ACCOUNT
    assert archive.context(session) == [ACCOUNT, *MESSAGES[4:]]
    asked = model.calls[0][-1]["content"]
    assert all(message in asked for message in MESSAGES[:4])
    assert "谢谢" not in asked


async def test_later_compaction_is_told_the_earlier_summary(
    services: Services, archive: ArchiveWriter, session: str, answer_with: Answer
) -> None:
    model = answer_with(_answer(), _answer("用户去北方，已道别。"))
    await _compact(services, session_id=session)
    last = archive.add_entry(session, "user", "走了。")
    _, result = await _compact(services, session_id=session[:8], trigger_entry_id=last[:8])
    assert (result["status"], result["entries"]) == ("done", 4)
    assert ACCOUNT in model.calls[1][-1]["content"]
    assert archive.context(session) == ["用户去北方，已道别。", "走了。"]


async def test_callers_own_summary_asks_no_model(
    services: Services, archive: ArchiveWriter, session: str, answer_with: Answer
) -> None:
    model = answer_with()
    events, result = await _compact(services, session_id=session, summary="In any language.")
    assert (result["status"], result["usage"], only(events, "progress")) == ("done", None, [])
    assert archive.context(session)[0] == "In any language."
    assert model.calls == []


@pytest.mark.parametrize("own", [False, True])
async def test_preview_shows_the_summary_and_writes_nothing(
    world: StoryWorld, services: Services, session: str, answer_with: Answer, own: bool
) -> None:
    answer_with(_answer())
    before = world.dump()
    given: dict[str, Any] = {"summary": ACCOUNT} if own else {}
    _, result = await _compact(services, session_id=session, dry_run=True, **given)
    assert (result["status"], result["dialogue"]["summary"], result["entries"]) == ("preview", ACCOUNT, 4)
    assert world.dump() == before


class Teller:
    """Sums up whatever piece it is shown in a sentence of its own."""

    name = "teller"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        self.asked.append(messages[-1]["content"])
        yield ReplyChunk(_answer(f"第{len(self.asked)}份记述。"))


async def test_long_conversation_is_told_in_pieces_that_know_the_account_so_far(
    world: StoryWorld, services: Services, archive: ArchiveWriter
) -> None:
    world.change_settings(max_total_tokens=10_000, conversation_load_all=False, conversation_max_tokens=1_000)
    made = archive.begin_session("长谈")
    words = [f"第{number}句：" + "我们沿着旧铁路往北走。" * 90 for number in range(6)]
    words.append("最长的一句：" + "然后又往南走。" * 700 + "完了")
    for message in [*words, *"abcd"]:
        archive.add_entry(made, "user", message)
    teller = Teller()
    services.models["rehearsal"] = teller
    events, result = await _compact(services, session_id=made)
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
    "said", [MESSAGES, ["Where are we going today?", "We go north by train.", "Fine."] * 3]
)
async def test_with_no_model_the_rehearsal_quotes_the_conversation(
    services: Services, archive: ArchiveWriter, said: list[str]
) -> None:
    made = archive.begin_session("talk")
    *_, last = [archive.add_entry(made, "user", message) for message in said]
    _, first = await _compact(services, session_id=made)
    assert first["status"] == "done", first["error"]
    assert said[0][:12] in first["dialogue"]["summary"]
    _, second = await _compact(services, session_id=made, trigger_entry_id=last)
    assert second["status"] == "done", second["error"]
    assert said[0][:12] in second["dialogue"]["summary"]
    assert second["dialogue"]["summary"].count("rehearsal") <= 1


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
async def test_unusable_answer_is_requested_once_more_and_then_refused(
    world: StoryWorld, services: Services, session: str, answer_with: Answer, bad: str
) -> None:
    before = world.dump()
    model = answer_with(bad, bad, bad, _answer())
    events, result = await _compact(services, session_id=session)
    assert result["status"] == "error"
    assert only(events, "error")[0]["code"] == "provider.bad_summary"
    assert len(model.calls) == 2
    assert world.dump() == before
    _, mended = await _compact(services, session_id=session)
    assert (mended["status"], mended["dialogue"]["summary"]) == ("done", ACCOUNT)


class Meanwhile:
    """A model during whose answer something happens to the archive."""

    name = "meanwhile"

    def __init__(self, happens: Callable[[], object]) -> None:
        self._happens = happens

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        self._happens()
        yield ReplyChunk(_answer())


async def test_entries_that_come_meanwhile_stay_as_they_are(
    services: Services, archive: ArchiveWriter, session: str
) -> None:
    services.models["rehearsal"] = Meanwhile(lambda: archive.add_entry(session, "user", "还有一件事。"))
    _, result = await _compact(services, session_id=session)
    assert result["status"] == "done"
    assert archive.context(session) == [ACCOUNT, *MESSAGES[4:], "还有一件事。"]


async def test_change_by_someone_else_meanwhile_is_not_written_over(
    services: Services, archive: ArchiveWriter, session: str
) -> None:
    late = archive.add_entry(session, "user", "明天见。")
    archive.edit_entry(late, "后天见。")
    entry = archive.add_entry(session, "user", "好。")
    services.models["rehearsal"] = Meanwhile(lambda: archive.edit_entry(late, "另一句话"))
    _, result = await _compact(services, session_id=session, trigger_entry_id=entry)
    assert (result["status"], result["error"]["code"]) == ("error", "archive_changed")
    assert archive.context(session) == [*MESSAGES, "另一句话", "好。"]


async def test_two_at_once_write_one_summary(
    world: StoryWorld, services: Services, archive: ArchiveWriter, session: str, answer_with: Answer
) -> None:
    answer_with(_answer(), _answer("用户要去北方。"))
    results = await asyncio.gather(*(_compact(services, session_id=session) for _ in range(2)))
    assert sorted(result["status"] for _, result in results) == ["done", "error"]
    assert len(archive.context(session)) == 5


@pytest.mark.parametrize("step", STEPS)
async def test_paused_run_continues_where_it_was(
    services: Services, archive: ArchiveWriter, session: str, answer_with: Answer, step: str
) -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    answer_with(_answer())
    saver: Any = InMemorySaver()
    graph: Any = build_compact(services).compile(interrupt_before=[step], checkpointer=saver)
    thread = {"configurable": {"thread_id": "1"}}
    await graph.ainvoke({"session_id": session}, thread)
    assert archive.context(session) == MESSAGES
    result = await graph.ainvoke(None, thread)
    assert result["status"] == "done"
    assert archive.context(session)[0] == ACCOUNT


@pytest.mark.parametrize("operation", ["material", "compact"])
async def test_failed_operation_leaves_the_conversation_as_it_was(
    world: StoryWorld, services: Services, session: str, answer_with: Answer, operation: str
) -> None:
    answer_with(_answer(), _answer())
    before = world.dump()
    if world.fail(operation):
        _, result = await _compact(services, session_id=session)
        assert (result["status"], result["error"]["code"]) == ("error", "disk_full")
        assert world.dump() == before
    _, result = await _compact(services, session_id=session)
    assert result["status"] == "done"


async def test_cancelled_compaction_changes_nothing(
    world: StoryWorld, services: Services, session: str, answer_with: Answer
) -> None:
    model = answer_with(ScriptedReply(("{",) * 9, hang=True))
    before = world.dump()
    running = asyncio.create_task(_compact(services, session_id=session))
    while not model.calls:
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert world.dump() == before


async def test_another_archive_is_compacted_by_its_name(
    world: StoryWorld, services: Services, archive: ArchiveWriter, session: str
) -> None:
    other = world.archive("second.json")
    made = other.begin_session("天气")
    for role, message in SAID:
        other.add_entry(made, role, message)
    _, result = await _compact(services, archive="second.json", session_id=made[:8], summary="短")
    assert (result["status"], result["archive"]) == ("done", "second.json")
    assert other.context(made)[0] == "短"
    assert archive.context(session) == MESSAGES


async def test_calls_that_cannot_be_done_are_refused_and_leave_nothing(
    world: StoryWorld, services: Services, archive: ArchiveWriter, session: str
) -> None:
    short = archive.begin_session("短")
    first = archive.add_entry(short, "user", "只有一句。")
    before = world.dump()
    refusals: list[tuple[dict[str, Any], str]] = [
        ({"session_id": short}, "archive_nothing_to_compact"),
        ({"session_id": "0" * 36}, "no_archive_session"),
        ({}, "no_archive_session"),
        ({"session_id": session, "summary": "  "}, "field_missing"),
        ({"session_id": session, "trigger_entry_id": "0" * 36}, "no_archive_entry"),
        ({"session_id": short, "trigger_entry_id": first}, "archive_nothing_to_compact"),
        ({"session_id": session, "trigger_entry_id": first}, "archive_trigger_other"),
        ({"session_id": session, "archive": "none.json"}, "no_archive"),
        ({"session_id": session, "archive": "../x.json"}, "bad_archive_name"),
        ({"session_id": session, "archive": ["x.json"]}, "bad_archive_name"),
        ({"session_id": 5}, "field_wrong"),
        ({"session_id": session, "trigger_entry_id": {}}, "field_wrong"),
        ({"session_id": session, "summary": ["x"]}, "field_wrong"),
    ]
    for call, code in refusals:
        _, result = await _compact(services, **call)
        assert (result["status"], result["error"]["code"]) == ("error", code)
    assert world.dump() == before
