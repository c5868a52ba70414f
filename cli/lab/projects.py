"""Terminal output and commands for projects: creation, status, plan and ranking."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from cli.lab.finding import arm_of, baseline_of, project_of, skill_of
from cli.lab.showing import as_option, money, named, padded, score, span, warned
from cli.output import BOLD, CYAN, DIM, bar, columns, masked, note, paint, write, write_json
from cli.running import language, services
from cli.texts import tell
from personalab.lab.options import RunOptions
from personalab.operations.lab import projects
from personalab.operations.lab.projects import count_no_skill_tasks, stand_ins, usual_options

if TYPE_CHECKING:
    from personalab.storage.lab.projects import ProjectPlace

_OPTIONS = {
    "judges": "--judge",
    "timeout_seconds": "--timeout",
    "retry_count": "--retries",
    "extra_flags": "--flag",
    "no_skill_arm": "--no-skill",
}
"""What the options of a project are called on the command line, where that is not their name."""


async def new_project(
    name: str,
    skills: Sequence[str],
    baselines: Sequence[str],
    wishes: Mapping[str, Any],
    description: str,
    *,
    as_json: bool,
) -> None:
    """Make a project with copies of assets."""
    skill_ids = [(await skill_of(word)).meta.id for word in skills]
    baseline_ids = [(await baseline_of(word)).meta.id for word in baselines]
    given = {option: value for option, value in wishes.items() if value is not None}
    usual = await asyncio.to_thread(usual_options, services())
    with as_option(_OPTIONS):
        options = RunOptions.read({**usual, **given}, "x_run.json")
    made = await projects.create_project(
        services(),
        name=name,
        skill_ids=skill_ids,
        baseline_ids=baseline_ids,
        options=options,
        description=description,
    )
    if as_json:
        write_json(made)
        return
    place = await asyncio.to_thread(services().projects.project, made["project"])
    tasks = _tasks(made["progress"]["total_tasks"], await asyncio.to_thread(count_no_skill_tasks, place))
    known = {"project": made["project"], "tasks": tasks, "model": named(made["model"])}
    write(tell("lab_project_made", language(), **known))


def _tasks(count: int, idle: int) -> str:
    return tell("lab_tasks_and_idle" if idle else "lab_tasks", language(), count=count, idle=idle)


async def show_projects(*, as_json: bool) -> None:
    """List the projects, the newest first."""
    found = await projects.list_projects(services())
    if as_json:
        write_json(found)
        return
    if not found:
        note(tell("lab_no_projects", language()))
    for row in found:
        progress, status = row["progress"], tell(f"lab_status_{row['status']}", language())
        done = f"{progress['completed_tasks']}/{progress['total_tasks']}"
        rest = paint(f"{status} {done} {named(row['model'])}", DIM)
        write(f"{paint(row['project'], CYAN)} {named(row['name'])} {rest}")
    for problem in await asyncio.to_thread(services().projects.problems):
        reason = problem.error.message(language())
        warned("lab_unread_project", name=named(problem.name), reason=named(reason))


# --- one project


async def show_project(word: str, *, as_json: bool) -> None:
    """Print a project's status: progress, costs, and the ranking with its intervals and ties."""
    place = await project_of(word)
    found = await projects.project_status(services(), place.name)
    details, unreal = await asyncio.to_thread(lambda: (place.extra_summary(), stand_ins(place)))
    if as_json:
        write_json({**found, "details": details, "stand_ins": unreal})
        return
    _show_status(found, await asyncio.to_thread(count_no_skill_tasks, place))
    _show_unreal(unreal)
    if details.get("skills"):
        show_ranking(details)
    elif found["ranking"]:
        _show_plain(found["ranking"])
    elif found["progress"]["completed_tasks"] == 0:
        note(tell("lab_run_it", language(), project=found["project"]))


async def show_unreal(place: ProjectPlace) -> None:
    """Print a warning if a stand-in made the results of a project."""
    _show_unreal(await asyncio.to_thread(stand_ins, place))


def _show_unreal(versions: Sequence[str]) -> None:
    if versions:
        warned("lab_unreal", versions=", ".join(named(version) for version in versions))


def _show_status(found: Mapping[str, Any], idle: int) -> None:
    progress = found["progress"]
    status = tell(f"lab_status_{found['status']}", language())
    write(f"{paint(named(found['name']), BOLD)} {paint(found['project'], CYAN)} {status}")
    if found["description"]:
        write(masked(found["description"]))
    drawn = bar(progress["completed_tasks"], progress["total_tasks"])
    options = found["options"]
    more = tell("lab_idle_left", language(), idle=idle) if idle else ""
    write(tell("lab_progress", language(), bar=drawn, **progress) + more)
    judges = ", ".join(options["judges"] or [options["model"]])
    write(
        tell(
            "lab_made_by",
            language(),
            model=named(options["model"]),
            judges=named(judges),
            calls=found["calls_made"],
            spent=_spent(found["calls_made"], found["spent_usd"]),
        )
    )


