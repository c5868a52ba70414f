"""Storage of the ``claude`` command line's settings and its temporary sessions."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

from personalab.data_files import dump_json, refuse_link
from personalab.errors import Busy, NotFound, StorageError, UserError
from personalab.lab.assets import is_folder_name, unique_name
from personalab.lab.options import CliSettings, SessionPurpose, TempSession, expiry
from personalab.lab.projects import ContextConfig
from personalab.lab.records import AssetKind, compact_time, parse_time
from personalab.storage.lab.workspace import Workspace, folders_in

SPOOL = "x_spool"
_MAX_BYTES = 1024 * 1024


def default_settings(now: str) -> CliSettings:
    """Return the settings of a workspace that has none yet."""
    return CliSettings(
        cli_path="claude",
        default_model="claude-opus-4-6",
        default_timeout_seconds=60,
        default_retry_count=2,
        temp_session_ttl_days=7,
        context=ContextConfig(token_threshold=80_000, auto_compress=True, auto_export=True),
        updated_at=now,
    )


class SessionFiles:
    """The folder ``cli`` of a workspace; ``root`` is the workspace's folder."""

    def __init__(self, root: Path) -> None:
        self._workspace = Workspace(root)
        self._config = root / "cli" / "config.json"
        self._folder = root / "cli" / "temp_session"
        self._exports = self._folder / "exports"
        self.spool = root / SPOOL
        """The folder of the folders in which answers wait until they are read."""

    # --- settings

    def settings(self) -> CliSettings:
        """Read the settings; where there are none, the defaults are written."""
        if not os.path.lexists(self._config):
            made = default_settings(datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
            with contextlib.suppress(StorageError, Busy), self._workspace.writer():
                if not os.path.lexists(self._config):
                    self._write_settings(made)
            if not os.path.lexists(self._config):
                return made
        shown = self._workspace.shown(self._config)
        return CliSettings.read(self._workspace.read_json(self._config, _MAX_BYTES), shown)

    def save_settings(self, settings: CliSettings) -> None:
        """Replace the settings."""
        settings.fields("cli/config.json")
        with self._workspace.writer():
            self._write_settings(settings)

    def _write_settings(self, settings: CliSettings) -> None:
        self._workspace.replace(self._config, dump_json(settings.fields("cli/config.json")))

    def new_spool(self) -> Path:
        """Name a folder in which one question keeps its answers until they are read."""
        refuse_link(self.spool, self._workspace.shown(self.spool))
        return self.spool / str(uuid.uuid4())

    # --- sessions

    def open(self, purpose: SessionPurpose, target_type: AssetKind, target_id: str, now: str) -> TempSession:
        """Create a session; its name is unique even if others begin in the same second."""
        ttl = self.settings().temp_session_ttl_days
        with self._workspace.writer():
            taken = {path.stem for path in self._files()}
            made = TempSession(
                session_id=unique_name(f"tmp_sess_{compact_time(now)}", taken),
                created_at=now,
                expires_at=expiry(now, ttl),
                purpose=purpose,
                related_target_type=target_type,
                related_target_id=target_id,
                status="active",
                context_exports=(),
            )
            self._save(made)
        return made

    def session(self, session_id: str) -> TempSession:
        """Read a session."""
        path = self._path(session_id)
        if not os.path.lexists(path):
            raise NotFound("lab_no_session", session_id=session_id)
        data = self._workspace.read_json(path, _MAX_BYTES)
        return TempSession.read(data, self._workspace.shown(path))

    def exists(self, session_id: str) -> bool:
        """Return whether the session exists."""
        return self._path(session_id).is_file()

    def sessions(self) -> list[TempSession]:
        """List the sessions that can be read, the oldest first."""
        found: list[TempSession] = []
        for path in self._files():
            with contextlib.suppress(StorageError, UserError):
                data = self._workspace.read_json(path, _MAX_BYTES)
                found.append(TempSession.read(data, self._workspace.shown(path)))
        return sorted(found, key=lambda session: (parse_time(session.created_at), session.session_id))

    def close(self, session_id: str) -> None:
        """End a session; one that has expired stays so."""
        with self._workspace.writer():
            found = self.session(session_id)
            if found.status == "active":
                self._save(found.changed(status="closed"))

    def drop(self, session_id: str) -> None:
        """Delete a session of work that was not done, with its exports."""
        with self._workspace.writer():
            self._path(session_id).unlink(missing_ok=True)
            self._remove_exports(session_id)

    def export(self, session_id: str, text: str) -> str:
        """Keep a prompt that was too long to be sent whole; give its path, which the session names from now on."""
        with self._workspace.writer():
            found = self.session(session_id)
            path = self._exports / f"{session_id}_{len(found.context_exports) + 1}.md"
            self._workspace.replace(path, text.encode("utf-8", "backslashreplace"))
            named = path.relative_to(self._workspace.root).as_posix()
            self._save(found.changed(context_exports=(*found.context_exports, named)))
        return named

    def expire(self, now: str) -> list[str]:
        """Mark sessions past their time as expired and delete their exports; return the ids of those marked now.

        Active and closed sessions expire alike. An expired session names no export, for its files are gone; the files
        go first, so that an interrupted call is completed by the next one.
        """
        days = self.settings().temp_session_ttl_days
        marked: list[str] = []
        with self._workspace.writer():
            for session in self.sessions():
                if not session.is_over(now) or not self._is_ours(session):
                    continue
                self._remove_exports(session.session_id)
                if not session.is_settled:
                    self._save(session.changed(status="expired", context_exports=()))
                if session.status != "expired":
                    marked.append(session.session_id)
            self._sweep_spools(parse_time(now) - timedelta(days=max(1, days)))
        return marked

    def _remove_exports(self, session_id: str) -> None:
        for path in self._exports.glob(f"{session_id}_*.md"):
            if path.stem.removeprefix(f"{session_id}_").isdigit():
                path.unlink(missing_ok=True)

    def _sweep_spools(self, oldest: datetime) -> None:
        """Remove abandoned answers."""
        if self.spool.is_symlink():
            return
        for folder in folders_in(self.spool):
            with contextlib.suppress(OSError):
                if folder.stat().st_mtime < oldest.timestamp():
                    shutil.rmtree(folder, ignore_errors=True)

    def _is_ours(self, session: TempSession) -> bool:
        """Return whether a session is in the file of its name."""
        return is_folder_name(session.session_id) and self._path(session.session_id).is_file()

    def _files(self) -> list[Path]:
        if not self._folder.is_dir():
            return []
        return sorted(
            path for path in self._folder.iterdir() if path.suffix == ".json" and path.name[0] != "."
        )

    def _path(self, session_id: str) -> Path:
        if not is_folder_name(session_id):
            raise UserError("lab_bad_name", what="session_id", value=session_id[:80])
        return self._folder / f"{session_id}.json"

    def _save(self, session: TempSession) -> None:
        path = self._path(session.session_id)
        self._workspace.replace(path, dump_json(session.fields(self._workspace.shown(path))))
