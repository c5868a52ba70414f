"""What do the tests of the providers share?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.openai_server import OpenAIServer

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@pytest.fixture(scope="session")
def gguf_path() -> Path:
    """Find the small real model that ``python tests/fetch_model.py`` brings."""
    pytest.importorskip("xllamacpp", reason="the extra 'local' is not installed")
    named = os.environ.get("PERSONALAB_TEST_GGUF")
    found = [Path(named)] if named else sorted((ROOT / "build" / "models").glob("*.gguf"))
    if not found:
        pytest.skip("no model in build/models; run: python tests/fetch_model.py")
    return found[0]
