"""Whatever is changed, edited, undone or broken off, and in which order: the persona is one that someone wrote."""

from __future__ import annotations

import json
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from personalab.errors import StorageError, UserError
from personalab.services import Services
from personalab.storage.personas import MAX_HISTORY_BYTES, PersonaFiles
from personalab.storage.stories import StoryFiles
from personalab.story.persona_history import PersonaHistory, edited_by_hand, grown, revision_of

BASE = "她是守灯人。"


class _CrashError(Exception):
    """The end of a process."""


class _Crashing(PersonaFiles):
    """Files whose writer dies between the two writes."""

    def write_state(self, instance_id: str, state: Any) -> None:
        raise _CrashError


class Growing(RuleBasedStateMachine):
    """Follows what the persona and the way back should be, beside the files."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        root = Path(self.folder.name)
        self.state = root / "instances" / "tale" / "character_state.json"
        self.state.parent.mkdir(parents=True)
        self.state.write_text(json.dumps({"base_persona": BASE, "evolved_persona": "", "mood": 1}), "utf-8")
        self.files = PersonaFiles(StoryFiles(root))
        self.crashing = _Crashing(StoryFiles(root))
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
        self.files.grow("tale", text, {"changes": [], "turns": [1, 2]}, "T", expected=self.text)
        if not self.edited or self.back:
            self.back.append(self.text)
        self.text, self.edited = text, False

    @rule()
    def grow_and_crash(self) -> None:
        with pytest.raises(_CrashError):
            self.crashing.grow("tale", self._fresh(), {"changes": []}, "T", expected=self.text)

    @rule()
    def undo(self) -> None:
        if not self.back:
            with pytest.raises(UserError):
                self.files.undo("tale", "T")
            return
        self.text = self.back.pop()
        self.files.undo("tale", "T")
        self.edited = False

    @precondition(lambda self: self.edited and self.back)
    @rule()
    def undo_an_edit_and_crash(self) -> None:
        with pytest.raises(_CrashError):
            self.crashing.undo("tale", "T")

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
            self.files.grow("tale", "新", {"changes": []}, "T", expected="something else")

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
    state, history = services.personas.read(instance)
    for number in range(12):
        state, history = grown(state, history, f"{number}" * 500_000, {"changes": []}, "T")
    services.personas.write_history(instance, history)
    services.personas.write_state(instance, state)
    path = services.stories.instances / instance / "persona_history.json"
    assert path.stat().st_size <= MAX_HISTORY_BYTES
    state, history = services.personas.read(instance)
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
        services.personas.grow(instance, "新", {}, "T", expected="")
    assert path.read_text(encoding="utf-8") == content
    assert services.stories.character_state(instance).evolved_persona == ""


def test_a_state_with_an_odd_revision_is_named(services: Services, instance: str) -> None:
    path = services.stories.instances / instance / "character_state.json"
    path.write_text('{"base_persona": "x", "persona_revision": "three"}', encoding="utf-8")
    with pytest.raises(StorageError, match="persona_revision"):
        services.personas.read(instance)


def test_a_history_that_was_deleted_begins_anew(services: Services, instance: str) -> None:
    services.personas.grow(instance, "一", {"changes": []}, "T", expected="")
    (services.stories.instances / instance / "persona_history.json").unlink()
    with pytest.raises(UserError):
        services.personas.undo(instance, "T")
    fresh = services.personas.grow(instance, "二", {"changes": []}, "T", expected="一")
    assert revision_of(fresh) == 2
    assert services.personas.undo(instance, "T").evolved_persona == "一"
    assert isinstance(services.personas.read(instance)[1], PersonaHistory)
