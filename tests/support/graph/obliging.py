"""A model that learns whatever it is shown, for tests of memory."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence

from personalab.dialogue import Message
from personalab.ports import ReplyChunk

EVOLVED = json.dumps(
    {"evolved_persona": "学会了信任。", "changes": [{"change": "更信任玩家", "turns": [1]}]},
    ensure_ascii=False,
)


class Obliging:
    """Answers turns with a word, and every question about them with what it was shown."""

    name = "obliging"

    def __init__(self) -> None:
        self.refuses = "never said"
        self.asked: list[str] = []
        self.system: list[str] = []

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        asked = messages[-1]["content"]
        self.asked.append(asked)
        self.system.append(messages[0]["content"])
        if '"facts"' in messages[1]["content"] and self.refuses in messages[1]["content"]:
            yield ReplyChunk("抱歉，我不能回答。")
        elif '"facts"' in asked:
            first = asked.partition("[0] user: ")[2].partition("\n")[0]
            facts = [{"text": f"用户说过{first}", "type": "event", "messages": [0]}]
            yield ReplyChunk(json.dumps({"facts": facts}))
        elif '"insights"' in asked:
            yield ReplyChunk('{"insights": "用户平静。", "confidence_score": 0.5, "operations": []}')
        elif '"operations"' in asked:
            text = asked.partition("- [event] ")[2].partition(" [0]")[0]
            wish = {"op": "add", "type": "event", "text": text, "reason": "说过", "messages": [0]}
            yield ReplyChunk(json.dumps({"operations": [wish]}))
        elif '"evolved_persona"' in asked:
            grown = "学会了信任。" in asked
            yield ReplyChunk('{"evolved_persona": "学会了信任。", "changes": []}' if grown else EVOLVED)
        elif '"points"' in asked:
            points = [{"summary": "他们聊了很久。", "plot": "他们聊了很久，很多话。", "turns": [1, 2]}]
            yield ReplyChunk(json.dumps({"points": points}))
        else:
            yield ReplyChunk("好。")

    @property
    def questions(self) -> int:
        """How often it was asked about a conversation."""
        return sum('"facts"' in asked for asked in self.asked)
