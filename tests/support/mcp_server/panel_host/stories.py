"""Sample results for the panel, valid ones and malformed ones."""

from __future__ import annotations

import copy
import random
from typing import Any, cast

Json = dict[str, Any]

STORY: Json = {
    "instance_id": "inst_001",
    "session_id": "sess_001",
    "turn": 42,
    "language": "en",
    "character": "Alserqi",
    "background": "Wasteland",
    "plot_state": {"current_plot_index": 2, "current_status": "in_progress", "no_update_count": 1},
    "reminder_threshold": 3,
    "outline": [
        {"index": 1, "content": "Find a trace of the traitor", "status": "completed"},
        {"index": 2, "content": "Get into the stronghold", "status": "in_progress"},
        {"index": 3, "content": "Face the enemy", "status": "pending"},
    ],
    "warnings": [
        {
            "category": "middle_section_overflow",
            "message": "The history is long",
            "suggestion": "Summarize the story",
            "current_value": 21000,
            "threshold": 20000,
        },
        {"category": "story_language"},
    ],
    "tokens": {"head": 1000, "middle": 24000, "total": 25000, "limit": 100000, "encoding": "o200k_base"},
    "sections": [
        {
            "name": "base_persona",
            "zone": "head",
            "tokens": 1000,
            "text": "## Persona\nA boss.",
            "shown": True,
        },
        {"name": "conversation", "zone": "middle", "tokens": 24000, "text": "", "shown": False},
        {"name": "another_part", "zone": "tail", "tokens": 0, "text": "x", "shown": True},
    ],
    "recalled": 3,
    "cursor": None,
}


def story(**changes: Any) -> Json:
    """Make a story that differs from the usual one in some fields."""
    return {**copy.deepcopy(STORY), **changes}


def result(structured: object) -> Json:
    """Make the answer of a tool."""
    return {"content": [{"type": "text", "text": "The story as text."}], "structuredContent": structured}


MARKUP = "<img src=x onerror=alert(1)><script>alert(1)</script>&lt;b&gt;"


JUNK: list[Any] = [
    None,
    True,
    -1,
    0.5,
    1e308,
    float("nan"),
    float("-inf"),
    "",
    MARKUP,
    "\u202e\u0000\n" * 40,
    "9" * 400,
    [],
    [None, 1, "x", [[]]],
    {},
    {"toString": 1, "valueOf": None},
    {"__proto__": None, "length": 5},
    [{"index": {}, "content": [], "status": {"toString": None}}, {}],
]


def mangled(chance: random.Random) -> Json:
    """Make a story in which some fields are missing and some hold what they never should."""
    made = story()
    for _ in range(chance.randint(1, 8)):
        holder, key = chance.choice(places(made))
        if isinstance(holder, dict) and chance.random() < 0.3:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(chance.choice(JUNK))
    return made


def places(holder: Any) -> list[tuple[Any, Any]]:
    """List every place of a JSON value, as its holder and its key."""
    found: list[tuple[Any, Any]] = []
    if isinstance(holder, dict | list):
        pairs = (
            cast("Json", holder).items() if isinstance(holder, dict) else enumerate(cast("list[Any]", holder))
        )
        for key, child in pairs:
            found += [(cast("Any", holder), key), *places(child)]
    return found


def notification(name: object, params: object) -> Json:
    """Make a message as a host would send it, with anything in it."""
    method = f"ui/notifications/{name}" if isinstance(name, str) else name
    return {"jsonrpc": "2.0", "method": method, "params": params}
