"""Routes that preview the next turn's prompt, section by section, and search a story's past."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from graph.preview import Preview, preview_prompt
from nodes.chat_turn.append_input import MAX_INPUT_CHARACTERS
from personalab.config import RecallModule
from personalab.errors import UserError
from personalab.operations.recall import Depth
from personalab.ports import Preferences
from personalab.results import Readable, ResultModel
from personalab.results.stories import RecalledEvent
from personalab.services import Services
from personalab.story.open_turn import Scene
from personalab.story.prompt import HEAD_WARNING_TOKENS, PromptPart, check_budget
from personalab.story.recall import plan_lookup
from personalab.texts import say
from web.desk import ContextDep
from web.shapes import InstanceId, RequestModel, WarningResponse

router = APIRouter(prefix="/api/instances/{instance_id}", tags=["prompt"])

SHOWN_CHARACTERS = 20_000
"""Maximum characters shown of one section."""
_LONGEST_QUERY = 4_000
_UNSAID = "…"
"""Stands for what a person has not said yet."""
_HEAD = (
    "system_prompt", "lorebook_before_char", "base_persona", "evolved_persona", "lorebook_after_char",
    "player_memory", "background", "story_outline", "progress_instruction", "example_dialogue",
)  # fmt: skip
_MIDDLE = ("director_reminder", "recalled_events", "conversation", "post_history_instructions")
_FAILURES = {
    "player_memory": "memory_unavailable",
    "background": "background_unreadable",
    "recalled_events": "recall_unavailable",
}
"""The warning that tells that a section is missing because it could not be read."""


class PreviewRequest(RequestModel):
    """What a person might say next."""

    text: str = Field(default="", max_length=MAX_INPUT_CHARACTERS)


class PromptSection(ResultModel):
    """A part of the prompt, or one that is left out of it."""

    name: str
    title: str
    zone: Literal["head", "middle"]
    included: bool
    why: Readable = Field(description="Why it is in, or left out, in the reader's language")
    tokens: int
    characters: int
    cut: bool = Field(description="Whether the text is only the beginning of it")
    text: Readable


class PromptTokens(ResultModel):
    """How long the prompt is, and how long it may be."""

    total: int
    head: int
    middle: int
    is_counted: bool = Field(
        description="Whether all was counted; a prompt far over its limit has at least so many tokens"
    )
    encoding: str
    max_total: int = Field(description="A longer prompt is not sent")
    head_warning: int
    middle_warning: int


class LoreResponse(ResultModel):
    """An entry of a lorebook that was called up."""

    book: Readable
    name: Readable
    section: str
    tokens: int
    included: bool
    why: Readable


class PromptResponse(ResultModel):
    """What the next turn would send."""

    instance_id: str
    turn: int
    tokens: PromptTokens
    too_long: str | None = Field(description="Why the prompt would not be sent, if it is over its limit")
    sections: list[PromptSection] = Field(
        description="In the order of the prompt, also those that are left out"
    )
    recalled: list[RecalledEvent]
    lore: list[LoreResponse]
    warnings: list[WarningResponse]


class RecallResponse(ResultModel):
    """What was found in a story's past, the best first."""

    instance_id: str
    query: str
    events: list[RecalledEvent]


@router.get("/prompt")
async def preview(
    desk: ContextDep,
    instance_id: InstanceId,
    text: Annotated[str, Query(max_length=_LONGEST_QUERY, description="What would be said next")] = "",
) -> PromptResponse:
    """Assemble the prompt of the turn that would come next; nothing is written or sent."""
    return await _preview(desk.services, instance_id, text)


@router.post("/prompt")
async def preview_long(desk: ContextDep, instance_id: InstanceId, asked: PreviewRequest) -> PromptResponse:
    """Assemble it as ``GET`` does, for a text of any length that can be said."""
    return await _preview(desk.services, instance_id, asked.text)


@router.get("/recall")
async def recall(
    desk: ContextDep,
    instance_id: InstanceId,
    query: Annotated[str, Query(min_length=1, max_length=_LONGEST_QUERY)],
    n: Annotated[int, Query(ge=1, le=50)] = 10,
    depth: Depth = "auto",
) -> RecallResponse:
    """Search the story's past on purpose."""
    events = await desk.app.recall(instance_id, query, depth, n)
    return RecallResponse(instance_id=instance_id, query=query, events=events)


async def _preview(services: Services, instance_id: str, text: str) -> PromptResponse:
    said = text if text.strip() else _UNSAID
    found = await preview_prompt(services, instance_id, said)
    scene = await services.turns.preview(instance_id, said, services.now())
    return await asyncio.to_thread(_PromptPreview(scene, found, said).told)


