"""Resolution of command line words to ids of skills, baselines, projects and tested arms.

A word is a whole id, the name of a folder, the beginning of an id (at least 4 characters), or an exact name
that is unique.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal

from cli.running import Refusal, services
from personalab.errors import NotFound, UserError

if TYPE_CHECKING:
    from personalab.storage.lab.assets import Stored, StoredBaseline, StoredSkill
    from personalab.storage.lab.projects import ProjectPlace

Kind = Literal["skill", "baseline"]
LEAST = 4
"""Minimum characters of an abbreviated id."""
_SHOWN = 80
Row = tuple[str, str]
"""An id and a name."""


async def skill_of(word: str) -> StoredSkill:
    """Find a skill."""
    return await asyncio.to_thread(find_skill, word)


async def baseline_of(word: str) -> StoredBaseline:
    """Find a baseline."""
    return await asyncio.to_thread(find_baseline, word)


async def asset_of(word: str, kind: Kind | None) -> tuple[Kind, Stored]:
    """Find a skill or a baseline; ``kind`` says which of them it must be."""

    def find() -> tuple[Kind, Stored]:
        if kind == "baseline":
            return "baseline", find_baseline(word)
        if kind == "skill":
            return "skill", find_skill(word)
        return _either(word)

    return await asyncio.to_thread(find)


async def project_of(word: str) -> ProjectPlace:
    """Find a project."""
    return await asyncio.to_thread(find_project, word)


def find_skill(word: str) -> StoredSkill:
    """Find a skill; this reads files."""
    assets = services().assets
    try:
        return assets.skill(word)
    except NotFound as error:
        if error.code != "lab_no_skill":
            raise
        meant = _only(word, [(one.meta.id, one.meta.name) for one in assets.skills(archived=True)], "skill")
        return assets.skill(meant)


def find_baseline(word: str) -> StoredBaseline:
    """Find a baseline; this reads files."""
    assets = services().assets
    try:
        return assets.baseline(word)
    except NotFound as error:
        if error.code != "lab_no_baseline":
            raise
        rows = [(one.meta.id, one.meta.name) for one in assets.baselines(archived=True)]
        return assets.baseline(_only(word, rows, "baseline"))


def _either(word: str) -> tuple[Kind, Stored]:
    found: list[tuple[Kind, Stored]] = []
    finders: dict[Kind, Callable[[str], Stored]] = {"skill": find_skill, "baseline": find_baseline}
    for kind, find in finders.items():
        try:
            found.append((kind, find(word)))
        except Refusal as refusal:
            if refusal.code != f"lab_which_{kind}":
                raise
    if not found:
        raise Refusal("lab_which_asset", word=word[:_SHOWN])
    if len(found) > 1:
        raise Refusal("lab_which_kind", word=word[:_SHOWN])
    return found[0]


def find_project(word: str) -> ProjectPlace:
    """Find a project; this reads files."""
    projects = services().projects
    try:
        return projects.project(word)
    except NotFound:
        rows = [(place.config.id, place.config.name) for place in projects.list()]
        meant = _only(word, rows, "project")
        return next(place for place in projects.list() if place.config.id == meant)


def arm_of(place: ProjectPlace, word: str) -> str:
    """Find the id of a skill that takes part in a project."""
    from personalab.lab.options import NO_SKILL_ID, NO_SKILL_NAME

    rows = [(ref.ref_id, ref.name) for ref in place.config.skills]
    if place.options().no_skill_arm:
        rows.append((NO_SKILL_ID, NO_SKILL_NAME))
    return _only(word, rows, "skill")


def _only(word: str, rows: Iterable[Row], kind: Literal["skill", "baseline", "project"]) -> str:
    """Find the one id that a word means."""
    known = list(rows)
    exact = [asset_id for asset_id, _ in known if asset_id == word]
    named = [asset_id for asset_id, name in known if name == word]
    begun = [asset_id for asset_id, _ in known if len(word) >= LEAST and asset_id.startswith(word)]
    for found in (exact, named, begun):
        if len(set(found)) == 1:
            return found[0]
        if found:
            shown = ", ".join(asset_id[:13] for asset_id in found[:5])
            raise UserError("lab_ambiguous_id", asset_id=word[:_SHOWN], found=shown)
    raise Refusal(f"lab_which_{kind}", word=word[:_SHOWN])
