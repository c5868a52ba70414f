"""The step that stores the account, unless its entries have changed meanwhile."""

from __future__ import annotations

from typing import Any

from nodes.compact.material import same_as
from nodes.compact.state import CompactState
from personalab.operations.archives import ArchivePlace, write_summary
from personalab.tasks import run_uncancellable


async def store_compaction(state: CompactState, *, place: ArchivePlace) -> dict[str, Any]:
    """Write the account and mark its entries, all of it or nothing; entries that came since do not matter."""

    def store() -> dict[str, Any]:
        session_id, trigger = state.get("session_id", ""), state.get("trigger", "")
        account = state.get("account", "")
        check = same_as(state.get("seen", ""))
        return write_summary(place, session_id, trigger, account, check).fields()

    return {"dialogue": await run_uncancellable(store), "status": "done"}
