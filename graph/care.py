"""What does a story take care of by itself after a turn? Off unless a person switched it on.

A session whose prompt passed its warning threshold is summed up; after so many turns the character learns from them.
Each is told by an event and in the turn's result, with the way to take it back; a failure is a warning, for the turn
is over and whole.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

from langgraph.runtime import Runtime

from graph.learning import learn_story
from graph.summarize import stream_summary
from nodes.chat_turn.state import TurnContext, TurnState
from personalab.config import Config
from personalab.errors import PersonaLabError
from personalab.operations.learning import unlearned
from personalab.services import Services
from personalab.story.events import CareEvent
from personalab.texts import Language, say

Emit = Callable[[object], None]


def is_due(state: TurnState, config: Config) -> bool:
    """Tell, at no cost, whether there may be something to take care of after this turn."""
    if state.get("mode") not in ("say", "retry"):
        return False
    return config.auto_memorize_turns > 0 or _is_long(state, config)


def _is_long(state: TurnState, config: Config) -> bool:
    middle = (state.get("tokens") or {}).get("middle", 0)
    return config.auto_summarize and middle > config.middle_section_warning_tokens


def taking_care(services: Services) -> Callable[..., Awaitable[dict[str, Any]]]:
    """Make the step; it runs after the turn has given its lock back."""

    async def take_care(state: TurnState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
        config = services.preferences.read().config
        care = _Care(services, state, runtime.stream_writer, (runtime.context or TurnContext()).model, config)
        if config.auto_memorize_turns > 0:
            await care.attempt("memorize", care.memorize)
        if _is_long(state, config):
            await care.attempt("summarize", care.summarize)
        return {"care": [dict(event) for event in care.told]}

    return take_care


class _Care:
    """What is done after one turn."""

    def __init__(
        self, services: Services, state: TurnState, emit: Emit, model: str | None, config: Config
    ) -> None:
        self._services = services
        self._instance_id = state.get("instance_id", "")
        self._turn = state.get("turn")
        self._emit = emit
        self._model = model
        self._config = config
        self._language: Language = config.language
        self.told: list[CareEvent] = []

    async def attempt(self, task: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do it; what goes wrong is told and does no harm to the turn."""
        try:
            await work()
        except PersonaLabError as error:
            self._failed(task, error.message(self._language))

    async def memorize(self) -> None:
        """Learn from the turns since the last time, if there are enough of them."""
        preferences = self._services.preferences.read()
        waiting = await unlearned(self._services, self._instance_id, preferences.memory.user_id)
        if waiting.turns < self._config.auto_memorize_turns:
            return
        self._tell("memorize", "begun", say("care.memorize.begun", self._language, turns=waiting.turns))
        learned = await learn_story(self._services, self._instance_id, model=self._model)
        if learned.error:
            self._failed("memorize", str(learned.error.get("message", "")))
            return
        agent_id = self._services.stories.instance(self._instance_id).character_id
        words = {"count": len(learned.steps), "turns": learned.turns, "agent_id": agent_id}
        self._tell("memorize", "done", say("care.memorize.done", self._language, **words))

    async def summarize(self) -> None:
        """Sum the session up."""
        self._tell("summarize", "begun", say("care.summarize.begun", self._language))
        result: dict[str, Any] = {}
        call = stream_summary(self._services, {"instance_id": self._instance_id}, model=self._model)
        async with aclosing(call) as stream:
            async for part in stream:
                if "type" not in part:
                    result = dict(part)
        if error := result.get("error"):
            self._failed("summarize", str(error.get("message", "")))
            return
        words = {
            "count": len(result.get("points", [])),
            "old": result.get("session_id"),
            "new": result.get("new_session_id"),
            "instance_id": self._instance_id,
        }
        self._tell("summarize", "done", say("care.summarize.done", self._language, **words))

    def _failed(self, task: str, reason: str) -> None:
        self._tell(task, "error", say(f"care.{task}.error", self._language, reason=reason))

    def _tell(self, task: str, status: str, message: str) -> None:
        event: CareEvent = {
            "type": "care",
            "turn": self._turn,
            "task": task,
            "status": status,
            "message": message,
        }
        self._emit(event)
        if status != "begun":
            self.told.append(event)
