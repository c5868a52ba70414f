"""Locks in memory; each ends with the process that holds it."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from personalab.errors import Busy, NotFound
from personalab.in_memory.stories import InMemoryStories, Story
from personalab.leases import MAX_HOLD_SECONDS

_RETRY_SECONDS = 0.005


@dataclass(slots=True, eq=False)
class HeldMemoryLock:
    """The lock of a story while a process holds it."""

    story: Story
    lease_id: str
    fence: int
    task: str
    owner: InMemoryStoryLock
    """The lock's side in the process that holds it."""
    stopping: bool = False

    def stop_requested(self) -> bool:
        """Return whether someone asked this holder to stop."""
        return self.stopping

    async def hold_for(self, turn: int, seconds: float) -> None:
        """Hold the story for a client that writes a turn's reply elsewhere."""
        self.story.hold = (turn, time.monotonic() + min(seconds, MAX_HOLD_SECONDS))

    async def release(self) -> None:
        """Release the lock, if it is still held."""
        if self.story.holder is self:
            self.story.holder = None


class InMemoryStoryLock:
    """Implements ``StoryLock``."""

    def __init__(self, shared: InMemoryStories) -> None:
        self._shared = shared
        self.closing = False

    async def acquire(self, instance_id: str, task: str, *, wait: float) -> HeldMemoryLock:
        """Wait for the lock, at most so many seconds."""
        story = self._shared.story(instance_id)
        deadline = time.monotonic() + wait
        while story.holder is not None:
            if self.closing:
                raise Busy("server_ending")
            self._check_time(story, deadline, wait)
            await asyncio.sleep(_RETRY_SECONDS)
        story.fence += 1
        story.holder = HeldMemoryLock(story, secrets.token_hex(8), story.fence, task, self)
        return story.holder

    async def stop(self, instance_id: str, *, wait: float) -> str:
        """Ask the holder to stop and wait until it has."""
        story = self._shared.story(instance_id)
        holder = story.holder
        if holder is None:
            if story.held_turn() is None:
                raise NotFound("nothing_running", instance_id=instance_id)
            story.hold = None
            return "sampling"
        holder.stopping = True
        deadline = time.monotonic() + wait
        try:
            while story.holder is holder:
                self._check_time(story, deadline, wait)
                await asyncio.sleep(_RETRY_SECONDS)
        finally:
            holder.stopping = False
        return holder.task

    async def held_turn(self, instance_id: str) -> int | None:
        """Find the turn for whose reply a story is held."""
        return self._shared.story(instance_id).held_turn()

    async def release_hold(self, instance_id: str, turn: int) -> None:
        """End the hold, if it is for this turn."""
        story = self._shared.story(instance_id)
        if story.held_turn() == turn:
            story.hold = None

    def _check_time(self, story: Story, deadline: float, wait: float) -> None:
        if time.monotonic() >= deadline:
            raise Busy("busy", instance_id=story.state.instance_id, pid=os.getpid(), seconds=f"{wait:g}")


@dataclass(slots=True, eq=False)
class HeldMemoryLearning:
    """The right to learn from a story while a process has it."""

    owner: InMemoryStoryLock


class InMemoryLearningLock:
    """Implements ``LearningLock``."""

    def __init__(self, shared: InMemoryStories, lock: InMemoryStoryLock) -> None:
        self._shared = shared
        self._lock = lock

    @asynccontextmanager
    async def hold(self, instance_id: str, *, wait: float) -> AsyncGenerator[None]:
        """Hold the lock for the block."""
        story = self._shared.story(instance_id)
        deadline = time.monotonic() + wait
        while story.learner is not None:
            if self._lock.closing:
                raise Busy("server_ending")
            if time.monotonic() >= deadline:
                raise Busy("learning_busy", instance_id=instance_id)
            await asyncio.sleep(_RETRY_SECONDS)
        held = story.learner = HeldMemoryLearning(self._lock)
        try:
            yield
        finally:
            if story.learner is held:
                story.learner = None


def end_process(shared: InMemoryStories, owner: InMemoryStoryLock) -> None:
    """End a process as a crash does: its locks are free."""
    for story in shared.stories.values():
        if story.holder is not None and story.holder.owner is owner:
            story.holder = None
        if story.learner is not None and story.learner.owner is owner:
            story.learner = None
