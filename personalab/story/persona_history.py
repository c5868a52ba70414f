"""The history of a character's persona, and undo of its changes.

The state names its current revision. Revisions up to that number form a chain: each begins with the text the
one before it ended with. Those above it have no effect: a draft whose state was never written, or changes
that were undone; the next change withdraws them. A text that someone wrote into the state by hand becomes a
revision of its own, so that nothing anyone wrote is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from personalab.errors import Invalid, UserError
from personalab.ports import HeldLock, StoryStore
from personalab.story.persona import PersonaChange
from personalab.story.records import CharacterState, object_of, rows_of, text_of

MAX_REVISIONS = 200
"""Maximum revisions; older ones are dropped, withdrawn ones likewise."""

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Revision:
    """One change of a persona: the text before and after; its basis is in ``source``."""

    number: int
    time: str
    before: str
    after: str
    source: Raw = field(default_factory=dict[str, Any])

    @classmethod
    def read(cls, data: object) -> Revision:
        """Read it from its JSON value."""
        found = object_of(data, "a revision")
        number = found.get("revision")
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise Invalid("field_missing_or_not_whole_from", field="revision", low=1)
        for change in rows_of(found, "changes"):
            PersonaChange.read(change)
        return cls(
            number, text_of(found, "time", ""), text_of(found, "before"), text_of(found, "after"), found
        )

    def fields(self) -> dict[str, Any]:
        """Return its JSON object, with its other fields."""
        known = {"revision": self.number, "time": self.time, "before": self.before, "after": self.after}
        return {**known, **self.source, **known}

    @property
    def by_hand(self) -> bool:
        """Whether someone wrote it into the state."""
        return self.source.get("by") == "hand"

    def same_edit(self, other: Revision) -> bool:
        """Return whether both are the same edit by hand, recorded twice because a write was interrupted."""
        return (
            self.by_hand
            and other.by_hand
            and (self.number, self.before, self.after) == (other.number, other.before, other.after)
        )


@dataclass(frozen=True, slots=True)
class PersonaHistory:
    """``persona_history.json``."""

    revisions: tuple[Revision, ...] = ()
    withdrawn: tuple[Revision, ...] = ()
    source: Raw = field(default_factory=dict[str, Any])

    @classmethod
    def read(cls, data: object) -> PersonaHistory:
        """Read it from its JSON value; the revisions' numbers must rise."""
        found = object_of(data)
        revisions, withdrawn = _list_of(found, "revisions"), _list_of(found, "withdrawn")
        numbers = [revision.number for revision in revisions]
        if numbers != sorted(set(numbers)):
            raise Invalid("revisions_not_rising")
        return cls(revisions, withdrawn, found)

    def fields(self) -> dict[str, Any]:
        """Return its JSON object, with what was unknown in the file."""
        known = {
            "revisions": [revision.fields() for revision in self.revisions],
            "withdrawn": [revision.fields() for revision in self.withdrawn],
        }
        return {**self.source, **known}

    def at(self, number: int) -> Revision | None:
        """Find a revision by its number."""
        return next((revision for revision in self.revisions if revision.number == number), None)

    def counting(self, number: int) -> tuple[Revision, ...]:
        """Return the revisions that led to the state's current one."""
        return tuple(revision for revision in self.revisions if revision.number <= number)

    def set_aside(self, number: int) -> list[Revision]:
        """Return the revisions without effect: withdrawn ones, and those above the state's current one."""
        found: list[Revision] = []
        for revision in (*self.withdrawn, *(known for known in self.revisions if known.number > number)):
            if not any(known.same_edit(revision) for known in found):
                found.append(revision)
        return found


def _list_of(data: Raw, name: str) -> tuple[Revision, ...]:
    return tuple(map(Revision.read, rows_of(data, name)))


# --- the state


def revision_of(state: CharacterState) -> int:
    """Return the revision of a state; 0 while nothing has changed."""
    number = state.source.get("persona_revision", 0)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise Invalid("field_not_whole", field="persona_revision")
    return number


def at_revision(state: CharacterState, text: str, number: int) -> CharacterState:
    """Return the state with another persona; what it was made as stays."""
    return replace(state, evolved_persona=text, source={**state.source, "persona_revision": number})


def edited_by_hand(state: CharacterState, history: PersonaHistory) -> bool:
    """Return whether someone wrote another persona into the state since its revision."""
    last = history.at(revision_of(state))
    return last is not None and last.after != state.evolved_persona


# --- changes


def grown(
    state: CharacterState, history: PersonaHistory, text: str, why: Raw, now: str
) -> tuple[CharacterState, PersonaHistory]:
    """Add a revision; a persona that was edited by hand is kept as one before it."""
    number = revision_of(state)
    chain, last = list(history.counting(number)), history.at(number)
    if last is not None and last.after != state.evolved_persona:
        number += 1
        chain.append(_by_hand(number, last.after, state.evolved_persona, now))
    aside = history.set_aside(revision_of(state))
    aside = [known for known in aside if not known.same_edit(chain[-1])] if chain else aside
    number += 1
    chain.append(Revision(number, now, state.evolved_persona, text, why))
    kept = replace(history, revisions=tuple(chain[-MAX_REVISIONS:]), withdrawn=tuple(aside[-MAX_REVISIONS:]))
    return at_revision(state, text, number), kept


def undone(
    state: CharacterState, history: PersonaHistory, now: str
) -> tuple[CharacterState, PersonaHistory] | None:
    """Take the last change back; ``None`` if there is none. An edit by hand is a change, too, and is kept aside."""
    number = revision_of(state)
    last = history.at(number)
    if last is None:
        return None
    if last.after != state.evolved_persona:
        edit = _by_hand(number + 1, last.after, state.evolved_persona, now)
        noted = any(known.same_edit(edit) for known in history.set_aside(number))
        aside = history.withdrawn if noted else (*history.withdrawn, edit)
        kept = replace(history, withdrawn=aside[-MAX_REVISIONS:])
        return at_revision(state, last.after, number), kept
    return at_revision(state, last.before, number - 1), history


def _by_hand(number: int, before: str, after: str, now: str) -> Revision:
    return Revision(number, now, before, after, {"by": "hand", "changes": []})


# --- saving


async def grow_persona(
    stories: StoryStore, lock: HeldLock, instance_id: str, text: str, why: Raw, now: str, *, expected: str
) -> CharacterState:
    """Save a new persona, if the one it was made from is still current."""
    state, history = await stories.persona(instance_id)
    if state.evolved_persona != expected:
        raise UserError("persona_changed", instance_id=instance_id)
    fresh, kept = grown(state, history, text, why, now)
    await stories.save_persona(instance_id, fresh, kept, lock)
    return fresh


async def undo_growth(stories: StoryStore, lock: HeldLock, instance_id: str, now: str) -> CharacterState:
    """Take the last change back and save what was before it."""
    state, history = await stories.persona(instance_id)
    result = undone(state, history, now)
    if result is None:
        raise UserError("no_growth_to_undo", instance_id=instance_id)
    fresh, kept = result
    await stories.save_persona(instance_id, fresh, None if kept is history else kept, lock)
    return fresh
