"""Let the model tell the session in points, piece by piece."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from nodes.summarize.material import read_material
from nodes.summarize.state import SummaryState
from personalab.errors import ProviderError, UserError
from personalab.ports import ReplyModel, TokenCounter
from personalab.services import Services
from personalab.storage.leases import Lease
from personalab.story.events import Usage
from personalab.story.prompt import Message
from personalab.story.summary import (
    Piece,
    PlotPoint,
    cut_into_pieces,
    read_points,
    repair_messages,
    summary_messages,
    worth_telling,
)
from personalab.texts import Language

MAX_ANSWER = 400_000
"""A longer answer is given up: no model needs it."""
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
    """Draft the points of every piece; an answer that cannot be used is asked for once more, then refused."""
    material = await asyncio.to_thread(
        read_material, services, state.get("instance_id", ""), last_turn=state.get("last_turn")
    )
    turns = worth_telling(material.transcript)
    budget = material.config.max_total_tokens // 4
    pieces = await asyncio.to_thread(cut_into_pieces, turns, material.templates, counter.count, budget)
    writer = _Writer(model, lease, material.templates, material.language)
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
        points += await writer.points(piece, asked)
    tell(len(pieces), len(pieces))
    usage = writer.usage
    return {"points": [point.fields() for point in points], "usage": dict(usage) if usage else None}


class _Writer:
    """Asks a model, and counts what it used."""

    def __init__(
        self, model: ReplyModel, lease: Lease, templates: dict[str, str], language: Language
    ) -> None:
        self._model = model
        self._lease = lease
        self._templates = templates
        self._language: Language = language
        self.usage: Usage | None = None

    async def points(self, piece: Piece, asked: Sequence[Message]) -> list[PlotPoint]:
        """Get the points of a piece."""
        answer = await self._answer(asked)
        try:
            return read_points(answer, piece.first, piece.last, self._language)
        except ValueError as error:
            again = repair_messages(asked, answer, str(error), self._templates)
        try:
            return read_points(await self._answer(again), piece.first, piece.last, self._language)
        except ValueError as error:
            raise ProviderError("provider.bad_summary", retryable=True, reason=str(error)) from error

    async def _answer(self, messages: Sequence[Message]) -> str:
        parts: list[str] = []
        length = 0
        async for chunk in self._model.stream(messages):
            if self._lease.stop_asked():
                raise UserError("summary_stopped")
            parts.append(chunk.text)
            length += len(chunk.text)
            if length > MAX_ANSWER:
                break
            if chunk.usage is not None:
                self._add(chunk.usage)
        return "".join(parts)

    def _add(self, usage: Usage) -> None:
        old = self.usage or Usage(input_tokens=0, output_tokens=0, cached_tokens=0)
        self.usage = Usage(
            input_tokens=old["input_tokens"] + usage["input_tokens"],
            output_tokens=old["output_tokens"] + usage["output_tokens"],
            cached_tokens=old["cached_tokens"] + usage["cached_tokens"],
        )
