"""Compaction of Veloca sessions: the entries that a summary replaces, the resulting context, and undo.

A compacted dialogue replaces everything in its session before its trigger entry. Of those in use, the ones
with the latest trigger are shown; a later one includes an earlier one's summary in its own. Each names the
entries that it compacted in ``personalab.compacted`` and the dialogues that it includes in
``personalab.superseded``, so that an undo restores what it alone summarized.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

from personalab.archive.veloca import (
    COMPACTED,
    NORMAL,
    NOT_COMPACTED,
    OWN,
    UNUSED,
    ArchiveEntry,
    CompactedDialogue,
    Record,
    Role,
)
from personalab.archive.veloca_rules import Archive, made
from personalab.errors import BadRecord, NotFound

KEPT_ENTRIES = 4
"""Number of last entries that are not compacted if no trigger is named: two exchanges."""


@dataclass(frozen=True, slots=True)
class CompactionMaterial:
    """What a summary would be made of."""

    session_id: str
    trigger_entry_id: str
    entries: tuple[ArchiveEntry, ...]
    """The entries that would be compacted."""
    summaries: tuple[CompactedDialogue, ...]
    """The summaries of earlier entries that would be superseded: the new summary covers them, too."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a model should see of a session."""

    session_id: str
    summaries: tuple[CompactedDialogue, ...]
    entries: tuple[ArchiveEntry, ...]

    def messages(self) -> list[dict[str, Any]]:
        """Return it as messages with role, content and tools: the summaries first, as the system's."""
        role: Role = "system"
        told = [{"role": role, "content": found.summary, "tools": None} for found in self.summaries]
        said = [
            {"role": entry.role, "content": entry.message, "tools": entry.tools} for entry in self.entries
        ]
        return [*told, *said]


def context_of(archive: Archive, session_id: str) -> Context:
    """Collect what a model should see: the summaries in force, then the entries from their trigger on."""
    archive.live_session(session_id)
    entries = list(archive.entries(session_id))
    start, summaries = _in_force(archive, entries, session_id)
    return Context(session_id, tuple(summaries), tuple(entry for entry in entries[start:] if entry.is_seen))


def material_of(archive: Archive, session_id: str, trigger_entry_id: str | None = None) -> CompactionMaterial:
    """Collect what a compaction before the trigger would sum up.

    Without a trigger, the last ``KEPT_ENTRIES`` stay, and more of them until the first that stays is the user's.
    """
    archive.live_session(session_id)
    entries = list(archive.entries(session_id))
    start, summaries = _in_force(archive, entries, session_id)
    if trigger_entry_id is None:
        at = _default_trigger(entries, start, session_id)
    else:
        at = _place(archive, entries, session_id, trigger_entry_id)
    if at < start:
        raise BadRecord(
            "archive_trigger_early", entry_id=entries[at].entry_id, latest=entries[start].entry_id
        )
    found = tuple(entry for entry in entries[:at] if entry.is_seen)
    if not found:
        raise BadRecord("archive_nothing_to_compact", session_id=session_id)
    superseded = summaries if at > start else []
    return CompactionMaterial(session_id, entries[at].entry_id, found, tuple(superseded))


def compacted(material: CompactionMaterial, summary: str, dialogue_id: str, now: str) -> list[Record]:
    """Return the records that a compaction writes: the compacted entries, and the summary."""
    dialogue = made(
        "compacted_dialogues",
        {
            "entry_id": dialogue_id,
            "trigger_entry_id": material.trigger_entry_id,
            "summary": summary,
            "create_at": now,
            "status": NORMAL,
        },
        {
            OWN: {
                "compacted": [entry.entry_id for entry in material.entries],
                "superseded": [summary.entry_id for summary in material.summaries],
            }
        },
    )
    return [*(replace(entry, is_compaction=COMPACTED) for entry in material.entries), dialogue]


def undone(archive: Archive, dialogue_id: str) -> list[Record]:
    """Return the records that an undo writes: the dialogue as unused, and the entries that no other one tells."""
    dialogue = archive.dialogue(dialogue_id)
    if dialogue.status != NORMAL:
        raise BadRecord("archive_already_undone", dialogue_id=dialogue_id)
    unused = replace(dialogue, status=UNUSED)
    try:
        session_id = archive.entry(dialogue.trigger_entry_id).session_id
    except NotFound:
        return [unused]
    entries = list(archive.entries(session_id))
    of_session = archive.dialogues(session_id)
    others = [other for other in of_session if other.status == NORMAL and other.entry_id != dialogue_id]
    back = _told([dialogue], of_session, entries) - _told(others, of_session, entries)
    return [
        *(
            replace(entry, is_compaction=NOT_COMPACTED)
            for entry in entries
            if entry.is_compaction == COMPACTED and entry.entry_id in back
        ),
        unused,
    ]


def _told(
    dialogues: list[CompactedDialogue], of_session: list[CompactedDialogue], entries: list[ArchiveEntry]
) -> set[str]:
    """Name the entries that some dialogues tell: those they compacted, and those of the ones they superseded.

    What was superseded counts though it was undone since: its summary has been taken in. Another program's dialogue
    may tell any entry before its trigger.
    """
    by_id = {found.entry_id: found for found in of_session}
    places = {entry.entry_id: place for place, entry in enumerate(entries)}
    told: set[str] = set()
    seen: set[str] = set()
    left = list(dialogues)
    while left:
        found = left.pop()
        if found.entry_id in seen:
            continue
        seen.add(found.entry_id)
        listed = _own_ids(found, "compacted")
        if listed is None:
            told.update(entry.entry_id for entry in entries[: places[found.trigger_entry_id]])
        else:
            told.update(listed)
        left += [by_id[name] for name in _own_ids(found, "superseded") or () if name in by_id]
    return told


def _own_ids(dialogue: CompactedDialogue, name: str) -> list[str] | None:
    own = dialogue.extra.get(OWN)
    listed = cast("dict[str, Any]", own).get(name) if isinstance(own, dict) else None
    if not isinstance(listed, list):
        return None
    return [found for found in cast("list[object]", listed) if isinstance(found, str)]


def _in_force(
    archive: Archive, entries: list[ArchiveEntry], session_id: str
) -> tuple[int, list[CompactedDialogue]]:
    """Find the dialogues that are shown, and the place of their trigger."""
    live = [found for found in archive.dialogues(session_id) if found.status == NORMAL]
    if not live:
        return 0, []
    places = {entry.entry_id: place for place, entry in enumerate(entries)}
    start = max(places[found.trigger_entry_id] for found in live)
    return start, [found for found in live if places[found.trigger_entry_id] == start]


def _default_trigger(entries: list[ArchiveEntry], start: int, session_id: str) -> int:
    seen = [place for place, entry in enumerate(entries) if place >= start and entry.is_seen]
    if len(seen) <= KEPT_ENTRIES:
        raise BadRecord("archive_nothing_to_compact", session_id=session_id)
    latest = len(seen) - KEPT_ENTRIES
    asked = (place for place in reversed(seen[1 : latest + 1]) if entries[place].role == "user")
    return next(asked, seen[latest])


def _place(archive: Archive, entries: list[ArchiveEntry], session_id: str, entry_id: str) -> int:
    trigger = archive.entry(entry_id)
    if trigger.session_id != session_id:
        raise BadRecord("archive_trigger_other", entry_id=entry_id, session_id=session_id)
    if trigger.status != NORMAL:
        raise BadRecord("archive_trigger_deleted", entry_id=entry_id)
    return entries.index(trigger)
