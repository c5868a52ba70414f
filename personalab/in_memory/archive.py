"""Archives of conversations in memory."""

from __future__ import annotations

from typing import cast

from personalab.archive.veloca import CompactedDialogue, new_id, to_milliseconds
from personalab.archive.veloca_archive import Archive, find_entry, find_session
from personalab.archive.veloca_compaction import CompactionMaterial, check_unchanged, compacted, material_of
from personalab.errors import NotFound
from personalab.in_memory.stories import InMemoryStories
from personalab.tasks import complete


class InMemoryArchive:
    """Implements ``ConversationArchive``."""

    def __init__(self, shared: InMemoryStories, name: str) -> None:
        self._shared = shared
        self.name = name

    async def material(self, session: str, trigger: str | None) -> CompactionMaterial:
        """Read what a compaction before the trigger would sum up now."""
        await self._shared.gate("material")
        archive = self._archive()
        session_id = find_session(archive.sessions(), session, self.name).session_id
        entry_id = find_entry(archive.entries(), trigger, self.name).entry_id if trigger is not None else None
        return material_of(archive, session_id, entry_id)

    async def compact(
        self, session_id: str, trigger_entry_id: str, summary: str, *, seen: str
    ) -> CompactedDialogue:
        """Write a summary and mark the entries it replaces."""

        async def write() -> CompactedDialogue:
            await self._shared.gate("compact")
            archive = self._archive()
            material = material_of(archive, session_id, trigger_entry_id)
            check_unchanged(material, seen)
            records = compacted(material, summary, new_id(), to_milliseconds(self._shared.now()))
            archive.put_records(records)
            return cast("CompactedDialogue", records[-1])

        return await complete(write())

    def _archive(self) -> Archive:
        found = self._shared.archives.get(self.name)
        if found is None:
            raise NotFound("no_archive", file=self.name)
        return found
