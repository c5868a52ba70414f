"""The step that reads the entries to compact, and refuses a conversation without any."""

from __future__ import annotations

from typing import Any

from nodes.compact.state import CompactState
from personalab.archive.veloca import MAX_MESSAGE
from personalab.archive.veloca_compaction import fingerprint
from personalab.errors import BadRecord, Reason
from personalab.ports import ConversationArchive


async def read_entries(state: CompactState, *, archive: ConversationArchive) -> dict[str, Any]:
    """Find the entries before the trigger, and record their state; the caller's own summary is checked first."""
    session, trigger, given = (_text(state, name) for name in ("session_id", "trigger_entry_id", "summary"))
    _check(given)
    material = await archive.material(session or "", trigger)
    return {
        "session_id": material.session_id,
        "trigger": material.trigger_entry_id,
        "seen": fingerprint(material.entries, material.summaries),
        "entries": len(material.entries),
        "preview": bool(state.get("dry_run")),
        "given": given,
    }


def _text(state: CompactState, name: str) -> str | None:
    value = state.get(name)
    if value is None or isinstance(value, str):
        return value
    raise BadRecord("field_wrong", field=name, reason=Reason("not_text"))


def _check(summary: str | None) -> None:
    if summary is None:
        return
    if not summary.strip():
        raise BadRecord("field_missing", field="summary")
    if len(summary) > MAX_MESSAGE:
        raise BadRecord("field_too_long", field="summary", actual=len(summary), limit=MAX_MESSAGE)
