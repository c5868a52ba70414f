"""The doctor, which checks every file of a data root and repairs what it can.

It trusts no file: a file may be a pipe, a loop of links, binary data or a single line of many megabytes.
Repairs are made under the instance's lock, and content that does not fit its format is set aside, never
deleted.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from personalab import config
from personalab.archive.books import read_book
from personalab.archive.cards import read_card
from personalab.archive.foreign_files import MAX_CARD_BYTES, load_json
from personalab.data_files import check_regular, make_folder, read_bytes, read_json, replace_file, write_json
from personalab.errors import Busy, PersonaLabError, as_reason, reason_of
from personalab.i18n import ABOUT
from personalab.operations.doctor_findings import DoctorReport, Finding
from personalab.operations.doctor_lab import examine_lab
from personalab.operations.doctor_sessions import repair_session, scan_session, session_findings, too_large
from personalab.services import Services
from personalab.storage.exchange import opened
from personalab.storage.preferences import MAX_TEMPLATE_BYTES
from personalab.storage.story_lock import running
from personalab.storage.veloca_backups import verify_archive
from personalab.story.persona_history import PersonaHistory, revision_of
from personalab.story.records import (
    Background,
    Character,
    CharacterState,
    InstanceState,
    initial_state,
    is_id,
    object_of,
)
from personalab.texts import PROMPT_LANGUAGES, Language

Progress = Callable[[str], None]
STALE_SECONDS = 60.0
"""Age in seconds at which a temporary file counts as abandoned."""
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.tmp|\.new-[0-9a-f]{8,12}")


async def examine_root(
    services: Services, *, fix: bool = False, progress: Progress = lambda name: None
) -> DoctorReport:
    """Check every file of the data root; with ``fix``, repair what can be repaired."""
    context = _DoctorContext(services, fix=fix)
    progress("config.json")
    await asyncio.to_thread(context.check_preferences)
    for kind in ("characters", "backgrounds"):
        progress(kind)
        await asyncio.to_thread(context.check_library, kind)
    folders = await asyncio.to_thread(context.instance_folders)
    for folder in folders:
        progress(f"instances/{folder.name}")
        await _examine_instance(services, context, folder)
    progress("event_library")
    await _examine_index(services, context)
    progress("memory")
    context.findings += await examine_memories(services, fix=fix)
    progress("archive")
    context.findings += await asyncio.to_thread(examine_archives, services)
    progress("workspace")
    found, looked_at = await examine_lab(services, context.leftovers, fix=fix)
    return DoctorReport([*context.findings, *found], len(context.seen) + looked_at)


async def _examine_instance(services: Services, context: _DoctorContext, folder: Path) -> None:
    """Look first; take the lock only where something can be repaired."""
    found = await asyncio.to_thread(_Instance(context, folder).check)
    if context.fix and any(finding.fixable for finding in found):
        try:
            async with services.leases.holding(folder.name, "doctor", wait=services.settings.busy_seconds):
                found = await asyncio.to_thread(_Instance(context, folder, fix=True).check)
        except PersonaLabError as error:
            code = "busy" if isinstance(error, Busy) else "not_repaired"
            found.append(Finding(code, context.shown(folder), params={"reason": error}))
    context.findings += found


async def _examine_index(services: Services, context: _DoctorContext) -> None:
    """Ask the event library for its state; it is derived, so a repair rebuilds it."""
    folder = services.settings.data_root / "event_library"
    if not folder.exists():
        return
    try:
        state = await services.library.state()
        code, params = f"index_{state.status}", {"embedder": state.embedder, "reason": ""}
    except Exception as error:  # noqa: BLE001 (a damaged index may raise anything; the doctor only reports it)
        code, params = "index_unreadable", {"reason": _Because(error)}
    if code not in ("index_other_embedder", "index_unreadable"):
        return
    finding = Finding(code, "event_library", params=params, fixable=True)
    context.findings.append(await _rebuilt(services, finding) if context.fix else finding)


@dataclass(frozen=True, slots=True)
class _Because:
    """A failure of the index, said after the sentence that it explains."""

    error: Exception

    def message(self, language: Language) -> str:
        """Return the message in the reader's language."""
        error = self.error
        words = error.message(language) if isinstance(error, PersonaLabError) else type(error).__name__
        return ABOUT.say("colon", language) + words


