"""The step that stores the account, unless its entries have changed meanwhile."""

from __future__ import annotations

from typing import Any

from nodes.compact.state import CompactState
from personalab.ports import ConversationArchive


async def store_compaction(state: CompactState, *, archive: ConversationArchive) -> dict[str, Any]:
    """Write the account and mark its entries, all of it or nothing; entries that came since do not matter."""
    dialogue = await archive.compact(
        state.get("session_id", ""),
        state.get("trigger", ""),
        state.get("account", ""),
        seen=state.get("seen", ""),
    )
    return {"dialogue": dialogue.fields(), "status": "done"}
