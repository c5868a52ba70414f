"""The leaderboard: results of every skill on each baseline over all projects, and whether they still hold.

It is not stored: it is computed from the projects' summaries and the current library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from personalab.lab.projects import Breakdown, RankRow, RunSummary
from personalab.lab.records import Count, Number, Record, in_seconds

Staleness = Literal["current", "skill_updated", "baseline_updated", "both_updated"]
_FRESHNESS: Mapping[Staleness, int] = {
    "current": 0,
    "baseline_updated": 1,
    "skill_updated": 2,
    "both_updated": 3,
}


class LeaderboardRecord(Record):
    """One test of one skill on one baseline."""

    skill_id: str
    skill_name: str
    skill_version_tested: str
    skill_version_current: str
    baseline_id: str
    baseline_name: str
    baseline_version_tested: str
    baseline_version_current: str
    avg_score: Number | None
    score_breakdown: Breakdown | None
    project_id: str
    project_name: str
    tested_at: str
    case_count: Count
    completed_cases: Count
    failed_cases: Count
    staleness: Staleness


class LeaderboardGroup(Record):
    """All tests on one baseline."""

    baseline_id: str
    baseline_name: str
    baseline_purpose: str
    baseline_case_count: Count
    baseline_version_current: str
    skill_count: Count
    records: tuple[LeaderboardRecord, ...]


class SkillTestSummary(Record):
    """How one skill did over all its tests; a skill without any has no summary."""

    has_tests: bool
    best_score: Number | None
    best_baseline_name: str | None
    test_count: Count
    staleness: Staleness | None


@dataclass(frozen=True, slots=True)
class CurrentAsset:
    """A skill or a baseline as the library has it now; ``sha256`` is of its content or its cases."""

    asset_id: str
    name: str
    version: str
    purpose: str
    sha256: str
    case_count: int = 0


@dataclass(frozen=True, slots=True)
class BoardBaseline:
    """What a project found out on one baseline; hashes are blank where the project kept none."""

    baseline_id: str
    name: str
    version: str
    sha256: str
    case_count: int
    ranking: tuple[RankRow, ...]


@dataclass(frozen=True, slots=True)
class BoardProject:
    """A project that has a summary; ``skill_hashes`` are of the contents that were tested, by skill id."""

    project_id: str
    name: str
    tested_at: str
    baselines: tuple[BoardBaseline, ...]
    skill_hashes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AssetCatalogue:
    """The newest versions of everything, archived or not."""

    skills: Mapping[str, CurrentAsset]
    baselines: Mapping[str, CurrentAsset]


# --- reading projects


class _BaselineTold(Record):
    """What a sidecar says of a baseline."""

    baseline_id: str
    content_sha256: str = ""
    total_cases: Count = 0
    ranking: tuple[RankRow, ...] = ()


class _SkillTold(Record):
    """What a sidecar says of a skill."""

    skill_id: str
    content_sha256: str = ""


class _SummaryRecord(Record):
    """What the leaderboard needs of ``x_summary.json``."""

    generated_at: str = ""
    baselines: tuple[_BaselineTold, ...] = ()
    skills: tuple[_SkillTold, ...] = ()


def lacks_baselines(summary: RunSummary, baselines: Sequence[str], extra: Mapping[str, Any]) -> bool:
    """Return whether a project's files do not name the baseline of a score, so that its results must be read."""
    told = _told(summary, extra)
    return len(baselines) > 1 and not set(baselines) <= {row.baseline_id for row in told.baselines}


def board_project(
    summary: RunSummary, name: str, baselines: Sequence[tuple[str, str, str]], extra: Mapping[str, Any]
) -> BoardProject:
    """Read a project's summary; ``baselines`` are id, name and version of each, ``extra`` is the sidecar.

    The summary does not say which baseline a score is of, so with more than one the sidecar does.
    """
    told = _told(summary, extra)
    by_id = {row.baseline_id: row for row in told.baselines}
    found: list[BoardBaseline] = []
    for baseline_id, baseline_name, version in baselines:
        row = by_id.get(baseline_id) or _BaselineTold(baseline_id=baseline_id)
        rows, cases = summary.ranking, summary.total_cases
        if len(baselines) > 1:
            rows, cases = row.ranking, row.total_cases
        found.append(
            BoardBaseline(
                baseline_id,
                baseline_name,
                version,
                row.content_sha256,
                cases,
                tuple(ranked.derived() for ranked in rows),
            )
        )
    hashes = {row.skill_id: row.content_sha256 for row in told.skills}
    return BoardProject(summary.project_id, name, in_seconds(summary.generated_at), tuple(found), hashes)


def _told(summary: RunSummary, extra: Mapping[str, Any]) -> _SummaryRecord:
    """Read the sidecar; one that another summary came with says nothing of this one."""
    told = _SummaryRecord.read(extra, "x_summary.json")
    return told if told.generated_at == summary.generated_at else _SummaryRecord()


