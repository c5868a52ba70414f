"""How tests answer the questions of long works, whoever is asked."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

from mcp import Client
from mcp_types import CreateMessageRequestParams, CreateMessageResult, TextContent

from personalab.dialogue import Message
from personalab.ports import ReplyChunk
from personalab.services import Services
from personalab.story.transcript import AssistantLine, Line, Metadata, UserLine, dump_line
from tests.conftest import NOW
from tests.support.mcp_server.calls import call

KINDS = ("evolved_persona", "points", "insights", "facts", "operations")


def kind_of(question: str) -> str:
    """Tell what a question asks for."""
    return next(kind for kind in KINDS if f'"{kind}"' in question)


def answer_to(question: str) -> str:
    """Answer a question as a good model would."""
    match kind_of(question):
        case "points":
            first, last = map(int, re.findall(r'"turns": \[(\d+), (\d+)\]', question)[-1])
            point = {"summary": f"第{first}轮起他们赶路。", "plot": "他们一路往北。", "turns": [first, last]}
            return json.dumps({"points": [point]})
        case "evolved_persona":
            turn = int(re.findall(r'"turns": \[(\d+)\]', question)[-1])
            change = {"change": "他开始信任对方。", "turns": [turn]}
            return json.dumps({"evolved_persona": "他如今信任同伴。", "changes": [change]})
        case "insights":
            return json.dumps({"insights": "用户很谨慎。", "confidence_score": 0.6, "operations": []})
        case "facts":
            fact = {"text": "用户要往北走。", "type": "event", "messages": [0]}
            return json.dumps({"facts": [fact]})
        case _:
            wish = {
                "op": "add",
                "type": "event",
                "text": "用户要往北走。",
                "reason": "他说的",
                "messages": [0],
            }
            return json.dumps({"operations": [wish]})


class Scribe:
    """A model that answers well, after so many answers that cannot be used; a provider's or a client's own."""

    name = "scripted:test"

    def __init__(self, bad: int = 0) -> None:
        self.asked: list[str] = []
        self.calls: list[list[str]] = []
        self._bad = bad

    def answer(self, questions: Sequence[str]) -> str:
        """Answer the last of these messages that asks for something."""
        self.asked.append(questions[-1])
        self.calls.append(list(questions))
        if self._bad:
            self._bad -= 1
            return "nothing of the kind"
        return answer_to(next(text for text in reversed(questions) if any(f'"{k}"' in text for k in KINDS)))

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Answer as a provider."""
        yield ReplyChunk(self.answer([message["content"] for message in messages]))

    async def __call__(self, context: Any, params: CreateMessageRequestParams) -> CreateMessageResult:
        """Answer as a client's model."""
        said = [
            block.text
            for message in params.messages
            for block in message.content_as_list
            if isinstance(block, TextContent)
        ]
        text = TextContent(type="text", text=self.answer(said))
        return CreateMessageResult(role="assistant", content=text, model="the client's")


async def as_host(
    client: Client, tool: str, scribe: Scribe, **arguments: Any
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Call a tool and answer until it is done; give its result and the results that asked."""
    found, rounds = await call(client, tool, **arguments), list[dict[str, Any]]()
    seen: list[str] = []
    while found.get("status") == "awaiting_answer":
        assert len(rounds) < 100
        rounds.append(found)
        seen += [message["content"] for message in found["prompt"]["messages"]]
        if found["cursor"]:
            found = await call(client, tool, **arguments, cursor=found["cursor"])
        else:
            found = await call(client, tool, **arguments, answer=scribe.answer(["".join(seen[-1:]), *seen]))
    return found, rounds


def tell_story(
    services: Services, turns: int, words: str = "我们往北走。", instance_id: str = "inst_001"
) -> None:
    """Write so many turns into a story's session, as any program might."""
    said: list[Line] = [Metadata(instance_id, "sess_001", NOW)]
    for turn in range(1, turns + 1):
        said += [UserLine(f"第{turn}句：{words}", turn, NOW), AssistantLine(f"好。{words}", turn, NOW)]
    path = services.stories.session_path(instance_id, "sess_001")
    path.write_bytes(b"".join(map(dump_line, said)))
