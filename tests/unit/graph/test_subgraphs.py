"""The graphs under a parent graph of someone else: its context, its ids, its runs that a server repeats."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import anyio
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel
from typing_extensions import TypedDict

from graph.chat_turn import build_chat_turn
from graph.compact import build_compact
from graph.evaluate import build_evaluate
from graph.iterate import build_iterate
from graph.memorize import build_memorize
from graph.summarize import build_summarize
from graph.update_memory import build_update_memory
from nodes.chat_turn.state import TurnContext, TurnState
from personalab.operations import archives
from personalab.operations.archives import archive_of
from personalab.services import Services
from personalab.testing.rehearsal import RehearsalModel
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.contract.test_memorize import REQUEST
from tests.support.graph.turns import lines
from tests.support.lab.running import make_project

pytestmark = pytest.mark.anyio
Answer = Callable[..., ScriptedModel]
BUILDERS: dict[str, Any] = {
    "chat_turn": build_chat_turn,
    "summarize": build_summarize,
    "update_memory": build_update_memory,
    "memorize": build_memorize,
    "compact": build_compact,
    "evaluate": build_evaluate,
    "iterate": build_iterate,
}
NAMED_BY = {"memorize": "conversation_id", "evaluate": "project", "iterate": "project"}


@dataclass
class OwnContext:
    """The context of a parent graph that knows nothing of ours."""

    tenant: str = "acme"


@dataclass
class OwnContextWithModel:
    """The context of a parent graph that names the model for us."""

    model: str = "other"


class OwnModel(BaseModel):
    """The same as a pydantic model."""

    tenant: str = "acme"
    model: str | None = "other"


class OwnDict(TypedDict, total=False):
    """The same as a typed dict."""

    tenant: str
    model: str


class Words(TypedDict, total=False):
    """The state of a parent graph, which keeps the words from step to step."""

    instance_id: str
    user_input: str
    status: str
    reply: str
    error: dict[str, Any] | None


class _Plain:
    model = "other"


def _parent(schema: type[Any] | None, child: Any, state: type[Any] = TurnState) -> Any:
    builder: Any = StateGraph(state, context_schema=schema)
    builder.add_node("child", child)
    builder.add_edge(START, "child")
    builder.add_edge("child", END)
    return builder.compile()


@pytest.mark.parametrize(
    ("schema", "context", "reply"),
    [
        (OwnContext, OwnContext(), "usual"),
        (OwnContext, {"tenant": "x"}, "usual"),
        (OwnContextWithModel, OwnContextWithModel(), "another"),
        (OwnModel, OwnModel(), "another"),
        (OwnModel, OwnModel(model=None), "usual"),
        (OwnDict, {"tenant": "x", "model": "other"}, "another"),
        (OwnDict, {"tenant": "x", "model": ""}, "usual"),
        (None, _Plain(), "another"),
        (None, None, "usual"),
        (TurnContext, TurnContext(model="other"), "another"),
    ],
)
async def test_a_parent_graph_may_have_any_context(
    services: Services, instance: str, schema: type[Any] | None, context: Any, reply: str
) -> None:
    services.models |= {"rehearsal": ScriptedModel(["usual"]), "other": ScriptedModel(["another"])}
    parent = _parent(schema, build_chat_turn(services).compile())
    result = await parent.ainvoke({"instance_id": instance, "user_input": "hi"}, context=context)
    assert (result["status"], result["reply"]) == ("done", reply), result.get("error")


@pytest.mark.parametrize("name", BUILDERS)
async def test_every_graph_runs_under_a_parent_with_a_context_of_its_own(
    services: Services, instance: str, name: str
) -> None:
    services.models["rehearsal"] = RehearsalModel(delay=0)
    child = BUILDERS[name](services).compile()
    call = await _prepared(services, instance, name)
    parent = _parent(OwnContext, child, child.builder.state_schema)
    result = await parent.ainvoke(call, context=OwnContext())
    assert result["status"] == "done", result.get("error")


async def _prepared(services: Services, instance: str, name: str) -> dict[str, Any]:
    """Make what a graph works on, and the call for it."""
    if name == "memorize":
        return {"request": REQUEST}
    if name == "compact":
        place = archive_of(services)
        session_id = (await archives.begin_session(place, "Weather"))["session_id"]
        for number in range(8):
            await archives.append_entry(place, session_id, "user", f"It snows, day {number}.", tokens=3)
        return {"session_id": session_id}
    if name in ("evaluate", "iterate"):
        project = (await make_project(services, cases=1, model="rehearsal")).name
        if name == "iterate":
            await build_evaluate(services).compile().ainvoke({"project": project})
            return {"project": project, "max_rounds": 1}
        return {"project": project}
    turn = {"instance_id": instance, "user_input": "hi"}
    if name == "chat_turn":
        return turn
    await build_chat_turn(services).compile().ainvoke(turn)
    return {"instance_id": instance}


@dataclass
class ParentContext:
    """A context whose ``model`` is the parent's own."""

    model: Any = None
    personalab_model: str | None = None


