"""The steps that learn about the player from one conversation, with their state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, TypeVar, cast

from langgraph.channels import EphemeralValue
from typing_extensions import TypedDict  # pydantic reads schemas from it on Python 3.11

from nodes.structured_output import StructuredAnswer, StructuredModel, never_stop
from personalab.dialogue import AnswerSchema, Message
from personalab.errors import Busy, NotFound, UserError
from personalab.memory.changes import MemoryRevision, Operation, revise
from personalab.memory.pipeline import (
    Fact,
    Reader,
    ShownConversation,
    ShownEntries,
    language_of,
    llm_usage,
    mind_messages,
    modify_messages,
    pipeline_metadata,
    room_for,
    shown_entries,
    shown_messages,
    stage_result,
    update_messages,
)
from personalab.memory.records import (
    CONTENT_TYPES,
    ContentType,
    Conversation,
    Memory,
    clean_json,
    empty_memory,
    read_request,
)
from personalab.operations.learning import tries_of
from personalab.ports import Clock, LearnedBefore, ReplyModel, TokenCounter
from personalab.services import Services
from personalab.story.events import Usage, added_usage
from personalab.story.records import check_given


class MemorizeInput(TypedDict, total=False):
    """A call of the graph: a saved conversation by its id, or a request to save one (``agent_id``, ``messages``, …).

    A conversation that was learned from before is left as it is, unless ``again`` asks the model once more.
    """

    conversation_id: str
    request: Annotated[dict[str, Any], EphemeralValue]
    again: Annotated[bool, EphemeralValue]


class MemorizeOutput(TypedDict, total=False):
    """The result of a call."""

    conversation_id: str
    agent_id: str
    user_id: str
    memory_id: str
    status: Literal["running", "done", "unchanged", "error"]
    steps: list[dict[str, Any]]
    """What was added, replaced, removed, or said again."""
    dropped: list[dict[str, str]]
    """What the model said that was not taken, what it did not get to see, and why."""
    pipeline_result: dict[str, Any] | None
    usage: dict[str, int] | None
    """What the questions used together, where the provider says so."""
    error: dict[str, Any] | None


class MemorizeState(MemorizeInput, MemorizeOutput, total=False):
    """What the steps hand on."""

    facts: list[dict[str, Any]]
    operations: list[dict[str, Any]]
    result: dict[str, Any]
    """The pipeline_result as far as it has come."""
    failure: dict[str, Any] | None
    anew: bool
    """Whether a conversation that was learned from is to be learned from again."""


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
    stop_asked: Callable[[], bool] = never_stop

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

    def _asker(self) -> StructuredModel:
        return StructuredModel(self.model, self.templates["json_repair"], stop_asked=self.stop_asked)

    async def ask(
        self, messages: Sequence[Message], read: Callable[[str], T], schema: AnswerSchema
    ) -> tuple[StructuredAnswer[T], dict[str, Any]]:
        """Ask, and report the tokens used: the provider's numbers, or our own count."""
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


async def open_conversation(state: MemorizeState, *, services: Services) -> dict[str, Any]:
    """Save the conversation before any model is asked about it."""
    request, conversation_id = state.get("request"), state.get("conversation_id")
    if request is not None:
        found = await services.memories.save_conversation(read_request(request, services.now()))
    else:
        named = check_given(conversation_id or None, "conversation_id")
        found = await services.memories.conversation(named)
        if found is None:
            raise NotFound("no_conversation", conversation_id=named[:80])
    if not found.messages:
        raise UserError("empty_conversation", conversation_id=found.conversation_id)
    learned = found.is_learned and not state.get("again")
    return {
        "conversation_id": found.conversation_id,
        "agent_id": found.agent_id,
        "user_id": found.user_id,
        "memory_id": found.memory_id or "",
        "pipeline_result": dict(found.pipeline_result) if found.pipeline_result else None,
        "anew": bool(state.get("again")),
        "status": "unchanged" if learned else "running",
    }


async def theory_of_mind(state: MemorizeState, *, subject: Subject, now: Clock) -> dict[str, Any]:
    """Get the insights and what they do to the mind list, in the light of the updated profile."""
    known = [Operation.of(operation) for operation in state.get("operations", [])]
    revised = revise(
        subject.memory,
        known,
        now(),
        origin="memorize",
        conversation_id=subject.conversation.conversation_id,
    )
    said = await subject.said()
    shown = await subject.shown(("mind",), said.text)
    profile = "\n".join(f"- {text}" for text in revised.memory.texts("profile")[-100:])
    asked = mind_messages(said.text, profile, shown, subject.templates)
    reader = subject.reader
    answered, usage = await subject.ask(asked, partial(reader.minds, shown=shown), reader.minds_schema(shown))
    requested = answered.value
    told = {
        "insights": requested.insights,
        "confidence_score": requested.confidence_score,
        "raw_llm_response": answered.raw,
        "metadata": stage_result("theory_of_mind", now(), usage),
    }
    return {
        "operations": [
            *state.get("operations", []),
            *(operation.fields() for operation in requested.operations),
        ],
        "dropped": [*state.get("dropped", []), *(dropped.fields() for dropped in requested.dropped)],
        "result": {**state.get("result", {}), "mind_result": told},
        "usage": used(state, answered.usage),
    }


