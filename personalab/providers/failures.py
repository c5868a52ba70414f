"""Classification of provider failures, and whether a retry may help.

Every provider package has errors of its own. They are read by their attributes (status, code, body) and by
LangChain's own classes, so that this module imports no provider.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import cast

from personalab.errors import Because, Invalid, ProviderError

REASON_LENGTH = 300

_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|context ?window|maximum context length|max_model_len"
    r"|exceeds? the (available )?context|context (length|size) (is )?exceeded|prompt is too long"
    r"|input tokens exceed|input is too long|exceeds the maximum number of tokens",
    re.IGNORECASE,
)
_KEYS = re.compile(
    r"\b(sk|pk|rk|gsk|xai|hf|key)[-_][\w.*-]{4,}|\bAIza[\w-]{10,}|\bBearer\s+[^\s\"',;]+", re.IGNORECASE
)
# How an error event says that it will pass: by OpenAI's words, or by the status it would have had.
_PASSING = {"rate_limit_exceeded", "server_error", "overloaded_error", "overloaded", "408", "429"} | {
    str(status) for status in range(500, 600)
}
_ABOUT_SCHEMA = re.compile(
    r"response[_ -]?(?:format|schema)|json[_ -]?schema|structured[_ -]?output|grammar|guided|\bschemas?\b"
    r"|tool_choice|\btools?\b|additionalProperties|requested parameters|support .*parameters"
    r"|\bunknown (?:name|field|parameter|argument)|\bextra (?:fields|inputs)",
    re.IGNORECASE,
)
_LANGUAGE_ERRORS = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure in our words."""

    error: ProviderError
    transient: bool = False
    """Whether another try may help, as long as no text has been seen."""
    wait: float | None = None
    """The seconds the service asks to wait."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What was tried, and how often."""

    model: str
    tries: int = 1
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Secrets that must not appear in messages."""


def explain(error: Exception, attempt: Attempt) -> Failure:
    """Explain a provider's exception."""
    status = _status(error)
    words = _words(error)
    reason = error.reason if isinstance(error, Invalid) else clean_reason(words, attempt.secrets)
    if status not in (401, 403, 404, 429) and _is_overflow(error, words):
        return Failure(ProviderError("provider.context_overflow"))
    if status is not None:
        return _by_status(error, status, reason, attempt)
    if _is_connection(error):
        return Failure(ProviderError("provider.connection", retryable=True), transient=True)
    if isinstance(error, _LANGUAGE_ERRORS):
        return Failure(ProviderError("provider.bad_answer", retryable=True, reason=reason))
    if hasattr(error, "body"):
        transient = bool(_PASSING & {_field(error, "code"), _field(error, "type")})
        return Failure(ProviderError("provider.mid_stream", retryable=True, reason=reason), transient)
    return Failure(ProviderError("provider.failed", reason=reason))


def may_refuse_schema(error: Exception) -> bool:
    """Return whether a request may have failed only because of its schema; repeating it without one settles that.

    A wrong key, a limit, a prompt that is too long and a lost connection are never taken for that. A bad request that
    gives no reason is; a missing model or a failing server only where its words are about schemas.
    """
    status, words = _status(error) or _event_status(error), _words(error)
    if status in (401, 402, 403, 408, 413, 429) or _is_overflow(error, words):
        return False
    if status in (400, 415, 422, 501):
        return True
    body = getattr(error, "body", None)
    said = json.dumps(body, ensure_ascii=False, default=str) if body is not None else ""
    answered = status is not None or hasattr(error, "body")
    return answered and not _is_connection(error) and _ABOUT_SCHEMA.search(f"{words} {said}") is not None


def clean_reason(text: str, secrets: Sequence[str] = ()) -> str:
    """Make one short line of a provider's words, without keys and control characters."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    text = "".join(char if char.isprintable() else " " for char in text)
    line = " ".join(_KEYS.sub("***", text).split())
    return line if len(line) <= REASON_LENGTH else line[: REASON_LENGTH - 1] + "…"


def _by_status(error: Exception, status: int, reason: Because, attempt: Attempt) -> Failure:
    if status in (401, 403):
        return Failure(ProviderError("provider.wrong_key", status=status))
    if status == 404:
        return Failure(ProviderError("provider.not_found", model=attempt.model))
    if status == 429 and "insufficient_quota" not in (_field(error, "code"), _field(error, "type")):
        limited = ProviderError("provider.rate_limit", retryable=True, tries=attempt.tries)
        return Failure(limited, transient=True, wait=_retry_after(error))
    if status == 408 or status >= 500:
        failed = ProviderError("provider.server", retryable=True, status=status)
        return Failure(failed, transient=True, wait=_retry_after(error))
    return Failure(ProviderError("provider.refused", status=status, reason=reason))


def _status(error: Exception) -> int | None:
    for holder in (error, getattr(error, "response", None)):
        status = getattr(holder, "status_code", None)
        if isinstance(status, int) and status >= 400:
            return status
    return None


def _event_status(error: Exception) -> int | None:
    """Read the status that an error event in a stream names as its code."""
    code = _field(error, "code")
    return int(code) if hasattr(error, "body") and re.fullmatch(r"[45]\d\d", code, re.ASCII) else None


def _field(error: Exception, name: str) -> str:
    value = getattr(error, name, None)
    body = getattr(error, "body", None)
    if value is None and isinstance(body, Mapping):
        value = cast("Mapping[str, object]", body).get(name)
    return "" if value is None else str(value)


def _words(error: Exception) -> str:
    body = getattr(error, "body", None)
    if isinstance(body, Mapping):
        message = cast("Mapping[str, object]", body).get("message")
        if isinstance(message, str) and message:
            return message
    return str(error) or type(error).__name__


def _is_overflow(error: Exception, words: str) -> bool:
    if type(error).__name__.endswith("ContextOverflowError"):
        return True
    body = getattr(error, "body", None)
    said = json.dumps(body, ensure_ascii=False, default=str) if body is not None else ""
    return any(_OVERFLOW.search(text) for text in (words, said) if text)


_CONNECTION_ERRORS = frozenset(
    {
        "TransportError",
        "RequestError",
        "APIConnectionError",
        "ClientConnectionError",
        "ClientPayloadError",
        "ClientResponseError",
        "InvalidURL",
        "NonHttpUrlClientError",
    }
)
"""Names of errors of aiohttp, httpx and httpx2, which the clients of other providers use as well."""


def _is_connection(error: Exception) -> bool:
    from langchain_core.exceptions import ModelConnectionError, ModelTimeoutError

    if isinstance(error, (ModelConnectionError, ModelTimeoutError, OSError)):
        return True
    names = {kind.__name__ for kind in type(error).__mro__}
    return not names.isdisjoint(_CONNECTION_ERRORS)


def _retry_after(error: Exception) -> float | None:
    told = getattr(getattr(error, "response", None), "headers", None)
    headers = cast("Mapping[str, str]", told if told is not None else {})
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "")
    if (seconds := _number(value)) is not None:
        return seconds
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None


def _number(value: object) -> float | None:
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