def show_ranking(details: Mapping[str, Any]) -> None:
    """Print a ranking: the average, its interval, ties, and what a skill wins over none."""
    rows = cast("list[dict[str, Any]]", details["skills"])
    ties = _tie_labels(rows)
    width = max(columns(named(row["skill_name"])) for row in rows)
    write("")
    for row, label in zip(rows, ties, strict=True):
        gain = row["gain_over_no_skill"]
        won = tell("lab_gain", language(), gain=f"{gain['mean']:+.1f}") if gain else ""
        write(f"{label:>4} {_arm(row, width)} {won}".rstrip())
    if none := details.get("no_skill"):
        shown = {**none, "skill_name": tell("lab_no_skill_arm", language())}
        write(f"   – {_arm(shown, width)}")
    if any(label.endswith("=") for label in ties):
        note(paint(tell("lab_ties", language()), DIM))
        _show_leads(rows, ties)
    if least := details.get("minimum_detectable_difference"):
        note(paint(tell("lab_detectable", language(), points=f"{least:.1f}"), DIM))
    for warning in details.get("warnings", ()):
        warned("warning", message=_worded(warning))


def _show_leads(rows: Sequence[Mapping[str, Any]], ties: Sequence[str]) -> None:
    """Print the ties with the first that a comparison case by case can still tell apart."""
    for row, label in zip(rows[1:], ties[1:], strict=True):
        gap = row["difference_to_first"]
        if label == ties[0] and gap and gap["interval"] and gap["interval"][0] > 0:
            ends = dict(zip(("gap", "low", "high"), map(score, (gap["mean"], *gap["interval"])), strict=True))
            names = {"first": named(rows[0]["skill_name"]), "other": named(row["skill_name"])}
            note(paint(tell("lab_paired", language(), **names, **ends), DIM))


def _show_plain(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a ranking of another program, which knows no intervals."""
    width = max(columns(named(row["skill_name"])) for row in rows)
    write("")
    for row in rows:
        shown = {**row, "mean": row["avg_score"], "interval": None, "skipped": 0}
        shown |= {"completed": row["completed_cases"], "failed": row["failed_cases"]}
        write(f"{row['rank']:>4} {_arm(shown, width)}")


def _arm(row: Mapping[str, Any], width: int) -> str:
    counts = tell(
        "lab_counts", language(), **{name: row[name] for name in ("completed", "failed", "skipped")}
    )
    name = padded(named(row["skill_name"]), width)
    return f"{name} {row['skill_version']} {score(row['mean']):>5} {span(row['interval']):<14} {paint(counts, DIM)}"


def _tie_labels(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the labels of tied rows: the first rank of their group, with a sign."""
    groups = [row["tie_group"] for row in rows]
    labels: list[str] = []
    for row, group in zip(rows, groups, strict=True):
        tied = group is not None and groups.count(group) > 1
        first = rows[groups.index(group)]["rank"] if tied else row["rank"]
        labels.append(f"{first}=" if tied else f"{first}")
    return labels


def _worded(warning: Mapping[str, Any]) -> str:
    from personalab.lab.calling import warning_text

    return named(warning_text(warning, language()))


# --- before a run


async def show_plan(word: str, *, rerun_failed: bool, as_json: bool) -> None:
    """Print what a run would take."""
    place = await project_of(word)
    plan = await projects.plan_project(services(), place.name, rerun_failed=rerun_failed)
    if as_json:
        write_json({"project": place.name, **plan.fields()})
    else:
        write(plan_text(plan.fields(), await asyncio.to_thread(count_no_skill_tasks, place)))


def plan_text(plan: Mapping[str, Any], idle: int = 0) -> str:
    """Word a plan of which ``idle`` tasks are without a skill."""
    shown = {**plan, "cost": money(plan["cost_usd"]), "spent": _spent(plan["calls_made"], plan["spent_usd"])}
    shown["tasks"] = _tasks(plan["tasks"] - idle, idle)
    lines = [tell("lab_plan", language(), **shown)]
    if plan["max_calls"] is not None or plan["max_usd"] is not None:
        calls = "–" if plan["max_calls"] is None else str(plan["max_calls"])
        usd = "–" if plan["max_usd"] is None else money(plan["max_usd"])
        code = "lab_over_budget" if plan["within_budget"] is False else "lab_budget"
        lines.append(tell(code, language(), calls=calls, usd=usd))
    return "\n".join(lines)


def _spent(calls: int, usd: float | None) -> str:
    return money(usd if calls else 0.0)


async def skip_task(
    word: str, skill: str, case_id: str, baseline: str | None, *, undo: bool, as_json: bool
) -> None:
    """Leave a skill's case out of the next runs, or take it in again."""
    place = await project_of(word)
    skill_id = await asyncio.to_thread(arm_of, place, skill)
    done = await projects.skip_task(
        services(), place.name, skill_id, case_id, baseline_id=baseline, undo=undo
    )
    if as_json:
        write_json(done)
    else:
        write(tell("lab_unskipped" if undo else "lab_skipped", language(), skill=named(skill), case=case_id))
