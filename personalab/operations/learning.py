"""Which turns of a story has its character not learned from yet?"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from personalab.errors import PersonaLabError
from personalab.memory.pipeline import has_succeeded
from personalab.memory.records import (
    MAX_CONTENT,
    Conversation,
    ConversationMessage,
    StoryPlace,
    clean,
    new_id,
    story_session,
    time_or,
)
from personalab.services import Services
from personalab.story.instance import InstanceState
from personalab.story.transcript import Turn

TOGETHER = 20
"""So many turns are learned from at once."""
MOST_TURNS = 200
"""Of a story that was never learned from, so many turns are, the newest."""
_SESSIONS_BACK = 20
_CHARACTERS = 40_000
"""So long the turns may be that are learned from at once."""


@dataclass(frozen=True, slots=True)
class Unlearned:
    """Conversations to learn from, the oldest first; ``left_out`` turns are too far back."""

    conversations: tuple[Conversation, ...]
    left_out: int = 0

    @property
    def turns(self) -> int:
        """How many turns they have."""
        return sum(len(found.messages) // 2 for found in self.conversations)


async def unlearned(services: Services, instance_id: str, user_id: str) -> Unlearned:
    """Find the conversations that were saved and not learned from, and the turns that were not even saved."""
    instance = await asyncio.to_thread(services.stories.instance, instance_id)
    agent_id, store = instance.character_id, services.memories
    saved = await store.conversations(agent_id, user_id, limit=100)
    waiting = [found for found in saved if _waits(found, instance_id)]
    pieces: list[tuple[str, list[Turn]]] = []
    session_id: str | None = instance.current_session_id
    for _ in range(_SESSIONS_BACK):
        if session_id is None:
            break
        turns, before = await asyncio.to_thread(_own_turns, services, instance_id, session_id)
        done = await store.learned(agent_id, user_id, story_session(instance_id, session_id))
        pieces.insert(0, (session_id, [turn for turn in turns if turn.number > done]))
        session_id = None if done else before
    kept, left_out = _newest(pieces)
    fresh = [
        _conversation(services, instance, user_id, session, part)
        for session, turns in kept
        for part in _parts(turns)
    ]
    return Unlearned((*reversed(waiting), *fresh), left_out)


def _waits(conversation: Conversation, instance_id: str) -> bool:
    place = conversation.story
    mine = place is not None and place.instance_id == instance_id
    return mine and not has_succeeded(conversation.pipeline_result)


def _own_turns(services: Services, instance_id: str, session_id: str) -> tuple[list[Turn], str | None]:
    """Read the answered turns of a session without those it took over from the one before, and name that one."""
    transcript = services.stories.session(instance_id, session_id).view()
    before = transcript.metadata.continued_from if transcript.metadata else None
    turns = transcript.turns
    if before is not None:
        try:
            older = services.stories.session(instance_id, before).view().turns
        except PersonaLabError:
            before, older = None, []
        turns = turns[_taken_over(turns, older) :]
    return [turn for turn in turns if turn.user is not None and turn.answer is not None], before


def _taken_over(turns: Sequence[Turn], older: Sequence[Turn]) -> int:
    """Count the first turns that are the older session's last ones under new numbers."""
    said = [turn for turn in older if turn.user is not None]
    for count in range(min(len(turns), len(said)), 0, -1):
        if [_words(turn) for turn in turns[:count]] == [_words(turn) for turn in said[-count:]]:
            return count
    return 0


def _words(turn: Turn) -> tuple[str, str]:
    return (turn.user.content, turn.user.timestamp) if turn.user else ("", "")


def _newest(pieces: Sequence[tuple[str, list[Turn]]]) -> tuple[list[tuple[str, list[Turn]]], int]:
    room, kept = MOST_TURNS, list[tuple[str, list[Turn]]]()
    for session_id, turns in reversed(pieces):
        kept.insert(0, (session_id, turns[-room:] if room else []))
        room -= len(kept[0][1])
    total = sum(len(turns) for _, turns in pieces)
    return kept, total - (MOST_TURNS - room)


def _parts(turns: Sequence[Turn]) -> list[list[Turn]]:
    parts: list[list[Turn]] = []
    length = 0
    for turn in turns:
        size = len(turn.user.content if turn.user else "") + len(turn.answer or "")
        if not parts or len(parts[-1]) >= TOGETHER or length + size > _CHARACTERS:
            parts.append([])
            length = 0
        parts[-1].append(turn)
        length += size
    return parts


def _conversation(
    services: Services, instance: InstanceState, user_id: str, session_id: str, turns: Sequence[Turn]
) -> Conversation:
    """Give turns as a conversation between the character and the player."""
    said = [
        (role, text, turn.user.timestamp if turn.user else "")
        for turn in turns
        for role, text in (("user", turn.user.content if turn.user else ""), ("assistant", turn.answer or ""))
    ]
    now = services.now()
    messages = tuple(
        ConversationMessage(
            new_id(),
            "user" if role == "user" else "assistant",
            clean(text)[:MAX_CONTENT],
            index,
            time_or(time, now),
        )
        for index, (role, text, time) in enumerate(said)
    )
    return Conversation(
        new_id(),
        instance.character_id,
        user_id,
        now,
        messages,
        story_session(instance.instance_id, session_id),
        story=StoryPlace(instance.instance_id, session_id, turns[0].number, turns[-1].number),
    )
