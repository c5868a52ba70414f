"""Routes that show and change the settings and the switches of the modules."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Field

from personalab.app import Application
from personalab.config import FIELDS, ChoiceSetting, IntRange, Name, Rule, Switch, Trigger
from personalab.results import Readable, ResultModel
from personalab.results.settings import SettingValues
from personalab.storage.preferences import Module
from personalab.story.events import Notice
from personalab.texts import Language
from web.desk import ContextDep
from web.shapes import RequestModel

router = APIRouter(prefix="/api/settings", tags=["settings"])

Dotted = Annotated[str, Field(max_length=80)]
Given = Any
"""Anything may be sent: what is no value of its setting is refused with the setting's range."""


class SettingChanges(RequestModel):
    """Settings to change, all of them or none."""

    values: Annotated[dict[Dotted, Given], Field(min_length=1, max_length=50)] = Field(
        description="Dotted names, such as preferences.language, and their new values"
    )


class Switched(RequestModel):
    """Whether a module is to work."""

    on: bool


class RuleOf(ResultModel):
    """What a setting may be."""

    type: Literal["whole", "choice", "switch", "name"]
    low: int | None = Field(default=None, description="The least whole number")
    high: int | None = Field(default=None, description="The greatest whole number")
    words: list[str] | None = Field(default=None, description="What to choose from")
    longest: int | None = Field(default=None, description="How many characters a name may have")


class Director(ResultModel):
    """Whether replies move the plot."""

    enabled: bool
    file: str = "modules/director.json"


class Recall(ResultModel):
    """When the past is looked up."""

    trigger: Trigger
    n_results: int
    file: str = "modules/recall.json"


class MemoryOfPlayer(ResultModel):
    """Whether and how much of what is known about the player stands in the prompt."""

    enabled: bool
    user_id: str
    max_tokens: int
    n_events: int
    file: str = "modules/memory.json"


class LorebookModuleResponse(ResultModel):
    """Whether and how much of the lorebooks stands in the prompt."""

    enabled: bool
    scan_depth: int
    max_tokens: int
    recursive: bool
    file: str = "modules/lorebook.json"


class Modules(ResultModel):
    """The switches of the modules; each stands in its own file of the data folder."""

    director: Director
    recall: Recall
    memory: MemoryOfPlayer
    lorebook: LorebookModuleResponse


class SettingsResponse(ResultModel):
    """Everything that is set."""

    values: SettingValues
    defaults: SettingValues
    rules: dict[str, RuleOf]
    modules: Modules
    notices: list[Readable] = Field(
        description="What cannot be used as it stands in its file, and what holds instead"
    )


@router.get("")
async def get_settings(desk: ContextDep) -> SettingsResponse:
    """Show every setting with its range and default, and the modules' switches."""
    return await asyncio.to_thread(_settings, desk.app)


@router.put("")
async def change_settings(desk: ContextDep, asked: SettingChanges) -> SettingsResponse:
    """Save some settings, all of them or none; they hold from the next turn on, in every process."""

    def change() -> SettingsResponse:
        return _settings(desk.app, desk.app.change_settings(asked.values))

    return await asyncio.to_thread(change)


@router.put("/modules/{module}")
async def switch_module(desk: ContextDep, module: Module, asked: Switched) -> SettingsResponse:
    """Switch a module on or off, from the next turn on; recall is on when it decides by itself."""

    def switch() -> SettingsResponse:
        desk.services.preferences.switch(module, on=asked.on)
        return _settings(desk.app)

    return await asyncio.to_thread(switch)


@router.post("/reset")
async def reset_settings(desk: ContextDep) -> SettingsResponse:
    """Restore the defaults, also where the file cannot be read any more; the language stays."""

    def reset() -> SettingsResponse:
        return _settings(desk.app, desk.app.reset_settings())

    return await asyncio.to_thread(reset)


def _settings(app: Application, values: SettingValues | None = None) -> SettingsResponse:
    """Return the settings as they are in the files now."""
    found = app.services.preferences.read()
    language = found.config.language
    recall, memory, lore = found.recall, found.memory, found.lore
    return SettingsResponse(
        values=app.settings() if values is None else values,
        defaults=SettingValues({name: rule.default for name, rule in FIELDS.items()}),
        rules={name: _rule(rule) for name, rule in FIELDS.items()},
        modules=Modules(
            director=Director(enabled=found.director.enabled),
            recall=Recall(trigger=recall.trigger, n_results=recall.n_results),
            memory=MemoryOfPlayer(**asdict(memory)),
            lorebook=LorebookModuleResponse(**asdict(lore)),
        ),
        notices=[_worded(notice, language) for notice in found.notices],
    )


def _rule(rule: Rule) -> RuleOf:
    match rule:
        case IntRange():
            return RuleOf(type="whole", low=rule.low, high=rule.high)
        case ChoiceSetting():
            return RuleOf(type="choice", words=list(rule.words))
        case Switch():
            return RuleOf(type="switch")
        case Name():
            return RuleOf(type="name", longest=rule.longest)


def _worded(notice: Notice, language: Language) -> str:
    return notice.event(None, language)["message"]
