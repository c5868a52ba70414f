"""Options and results of an import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

from personalab.archive.foreign_files import Format
from personalab.errors import PersonaLabError
from personalab.texts import Language, say

EntryKind = Literal["character", "background", "instance"]
Outcome = Literal["new", "same", "replaced", "completed", "given", "joined", "exists"]
"""Whether it is new, was there, or took another's place; got the file it came in; got a lorebook; gave a persona to
the character that a chat had made; or was left out, because the id it carries belongs to a character that differs."""
OnConflict = Literal["update", "copy", "skip"]
CONFLICT_OPTIONS: tuple[OnConflict, ...] = get_args(OnConflict)
WorldStatus = Literal["linked", "missing", "ambiguous"]
UNNAMED = "content"
"""The name of content without a name."""


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What the person said beside the files."""

    character: str | None = None
    """Whose chats and conversations these are."""
    into: str | None = None
    """The character or background that gets a lorebook; else it becomes a background of its own."""
    new_id: str | None = None
    """The id of the import, if it is a single thing."""
    overwrite: bool = False
    """Replace a character or a background of the same name or the given id, or a lorebook; never a story."""
    on_conflict: OnConflict | None = None
    """What to do with a card that carries the id of a character here and differs from it; ``None`` changes nothing
    and returns the options."""


@dataclass(frozen=True, slots=True)
class ImportFile:
    """A file to import."""

    shown: str
    format: Format
    stream: BinaryIO
    called: str = ""
    """Its displayed name; blank without one."""
    path: Path | None = None

    def became(self, kind: EntryKind, entry_id: str, name: str, outcome: Outcome) -> Imported:
        """Make the result of the imported file."""
        return Imported(self.shown, self.format, kind, entry_id, name, outcome)


DEFAULT_OPTIONS = ImportOptions()


@dataclass(frozen=True, slots=True)
class ImportNote:
    """Something to know about what came in, before it is said in a language."""

    code: str
    params: Mapping[str, object]

    def message(self, language: Language) -> str:
        """Return the message."""
        return say(f"import.{self.code}", language, **self.params)


@dataclass(frozen=True, slots=True)
class NamedWorld:
    """The World Info that a card names (``extensions.world``) and does not bring."""

    name: str
    status: WorldStatus
    background_ids: tuple[str, ...] = ()
    """The backgrounds that have a lorebook of that name."""

    def fields(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"name": self.name, "status": self.status, "background_ids": list(self.background_ids)}


@dataclass(frozen=True, slots=True)
class Imported:
    """What a file became, or a part of it."""

    file: str
    format: Format
    kind: EntryKind
    entry_id: str
    name: str
    outcome: Outcome
    notes: tuple[ImportNote, ...] = ()
    options: tuple[OnConflict, ...] = ()
    """What the person may choose, where the outcome is ``exists``."""
    world: NamedWorld | None = None

    def with_note(self, code: str, **params: object) -> Imported:
        """Add something to know about it."""
        return replace(self, notes=(*self.notes, ImportNote(code, params)))

    def fields(self, language: Language) -> dict[str, Any]:
        """Return it as JSON."""
        offered: dict[str, Any] = {}
        if self.options:
            offered["options"] = list(self.options)
        if self.world is not None:
            offered["world"] = self.world.fields()
        return {
            "file": self.file,
            "format": self.format,
            "kind": self.kind,
            "id": self.entry_id,
            "name": self.name,
            "outcome": self.outcome,
            "notes": [note.message(language) for note in self.notes],
            **offered,
        }


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that was not imported, and why."""

    file: str
    error: PersonaLabError

    def fields(self, language: Language) -> dict[str, Any]:
        """Return it as JSON."""
        return {"file": self.file, "code": self.error.code, "reason": self.error.message(language)}


@dataclass(slots=True)
class ImportReport:
    """Everything that came in and everything that did not, in the order of the files."""

    imported: list[Imported] = field(default_factory=list[Imported])
    skipped: list[SkippedFile] = field(default_factory=list[SkippedFile])
    not_indexed: PersonaLabError | None = None
    """Why the stories that came in cannot be recalled from before ``personalab reindex``."""

    def fields(self, language: Language) -> dict[str, Any]:
        """Return it as JSON."""
        found: dict[str, Any] = {
            "imported": [entry.fields(language) for entry in self.imported],
            "skipped": [entry.fields(language) for entry in self.skipped],
        }
        if self.not_indexed is not None:
            found["not_indexed"] = self.not_indexed.message(language)
        return found
