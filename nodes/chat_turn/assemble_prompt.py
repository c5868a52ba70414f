"""Put the prompt together within its budget; hand it out when the caller writes the reply."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from nodes.chat_turn.state import TurnEmitter, TurnState
from personalab.dialogue import Message
from personalab.ports import TokenCounter
from personalab.story.macros import parse_examples, replaced
from personalab.story.open_turn import Loaded, Scene
from personalab.story.prompt import (
    Prompt,
    PromptMaterial,
    assemble,
    check_budget,
    past_turns,
    uncounted_characters,
    with_reminder,
)

QUICK_TURNS = 500
QUICK_CHARACTERS = 20_000
"""So many turns, with so many characters that were not counted yet, keep the event loop busy for a moment only."""


async def assemble_prompt(
    state: TurnState, *, scene: Scene, counter: TokenCounter, emitter: TurnEmitter
) -> dict[str, Any]:
    """Assemble, count, warn; a prompt over its limit ends the turn and leaves the user line to be retried."""
    prompt = await assembled(state, scene, counter)
    config = scene.data.preferences.config
    tokens = {**prompt.token_report(config.max_total_tokens), "encoding": counter.encoding}
    emitter.warn(check_budget(prompt, config))
    messages = prompt.messages
    if state.get("is_wordless_before"):
        messages = with_reminder(messages, wordless_reminder(scene.data))
    update: dict[str, Any] = {"tokens": tokens, "prompt": _as_json(messages)}
    if state.get("mode") == "begin":
        emitter.emit(
            {
                "type": "awaiting_reply",
                "turn": scene.number,
                "session_id": scene.instance.current_session_id,
                "prompt": update["prompt"],
                "tokens": tokens,
            }
        )
        update |= {"status": "awaiting_reply", "warnings": scene.warnings}
    return update


def material_of(state: Mapping[str, Any], scene: Scene) -> PromptMaterial:
    """Collect what the prompt is made of from the steps before, with the names put into the authors' texts."""
    director: Mapping[str, Any] = state.get("director") or {}
    lore: Mapping[str, str] = state.get("lore") or {}
    data, told = scene.data, scene.character.instructions
    fill, templates = data.names.fill, data.templates
    return PromptMaterial(
        base_persona=fill(scene.character.base_persona),
        evolved_persona=scene.character.evolved_persona,
        player=state.get("player") or "",
        world_setting=fill(data.background.world_setting),
        system_prompt=fill(replaced(told.system_prompt, templates["system_prompt"])),
        post_history=fill(replaced(told.post_history_instructions, templates["post_history_instructions"])),
        lore_before=lore.get("before", ""),
        lore_after=lore.get("after", ""),
        examples=parse_examples(told.example_dialogue, data.names),
        outline=director.get("outline"),
        reminder=director.get("reminder"),
        recalled=[item["text"] for item in state.get("recalled", [])],
        turns=scene.transcript.turns,
    )


async def assembled(state: Mapping[str, Any], scene: Scene, counter: TokenCounter) -> Prompt:
    """Assemble the prompt, in a thread when there is much to count or to put together."""
    data = scene.data

    def work() -> Prompt:
        material = material_of(state, scene)
        return assemble(material, data.templates, counter.count, data.preferences.config)

    if is_quick(scene, counter, _head_characters(state, scene)):
        return work()
    return await asyncio.to_thread(work)


def is_quick(scene: Scene, counter: TokenCounter, more: int = 0) -> bool:
    """Return whether the turns, and so many more characters, can be counted without delaying other requests."""
    turns, templates = scene.transcript.turns, scene.data.templates
    if scene.data.preferences.config.conversation_load_all:
        turns = turns[past_turns(turns, templates, counter.count) :]
    if len(turns) > QUICK_TURNS or more > QUICK_CHARACTERS:
        return False
    return more + uncounted_characters(turns, templates, counter.count) <= QUICK_CHARACTERS


def _head_characters(state: Mapping[str, Any], scene: Scene) -> int:
    """Measure what the prompt holds beside the turns; most of it is the same in every turn, and may be huge."""
    character = scene.character
    lore: Mapping[str, str] = state.get("lore") or {}
    texts = (
        character.base_persona,
        character.evolved_persona,
        character.instructions.system_prompt,
        character.instructions.post_history_instructions,
        character.instructions.example_dialogue,
        scene.data.background.world_setting,
        state.get("player") or "",
        lore.get("before", ""),
        lore.get("after", ""),
        *(point.content for point in scene.data.background.story_outline),
        *(item["text"] for item in state.get("recalled", [])),
    )
    return sum(map(len, texts))


def wordless_reminder(data: Loaded) -> str:
    """Say that the last reply had no words."""
    return data.names.fill(data.templates["empty_reply_reminder"]).strip()


def _as_json(prompt: Sequence[Message]) -> dict[str, Any]:
    messages = list(prompt)
    system = messages.pop(0)["content"] if messages and messages[0]["role"] == "system" else ""
    return {"system": system, "messages": messages}
