"""The lab's tools for projects: creation, runs, status and reports.

A run belongs to the server, not to the call: callers follow it. Money is spent only after its estimate was
shown, or within a given limit.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult
from pydantic import Field

from mcp_server.budget import RESULT_TOKENS
from mcp_server.lab_desk import LabDesk
from mcp_server.lab_fitting import LIST_TOKENS, fit, page
from mcp_server.lab_results import ProjectMade, ProjectRan, ProjectView, Reported
from mcp_server.lab_runs import LabRun, step
from mcp_server.lab_showing import (
    analysis_fields,
    analysis_text,
    iteration_fields,
    iteration_text,
    money,
    notices,
    plan_text,
    ranking_of,
    ranking_text,
)
from mcp_server.results import result
from mcp_server.schemas import object_schema
from mcp_server.stories import Cursor
from mcp_server.texts import tell
from personalab.errors import BadRecord, UserError
from personalab.lab.calling import is_free, is_limited
from personalab.lab.options import RunOptions
from personalab.operations.exchange_folder import FOLDER, put_into_exchange
from personalab.operations.lab import projects
from personalab.operations.lab.iterating import iteration_status
from personalab.operations.lab.projects import pause as pausing
from personalab.operations.lab.projects import usual_options
from personalab.operations.lab.reporting import ReportFormat, project_report
from personalab.storage.lab.projects import ProjectPlace
from personalab.texts import PROMPT_LANGUAGES

Project = Annotated[str, Field(description="Its folder's name, id or name")]
Confirm = Annotated[bool, Field(description="The user agreed to the plan that was shown")]
Wait = Annotated[bool, Field(description="false: begin, and answer at once")]
_SKIP_FIELDS = ("skill_id", "case_id", "baseline_id", "undo")
_SKIP = object_schema("skill_id", "case_id", skill_id=str, case_id=str, baseline_id=str, undo=bool)
_OPTIONS = object_schema(
    judges={"items": {"type": "string"}, "type": "array"},
    repeats=int,
    judge_repeats=int,
    no_skill_arm=bool,
    max_calls=int,
    max_usd=float,
    concurrency=int,
    timeout_seconds=float,
    retry_count=int,
    pass_score=float,
    language=PROMPT_LANGUAGES,
)
_COUNTS = ("total", "completed", "failed", "skipped")


class ProjectTools:
    """Skills that answer cases and are judged."""

    def __init__(self, lab: LabDesk) -> None:
        self._lab = lab
        self._services = lab.desk.services

    async def project_create(
        self,
        name: str,
        skill_ids: list[str],
        baseline_ids: list[str],
        model: Annotated[
            str | None,
            Field(
                description="Who answers: provider:model, rehearsal, or a model of the claude command line"
            ),
        ] = None,
        options: Annotated[
            Annotated[dict[str, Any], _OPTIONS] | None, Field(description="judges are names of models")
        ] = None,
        description: str = "",
    ) -> Annotated[CallToolResult, ProjectMade]:
        """Make a project."""
        with self._lab.plainly():
            chosen = await asyncio.to_thread(self._options, model, options or {})
            made = await projects.create_project(
                self._services,
                name=name,
                skill_ids=skill_ids,
                baseline_ids=baseline_ids,
                options=chosen,
                description=description,
            )
            plan = (await projects.plan_project(self._services, made["project"])).fields()
        words = {"project": made["project"], "tasks": made["progress"]["total_tasks"], "model": made["model"]}
        said = tell("lab_project_made", self._lab.language, **words)
        data = {**words, "id": made["id"], "plan": plan}
        return result(f"{said}\n{plan_text(plan, self._lab.language)}", data)

    def _options(self, model: str | None, given: Mapping[str, Any]) -> RunOptions:
        if "extra_flags" in given:
            raise UserError("lab_flags_local")
        for name in given:
            if name not in RunOptions.model_fields:
                known = ", ".join(one for one in RunOptions.model_fields if one != "extra_flags")
                raise UserError("lab_no_option", option=name[:80], options=known)
        named = {"model": model} if model is not None else {}
        return RunOptions.read({**usual_options(self._services), **given, **named}, "options")

    # --- running

    async def project_run(
        self,
        ctx: Context[Any],
        project: Project,
        confirm: Confirm = False,
        max_calls: Annotated[int | None, Field(description="Over all its runs", ge=0)] = None,
        max_usd: Annotated[float | None, Field(ge=0)] = None,
        rerun_failed: bool = False,
        pause: Annotated[bool, Field(description="Pause the one that runs")] = False,
        skip: Annotated[
            Annotated[dict[str, Any], _SKIP] | None, Field(description="Leave a case out")
        ] = None,
        wait: Wait = True,
    ) -> Annotated[CallToolResult, ProjectRan]:
        """Run a project."""
        with self._lab.plainly():
            place = await asyncio.to_thread(self._services.projects.project, project)
            if pause:
                return self._told(await pausing(self._services, place.name))
            if skip is not None:
                return self._told(await self._skip(place.name, skip))
            limits = {"max_calls": max_calls, "max_usd": max_usd}
            changes = {name: value for name, value in limits.items() if value is not None}
            call = {"project": place.name, "rerun_failed": rerun_failed, "changes": changes}
            run = self._running(place.name) or await self._begin(place, call, confirm=confirm)
            if isinstance(run, CallToolResult):
                return run
            if not wait:
                said = tell("lab_runs_on", self._lab.language, project=place.name)
                return result(said, {"project": place.name, "status": "running"})
            ended = await self._lab.runs.follow(ctx, run, self._lab.language)
            return await self._ran(place, ended)

    async def _begin(
        self, place: ProjectPlace, call: dict[str, Any], *, confirm: bool
    ) -> LabRun | CallToolResult:
        """Start a run, or return the plan where money may be spent and nobody has agreed to it."""
        plan, options = await self._plan(call), await asyncio.to_thread(place.options)
        if not (confirm or _may_begin(plan, options)):
            said = [plan_text(plan, self._lab.language), tell("lab_confirm", self._lab.language)]
            return result("\n".join(said), {"project": place.name, "status": "plan", "plan": plan})
        graph = await asyncio.to_thread(importlib.import_module, "graph.evaluate")
        run = self._running(place.name)  # another call may have begun it meanwhile
        if run is None:
            stream = graph.stream_evaluate(self._services, call)
            run = self._lab.runs.begin(place.name, "evaluate", stream)
        return run

    def _running(self, project: str) -> LabRun | None:
        """Find a run of this server; one that searches in the project is none to follow."""
        run = self._lab.runs.of(project)
        if run is not None and run.kind != "evaluate":
            raise ToolError(tell("lab_is_searched", self._lab.language, project=project))
        return run

    async def _plan(self, call: Mapping[str, Any]) -> dict[str, Any]:
        graph = await asyncio.to_thread(importlib.import_module, "graph.evaluate")
        found: dict[str, Any] = {}
        async for part in graph.stream_evaluate(self._services, {**call, "dry_run": True}):
            if "type" not in part:
                found = part
        self._refuse(found)
        return found["plan"]

    def _refuse(self, found: Mapping[str, Any]) -> None:
        if error := found.get("error"):
            raise ToolError(self._lab.worded(str(error.get("message", ""))))

    async def _skip(self, project: str, skip: Mapping[str, Any]) -> dict[str, Any]:
        unknown = [name for name in skip if name not in _SKIP_FIELDS]
        texts = {name: skip.get(name) for name in _SKIP_FIELDS[:3]}
        if unknown or not all(isinstance(texts[name], str) for name in ("skill_id", "case_id")):
            raise BadRecord("field_wrong", field="skip", reason=", ".join(_SKIP_FIELDS))
        return await projects.skip_task(
            self._services,
            project,
            str(texts["skill_id"]),
            str(texts["case_id"]),
            baseline_id=str(texts["baseline_id"]) if texts["baseline_id"] else None,
            undo=bool(skip.get("undo")),
        )

    def _told(self, done: Mapping[str, Any]) -> CallToolResult:
        status = done["status"] if done["status"] != "completed" else "done"
        code = f"lab_search_{status}" if done.get("kind") == "iterate" else f"lab_now_{status}"
        said = tell(code, self._lab.language, project=done["project"])
        return result(said, {"project": done["project"], "status": status})

    async def _ran(self, place: ProjectPlace, ended: Mapping[str, Any]) -> CallToolResult:
        self._refuse(ended)
        language, budget = self._lab.language, await self._lab.budget()
        counts = {name: ended.get(name) or 0 for name in _COUNTS}
        rows = await asyncio.to_thread(ranking_of, place)
        rows = await asyncio.to_thread(fit, rows, budget, LIST_TOKENS // 2)
        words = {**counts, "project": place.name, "cost": money(ended.get("cost_usd"))}
        status = "done" if ended.get("status") == "done" else "interrupted"
        said = [tell(f"lab_run_{status}", language, **words)]
        if ended.get("budget"):
            said.append(tell("lab_budget_used", language, reason=ended["budget"]))
        said += ranking_text(rows, language)
        said += await asyncio.to_thread(fit, await asyncio.to_thread(notices, place, language), budget, 1_000)
        data = {"project": place.name, "status": status, **counts, "plan": ended.get("plan")}
        more = {"cost_usd": ended.get("cost_usd"), "budget": ended.get("budget") or "", "ranking": rows}
        return result("\n".join(said), {**data, **more})

    # --- looking

    async def project_status(
        self,
        project: Annotated[str | None, Field(description="Left out: list all")] = None,
        show: Annotated[
            Literal["plan", "analysis", "iteration"] | None, Field(description="Also show this")
        ] = None,
        cursor: Cursor = None,
    ) -> Annotated[CallToolResult, ProjectView]:
        """Show projects."""
        with self._lab.plainly():
            if project is None:
                return await self._list(cursor)
            status = await projects.project_status(self._services, project)
            place = await asyncio.to_thread(self._services.projects.project, status["project"])
            data, said = await self._standing(place, status)
            if show is not None:
                more, rows = await self._more(place, show)
                said += ["", *rows]
                data[show] = more
        return result("\n".join(said), {**data, "cursor": None})

    async def _list(self, cursor: str | None) -> CallToolResult:
        found = await projects.list_projects(self._services)
        names = ("project", "name", "status", "model", "progress", "updated_at")
        rows = [{name: row[name] for name in names} for row in found]
        shown, following = await asyncio.to_thread(page, rows, cursor, await self._lab.budget())
        said = [tell("lab_projects", self._lab.language, count=len(rows))]
        for row in shown:
            done = f"{row['progress']['completed_tasks']}/{row['progress']['total_tasks']}"
            said.append(f"- {row['project']} {row['name']} · {row['status']} {done} · {row['model']}")
        if following:
            said.append(tell("lab_more", self._lab.language, cursor=following))
        return result("\n".join(said), {"projects": shown, "cursor": following})

    async def _standing(
        self, place: ProjectPlace, status: dict[str, Any]
    ) -> tuple[dict[str, Any], list[str]]:
        language, budget = self._lab.language, await self._lab.budget()
        del status["ranking"]
        rows = await asyncio.to_thread(ranking_of, place)
        run, last = self._lab.runs.of(place.name), self._lab.runs.ended(place.name)
        live = {"kind": run.kind, **(run.event or {})} if run else None
        data: dict[str, Any] = {"project": status, "running": live, "last_run": _ended(last)}
        data = await asyncio.to_thread(fit, data, budget, 2_000)
        data["ranking"] = await asyncio.to_thread(fit, rows, budget, 3_000)
        spent = money(status["spent_usd"] if status["calls_made"] else 0.0)
        words = {**status, **status["progress"], "spent": spent}
        said = [tell("lab_standing", language, **words)]
        if run is not None:
            said.append(step(run.event or {}, language))
        elif last is not None and last.get("error"):
            said.append(self._lab.worded(str(data["last_run"]["message"])))
        said += ranking_text(data["ranking"], language)
        said += await asyncio.to_thread(fit, await asyncio.to_thread(notices, place, language), budget, 800)
        return data, said

    async def _more(self, place: ProjectPlace, show: str) -> tuple[dict[str, Any], list[str]]:
        language, budget = self._lab.language, await self._lab.budget()
        share = LIST_TOKENS - 5_000
        if show == "plan":
            plan = (await projects.plan_project(self._services, place.name)).fields()
            return plan, [plan_text(plan, language)]
        if show == "iteration":
            found = iteration_fields(await iteration_status(self._services, place.name))
            shown = await asyncio.to_thread(fit, found, budget, share)
            return shown, iteration_text(shown, language)
        report = await asyncio.to_thread(place.analysis)
        if report is None:
            raise UserError("lab_no_segments", project=place.config.name)
        shown = await asyncio.to_thread(fit, analysis_fields(report), budget, share)
        return shown, analysis_text(shown, language)

    async def project_report(
        self, project: Project, format: ReportFormat = "html"
    ) -> Annotated[CallToolResult, Reported]:
        """Report a project."""
        with self._lab.plainly():
            made = await project_report(self._services, project, format, self._lab.language)
            name = await put_into_exchange(self._services, made.name, made.content)
        data: dict[str, Any] = {
            "project": made.name.partition(".")[0],
            "name": name,
            "size": len(made.content),
            "not_passed": made.not_passed,
        }
        said = [tell("lab_reported", self._lab.language, folder=FOLDER, **data)]
        if format != "html":
            text = made.content.decode("utf-8")
            budget = await self._lab.budget()
            data["text"] = await asyncio.to_thread(budget.cut, text, RESULT_TOKENS - 500)
            data["whole"] = len(data["text"]) == len(text)
            if not data["whole"]:
                said.append(tell("text_begins", self._lab.language))
            said.append(data["text"])
        return result("\n".join(said), data)


def _may_begin(plan: Mapping[str, Any], options: RunOptions) -> bool:
    """Return whether a run may start without confirmation: it is free, or has an enforceable limit."""
    models = [options.model, *options.judging()]
    return (
        not plan["calls"]
        or is_limited(models, plan["max_calls"], plan["max_usd"])
        or all(map(is_free, models))
    )


def _ended(last: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if last is None:
        return None
    error: Mapping[str, Any] = last.get("error") or {}
    told = {"kind": last["kind"], "status": last.get("status")}
    return {**told, "message": error.get("message", "")} if error else told
