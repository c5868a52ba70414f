"""What tests of the lab's tools share: skills, cases, models that cost nothing, and who answers for a host."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator, Sequence
from typing import Any

from mcp import Client

from mcp_server.server import PersonaServer, build_server
from personalab.dialogue import Message
from personalab.lab.records import DIMENSIONS
from personalab.ports import ReplyChunk
from personalab.services import Services
from personalab.testing.rehearsal import RehearsalModel
from tests.support.mcp_server.calls import call
from tests.support.mcp_server.scribes import Scribe

LAB = [
    "skill_list",
    "skill_get",
    "skill_save",
    "skill_tag",
    "baseline_list",
    "baseline_get",
    "baseline_save",
    "project_create",
    "project_run",
    "project_status",
    "project_report",
    "analysis_run",
    "skill_recompose",
    "iteration_start",
    "iteration_stop",
    "leaderboard_query",
]
"""The toolset lab, in its order."""
BRIEF = "Answer in one short sentence.\n\nName the number that was asked for."
LONG = "Explain at length.\n\nSay why the number matters.\n\nEnd with a question."
PAID = "paid:model"
"""A model that nothing here knows to be free."""


def lab_server(services: Services) -> PersonaServer:
    """Build a server with the lab alone over an empty workspace; its stand-in makes no pauses."""
    services.preferences.change({"language": "en"})
    services.models["rehearsal"] = RehearsalModel(delay=0)
    shutil.rmtree(services.settings.data_root / "workspace", ignore_errors=True)
    return build_server(services, ["lab"])


def a_case(number: int) -> dict[str, str]:
    """Make a case."""
    return {
        "name": f"Number {number}",
        "input": f"Please say the number {number} aloud and explain it.",
        "expected_output": f"It says the number {number} aloud and explains it.",
    }


async def save_skill(client: Client, name: str, content: str) -> str:
    """Keep a skill; give its id."""
    made = await call(client, "skill_save", name=name, content=content, purpose="talk")
    return made["saved"][0]["id"]


async def make_project(client: Client, *, cases: int = 3, **more: Any) -> str:
    """Keep two skills and a baseline, and make a project of them; give its folder's name."""
    skills = [await save_skill(client, "brief", BRIEF), await save_skill(client, "long", LONG)]
    rows = [a_case(number) for number in range(1, cases + 1)]
    baseline = await call(client, "baseline_save", name="numbers", purpose="talk", cases=rows)
    made = await call(
        client,
        "project_create",
        name="First look",
        skill_ids=skills,
        baseline_ids=[baseline["id"]],
        **{"model": "rehearsal", **more},
    )
    return made["project"]


class Held:
    """The stand-in under the name of a paid model, which answers nobody before it may."""

    name = PAID

    def __init__(self, *, held: bool = True) -> None:
        self.go_on = asyncio.Event()
        self.asked = asyncio.Event()
        self.calls = 0
        self.pace = 0.0
        """What an answer takes, once it may come."""
        self._model = RehearsalModel(delay=0)
        if not held:
            self.go_on.set()

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Wait, then answer by rule."""
        self.calls += 1
        self.asked.set()
        await self.go_on.wait()
        await asyncio.sleep(self.pace)
        async for chunk in self._model.stream(messages):
            yield chunk


class Blind:
    """A judge to whom everything is the same."""

    name = PAID

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Give every answer the same score."""
        yield ReplyChunk(json.dumps({name: {"score": 5, "reason": "as ever"} for name in DIMENSIONS}))


class LabScribe(Scribe):
    """Does the lab's small works by what it is asked, after so many answers that cannot be used."""

    def __init__(self, bad: int = 0, quote: str = "Answer in one short sentence.") -> None:
        super().__init__(bad)
        self.quote = quote

    def answer(self, questions: Sequence[str]) -> str:
        """Answer by what the question speaks of."""
        self.asked.append(questions[-1])
        if self._bad:
            self._bad -= 1
            return "nothing of the kind"
        whole = "\n".join(questions)
        if "Tags it has" in whole:
            return json.dumps({"tags": ["numbers", "short"]})
        if "Count: " in whole:
            case = {"name": "Zero", "input": "Say 0.", "expected_output": "It says 0."}
            return json.dumps({"standard": [{**case, "description": "the least"}]})
        if "seg_001" in whole:
            return json.dumps({"content": f"{self.quote}\n\nBe kind."})
        before = whole.partition(self.quote)[0]
        letters = re.findall(r"Skill ?([A-Z])", before)
        line = int(re.findall(r"^\[(\d+)\] ", before, re.MULTILINE)[-1])
        segment = {
            "skill": letters[-1],
            "first": line,
            "last": line,
            "type": "instruction",
            "reason": "it is short",
        }
        issue = {"skill": letters[-1], "dimension": "conciseness", "description": "too long"}
        found = {"segments": [{**segment, "dimension": "conciseness"}], "issues": [issue]}
        return json.dumps(found)
