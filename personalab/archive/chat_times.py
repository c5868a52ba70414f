"""Parsing and formatting of message times in the formats that SillyTavern has used over the years.

A time without a zone is read as UTC, because no field names the writer's zone.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

_MILLISECONDS_FROM = 10**11
"""A smaller number counts seconds: as milliseconds it would be a day before 1974."""
_DIGITS = re.compile(r"\d{1,17}(?:\.\d{1,9})?", re.ASCII)
_WORN = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})\s*@\s*(\d{1,2})h\s*(\d{1,2})m\s*(\d{1,2})s(?:\s*(\d{1,3})ms)?", re.ASCII
)
_SPOKEN = re.compile(
    r"([A-Za-z]{3,9})\.? (\d{1,2}),? (\d{4}),? (\d{1,2}):(\d{1,2})(?::(\d{1,2}))? ?([AaPp])\.?[Mm]\.?",
    re.ASCII,
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LONGEST = 64
_EARLIEST_YEAR = 1000
"""Earlier years are not written with four digits everywhere."""


def moment_of(sent: object) -> datetime | None:
    """Read a time in any of its forms; ``None`` where it is none of them."""
    try:
        if isinstance(sent, int | float) and not isinstance(sent, bool):
            moment = _counted(float(sent))
        elif isinstance(sent, str) and len(sent) <= _LONGEST:
            moment = _written(sent.strip())
        else:
            return None
    except (ValueError, OverflowError, OSError):
        return None
    return moment if moment.year >= _EARLIEST_YEAR else None


def time_of(sent: object) -> str:
    """Return a time as our lines have it, in UTC to the second; blank where it cannot be read."""
    moment = moment_of(sent)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment is not None else ""


def sent_at(timestamp: str) -> str:
    """Return one of our times as SillyTavern writes a message's today; one that cannot be read stays as it is."""
    moment = moment_of(timestamp)
    return with_milliseconds(moment) if moment is not None else timestamp


def begun_at(timestamp: str) -> str:
    """Return one of our times as SillyTavern writes the beginning of a chat."""
    moment = moment_of(timestamp)
    if moment is None:
        return timestamp
    return f"{moment:%Y-%m-%d@%Hh%Mm%Ss}{moment.microsecond // 1000:03}ms"


def with_milliseconds(moment: datetime) -> str:
    """Write a time in ISO 8601 with milliseconds, in UTC."""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def _counted(number: float) -> datetime:
    return datetime.fromtimestamp(number / 1000 if number >= _MILLISECONDS_FROM else number, UTC)


def _written(text: str) -> datetime:
    if _DIGITS.fullmatch(text):
        return _counted(float(text))
    if worn := _WORN.fullmatch(text):
        year, month, day, hour, minute, second, milliseconds = (int(part or 0) for part in worn.groups())
        return datetime(year, month, day, hour, minute, second, milliseconds * 1000, tzinfo=UTC)
    if spoken := _SPOKEN.fullmatch(text):
        return _spoken(spoken)
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _spoken(found: re.Match[str]) -> datetime:
    month = _MONTHS.index(found[1][:3].lower()) + 1
    hour = int(found[4]) % 12 + (12 if found[7] in "Pp" else 0)
    return datetime(int(found[3]), month, int(found[2]), hour, int(found[5]), int(found[6] or 0), tzinfo=UTC)
