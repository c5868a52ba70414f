"""Look up which entries of the story's lorebooks the newest messages call up."""

from __future__ import annotations

import asyncio

from nodes.chat_turn.saying import Say
from personalab.ports import TokenCounter
from personalab.storage.lorebooks import LorebookFiles
from personalab.storage.turns import Scene
from personalab.story.events import Notice
from personalab.story.ids import is_id
from personalab.story.lore import NO_LORE, Lore, activate
from personalab.story.transcript import Transcript, Turn

_LOOKED_BACK = 1_000
"""No book searches more turns than this."""


async def consult_lorebooks(
    scene: Scene, *, lorebooks: LorebookFiles, counter: TokenCounter, say: Say
) -> Lore:
    """Return what stands in the prompt and why; a book that cannot be read is reported."""
    module = scene.data.preferences.lore
    if not module.enabled:
        return NO_LORE
    instance = scene.instance
    background_id = instance.background_id if is_id(instance.background_id) else None
    if not lorebooks.has_any(instance.character_id, background_id):
        return NO_LORE

    def look() -> tuple[Lore, list[Notice]]:
        books, notices = lorebooks.of(instance.character_id, background_id)
        if not books:
            return NO_LORE, notices
        lore = activate(
            books,
            _said(scene.transcript.turns[-_LOOKED_BACK:]),
            module=module,
            count=counter.count,
            turn=scene.number,
            fill=scene.data.names.fill,
            greeting=_greeting(scene.transcript),
        )
        return lore, notices

    lore, notices = await asyncio.to_thread(look)
    say.warn(notices)
    return lore


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
