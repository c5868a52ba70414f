"""The step that gets the account from the model, piece by piece, or from the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from nodes.compact.state import CompactState
from nodes.structured_output import StructuredModel
from personalab.archive.veloca_compaction import (
    account_schema,
    check_unchanged,
    compact_messages,
    cut_into_pieces,
    first_account,
    language_of,
    piece_tokens,
    read_account,
    summary_limit,
)
from personalab.ports import ConversationArchive
from personalab.services import Services

Tell = Callable[[int, int], None]


async def draft_summary(
    state: CompactState, *, services: Services, archive: ConversationArchive, model: str | None, tell: Tell
) -> dict[str, Any]:
    """Draft the account of every piece with the one so far; an unusable answer is requested once more."""
    if (given := state.get("given")) is not None:
        return _drafted(state, given, None)
    material = await archive.material(state.get("session_id", ""), state.get("trigger"))
    check_unchanged(material, state.get("seen", ""))
    settings = services.story_ports.settings
    config = (await settings.preferences()).config
    language = language_of(material.entries)
    templates, _ = await settings.templates(language or config.prompt_language)
    count = (await services.counter(model)).count
    budget, limit = piece_tokens(config.max_total_tokens), summary_limit(config.max_total_tokens)
    before = "\n\n".join(found.summary for found in material.summaries)
    pieces = await asyncio.to_thread(cut_into_pieces, material.entries, before, count, budget)
    account = await asyncio.to_thread(first_account, before, count, budget)
    asker = StructuredModel(
        await services.model(model), templates["json_repair"], refusal="provider.bad_summary"
    )
    read = partial(read_account, limit=limit, language=language)
    for number, piece in enumerate(pieces):
        tell(number, len(pieces))
        asked = compact_messages(piece, account, limit, templates)
        account = (await asker.ask(asked, read, account_schema(limit))).value
    tell(len(pieces), len(pieces))
    return _drafted(state, account, dict(asker.usage) if asker.usage else None)


def _drafted(state: CompactState, account: str, usage: dict[str, Any] | None) -> dict[str, Any]:
    shown = {"trigger_entry_id": state.get("trigger"), "summary": account}
    preview = bool(state.get("preview"))
    return {
        "account": account,
        "usage": usage,
        "dialogue": shown if preview else None,
        "status": "preview" if preview else "running",
    }
