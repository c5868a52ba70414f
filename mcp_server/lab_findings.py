"""The lab's tools for analysis, recomposition, iteration and the leaderboard."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, InputRequiredResult
from pydantic import Field

from mcp_server.asking import Work, nothing_to_note
from mcp_server.growing import Given
from mcp_server.lab_desk import LabDesk
from mcp_server.lab_fitting import CONTENT_TOKENS, LIST_TOKENS, META_TOKENS, fit, page
from mcp_server.lab_projects import Confirm, Project, Wait
from mcp_server.lab_results import Analysed, Board, Iterated, Recomposed
from mcp_server.lab_runs import LabRun
from mcp_server.lab_showing import (
    analysis_fields,
    analysis_text,
    iteration_fields,
    iteration_text,
    score,
)
from mcp_server.results import result
from mcp_server.schemas import object_schema
from mcp_server.stories import Cursor
from mcp_server.texts import tell
from personalab.errors import UserError
from personalab.lab.calling import is_free, is_limited, warning_text
from personalab.lab.findings import AnalysisReport
from personalab.operations.lab.findings import (
    recompose,
    retention_of_analysis,
    retention_of_search,
    run_analysis,
)
from personalab.operations.lab.iterating import iteration_bound, iteration_status, stop_iteration
from personalab.operations.lab.leaderboard import leaderboard
from personalab.storage.lab.assets import StoredSkill
from personalab.storage.lab.projects import ProjectPlace

_MORE = ("beam_width", "plateau_threshold", "plateau_rounds_before_escape", "seed")
_OPTIONS = object_schema(beam_width=int, plateau_threshold=float, plateau_rounds_before_escape=int, seed=int)
_STOP_SECONDS = 10.0
_WARNINGS = 10
_GROUP_TOKENS = 2_500
"""Room for what a page of the leaderboard says of each baseline."""


class FindingTools:
    """Why, and better."""

    def __init__(self, lab: LabDesk) -> None:
        self._lab = lab
        self._services = lab.desk.services

    async def analysis_run(
        self, ctx: Context[Any], project: Project, answer: Given = None, cursor: Cursor = None
    ) -> Annotated[CallToolResult, Analysed] | InputRequiredResult:
        """Analyse a project."""
        with self._lab.plainly():
            place = await asyncio.to_thread(self._services.projects.project, project)

            async def run(model: str | None) -> AnalysisReport:
                return await run_analysis(self._services, place.name, model=model)

            again = f'analysis_run(project="{place.name}", '
            work = Work("analysis_run", place.name, {"project": place.name}, again, answer, cursor)
            settled = await self._lab.asking.settle(ctx, work, run, nothing_to_note)
            if not isinstance(settled, tuple):
                return settled
        shown = await asyncio.to_thread(fit, analysis_fields(settled[0]), await self._lab.budget())
        data = {"project": place.name, "status": "done", "analysis": shown}
        return result("\n".join(analysis_text(shown, self._lab.language)), data)

    async def skill_recompose(
        self,
        ctx: Context[Any],
        project: Project,
        segments: Annotated[
            list[str] | None, Field(description="Such as seg_001, in order; left out: all")
        ] = None,
        keep: Annotated[list[str] | None, Field(description="Must stay word for word")] = None,
        drop: Annotated[list[str] | None, Field(description="Left out")] = None,
        rules: Annotated[
            str, Field(description="For the writer; or: keep seg_001; drop seg_002", max_length=20_000)
        ] = "",
        name: str = "",
        write: Annotated[bool, Field(description="A model words them into one prompt")] = False,
        answer: Given = None,
        cursor: Cursor = None,
    ) -> Annotated[CallToolResult, Recomposed] | InputRequiredResult:
        """Make a new skill of segments."""
        with self._lab.plainly():
            place = await asyncio.to_thread(self._services.projects.project, project)

            retention: dict[str, Any] = {"rules": rules, "keep": keep or (), "drop": drop or ()}

            async def run(model: str | None) -> StoredSkill:
                wishes: dict[str, Any] = {"segments": segments, "name": name, "write": write}
                return await recompose(self._services, place.name, model=model, **wishes, **retention)

            if not write:
                return await self._recomposed(place.name, await run(None), retention)
            parts = [",".join(names or ()) for names in (segments, keep, drop)]
            again = f'skill_recompose(project="{place.name}", …, write=true, '
            key = "\n".join((place.name, *parts, name, rules))
            work = Work("skill_recompose", key, {"project": place.name}, again, answer, cursor)
            settled = await self._lab.asking.settle(ctx, work, run, nothing_to_note)
            if not isinstance(settled, tuple):
                return settled
            return await self._recomposed(place.name, settled[0], retention)

    async def _recomposed(self, project: str, made: StoredSkill, wishes: Mapping[str, Any]) -> CallToolResult:
        budget, meta = await self._lab.budget(), made.meta
        skill = {"id": meta.id, "name": meta.name, "version": meta.version, "purpose": meta.purpose}
        provenance = made.provenance.model_dump(mode="json") if made.provenance else None
        about = {"skill": skill, "provenance": provenance}
        about = await asyncio.to_thread(fit, about, budget, META_TOKENS)
        content = await asyncio.to_thread(budget.cut, made.content, CONTENT_TOKENS)
        whole = len(content) == len(made.content)
        said = [tell("lab_recomposed", self._lab.language, **cast("dict[str, str]", about["skill"]))]
        retention = await retention_of_analysis(self._services, project, **wishes)
        said.append(self._understood(retention))
        if not whole:
            said.append(tell("lab_content_cut", self._lab.language, skill_id=meta.id))
        data = {"project": project, "status": "done", **about, "content": content, "whole": whole}
        return result("\n".join([*said, "", content]), {**data, "retention": retention})

    def _understood(self, retention: Mapping[str, list[str]]) -> str:
        ids = {name: ", ".join(found) or "–" for name, found in retention.items()}
        return tell("lab_retention", self._lab.language, **ids)

    # --- searching

    async def iteration_start(
        self,
        ctx: Context[Any],
        project: Project,
        confirm: Confirm = False,
        max_rounds: Annotated[int | None, Field(ge=1, le=1_000)] = None,
        max_evaluations: Annotated[int | None, Field(ge=1)] = None,
        stop_threshold: Annotated[
            float | None, Field(description="Enough at this score", ge=0, le=100)
        ] = None,
        keep: Annotated[list[str] | None, Field(description="Segments that must stay")] = None,
        retention_rules: Annotated[str | None, Field(description="keep seg_001 …", max_length=20_000)] = None,
        baseline_id: Annotated[str | None, Field(description="Left out: the first")] = None,
        options: Annotated[dict[str, Any], _OPTIONS] | None = None,
        fresh: Annotated[bool, Field(description="Not go on with an interrupted one")] = False,
        wait: Wait = True,
    ) -> Annotated[CallToolResult, Iterated]:
        """Search for a better skill."""
        known = {
            "max_rounds": max_rounds,
            "max_evaluations": max_evaluations,
            "stop_threshold": stop_threshold,
            "keep": keep,
            "retention_rules": retention_rules,
            "baseline_id": baseline_id,
            **(options or {}),
        }
        wishes = {name: value for name, value in known.items() if value is not None}
        with self._lab.plainly():
            self._check(options or {})
            place = await asyncio.to_thread(self._services.projects.project, project)
            run = self._running(place.name)
            if run is None:
                plan, may_begin = await self._plan(place, wishes, fresh=fresh)
                if not (confirm or may_begin):
                    said = [tell("lab_search_plan", self._lab.language, **plan)]
                    said.append(tell("lab_confirm", self._lab.language))
                    return result("\n".join(said), {"project": place.name, "status": "plan", "plan": plan})
                run = await self._begin(place.name, {**wishes, "fresh": fresh})
            if not wait:
                said = tell("lab_runs_on", self._lab.language, project=place.name)
                return result(said, {"project": place.name, "status": "running"})
            ended = await self._lab.runs.follow(ctx, run, self._lab.language)
            if error := ended.get("error"):
                raise ToolError(self._lab.worded(str(error.get("message", ""))))
            status = "done" if ended.get("status") == "done" else "interrupted"
            return await self._searched(place.name, ended, status)

    def _check(self, options: Mapping[str, Any]) -> None:
        for name in options:
            if name not in _MORE:
                raise UserError("lab_no_option", option=name[:80], options=", ".join(_MORE))

    def _running(self, project: str) -> LabRun | None:
        run = self._lab.runs.of(project)
        if run is not None and run.kind != "iterate":
            raise ToolError(tell("lab_is_run", self._lab.language, project=project))
        return run

    async def _begin(self, project: str, wishes: Mapping[str, Any]) -> LabRun:
        graph = await asyncio.to_thread(importlib.import_module, "graph.iterate")
        run = self._running(project)  # another call may have begun it meanwhile
        if run is None:
            stream = graph.stream_iterate(self._services, {"project": project, **wishes})
            run = self._lab.runs.begin(project, "iterate", stream)
        return run

    async def _plan(
        self, place: ProjectPlace, wishes: Mapping[str, Any], *, fresh: bool
    ) -> tuple[dict[str, Any], bool]:
        """Bound what a search takes, and tell whether it may begin unasked."""
        options = await asyncio.to_thread(place.options)
        plan = await iteration_bound(self._services, place.name, {**wishes, "fresh": fresh})
        models = [options.model, *options.judging()]
        limited = is_limited(models, options.max_calls, options.max_usd)
        limited = limited or wishes.get("max_evaluations") is not None
        limits = {"max_calls": options.max_calls, "max_usd": options.max_usd}
        told = {**plan, **limits, "models": ", ".join(dict.fromkeys(models))}
        return told, not plan["calls"] or limited or all(map(is_free, models))

    async def iteration_stop(self, project: Project) -> Annotated[CallToolResult, Iterated]:
        """End a search."""
        with self._lab.plainly():
            place = await asyncio.to_thread(self._services.projects.project, project)
            run = self._running(place.name)
            ended = await stop_iteration(self._services, place.name)
            if ended["status"] == "stopping":
                said = tell("lab_now_stopping", self._lab.language, project=place.name)
                return result(said, {"project": place.name, "status": "stopping"})
            if run is not None:
                await asyncio.wait([run.task], timeout=_STOP_SECONDS)
            found = await iteration_status(self._services, place.name)
            return await self._searched(place.name, found, "stopped")

    async def _searched(self, project: str, found: Mapping[str, Any], status: str) -> CallToolResult:
        shown = await asyncio.to_thread(fit, iteration_fields(found), await self._lab.budget(), LIST_TOKENS)
        retention = await retention_of_search(self._services, project)
        data = {"project": project, "status": status, "iteration": shown, "retention": retention}
        said = [*iteration_text(shown, self._lab.language), self._understood(retention)]
        return result("\n".join(said), data)

    # --- all projects

    async def leaderboard_query(
        self,
        baseline_id: str | None = None,
        purpose: str | None = None,
        group: Annotated[bool, Field(description="By baseline")] = True,
        cursor: Cursor = None,
    ) -> Annotated[CallToolResult, Board]:
        """Show the leaderboard."""
        with self._lab.plainly():
            found = await leaderboard(self._services, group=group, baseline_id=baseline_id, purpose=purpose)
            groups: list[dict[str, Any]] = found["groups"] if group else [{"records": found["records"]}]
            rows: list[dict[str, Any]] = [row for one in groups for row in one["records"]]
            budget = await self._lab.budget()
            room = LIST_TOKENS - 1_000
            for_rows = room - _GROUP_TOKENS if group else room
            shown, following = await asyncio.to_thread(page, rows, cursor, budget, for_rows)
            listed = {"groups": _paged_groups(groups, shown)} if group else {"records": shown}
            listed = await asyncio.to_thread(fit, listed, budget, room)
        language = self._lab.language
        warned = [self._lab.worded(warning_text(row, language)) for row in found["warnings"][:_WARNINGS]]
        warned = await asyncio.to_thread(fit, warned, budget, 800)
        said = [tell("lab_board", language, count=len(rows))]
        before = None
        for row in shown:
            if group and row["baseline_id"] != before:
                before = row["baseline_id"]
                said.append(f"# {row['baseline_name']} ({before[:8]})")
            said.append(_board_row(row, with_baseline=not group))
        said += warned
        if following:
            said.append(tell("lab_more", language, cursor=following))
        archived = found["archived_baselines"][:50]
        data = {**listed, "archived_baselines": archived, "warnings": warned, "cursor": following}
        return result("\n".join(said), data)


def _paged_groups(
    groups: Sequence[Mapping[str, Any]], shown: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the groups that a page of records belongs to, each with the records of this page.

    The other fields describe the whole group. The page's own baseline name is used, as it is cut to fit.
    """
    paged: list[dict[str, Any]] = []
    for group in groups:
        records = [row for row in shown if row["baseline_id"] == group["baseline_id"]]
        if records:
            paged.append({**group, "baseline_name": records[0]["baseline_name"], "records": records})
    return paged


def _board_row(row: Mapping[str, Any], *, with_baseline: bool) -> str:
    where = f" · {row['baseline_name']}" if with_baseline else ""
    stale = "" if row["staleness"] == "current" else f" · {row['staleness']}"
    done = f"{row['completed_cases']}/{row['case_count']}"
    who = f"{row['skill_name']} {row['skill_version_tested']} ({row['skill_id'][:8]})"
    return f"- {score(row['avg_score'])} {who} {done}{where} · {row['project_name']}{stale}"
