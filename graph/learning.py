"""How does a character learn from the turns of a story that it has not learned from yet?"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from graph.memorize import stream_memorize
from personalab.operations.learning import unlearned
from personalab.services import Services

Tell = Callable[[int, int], None]
"""Told how many conversations are done, and how many there are."""


@dataclass(slots=True)
class Learned:
    """What came of it."""

    turns: int = 0
    steps: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    dropped: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    conversations: list[str] = field(default_factory=list[str])
    left_out: int = 0
    error: dict[str, Any] | None = None

    def fields(self) -> dict[str, Any]:
        """Give its JSON object."""
        return {
            "turns": self.turns,
            "steps": self.steps,
            "dropped": self.dropped,
            "conversations": self.conversations,
            "left_out": self.left_out,
            "error": self.error,
        }


async def learn_story(
    services: Services, instance_id: str, *, model: str | None, tell: Tell = lambda done, total: None
) -> Learned:
    """Save the turns since the last time as conversations and learn from each, until one fails."""
    preferences = services.preferences.read()
    found = await unlearned(services, instance_id, preferences.memory.user_id)
    learned = Learned(left_out=found.left_out)
    for done, conversation in enumerate(found.conversations):
        tell(done, len(found.conversations))
        saved = await services.memories.save_conversation(conversation)
        call = stream_memorize(services, {"conversation_id": saved.conversation_id}, model=model)
        async with aclosing(call) as stream:
            async for part in stream:
                if "type" in part:
                    continue
                learned.steps += part.get("steps", [])
                learned.dropped += part.get("dropped", [])
                learned.error = part.get("error")
        learned.conversations.append(saved.conversation_id)
        if learned.error:
            break
        learned.turns += len(conversation.messages) // 2
    tell(len(learned.conversations), len(found.conversations))
    return learned
