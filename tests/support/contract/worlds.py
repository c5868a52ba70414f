"""The adapters of the story ports, each as a world that several processes share."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, cast

from personalab.archive.veloca_archive import DEFAULT_NAME, Archive
from personalab.config import Config, DirectorModule, LoreModule, MemoryModule, RecallModule
from personalab.errors import StorageError
from personalab.in_memory import open_process
from personalab.in_memory.locks import HeldMemoryLearning, HeldMemoryLock, InMemoryStoryLock, end_process
from personalab.in_memory.stories import InMemoryStories, StoredSession, Story
from personalab.ports import HeldLock, Preferences, StoryPorts
from personalab.retrieval.embedders import VECTORS, OfflineEmbedder
from personalab.retrieval.memory.store import DatabaseMemoryStore
from personalab.services import Services
from personalab.settings import read_settings
from personalab.storage.lorebooks import LorebookFiles
from personalab.storage.preferences import PreferenceFiles
from personalab.storage.seed import seed
from personalab.storage.stories import StoryFiles
from personalab.storage.story_lock import HeldFileLock
from personalab.storage.story_ports import open_file_ports
from personalab.story.summary import PlotPoint
from personalab.story.transcript import Line, dump_line, parse_line
from personalab.testing.in_memory import InMemoryBackend, InMemoryLibrary
from personalab.texts import PromptLanguage
from tests.support.contract.archives import ArchiveWriter, FileArchiveWriter, MemoryArchiveWriter
from tests.support.graph.turns import snapshot
from tests.support.graph.worked_example import lay_out

STORY, SESSION, NOW = "inst_001", "sess_001", "2025-10-16T10:30:00Z"
EXAMPLE_SESSION = "sess_003"
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

    def end_lock(self) -> None:
        """End the process that holds the lock of ``STORY``, where a lock can be lost while its holder goes on."""
        ...

    def learn_and_die(self) -> None:
        """Let a process acquire the right to learn from ``STORY``, and end it, as a crash does."""
        ...

    def fail(self, operation: str) -> bool:
        """Let the next call of an operation fail with a ``StorageError``; ``False`` where this can't be arranged."""
        ...

    def lay_out_example(self) -> None:
        """Put the worked example in the place of ``STORY``: 41 turns in ``EXAMPLE_SESSION``, and a grown persona."""
        ...

    def change_settings(self, *, remembers: bool = True, **changes: Any) -> None:
        """Change what a person set, and whether characters remember their player."""
        ...

    def archive(self, name: str = DEFAULT_NAME) -> ArchiveWriter:
        """Open an archive of conversations as another program does."""
        ...

    def append(self, session_id: str, *lines: Line) -> None:
        """Add lines to a session of ``STORY`` without its lock, as a person can by hand."""
        ...

    def lines(self, session_id: str) -> list[dict[str, Any]]:
        """Read the lines of a session of ``STORY``, as they are stored."""
        ...

    def plot_points(self, session_id: str) -> list[PlotPoint]:
        """Read the plot points that a session of ``STORY`` was created with."""
        ...

    def dump(self) -> dict[str, Any]:
        """Copy all that is stored, to compare it."""
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
        return open_file_ports(
            stories, LorebookFiles(stories), PreferenceFiles(self.root, SHIPPED), archive_wait=1
        )

    def open_services(self) -> Services:
        """Open services over the files."""
        return _services(self.root)

    def end_process(self, lock: HeldLock) -> None:
        """Close the lock's file, as the system does for a process that ends."""
        os.close(cast("HeldFileLock", lock).fd)

    def end_lock(self) -> None:
        """Fail: ``flock`` ends with its process alone."""
        raise AssertionError("no process loses this lock")

    def learn_and_die(self) -> None:
        """Let another process do it."""
        command = [sys.executable, "-m", "tests.support.contract.dying_learner", str(self.root), STORY]
        subprocess.run(command, cwd=Path(__file__).parents[3], check=True, timeout=120)

    def fail(self, operation: str) -> bool:
        """Files fail in tests of their own."""
        return False

    def lay_out_example(self) -> None:
        """Write the example's files."""
        shutil.rmtree(self.root / "instances" / STORY)
        lay_out(self.root)

    def change_settings(self, *, remembers: bool = True, **changes: Any) -> None:
        """Change the files of the settings."""
        PreferenceFiles(self.root, SHIPPED).change(changes)
        (self.root / "modules" / "memory.json").write_text(json.dumps({"enabled": remembers}), "utf-8")

    def archive(self, name: str = DEFAULT_NAME) -> ArchiveWriter:
        """Open the archive's files."""
        return FileArchiveWriter(self.root / "archive" / name)

    def append(self, session_id: str, *lines: Line) -> None:
        """Write at the end of the file."""
        with StoryFiles(self.root).session_path(STORY, session_id).open("ab") as file:
            file.write(b"".join(map(dump_line, lines)))

    def lines(self, session_id: str) -> list[dict[str, Any]]:
        """Read the session's file."""
        path = StoryFiles(self.root).session_path(STORY, session_id)
        return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]

    def plot_points(self, session_id: str) -> list[PlotPoint]:
        """Read the file beside the session's."""
        return StoryFiles(self.root).plot_points(STORY, session_id)

    def dump(self) -> dict[str, Any]:
        """Read every file but locks."""
        return {name: content for name, content in snapshot(self.root).items() if ".learning" not in name}


