"""The ports of stories over the files of a data root.

A persona's history (``persona_history.json``) is written first, then its state, each atomically. The state names its
current revision, so until it is written, later revisions in the history are a draft without effect.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from personalab.data_files import MAX_JSON_BYTES, dump_json, read_json, replace_file
from personalab.errors import Reason, StorageError, as_reason
from personalab.ports import ConversationArchive, HeldLock, Preferences, StoryPorts
from personalab.storage.lorebooks import LorebookFiles
from personalab.storage.preferences import PreferenceFiles
from personalab.storage.reply_line import ReplyLine
from personalab.storage.sessions import SessionCache, SessionWriter
from personalab.storage.stories import StoryFiles
from personalab.storage.story_lock import FileLearningLock, FileStoryLock
from personalab.story.events import Notice
from personalab.story.lore import Lorebook
from personalab.story.persona_history import PersonaHistory, revision_of
from personalab.story.records import Background, CharacterState, InstanceState
from personalab.story.summary import PlotPoint
from personalab.story.transcript import AssistantLine, Line, Transcript
from personalab.tasks import run_uncancellable
from personalab.texts import Language, PromptLanguage

MAX_HISTORY_BYTES = MAX_JSON_BYTES // 2


class PersonaFiles:
    """The personas of the stories under one data root; writers hold the instance's lock."""

    def __init__(self, stories: StoryFiles) -> None:
        self._stories = stories

    def read(self, instance_id: str) -> tuple[CharacterState, PersonaHistory]:
        """Read the state, then the history: so a change that is made meanwhile is at most seen as a draft."""
        state = self._stories.character_state(instance_id)
        folder = self._folder(instance_id)
        try:
            revision_of(state)
        except ValueError as error:
            shown = self._stories.shown(folder / "character_state.json")
            raise StorageError("file_broken", file=shown, reason=as_reason(error)) from error
        path = folder / "persona_history.json"
        if not os.path.lexists(path):
            return state, PersonaHistory()
        shown = self._stories.shown(path)
        try:
            return state, PersonaHistory.read(read_json(path, shown))
        except ValueError as error:
            raise StorageError("file_broken", file=shown, reason=as_reason(error)) from error

    def save(self, instance_id: str, state: CharacterState, history: PersonaHistory | None) -> None:
        """Write the history, if it is given, and then the state."""
        if history is not None:
            self.write_history(instance_id, history)
        self._stories.save_character_state(instance_id, state)

    def write_history(self, instance_id: str, history: PersonaHistory) -> None:
        """Replace the history; where it has grown too large, the oldest goes first, what was withdrawn before that."""
        path = self._folder(instance_id) / "persona_history.json"
        fields = history.fields()
        withdrawn, revisions = fields["withdrawn"], fields["revisions"]
        content = dump_json(fields)
        while len(content) > MAX_HISTORY_BYTES and len(withdrawn) + len(revisions) > 1:
            oldest = withdrawn or revisions
            del oldest[: max(1, len(oldest) // 4)]
            content = dump_json(fields)
        shown = self._stories.shown(path)
        if len(content) > MAX_JSON_BYTES:
            raise StorageError("not_writable", file=shown, reason=Reason("bytes", count=len(content)))
        replace_file(path, content, shown, sync=True)

    def _folder(self, instance_id: str) -> Path:
        return self._stories.instances / instance_id


def open_file_ports(
    stories: StoryFiles, lorebooks: LorebookFiles, preferences: PreferenceFiles, *, archive_wait: float
) -> StoryPorts:
    """Open the ports over the files of one data root; ``archive_wait`` is how long a writer waits for an archive.

    Their methods do short reads and writes at once: these are quicker than a thread.
    """

    def archive(name: str) -> ConversationArchive:
        from personalab.storage.conversation_archive import FileArchive, archive_in_root  # few need it

        return FileArchive(archive_in_root(stories.root, name, wait=archive_wait))

    lock = FileStoryLock(stories.instances)
    return StoryPorts(
        FileStoryStore(stories, lorebooks),
        FileSessionStore(stories),
        lock,
        FileSettingsStore(preferences),
        FileLearningLock(stories.instances, lock),
        archive,
    )


class FileStoryStore:
    """Implements ``StoryStore``. ``flock`` guards the writes: nobody loses a lock while the process lives."""

    def __init__(self, stories: StoryFiles, lorebooks: LorebookFiles) -> None:
        self._files = stories
        self._lorebooks = lorebooks
        self._personas = PersonaFiles(stories)

    async def instance(self, instance_id: str) -> InstanceState:
        """Read a story's state."""
        return self._files.instance(instance_id)

    async def save_instance(self, state: InstanceState, lock: HeldLock, *, sync: bool = False) -> None:
        """Replace a story's state."""
        await run_uncancellable(lambda: self._files.save_instance(state, sync=sync))

    async def character_state(self, instance_id: str) -> CharacterState:
        """Read who the character is in a story."""
        return self._files.character_state(instance_id)

    async def persona(self, instance_id: str) -> tuple[CharacterState, PersonaHistory]:
        """Read who the character is, and then the history: a change that is made meanwhile is at most a draft."""
        return await asyncio.to_thread(self._personas.read, instance_id)

    async def save_persona(
        self, instance_id: str, state: CharacterState, history: PersonaHistory | None, lock: HeldLock
    ) -> None:
        """Replace the history, and then the state."""
        await run_uncancellable(self._personas.save, instance_id, state, history)

    async def character_name(self, character_id: str) -> str:
        """Return the name of a character in the library."""
        return self._files.character_name(character_id)

    async def background(self, background_id: str) -> Background:
        """Read a background of the library."""
        return self._files.background(background_id)

    async def lorebooks(
        self, character_id: str, background_id: str | None
    ) -> tuple[tuple[Lorebook, ...], list[Notice]]:
        """Read the lorebooks, in a thread where one is new."""
        books = self._lorebooks
        if not books.has_any(character_id, background_id):
            return (), []
        if books.is_warm(character_id, background_id):
            return books.of(character_id, background_id)
        return await asyncio.to_thread(books.of, character_id, background_id)


class FileSessionStore:
    """Implements ``SessionStore``."""

    def __init__(self, stories: StoryFiles) -> None:
        self._files = stories

    async def transcript(self, instance_id: str, session_id: str, *, open_reply: bool = False) -> Transcript:
        """Read a session, in a thread where much of it is new."""

        def read() -> Transcript:
            session = self._files.session(instance_id, session_id)
            return session.view() if open_reply else session.transcript

        return read() if self._files.is_warm(instance_id, session_id) else await asyncio.to_thread(read)

    async def open(self, instance_id: str, session_id: str, lock: HeldLock) -> FileSessionLog:
        """Open a session for writing, in a thread where much of it is new."""
        if self._files.is_warm(instance_id, session_id):
            return FileSessionLog(self._files.writer(instance_id, session_id), self._files.cache)
        opened: list[SessionWriter] = []
        try:
            await run_uncancellable(lambda: opened.append(self._files.writer(instance_id, session_id)))
        except asyncio.CancelledError:
            for writer in opened:
                writer.close()
            raise
        return FileSessionLog(opened[0], self._files.cache)

    async def previous(self, instance_id: str, session_id: str) -> str | None:
        """Find the session that a session continues."""
        return await asyncio.to_thread(self._files.session_before, instance_id, session_id)

    async def create(
        self,
        instance_id: str,
        session_id: str,
        lines: Sequence[Line],
        points: Sequence[PlotPoint],
        lock: HeldLock,
    ) -> None:
        """Write a session and its plots; the session's file comes last, and makes it one."""
        await run_uncancellable(self._files.create_session, instance_id, session_id, lines, points)

    async def set_aside(self, instance_id: str, session_id: str, lock: HeldLock) -> str:
        """Rename a session's files."""
        return await run_uncancellable(self._files.set_session_aside, instance_id, session_id)


class FileSessionLog:
    """Implements ``SessionLog``: each piece of a reply is in the file when ``write`` returns."""

    def __init__(self, writer: SessionWriter, cache: SessionCache) -> None:
        self._writer = writer
        self._cache = cache
        self.survives_power_loss = False

    @property
    def transcript(self) -> Transcript:
        """What the session holds."""
        return self._writer.transcript

    @property
    def repaired(self) -> Sequence[str]:
        """What had to be done on opening."""
        return self._writer.mended

    @property
    def is_buffered(self) -> bool:
        """Only a power loss can take what is in the file."""
        return self.survives_power_loss

    async def append(self, line: Line) -> None:
        """Add a whole line."""
        self._writer.append(line)

    def begin_reply(self, turn: int, timestamp: str) -> ReplyLine:
        """Open a reply."""
        return self._writer.begin_reply(turn, timestamp)

    def rewrite_reply(self, content: str) -> None:
        """Replace what the open reply says."""
        self._writer.rewrite_reply(content)

    def drop_reasoning(self) -> None:
        """Remove the reasoning of the open reply."""
        self._writer.drop_reasoning()

    async def flush(self) -> None:
        """Bring the file to the disk, where a power loss is to be survived."""
        if self.survives_power_loss:
            await run_uncancellable(self._writer.sync)

    async def end_reply(self, line: AssistantLine) -> bool:
        """Close the open reply."""
        return self._writer.end_reply(line)

    async def close(self) -> None:
        """Release the file; what it holds now need not be read again."""
        self._cache.keep(self._writer.close())


class FileSettingsStore:
    """Implements ``SettingsStore``; each call looks for changes of the files."""

    def __init__(self, preferences: PreferenceFiles) -> None:
        self._files = preferences

    async def preferences(self) -> Preferences:
        """Read all settings."""
        return self._files.read()

    async def language(self) -> Language:
        """Read the reader's language."""
        return self._files.language()

    async def templates(self, language: PromptLanguage) -> tuple[dict[str, str], list[Notice]]:
        """Read the prompt templates of a language."""
        return self._files.templates(language)
