"""How a graph that runs inside another one finds out that the caller of the outer run has left.

When an anyio cancel scope around a parent's ``astream`` is cancelled, LangGraph ends the parent's run without
cancelling its nodes (https://github.com/langchain-ai/langgraph/issues/5682). What is left of the run is visible in the
node's config: the runner that would take the node's result exists no longer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config

_CALL = "__pregel_call"
"""Where LangGraph puts the means to call a task into a node's config; it leads to the runner and to the outer loop."""
_DEEPEST = 32


def find_parents(config: RunnableConfig | None) -> list[Callable[[], bool]]:
    """List the runs that the calling node is part of, innermost first, each as a check whether it still exists."""
    found: list[Callable[[], bool]] = []
    given = config or var_child_runnable_config.get()
    while given is not None and len(found) < _DEEPEST:
        call: Any = (given.get("configurable") or {}).get(_CALL)
        keywords = cast("dict[str, Any]", getattr(call, "keywords", {}))
        if (futures := keywords.get("futures")) is None:
            break
        found.append(lambda futures=futures: _has_runner(futures))
        loop = getattr(keywords.get("schedule_task"), "__self__", None)
        given = cast("RunnableConfig | None", getattr(loop, "config", None))
    return found


def _has_runner(futures: Callable[[], Any]) -> bool:
    """Return whether anyone waits for a node; where LangGraph is built otherwise than expected, assume so."""
    waiting = futures()
    if waiting is None:
        return False
    callback = getattr(waiting, "callback", None)
    return callback is None or callback() is not None
