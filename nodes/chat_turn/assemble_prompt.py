"""Put the prompt together within its budget; hand it out when the caller writes the reply."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from nodes.chat_turn.saying import Say
from nodes.chat_turn.state import TurnState
from personalab.ports import TokenCounter
from personalab.storage.turns import Scene
from personalab.story.lore import Lore
from personalab.story.macros import replaced
from personalab.story.prompt import Material, Prompt, assemble, check_budget

_QUICK_TURNS = 64
"""So many turns can be counted without keeping others waiting."""


async def assemble_prompt(
    state: TurnState, *, scene: Scene, lore: Lore, counter: TokenCounter, say: Say
) -> dict[str, Any]:
    """Assemble, count, warn; a prompt over its limit ends the turn and leaves the user line to be retried."""
    prompt = await assembled(material_of(state, scene, lore), scene, counter)
    config = scene.data.preferences.config
    tokens = {**prompt.token_report(config.max_total_tokens), "encoding": counter.encoding}
    say.warn(check_budget(prompt, config))
    update: dict[str, Any] = {"tokens": tokens, "prompt": _as_json(prompt)}
    if state.get("mode") == "begin":
        say.emit(
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


def material_of(state: Mapping[str, Any], scene: Scene, lore: Lore) -> Material:
    """Collect what the prompt is made of from the steps before, with the names put into the authors' texts."""
    director: Mapping[str, Any] = state.get("director") or {}
    data, told = scene.data, scene.character.instructions
    fill, templates = data.names.fill, data.templates
    return Material(
        base_persona=fill(scene.character.base_persona),
        evolved_persona=scene.character.evolved_persona,
        player=state.get("player") or "",
        world_setting=fill(data.background.world_setting),
        system_prompt=fill(replaced(told.system_prompt, templates["system_prompt"])),
        post_history=fill(replaced(told.post_history_instructions, templates["post_history_instructions"])),
        lore_before=lore.before,
        lore_after=lore.after,
        outline=director.get("outline"),
        reminder=director.get("reminder"),
        recalled=[item["text"] for item in state.get("recalled", [])],
        turns=scene.transcript.turns,
    )


async def assembled(material: Material, scene: Scene, counter: TokenCounter) -> Prompt:
    """Assemble the prompt, aside from the event loop when there is much to count."""
    data = scene.data
    arguments = (material, data.templates, counter.count, data.preferences.config)
    uncounted = sum(1 for known in material.turns[-_QUICK_TURNS - 1 :] if not known.memo)
    if uncounted > _QUICK_TURNS or len(scene.user_input) > 10_000:
        return await asyncio.to_thread(assemble, *arguments)
    return assemble(*arguments)


def _as_json(prompt: Prompt) -> dict[str, Any]:
    messages = list(prompt.messages)
    system = messages.pop(0)["content"] if messages and messages[0]["role"] == "system" else ""
    return {"system": system, "messages": messages}
