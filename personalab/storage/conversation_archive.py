"""Archives of conversations as files: where they are, and the port that compaction needs."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from personalab.archive.veloca import CompactedDialogue
from personalab.archive.veloca_archive import EntryFilter, find_entry, find_session
from personalab.archive.veloca_compaction import CompactionMaterial, check_unchanged
from personalab.errors import NotFound
from personalab.storage.veloca import VelocaStore
from personalab.tasks import run_uncancellable

FOLDER = "archive"


@dataclass(frozen=True, slots=True)
class ArchivePlace:
    """The location of an archive, its displayed name, and how long to wait for it."""

    path: Path
    shown: str
    wait: float
    in_root: bool
    """Whether it is one of the data root's: then its folder is made when it is first written."""

    @property
    def is_there(self) -> bool:
        """Whether any of its files exists; inaccessible ones are reported when it is opened."""
        for path in (self.path, self.path.with_name(f"{self.path.name}.journal")):
            try:
                os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                pass
            return True
        return False

    def missing(self) -> NotFound:
        """Return the error that there is no archive, with how to create one."""
        return NotFound("no_archive" if self.in_root else "no_archive_file", file=self.shown)

    def open(self) -> VelocaStore:
        """Open an archive that is there."""
        if not self.is_there:
            raise self.missing()
        return VelocaStore(self.path, wait=self.wait)


def archive_in_root(root: Path, name: str, *, wait: float) -> ArchivePlace:
    """Find an archive of a data root by its plain name."""
    return ArchivePlace(root / FOLDER / name, f"{FOLDER}/{name}", wait, in_root=True)


class FileArchive:
    """Implements ``ConversationArchive``; each call opens the files and closes them, whole for any other program."""

    def __init__(self, place: ArchivePlace) -> None:
        self._place = place

    @property
    def name(self) -> str:
        """The file's name."""
        return self._place.path.name

    async def material(self, session: str, trigger: str | None) -> CompactionMaterial:
        """Read what a compaction before the trigger would sum up now."""

        def read() -> CompactionMaterial:
            with self._place.open() as store:
                shown = self._place.shown
                session_id = find_session(store.sessions(status=None), session, shown).session_id
                if trigger is None:
                    return store.compaction_material(session_id)
                entries = store.entries(None, EntryFilter(status=None))
                return store.compaction_material(session_id, find_entry(entries, trigger, shown).entry_id)

        return await asyncio.to_thread(read)

    async def compact(
        self, session_id: str, trigger_entry_id: str, summary: str, *, seen: str
    ) -> CompactedDialogue:
        """Write a summary and mark the entries it replaces."""

        def write() -> CompactedDialogue:
            with self._place.open() as store:
                material = store.compaction_material(session_id, trigger_entry_id)
                check_unchanged(material, seen)
                return store.compact(session_id, summary, material=material)

        return await run_uncancellable(write)
