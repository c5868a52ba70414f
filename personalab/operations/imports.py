"""What does someone wish of an import, and what is told of it afterwards?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from personalab.archive.detecting import Format
from personalab.errors import PersonaLabError
from personalab.texts import Language, say

EntryKind = Literal["character", "background", "instance"]
Outcome = Literal["new", "same", "replaced"]


@dataclass(frozen=True, slots=True)
class ImportWishes:
    """What the person said beside the files."""

    character: str | None = None
    """Whose chats and conversations these are."""
    into: str | None = None
    """The character or background that gets a lorebook; else it becomes a background of its own."""
    new_id: str | None = None
    """The id of what comes in, where that is one thing."""
    overwrite: bool = False
    """Replace a character, a background or a lorebook; a story is never replaced."""


NO_WISHES = ImportWishes()


@dataclass(frozen=True, slots=True)
class Told:
    """Something to know about what came in, before it is said in a language."""

    code: str
    params: Mapping[str, object]

    def message(self, language: Language) -> str:
        """Say it."""
        return say(f"import.{self.code}", language, **self.params)


@dataclass(frozen=True, slots=True)
class Imported:
    """What a file became, or a part of it."""

    file: str
    format: Format
    kind: EntryKind
    entry_id: str
    name: str
    outcome: Outcome
    told: tuple[Told, ...] = ()

    def fields(self, language: Language) -> dict[str, Any]:
        """Give it as JSON."""
        return {
            "file": self.file,
            "format": self.format,
            "kind": self.kind,
            "id": self.entry_id,
            "name": self.name,
            "outcome": self.outcome,
            "notes": [told.message(language) for told in self.told],
        }


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that did not come in, and why."""

    file: str
    error: PersonaLabError

    def fields(self, language: Language) -> dict[str, Any]:
        """Give it as JSON."""
        return {"file": self.file, "code": self.error.code, "reason": self.error.message(language)}


@dataclass(slots=True)
class ImportReport:
    """Everything that came in and everything that did not, in the order of the files."""

    imported: list[Imported] = field(default_factory=list[Imported])
    skipped: list[Skipped] = field(default_factory=list[Skipped])
    not_indexed: PersonaLabError | None = None
    """Why the stories that came in cannot be recalled from before ``personalab reindex``."""

    def fields(self, language: Language) -> dict[str, Any]:
        """Give it as JSON."""
        found: dict[str, Any] = {
            "imported": [entry.fields(language) for entry in self.imported],
            "skipped": [entry.fields(language) for entry in self.skipped],
        }
        if self.not_indexed is not None:
            found["not_indexed"] = self.not_indexed.message(language)
        return found
