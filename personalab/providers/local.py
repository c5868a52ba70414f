"""Replies from a GGUF file on this machine.

llama.cpp runs in this process (``xllamacpp``). Its server always listens on a loopback port, so requests go
to that port, protected by a random key. Closing the connection stops a generation, and the process may end
during one; with the library's Python callbacks it would be aborted then.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import threading
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from personalab.errors import ProviderError
from personalab.providers.connections import OpenAIEndpoint
from personalab.providers.model_opening import ModelOpener, NotAModelFile, check_regular
from personalab.providers.model_settings import ModelSettings
from personalab.providers.openai_source import OpenAISource
from personalab.providers.provider_model import ProviderModel

_LONGEST_REPLY = 2048
_LOAD_SECONDS = 600.0
# Tokens read at a time: a cancelled request is noticed after each, and on a CPU more brings little speed.
_BATCH = 256
_THINKING: dict[str | None, dict[str, object]] = {"off": {"chat_template_kwargs": {"enable_thinking": False}}}

# Small models fall into loops. "Don't repeat yourself" (DRY) makes a run of tokens less likely the longer it repeats
# an earlier one. In Chinese, shorter runs than these are common words: forbidding them drives a model into English.
_SPEECH: dict[str, object] = {
    "dry_multiplier": 0.8,
    "dry_base": 1.75,
    "dry_allowed_length": 8,
    "dry_penalty_last_n": 2048,
}
# Quotation marks and colons end a run, so the form of JSON is not penalised: only texts that never end.
_JSON = {**_SPEECH, "dry_allowed_length": 16}


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A loaded model and where it listens; the model stays loaded as long as this is kept."""

    url: str
    key: str = field(repr=False)
    handle: object = field(repr=False)


_loading = ModelOpener()
_servers: dict[tuple[str, int, int], LocalServer] = {}
_starting = threading.Lock()


def open_local_model(path: Path, settings: ModelSettings) -> ProviderModel:
    """Open a model file; it is loaded at the first reply, once per process."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise ProviderError("provider.not_installed", model=f"local:{path}", package="xllamacpp")
    try:
        check_regular(path)
    except NotAModelFile as error:
        raise ProviderError("provider.no_model_file", file=str(path), reason=error.reason) from error
    patient = replace(settings, max_output_tokens=settings.max_output_tokens or _LONGEST_REPLY)
    endpoint = partial(_endpoint, path, patient)
    source = OpenAISource(endpoint, patient, text_lengths=True, speech_body=_SPEECH, schema_body=_JSON)
    return ProviderModel(f"local:{path}", source, patient)


async def _endpoint(path: Path, settings: ModelSettings) -> OpenAIEndpoint:
    load = partial(start_server, path, settings.local_context, settings.local_threads)
    server = await _loading.run(f"local:{path}", load, seconds=_LOAD_SECONDS)
    return OpenAIEndpoint(
        model="local",
        base_url=f"{server.url}/v1",
        api_key=server.key,
        # Each batch of the prompt that was read is a sign of life: a slow machine is not a stalled one.
        extra_body={"return_progress": True, **_THINKING.get(settings.reasoning, {})},
    )


def start_server(path: Path, context: int, threads: int = 0) -> LocalServer:
    """Load a model and serve it on a loopback port, or give the one that is loaded already."""
    which = (os.path.realpath(path), context, threads)
    with _starting:
        if which not in _servers:
            _servers[which] = _start(path, context, threads)
        return _servers[which]


def _start(path: Path, context: int, threads: int) -> LocalServer:
    import xllamacpp

    library: Any = xllamacpp
    key = secrets.token_urlsafe(24)
    params = library.CommonParams()
    params.model.path = str(path)
    params.n_ctx = context
    params.n_batch = params.n_ubatch = _BATCH
    params.n_gpu_layers = 0
    if threads:
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
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
