"""The step that gets the points of the session from the model, piece by piece."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from nodes.asking import Asker
from nodes.summarize.material import read_material
from nodes.summarize.state import SummaryState
from personalab.leases import Lease
from personalab.ports import ReplyModel, TokenCounter
from personalab.services import Services
from personalab.story.summary import (
    PlotPoint,
    cut_into_pieces,
    points_schema,
    read_points,
    summary_messages,
    worth_telling,
)

Tell = Callable[[int, int], None]


async def draft_points(
    state: SummaryState,
    *,
    services: Services,
    lease: Lease,
    model: ReplyModel,
    counter: TokenCounter,
    tell: Tell,
) -> dict[str, Any]:
    """Draft the points of every piece; an unusable answer is requested once more, then refused."""
    material = await read_material(
        services.story_ports, state.get("instance_id", ""), last_turn=state.get("last_turn")
    )
    turns = worth_telling(material.transcript) if state.get("has_news", True) else []
    budget = material.config.max_total_tokens // 4
    pieces = await asyncio.to_thread(cut_into_pieces, turns, material.templates, counter.count, budget)
    asker = Asker(
        model,
        material.templates["json_repair"],
        refusal="provider.bad_summary",
        stopped="summary_stopped",
        stop_asked=lease.stop_requested,
    )
    told = [note.content for note in material.transcript.summaries()]
    points: list[PlotPoint] = []
    for number, piece in enumerate(pieces):
        tell(number, len(pieces))
        asked = summary_messages(
            piece,
            [*told, *(point.summary for point in points)],
            material.character.base_persona,
            material.templates,
        )
        read = partial(read_points, first=piece.first, last=piece.last, language=material.language)
        points += (await asker.ask(asked, read, points_schema(piece.first, piece.last))).value
    tell(len(pieces), len(pieces))
    usage = asker.usage
    return {
        "points": [point.fields() for point in points],
        "usage": dict(usage) if usage else None,
        "status": "preview" if state.get("preview") else "running",
    }
