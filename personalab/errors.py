"""Which errors can PersonaLab raise, and who has to act on each?

PersonaLabError
├── UserError          the input has to be mended (a bad id, a value out of range, a blank message)
│   ├── NotFound       what was named does not exist
│   └── BadRecord      a record lacks a field or has it wrong (a ``ValueError``, too)
├── Busy               someone else is writing; try again later
├── StorageError       a file is missing, broken or cannot be written
└── ProviderError      the model or the embedder failed; ``retryable`` says whether trying again may help

Each carries a ``code`` of ``personalab.texts`` and its parameters, so that an entrance can say it in the
reader's language. ``str(error)`` is English.
"""

from __future__ import annotations

from typing import Literal

from personalab.texts import Language, say

ErrorKind = Literal["user", "busy", "storage", "provider", "other"]
"""Who has to act, for those who see only the event."""


class PersonaLabError(Exception):
    """Everything this product raises on purpose."""

    kind: ErrorKind = "other"
    retryable = False

    def __init__(self, code: str, **params: object) -> None:
        super().__init__(code, params)
        self.code = code
        self.params = params

    def message(self, language: Language) -> str:
        """Say what happened, to which thing, and what to do."""
        return say(self.code, language, **self.params)

    def __str__(self) -> str:
        return self.message("en")


def reason_of(error: Exception) -> object:
    """Give an error as the ``reason`` of another text: its own reason, or the whole error in the reader's language."""
    if isinstance(error, PersonaLabError):
        return error.params.get("reason") or error
    return str(error) or type(error).__name__


class UserError(PersonaLabError):
    """The caller has to mend the input."""

    kind = "user"


class NotFound(UserError):  # noqa: N818 (the tree above names it so)
    """What was named does not exist."""


class BadRecord(UserError, ValueError):  # noqa: N818 (the tree above names it so)
    """A record lacks a field, or has it wrong."""


class Busy(PersonaLabError):  # noqa: N818 (the tree above names it so)
    """Another writer holds the instance."""

    kind = "busy"

    retryable = True


class StorageError(PersonaLabError):
    """A file is missing, broken or cannot be written."""

    kind = "storage"


class ProviderError(PersonaLabError):
    """A model or an embedder failed."""

    kind = "provider"

    def __init__(self, code: str, *, retryable: bool = False, **params: object) -> None:
        super().__init__(code, **params)
        self.retryable = retryable
