"""The errors that PersonaLab raises, by who has to act on each.

PersonaLabError
├── UserError          the input must be corrected (a bad id, a value out of range, a blank message)
│   ├── NotFound       what was named does not exist
│   └── BadRecord      a record's field is missing or wrong (also a ``ValueError``)
├── Busy               another writer is active; try again later
├── StorageError       a file is missing, broken or cannot be written
└── ProviderError      the model or the embedder failed; ``retryable`` says whether trying again may help

Invalid                a value breaks a rule (a ``ValueError``); callers attach it to a field as a reason

Each carries a ``code`` of ``personalab.texts`` and its parameters, so that an entrance can show it in the
reader's language. ``str(error)`` is English.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from typing import Any, Literal

from personalab.texts import FALLBACK, REASONS, Language, render, say

ErrorKind = Literal["user", "busy", "storage", "provider", "other"]
"""Who has to act, for those who see only the event."""


def _new(kind: type[Exception], *args: object) -> Exception:
    """Make a copy of an error without its ``__init__``, which takes other arguments; its attributes are set next."""
    return kind.__new__(kind, *args)


class PersonaLabError(Exception):
    """Everything this product raises on purpose."""

    kind: ErrorKind = "other"
    retryable = False

    def __init__(self, code: str, /, **params: object) -> None:
        super().__init__(code, params)
        self.code = code
        self.params = params

    def message(self, language: Language) -> str:
        """Return what happened, to what, and what to do."""
        return say(self.code, language, **self.params)

    def __str__(self) -> str:
        return self.message(FALLBACK)

    def __reduce__(self) -> tuple[Any, ...]:
        return _new, (type(self), *self.args), self.__dict__


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

    def __init__(self, code: str, /, *, retryable: bool = False, **params: object) -> None:
        super().__init__(code, **params)
        self.retryable = retryable


class Reason:
    """Why something cannot be used: a code of the section ``reasons`` and its parameters."""

    __slots__ = ("code", "params")

    def __init__(self, code: str, /, **params: object) -> None:
        self.code = code
        self.params = params

    def message(self, language: Language) -> str:
        """Return the message."""
        return render(REASONS, self.code, language, **self.params)

    def __str__(self) -> str:
        return self.message(FALLBACK)

    def __repr__(self) -> str:
        return f"Reason({self.code!r}, {self.params!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reason) and (self.code, self.params) == (other.code, other.params)

    def __hash__(self) -> int:
        return hash(self.code)


class Invalid(ValueError):  # noqa: N818 (the tree above names it so)
    """A value breaks a rule."""

    def __init__(self, code: str, /, **params: object) -> None:
        super().__init__(code, params)
        self.reason = Reason(code, **params)

    def __str__(self) -> str:
        return str(self.reason)

    def __reduce__(self) -> tuple[Any, ...]:
        return _new, (type(self), *self.args), self.__dict__


Because = Reason | PersonaLabError | str
"""What an error gives as its ``reason``; a text is a library's own, the same in every language."""


def worded(reason: Because, language: Language) -> str:
    """Return a reason's text in a language."""
    return reason if isinstance(reason, str) else reason.message(language)


def as_reason(error: BaseException) -> Because:
    """Return an exception as the ``reason`` of an error: known ones by their type, others in their own words."""
    text = str(error) or type(error).__name__
    match error:
        case PersonaLabError():
            return error
        case Invalid():
            return error.reason
        case OSError():
            text = error.strerror or text
            return _known(f"os_{errno.errorcode.get(error.errno or 0, '')}", text)
        case json.JSONDecodeError():
            return Reason("python_json", text=text, line=error.lineno, column=error.colno)
        case UnicodeDecodeError():
            return Reason("python_utf8", text=text, at=error.start)
        case RecursionError():
            return Reason("python_deep", text=text)
        case _:
            return text


def reason_of(error: BaseException) -> Because:
    """Return an error's own reason, or the whole error where it has none."""
    reason = error.params.get("reason") if isinstance(error, PersonaLabError) else None
    return reason if isinstance(reason, Because) and reason else as_reason(error)


def json_reason(error: ValueError | RecursionError) -> Because:
    """Return the reason why a text is no JSON; a plain ``ValueError`` comes from a number with too many digits."""
    if type(error) is ValueError:
        return Reason("python_large_number", text=str(error))
    return as_reason(error)


def pydantic_reason(detail: Mapping[str, Any]) -> Because:
    """Return what pydantic says about a value, one of ``errors()``, with its context."""
    context: dict[str, Any] = detail.get("ctx") or {}
    if isinstance(cause := context.get("error"), Exception):
        return as_reason(cause)
    return _known(f"pydantic_{detail['type']}", str(detail["msg"]), **context)


def _known(code: str, text: str, **params: object) -> Because:
    return Reason(code, **{**params, "text": text}) if code in REASONS else text