async def test_a_parents_own_model_is_not_ours(services: Services, instance: str) -> None:
    services.models["rehearsal"] = ScriptedModel(["default", "named"])
    parent = _parent(ParentContext, build_chat_turn(services).compile())
    turn = {"instance_id": instance, "user_input": "hi"}
    result = await parent.ainvoke(turn, context=ParentContext(model=object()))
    assert result["reply"] == "default", result.get("error")
    both = ParentContext(model="anthropic/its-own", personalab_model="rehearsal")
    result = await parent.ainvoke(turn, context=both)
    assert result["reply"] == "named", result.get("error")


async def test_unknown_keys_of_a_context_are_ignored_and_wrong_types_are_refused(
    services: Services, instance: str, answer_with: Answer
) -> None:
    answer_with("one")
    graph = build_chat_turn(services).compile()
    turn = {"instance_id": instance, "user_input": "hi"}
    result = await graph.ainvoke(turn, context={"tenant": "acme", "model": None})
    assert result["status"] == "done", result["error"]
    for wrong in (5, ["a"], object()):
        for context in ({"model": wrong}, TurnContext(model=wrong)):  # pyright: ignore[reportArgumentType] (what a caller may do)
            result = await graph.ainvoke(turn, context=context)
            assert result["error"]["code"] == "context_not_text"
            assert "model" in result["error"]["message"]
    assert len(lines(services)) == 3


@pytest.mark.parametrize("name", [name for name in BUILDERS if name != "compact"])
async def test_a_missing_id_is_named_in_the_error(services: Services, name: str) -> None:
    field = NAMED_BY.get(name, "instance_id")
    graph = BUILDERS[name](services).compile()
    other = {"instance_id": "user_input", "conversation_id": "again", "project": "fresh"}[field]
    for value, code in ((None, "id_missing"), (5, "field_wrong"), (["inst_001"], "field_wrong")):
        result = await graph.ainvoke({other: None, field: value})
        assert (result["status"], result["error"]["code"]) == ("error", code)
        assert field in result["error"]["message"]
        assert "None" not in result["error"]["message"]


# --- a server that repeats a run


async def test_a_repeated_run_finds_its_turn(services: Services, instance: str, answer_with: Answer) -> None:
    answer_with("one", "two")
    graph = build_chat_turn(services).compile()
    turn = {"instance_id": instance, "user_input": "hi"}
    run: Any = {"configurable": {"run_id": str(uuid.uuid4())}}
    first = await graph.ainvoke(turn, run)
    again = await graph.ainvoke(turn, run)
    assert (again["status"], again["turn"], again["reply"]) == ("done", first["turn"], "one")
    other = await graph.ainvoke(turn, {"configurable": {"run_id": str(uuid.uuid4())}})
    assert (other["turn"], other["reply"]) == (2, "two")
    assert [line.get("role") for line in lines(services)] == [None, "user", "assistant", "user", "assistant"]


