"""The parts a graph works with, made from the settings; the only place that knows every adapter."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

from personalab.dialogue import well_formed
from personalab.errors import UserError
from personalab.leases import Leases
from personalab.ports import (
    Clock,
    Embedder,
    EventLibrary,
    Executor,
    MemoryStore,
    ReplyModel,
    StoryPorts,
    TokenCounter,
)
from personalab.providers.model_opening import ModelOpener
from personalab.providers.model_settings import ConfiguredModels, ModelSettings
from personalab.settings import Settings, environment_proxies, read_settings
from personalab.storage.lorebooks import LorebookFiles
from personalab.storage.preferences import PreferenceFiles
from personalab.storage.seed import seed
from personalab.storage.stories import StoryFiles
from personalab.storage.story_ports import open_file_ports
from personalab.story.open_turn import OpenTurns
from personalab.texts import Language, say

if TYPE_CHECKING:
    from personalab.storage.lab.assets import AssetFiles
    from personalab.storage.lab.projects import ProjectFiles
    from personalab.storage.lab.sessions import SessionFiles


def utc_now() -> str:
    """Tell the time: ISO 8601, UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


WORKSPACE = "workspace"
"""The lab's folder in the data root."""


@dataclass(eq=False)
class Services:
    """Everything below the graphs; heavy parts are made when first used."""

    settings: Settings
    now: Clock = utc_now
    models: dict[str, ReplyModel] = field(default_factory=dict[str, ReplyModel])
    """Models that are open, by name; a test puts its own here."""
    counters: dict[str, TokenCounter] = field(default_factory=dict[str, TokenCounter])
    """Counters by vocabulary."""
    programs: dict[str, Executor] = field(default_factory=dict[str, Executor])
    """Command lines that make calls, by path: their versions are asked for once."""
    graphs: dict[str, object] = field(default_factory=dict[str, object])
    """Graphs that were compiled over these services."""
    remote: bool = False
    """Whether requests come from other programs (web, MCP, a LangGraph server): these name only configured models."""
    opener: ModelOpener = field(default_factory=ModelOpener)
    adapters: StoryPorts | None = None
    """Where stories live; ``None`` for the files of the data root."""

    @cached_property
    def stories(self) -> StoryFiles:
        """Characters, backgrounds, instances, sessions."""
        return StoryFiles(self.settings.data_root)

    @cached_property
    def preferences(self) -> PreferenceFiles:
        """Settings, switches and prompt templates."""
        return PreferenceFiles(self.settings.data_root, self.settings.shipped)

    @cached_property
    def lorebooks(self) -> LorebookFiles:
        """What characters and backgrounds have to say when it is called up."""
        return LorebookFiles(self.stories)

    @cached_property
    def story_ports(self) -> StoryPorts:
        """Where stories live, for graphs and the operations they use."""
        return self.adapters or open_file_ports(
            self.stories, self.lorebooks, self.preferences, archive_wait=self.settings.busy_seconds
        )

    @cached_property
    def leases(self) -> Leases:
        """Who writes which instance."""
        return Leases(self.story_ports.lock)

    @cached_property
    def turns(self) -> OpenTurns:
        """The turns that are running in this process."""
        return OpenTurns(self.story_ports, self.leases, wait=self.settings.busy_seconds)

    @cached_property
    def library(self) -> EventLibrary:
        """The event library."""
        from personalab.retrieval.library import ChromaLibrary

        return ChromaLibrary(self.settings.data_root / "event_library", self._open_embedder)

    @cached_property
    def memories(self) -> MemoryStore:
        """What agents know about users: beside the stories, or in the configured database."""
        from personalab.retrieval.memory.store import DatabaseMemoryStore, open_backend

        backend = open_backend(self.settings.database, self.settings.data_root / "memory")
        return DatabaseMemoryStore(backend, self._open_embedder)

    # --- the lab

    @cached_property
    def assets(self) -> AssetFiles:
        """Skills and baselines."""
        from personalab.storage.lab.assets import AssetFiles

        return AssetFiles(self.settings.data_root / WORKSPACE)

    @cached_property
    def lab_sessions(self) -> SessionFiles:
        """How the command line is called, and its sessions that expire."""
        from personalab.storage.lab.sessions import SessionFiles

        return SessionFiles(self.settings.data_root / WORKSPACE)

    @cached_property
    def projects(self) -> ProjectFiles:
        """The lab's projects."""
        from personalab.storage.lab.projects import ProjectFiles

        return ProjectFiles(self.settings.data_root / WORKSPACE)

    def lab_model(self) -> str:
        """Tell which model the lab uses where none is named: its own if it can be called, else the turns' one."""
        from personalab.providers.claude_cli import find_program

        settings = self.lab_sessions.settings()
        callable_here = self._is_chat_model(settings.default_model) or find_program(settings.cli_path)
        return settings.default_model if callable_here else self.settings.model

    def _is_chat_model(self, name: str) -> bool:
        return name == "rehearsal" or ":" in name or name in self.models

    async def executor(self, model: str) -> Executor:
        """Open who makes the lab's calls: a chat model by ``provider:model``, else the ``claude`` command line."""
        if self._is_chat_model(model):
            from personalab.providers.chat_executor import ChatExecutor

            return ChatExecutor(await self._opened_for_lab(model))
        from personalab.providers.claude_cli import ClaudeCli

        await asyncio.to_thread(self.check_model, model)
        path = (await asyncio.to_thread(self.lab_sessions.settings)).cli_path
        if path not in self.programs:
            self.programs[path] = ClaudeCli(path, environment=self.settings.for_programs)
        return self.programs[path]

    async def _opened_for_lab(self, model: str) -> ReplyModel:
        """Open a chat model for the lab, where nobody watches the stand-in type."""
        if model == "rehearsal" and model not in self.models:
            from personalab.testing.rehearsal import RehearsalModel

            return RehearsalModel(delay=0)
        return await self.model(model)

    async def close(self) -> None:
        """Let go of what is open; what is used again opens itself."""
        if "memories" in vars(self):
            await self.memories.close()

    def _open_embedder(self) -> Embedder:
        from personalab.retrieval.embedders import open_embedder

        return open_embedder(
            self.settings.embeddings,
            api_key=self.settings.openai_api_key,
            base_url=self.settings.openai_base_url,
        )

    def model_name(self, name: str | None = None) -> str:
        """Tell which model answers."""
        return name or self.settings.model

    async def model(self, name: str | None = None) -> ReplyModel:
        """Open the model that answers; it stays open."""
        chosen = self.model_name(name)
        if chosen not in self.models:
            if chosen != self.settings.model:
                await asyncio.to_thread(self.check_model, chosen)
            self.models[chosen] = await self.opener.run(chosen, partial(self._open_model, chosen))
        return self.models[chosen]

    def check_model(self, name: str, field: str = "model") -> None:
        """Refuse a model that is not configured, where a remote client may have named it; this reads a file."""
        if not self.remote or name == self.settings.model:
            return
        chosen = {self.settings.model, self.lab_sessions.settings().default_model, *self.models}
        has_openai = bool(self.settings.openai_api_key or self.settings.openai_base_url)
        if not ConfiguredModels(frozenset(chosen), has_openai).allows(name):
            raise UserError("model_not_configured", field=field, model=well_formed(name[:80]))

    def _open_model(self, name: str) -> ReplyModel:
        from personalab.providers.chat_models import open_model

        settings = ModelSettings(
            api_key=self.settings.openai_api_key,
            base_url=self.settings.openai_base_url,
            reasoning=self.settings.reasoning,
            proxies=environment_proxies,
            traced=self.settings.tracing not in (None, "off"),
        )
        return open_model(name, settings=settings)

    async def counter(self, model: str | None = None) -> TokenCounter:
        """Count tokens as the answering model does; the first time reads the vocabulary."""
        from personalab.providers.tokens import OfflineCounter, encoding_for

        encoding = encoding_for(self.model_name(model))
        if encoding not in self.counters:
            fresh = OfflineCounter(encoding)
            await asyncio.to_thread(fresh.count, "")
            self.counters[encoding] = fresh
        return self.counters[encoding]


