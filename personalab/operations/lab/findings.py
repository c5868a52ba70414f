"""What a project shows: the analysis of its skills by a model, and new skills recomposed from the segments found."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from personalab.errors import UserError
from personalab.lab.analysis import (
    AnalysedSkill,
    AnalysisFindings,
    AnalysisReader,
    ShownSkill,
    analysis_call,
    report_of,
    shown_skills,
    spans_of,
)
from personalab.lab.assets import SkillMeta
from personalab.lab.calling import CallAnswer, estimated_tokens, exceeds
from personalab.lab.findings import AnalysisReport, Provenance
from personalab.lab.options import RunOptions
from personalab.lab.projects import Result, RunSummary, SkillRef
from personalab.lab.recomposing import (
    SegmentSelection,
    WriterReader,
    checked_content,
    join_segments,
    language_of,
    provenance_of,
    recomposed_name,
    select_segments,
    strategy_text,
    writer_call,
)
from personalab.lab.retention import read_retention, rules_text
from personalab.lab.segments import text_hash
from personalab.operations.lab.questions import ask_json, check_whole_prompt, export_prompt
from personalab.operations.lab.skills import with_new_id
from personalab.services import Services
from personalab.storage.lab.assets import StoredSkill
from personalab.storage.lab.iterations import IterationFiles
from personalab.storage.lab.projects import MAX_CONTENT, ProjectPlace
from personalab.tasks import run_uncancellable
from personalab.texts import PromptLanguage

_LEAST_SECONDS = 180.0
"""An analysis reads and writes more than a case does."""
_EVIDENCE = 3
_LEAST_SHOWN = 200
"""Fewer characters of all skills together are no analysis."""


@dataclass(frozen=True, slots=True)
class _Material:
    """What an analysis is made from."""

    summary: RunSummary
    skills: tuple[AnalysedSkill, ...]
    contents: Mapping[str, str]


async def run_analysis(services: Services, project: str, *, model: str | None = None) -> AnalysisReport:
    """Compute who leads, ask a model for segments and issues, and keep both in the project.

    The leaders are on disk before the model is asked, unless an earlier analysis is: a model that fails costs nothing
    that was known.
    """
    found = await asyncio.to_thread(services.projects.project, project)
    wait = services.settings.busy_seconds
    async with services.projects.leases.holding(found.name, "analyse", wait=wait):
        place = await asyncio.to_thread(found.again)
        material = await asyncio.to_thread(_material, place)
        options = await asyncio.to_thread(place.options)
        if await asyncio.to_thread(place.analysis) is None:
            await run_uncancellable(_keep_analysis, services, place, material, AnalysisFindings(), None, "")
        language = options.language or language_of(material.contents.values())
        shown, doubts = await run_uncancellable(_shown, place, material, language)
        call = analysis_call(shown, language)
        asked = await ask_json(
            services,
            model=model or options.model,
            system=call.system,
            text=call.text,
            schema=call.schema,
            read=AnalysisReader(shown),
            timeout=max(options.timeout_seconds, _LEAST_SECONDS),
            retries=options.retry_count,
        )
        value = asked.value
        complete = AnalysisFindings(value.segments, value.issues, (*doubts, *value.doubts))
        return await run_uncancellable(
            _keep_analysis, services, place, material, complete, asked.answer, model or options.model
        )


def _shown(
    place: ProjectPlace, material: _Material, language: PromptLanguage
) -> tuple[list[ShownSkill], list[dict[str, Any]]]:
    """Choose what an analyst is shown of the skills: as much as the project's context allows."""
    context = place.config.context_config
    shown, doubts = shown_skills(material.skills)
    whole = analysis_call(shown, language)
    if not exceeds(context.token_threshold, whole.system, whole.text):
        return shown, doubts
    if context.auto_export:
        export_prompt(place, "analysis", whole.system, whole.text)
    if not context.auto_compress:
        return shown, doubts
    most = sum(len(row.text) for row in shown)
    while most > _LEAST_SHOWN:
        most = most * 3 // 4
        shown, doubts = shown_skills(material.skills, most)
        call = analysis_call(shown, language)
        if not exceeds(context.token_threshold, call.system, call.text):
            return shown, doubts
    tokens = estimated_tokens(whole.system) + estimated_tokens(whole.text)
    raise UserError("lab_context_over", threshold=context.token_threshold, tokens=tokens)


def _material(place: ProjectPlace) -> _Material:
    summary = place.summary()
    if summary is None or all(row.score_breakdown is None for row in summary.ranking):
        raise UserError("lab_not_run_yet", project=place.config.name)
    contents = {copy.ref.ref_id: copy.content for copy in place.skills()}
    weakest = _weakest(place.all_results())
    ranking = sorted(summary.ranking, key=lambda row: row.rank)
    skills = tuple(
        AnalysedSkill(row, contents[row.skill_id], weakest.get(row.skill_id, ()))
        for row in ranking
        if row.skill_id in contents
    )
    return _Material(summary, skills, contents)


def _weakest(results: Sequence[Result]) -> dict[str, tuple[str, ...]]:
    """Return the judges' reasons for the weakest cases of each skill."""
    by_skill: dict[str, list[tuple[float, str, str]]] = {}
    for row in results:
        if row.scores.total is not None and row.score_reasoning:
            told = (row.scores.total, row.case_id, row.score_reasoning)
            by_skill.setdefault(row.skill_id, []).append(told)
    return {
        skill_id: tuple(reason for *_, reason in sorted(rows)[:_EVIDENCE])
        for skill_id, rows in by_skill.items()
    }


