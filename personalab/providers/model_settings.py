"""Connection and timeout settings of a chat model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

ReasoningEffort = Literal["off", "low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How to reach a model and how patient to be with it; times are seconds."""

    api_key: str | None = field(default=None, repr=False)
    base_url: str | None = None
    """Any OpenAI-compatible server; without it, OpenAI."""
    first_token_seconds: float = 120.0
    """How long a service may take before it says anything at all."""
    stall_seconds: float = 60.0
    """How long it may pause after that."""
    connect_seconds: float = 15.0
    max_tries: int = 4
    """Tries before the first piece of the reply or of its reasoning; after it there is never another."""
    backoff_seconds: float = 0.5
    """The wait after the first failed try; it doubles with each."""
    temperature: float | None = None
    max_output_tokens: int | None = None
    reasoning: ReasoningEffort | None = None
    """How much a reasoning model may think before it answers; ``None`` leaves that to the provider."""
    rehearsal_delay: float = 0.01
    """Between two pieces of a rehearsed reply."""
    local_context: int = 8192
    """Tokens a ``local:`` model keeps in mind; memory grows with it."""
    local_threads: int = 0
    """Threads a ``local:`` model runs on; 0: one per core. On a busy machine fewer are faster."""
    proxies: Callable[[], Mapping[str, str]] = dict
    """Returns the proxy for each kind of URL (``http``, ``https``, ``all``) and the hosts without one (``no``)."""
    traced: bool = False
    """Whether LangSmith traces the calls: only those of LangChain's models can be."""
