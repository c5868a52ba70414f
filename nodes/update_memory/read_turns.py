"""The step that reads the last turns, and refuses a session without anything to learn from."""

from __future__ import annotations

from typing import Any

from nodes.summarize.material import read_material
from nodes.update_memory.state import UpdateState
from personalab.errors import UserError
from personalab.ports import StoryPorts
from personalab.story.persona import turns_to_learn_from
from personalab.story.persona_history import revision_of


async def read_turns(state: UpdateState, *, ports: StoryPorts) -> dict[str, Any]:
    """Find the turns to look back on, and who the character is by now."""
    instance_id = state.get("instance_id", "")
    material = await read_material(ports, instance_id)
    character, _ = await ports.stories.persona(instance_id)
    session_id = material.instance.current_session_id
    turns = turns_to_learn_from(material.transcript)
    if not turns:
        raise UserError("nothing_to_learn", instance_id=instance_id, session_id=session_id)
    last = material.transcript.last
    return {
        "preview": bool(state.get("dry_run")),
        "session_id": session_id,
        "turns": [turns[0].number, turns[-1].number],
        "last_turn": last.number if last else 0,
        "before": character.evolved_persona,
        "evolved_persona": character.evolved_persona,
        "revision": revision_of(character),
    }
