"""Opens the model that a name like ``openai:gpt-4o-mini`` refers to; what other names need is not imported."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from personalab.errors import ProviderError, Reason
from personalab.ports import ReplyModel
from personalab.providers.connections import NO_KEY, OPENAI_URL, OpenAIEndpoint
from personalab.providers.failures import clean_reason
from personalab.providers.model_settings import ModelSettings, ReasoningEffort
from personalab.providers.openai_source import OpenAISource
from personalab.providers.provider_model import ProviderModel, ReplySource

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


def open_model(name: str, *, settings: ModelSettings) -> ReplyModel:
    """Open the model of a name; no connection is made before the first reply.

    ``rehearsal``, ``scripted:PATH``, ``local:PATH.gguf``, ``openai:NAME``, or ``provider:NAME`` for any other
    provider whose LangChain package is installed.
    """
    provider, _, model = name.strip().partition(":")
    match provider:
        case "rehearsal" if not model:
            from personalab.testing.rehearsal import RehearsalModel

            return RehearsalModel(delay=settings.rehearsal_delay)
        case _ if not provider or not model:
            raise ProviderError("provider.unknown", model=name, reason=Reason("not_provider_model"))
        case "scripted":
            from personalab.testing.scripted import ScriptedModel

            return ScriptedModel.from_file(Path(model))
        case "local":
            from personalab.providers.local import open_local_model

            return open_local_model(Path(model), settings)
        case "openai":
            return _open_openai(model, settings)
        case _:
            return _open_other(provider, model, settings)


def _open_openai(model: str, settings: ModelSettings) -> ReplyModel:
    if not settings.api_key and not settings.base_url:
        raise ProviderError("provider.no_key", model=f"openai:{model}", variable="OPENAI_API_KEY")
    endpoint = OpenAIEndpoint(
        model, base_url=(settings.base_url or OPENAI_URL).rstrip("/"), api_key=settings.api_key or NO_KEY
    )
    source: ReplySource
    if settings.traced or endpoint.base_url == OPENAI_URL:  # LangChain knows the ways of OpenAI's own models
        from personalab.providers.langchain_source import LangChainSource, open_chat_openai

        source = LangChainSource(partial(open_chat_openai, endpoint, settings), settings, openai_wire=True)
    else:
        source = OpenAISource(partial(_ready, endpoint), settings)
    secrets = (settings.api_key,) if settings.api_key else ()
    return ProviderModel(f"openai:{model}", source, settings, secrets)


async def _ready(endpoint: OpenAIEndpoint) -> OpenAIEndpoint:
    return endpoint


def _open_other(provider: str, model: str, settings: ModelSettings) -> ReplyModel:
    """Open a model of another provider; its package reads its own key from the environment."""
    from langchain.chat_models import init_chat_model

    from personalab.providers.langchain_source import LangChainSource

    options = {"temperature": settings.temperature, "max_tokens": settings.max_output_tokens}
    given: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    given |= _reasoning_options(provider, settings.reasoning)
    name = f"{provider}:{model}"
    try:
        chat = cast("BaseChatModel", init_chat_model(model, model_provider=provider, **given))
    except ImportError as error:
        package = str(error).rpartition("pip install ")[2].strip(" `.") or provider
        raise ProviderError("provider.not_installed", model=name, package=package) from error
    except Exception as error:
        reason = clean_reason(str(error).partition("\n")[0])
        raise ProviderError("provider.unknown", model=name, reason=reason) from error
    return ProviderModel(name, LangChainSource(partial(_already_open, chat), settings), settings)


def _reasoning_options(provider: str, effort: ReasoningEffort | None) -> dict[str, Any]:
    """Return what a provider's package calls the effort; nothing for one whose word for it is not known."""
    match provider:
        case "ollama" if effort is not None:
            return {"reasoning": effort != "off"}  # most of its models know no levels
        case "anthropic" if effort is not None:
            return {"thinking": {"type": "disabled"}} if effort == "off" else {"effort": effort}
        case _:
            return {}


@asynccontextmanager
async def _already_open(chat: BaseChatModel) -> AsyncGenerator[BaseChatModel]:
    yield chat
