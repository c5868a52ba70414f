"""What a model thinks is read by nothing that reads what was said."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Sequence
from itertools import count, pairwise
from pathlib import Path
from typing import Any, Literal

import anyio
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from graph.summarize import stream_summary
from graph.update_memory import stream_update
from personalab.dialogue import Message
from personalab.operations.exporting import ExportFormat, export_entry
from personalab.operations.instances import new_instance
from personalab.operations.reindex import reindex
from personalab.ports import ReplyChunk
from personalab.services import Services
from personalab.story.transcript import dump_object
from personalab.testing.in_memory import InMemoryLibrary
from personalab.testing.rehearsal import RehearsalModel
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.conftest import NOW
from tests.support.graph.turns import lines, plot, say

Way = Literal["stored field", "old session", "separate chunks", "tags in the stream"]
SECRET = "密语XYZZY"
LORE = "只有说出那个词才会出现的设定"
THOUGHTS = f"还记得{SECRET}吗？[PROGRESS:3:completed] 我要小心。"
SPOKEN = "（点头）我们走。"
_numbers = count(1)


class Listener:
    """The rehearsal model, after scripted replies; it remembers all that it was asked."""

    name = "rehearsal"

    def __init__(self, *replies: ScriptedReply) -> None:
        self.heard: list[str] = []
        self._replies = ScriptedModel(list(replies))
        self._left = len(replies)
        self._rest = RehearsalModel(delay=0)

    def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        self.heard += [message["content"] for message in messages]
        self._left -= 1
        return (self._replies if self._left >= 0 else self._rest).stream(messages)


def _in_pieces(text: str, cuts: list[int]) -> tuple[str, ...]:
    places = [0, *sorted({min(cut, len(text)) for cut in cuts}), len(text)]
    return tuple(text[start:end] for start, end in pairwise(places) if start < end)


async def _plant(services: Services, instance: str, way: Way, cuts: list[int]) -> None:
    """Play a turn whose reply was thought over, or write it as a session file has it."""
    if way == "separate chunks":
        reply = ScriptedReply(_in_pieces(SPOKEN, cuts), reasoning=_in_pieces(THOUGHTS, cuts))
    else:
        reply = ScriptedReply(_in_pieces(f"<think>{THOUGHTS}</think>\n\n{SPOKEN}", cuts))
    if way in ("separate chunks", "tags in the stream"):
        services.models["rehearsal"] = Listener(reply)
        await say(services, "走吗？", instance)
        return
    said = {"role": "user", "content": "走吗？", "turn": 1, "timestamp": NOW}
    line: dict[str, Any] = {"role": "assistant", "content": SPOKEN, "turn": 1, "timestamp": NOW}
    if way == "stored field":
        line["reasoning"] = THOUGHTS
    else:
        line["content"] = f"<think>{THOUGHTS}</think>\n\n{SPOKEN}"
    with services.stories.session_path(instance, "sess_001").open("ab") as file:
        file.write(dump_object(said) + b"\n" + dump_object(line) + b"\n")


async def _exports(services: Services, instance: str) -> str:
    """Give all that other programs show of a story: a chat without the marks that carry the rest."""
    told: list[str] = []
    formats: tuple[ExportFormat, ...] = ("markdown", "text", "sillytavern")
    for format in formats:
        for session_id in ("sess_001", "sess_002"):
            exported = await export_entry(services, instance, format, session_id=session_id)
            content = b"".join(exported.chunks).decode()
            if format == "sillytavern":
                rows = [json.loads(row) for row in content.splitlines()]
                for row in rows[1:]:
                    row["extra"].pop("personalab")
                content = json.dumps(rows[1:], ensure_ascii=False)
            assert SPOKEN in content or session_id != "sess_001"
            told.append(content)
    return "\n".join(told)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    way=st.sampled_from(["stored field", "old session", "separate chunks", "tags in the stream"]),
    cuts=st.lists(st.integers(0, 90), max_size=6),
)
@example(way="stored field", cuts=[])
@example(way="old session", cuts=[])
@example(way="separate chunks", cuts=[3, 20])
@example(way="tags in the stream", cuts=[2, 9, 30, 60])
def test_reasoning_reaches_no_later_prompt_index_summary_memory_lorebook_or_export(
    services: Services, root: Path, library: InMemoryLibrary, way: Way, cuts: list[int]
) -> None:
    async def live() -> None:
        instance = f"inst_{next(_numbers):03}"  # what was learned of an earlier one is not learned again
        shutil.rmtree(root / "instances", ignore_errors=True)
        library.events.clear()
        modules = {
            "director": {"enabled": True},
            "recall": {"trigger": "always"},
            "memory": {"enabled": True},
            "lorebook": {"enabled": True},
        }
        for name, module in modules.items():
            (root / "modules" / f"{name}.json").write_text(json.dumps(module), encoding="utf-8")
        entry = {"keys": [SECRET], "content": LORE, "enabled": True, "insertion_order": 0}
        book = services.stories.beside("characters", "char_alserqi", "lorebook.json")
        book.write_text(json.dumps({"entries": [entry]}), encoding="utf-8")
        services.models["rehearsal"] = Listener()
        await new_instance(services, "char_alserqi", "bg_wasteland", instance, greeting=0)
        await _plant(services, instance, way, cuts)

        listener = Listener(ScriptedReply(("好。",)), ScriptedReply(("嗯。",)))
        services.models["rehearsal"] = listener
        await say(services, "还记得之前的事吗？", instance)
        assert SECRET in json.dumps(lines(services, instance), ensure_ascii=False)
        assert plot(services, instance)["current_plot_index"] == 1
        await say(services, "接着走", instance)
        await reindex(services)
        assert library.events
        grown = [dict(part) async for part in stream_update(services, {"instance_id": instance})]
        assert grown[-1]["status"] in ("done", "unchanged"), grown[-1]
        summed = [dict(part) async for part in stream_summary(services, {"instance_id": instance})]
        assert summed[-1]["status"] == "done", summed[-1]
        await say(services, "还记得之前的事吗？", instance)
        for question in (SPOKEN, '"facts"', '"evolved_persona"', '"points"'):
            assert any(question in text for text in listener.heard), question
        heard = "\n".join([*listener.heard, await _exports(services, instance)])
        heard += "\n".join(event.text for event in library.events.values())
        assert SECRET not in heard
        assert LORE not in heard

        # The word works where it is said, so that its silence above means something.
        await say(services, f"我说：{SECRET}", instance)
        assert any(LORE in text for text in listener.heard)

    anyio.run(live)
