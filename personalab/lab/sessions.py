"""The files of the ``claude`` command line: its settings, and its temporary sessions."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import Field

from personalab.lab.projects import ContextConfig
from personalab.lab.records import AssetKind, Filled, Number, Record, Time, parse_time

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
