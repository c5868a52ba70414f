"""What learning from a conversation needs: the messages, the known entries, the templates and a model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from nodes.asking import Answered, Asker, never
from nodes.memorize.state import MemorizeState
from personalab.dialogue import AnswerSchema, Message
from personalab.errors import NotFound
from personalab.memory.pipeline import (
    Reader,
    ShownConversation,
    ShownEntries,
    language_of,
    llm_usage,
    room_for,
    shown_entries,
    shown_messages,
)
from personalab.memory.records import ContentType, Conversation, Memory, empty_memory
from personalab.ports import ReplyModel, TokenCounter
from personalab.services import Services
from personalab.story.events import Usage, added_usage

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Subject:
    """A conversation, and all that is needed to learn from it."""

    conversation: Conversation
    memory: Memory
    templates: dict[str, str]
    model: ReplyModel
    counter: TokenCounter
    budget: int
    """How many tokens the conversation may take in a prompt."""
    stop_asked: Callable[[], bool] = never

    @property
    def reader(self) -> Reader:
        """Reads answers about this conversation."""
        return Reader(self.conversation)

    async def shown(self, types: Sequence[ContentType], about: str) -> ShownEntries:
        """Choose what the model gets to see of what is known."""
        room = room_for(self.budget)
        return await asyncio.to_thread(shown_entries, self.memory, types, about, self.counter.count, room)

    async def said(self) -> ShownConversation:
        """Word the conversation so that it fits a prompt."""
        return await asyncio.to_thread(shown_messages, self.conversation, self.counter.count, self.budget)

    def _asker(self) -> Asker:
        return Asker(self.model, self.templates["json_repair"], stop_asked=self.stop_asked)

    async def ask(
        self, messages: Sequence[Message], read: Callable[[str], T], schema: AnswerSchema
    ) -> tuple[Answered[T], dict[str, Any]]:
        """Ask, and tell what it used: the provider's numbers, or our own count of them."""
        answered = await self._asker().ask(messages, read, schema)
        if (told := answered.usage) is not None:
            return answered, llm_usage(told["input_tokens"], told["output_tokens"], estimated=False)

        def counted() -> dict[str, Any]:
            count = self.counter.count
            asked = sum(count(message["content"]) for message in messages)
            return llm_usage(asked, count(answered.raw), estimated=True)

        return answered, await asyncio.to_thread(counted)


def used(state: MemorizeState, more: Usage | None) -> dict[str, int] | None:
    """Add what a stage used to what the stages before it did, where the provider says so."""
    before = state.get("usage")
    both = added_usage(cast("Usage", before) if before else None, more)
    return cast("dict[str, int]", dict(both)) if both else None


async def read_subject(services: Services, state: MemorizeState, model: str | None) -> Subject:
    """Read the current conversation and memory."""
    conversation_id = state.get("conversation_id", "")
    conversation = await services.memories.conversation(conversation_id)
    if conversation is None:
        raise NotFound("no_conversation", conversation_id=conversation_id[:80])
    memory = await services.memories.memory(conversation.agent_id, conversation.user_id)
    if memory is None:
        named = conversation.memory_id or ""
        memory = empty_memory(named, conversation.agent_id, conversation.user_id, services.now())
    settings = services.story_ports.settings
    preferences = await settings.preferences()
    language = language_of(conversation) or preferences.config.prompt_language
    templates, _ = await settings.templates(language)
    return Subject(
        conversation,
        memory,
        templates,
        await services.model(model),
        await services.counter(model),
        preferences.config.max_total_tokens // 4,
    )
