"""Whatever is changed, edited, undone or broken off, and in which order: the persona is one that someone wrote."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from personalab.errors import StorageError, UserError
from personalab.ports import HeldLock
from personalab.services import Services
from personalab.storage.lorebooks import LorebookFiles
from personalab.storage.stories import StoryFiles
from personalab.storage.story_lock import FileStoryLock
from personalab.storage.story_ports import MAX_HISTORY_BYTES, FileStoryStore, PersonaFiles
from personalab.story.persona_history import (
    PersonaHistory,
    edited_by_hand,
    grow_persona,
    grown,
    revision_of,
    undo_growth,
)
from personalab.story.records import CharacterState

BASE = "她是守灯人。"
T = TypeVar("T")


class _CrashError(Exception):
    """The end of a process."""


class _Crashing(StoryFiles):
    """Files whose writer dies before it writes the state."""

    def save_character_state(self, instance_id: str, state: Any) -> None:
        raise _CrashError


def _locked(files: StoryFiles, work: Callable[[FileStoryStore, HeldLock], Awaitable[T]], name: str) -> T:
    """Work on a persona as one process does, under the story's lock."""

    async def run() -> T:
        lock = await FileStoryLock(files.instances).acquire(name, "test", wait=1)
        try:
            return await work(FileStoryStore(files, LorebookFiles(files)), lock)
        finally:
            await lock.release()

    return asyncio.run(run())


def _grow(files: StoryFiles, name: str, text: str, *, expected: str) -> CharacterState:
    why = {"changes": [], "turns": [1, 2]}
    return _locked(
        files, lambda store, lock: grow_persona(store, lock, name, text, why, "T", expected=expected), name
    )


def _undo(files: StoryFiles, name: str) -> CharacterState:
    return _locked(files, lambda store, lock: undo_growth(store, lock, name, "T"), name)


class Growing(RuleBasedStateMachine):
    """Follows what the persona and the way back should be, beside the files."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        root = Path(self.folder.name)
        self.state = root / "instances" / "tale" / "character_state.json"
        self.state.parent.mkdir(parents=True)
        self.state.write_text(json.dumps({"base_persona": BASE, "evolved_persona": "", "mood": 1}), "utf-8")
        self.stories, self.crashing = StoryFiles(root), _Crashing(root)
        self.files = PersonaFiles(self.stories)
        self.text = ""
        self.back: list[str] = []
        """What each undo should lead to, the next one last; the bottom is where nothing can be undone."""
        self.edited = False
        self.written = {""}
        self.count = 0

    def teardown(self) -> None:
        self.folder.cleanup()

    def _fresh(self) -> str:
        self.count += 1
        self.written.add(f"版本{self.count}")
        return f"版本{self.count}"

    @rule()
    def grow(self) -> None:
        text = self._fresh()
        _grow(self.stories, "tale", text, expected=self.text)
        if not self.edited or self.back:
            self.back.append(self.text)
        self.text, self.edited = text, False

    @rule()
    def grow_and_crash(self) -> None:
        with pytest.raises(_CrashError):
            _grow(self.crashing, "tale", self._fresh(), expected=self.text)

    @rule()
    def undo(self) -> None:
        if not self.back:
            with pytest.raises(UserError):
                _undo(self.stories, "tale")
            return
        self.text = self.back.pop()
        _undo(self.stories, "tale")
        self.edited = False

    @precondition(lambda self: self.edited and self.back)
    @rule()
    def undo_an_edit_and_crash(self) -> None:
        with pytest.raises(_CrashError):
            _undo(self.crashing, "tale")

    @rule()
    def edit(self) -> None:
        data = json.loads(self.state.read_text("utf-8"))
        if self.back and not self.edited:
            self.back.append(self.text)
            self.edited = True
        self.text = data["evolved_persona"] = self._fresh()
        self.state.write_text(json.dumps(data), "utf-8")

    @rule()
    def grow_from_another_text(self) -> None:
        with pytest.raises(UserError):
            _grow(self.stories, "tale", "新", expected="something else")

    @invariant()
    def holds(self) -> None:
        state, history = self.files.read("tale")
        assert state.evolved_persona == self.text
        assert (state.base_persona, state.source["mood"]) == (BASE, 1)
        chain = history.counting(revision_of(state))
        assert all(one.after == two.before for one, two in pairwise(chain))
        assert len(chain) == revision_of(state)
        assert edited_by_hand(state, history) == (self.edited and bool(self.back))
        assert {one.after for one in (*chain, *history.withdrawn)} <= self.written
        kept = [(one.number, one.before, one.after) for one in history.set_aside(revision_of(state))]
        assert len(kept) == len(set(kept)), "nothing is doubled"


Growing.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestGrowing = Growing.TestCase


def test_texts_of_any_size_leave_a_history_that_can_be_read(services: Services, instance: str) -> None:
    personas = PersonaFiles(services.stories)
    state, history = personas.read(instance)
    for number in range(12):
        state, history = grown(state, history, f"{number}" * 500_000, {"changes": []}, "T")
    personas.save(instance, state, history)
    path = services.stories.instances / instance / "persona_history.json"
    assert path.stat().st_size <= MAX_HISTORY_BYTES
    state, history = personas.read(instance)
    last = history.at(revision_of(state))
    assert last is not None
    assert last.after == state.evolved_persona


@pytest.mark.parametrize("content", ["", "[]", '{"revisions": 3}', '{"revisions": [{"revision": 1}]}'])
def test_a_history_that_cannot_be_read_stops_a_change_and_is_left_alone(
    services: Services, instance: str, content: str
) -> None:
    path = services.stories.instances / instance / "persona_history.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(StorageError, match=r"persona_history\.json"):
        _grow(services.stories, instance, "新", expected="")
    assert path.read_text(encoding="utf-8") == content
    assert services.stories.character_state(instance).evolved_persona == ""


def test_a_state_with_an_odd_revision_is_named(services: Services, instance: str) -> None:
    path = services.stories.instances / instance / "character_state.json"
    path.write_text('{"base_persona": "x", "persona_revision": "three"}', encoding="utf-8")
    with pytest.raises(StorageError, match="persona_revision"):
        PersonaFiles(services.stories).read(instance)


def test_a_history_that_was_deleted_begins_anew(services: Services, instance: str) -> None:
    store = services.stories
    _grow(store, instance, "一", expected="")
    (services.stories.instances / instance / "persona_history.json").unlink()
    with pytest.raises(UserError):
        _undo(store, instance)
    assert revision_of(_grow(store, instance, "二", expected="一")) == 2
    assert _undo(store, instance).evolved_persona == "一"
    assert isinstance(PersonaFiles(services.stories).read(instance)[1], PersonaHistory)
