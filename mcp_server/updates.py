"""Notifications to clients about changed stories, including changes by other programs.

Modern clients listen on a stream, older ones subscribe to addresses. Changes by this server are sent at once;
changes by other programs are detected from the modification times of the files, checked once a second and
only while a client listens.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary, ref

from mcp.server.connection import Connection
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
)

from personalab.errors import PersonaLabError
from personalab.storage.stories import StoryFiles
from personalab.tasks import BackgroundTasks

WATCH_SECONDS = 1.0
MAX_SUBSCRIPTIONS = 100
_SEND_SECONDS = 1.0
"""Seconds a client may take to read a notification; a slower one gets no more of them."""
_log = logging.getLogger("personalab.mcp")
Signature = tuple[tuple[int, int], ...]


class Updates:
    """Tells those who listen; ``bus`` is the modern clients' part of it."""

    def __init__(self, stories: StoryFiles) -> None:
        self.bus = _CountingBus(self._look_first)
        self._stories = stories
        self._subscribed: WeakKeyDictionary[Connection, set[str]] = WeakKeyDictionary()
        self._tasks = BackgroundTasks(_log)
        self._seen: dict[str, Signature] | None = None
        """How the stories stood when somebody last listened."""

    # --- who listens

    def subscribe(self, uri: str, connection: Connection) -> bool:
        """Note that an older client wants to hear of an address; too many are refused."""
        known = self._subscribed.get(connection, set[str]())
        if uri not in known and len(known) >= MAX_SUBSCRIPTIONS:
            return False
        self._look_first()
        if connection not in self._subscribed:
            connection.exit_stack.callback(self._forget, ref(connection))
        self._subscribed.setdefault(connection, set()).add(uri)
        return True

    def unsubscribe(self, uri: str, connection: Connection) -> None:
        """Forget that a client wants to hear of an address."""
        self._subscribed.get(connection, set[str]()).discard(uri)

    def _forget(self, gone: ref[Connection]) -> None:
        if (connection := gone()) is not None:
            self._subscribed.pop(connection, None)

    @property
    def anyone(self) -> bool:
        """Whether somebody listens at all."""
        return self.bus.listening > 0 or any(self._subscribed.values())

    def _look_first(self) -> None:
        """Record the state of the stories before the first client listens: every later change is reported."""
        if not self.anyone:
            self._seen = self._signatures()

    # --- what changed

    async def story_changed(self, instance_id: str) -> None:
        """Notify listeners that a story has changed."""
        if self.anyone and self._seen is not None:
            seen = self._seen.get(instance_id)
            self._seen[instance_id] = await asyncio.to_thread(self._signature, instance_id)
            if seen is None:
                self._tasks.keep(asyncio.create_task(self._tell(ResourcesListChanged())))
            self._tasks.keep(asyncio.create_task(self._tell_story(instance_id)))

    async def entry_changed(self, kind: str, entry_id: str, *, created: bool) -> None:
        """Notify listeners that a character or a background has changed."""
        if created:
            self._tasks.keep(asyncio.create_task(self._tell(ResourcesListChanged())))
        self._tasks.keep(asyncio.create_task(self._tell(ResourceUpdated(uri=f"persona://{kind}/{entry_id}"))))

    async def _tell_story(self, instance_id: str) -> None:
        base = f"persona://instances/{instance_id}"
        uris = {base, f"{base}/prompt"}
        known = [uri for uris in self._subscribed.values() for uri in uris]
        uris |= {uri for uri in known if uri.startswith(f"{base}/sessions/")}
        with suppress(
            PersonaLabError
        ):  # a story that was just deleted, or is broken: its address is sent all the same
            session_id = (await asyncio.to_thread(self._stories.instance, instance_id)).current_session_id
            uris.add(f"{base}/sessions/{session_id}")
        for uri in sorted(uris):
            await self._tell(ResourceUpdated(uri=uri))

    async def _tell(self, event: ServerEvent) -> None:
        await self.bus.publish(event)
        if isinstance(event, ResourceUpdated):
            uri = str(event.uri)
            for connection in [who for who, uris in self._subscribed.items() if uri in uris]:
                try:
                    async with asyncio.timeout(_SEND_SECONDS):
                        await connection.send_resource_updated(uri)
                except Exception:  # noqa: BLE001 (it disconnected or stopped reading: the others are notified all the same)
                    self._subscribed.pop(connection, None)

    # --- what others do

    async def watch(self) -> None:
        """Poll for changes by other programs, while somebody listens."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            try:
                await self._look()
            except Exception:  # noqa: BLE001 (whatever one look meets, the next one may not)
                _log.exception("looking for changes failed")

    async def _look(self) -> None:
        if self.anyone:
            now = await asyncio.to_thread(self._signatures)
            before, self._seen = self._seen, now
            if before is not None:
                await self._tell_changes(before, now)

    async def _tell_changes(self, before: dict[str, Signature], now: dict[str, Signature]) -> None:
        if before.keys() != now.keys():
            await self._tell(ResourcesListChanged())
        for instance_id, signature in now.items():
            if before.get(instance_id) != signature:
                await self._tell_story(instance_id)

    def _signatures(self) -> dict[str, Signature]:
        try:
            names = sorted(
                entry.name for entry in os.scandir(self._stories.instances) if entry.name[0] != "."
            )
        except OSError:
            return {}
        return {name: self._signature(name) for name in names}

    def _signature(self, instance_id: str) -> Signature:
        folder = self._stories.instances / instance_id
        found = [_stamp(folder / "instance_state.json"), _stamp(folder / "character_state.json")]
        with suppress(OSError):
            found += sorted(_stamp(entry.path) for entry in os.scandir(folder / "sessions"))
        return tuple(found)


class _CountingBus(InMemorySubscriptionBus):
    """A bus that knows whether anyone listens."""

    def __init__(self, before_first: Callable[[], None]) -> None:
        super().__init__()
        self.listening = 0
        self._before_first = before_first

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        self._before_first()
        leave = super().subscribe(listener)
        self.listening += 1
        left: list[Any] = []

        def unsubscribe() -> None:
            if not left:
                left.append(True)
                self.listening -= 1
            leave()

        return unsubscribe


def _stamp(path: os.PathLike[str] | str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)
