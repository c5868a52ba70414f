"""What does someone find who looks into a story's past on purpose?"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Literal

from personalab.errors import UserError
from personalab.services import Services
from personalab.story.ids import check_id
from personalab.story.recall import Kind, Search, plan_lookup, recalled_item

Depth = Literal["auto", "summaries", "plots", "turns"]
_KINDS: dict[Depth, tuple[Kind, ...]] = {"summaries": ("summary",), "plots": ("plot",), "turns": ("turn",)}


async def look_up(
    services: Services, instance_id: str, query: str, depth: Depth = "auto", limit: int = 10
) -> list[dict[str, Any]]:
    """Search an instance's events, best first; ``auto`` chooses the depth as a turn would."""
    check_id(instance_id, "instance_id")
    if not query.strip():
        raise UserError("blank_input")
    await asyncio.to_thread(services.stories.instance, instance_id)
    preferences = await asyncio.to_thread(services.preferences.read)
    reader = preferences.config.language
    templates, _ = await asyncio.to_thread(services.preferences.templates, reader)
    lookup = plan_lookup(query, replace(preferences.recall, trigger="always"))
    kinds = _KINDS.get(depth) or (lookup.kinds if lookup else ("summary", "turn"))
    words = lookup.query if lookup else query
    hits = await services.library.search(Search(words, kinds, limit, instance_id))
    return [recalled_item(hit, templates, reader) for hit in hits]
