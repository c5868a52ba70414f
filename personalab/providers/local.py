"""How does a GGUF file on this machine write replies?

llama.cpp runs in this process (``xllamacpp``). Its server listens on a loopback port whatever we do, so we
talk to it there, behind a random key. Closing the connection stops a generation, and a process may end during
one; with the library's Python callbacks it would be aborted then.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import secrets
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from personalab.errors import ProviderError
from personalab.providers.langchain_model import LangChainModel
from personalab.providers.model_settings import ModelSettings
from personalab.providers.openai_chat import OpenAIEndpoint, open_chat_openai

if TYPE_CHECKING:
    from langchain_openai import ChatOpenAI

_LONGEST_REPLY = 2048
# Tokens read at a time: a cancelled request is noticed after each, and on a CPU more brings little speed.
_BATCH = 256


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A loaded model and where it listens; the model stays loaded as long as this is kept."""

    url: str
    key: str = field(repr=False)
    handle: object = field(repr=False)


_servers: dict[tuple[str, int], LocalServer] = {}
_starting = threading.Lock()


def open_local_model(path: Path, settings: ModelSettings) -> LangChainModel:
    """Open a model file; it is loaded at the first reply, once per process."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise ProviderError("provider.not_installed", model=f"local:{path}", package="xllamacpp")
    if not path.is_file():
        raise ProviderError("provider.no_model_file", file=str(path))
    patient = replace(settings, max_output_tokens=settings.max_output_tokens or _LONGEST_REPLY)
    return LangChainModel(
        name=f"local:{path}",
        open_chat=partial(_open_chat, path, patient),
        settings=patient,
        openai_wire=True,
    )


@asynccontextmanager
async def _open_chat(path: Path, settings: ModelSettings) -> AsyncGenerator[ChatOpenAI]:
    server = await asyncio.to_thread(start_server, path, settings.local_context)
    endpoint = OpenAIEndpoint(
        model="local",
        base_url=f"{server.url}/v1",
        api_key=server.key,
        # Each batch of the prompt that was read is a sign of life: a slow machine is not a stalled one.
        extra_body={"return_progress": True},
    )
    async with open_chat_openai(endpoint, settings) as chat:
        yield chat


def start_server(path: Path, context: int) -> LocalServer:
    """Load a model and serve it on a loopback port, or give the one that is loaded already."""
    which = (os.path.realpath(path), context)
    with _starting:
        if which not in _servers:
            _servers[which] = _start(path, context)
        return _servers[which]


def _start(path: Path, context: int) -> LocalServer:
    import xllamacpp

    library: Any = xllamacpp
    key = secrets.token_urlsafe(24)
    params = library.CommonParams()
    params.model.path = str(path)
    params.n_ctx = context
    params.n_batch = params.n_ubatch = _BATCH
    params.n_gpu_layers = 0
    params.use_jinja = True
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.ui = params.warmup = params.endpoint_slots = False
    params.verbosity = -1
    try:
        handle = library.Server(params)
    except RuntimeError as error:
        raise ProviderError("provider.bad_model_file", file=path.name) from error
    return LocalServer(str(handle.listening_address), key, handle)
