"""Settings of chat models, and which models a remote client may name.

A name such as ``scripted:PATH`` or ``local:PATH`` opens a file of this machine, so only the person who
configures the server may choose it. Names of models at a configured service open no local files.
"""

from __future__ import annotations

import re
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


REHEARSAL = "rehearsal"
_OWN_FILES = frozenset({"scripted", "local", "huggingface"})
"""Providers whose names are files, or are fetched and loaded into this process."""
_ANY_SERVICE = frozenset({"litellm"})
"""Providers whose names choose another provider."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+\[\]-]*(?:[:/]+[A-Za-z0-9][A-Za-z0-9._@+\[\]-]*)*", re.ASCII)
_MAX_NAME = 150


@dataclass(frozen=True, slots=True)
class ConfiguredModels:
    """What is configured on this server."""

    names: frozenset[str]
    """Models that were chosen by name: for the turns, for the lab, or by the program around us."""
    has_openai: bool
    """Whether there is a key or an address for ``openai:`` models."""

    def allows(self, name: str) -> bool:
        """Return whether a remote client may name this model."""
        if name == REHEARSAL or name in self.names:
            return True
        provider, colon, model = name.partition(":")
        if not colon:  # a model of the claude command line, which is at the configured path
            return _is_plain(name) and "/" not in name
        return _is_plain(model) and provider in self._services()

    def _services(self) -> set[str]:
        """Name the providers whose other models may be named, too."""
        found = {name.partition(":")[0] for name in self.names if ":" in name}
        if self.has_openai:
            found.add("openai")
        return {one for one in found if _normal(one) not in _OWN_FILES | _ANY_SERVICE}


def _is_plain(name: str) -> bool:
    """Return whether a name can be nothing but a name: no path, no address, no flag."""
    return len(name) <= _MAX_NAME and _NAME.fullmatch(name) is not None and "//" not in name


def _normal(provider: str) -> str:
    """Write a provider as LangChain looks it up."""
    return provider.replace("-", "_").lower()
