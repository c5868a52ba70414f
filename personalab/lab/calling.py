"""Calls to an executor and their answers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypedDict, cast

from personalab.errors import BadRecord, Reason, UserError
from personalab.lab.stored_errors import plain_params

CallStatus = Literal["ok", "failed"]
MAX_TIMEOUT = 86_400.0

_CALL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
_MAX_MODEL = 200
VALUE_FLAGS = (
    *("--effort", "--max-turns", "--max-budget-usd", "--max-thinking-tokens", "--thinking", "--betas"),
)
"""Flags of the ``claude`` command line that a person may set for a run, as ``--name=value``."""
SWITCHES = ("--verbose", "--disable-slash-commands", "--no-chrome")
"""Flags without a value that a person may set. None of them opens a file, runs a program, grants a tool or changes
what is asked: the skill is measured, not the machine."""
_FLAG_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._,-]{0,99}", re.ASCII)


class CallUsage(TypedDict):
    """Tokens of one call; ``input_tokens`` holds the cached ones, too."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class Call:
    """One question to an executor; making one that cannot be asked raises a ``UserError``."""

    call_id: str
    """A name in its spool folder that no other question has: what was answered under it is given again."""
    system: str
    """The skill's content."""
    system_file: str | None
    """A file that holds exactly ``system``; the executor writes one where there is none."""
    text: str
    schema: Mapping[str, object] | None
    """The JSON schema of a structured answer, if one is wanted."""
    model: str
    """As the executor names it; blank for its own default."""
    timeout_seconds: float
    extra_flags: tuple[str, ...] = ()
    repeat: int = 1

    def __post_init__(self) -> None:
        if _CALL_ID.fullmatch(self.call_id) is None:
            raise UserError("lab_bad_call", field="call_id", reason=Reason("no_file_name"))
        if not self.text.strip():
            raise UserError("blank_input")
        if not self.model.isprintable() or len(self.model) > _MAX_MODEL:
            reason = Reason("control_or_long")
            raise UserError("lab_bad_call", field="model", reason=reason)
        if not 0 < self.timeout_seconds <= MAX_TIMEOUT:
            reason = Reason("not_within", limit=f"{MAX_TIMEOUT:g}")
            raise UserError("lab_bad_call", field="timeout_seconds", reason=reason)
        check_flags(self.extra_flags)


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """What came of a call; a failure is an answer, too."""

    status: CallStatus
    text: str = ""
    structured: object | None = None
    error: str | None = None
    """What went wrong, in one English line."""
    error_code: str | None = None
    error_params: Mapping[str, str | int | float] | None = None
    """Parameters of the code's text, so that a failure can be shown in any language."""
    retryable: bool = False
    retry_after: float | None = None
    """The seconds the service asks to wait."""
    duration_ms: int = 0
    executor: str = ""
    cli_version: str = ""
    model_version: str = ""
    usage: CallUsage | None = None
    cost_usd: float | None = None

    def fields(self) -> dict[str, object]:
        """Return it as JSON."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def read(cls, data: object) -> CallAnswer:
        """Read what ``fields`` gave; ``BadRecord`` names the first thing wrong with it."""
        row = cast("Mapping[str, object]", data if isinstance(data, Mapping) else {})
        status = row.get("status")
        if status not in ("ok", "failed"):
            raise BadRecord("bad_record", field="status", reason=Reason("not_one_of", known="ok, failed"))
        return cls(
            status="ok" if status == "ok" else "failed",
            text=_text(row, "text"),
            structured=row.get("structured"),
            error=_text(row, "error") or None,
            error_code=_text(row, "error_code") or None,
            error_params=_params(row.get("error_params")),
            retryable=row.get("retryable") is True,
            retry_after=_amount(row, "retry_after"),
            duration_ms=int(_amount(row, "duration_ms") or 0),
            executor=_text(row, "executor"),
            cli_version=_text(row, "cli_version"),
            model_version=_text(row, "model_version"),
            usage=_usage(row.get("usage")),
            cost_usd=_amount(row, "cost_usd"),
        )


def check_flags(flags: Iterable[str]) -> tuple[str, ...]:
    """Return a person's extra flags unchanged, or refuse one that is not on the list of allowed ones."""
    known = tuple(flags)
    for flag in known:
        name, equals, value = flag.partition("=")
        is_plain = _FLAG_VALUE.fullmatch(value) is not None
        if not (name in VALUE_FLAGS and is_plain if equals else name in SWITCHES):
            listed = ", ".join([*(f"{one}=…" for one in VALUE_FLAGS), *SWITCHES])
            shown = "".join(one if one.isprintable() else "�" for one in flag[:80])
            raise UserError("lab_flag_refused", flag=shown, allowed=listed)
    return known


def amount_of(value: object) -> float | None:
    """Read a number that tells how much: finite and not negative, or ``None``."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _text(row: Mapping[str, object], field: str) -> str:
    value = row.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadRecord("bad_record", field=field, reason=Reason("not_text"))
    return value


def _params(value: object) -> dict[str, str | int | float] | None:
    if not isinstance(value, Mapping):
        return None
    return plain_params({str(name): one for name, one in cast("Mapping[object, object]", value).items()})


def _amount(row: Mapping[str, object], field: str) -> float | None:
    value = row.get(field)
    amount = amount_of(value)
    if value is not None and amount is None:
        raise BadRecord("bad_record", field=field, reason=Reason("negative"))
    return amount


def _usage(value: object) -> CallUsage | None:
    if not isinstance(value, Mapping):
        return None
    row = cast("Mapping[str, object]", value)
    return CallUsage(
        input_tokens=int(_amount(row, "input_tokens") or 0),
        output_tokens=int(_amount(row, "output_tokens") or 0),
        cached_tokens=int(_amount(row, "cached_tokens") or 0),
    )
