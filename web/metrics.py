"""The server's counters, gauges and histograms in Prometheus' format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_QUICK = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """The counters of one server, in Prometheus' format."""

    def __init__(self) -> None:
        known = self._known = CollectorRegistry()
        self.turns = Counter(
            "personalab_turns", "Turns that ended, by how they ended", ["status"], registry=known
        )
        self.turn_seconds = Histogram(
            "personalab_turn_seconds", "How long turns took", buckets=_SECONDS, registry=known
        )
        self.first_token = Histogram(
            "personalab_first_token_seconds",
            "From the call of a turn to its first token",
            buckets=_SECONDS,
            registry=known,
        )
        self.tokens = Counter(
            "personalab_tokens", "Tokens of prompts and replies", ["direction"], registry=known
        )
        self.errors = Counter("personalab_errors", "Errors, by their code", ["code"], registry=known)
        self.requests = Counter(
            "personalab_http_requests",
            "Requests that were answered",
            ["method", "route", "status"],
            registry=known,
        )
        self.request_seconds = Histogram(
            "personalab_http_request_seconds",
            "How long requests took that are no streams",
            ["method", "route"],
            buckets=_QUICK,
            registry=known,
        )

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Add a gauge that is evaluated on each request."""
        Gauge(f"personalab_{name}", text, registry=self._known).set_function(value)

    def turn_ended(self, status: str, seconds: float) -> None:
        """Count a turn."""
        self.turns.labels(status).inc()
        self.turn_seconds.observe(seconds)

    def turn_elsewhere(self, result: Mapping[str, Any], seconds: float) -> None:
        """Count a turn that another entrance of this process has run; one that was refused is only an error."""
        if error := result.get("error"):
            self.errors.labels(error["code"]).inc()
        if result.get("turn") is not None:
            self.turn_ended(result.get("status", "error"), seconds)
            self.tokens_of(result.get("usage") or {}, result.get("tokens") or {})

    def tokens_of(self, usage: Mapping[str, Any], counted: Mapping[str, Any]) -> None:
        """Count what the provider says it used; where it does not say, what we counted of the prompt."""
        told = usage.get("input_tokens") or counted.get("total") or 0
        self.tokens.labels("input").inc(told)
        self.tokens.labels("output").inc(usage.get("output_tokens") or 0)

    def page(self) -> bytes:
        """Write everything in Prometheus' text format."""
        return generate_latest(self._known)