class MemoryWorld:
    """Stories in memory, by processes that keep text until it is flushed, or not."""

    can_lose_locks = True

    def __init__(self, folder: Path, *, buffered: bool) -> None:
        self.shared = shipped_stories()
        self.memories = InMemoryBackend()
        self._folder = folder
        self._buffered = buffered
        self._failing: list[str] = []
        self.shared.gate = self._pass
        character, background = self.shared.characters[CHARACTER], self.shared.backgrounds[BACKGROUND]
        self.shared.create(STORY, character, background, NOW)

    def open_process(self) -> StoryPorts:
        """Open the ports over the shared stories."""
        return open_process(self.shared, buffered=self._buffered)

    def open_services(self) -> Services:
        """Open services whose data root cannot be written, nor even created."""
        found = _services(Path(__file__) / "data", self.open_process())
        found.__dict__["memories"] = DatabaseMemoryStore(self.memories, lambda: OfflineEmbedder(VECTORS))
        for name in ("stories", "preferences", "lorebooks"):
            found.__dict__[name] = _NoFiles()
        return found

    def end_process(self, lock: HeldLock) -> None:
        """End the process that has a lock."""
        end_process(self.shared, cast("HeldMemoryLock", lock).owner)

    def fail(self, operation: str) -> bool:
        """Let the next call of an operation fail."""
        self._failing.append(operation)
        return True

    def end_lock(self) -> None:
        """Free the lock; its holder does not know."""
        holder = self.shared.story(STORY).holder
        assert holder is not None
        end_process(self.shared, holder.owner)

    def learn_and_die(self) -> None:
        """Acquire it in a process that then ends."""
        lock = InMemoryStoryLock(self.shared)
        self.shared.story(STORY).learner = HeldMemoryLearning(lock)
        end_process(self.shared, lock)

    def lay_out_example(self) -> None:
        """Read the example from files that nobody looks at later."""
        lay_out(self._folder)
        files = StoryFiles(self._folder)
        state = files.instance(STORY)
        path = files.session_path(STORY, EXAMPLE_SESSION)
        lines = [parse_line(line) for line in path.read_bytes().split(b"\n")[:-1]]
        sessions = {EXAMPLE_SESSION: StoredSession(lines)}
        self.shared.stories[STORY] = Story(state, files.character_state(STORY), sessions)
        self.shared.backgrounds[BACKGROUND] = files.background(BACKGROUND)

    def change_settings(self, *, remembers: bool = True, **changes: Any) -> None:
        """Replace what all processes read."""
        before = self.shared.preferences
        memory = replace(before.memory, enabled=remembers)
        self.shared.preferences = replace(before, config=replace(before.config, **changes), memory=memory)

    def archive(self, name: str = DEFAULT_NAME) -> ArchiveWriter:
        """Open what all processes share."""
        return MemoryArchiveWriter(self.shared.archives.setdefault(name, Archive()))

    def append(self, session_id: str, *lines: Line) -> None:
        """Add to what is kept."""
        self.shared.session(STORY, session_id).lines += lines

    def lines(self, session_id: str) -> list[dict[str, Any]]:
        """Write the session's lines as JSON."""
        found = self.shared.session(STORY, session_id).lines
        return [json.loads(dump_line(line)) for line in found]

    def plot_points(self, session_id: str) -> list[PlotPoint]:
        """Read what is kept with the session."""
        return list(self.shared.session(STORY, session_id).points)

    def dump(self) -> dict[str, Any]:
        """Copy stories, archives and memories."""
        found: dict[str, Any] = {
            name: (
                story.state,
                story.character,
                story.history,
                {
                    key: (tuple(kept.lines), kept.open_reply, kept.points)
                    for key, kept in story.sessions.items()
                },
                tuple(story.aside),
            )
            for name, story in self.shared.stories.items()
        }
        archives = {name: archive.dump() for name, archive in self.shared.archives.items()}
        return {**found, **archives, "memories": self.memories.memories(100, "")}

    async def _pass(self, operation: str) -> None:
        if operation in self._failing:
            self._failing.remove(operation)
            raise StorageError("disk_full", file=operation)


class _NoFiles:
    """Stands for the files of a data root: whoever looks at them fails."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"the file adapter was used: {name}")


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
    templates: dict[PromptLanguage, dict[str, str]] = {
        "zh": settings.templates("zh")[0],
        "en": settings.templates("en")[0],
    }
    found = InMemoryStories(templates, preferences)
    found.characters[CHARACTER] = files.character(CHARACTER)
    found.backgrounds[BACKGROUND] = files.background(BACKGROUND)
    return found


WORLDS: dict[str, Callable[[Path], StoryWorld]] = {
    "files": lambda path: FileWorld(path / "data"),
    "in_memory": lambda path: MemoryWorld(path, buffered=False),
    "in_memory_buffered": lambda path: MemoryWorld(path, buffered=True),
}
"""Every adapter of the story ports."""
