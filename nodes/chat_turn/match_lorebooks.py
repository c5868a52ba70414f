"""Match the newest messages against the story's lorebooks."""

from __future__ import annotations

import asyncio
from typing import Any

from nodes.chat_turn.state import TurnEmitter
from personalab.ports import StoryStore, TokenCounter
from personalab.story.lore import Lore, activate
from personalab.story.open_turn import Scene
from personalab.story.records import is_id
from personalab.story.transcript import Transcript, Turn

_LOOKED_BACK = 1_000
"""No book searches more turns than this."""


async def match_lorebooks(
    scene: Scene, *, stories: StoryStore, counter: TokenCounter, emitter: TurnEmitter
) -> dict[str, Any]:
    """Return the texts for the prompt and the matched entries; a book that cannot be read is reported."""
    module = scene.data.preferences.lore
    if not module.enabled:
        return {"lore": None}
    instance = scene.instance
    background_id = instance.background_id if is_id(instance.background_id) else None
    books, notices = await stories.lorebooks(instance.character_id, background_id)
    emitter.warn(notices)
    if not books:
        return {"lore": None}

    def match() -> Lore:
        return activate(
            books,
            _said(scene.transcript.turns[-_LOOKED_BACK:]),
            module=module,
            count=counter.count,
            turn=scene.number,
            fill=scene.data.names.fill,
            greeting=_greeting(scene.transcript),
        )

    lore = await asyncio.to_thread(match)
    hits = [hit.fields() for hit in lore.hits]
    return {"lore": {"before": lore.before, "after": lore.after, "hits": hits}}


def _greeting(transcript: Transcript) -> int | None:
    """Tell which greeting the story opened with, counted from 0 as cards do, where that is known."""
    first = transcript.turns[0]
    number = first.last_reply.extra.get("greeting") if first.last_reply and first.user is None else None
    return number - 1 if isinstance(number, int) else None


def _said(turns: list[Turn]) -> list[str]:
    """Give the messages in order; the last turn is the one to answer, whatever was tried before."""
    said: list[str] = []
    for turn in turns:
        if turn.user is not None:
            said.append(turn.user.content)
        if turn is not turns[-1] and (answer := turn.answer) is not None:
            said.append(answer)
    return said