def _keep_analysis(
    services: Services,
    place: ProjectPlace,
    material: _Material,
    found: AnalysisFindings,
    answer: CallAnswer | None,
    model: str,
) -> AnalysisReport:
    report = report_of(material.summary, services.now(), found, place.config.name)
    extra: dict[str, Any] = {
        "project_id": report.project_id,
        "generated_at": report.generated_at,
        "summary_generated_at": material.summary.generated_at,
        "contents": {skill_id: text_hash(content) for skill_id, content in material.contents.items()},
        "segments": spans_of(report.advantage_segments, material.contents),
        "doubts": list(found.doubts),
        "model": model,
        "call": None if answer is None else _accounting(answer),
    }
    place.save_analysis(report, extra)
    return report


def _accounting(answer: CallAnswer) -> dict[str, Any]:
    names = ("executor", "cli_version", "model_version", "duration_ms", "usage", "cost_usd")
    return {name: getattr(answer, name) for name in names}


_LEAST_WRITING_SECONDS = 180.0
"""A whole prompt takes longer to write than a case to answer."""


async def recompose(
    services: Services,
    project: str,
    *,
    segments: Sequence[str] | None = None,
    keep: Sequence[str] = (),
    drop: Sequence[str] = (),
    rules: str = "",
    name: str = "",
    write: bool = False,
    model: str | None = None,
) -> StoredSkill:
    """Make a new skill of a project's segments and keep it in the library.

    Without ``segments`` all are used but those to ``drop``. With ``write`` a model words them into one prompt; it
    alone reads the rules' free text. Segments to ``keep`` are in the result verbatim, or there is no result.
    """
    place = await asyncio.to_thread(services.projects.project, project)
    report = await asyncio.to_thread(place.analysis)
    if report is None or not report.advantage_segments:
        raise UserError("lab_no_segments", project=place.config.name)
    choice = select_segments(report, segments, rules, keep=keep, drop=drop)
    contents = {copy.ref.ref_id: copy.content for copy in await asyncio.to_thread(place.skills)}
    options = await asyncio.to_thread(place.options)
    language: PromptLanguage = options.language or language_of(contents.values())
    writer = (model or options.model) if write else ""
    if writer:
        content = await _written(services, place, choice, rules, writer, language, options)
    else:
        content = join_segments(choice, contents)
    refs = {ref.ref_id: ref for ref in place.config.skills}
    best = refs.get(report.best_skill_id) or place.config.skills[0]
    provenance = provenance_of(
        project_id=place.config.id,
        project_name=place.config.name,
        strategy=strategy_text(choice, language, writer),
        rules=rules_text(rules, keep, drop),
        skills={skill_id: (ref.name, ref.version) for skill_id, ref in refs.items()},
        segments=[(row.skill_id, row.id) for row in choice.segments],
        now=services.now(),
    )
    shown = name.strip() or recomposed_name(best.name or best.ref_id, language)
    return await run_uncancellable(
        _keep_skill, services, _fields(best, shown, provenance), content, choice, provenance
    )


async def retention_of_analysis(
    services: Services, project: str, rules: str, keep: Sequence[str] = (), drop: Sequence[str] = ()
) -> dict[str, list[str]]:
    """Return the segments of a project's analysis that lists and rules keep and drop."""
    place = await asyncio.to_thread(services.projects.project, project)
    report = await asyncio.to_thread(place.analysis)
    known = [row.id for row in report.advantage_segments] if report else ()
    found = read_retention(rules, known, keep=keep, drop=drop)
    return {"kept": list(found.kept), "dropped": list(found.dropped)}


async def retention_of_search(services: Services, project: str) -> dict[str, list[str]]:
    """Return the segments that a project's search keeps; it drops none by rule."""
    place = await asyncio.to_thread(services.projects.project, project)
    plan = await asyncio.to_thread(IterationFiles(place.folder).plan)
    return {"kept": list(plan.kept) if plan else [], "dropped": []}


async def _written(
    services: Services,
    place: ProjectPlace,
    choice: SegmentSelection,
    rules: str,
    model: str,
    language: PromptLanguage,
    options: RunOptions,
) -> str:
    call = writer_call(choice, rules, language)
    await run_uncancellable(check_whole_prompt, place, "recompose", call.system, call.text)
    asked = await ask_json(
        services,
        model=model,
        system=call.system,
        text=call.text,
        schema=call.schema,
        read=WriterReader(choice, MAX_CONTENT),
        timeout=max(options.timeout_seconds, _LEAST_WRITING_SECONDS),
        retries=options.retry_count,
    )
    return asked.value


def _keep_skill(
    services: Services,
    fields: Mapping[str, str],
    content: str,
    choice: SegmentSelection,
    provenance: Provenance,
) -> StoredSkill:
    def add(skill_id: str) -> StoredSkill:
        meta = SkillMeta.read({**fields, "id": skill_id}, "meta.json")
        checked = checked_content(content, choice.kept, choice.gone)
        return services.assets.add_skill(meta, checked, provenance=provenance)

    return with_new_id(add)


def _fields(best: SkillRef, name: str, provenance: Provenance) -> dict[str, str]:
    """Return the new skill's fields, filed under the purpose and provider of the best of its sources."""
    return {
        "name": name,
        "purpose": best.purpose or "recomposed",
        "provider": best.provider or "local",
        "version": "v1",
        "status": "active",
        "created_at": provenance.created_at,
        "updated_at": provenance.created_at,
    }
