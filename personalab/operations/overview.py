"""Lists of stories with their last messages, and of the backgrounds that name a character."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from personalab.data_files import open_regular
from personalab.errors import PersonaLabError, StorageError
from personalab.services import Services
from personalab.storage.reply_line import recover
from personalab.storage.stories import StoryFiles
from personalab.storage.story_lock import running
from personalab.story.director import without_markers
from personalab.story.records import Background, Character, InstanceState, display_name
from personalab.story.transcript import AssistantLine, UserLine, parse_line, usable_reply

_TAIL_BYTES = 64 * 1024
_LONGEST_TAIL = 4 * 1024 * 1024
"""A last line that is longer is not looked for."""
_PLAIN_WORD = re.compile(r"[A-Za-z0-9 .'-]+")


@dataclass(frozen=True, slots=True)
class LastWords:
    """The last thing that was said in a session; of a reply without words the reason, or nothing."""

    turn: int
    text: str
    timestamp: str
    by_character: bool
    is_notice: bool = False
    """Whether nobody said the text: the reply failed or is empty."""


@dataclass(frozen=True, slots=True)
class Story:
    """A story as a list shows it; one that cannot be read has only its id and the reason."""

    instance_id: str
    state: InstanceState | None = None
    error: PersonaLabError | None = None
    last: LastWords | None = None
    is_running: bool = False

    @property
    def touched(self) -> str:
        """When something last happened in it."""
        return self.last.timestamp if self.last else self.state.created_at if self.state else ""


def list_stories(services: Services) -> list[Story]:
    """List all stories, the one that was played last first; only the ends of their files are read."""
    stories = services.stories
    found = [_story(stories, instance_id) for instance_id in stories.names("instances")]
    return sorted(found, key=lambda story: (story.touched, story.instance_id), reverse=True)


def _story(stories: StoryFiles, instance_id: str) -> Story:
    listed = stories.listed("instances", instance_id)
    if not isinstance(listed.record, InstanceState):
        return Story(instance_id, error=listed.error)
    state = listed.record
    try:
        last = last_words(stories.session_path(instance_id, state.current_session_id))
    except PersonaLabError as error:
        return Story(instance_id, error=error)
    is_running = running(stories.instances / instance_id) is not None
    return Story(instance_id, state, last=last, is_running=is_running)


def last_words(path: Path) -> LastWords | None:
    """Read the last thing that was said in a session's file, also while it is being written."""
    try:
        fd = open_regular(path)
    except (OSError, StorageError):
        return None
    try:
        size, length = os.fstat(fd).st_size, _TAIL_BYTES
        while True:
            begin = max(0, size - length)
            if (found := _last_in(os.pread(fd, size - begin, begin), is_whole=begin == 0)) is not None:
                return found
            if begin == 0 or length >= _LONGEST_TAIL:
                return None
            length *= 8
    except OSError:
        return None
    finally:
        os.close(fd)


def _last_in(raw: bytes, *, is_whole: bool) -> LastWords | None:
    """Look through lines from the last one back; the first of a piece may have lost its beginning."""
    lines = raw.split(b"\n")
    for at in range(len(lines) - 1, -1 if is_whole else 0, -1):
        line = lines[at].strip(b"\x00 \t\r")
        if not line:
            continue
        try:
            read = parse_line(line)
        except ValueError:
            read = recover(line, 0) if at == len(lines) - 1 else None
        if isinstance(read, AssistantLine | UserLine) and read.content.strip():
            return _words_of(read)
    return None


def _words_of(line: AssistantLine | UserLine) -> LastWords:
    """Return what a line says, without progress markers."""
    if isinstance(line, UserLine):
        return LastWords(line.turn, line.content, line.timestamp, by_character=False)
    words = usable_reply(line)
    text = without_markers(words) if words is not None else line.content if line.error else ""
    return LastWords(line.turn, text, line.timestamp, by_character=True, is_notice=words is None)


def worlds_of(stories: StoryFiles, character: Character) -> list[str]:
    """List the backgrounds that speak of a character by its name."""
    names = {name for name in (character.name.strip(), display_name(character).strip()) if len(name) > 1}
    if not names:
        return []
    sought = re.compile("|".join(_pattern(name) for name in sorted(names)))
    return [
        listed.entry_id
        for listed in stories.backgrounds()
        if isinstance(world := listed.record, Background)
        and any(sought.search(text) for text in _texts_of(world))
    ]


def _pattern(name: str) -> str:
    """Find a name of Latin letters only as a word of its own: Al is not in All."""
    sought = re.escape(name)
    return rf"(?<![A-Za-z0-9]){sought}(?![A-Za-z0-9])" if _PLAIN_WORD.fullmatch(name) else sought


def _texts_of(world: Background) -> list[str]:
    return [world.name, world.world_setting, *(point.content for point in world.story_outline)]
