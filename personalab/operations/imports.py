"""What does someone wish of an import, and what is told of it afterwards?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

from personalab.archive.detecting import Format
from personalab.errors import PersonaLabError
from personalab.texts import Language, say

EntryKind = Literal["character", "background", "instance"]
Outcome = Literal["new", "same", "replaced", "completed", "given"]
"""Whether it is new, was there, or took another's place; got the file it came in; or got a lorebook."""
UNNAMED = "content"
"""What a content at hand is called where nobody named it."""


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
    """Replace a character or a background of the same name or the given id, or a lorebook; never a story."""


@dataclass(frozen=True, slots=True)
class Arriving:
    """A file that is to come in."""

    shown: str
    format: Format
    stream: BinaryIO
    called: str = ""
    """What its name calls it; blank where nobody named it."""
    path: Path | None = None

    def became(self, kind: EntryKind, entry_id: str, name: str, outcome: Outcome) -> Imported:
        """Tell what it became."""
        return Imported(self.shown, self.format, kind, entry_id, name, outcome)


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
