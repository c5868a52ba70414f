"""The turns and conversations of a story that its character has not learned from yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from personalab.errors import PersonaLabError
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
from personalab.ports import SessionStore
from personalab.services import Services
from personalab.story.records import InstanceState
from personalab.story.transcript import Turn, taken_over

TOGETHER = 20
"""Maximum number of turns learned from at once."""
MOST_TURNS = 200
"""Of a story that was never learned from, so many turns are, the newest."""
MOST_TRIES = 3
"""A conversation that no answer fits after so many tries is left for someone to look at."""
_SESSIONS_BACK = 20
_CHARACTERS = 24_000
"""Maximum length of the turns learned from at once."""


@dataclass(frozen=True, slots=True)
class LearnableSession:
    """Turns of a session that are its own and whole, and how conversations name it."""

    session_id: str
    name: str
    turns: tuple[Turn, ...]
    before: str | None


@dataclass(frozen=True, slots=True)
class PendingTurns:
    """Conversations to learn from, the oldest first; ``left_out`` turns are too far back."""

    waiting: tuple[Conversation, ...]
    """Those that were saved, and could not be learned from."""
    fresh: tuple[Conversation, ...]
    """Those that are not saved yet."""
    left_out: int = 0

    @property
    def conversations(self) -> tuple[Conversation, ...]:
        """All of them."""
        return (*self.waiting, *self.fresh)

    @property
    def turns(self) -> int:
        """How many turns they have."""
        return sum(len(found.messages) // 2 for found in self.conversations)

    @property
    def fresh_turns(self) -> int:
        """Number of turns without any attempt to learn from them."""
        return sum(len(found.messages) // 2 for found in self.fresh)


async def unlearned(services: Services, instance_id: str, user_id: str) -> PendingTurns:
    """Find the conversations that were saved and not learned from, and the turns that were not even saved."""
    ports = services.story_ports
    instance = await ports.stories.instance(instance_id)
    agent_id, store = instance.character_id, services.memories
    sessions = await _sessions(ports.sessions, instance)
    pieces: list[tuple[LearnableSession, list[Turn]]] = []
    for session in sessions:
        done = await store.learned(agent_id, user_id, session.name)
        pieces.insert(0, (session, [turn for turn in session.turns if turn.number > done]))
        if done:
            break
    kept, left_out = _newest(pieces)
    fresh = [
        _conversation(services, instance, user_id, session, part)
        for session, turns in kept
        for part in _parts(turns)
    ]
    names = {session.name for session in sessions}
    saved = await store.waiting(agent_id, user_id, instance_id)
    waiting = [found for found in saved if found.session_id in names and tries_of(found) < MOST_TRIES]
    return PendingTurns(tuple(waiting), tuple(fresh), left_out)


def tries_of(conversation: Conversation) -> int:
    """Return the number of attempts to learn from a conversation."""
    match conversation.pipeline_result:
        case {"error": {"tries": int(tries)}}:
            return tries
        case _:
            return 0


async def _sessions(store: SessionStore, instance: InstanceState) -> list[LearnableSession]:
    """Read the sessions that led to the current one, the newest first."""
    found: list[LearnableSession] = []
    session_id: str | None = instance.current_session_id
    while session_id is not None and len(found) < _SESSIONS_BACK:
        try:
            found.append(await _session(store, instance.instance_id, session_id))
        except PersonaLabError:
            if not found:
                raise
            break
        session_id = found[-1].before
    return found


async def _session(store: SessionStore, instance_id: str, session_id: str) -> LearnableSession:
    transcript = await store.transcript(instance_id, session_id, open_reply=True)
    metadata = transcript.metadata
    name = story_session(instance_id, session_id, metadata.created_at if metadata else "")
    before = await store.previous(instance_id, session_id)
    turns = transcript.turns
    if before is not None:
        try:
            older = await store.transcript(instance_id, before, open_reply=True)
        except PersonaLabError:
            before = None
        else:
            turns = turns[taken_over(turns, older) :]
    whole = [
        turn for turn in turns if turn.user and turn.answer and (turn.settled or turn is not transcript.last)
    ]
    return LearnableSession(session_id, name, tuple(whole), before)


def _newest(
    pieces: Sequence[tuple[LearnableSession, list[Turn]]],
) -> tuple[list[tuple[LearnableSession, list[Turn]]], int]:
    room, kept = MOST_TURNS, list[tuple[LearnableSession, list[Turn]]]()
    for session, turns in reversed(pieces):
        kept.insert(0, (session, turns[-room:] if room else []))
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
    services: Services,
    instance: InstanceState,
    user_id: str,
    session: LearnableSession,
    turns: Sequence[Turn],
) -> Conversation:
    """Return turns as a conversation between the character and the player."""
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
        session.name,
        story=StoryPlace(instance.instance_id, session.session_id, turns[0].number, turns[-1].number),
    )
