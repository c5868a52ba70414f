"""The files of a character's persona and its history.

The history (``persona_history.json``) is written first, then the state, each atomically. The state names its
current revision, so until it is written, later revisions in the history are a draft without effect.
"""

from __future__ import annotations

import os
from pathlib import Path

from personalab.data_files import MAX_JSON_BYTES, dump_json, read_json, replace_file
from personalab.errors import Reason, StorageError, as_reason
from personalab.storage.stories import StoryFiles
from personalab.story.persona_history import PersonaHistory, revision_of
from personalab.story.records import CharacterState

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