@dataclass(frozen=True, slots=True)
class _PromptPreview:
    """A prompt preview, with everything that decides its content."""

    scene: Scene
    found: Preview
    said: str

    @property
    def preferences(self) -> Preferences:
        """What a person set."""
        return self.scene.data.preferences

    def told(self) -> PromptResponse:
        """Return the whole prompt."""
        config, found = self.preferences.config, self.found
        warnings, too_long = list(found.warnings), None
        try:
            notices = check_budget(found.prompt, config)
            warnings += [notice.event(found.turn, config.language) for notice in notices]
        except UserError as error:
            too_long = error.message(config.language)
        report = found.tokens
        return PromptResponse(
            instance_id=self.scene.instance.instance_id,
            turn=found.turn,
            tokens=PromptTokens(
                total=report["total"],
                head=report["head"],
                middle=report["middle"],
                is_counted=report["is_counted"],
                encoding=report["encoding"],
                max_total=config.max_total_tokens,
                head_warning=HEAD_WARNING_TOKENS,
                middle_warning=config.middle_section_warning_tokens,
            ),
            too_long=too_long,
            sections=self._sections(),
            recalled=[RecalledEvent(**event) for event in found.recalled],
            lore=[self._lore(hit) for hit in found.lore],
            warnings=[WarningResponse.model_validate(event) for event in warnings],
        )

    def _sections(self) -> list[PromptSection]:
        known = {section.name: section for section in self.found.prompt.sections}
        order = [(name, "head") for name in _HEAD] + [(name, "middle") for name in _MIDDLE]
        return [self._section(name, zone, known.get(name)) for name, zone in order]

    def _section(self, name: str, zone: Any, section: PromptPart | None) -> PromptSection:
        text = section.text if section else ""
        return PromptSection(
            name=name,
            title=self._say(f"section.{name}"),
            zone=zone,
            included=section is not None,
            why=self._why(name, section is not None),
            tokens=section.tokens if section else 0,
            characters=len(text),
            cut=len(text) > SHOWN_CHARACTERS,
            text=text[:SHOWN_CHARACTERS],
        )

    def _say(self, code: str, **params: object) -> str:
        return say(code, self.preferences.config.language, **params)

    # --- why

    def _why(self, name: str, included: bool) -> str:
        if not included and self._failed(name):
            return self._say("why.unread")
        match name:
            case "evolved_persona" if included:
                revision = self.scene.character.source.get("persona_revision")
                return self._say(
                    "why.evolved_persona" if revision else "why.evolved_by_hand", revision=revision
                )
            case "system_prompt" | "post_history_instructions" if included:
                own = getattr(self.scene.character.instructions, name).strip()
                return self._say(f"why.{name}" if own else "why.template", name=name)
            case "example_dialogue" if name in self.found.prompt.dropped:
                return self._say("why.examples_dropped", limit=self.preferences.config.max_total_tokens)
            case "lorebook_before_char" | "lorebook_after_char":
                return self._why_lore(name, included)
            case "player_memory":
                return self._why_player(included)
            case "story_outline" | "progress_instruction" | "director_reminder":
                return self._why_directed(name, included)
            case "recalled_events":
                return self._why_recalled(included)
            case "conversation" if included:
                return self._why_conversation()
            case _:
                return self._say(f"why.{name}" if included else f"why.no_{name}")

    def _failed(self, name: str) -> bool:
        return any(event["category"] == _FAILURES.get(name) for event in self.found.warnings)

    def _why_lore(self, name: str, included: bool) -> str:
        if included:
            shown = [hit for hit in self.found.lore if hit["shown"] and f"lorebook_{hit['position']}" == name]
            return self._say("why.lore", count=len(shown))
        return self._say("why.no_lore" if self.preferences.lore.enabled else "why.lore_off")

    def _why_player(self, included: bool) -> str:
        module = self.preferences.memory
        if included:
            return self._say("why.player_memory", limit=module.max_tokens)
        return self._say("why.no_player_memory" if module.enabled else "why.memory_off")

    def _why_directed(self, name: str, included: bool) -> str:
        if not self.preferences.director.enabled:
            return self._say("why.director_off")
        plot, outline = self.scene.instance.plot_state, self.scene.data.background.story_outline
        if not outline:
            return self._say("why.unread" if self._failed("background") else "why.no_outline")
        if name == "director_reminder":
            threshold = self.preferences.config.rag_fallback_threshold
            code = "why.reminder" if included else "why.no_reminder"
            return self._say(code, count=plot.no_update_count, threshold=threshold)
        if name == "story_outline":
            return self._say("why.outline", index=plot.current_plot_index, count=len(outline))
        return self._say("why.instruction")

    def _why_recalled(self, included: bool) -> str:
        module = self.preferences.recall
        lookup = plan_lookup(self.said, module)
        if lookup is None:
            return self._say("why.recall_off" if module.trigger == "off" else "why.recall_unasked")
        if not lookup.asked:
            return self._say("why.recall_sure" if included else "why.recall_unsure")
        if not included:
            return self._say("why.recall_nothing")
        if module.trigger == "always":
            return self._say("why.recall_always")
        return self._say("why.recall_asked", words=", ".join(_asking_words(self.said, module)))

    def _why_conversation(self) -> str:
        config = self.preferences.config
        numbers = {"first": self.found.prompt.first_turn, "last": self.found.turn}
        if config.conversation_load_all:
            return self._say("why.conversation", **numbers)
        return self._say("why.conversation_window", limit=config.conversation_max_tokens, **numbers)

    def _lore(self, hit: Mapping[str, Any]) -> LoreResponse:
        now = "_now" if hit["why"] == "key" and hit.get("ago") == 0 else ""
        words = {name: hit.get(name, "") for name in ("key", "ago", "caller")}
        why = self._say(f"lore.{hit['why']}{now}", **words)
        if not hit["shown"]:
            why = self._say("lore.left_out", why=why, reason=self._say(f"lore.{hit['left_out']}"))
        return LoreResponse(
            book=hit["book"],
            name=hit["name"] or hit["entry"],
            section=f"lorebook_{hit['position']}",
            tokens=hit["tokens"],
            included=hit["shown"],
            why=why,
        )


def _asking_words(said: str, module: RecallModule) -> list[str]:
    """Find the words of an input that ask for the past, each as the rule itself sees it."""
    words = module.keywords if module.trigger == "keywords" else module.keywords + module.auto_keywords
    alone = replace(module, trigger="keywords")
    return [word for word in dict.fromkeys(words) if plan_lookup(said, replace(alone, keywords=(word,)))][:5]
