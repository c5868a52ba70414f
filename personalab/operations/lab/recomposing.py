"""Recomposition of a new skill for the library from a project's analysis."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from personalab.errors import UserError
from personalab.lab.assets import SkillMeta
from personalab.lab.findings import Provenance
from personalab.lab.options import RunOptions
from personalab.lab.projects import SkillRef
from personalab.lab.recomposing import (
    SegmentSelection,
    WriterReader,
    checked_content,
    choose,
    joined,
    language_of,
    provenance_of,
    recomposed_name,
    strategy_text,
    writer_call,
)
from personalab.lab.retention import read_retention
from personalab.operations.lab.asking import ask_json
from personalab.operations.lab.contexts import check_whole_prompt
from personalab.operations.lab.skills import with_new_id
from personalab.services import Services
from personalab.storage.lab.assets import StoredSkill
from personalab.storage.lab.iterations import IterationFiles
from personalab.storage.lab.project_place import MAX_CONTENT
from personalab.storage.lab.projects import ProjectPlace
from personalab.tasks import run_uncancellable
from personalab.texts import PromptLanguage

_LEAST_SECONDS = 180.0
"""A whole prompt takes longer to write than a case to answer."""


async def recompose(
    services: Services,
    project: str,
    *,
    segments: Sequence[str] | None = None,
    rules: str = "",
    name: str = "",
    write: bool = False,
    model: str | None = None,
) -> StoredSkill:
    """Make a new skill of a project's segments and keep it in the library.

    Without ``segments`` all are used but those the rules drop. With ``write`` a model words them into one prompt; it
    alone reads the rules' free text. Kept segments stand in the result to the letter, or there is none.
    """
    place = await asyncio.to_thread(services.projects.project, project)
    report = await asyncio.to_thread(place.analysis)
    if report is None or not report.advantage_segments:
        raise UserError("lab_no_segments", project=place.config.name)
    choice = choose(report, segments, rules)
    contents = {copy.ref.ref_id: copy.content for copy in await asyncio.to_thread(place.skills)}
    options = await asyncio.to_thread(place.options)
    language: PromptLanguage = options.language or language_of(contents.values())
    writer = (model or options.model) if write else ""
    if writer:
        content = await _written(services, place, choice, rules, writer, language, options)
    else:
        content = joined(choice, contents)
    refs = {ref.ref_id: ref for ref in place.config.skills}
    best = refs.get(report.best_skill_id) or place.config.skills[0]
    provenance = provenance_of(
        project_id=place.config.id,
        project_name=place.config.name,
        strategy=strategy_text(choice, language, writer),
        rules=rules,
        skills={skill_id: (ref.name, ref.version) for skill_id, ref in refs.items()},
        segments=[(row.skill_id, row.id) for row in choice.segments],
        now=services.now(),
    )
    shown = name.strip() or recomposed_name(best.name or best.ref_id, language)
    return await run_uncancellable(
        _keep, services, _fields(best, shown, provenance), content, choice, provenance
    )


async def understood(services: Services, project: str, rules: str) -> dict[str, list[str]]:
    """Return the segments of a project's analysis that rules keep and drop."""
    place = await asyncio.to_thread(services.projects.project, project)
    report = await asyncio.to_thread(place.analysis)
    found = read_retention(rules, [row.id for row in report.advantage_segments] if report else ())
    return {"kept": list(found.kept), "dropped": list(found.dropped)}


async def understood_by_search(services: Services, project: str) -> dict[str, list[str]]:
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
        timeout=max(options.timeout_seconds, _LEAST_SECONDS),
        retries=options.retry_count,
    )
    return asked.value


def _keep(
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
