"""Text and fields for remembered entries and changes of a memory, sized to fit into a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mcp_server.budget import Budget
from mcp_server.texts import tell
from personalab.memory.changes import step_summary
from personalab.texts import Language

SHORT_ID = 8
"""Characters of an entry's id shown in a text, and enough to name it."""
MOST_STEPS = 40
"""Maximum changes shown at once."""
_STEP_TOKENS = 60
"""What a change costs beside its words."""
_MARKS = {"add": "+", "replace": "~", "remove": "-", "cite": "="}


def brief(text: str, budget: Budget, tokens: int) -> str:
    """Return a text, or its beginning with a sign that there is more."""
    shown = budget.cut(text, tokens)
    return shown if len(shown) == len(text) else f"{shown}…"


def brief_steps(steps: Sequence[Mapping[str, Any]], budget: Budget, tokens: int) -> list[dict[str, Any]]:
    """Return the first steps of a change, each within its share."""
    shown = steps[:MOST_STEPS]
    share = max(tokens // max(len(shown), 1) - _STEP_TOKENS, 8) // 3
    return [step_fields(step, budget, share) for step in shown]


def step_fields(step: Mapping[str, Any], budget: Budget, tokens: int) -> dict[str, Any]:
    """Return a step by its entry's id and the words before and after it, each within so many tokens."""
    summary = step_summary(step)
    for name in ("before", "after", "reason"):
        summary[name] = brief(summary[name], budget, tokens) if summary[name] else summary[name]
    return summary


def step_rows(steps: Sequence[Mapping[str, Any]], total: int, language: Language) -> list[str]:
    """Word steps; say how many more there are."""
    rows = [step_row(step, language) for step in steps]
    if total > len(steps):
        rows.append(tell("more_steps", language, count=total - len(steps)))
    return rows


def step_row(step: Mapping[str, Any], language: Language) -> str:
    """Word a step in a line."""
    words = " → ".join(str(step[name]) for name in ("before", "after") if step[name] is not None)
    if step["verb"] == "cite":
        words = str(step["after"])
    kind = tell(f"list.{step['content_type']}", language)
    reason = f" · {step['reason']}" if step["reason"] else ""
    return f"{_MARKS[step['verb']]} [{step['content_id'][:SHORT_ID]}] {kind}: {words}{reason}"
