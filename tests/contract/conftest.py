"""Every suite here runs on every adapter."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.contract.worlds import WORLDS, StoryWorld


@pytest.fixture(params=sorted(WORLDS))
def world(request: pytest.FixtureRequest, tmp_path: Path) -> StoryWorld:
    """Each adapter in turn."""
    return WORLDS[request.param](tmp_path)
