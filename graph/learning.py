"""Learning from the turns of a story that its character has not learned from yet."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from graph.memorize import stream_memorize
from nodes.memorize import UNUSABLE, MemorizeInput
from nodes.structured_output import ReportProgress
from personalab.operations.learning import unlearned
from personalab.services import Services


@dataclass(slots=True)
class LearningResult:
    """What came of it."""

    turns: int = 0
    steps: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    dropped: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    conversations: list[str] = field(default_factory=list[str])
    left_out: int = 0
    error: dict[str, Any] | None = None

    def fields(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {
            "turns": self.turns,
            "steps": self.steps,
            "dropped": self.dropped,
            "conversations": self.conversations,
            "left_out": self.left_out,
            "error": self.error,
        }


async def learn_story(
    services: Services,
    instance_id: str,
    *,
    model: str | None,
    report_progress: ReportProgress = lambda done, total: None,
    stop_asked: Callable[[], bool] | None = None,
) -> LearningResult:
    """Save the turns since the last time as conversations and learn from each, one learner at a time.

    A conversation that no answer fits does not hold up the others; any other failure ends it.
    """
    ports = services.story_ports
    preferences = await ports.settings.preferences()
    learned = LearningResult()
    async with ports.learning.hold(instance_id, wait=services.settings.busy_seconds):
        found = await unlearned(services, instance_id, preferences.memory.user_id)
        learned.left_out = found.left_out
        total = len(found.conversations)
        for done, conversation in enumerate(found.conversations):
            report_progress(done, total)
            saved = await services.memories.save_conversation(conversation)
            error = await _learn(services, saved.conversation_id, model, stop_asked, learned)
            if error is None:
                learned.turns += len(conversation.messages) // 2
            elif error["code"] != UNUSABLE:
                break
        report_progress(len(learned.conversations), total)
    return learned


async def _learn(
    services: Services,
    conversation_id: str,
    model: str | None,
    stop_asked: Callable[[], bool] | None,
    learned: LearningResult,
) -> dict[str, Any] | None:
    """Learn from one conversation and note what came of it; return its error, if it has one."""
    error: dict[str, Any] | None = None
    named: MemorizeInput = {"conversation_id": conversation_id}
    call = stream_memorize(services, named, model=model, stop_asked=stop_asked)
    async with aclosing(call) as stream:
        async for part in stream:
            if "type" in part:
                continue
            learned.steps += part.get("steps", [])
            learned.dropped += part.get("dropped", [])
            error = part.get("error")
    learned.conversations.append(conversation_id)
    learned.error = learned.error or error
    return error