async def test_a_request_id_of_the_caller_is_kept(
    services: Services, instance: str, answer_with: Answer
) -> None:
    answer_with("one", "two")
    graph = build_chat_turn(services).compile()
    run: Any = {"configurable": {"run_id": "r"}}
    for name in ("a", "b"):
        turn = {"instance_id": instance, "user_input": "hi", "request_id": name}
        assert (await graph.ainvoke(turn, run))["status"] == "done"
    assert [line["request_id"] for line in lines(services) if line.get("role") == "user"] == ["a", "b"]


async def test_a_parent_may_play_several_turns_in_one_run(
    services: Services, instance: str, answer_with: Answer
) -> None:
    replies = ["one", "two", "three", "four"]
    answer_with(*replies)
    child = build_chat_turn(services).compile()
    turn = {"instance_id": instance, "user_input": "go on"}

    async def play_twice(state: Words) -> dict[str, Any]:
        await child.ainvoke(turn)
        return await child.ainvoke(turn)

    builder: Any = StateGraph(Words)
    builder.add_node("first", child)
    builder.add_node("second", child)
    builder.add_node("play_twice", play_twice)
    for before, after in pairwise([START, "first", "second", "play_twice", END]):
        builder.add_edge(before, after)
    run: Any = {"configurable": {"run_id": "r", "thread_id": "t"}}
    await builder.compile(checkpointer=InMemorySaver()).ainvoke(turn, run)
    assert [line["content"] for line in lines(services) if line.get("role") == "assistant"] == replies


# --- a caller who leaves a parent graph


async def _in_scope(parent: Any, turn: dict[str, Any], begun: Callable[[], bool]) -> None:
    """Follow a parent's run in an anyio cancel scope, and cancel the scope when the reply has begun."""
    with anyio.CancelScope() as scope:
        async for _ in parent.astream(turn, stream_mode=["custom", "values"], subgraphs=True):
            if begun():
                scope.cancel()


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize(
    "reply",
    [
        ScriptedReply(("one ", "two "), hang=True),
        ScriptedReply(("one ", "two ", *["more "] * 2000), delay=0.02),
    ],
)
async def test_a_cancelled_scope_around_a_parent_ends_the_reply(
    services: Services, instance: str, answer_with: Answer, depth: int, called: bool, reply: ScriptedReply
) -> None:
    answer_with(reply, "next")
    graph: Any = build_chat_turn(services).compile()
    for _ in range(depth):
        graph = _parent(None, _calling(graph) if called else graph, Words)
    turn = {"instance_id": instance, "user_input": "hi"}
    path = services.stories.session_path(instance, "sess_001")
    await _in_scope(graph, turn, lambda: b"two " in path.read_bytes())
    with anyio.fail_after(30):
        while services.stories.session(instance, "sess_001").torn:
            await asyncio.sleep(0.02)
    assert lines(services)[-1]["content"].startswith("one two ")
    assert lines(services)[-1]["interrupted"] is True
    result = await build_chat_turn(services).compile().ainvoke(turn)
    assert (result["status"], result["reply"]) == ("done", "next")


def _calling(graph: Any) -> Any:
    """Make a node that calls a graph instead of being one."""

    async def node(state: Words) -> dict[str, Any]:
        return await graph.ainvoke(state)

    return node


@pytest.mark.parametrize("mode", ["values", "custom"])
async def test_a_slow_reader_of_a_parent_loses_nothing(
    services: Services, instance: str, answer_with: Answer, mode: str
) -> None:
    answer_with(ScriptedReply(tuple(f"word{number} " for number in range(20)), delay=0.03))
    parent = _parent(None, build_chat_turn(services).compile(), Words)
    turn = {"instance_id": instance, "user_input": "hi"}
    async with aclosing(parent.astream(turn, stream_mode=mode, subgraphs=True)) as stream:
        async for _ in stream:
            await asyncio.sleep(0.1)
    assert lines(services)[-1]["content"].endswith("word19 ")
    assert "interrupted" not in lines(services)[-1]
