"""Operations on baselines, their cases and drafts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from personalab.data_files import dump_json
from personalab.errors import StorageError, UserError, as_reason
from personalab.lab.assets import BaselineMeta, Case, Cases, case_ids, change_case, new_case
from personalab.lab.assets import edit_baseline as edited
from personalab.lab.assets import remove_case as removed
from personalab.lab.generating import (
    DRAFTS_FILE,
    Drafted,
    Drafts,
    cases_schema,
    chosen,
    decided,
    drafted,
    generation_prompt,
    read_cases,
)
from personalab.lab.options import CliSettings, TempSession
from personalab.operations.lab.questions import ask_json
from personalab.operations.lab.skills import (
    check_expected,
    first_meta,
    is_meant,
    shown,
    tags_and_past,
    until_unchanged,
    with_new_id,
)
from personalab.operations.lab.tags import fitted, language_of
from personalab.ports import AnswerNeeded
from personalab.services import Services
from personalab.storage.lab.assets import StoredBaseline
from personalab.tasks import run_uncancellable

CaseFields = Mapping[str, object]
"""``name``, ``category``, ``input``, ``expected_output``, ``description``; an ``id`` of its own is not taken."""


async def create_baseline(
    services: Services,
    *,
    name: str,
    purpose: str,
    cases: Sequence[CaseFields] = (),
    provider: str = "local",
    description: str = "",
    author: str = "",
    source: str = "",
) -> StoredBaseline:
    """Keep a new baseline as its first version; its cases are numbered as they come."""
    if not name.strip():
        raise UserError("lab_blank", field="name")
    now = services.now()
    numbered = zip(case_ids((), (), len(cases)), cases, strict=True)
    rows = [new_case(case_id, fields, now) for case_id, fields in numbered]

    def make(asset_id: str) -> StoredBaseline:
        meta = first_meta(
            asset_id,
            now,
            name=name,
            description=description,
            author=author,
            source=source,
            purpose=purpose,
            provider=provider,
        )
        kept = Cases(baseline_id=asset_id, version="v1", cases=tuple(rows))
        return services.assets.add_baseline(BaselineMeta.read(meta, "meta.json"), kept)

    return await run_uncancellable(lambda: with_new_id(make))


async def edit_baseline(
    services: Services,
    baseline_id: str,
    *,
    name: str | None = None,
    description: str | None = None,
    author: str | None = None,
    source: str | None = None,
    purpose: str | None = None,
    provider: str | None = None,
    expected_version: str | None = None,
) -> StoredBaseline:
    """Make the next version with what changes; where nothing does, the baseline stays as it is."""
    changes = {
        "name": name,
        "description": description,
        "author": author,
        "source": source,
        "purpose": purpose,
        "provider": provider,
    }
    return await _edit(services, baseline_id, None, changes, expected_version)


async def archive_baseline(services: Services, baseline_id: str, *, archived: bool = True) -> StoredBaseline:
    """Archive a baseline, or restore it; it stays readable."""
    return await _edit(services, baseline_id, None, {"status": "archived" if archived else "active"}, None)


async def list_baselines(
    services: Services,
    *,
    purpose: str | None = None,
    tag: str | None = None,
    query: str | None = None,
    archived: bool = False,
) -> list[dict[str, Any]]:
    """List the baselines by name, with their tags; archived ones only if they are asked for, too."""

    def read() -> list[dict[str, Any]]:
        return [
            shown(stored)
            for stored in services.assets.baselines(archived=archived)
            if is_meant(stored, purpose, tag, query, "\n".join(case.name for case in stored.cases.cases))
        ]

    return await asyncio.to_thread(read)


async def get_baseline(services: Services, baseline_id: str, version: str | None = None) -> dict[str, Any]:
    """Return everything of a baseline: its meta, cases, tags, history, and the drafts that wait for review."""

    def read() -> dict[str, Any]:
        stored = services.assets.baseline(baseline_id, version)
        return {
            "meta": stored.meta.model_dump(mode="json"),
            "cases": [case.model_dump(mode="json") for case in stored.cases.cases],
            **tags_and_past(services, stored),
            "drafts": [draft.model_dump(mode="json") for draft in _drafts(services, stored).pending()],
            "doubts": [f"{doubt.field}: {doubt.reason}" for doubt in stored.doubts],
        }

    return await asyncio.to_thread(read)


# --- cases


async def add_case(
    services: Services,
    baseline_id: str,
    *,
    name: str,
    input: str,
    expected_output: str,
    category: str = "standard",
    description: str = "",
) -> StoredBaseline:
    """Add a case under the next id, which no case ever had."""
    fields = {
        "name": name,
        "category": category,
        "input": input,
        "expected_output": expected_output,
        "description": description,
    }

    def add(stored: StoredBaseline) -> list[Case]:
        case_id = case_ids(stored.cases.cases, services.assets.history(stored), 1)[0]
        return [*stored.cases.cases, new_case(case_id, fields, services.now())]

    return await _edit(services, baseline_id, add, {}, None)


async def edit_case(
    services: Services,
    baseline_id: str,
    case_id: str,
    *,
    name: str | None = None,
    category: str | None = None,
    input: str | None = None,
    expected_output: str | None = None,
    description: str | None = None,
) -> StoredBaseline:
    """Change fields of a case; where nothing changes, the baseline stays as it is."""
    changes = {
        "name": name,
        "category": category,
        "input": input,
        "expected_output": expected_output,
        "description": description,
    }

    def change(stored: StoredBaseline) -> list[Case]:
        return change_case(stored.cases.cases, case_id, changes, services.now())

    return await _edit(services, baseline_id, change, {}, None)


async def remove_case(services: Services, baseline_id: str, case_id: str) -> StoredBaseline:
    """Remove a case; the others keep their ids, and its own is never used again."""
    return await _edit(services, baseline_id, lambda stored: removed(stored.cases.cases, case_id), {}, None)


async def _edit(
    services: Services,
    baseline_id: str,
    change: Callable[[StoredBaseline], list[Case]] | None,
    changes: Mapping[str, object],
    expected_version: str | None,
) -> StoredBaseline:
    def edit() -> StoredBaseline:
        old = services.assets.baseline(baseline_id)
        check_expected(old, expected_version)
        cases = change(old) if change is not None else None
        made = edited(old.meta, old.cases, new_cases=cases, changes=changes, now=services.now())
        if made is None:
            return old
        return services.assets.add_baseline_version(old, made.meta, made.cases, made.history)

    return await run_uncancellable(until_unchanged, edit, expected_version is not None)


# --- cases that a model drafts


async def generate_cases(
    services: Services, baseline_id: str, description: str, count: int, *, model: str | None = None
) -> dict[str, Any]:
    """Draft cases with a model from a description of what is to be tested; they await review."""
    stored = await asyncio.to_thread(services.assets.baseline, baseline_id)
    settings = await run_uncancellable(services.lab_sessions.settings)
    name, asset_id = stored.meta.name, stored.meta.id
    language = language_of([description])
    system, text = generation_prompt(name, description, count, stored.cases.cases, language)
    now = services.now()
    await run_uncancellable(services.lab_sessions.expire, now)
    session = await run_uncancellable(services.lab_sessions.open, "baseline_gen", "baseline", asset_id, now)
    try:
        sent = await run_uncancellable(fitted, services, session, settings, system, text, language)
        asked = await _asked(services, settings, model, system, sent, count)
        return await run_uncancellable(_keep_drafts, services, stored, session, asked)
    except AnswerNeeded:
        await run_uncancellable(services.lab_sessions.drop, session.session_id)
        raise
    finally:
        await run_uncancellable(_close, services, session)


async def _asked(
    services: Services, settings: CliSettings, model: str | None, system: str, text: str, count: int
) -> list[Drafted]:
    asked = await ask_json(
        services,
        model=model or await asyncio.to_thread(services.lab_model),
        system=system,
        text=text,
        schema=cases_schema(count),
        read=partial(read_cases, count=count),
        timeout=settings.default_timeout_seconds,
        retries=settings.default_retry_count,
    )
    return asked.value


def _close(services: Services, session: TempSession) -> None:
    if services.lab_sessions.exists(session.session_id):
        services.lab_sessions.close(session.session_id)


def _keep_drafts(
    services: Services, stored: StoredBaseline, session: TempSession, cases: list[Drafted]
) -> dict[str, Any]:
    known = services.assets.baseline(stored.meta.id).cases.cases
    now, fresh = services.now(), list[str]()

    def add(raw: bytes | None) -> dict[str, Any]:
        before = _read_drafts(raw)
        after = drafted(before, cases, known, now, session.session_id)
        fresh.extend(draft.id for draft in after.drafts[len(before.drafts) :])
        return after.fields(DRAFTS_FILE)

    services.assets.change_beside(stored, DRAFTS_FILE, add)
    pending = _drafts(services, services.assets.baseline(stored.meta.id)).pending()
    return {
        "baseline_id": stored.meta.id,
        "session_id": session.session_id,
        "drafts": [draft.model_dump(mode="json") for draft in pending if draft.id in fresh],
        "repeated": len(cases) - len(fresh),
    }


async def drafts(services: Services, baseline_id: str) -> list[dict[str, Any]]:
    """List the drafts that wait for review."""

    def read() -> list[dict[str, Any]]:
        found = _drafts(services, services.assets.baseline(baseline_id))
        return [draft.model_dump(mode="json") for draft in found.pending()]

    return await asyncio.to_thread(read)


async def accept_drafts(
    services: Services, baseline_id: str, draft_ids: Sequence[str] | None = None
) -> StoredBaseline:
    """Make cases of drafts, all of them as one change; ``None`` means every draft that waits."""

    def accept() -> StoredBaseline:
        old = services.assets.baseline(baseline_id)
        before, now = _drafts(services, old), services.now()
        meant = chosen(before, draft_ids)
        ids = case_ids(old.cases.cases, services.assets.history(old), len(meant))
        named = {draft.id: case_id for draft, case_id in zip(meant, ids, strict=True)}
        fresh = [new_case(named[draft.id], draft.model_dump(), now) for draft in meant]
        made = edited(old.meta, old.cases, new_cases=[*old.cases.cases, *fresh], changes={}, now=now)
        if made is None:
            return old
        kept = dump_json(decided(before, named, "accepted", now).fields(DRAFTS_FILE))
        return services.assets.add_baseline_version(
            old, made.meta, made.cases, made.history, extra={DRAFTS_FILE: kept}
        )

    return await run_uncancellable(until_unchanged, accept, False)


async def reject_drafts(
    services: Services, baseline_id: str, draft_ids: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Refuse drafts; ``None`` means every one that waits. Give those that still wait."""

    def reject() -> list[dict[str, Any]]:
        stored = services.assets.baseline(baseline_id)
        now = services.now()
        left: list[Drafts] = []

        def change(raw: bytes | None) -> dict[str, Any]:
            before = _read_drafts(raw)
            meant = {draft.id: None for draft in chosen(before, draft_ids)}
            left.append(decided(before, meant, "rejected", now))
            return left[0].fields(DRAFTS_FILE)

        services.assets.change_beside(stored, DRAFTS_FILE, change)
        return [draft.model_dump(mode="json") for draft in left[0].pending()]

    return await run_uncancellable(reject)


def _drafts(services: Services, stored: StoredBaseline) -> Drafts:
    return _read_drafts(services.assets.beside(stored, DRAFTS_FILE))


def _read_drafts(raw: bytes | None) -> Drafts:
    if raw is None:
        return Drafts()
    try:
        return Drafts.read(json.loads(raw), DRAFTS_FILE)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise StorageError("file_broken", file=DRAFTS_FILE, reason=as_reason(error)) from error