# --- records


def records_of(
    projects: Iterable[BoardProject], library: AssetCatalogue
) -> tuple[list[LeaderboardRecord], list[dict[str, Any]]]:
    """List every test, the best first, and warn of assets that the library has no more."""
    found = [
        _record(project, baseline, row, library)
        for project in projects
        for baseline in project.baselines
        for row in baseline.ranking
    ]
    found.sort(key=_order)
    gone: dict[tuple[str, str], dict[str, Any]] = {}
    for record in found:
        for kind, asset_id, name, known in (
            ("skill", record.skill_id, record.skill_name, library.skills),
            ("baseline", record.baseline_id, record.baseline_name, library.baselines),
        ):
            if asset_id not in known:
                warning = {"code": f"lab_board_{kind}_gone", "asset_id": asset_id, "name": name}
                gone.setdefault((kind, asset_id), warning)
    return found, list(gone.values())


def _record(
    project: BoardProject, baseline: BoardBaseline, row: RankRow, library: AssetCatalogue
) -> LeaderboardRecord:
    skill_now = library.skills.get(row.skill_id)
    baseline_now = library.baselines.get(baseline.baseline_id)
    tested_hash = project.skill_hashes.get(row.skill_id, "")
    return LeaderboardRecord(
        skill_id=row.skill_id,
        skill_name=skill_now.name if skill_now else row.skill_name,
        skill_version_tested=row.skill_version,
        skill_version_current=skill_now.version if skill_now else row.skill_version,
        baseline_id=baseline.baseline_id,
        baseline_name=baseline_now.name if baseline_now else baseline.name,
        baseline_version_tested=baseline.version,
        baseline_version_current=baseline_now.version if baseline_now else baseline.version,
        avg_score=row.avg_score,
        score_breakdown=row.score_breakdown,
        project_id=project.project_id,
        project_name=project.name,
        tested_at=project.tested_at,
        case_count=baseline.case_count,
        completed_cases=row.completed_cases,
        failed_cases=row.failed_cases,
        staleness=staleness_of(
            is_changed(row.skill_version, tested_hash, skill_now),
            is_changed(baseline.version, baseline.sha256, baseline_now),
        ),
    )


def is_changed(version: str, sha256: str, now: CurrentAsset | None) -> bool:
    """Return whether an asset differs from the tested one: in its version, or in content edited by hand.

    What the library has no more cannot have changed.
    """
    if now is None:
        return False
    return now.version != version or bool(sha256 and sha256 != now.sha256)


def staleness_of(skill_changed: bool, baseline_changed: bool) -> Staleness:
    """Name how far a score still holds."""
    if skill_changed and baseline_changed:
        return "both_updated"
    if skill_changed:
        return "skill_updated"
    return "baseline_updated" if baseline_changed else "current"


def _order(record: LeaderboardRecord) -> tuple[bool, float, str, str, str]:
    average = record.avg_score
    return average is None, -(average or 0.0), record.skill_id, record.tested_at, record.project_id


def groups_of(records: Sequence[LeaderboardRecord], library: AssetCatalogue) -> list[LeaderboardGroup]:
    """Gather tests by their baseline, in the order of the baselines' names."""
    by_baseline: dict[str, list[LeaderboardRecord]] = {}
    for record in records:
        by_baseline.setdefault(record.baseline_id, []).append(record)
    groups = [_group(rows, library.baselines.get(baseline_id)) for baseline_id, rows in by_baseline.items()]
    return sorted(groups, key=lambda group: (group.baseline_name, group.baseline_id))


def _group(rows: Sequence[LeaderboardRecord], now: CurrentAsset | None) -> LeaderboardGroup:
    newest = max(rows, key=lambda row: row.tested_at)
    return LeaderboardGroup(
        baseline_id=newest.baseline_id,
        baseline_name=newest.baseline_name,
        baseline_purpose=now.purpose if now else "",
        baseline_case_count=now.case_count if now else newest.case_count,
        baseline_version_current=newest.baseline_version_current,
        skill_count=len({row.skill_id for row in rows}),
        records=tuple(rows),
    )


def summaries_of(records: Iterable[LeaderboardRecord]) -> dict[str, SkillTestSummary]:
    """Summarize the tests of each skill; the freshest of them says how far they hold."""
    by_skill: dict[str, list[LeaderboardRecord]] = {}
    for record in records:
        by_skill.setdefault(record.skill_id, []).append(record)
    found: dict[str, SkillTestSummary] = {}
    for skill_id, rows in by_skill.items():
        best = min(rows, key=_order)
        found[skill_id] = SkillTestSummary(
            has_tests=True,
            best_score=best.avg_score,
            best_baseline_name=best.baseline_name if best.avg_score is not None else None,
            test_count=len(rows),
            staleness=min((row.staleness for row in rows), key=lambda staleness: _FRESHNESS[staleness]),
        )
    return found
