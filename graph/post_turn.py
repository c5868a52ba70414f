"""Automatic summaries and learning after a turn. Off unless a person enabled them.

A session whose prompt exceeded its warning threshold is summarized; after a number of turns the character
learns from them. Each emits events and is part of the turn's result, with the way to undo it; a failure does
not affect the turn, which is complete. The graphs that do the work are imported when they are due.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from nodes.chat_turn.state import TurnOutput
from personalab.errors import PersonaLabError
from personalab.ports import Preferences
from personalab.services import Services
from personalab.story.events import PostTurnEvent
from personalab.story.summary import PostTurnTask, was_undone_recently
from personalab.texts import say

_log = logging.getLogger("personalab.post_turn")


async def run_post_turn(
    services: Services, turn: TurnOutput, *, model: str | None
) -> AsyncGenerator[PostTurnEvent]:
    """Do what is due after a turn, and emit what is begun, done or failed."""
    if turn.get("status") != "done" or not turn.get("care_due"):
        return
    preferences = await services.story_ports.settings.preferences()
    work = _PostTurnWork(services, turn, preferences, model)
    for task in turn.get("care_due", []):
        try:
            async for event in work.memorize() if task == "memorize" else work.summarize():
                yield event
        except PersonaLabError as error:
            yield work.failed(task, error)
        except Exception as error:  # noqa: BLE001 (the turn is over and whole, whatever fails after it)
            _log.error("work after a turn failed unexpectedly", exc_info=error)
            yield work.failed(task, type(error).__name__)


class _PostTurnWork:
    """What is done after one turn."""

    def __init__(
        self, services: Services, turn: TurnOutput, preferences: Preferences, model: str | None
    ) -> None:
        self._services = services
        self._instance_id = turn.get("instance_id", "")
        self._turn = turn.get("turn")
        self._preferences = preferences
        self._model = model

    async def memorize(self) -> AsyncIterator[PostTurnEvent]:
        """Learn from the turns since the last time, if there are enough of them."""
        from graph.memorize import learn_story
        from personalab.operations.learning import unlearned

        if not self._preferences.memory.enabled:
            return
        user_id = self._preferences.memory.user_id
        waiting = await unlearned(self._services, self._instance_id, user_id)
        if waiting.fresh_turns < self._preferences.config.auto_memorize_turns:
            return
        yield self._event("memorize", "begun", turns=waiting.turns)
        learned = await learn_story(self._services, self._instance_id, model=self._model)
        if learned.error:
            yield self.failed("memorize", str(learned.error.get("message", "")))
            return
        instance = await self._services.story_ports.stories.instance(self._instance_id)
        words = {"count": len(learned.steps), "turns": learned.turns, "agent_id": instance.character_id}
        yield self._event("memorize", "done", **words)

    async def summarize(self) -> AsyncIterator[PostTurnEvent]:
        """Summarize the session, unless a person has just undone that."""
        from graph.summarize import stream_summary

        instance = await self._services.story_ports.stories.instance(self._instance_id)
        if was_undone_recently(instance, self._turn or 0, self._preferences.config.summary_last_n_turns):
            return
        yield self._event("summarize", "begun")
        result: dict[str, Any] = {}
        call = stream_summary(self._services, {"instance_id": self._instance_id}, model=self._model)
        async with aclosing(call) as stream:
            async for part in stream:
                if "type" not in part:
                    result = dict(part)
        if error := result.get("error"):
            yield self.failed("summarize", str(error.get("message", "")))
            return
        words = {"count": len(result.get("points", [])), "old": result.get("session_id")}
        names = {"new": result.get("new_session_id"), "instance_id": self._instance_id}
        yield self._event("summarize", "done", **words, **names)

    def failed(self, task: PostTurnTask, reason: object) -> PostTurnEvent:
        """Return the event for work that failed."""
        return self._event(task, "error", reason=reason)

    def _event(self, task: PostTurnTask, status: str, **words: object) -> PostTurnEvent:
        message = say(f"care.{task}.{status}", self._preferences.config.language, **words)
        return {"type": "care", "turn": self._turn, "task": task, "status": status, "message": message}
