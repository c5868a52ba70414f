"""A chat over messages, for front ends that support nothing else: one step around ``chat_turn``.

Tokens appear in ``stream_mode="messages"`` because the turn is presented as a chat model; as with every
entrance, each is in the session file before it is shown. The file is the source of truth, the thread a view
of it.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import agenerate_from_stream
from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START
from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from graph.chat_turn import stream_turn
from graph.runtime import GraphBuilder, RunnableGraph, load_graph, read_context, read_request_id
from nodes.chat import ChatContext, ChatState, choose_story, read_input, reasoning_fields, reply_id, thread_of
from nodes.chat_turn.state import TurnInput, TurnOutput
from personalab.errors import PersonaLabError
from personalab.services import Services
from personalab.story.events import Event
from personalab.story.transcript import shown_reply
from personalab.texts import Language

Emit = Callable[[Any], None]
Play = Callable[[Callable[[TurnOutput], None]], AsyncGenerator[Event | TurnOutput]]


class ChatFailed(ValueError):  # noqa: N818 (a front end shows the name with the message)
    """The turn was refused or failed before anything of the reply was written; the message is for the player.

    LangGraph's server shows front ends the message of a ``ValueError``, and hides that of an unknown exception.
    """


def build_chat(services: Services) -> GraphBuilder:
    """Make the one step over the given services."""
    builder = GraphBuilder(services, ChatState, ChatContext)
    builder.add_node("play_turn", _play_turn(services))
    builder.add_edge(START, "play_turn")
    builder.add_edge("play_turn", END)
    return builder


async def make_graph() -> RunnableGraph:
    """Return the graph to a server that loads it by name (``langgraph.json``), and does so for every run."""
    return await load_graph("chat", build_chat)


def _play_turn(services: Services) -> Callable[..., Any]:
    async def node(state: ChatState, runtime: Runtime[ChatContext], config: RunnableConfig) -> dict[str, Any]:
        known = state["messages"]
        try:
            said, text = read_input(known)
            context = read_context(runtime, ChatContext)
            given = context.instance_id or (config.get("configurable") or {}).get("instance_id")
            instance_id = await asyncio.to_thread(choose_story, services, given)
        except PersonaLabError as error:
            raise ChatFailed(error.message(await services.turns.language())) from error
        language = await services.turns.language()
        turn: TurnInput = {"instance_id": instance_id, "user_input": text}
        if (request_id := read_request_id(config)) is not None:
            turn["request_id"] = request_id

        def play(on_state: Callable[[TurnOutput], None]) -> AsyncGenerator[Event | TurnOutput]:
            # A thread of its own keeps prompts and intermediate states out of the checkpoints of this one.
            own: RunnableConfig = {"configurable": {"thread_id": str(uuid.uuid4())}}
            return stream_turn(services, turn, model=context.model, on_state=on_state, config=own)

        character = _Character(play=play, emit=runtime.stream_writer, language=language, cache=False)
        reply = await character.ainvoke([HumanMessage(text)], {"run_name": "character"})
        current = (str(reply.id), said)
        shown = await asyncio.to_thread(thread_of, services, instance_id, known, current, language)
        if [message.id for message in shown] == [*(message.id for message in known), reply.id]:
            return {"messages": shown[-1:]}
        return {"messages": Overwrite(shown)}

    return node


class _Character(BaseChatModel):
    """One turn, presented as the call of a chat model: LangGraph streams those to any front end."""

    play: Play
    emit: Emit
    """Takes what is no text of the reply: reasoning, warnings, errors, what was done after the turn."""
    language: Language
    """The reader's."""

    @property
    def _llm_type(self) -> str:
        return "personalab"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError("a turn is played asynchronously")

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return await agenerate_from_stream(self._astream(messages, stop, None, **kwargs))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        found: list[TurnOutput] = []
        said = False
        async with aclosing(self.play(found.append)) as parts:
            async for part in parts:
                if "type" not in part:
                    found.append(part)
                elif part["type"] == "token":
                    said = True
                    yield _chunk(part["text"], found[0])
                else:
                    self.emit(part)
        result = found[-1]
        error = result.get("error")
        if error is not None and not said and not result.get("reply"):
            raise ChatFailed(error["message"])
        unsaid = "" if said else shown_reply(result.get("reply", ""), self.language)
        yield _chunk(unsaid, result, last=True)


def _chunk(text: str, turn: TurnOutput, *, last: bool = False) -> ChatGenerationChunk:
    """Make a piece of the reply; LangChain adds a last one with an id of its own where none is marked so.

    The last one brings the reasoning: until then it may be that of a try that is given up.
    """
    place = (turn.get("instance_id", ""), turn.get("session_id", ""), turn.get("turn") or 0)
    return ChatGenerationChunk(
        message=AIMessageChunk(
            content=text,
            id=reply_id(*place),
            chunk_position="last" if last else None,
            additional_kwargs=reasoning_fields(turn.get("reasoning", "")) if last else {},
        )
    )
