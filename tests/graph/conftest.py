"""Turns of these tests recall from a library in memory."""

from __future__ import annotations

import pytest

from personalab.retrieval.in_memory import InMemoryLibrary
from personalab.services import Services


@pytest.fixture(autouse=True)
def library(services: Services) -> InMemoryLibrary:
    """An empty event library."""
    found = InMemoryLibrary()
    services.__dict__["library"] = found
    return found
