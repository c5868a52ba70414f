"""What a run was given beside its input: the caller's context, and the id that a server gives to a run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime

from nodes.chat_turn.state import TurnContext
from personalab.errors import UserError
from personalab.story.lines import MAX_REQUEST_ID_CHARACTERS

C = TypeVar("C", bound=TurnContext)
_NAMESPACE_SEPARATOR = "|"


def context_of(runtime: Runtime[Any], schema: type[C] = TurnContext) -> C:
    """Read the context of a run, whatever its shape.

    As a subgraph we get the context of the parent graph, which has a schema of its own: fields that we do not know
    are ignored, and fields that it lacks, or that hold no text, have their defaults. A parent whose ``model`` is for
    itself names ours in ``personalab_model``.
    """
    found: object = runtime.context
    if isinstance(found, schema):
        for field in fields(TurnContext):
            _checked(field.name, getattr(found, field.name))
        return found
    return schema(**{field.name: _foreign_value(found, field.name) for field in fields(schema)})


def known_context(schema: type[Any] | None, context: object) -> object:
    """Drop the keys of a dict that the schema does not know: LangGraph would raise a TypeError for them."""
    if schema is None or not isinstance(context, Mapping):
        return context
    known = {field.name for field in fields(schema)}
    given = cast("Mapping[str, object]", context)
    return {name: value for name, value in given.items() if name in known}


def request_id_of(config: RunnableConfig) -> str | None:
    """Derive a request id from the id of a server's run, which stays the same when the server repeats the run.

    A parent graph may play several turns in one run: there the place of the call in the run is part of the id.
    """
    configurable = cast("dict[str, object]", config.get("configurable") or {})
    run_id = configurable.get("run_id")
    if run_id is None:
        return None
    outer, _, _ = str(configurable.get("checkpoint_ns") or "").rpartition(_NAMESPACE_SEPARATOR)
    place = f":{hashlib.sha256(outer.encode()).hexdigest()[:16]}" if outer else ""
    request_id = f"{run_id}{place}"
    return request_id if len(request_id) <= MAX_REQUEST_ID_CHARACTERS else None


def _value(found: object, name: str) -> object:
    if isinstance(found, Mapping):
        return cast("Mapping[str, object]", found).get(name)
    return getattr(found, name, None)


def _foreign_value(found: object, name: str) -> str | None:
    for value in (_value(found, f"personalab_{name}"), _value(found, name)):
        if isinstance(value, str) and value:
            return value
    return None


def _checked(name: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    raise UserError("context_not_text", field=name, kind=type(value).__name__)
