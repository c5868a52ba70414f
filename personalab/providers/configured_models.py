"""The models that a remote client may name: the configured ones, and those of the same services.

A name such as ``scripted:PATH`` or ``local:PATH`` opens a file of this machine, so only the person who
configures the server may choose it. Names of models at a configured service open no local files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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
