"""The leaderboard of skills on baselines over all projects of the workspace."""

from __future__ import annotations

import asyncio
from typing import Any

from personalab.errors import Because, PersonaLabError, reason_of
from personalab.lab.calling import plain_params
from personalab.lab.leaderboard import (
    AssetCatalogue,
    BoardProject,
    CurrentAsset,
    LeaderboardRecord,
    SkillTestSummary,
    board_project,
    groups_of,
    lacks_baselines,
    records_of,
    summaries_of,
)
from personalab.lab.projects import RunSummary
from personalab.lab.ranking import CaseResult, RankedArm, RankedBaseline, case_result, cases_hash, summarise
from personalab.lab.segments import text_hash
from personalab.services import Services
from personalab.storage.lab.projects import ProjectPlace


async def leaderboard(
    services: Services, *, group: bool = True, baseline_id: str | None = None, purpose: str | None = None
) -> dict[str, Any]:
    """List every test, by baseline or in one list, the best first.

    ``baseline_id`` may be the beginning of one; ``purpose`` is a skill's or a baseline's. Baselines that the library
    has no more, or has archived, are named beside the groups, for the source's groups have no field for it.
    """
    return await asyncio.to_thread(_leaderboard, services, group, baseline_id, purpose)


async def test_summaries(services: Services) -> dict[str, SkillTestSummary]:
    """Summarize the tests of each skill that has any, by its id."""
    return await asyncio.to_thread(lambda: summaries_of(_records(services, _library(services))[0]))


# It is no test; pytest would take the name for one.
test_summaries.__test__ = False  # pyright: ignore[reportFunctionMemberAccess]


def _leaderboard(
    services: Services, group: bool, baseline_id: str | None, purpose: str | None
) -> dict[str, Any]:
    library = _library(services)
    records, warnings = _records(services, library)
    chosen = [
        record
        for record in records
        if (baseline_id is None or record.baseline_id.startswith(baseline_id))
        and (purpose is None or purpose in _purposes(record, library))
    ]
    ids = {record.baseline_id for record in chosen} | {record.skill_id for record in chosen}
    told = [row for row in warnings if row.get("asset_id") in ids or "asset_id" not in row]
    active = {stored.meta.id for stored in services.assets.baselines()}
    archived = sorted({record.baseline_id for record in chosen} - active)
    if group:
        rows = [row.model_dump(mode="json") for row in groups_of(chosen, library)]
        return {"groups": rows, "archived_baselines": archived, "warnings": told}
    rows = [record.model_dump(mode="json") for record in chosen]
    return {"records": rows, "archived_baselines": archived, "warnings": told}


def _purposes(record: LeaderboardRecord, library: AssetCatalogue) -> set[str]:
    found = (library.skills.get(record.skill_id), library.baselines.get(record.baseline_id))
    return {asset.purpose for asset in found if asset is not None}


def _library(services: Services) -> AssetCatalogue:
    skills = {
        stored.meta.id: CurrentAsset(
            asset_id=stored.meta.id,
            name=stored.meta.name,
            version=stored.meta.version,
            purpose=stored.meta.purpose,
            sha256=text_hash(stored.content),
        )
        for stored in services.assets.skills(archived=True)
    }
    baselines = {
        stored.meta.id: CurrentAsset(
            asset_id=stored.meta.id,
            name=stored.meta.name,
            version=stored.meta.version,
            purpose=stored.meta.purpose,
            sha256=cases_hash(stored.cases),
            case_count=len(stored.cases.cases),
        )
        for stored in services.assets.baselines(archived=True)
    }
    return AssetCatalogue(skills, baselines)


def _records(
    services: Services, library: AssetCatalogue
) -> tuple[list[LeaderboardRecord], list[dict[str, Any]]]:
    projects: list[BoardProject] = []
    unreadable: list[dict[str, Any]] = []
    for place in services.projects.list():
        try:
            if (summary := place.summary()) is not None:
                projects.append(_tested(place, summary))
                unreadable += [_warning("lab_board_doubt", place, doubt.reason) for doubt in summary.doubts()]
        except PersonaLabError as error:
            unreadable.append(_warning("lab_board_unreadable", place, reason_of(error)))
    records, warnings = records_of(projects, library)
    return records, [*unreadable, *warnings]


def _warning(code: str, place: ProjectPlace, reason: Because) -> dict[str, Any]:
    return {"code": code, **plain_params({"project": place.config.name, "reason": reason})}


def _tested(place: ProjectPlace, summary: RunSummary) -> BoardProject:
    config = place.config
    extra = place.extra_summary()
    if lacks_baselines(summary, [ref.ref_id for ref in config.baselines], extra):
        extra = _from_results(place, summary)
    refs = [(ref.ref_id, ref.name, ref.version) for ref in config.baselines]
    return board_project(summary, config.name, refs, extra)


def _from_results(place: ProjectPlace, summary: RunSummary) -> dict[str, Any]:
    """Summarize each baseline from the results of a project that another program ran."""
    arms = [
        RankedArm(copy.ref.ref_id, copy.ref.name, copy.ref.version, copy.content) for copy in place.skills()
    ]
    baselines = [
        RankedBaseline(copy.ref.ref_id, copy.ref.name, copy.ref.version, copy.cases)
        for copy in place.baselines()
    ]
    results: dict[str, list[CaseResult]] = {arm.skill_id: [] for arm in arms}
    for row in place.all_results():
        results.setdefault(row.skill_id, []).append(case_result(row))
    return summarise(summary.project_id, summary.generated_at, arms, results, baselines=baselines)[1]
