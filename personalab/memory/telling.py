"""What of a memory enters a prompt, and in which words?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from personalab.memory.records import Entry, Memory

CONFIDENT = 0.25
"""From this confidence on, an event fits what was just said."""
_PROFILE_SHARE, _MIND_SHARE = 0.6, 0.8
"""So much of the room may be full after the profile, and after the mind entries."""

Count = Callable[[str], int]


def player_text(
    memory: Memory, events: Sequence[Entry], templates: Mapping[str, str], count: Count, budget: int
) -> str:
    """Word what is known about the player: profile, mind, and the events that fit, the newest where room is short."""
    used = 0
    rows: list[str] = []
    groups = ((memory.of("profile"), _PROFILE_SHARE), (memory.of("mind"), _MIND_SHARE))
    for entries, share in groups:
        chosen, used = _fitting(entries[::-1], count, used, int(budget * share))
        rows += reversed(chosen)
    told, _ = _fitting(events, count, used, budget)
    if told:
        rows += [templates["player_memory_events"].strip(), *told]
    return "\n".join(rows)


def _fitting(entries: Sequence[Entry], count: Count, used: int, limit: int) -> tuple[list[str], int]:
    rows: list[str] = []
    for entry in entries:
        row = f"- {entry.text}"
        cost = count(row) + 1
        if used + cost > limit:
            break
        rows.append(row)
        used += cost
    return rows, used
