"""The adapters of the story ports, each as a world that several processes share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, cast

from personalab.config import Config, DirectorModule, LoreModule, MemoryModule, RecallModule
from personalab.errors import StorageError
from personalab.in_memory import HeldMemoryLock, InMemoryStories
from personalab.ports import HeldLock, Preferences, StoryPorts
from personalab.retrieval.in_memory import InMemoryLibrary
from personalab.services import Services
from personalab.settings import read_settings
from personalab.storage.lorebooks import LorebookFiles
from personalab.storage.preferences import PreferenceFiles
from personalab.storage.seed import seed
from personalab.storage.stories import StoryFiles
from personalab.storage.story_lock import HeldFileLock
from personalab.storage.story_ports import open_file_ports
from personalab.texts import Language

STORY, SESSION, NOW = "inst_001", "sess_001", "2025-10-16T10:30:00Z"
CHARACTER, BACKGROUND = "char_alserqi", "bg_wasteland"
SHIPPED = read_settings({}).shipped


class StoryWorld(Protocol):
    """Stories of one adapter, with ``STORY`` in them."""

    can_lose_locks: bool
    """Whether a process can lose a lock while it goes on: then its writes must be refused."""

    def open_process(self) -> StoryPorts:
        """Open the ports as a new process."""
        ...

    def open_services(self) -> Services:
        """Open services as a new process; its model is scripted, and time stands still."""
        ...

    def end_process(self, lock: HeldLock) -> None:
        """End the process that holds a lock, as a crash does."""
        ...

    def fail(self, operation: str) -> bool:
        """Let the next call of an operation fail with a ``StorageError``; ``False`` where this can't be arranged."""
        ...


class FileWorld:
    """Files of one data root."""

    can_lose_locks = False

    def __init__(self, root: Path) -> None:
        self.root = root
        seed(root, SHIPPED)
        stories = StoryFiles(root)
        stories.create_instance(stories.character(CHARACTER), stories.background(BACKGROUND), STORY, NOW)

    def open_process(self) -> StoryPorts:
        """Open the ports; nothing is shared but the files."""
        stories = StoryFiles(self.root)
        return open_file_ports(stories, LorebookFiles(stories), PreferenceFiles(self.root, SHIPPED))

    def open_services(self) -> Services:
        """Open services over the files."""
        return _services(self.root)

    def end_process(self, lock: HeldLock) -> None:
        """Close the lock's file, as the system does for a process that ends."""
        os.close(cast("HeldFileLock", lock).fd)

    def fail(self, operation: str) -> bool:
        """Files fail in tests of their own."""
        return False


class MemoryWorld:
    """Stories in memory, by processes that keep text until it is flushed, or not."""

    can_lose_locks = True

    def __init__(self, *, buffered: bool) -> None:
        self.shared = shipped_stories()
        self._buffered = buffered
        self._failing: list[str] = []
        self.shared.gate = self._pass
        character, background = self.shared.characters[CHARACTER], self.shared.backgrounds[BACKGROUND]
        self.shared.create(STORY, character, background, NOW)

    def open_process(self) -> StoryPorts:
        """Open the ports over the shared stories."""
        return self.shared.open_process(buffered=self._buffered).ports

    def open_services(self) -> Services:
        """Open services whose data root cannot be written, nor even created."""
        return _services(Path(__file__) / "data", self.open_process())

    def end_process(self, lock: HeldLock) -> None:
        """End the process that has a lock."""
        cast("HeldMemoryLock", lock).process.end()

    def fail(self, operation: str) -> bool:
        """Let the next call of an operation fail."""
        self._failing.append(operation)
        return True

    async def _pass(self, operation: str) -> None:
        if operation in self._failing:
            self._failing.remove(operation)
            raise StorageError("disk_full", file=operation)


def _services(root: Path, ports: StoryPorts | None = None) -> Services:
    found = Services(read_settings({"PERSONALAB_DATA": str(root)}), now=lambda: NOW, adapters=ports)
    found.__dict__["library"] = InMemoryLibrary()
    return found


def shipped_stories() -> InMemoryStories:
    """Return the shipped samples and templates, without stories."""
    files, settings = StoryFiles(SHIPPED), PreferenceFiles(SHIPPED, SHIPPED)
    preferences = Preferences(
        Config(), DirectorModule(enabled=True), RecallModule(), MemoryModule(), LoreModule()
    )
    templates: dict[Language, dict[str, str]] = {
        "zh": settings.templates("zh")[0],
        "en": settings.templates("en")[0],
    }
    found = InMemoryStories(templates, preferences)
    found.characters[CHARACTER] = files.character(CHARACTER)
    found.backgrounds[BACKGROUND] = files.background(BACKGROUND)
    return found


WORLDS: dict[str, Callable[[Path], StoryWorld]] = {
    "files": lambda path: FileWorld(path / "data"),
    "in_memory": lambda path: MemoryWorld(buffered=False),
    "in_memory_buffered": lambda path: MemoryWorld(buffered=True),
}
"""Every adapter of the story ports."""