_TYPES: tuple[ContentType, ...] = ("profile", "event")


async def update(state: MemorizeState, *, subject: Subject, now: Clock) -> dict[str, Any]:
    """Get the operations that code will apply; without findings no model is asked."""
    facts = [Fact.of(fact) for fact in state.get("facts", [])]
    result = dict(state.get("result", {}))
    if not facts:
        usage = llm_usage(0, 0, estimated=False)
        return {
            "operations": [],
            "result": {**result, "update_result": _update_result(False, "", now(), usage)},
        }
    shown = await subject.shown(_TYPES, "\n".join(fact.text for fact in facts))
    asked = update_messages((await subject.said()).text, shown, facts, subject.templates)
    reader = subject.reader
    answered, usage = await subject.ask(
        asked, partial(reader.read_changes, shown=shown, types=_TYPES), reader.changes_schema(shown, _TYPES)
    )
    requested = answered.value
    revised = revise(
        subject.memory,
        requested.operations,
        now(),
        origin="memorize",
        conversation_id=subject.conversation.conversation_id,
    )
    told = _update_result(revised.change is not None, answered.raw, now(), usage)
    return {
        "operations": [operation.fields() for operation in requested.operations],
        "dropped": [*state.get("dropped", []), *(dropped.fields() for dropped in requested.dropped)],
        "result": {**result, "update_result": told},
        "usage": used(state, answered.usage),
    }


def _update_result(updated: bool, raw: str, now: str, usage: dict[str, Any]) -> dict[str, Any]:
    return {
        "profile_updated": updated,
        "raw_llm_response": raw,
        "metadata": stage_result("update", now, usage),
    }


async def modify(state: MemorizeState, *, subject: Subject, now: Clock) -> dict[str, Any]:
    """Find the facts; those that rest on no message are dropped."""
    said = await subject.said()
    shown = await subject.shown(CONTENT_TYPES, said.text)
    asked, reader = modify_messages(said.text, shown.text(), subject.templates), subject.reader
    answered, usage = await subject.ask(asked, reader.findings, reader.findings_schema())
    findings = answered.value
    return {
        "facts": [fact.fields() for fact in findings.facts],
        "dropped": [dropped.fields() for dropped in (*said.dropped(), *findings.dropped)],
        "usage": dict(answered.usage) if answered.usage else None,
        "result": {
            "modification_result": findings.text(),
            "modification_metadata": {
                **stage_result("modify", now(), usage),
                "raw_llm_response": answered.raw,
                **({"truncated": True} if said.cut else {}),
            },
        },
    }


UNUSABLE = "provider.unusable_answer"
"""What a conversation fails with that no answer fits; anything else may be over next time."""
_TRIES = 8
"""Maximum attempts when the memory changes concurrently."""


async def store_memory(state: MemorizeState, *, subject: Subject, services: Services) -> dict[str, Any]:
    """Apply the operations to the current memory, and store both in one step."""
    conversation, failure = subject.conversation, state.get("failure")
    operations = [Operation.of(operation) for operation in state.get("operations", [])] if not failure else []
    memory = subject.memory
    for _ in range(_TRIES):
        revised = revise(
            memory,
            operations,
            services.now(),
            origin="memorize",
            conversation_id=conversation.conversation_id,
        )
        result = _result(state, subject, revised, services.now())
        try:
            kept = await services.memories.commit(
                revised,
                conversation_id=conversation.conversation_id,
                result=result,
                again=state.get("anew", False),
            )
        except LearnedBefore:
            return await _learned_before(state, conversation, services)
        if kept:
            steps = [step.fields() for step in revised.change.steps] if revised.change else []
            return {"status": "error" if failure else "done", "steps": steps, "pipeline_result": result}
        memory = await services.memories.memory(conversation.agent_id, conversation.user_id) or memory
    raise Busy("memory_busy", agent_id=conversation.agent_id, user_id=conversation.user_id)


async def _learned_before(
    state: MemorizeState, conversation: Conversation, services: Services
) -> dict[str, Any]:
    """Keep what someone else has learned meanwhile, and the success recorded there, unchanged."""
    found = await services.memories.conversation(conversation.conversation_id)
    result = dict(found.pipeline_result) if found and found.pipeline_result else None
    return {"status": "error" if state.get("failure") else "unchanged", "pipeline_result": result}


def _result(state: MemorizeState, subject: Subject, revised: MemoryRevision, now: str) -> dict[str, Any]:
    result = dict(state.get("result", {}))
    if dropped := state.get("dropped"):
        result["dropped"] = dropped
    if failure := state.get("failure"):
        tries = tries_of(subject.conversation) + (failure["code"] == UNUSABLE)
        result["error"] = {**failure, "tries": tries}
    changed = revised.change.steps if revised.change else ()
    updated = any(step.entry.content_type != "mind" for step in changed)
    if "update_result" in result:
        result["update_result"] = {**result["update_result"], "profile_updated": updated}
    result["pipeline_metadata"] = pipeline_metadata(
        now,
        subject.conversation,
        subject.model.name,
        profile_updated=updated,
        truncated="truncated" in result.get("modification_metadata", {}),
    )
    return clean_json(result)
