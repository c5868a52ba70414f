"""Options of calls: those of a project's run, and the files of the ``claude`` command line."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal

from pydantic import Field, field_validator

from personalab.errors import Invalid, UserError
from personalab.lab.calling import check_flags
from personalab.lab.projects import CallConfig, ContextConfig
from personalab.lab.records import AssetKind, Filled, Number, Record, Time, parse_time
from personalab.texts import PromptLanguage

NO_SKILL_ID = "00000000-0000-4000-8000-000000000000"
"""The id of the arm that has no skill; no asset has it."""
NO_SKILL_VERSION = "v1"
NO_SKILL_NAME = "No skill"
NO_SKILL = "Answer the request.\n"
"""The prompt used in place of a skill."""
MAX_CONCURRENCY = 64


class RunOptions(Record):
    """``x_run.json``: how a project is run."""

    model: Filled
    timeout_seconds: Number = Field(default=60, gt=0, le=86_400)
    retry_count: int = Field(default=2, ge=0, le=20)
    extra_flags: tuple[str, ...] = ()
    concurrency: int = Field(default=4, ge=1, le=MAX_CONCURRENCY)
    repeats: int = Field(default=1, ge=1, le=100)
    """How often each case is executed."""
    judges: tuple[Filled, ...] = Field(default=(), max_length=16)
    """The models that judge; the one that executes where none is named."""
    judge_repeats: int = Field(default=1, ge=1, le=100)
    max_calls: int | None = Field(default=None, ge=0)
    max_usd: Number | None = Field(default=None, ge=0)
    no_skill_arm: bool = False
    controls: bool = True
    """Whether the judges are first tested on planted answers."""
    language: PromptLanguage | None = None
    """The language of the judges' questions; that of the cases if none is named."""
    pass_score: Number = Field(default=60, ge=0, le=100)
    backoff_seconds: Number = Field(default=1, ge=0, le=600)
    """How long to wait before the first retry; each further one waits twice as long."""
    backoff_limit: Number = Field(default=60, ge=0, le=3_600)
    """No retry waits longer, whatever a service asks for."""

    @field_validator("extra_flags")
    @classmethod
    def _harmless(cls, flags: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return check_flags(flags)
        except UserError as error:
            raise Invalid("nested", reason=error) from error

    @field_validator("judges")
    @classmethod
    def _different(cls, judges: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(judges))

    def judging(self) -> tuple[str, ...]:
        """Name the models that judge."""
        return self.judges or (self.model,)

    def call_config(self) -> CallConfig:
        """Return the part of it that the source's ``config.json`` has."""
        return CallConfig(
            model=self.model,
            timeout_seconds=self.timeout_seconds,
            retry_count=self.retry_count,
            extra_flags=self.extra_flags,
        )


MEASURED = (
    *("model", "extra_flags", "repeats", "judges", "judge_repeats", "no_skill_arm", "controls", "language"),
    "pass_score",
)
"""Options that affect the scores: they cannot be changed once there are results."""


def options_from(config: CallConfig) -> RunOptions:
    """Make the options of a project that another program made."""
    return RunOptions.read(
        {
            "model": config.model,
            "timeout_seconds": config.timeout_seconds,
            "retry_count": config.retry_count,
            "extra_flags": config.extra_flags,
        },
        "config.json",
    )


def changed_options(options: RunOptions, changes: Mapping[str, Any], *, begun: bool) -> RunOptions:
    """Change options for the next run; once it has ``begun`` to measure, only what does not change the scores."""
    for name in changes:
        if name not in RunOptions.model_fields:
            raise UserError("lab_no_option", option=name[:80], options=", ".join(RunOptions.model_fields))
    fresh = options.changed(**changes)
    if begun:
        for name in MEASURED:
            if getattr(fresh, name) != getattr(options, name):
                raise UserError("lab_option_fixed", option=name)
    return fresh


SessionPurpose = Literal["auto_tag", "baseline_gen"]
SessionStatus = Literal["active", "closed", "expired"]


class CliSettings(Record):
    """``cli/config.json``."""

    cli_path: Filled
    default_model: str
    default_timeout_seconds: Number = Field(default=60, gt=0, le=86_400)
    default_retry_count: int = Field(default=2, ge=0, le=20)
    temp_session_ttl_days: int = Field(default=7, ge=0, le=3_650)
    context: ContextConfig
    updated_at: Time


class TempSession(Record):
    """``cli/temp_session/{session_id}.json``."""

    session_id: Filled
    created_at: Time
    expires_at: Time
    purpose: SessionPurpose
    related_target_type: AssetKind
    related_target_id: Filled
    status: SessionStatus
    context_exports: tuple[str, ...]

    def is_over(self, now: str) -> bool:
        """Return whether it has expired."""
        return parse_time(now) >= parse_time(self.expires_at)

    @property
    def is_settled(self) -> bool:
        """Whether it is marked as expired and names no export."""
        return self.status == "expired" and not self.context_exports


def expiry(created_at: str, ttl_days: int) -> str:
    """Return when a session expires."""
    return (parse_time(created_at) + timedelta(days=ttl_days)).strftime("%Y-%m-%dT%H:%M:%SZ")
