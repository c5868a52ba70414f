"""The ports of stories without a disk: what processes share is in memory."""

from __future__ import annotations

from functools import partial

from personalab.in_memory.locks import InMemoryLearningLock, InMemoryStoryLock
from personalab.in_memory.sessions import InMemorySessionStore
from personalab.in_memory.stories import (
    InMemoryArchive,
    InMemorySettings,
    InMemoryStories,
    InMemoryStoryStore,
)
from personalab.ports import StoryPorts


def open_process(shared: InMemoryStories, *, buffered: bool = False) -> StoryPorts:
    """Open the ports as one process has them; a buffered one keeps a reply's text until it is flushed."""
    lock = InMemoryStoryLock(shared)
    return StoryPorts(
        InMemoryStoryStore(shared),
        InMemorySessionStore(shared, buffered=buffered),
        lock,
        InMemorySettings(shared),
        InMemoryLearningLock(shared, lock),
        partial(InMemoryArchive, shared),
    )
