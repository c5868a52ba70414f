"""Base types of workspace files, which are read leniently and written strictly, and the dimensions of scores.

Reading accepts what other programs wrote: any text as an id, times with fractions, and unknown fields, which
are kept. Writing refuses what the format forbids, so that our own files are always valid.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo

from personalab.errors import BadRecord, Invalid, Reason, pydantic_reason

Dimension = Literal[
    "functional_correctness",
    "robustness",
    "readability",
    "conciseness",
    "complexity_control",
    "format_compliance",
]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
MAXIMA: Mapping[Dimension, int] = dict(zip(DIMENSIONS, (30, 20, 15, 15, 10, 10), strict=True))
"""The most points of each; together they are 100."""

Category = Literal["standard", "boundary", "exception"]
CATEGORIES: tuple[Category, ...] = get_args(Category)


_STRICT = {"strict": True}
_VERSION = re.compile(r"v[1-9][0-9]{0,6}", re.ASCII)
_SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_CASE = re.compile(r"case_\d{3,6}", re.ASCII)
_SEGMENT = re.compile(r"seg_\d{3,6}", re.ASCII)
SHORT = 8
"""Characters of an id in the name of its folder."""


def _strictly(info: ValidationInfo) -> bool:
    context = info.context
    return isinstance(context, Mapping) and bool(context.get("strict"))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] (pydantic's context is anything)


def _uuid4(value: str, info: ValidationInfo) -> str:
    if not value:
        raise Invalid("empty")
    if _strictly(info) and not is_uuid4(value):
        raise Invalid("not_uuid4")
    return value


def is_uuid4(value: str) -> bool:
    """Return whether a text is a UUID of version 4 in its usual form."""
    try:
        found = uuid.UUID(value)
    except ValueError:
        return False
    return found.version == 4 and str(found) == value


def _utc_time(value: str, info: ValidationInfo) -> str:
    if _strictly(info) and not _SECONDS.fullmatch(value):
        raise Invalid("not_time_like", example="2024-01-01T12:00:00Z")
    parse_time(value)
    return value


def parse_time(value: str) -> datetime:
    """Read a time, with or without fractions of a second; one without a zone is UTC."""
    try:
        found = datetime.fromisoformat(value)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Invalid("not_iso_time") from None


def _version(value: str) -> str:
    if not _VERSION.fullmatch(value):
        raise Invalid("not_version_like", example="v1")
    return value


def _named(pattern: re.Pattern[str], example: str) -> AfterValidator:
    def check(value: str, info: ValidationInfo) -> str:
        if not value or (_strictly(info) and not pattern.fullmatch(value)):
            raise Invalid("not_like", example=example)
        return value

    return AfterValidator(check)


def _filled(value: str) -> str:
    if not value.strip():
        raise Invalid("empty")
    return value


Uuid = Annotated[str, AfterValidator(_uuid4)]
"""A UUID of version 4 when written; any text but an empty one when read."""
Time = Annotated[str, AfterValidator(_utc_time)]
Version = Annotated[str, AfterValidator(_version)]
CaseId = Annotated[str, _named(_CASE, "case_001")]
SegmentId = Annotated[str, _named(_SEGMENT, "seg_001")]
Filled = Annotated[str, AfterValidator(_filled)]
Count = Annotated[int, Field(ge=0, strict=True)]
_MOST = 10**15
Number = Annotated[int, Field(ge=-_MOST, le=_MOST)] | Annotated[float, Field(ge=-_MOST, le=_MOST)]
"""A whole number stays one: ``28`` is not written as ``28.0``."""
AssetKind = Literal["skill", "baseline"]


@dataclass(frozen=True, slots=True)
class Doubt:
    """Something in a file that contradicts itself; what is read is right nevertheless."""

    field: str
    reason: Reason


class Record(BaseModel):
    """One JSON object of the workspace; fields we do not know are kept as they came."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True)

    @classmethod
    def read(cls, data: object, file: str) -> Self:
        """Read what any program may have written; ``file`` is how an error names it."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise _worded(error, "lab_bad_record", file) from error

    def fields(self, file: str = "") -> dict[str, Any]:
        """Return its JSON object in the source's order; refuse one that does not strictly follow the format."""
        found = self.model_dump(mode="json", by_alias=True, exclude_unset=False)
        try:
            type(self).model_validate(found, context=_STRICT)
        except ValidationError as error:
            raise _worded(error, "lab_not_strict", file or type(self).__name__) from error
        return found

    def changed(self, **changes: object) -> Self:
        """Return a copy with other values, checked like a record that is read."""
        return self.read({**self.model_dump(by_alias=True), **changes}, type(self).__name__)

    def doubts(self) -> list[Doubt]:
        """List contradictions in the record."""
        return []


def _worded(error: ValidationError, code: str, file: str) -> BadRecord:
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(str(step) for step in first["loc"] if step not in ("int", "float")) or "–"
    return BadRecord(code, file=file, field=field, reason=pydantic_reason(first))


def next_version(version: str) -> str:
    """Return the version after this one."""
    return f"v{int(version[1:]) + 1}"


def asset_folder(kind: AssetKind, asset_id: str, version: str) -> str:
    """Name the folder of one version of an asset."""
    return f"{kind}_{asset_id[:SHORT]}_{version}"


def in_seconds(time: str) -> str:
    """Write a time as our files have it; what was read may have fractions of a second."""
    return parse_time(time).strftime("%Y-%m-%dT%H:%M:%SZ")


def compact_time(time: str) -> str:
    """Format a time as in the names of files: ``20240101120000``."""
    return parse_time(time).strftime("%Y%m%d%H%M%S")
