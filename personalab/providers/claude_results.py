"""Interpretation of the ``claude`` program's output, and whether a retry may help.

A call has succeeded only if its result says ``success`` and no error: a call that used up its turns ends with
exit code 0, and an error of the service is a "success" that has ``is_error``.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from personalab.dialogue import object_in
from personalab.errors import ProviderError, Reason
from personalab.lab.calling import Call, CallAnswer, CallUsage, amount_of
from personalab.lab.stored_errors import MAX_ERROR, plain_params
from personalab.providers.failures import clean_reason
from personalab.providers.well_formed import well_formed

Row = Mapping[str, object]

_TRIES = 64
"""Maximum lines tried as the beginning of a result, from the last one up."""
_START = re.compile(r"^[\[{]", re.MULTILINE)
_STATUS = re.compile(
    r"\b(?:API Error|Request failed|status(?: code)?|HTTP)\D{0,24}?\b([45]\d\d)\b", re.IGNORECASE
)
_BUSY = re.compile(r"rate.?limit|overloaded|too many requests|usage limit|limit reached", re.IGNORECASE)
_PASSING = re.compile(
    r"timed? ?out|connection (?:error|reset|refused|closed)|ECONNRE\w+|ETIMEDOUT|ENOTFOUND|EAI_AGAIN"
    r"|socket hang up|fetch failed|network error|internal server error",
    re.IGNORECASE,
)
# How the program itself begins such a line; the same words in the middle of an answer mean nothing.
_LOGIN = re.compile(
    r"^\s*(?:error:\s*|API Error:?\s*)?(?:invalid api key|not logged in|please run /login|unauthori[sz]ed"
    r"|oauth token|failed to authenticate|\{?[^\n]{0,60}\bauthentication_error)",
    re.IGNORECASE | re.MULTILINE,
)
_USAGE_ERROR = re.compile(
    r"^\s*error: .*?(?:unknown option|unknown command|argument missing|option '[^']*' .*invalid"
    r"|too many arguments|requires --|input must be provided|prompt file not found|is not valid JSON)",
    re.IGNORECASE | re.MULTILINE,
)
_NOT_STARTED = (126, 127)
_RESET_AT = re.compile(r"limit reached\|(\d{9,11})\b")


@dataclass(frozen=True, slots=True)
class ProgramExit:
    """How a run of the program ended."""

    returncode: int | None
    """``None`` where it ended unseen."""
    stderr: str
    duration_ms: int
    cli_path: str
    cli_version: str
    executor: str
    secrets: tuple[str, ...] = ()


def read_result(raw: bytes) -> Row | None:
    """Find the result in what the program wrote: whole, among other lines, or the last of a list of messages."""
    text = raw.decode("utf-8", "replace")
    starts = [match.start() for match in _START.finditer(text)]
    for start in (*starts[:1], *reversed(starts[1:][-_TRIES:])):
        if (found := _result_at(text, start)) is not None:
            return found
    return None


def answer_of(result: Row, call: Call, ending: ProgramExit) -> CallAnswer:
    """Turn a result into an answer, be it a success or not."""
    usage, version, cost = _accounts(result, call)
    text = _text(result.get("result"))
    duration = ending.duration_ms or int(amount_of(result.get("duration_ms")) or 0)
    structured = formed(result.get("structured_output"))
    failure = _failure_in(result, text, ending.secrets)
    if failure is None and call.schema is not None and structured is None:
        # If there is none either, the caller reports that and asks again.
        with contextlib.suppress(ValueError):
            structured = formed(object_in(text))
    return CallAnswer(
        status="failed" if failure else "ok",
        text=text,
        structured=structured,
        error=sentence_of(failure) if failure else None,
        error_code=failure.code if failure else None,
        error_params=plain_params(failure.params) if failure else None,
        retryable=failure.retryable if failure else False,
        retry_after=_retry_after(text) if failure and failure.retryable else None,
        duration_ms=duration,
        executor=ending.executor,
        cli_version=ending.cli_version,
        model_version=version,
        usage=usage,
        cost_usd=cost,
    )


def failed_answer(error: ProviderError, call: Call, ending: ProgramExit) -> CallAnswer:
    """Turn a failure without a result into an answer."""
    return CallAnswer(
        status="failed",
        error=sentence_of(error),
        error_code=error.code,
        error_params=plain_params(error.params),
        retryable=error.retryable,
        duration_ms=ending.duration_ms,
        executor=ending.executor,
        cli_version=ending.cli_version,
        model_version=call.model,
    )


def sentence_of(error: ProviderError) -> str:
    """Return a failure as one English line."""
    said = " ".join(str(error).split()) or error.code
    return said if len(said) <= MAX_ERROR else said[: MAX_ERROR - 1] + "…"


def no_result(raw: bytes, ending: ProgramExit) -> ProviderError:
    """Return why a run that ended has left no result."""
    said = ending.stderr or raw[-2000:].decode("utf-8", "replace")
    reason = clean_reason(said, ending.secrets)
    code = ending.returncode or 0
    if code in _NOT_STARTED:
        return ProviderError("provider.cli_missing", cli_path=ending.cli_path, reason=reason)
    if code > 0 and _USAGE_ERROR.search(said):
        return ProviderError("provider.cli_usage", reason=reason)
    if code > 0 and (known := _by_words(_status_in(said), said, reason)) is not None:
        return known
    if code:
        return ProviderError("provider.cli_crashed", retryable=True, exit=_exit_name(code), reason=reason)
    return ProviderError("provider.cli_garbage", retryable=True, reason=reason)


def _result_at(text: str, start: int) -> Row | None:
    try:
        value: object = _DECODER.raw_decode(text, start)[0]
    except (ValueError, RecursionError):
        return None
    rows = cast("list[object]", value) if isinstance(value, list) else [value]
    for row in reversed(rows):
        if isinstance(row, Mapping) and cast("Row", row).get("type") == "result":
            return cast("Row", row)
    return None


# JSON has no NaN or Infinity; where one occurs, the intended value is unknown.
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)


def _failure_in(result: Row, text: str, secrets: Sequence[str]) -> ProviderError | None:
    subtype = _text(result.get("subtype"))
    told = amount_of(result.get("api_error_status"))
    said = text or "; ".join(_text(row) for row in _rows(result.get("errors")))
    reason = clean_reason(said, secrets)
    if subtype == "success" and result.get("is_error") in (None, False):
        return None
    known = _by_words(int(told) if told else _status_in(said), said, reason)
    if subtype == "success":
        return known or ProviderError("provider.failed", reason=reason or Reason("no_reason"))
    # An error in mid-work has been paid for and mostly comes again with the same question: only what is known to
    # pass is worth another try. Limits on turns and money were set by a person.
    if subtype == "error_during_execution" and known is not None:
        return known
    why = f"{subtype}: {reason}" if reason else subtype
    return ProviderError("provider.cli_stopped", reason=clean_reason(why) or Reason("no_reason"))


def _by_words(status: int | None, said: str, reason: str) -> ProviderError | None:
    """Explain a status or a sentence of the service; ``None`` if it is unknown."""
    if status in (401, 403) or (status is None and _LOGIN.search(said)):
        return ProviderError("provider.cli_login", reason=reason)
    if status in (429, 529) or (status is None and _BUSY.search(said)):
        return ProviderError("provider.cli_busy", retryable=True, status=status or 429, reason=reason)
    if status is not None and (status == 408 or status >= 500):
        return ProviderError("provider.server", retryable=True, status=status)
    if status is not None and status >= 400:
        return ProviderError("provider.refused", status=status, reason=reason)
    if _PASSING.search(said):
        return ProviderError("provider.mid_stream", retryable=True, reason=reason)
    return None


def _status_in(said: str) -> int | None:
    found = _STATUS.search(said)
    return int(found[1]) if found else None


def _retry_after(text: str) -> float | None:
    found = _RESET_AT.search(text)
    return max(0.0, int(found[1]) - time.time()) if found else None


def _exit_name(code: int) -> str:
    number = -code if code < 0 else code - 128
    if code > 0 and not 0 < number < 65:
        return f"exit code {code}"
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"exit code {code}"


def _accounts(result: Row, call: Call) -> tuple[CallUsage | None, str, float | None]:
    """Sum up the tokens of all models, and tell which of them was the dearest and what all cost."""
    models = _row(result.get("modelUsage"))
    cost = amount_of(result.get("total_cost_usd"))
    if not models:
        told = _row(result.get("usage"))
        if not told:
            return None, call.model, cost
        names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
        return _usage([told], names), call.model, cost
    rows = {name: _row(value) for name, value in models.items()}
    names = ("inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens", "outputTokens")
    dearest = max(rows, key=lambda name: amount_of(rows[name].get("costUSD")) or 0.0)
    if cost is None:
        cost = sum(amount_of(row.get("costUSD")) or 0.0 for row in rows.values())
    return _usage(list(rows.values()), names), well_formed(dearest), cost


def _usage(rows: list[Row], names: tuple[str, str, str, str]) -> CallUsage:
    fresh, created, cached, output = (
        sum(int(amount_of(row.get(name)) or 0) for row in rows) for name in names
    )
    return CallUsage(input_tokens=fresh + created + cached, output_tokens=output, cached_tokens=cached)


def _row(value: object) -> Row:
    return cast("Row", value) if isinstance(value, Mapping) else {}


def _rows(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _text(value: object) -> str:
    return well_formed(value) if isinstance(value, str) else ""


def formed(value: object) -> object:
    """Make every text in a value well-formed, so that it can be written to a file; too deep a value is none."""
    try:
        return _formed(value)
    except RecursionError:
        return None


def _formed(value: object) -> object:
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [_formed(row) for row in cast("list[object]", value)]
    if isinstance(value, Mapping):
        return {well_formed(name): _formed(row) for name, row in cast("Row", value).items()}
    return value