def open_services(settings: Settings | None = None) -> Services:
    """Make the services of a data root; a new root is filled with the shipped samples."""
    settings = settings or read_settings()
    if settings.tracing is not None:
        limit_tracing(settings.tracing)
    seed(settings.data_root, settings.shipped)
    return Services(settings)


def tracing_notice(services: Services, language: Language | None = None) -> str | None:
    """Word what leaves the machine by tracing; ``None`` where nothing does."""
    mode = services.settings.tracing
    if mode is None or mode == "off":
        return None
    return say(f"tracing.{mode}", language or services.preferences.language())


HIDDEN = "hidden by PERSONALAB_TRACING"


@cache
def limit_tracing(mode: str) -> None:
    """Send nothing (``off``) or no texts (``hidden``) from this process; ``full`` leaves everything as it is.

    LangSmith's client is configured rather than its environment: its lookups of variables are cached, and the
    variables that hide inputs and outputs do not hide errors, which may quote either.
    """
    if mode == "full":
        return
    import langsmith

    if mode == "off":
        langsmith.configure(enabled=False)
        return
    client = langsmith.Client(hide_inputs=True, hide_outputs=True, hide_metadata=True, anonymizer=_hide)
    langsmith.configure(client=client)


def _hide(fields: dict[str, Any]) -> dict[str, Any]:
    return dict.fromkeys(fields, HIDDEN)
