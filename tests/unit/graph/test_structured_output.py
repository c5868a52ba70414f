"""Every step that asks a model for JSON sends the schema along, also when it asks once more."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from graph.compact import stream_compact
from graph.memorize import stream_memorize
from graph.summarize import stream_summary
from graph.update_memory import stream_update
from personalab.dialogue import AnswerSchema, Message
from personalab.operations import archives
from personalab.operations.archives import archive_of
from personalab.ports import ReplyChunk
from personalab.services import Services
from personalab.testing.in_memory import InMemoryLibrary
from personalab.testing.scripted import ScriptedModel
from tests.support.graph.worked_example import lay_out

pytestmark = pytest.mark.anyio


class SchemaRecorder(ScriptedModel):
    """A scripted model that takes schemas, and keeps them."""

    def __init__(self, *replies: object) -> None:
        super().__init__([json.dumps(reply, ensure_ascii=False) for reply in replies])
        self.schemas: list[AnswerSchema] = []

    def stream_json(self, messages: Sequence[Message], schema: AnswerSchema) -> AsyncIterator[ReplyChunk]:
        self.schemas.append(schema)
        return self.stream(messages)

    @property
    def names(self) -> list[str]:
        """The names of the schemas; every question has had one."""
        assert len(self.schemas) == len(self.calls)
        return [schema.name for schema in self.schemas]


def _use(services: Services, *replies: object) -> SchemaRecorder:
    model = SchemaRecorder(*replies)
    services.models[services.settings.model] = model
    return model


async def _result(stream: AsyncIterator[Any]) -> dict[str, Any]:
    parts = [dict(part) async for part in stream]
    return next(part for part in reversed(parts) if "type" not in part)


@pytest.fixture
def example(services: Services, root: Path) -> Services:
    """The worked example: 41 turns in sess_003."""
    lay_out(root)
    services.__dict__["library"] = InMemoryLibrary()
    return services


async def test_summarize_allows_only_the_turns_shown(example: Services) -> None:
    points = [{"summary": "他们立下约定。", "plot": "他们立下约定的经过。", "turns": [1, 41]}]
    model = _use(example, {"points": points})
    result = await _result(stream_summary(example, {"instance_id": "inst_001", "dry_run": True}))
    assert (result["status"], model.names) == ("preview", ["plot_points"])
    point = model.schemas[0].schema["properties"]["points"]["items"]
    assert point["properties"]["turns"]["items"] == {"type": "integer", "minimum": 1, "maximum": 41}


async def test_update_memory_sends_the_schema_again_with_the_repair(example: Services, root: Path) -> None:
    (root / "modules" / "memory.json").write_text('{"enabled": false}', encoding="utf-8")
    changes = [{"change": "学会了等待", "turns": [40, 41]}]
    model = _use(
        example,
        {"evolved_persona": "愿意为玩家等待时机。"},
        {"evolved_persona": "愿意为玩家等待时机。", "changes": changes},
    )
    result = await _result(stream_update(example, {"instance_id": "inst_001"}))
    assert (result["status"], model.names) == ("done", ["evolved_persona"] * 2)
    change = model.schemas[0].schema["properties"]["changes"]["items"]
    assert change["properties"]["turns"]["items"] == {"type": "integer", "minimum": 22, "maximum": 41}


async def test_memorize_sends_a_schema_with_each_of_its_three_questions(services: Services) -> None:
    basis = {"reason": "自我介绍", "messages": [0]}
    add = {"op": "add", "type": "profile", "text": "用户是医生", **basis}
    model = _use(
        services,
        {"facts": [{"text": "用户是医生", "type": "profile", "messages": [0]}]},
        {"operations": [add]},
        {"insights": "用户很平静。", "confidence_score": 0.5, "operations": []},
    )
    request = {
        "agent_id": "agent_001",
        "user_id": "user_001",
        "messages": [{"role": "user", "content": "我是一名医生"}, {"role": "assistant", "content": "你好"}],
    }
    result = await _result(stream_memorize(services, {"request": request}))
    assert (result["status"], model.names) == ("done", ["facts", "operations", "insights"])


async def test_compact_sends_the_schema_of_the_account(services: Services) -> None:
    place = archive_of(services)
    session = (await archives.begin_session(place, "天气"))["session_id"]
    for number in range(8):
        await archives.append_entry(place, session, "user", f"第{number}天要带手套。", tokens=3)
    model = _use(services, {"summary": "用户要带手套。"})
    result = await _result(stream_compact(services, {"session_id": session}))
    assert (result["status"], model.names) == ("done", ["account"])
