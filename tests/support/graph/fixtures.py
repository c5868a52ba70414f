"""Turns of these tests recall from a library in memory."""

from __future__ import annotations

import pytest

from personalab.services import Services
from personalab.testing.in_memory import InMemoryLibrary


@pytest.fixture(autouse=True)
def library(services: Services) -> InMemoryLibrary:
    """An empty event library."""
    found = InMemoryLibrary()
    services.__dict__["library"] = found
    return found