async def _rebuilt(services: Services, finding: Finding) -> Finding:
    from personalab.operations.reindex import reindex

    try:
        await reindex(services)
    except Exception as error:  # noqa: BLE001 (as above)
        return replace(finding, fixable=False, params={**finding.params, "reason": _Because(error)})
    return replace(finding, fixed=True)


@dataclass(slots=True)
class _DoctorContext:
    """The examination as a whole: what was found and how much was looked at."""

    services: Services
    fix: bool
    findings: list[Finding] = field(default_factory=list[Finding])
    seen: set[Path] = field(default_factory=set[Path])

    @property
    def root(self) -> Path:
        return self.services.settings.data_root

    def shown(self, path: Path) -> str:
        return self.services.stories.shown(path)

    # --- one file

    def unfit(self, path: Path) -> Finding | None:
        """Return why a path must not even be opened."""
        self.seen.add(path)
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            return Finding("missing", self.shown(path))
        except (OSError, ValueError) as error:
            return Finding("broken", self.shown(path), params={"reason": _why(error)})
        return None if stat.S_ISREG(mode) else Finding("not_a_file", self.shown(path))

    def read(self, path: Path, parse: Callable[[dict[str, Any]], object]) -> tuple[Any, Finding | None]:
        """Read a JSON file by its rule; give its record or what is wrong."""
        if (unfit := self.unfit(path)) is not None:
            return None, unfit
        try:
            return parse(object_of(read_json(path, self.shown(path)))), None
        except (PersonaLabError, ValueError, OSError) as error:
            return None, Finding("broken", self.shown(path), params={"reason": _why(error)})

    # --- folders

    def entries(self, folder: Path, findings: list[Finding]) -> list[Path]:
        """List a folder; one that is not there is empty."""
        try:
            return sorted(folder.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            findings.append(Finding("not_a_folder", self.shown(folder), params={"reason": _why(error)}))
            return []

    def leftovers(self, folder: Path, findings: list[Finding], *, fix: bool) -> None:
        """Find abandoned temporary files."""
        for path in self.entries(folder, []):
            if _TEMPORARY.fullmatch(path.name) and _is_stale(path):
                finding = Finding("leftover", self.shown(path), fixable=True)
                findings.append(replace(finding, fixed=_removed(path)) if fix else finding)

    def named_folders(self, folder: Path, findings: list[Finding]) -> Iterator[Path]:
        """Yield the folders whose names are ids; report the others."""
        for path in self.entries(folder, findings):
            if path.name.startswith("."):
                continue
            if not is_id(path.name):
                findings.append(Finding("bad_name", self.shown(path), level="note"))
            elif path.is_dir():
                yield path
            elif path.is_symlink():
                findings.append(Finding("not_a_folder", self.shown(path), params={"reason": "link"}))

    # --- what is not a story

    def check_preferences(self) -> None:
        """Check config.json, the modules and the prompt templates."""
        for folder in (self.root, self.root / "modules"):
            self.leftovers(folder, self.findings, fix=self.fix)
        if self.root.stat().st_mode & (stat.S_IROTH | stat.S_IXOTH):
            self.findings.append(Finding("root_readable", ".", level="note"))
        self._check_config()
        modules = {
            "director": config.read_director,
            "recall": config.read_recall,
            "memory": config.read_memory,
            "lorebook": config.read_lore,
        }
        for name, read in modules.items():
            path = self.root / "modules" / f"{name}.json"
            _, finding = self.read(path, read)
            optional = name != "director" or self._has_old_director_switch()
            if finding is not None and not (optional and finding.code == "missing"):
                self.findings.append(self._restored(path, finding))
        for language in PROMPT_LANGUAGES:
            self._check_templates(self.root / "prompt_templates" / language)

    def _has_old_director_switch(self) -> bool:
        """Return whether an older config.json holds the switch until the next save moves it."""
        switch, finding = self.read(self.root / "config.json", config.old_director_switch)
        return finding is None and switch is not None

    def _check_config(self) -> None:
        values, finding = self.read(self.root / "config.json", config.read_values)
        if finding is not None and finding.code == "missing":
            finding = replace(finding, fixable=True)
            if self.fix:
                finding = replace(finding, fixed=_works(self.services.preferences.reset))
        elif finding is None and values[1]:
            finding = Finding("config_value", "config.json", params={"fields": ", ".join(values[1])})
        elif finding is not None and finding.code == "broken":
            finding = replace(finding, code="config_broken")
        if finding is not None:
            self.findings.append(finding)

    def _check_templates(self, folder: Path) -> None:
        for path in self.entries(folder, self.findings):
            if path.suffix != ".txt" or path.name.startswith("."):
                continue
            finding = self.unfit(path)
            if finding is None:
                try:
                    read_bytes(path, self.shown(path), MAX_TEMPLATE_BYTES).decode("utf-8-sig")
                except (PersonaLabError, ValueError) as error:
                    finding = Finding("broken", self.shown(path), params={"reason": _why(error)})
            if finding is not None:
                self.findings.append(self._restored(path, finding))

    def _restored(self, path: Path, finding: Finding) -> Finding:
        """Offer the shipped file in place of one that cannot be used; with ``fix``, put it there."""
        shipped = self.services.settings.shipped / path.relative_to(self.root)
        if finding.code not in ("missing", "broken") or not shipped.is_file():
            return finding
        finding = replace(finding, fixable=True)
        return replace(finding, fixed=_works(lambda: _restore(path, shipped))) if self.fix else finding

    def check_library(self, kind: str) -> None:
        """Check the characters or the backgrounds."""
        name, field_name = {
            "characters": ("definition.json", "character_id"),
            "backgrounds": ("background.json", "background_id"),
        }[kind]
        read = Character.read if kind == "characters" else Background.read
        self.leftovers(self.root / kind, self.findings, fix=self.fix)
        for folder in self.named_folders(self.root / kind, self.findings):
            self.leftovers(folder, self.findings, fix=self.fix)
            self.findings += examine_beside(self.services, folder)
            record, finding = self.read(folder / name, lambda data, folder=folder: read(folder.name, data))
            if finding is not None:
                self.findings.append(finding)
                continue
            given = record.source.get(field_name, folder.name)
            if given != folder.name:
                self.findings.append(_mismatch(self.shown(folder / name), field_name, given, folder.name))

    def instance_folders(self) -> list[Path]:
        """Find the instances, and what creating one left behind."""
        folder = self.root / "instances"
        self.leftovers(folder, self.findings, fix=self.fix)
        return list(self.named_folders(folder, self.findings))


@dataclass(slots=True)
class _Instance:
    """The examination of one instance; with ``fix``, the caller holds its lock."""

    context: _DoctorContext
    folder: Path
    fix: bool = False
    found: list[Finding] = field(default_factory=list[Finding])

    def check(self) -> list[Finding]:
        """Check the state files and every session."""
        try:
            state, finding = self.context.read(self.folder / "instance_state.json", InstanceState.read)
            self._add(finding)
            self._check_character(state)
            self._check_history()
            writing = self._check_lock()
            for folder in (self.folder, self.folder / "sessions"):
                self.context.leftovers(folder, self.found, fix=self.fix)
            for path in self.context.entries(self.folder / "sessions", self.found):
                if path.suffix == ".jsonl" and not path.name.startswith("."):
                    self._check_session(path, state, writing=writing)
            if state is not None:
                self._check_state(state)
        except OSError as error:
            self._add(Finding("broken", self.context.shown(self.folder), params={"reason": _why(error)}))
        return self.found

    def _add(self, finding: Finding | None) -> None:
        if finding is not None:
            self.found.append(finding)

    def _check_character(self, state: InstanceState | None) -> None:
        """Check the character's state; a missing one is rebuilt from the character's definition."""
        path = self.folder / "character_state.json"
        _, finding = self.context.read(path, _read_character)
        if finding is not None and finding.code == "missing" and state is not None:
            with suppress(PersonaLabError):
                character = self.context.services.stories.character(state.character_id)
                fresh = initial_state(character)
                finding = replace(finding, fixable=True)
                if self.fix:
                    done = _works(lambda: write_json(path, fresh.fields(), self.context.shown(path)))
                    finding = replace(finding, fixed=done)
        self._add(finding)

    def _check_history(self) -> None:
        """Check how the character grew; a history that cannot be read is set aside, and another one begun."""
        path = self.folder / "persona_history.json"
        if not os.path.lexists(path):
            return
        _, finding = self.context.read(path, PersonaHistory.read)
        if finding is not None:
            finding = replace(finding, fixable=True)
            finding = replace(finding, fixed=_works(lambda: _set_aside(path))) if self.fix else finding
        self._add(finding)

    def _check_lock(self) -> bool:
        """Return whether another process is writing now; report a stop request that nobody waits for."""
        lock = self.folder / ".lock"
        if lock.exists() and not lock.is_file():
            self._add(Finding("not_a_file", self.context.shown(lock)))
            return False
        writing = not self.fix and running(self.folder) is not None
        for stop in [] if writing else sorted(self.folder.glob(".stop*")):
            finding = Finding("stop_leftover", self.context.shown(stop), fixable=True)
            self._add(replace(finding, fixed=_removed(stop)) if self.fix else finding)
        return writing

    def _check_session(self, path: Path, state: InstanceState | None, *, writing: bool) -> None:
        shown = self.context.shown(path)
        if not is_id(path.stem):
            self._add(Finding("bad_name", shown, level="note"))
            return
        if path.is_symlink():
            self.context.seen.add(path)
            self._add(Finding("not_a_file", shown))
            return
        if (unfit := self.context.unfit(path)) is not None:
            self._add(unfit)
            return
        try:
            if (reason := too_large(path)) is not None:
                self._add(Finding("broken", shown, params={"reason": reason}))
                return
            scan = scan_session(path)
            if self.context.services.stories.closes_loop(self.folder.name, path.stem):
                scan.cut_loop()
        except OSError as error:
            self._add(Finding("broken", shown, params={"reason": _why(error)}))
            return
        found = session_findings(scan, shown, self.folder.name, path.stem, writing=writing)
        if self.fix and any(finding.fixable for finding in found):
            created = (state.created_at if state else "") or self.context.services.now()
            stories = self.context.services.stories
            done = _works(lambda: repair_session(stories, self.folder.name, path, scan, created))
            found = [replace(finding, fixed=done and finding.fixable) for finding in found]
        self.found += found

    def _check_state(self, state: InstanceState) -> None:
        """Check what the state points to."""
        stories = self.context.services.stories
        shown = self.context.shown(self.folder / "instance_state.json")
        if state.instance_id != self.folder.name:
            self._add(_mismatch(shown, "instance_id", state.instance_id, self.folder.name))
        background = state.background_id
        if background and not (
            is_id(background) and (self.context.root / "backgrounds" / background).is_dir()
        ):
            self._add(Finding("background_missing", shown, params={"background_id": background[:80]}))
        if stories.session_path(self.folder.name, state.current_session_id).exists():
            return
        known = stories.session_ids(self.folder.name)
        params = {"session_id": state.current_session_id}
        finding = Finding("session_missing", shown, params=params, fixable=bool(known))
        if self.fix and known and state.instance_id == self.folder.name:
            moved = replace(state, current_session_id=known[-1])
            finding = replace(finding, fixed=_works(lambda: stories.save_instance(moved)))
        self._add(finding)


def _read_character(data: object) -> CharacterState:
    state = CharacterState.read(data)
    revision_of(state)
    return state


def _mismatch(shown: str, name: str, value: object, expected: str) -> Finding:
    return Finding(
        "id_mismatch", shown, params={"field": name, "value": str(value)[:80], "expected": expected}
    )


def _why(error: Exception) -> object:
    reason = reason_of(error)
    return reason[:300] if isinstance(reason, str) else reason


def _is_stale(path: Path) -> bool:
    try:
        return time.time() - path.lstat().st_mtime > STALE_SECONDS
    except OSError:
        return False


def _removed(path: Path) -> bool:
    def remove() -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()

    return _works(remove)


def _restore(path: Path, shipped: Path) -> None:
    """Restore a shipped file; an existing one is set aside under a free name."""
    make_folder(path.parent)
    if os.path.lexists(path):
        _set_aside(path)
    replace_file(path, shipped.read_bytes(), path.name)


def _set_aside(path: Path) -> None:
    """Move a file out of the way, under a free name."""
    aside, number = path.with_name(f"{path.name}.broken"), 1
    while os.path.lexists(aside):
        number += 1
        aside = path.with_name(f"{path.name}.broken{number}")
    os.rename(path, aside)


def _works(repair: Callable[[], object]) -> bool:
    """Try a repair; a disk that refuses leaves the finding as it is."""
    try:
        repair()
    except (PersonaLabError, OSError):
        return False
    return True


# --- cards, lorebooks and archives


ARCHIVES = "archive"
_SHOWN_PROBLEMS = 5
"""Maximum number of problems reported per archive."""


def examine_beside(services: Services, folder: Path) -> list[Finding]:
    """Check the card and the lorebook next to a character or a background."""
    reading: dict[str, Callable[[object], object]] = {
        "card.json": read_card,
        "lorebook.json": lambda data: read_book(data, folder.name),
    }
    found: list[Finding] = []
    for name, read in reading.items():
        path = folder / name
        if not path.exists():
            continue
        try:
            with opened(path) as (file, _):
                read(load_json(file.read(MAX_CARD_BYTES + 1)))
        except PersonaLabError as error:
            found.append(
                Finding("beside_broken", services.stories.shown(path), params={"reason": as_reason(error)})
            )
    return found


def examine_archives(services: Services) -> list[Finding]:
    """Check the archives of the data root; ``personalab archive restore`` brings a broken one back."""
    folder = services.settings.data_root / ARCHIVES
    found: list[Finding] = []
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        shown = services.stories.shown(path)
        try:
            problems = verify_archive(path, wait=services.settings.busy_seconds).problems
        except PersonaLabError as error:
            found.append(Finding("archive_broken", shown, params={"reason": as_reason(error)}))
            continue
        for problem in problems[:_SHOWN_PROBLEMS]:
            found.append(Finding("archive_broken", shown, params={"reason": problem}))
    return found


# --- the database of memories


MEMORY_FILE = "memory/memory.db"
_DATABASE_PARTS = ("", "-wal", "-shm")


async def examine_memories(services: Services, *, fix: bool) -> list[Finding]:
    """Check the database of memories; of a damaged file, what can be read is saved into a new one."""
    path = services.settings.data_root / MEMORY_FILE
    if services.settings.database:
        return await _check_memory_store(services)
    if not path.exists():
        return []
    try:
        damage, aside = await asyncio.to_thread(inspect_database, path)
    except (PersonaLabError, OSError) as error:
        return [Finding("memory_unusable", MEMORY_FILE, params={"reason": as_reason(error)})]
    if not damage:
        notes = [Finding("memory_aside", MEMORY_FILE, params={"count": aside}, level="note")] if aside else []
        return [*notes, *await _check_memory_store(services)]
    finding = Finding("memory_broken", MEMORY_FILE, params={"reason": damage}, fixable=True)
    if not fix:
        return [finding]
    await services.memories.close()
    try:
        broken, counts = await asyncio.to_thread(_salvaged_database, path)
    except (OSError, sqlite3.Error, PersonaLabError) as error:
        return [finding, Finding("not_repaired", MEMORY_FILE, params={"reason": reason_of(error)})]
    params = {
        "file": f"memory/{broken.name}",
        "memories": counts["memories"],
        "entries": counts["memory_contents"],
        "conversations": counts["conversations"],
    }
    return [replace(finding, fixed=True), Finding("memory_saved", MEMORY_FILE, params=params, level="note")]


async def _check_memory_store(services: Services) -> list[Finding]:
    """Ask the store whether it can be used."""
    try:
        await services.memories.memories(limit=1)
    except PersonaLabError as error:
        name = "PERSONALAB_DATABASE" if services.settings.database else MEMORY_FILE
        return [Finding("memory_unusable", name, params={"reason": reason_of(error)})]
    return []


def inspect_database(path: Path) -> tuple[str, int]:
    """Return the damage of a database file, and the number of rows that were set aside in it."""
    from personalab.retrieval.memory.sqlite_file import is_damage

    for part in (*_DATABASE_PARTS, "-journal"):
        check_regular(f"{path}{part}", shown=f"{MEMORY_FILE}{part}")
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)
        ) as connection:
            found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
            if found != "ok":
                return " ".join(found.split())[:200], 0
            named = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'set_aside'"
            if not connection.execute(named).fetchone()[0]:
                return "", 0
            return "", int(connection.execute("SELECT count(*) FROM set_aside").fetchone()[0])
    except sqlite3.Error as error:
        # A file that is locked or on a full disk is not damaged: the store itself says what is wrong.
        return (" ".join(str(error).split())[:200] if is_damage(error) else ""), 0


def _salvaged_database(path: Path) -> tuple[Path, dict[str, int]]:
    """Set a damaged file aside and save what can be read of it; give where it is, and what was saved."""
    from personalab.retrieval.memory.sqlite_file import salvage

    number = 1
    while any(path.with_name(f"{path.name}.broken{number}{part}").exists() for part in _DATABASE_PARTS):
        number += 1
    broken = path.with_name(f"{path.name}.broken{number}")
    for part in _DATABASE_PARTS:
        whole = path.with_name(path.name + part)
        if whole.exists():
            os.rename(whole, broken.with_name(broken.name + part))
    return broken, salvage(broken, path)
