"""The doctor's check of the lab's workspace.

Files of other programs are accepted: a file that cannot be read is a problem, a contradiction only a note.
Nothing that was measured or written by a person is ever changed. Repairs cover leftovers of writers that
died, the status and progress of a project that nobody runs, a truncated line in the cost journal, and expired
sessions.
"""

from __future__ import annotations

import asyncio
import errno
import os
from dataclasses import replace
from pathlib import Path

from personalab.errors import PersonaLabError, Reason, as_reason
from personalab.lab.options import CliSettings, TempSession
from personalab.lab.records import AssetKind, Doubt
from personalab.operations.doctor_findings import Finding
from personalab.operations.doctor_lab_files import LabFiles, LabFinding, Sweep, check_version
from personalab.operations.doctor_lab_projects import examine_projects
from personalab.services import Services
from personalab.storage.lab.asset_collections import read_baseline, read_skill
from personalab.storage.lab.workspace import KIND_FOLDERS, AssetFolder, Workspace, folders_in

_KINDS: tuple[AssetKind, ...] = ("skill", "baseline")


async def examine_lab(services: Services, sweep: Sweep, *, fix: bool) -> tuple[list[Finding], int]:
    """Check the workspace; give what was found, and how many files were looked at."""
    files = LabFiles(services.assets.workspace)
    root = files.workspace.root
    if not await asyncio.to_thread(root.is_dir):
        there = await asyncio.to_thread(os.path.lexists, root)
        params = {"reason": as_reason(NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))}
        return ([Finding("not_a_folder", root.name, params=params)], 1) if there else ([], 0)
    await asyncio.to_thread(_check_assets, files)
    await asyncio.to_thread(_check_sessions, files, services, fix=fix)
    await asyncio.to_thread(_check_leftovers, files, sweep, fix=fix)
    await examine_projects(services, files, sweep, fix=fix)
    return files.findings, files.looked_at


# --- skills and baselines


def _check_assets(files: LabFiles) -> None:
    lock = files.workspace.root / ".lock"
    if os.path.lexists(lock) and not lock.is_file():
        files.findings.append(Finding("not_a_file", files.shown(lock)))
    for kind in _KINDS:
        for folder in files.workspace.unreadable(kind):
            params = {"reason": as_reason(PermissionError(errno.EACCES, os.strerror(errno.EACCES)))}
            files.findings.append(Finding("not_a_folder", files.shown(folder), params=params))
        for place in files.workspace.places(kind):
            known = len(files.findings)
            check_version(files, place.folder, kind)
            if not any(found.level == "problem" for found in files.findings[known:]):
                _check_place(files, kind, place)


def _check_place(files: LabFiles, kind: AssetKind, place: AssetFolder) -> None:
    """Compare a version's metadata with its location."""
    path = place.folder / "meta.json"
    try:
        doubts = (read_skill if kind == "skill" else read_baseline)(files.workspace, place).doubts
    except PersonaLabError as error:
        files.broken(path, error)
        return
    files.doubt(path, [found for found in doubts if found.field not in ("case_count", "baseline_id")])


# --- the command line


def _check_sessions(files: LabFiles, services: Services, *, fix: bool) -> None:
    folder = files.workspace.root / "cli"
    files.read(folder / "config.json", CliSettings, needed=False)
    over: list[Finding] = []
    for path in files.json_files(folder / "temp_session"):
        session = files.read(path, TempSession, needed=False)
        if session is None:
            continue
        if session.session_id != path.stem:
            files.doubt(
                path, [Doubt("session_id", Reason("other_file", value=session.session_id, name=path.stem))]
            )
        elif not session.is_settled and session.is_over(services.now()):
            params = {"expires_at": session.expires_at, "status": session.status}
            over.append(
                LabFinding("lab_doctor_expired", files.shown(path), params=params, fixable=True, level="note")
            )
    if not over or not fix:
        files.findings += over
        return
    try:
        services.lab_sessions.expire(services.now())
    except PersonaLabError as error:
        files.findings += [
            *over,
            Finding("not_repaired", files.shown(folder), params={"reason": as_reason(error)}),
        ]
        return
    files.findings += [replace(found, fixed=True) for found in over]


# --- what writers that died have left behind


def _check_leftovers(files: LabFiles, sweep: Sweep, *, fix: bool) -> None:
    """Look first; take the workspace's lock only where there is something to remove."""
    folders = _swept(files.workspace)
    found: list[Finding] = []
    for folder in folders:
        sweep(folder, found, fix=False)
    if found and fix:
        try:
            with files.workspace.writer():
                found = []
                for folder in folders:
                    sweep(folder, found, fix=True)
        except PersonaLabError as error:
            shown = files.workspace.root.name
            found.append(Finding("not_repaired", shown, params={"reason": as_reason(error)}))
    files.findings += found


def _swept(workspace: Workspace) -> list[Path]:
    """Name the folders in which the workspace's writers make their temporary files."""
    cli = workspace.root / "cli"
    found = [cli, cli / "temp_session", cli / "temp_session" / "exports"]
    for kind in _KINDS:
        for purpose in folders_in(workspace.root / KIND_FOLDERS[kind]):
            for provider in folders_in(purpose):
                found.append(provider)
                for version in folders_in(provider):
                    found += [version, version / "auto_tag_log"]
    return [folder for folder in found if folder.is_dir() and not folder.is_symlink()]
