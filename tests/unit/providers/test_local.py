"""Tests of replies from a real small model, in this process and over HTTP."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from personalab.dialogue import Message
from personalab.errors import ProviderError
from personalab.ports import ReplyChunk
from personalab.providers.chat_models import open_model
from personalab.providers.local import LocalServer, start_server
from personalab.providers.model_settings import ModelSettings
from tests.support.providers.asking import ask, listen

CONTEXT = 1024
SETTINGS = ModelSettings(local_context=CONTEXT, local_threads=1, max_output_tokens=24, temperature=0.0)
QUESTION: tuple[Message, ...] = (
    {"role": "system", "content": "You are a helpful sailor."},
    {"role": "user", "content": "Tell me about the sea."},
)
TOO_LONG: tuple[Message, ...] = ({"role": "user", "content": "sea " * 3000},)


@pytest.fixture(scope="module")
def local(gguf_path: Path) -> LocalServer:
    return start_server(gguf_path, CONTEXT)


def test_a_model_file_writes_a_reply_with_its_usage(gguf_path: Path) -> None:
    model = open_model(f"local:{gguf_path}", settings=SETTINGS)
    heard = ask(model, QUESTION)
    assert heard.error is None
    assert len(heard.pieces) > 5
    assert "sea" in heard.text.lower()
    assert heard.usage is not None
    assert heard.usage["input_tokens"] > 10
    assert 5 < heard.usage["output_tokens"] <= 24
    assert model.name == f"local:{gguf_path}"


def test_the_same_model_writes_over_http(local: LocalServer) -> None:
    settings = replace(SETTINGS, api_key=local.key, base_url=f"{local.url}/v1")
    heard = ask(open_model("openai:smollm2", settings=settings), QUESTION)
    assert heard.error is None
    assert "sea" in heard.text.lower()
    assert heard.usage is not None


def test_nobody_else_may_use_the_loaded_model(local: LocalServer) -> None:
    settings = replace(SETTINGS, base_url=f"{local.url}/v1")
    assert ask(open_model("openai:smollm2", settings=settings), QUESTION).code == "provider.wrong_key"


def test_a_prompt_too_long_for_the_model_is_a_context_overflow(gguf_path: Path, local: LocalServer) -> None:
    assert (
        ask(open_model(f"local:{gguf_path}", settings=SETTINGS), TOO_LONG).code == "provider.context_overflow"
    )
    over_http = replace(SETTINGS, api_key=local.key, base_url=f"{local.url}/v1")
    assert ask(open_model("openai:smollm2", settings=over_http), TOO_LONG).code == "provider.context_overflow"


def test_a_model_is_loaded_once(gguf_path: Path, local: LocalServer) -> None:
    assert start_server(gguf_path, CONTEXT) is local


def test_cancelling_stops_the_generation(gguf_path: Path) -> None:
    """Processor time is compared, for the time on the clock depends on what else the machine does."""
    long = open_model(f"local:{gguf_path}", settings=replace(SETTINGS, max_output_tokens=80))

    async def work() -> tuple[float, float]:
        started = time.process_time()
        await listen(long, QUESTION)
        whole = time.process_time() - started
        async with aclosing(cast("AsyncGenerator[ReplyChunk]", long.stream(QUESTION))) as stream:
            await anext(stream)
        started = time.process_time()
        # The model has one slot: the next reply waits until the generation has ended.
        await listen(open_model(f"local:{gguf_path}", settings=replace(SETTINGS, max_output_tokens=1)))
        return whole, time.process_time() - started

    whole, rest = asyncio.run(work())
    assert rest < whole / 2


def test_the_terminal_stays_clean_and_the_process_may_end_in_mid_reply(gguf_path: Path) -> None:
    program = f"""
import asyncio
from personalab.providers.chat_models import open_model
from personalab.providers.model_settings import ModelSettings
async def main():
    model = open_model("local:{gguf_path}", settings=ModelSettings(local_context=512, local_threads=1))
    async for chunk in model.stream([{{"role": "user", "content": "Tell me a long story."}}]):
        if chunk.text:
            break
asyncio.run(main())
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_a_missing_model_file_is_named(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="the extra 'local' is not installed")
    with pytest.raises(ProviderError) as caught:
        open_model(f"local:{tmp_path / 'none.gguf'}", settings=SETTINGS)
    assert caught.value.code == "provider.no_model_file"
    assert "none.gguf" in str(caught.value)


def test_a_file_that_is_no_model_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("xllamacpp", reason="the extra 'local' is not installed")
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"GGUF" + b"\0" * 64)
    heard = ask(open_model(f"local:{path}", settings=SETTINGS))
    assert heard.code == "provider.bad_model_file"
    assert capfd.readouterr() == ("", "")
