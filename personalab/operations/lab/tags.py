"""Operations on tags of skills and baselines, including proposals by a model."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from personalab.dialogue import language_among
from personalab.errors import PersonaLabError, UserError
from personalab.lab.assets import AutoTagLog, ParsedTag, Tags
from personalab.lab.calling import estimated_tokens, shorten_text
from personalab.lab.options import CliSettings, TempSession
from personalab.lab.records import AssetKind, compact_time, is_uuid4
from personalab.lab.tagging import (
    TAG_SCHEMA,
    Verdict,
    read_tags,
    tag_prompt,
    unknown_tags,
    with_proposals,
    with_tag,
    with_verdict,
    without_tag,
)
from personalab.operations.lab.questions import ParsedAnswer, ask_json, version_of
from personalab.ports import AnswerNeeded
from personalab.services import Services
from personalab.storage.lab.assets import Stored, StoredSkill
from personalab.tasks import run_uncancellable
from personalab.texts import PromptLanguage

Trigger = Literal["user", "batch"]


def _new_id() -> str:
    return str(uuid.uuid4())


def find_asset(services: Services, kind: AssetKind, asset_id: str) -> Stored:
    """Find the newest version of a skill or a baseline."""
    return services.assets.skill(asset_id) if kind == "skill" else services.assets.baseline(asset_id)


# --- by people


async def add_tag(services: Services, kind: AssetKind, asset_id: str, value: str) -> dict[str, Any]:
    """Add a tag to an asset; no version is made for it."""
    now = services.now()
    return await _change(services, kind, asset_id, lambda tags: with_tag(tags, value, now, _new_id))


async def remove_tag(services: Services, kind: AssetKind, asset_id: str, tag: str) -> dict[str, Any]:
    """Take a tag away, by its id or its value."""
    return await _change(services, kind, asset_id, lambda tags: without_tag(tags, tag, _new_id))


async def approve_tag(services: Services, kind: AssetKind, asset_id: str, tag: str) -> dict[str, Any]:
    """Accept a tag that a model proposed, by its id or its value."""
    return await _judge(services, kind, asset_id, tag, "approved")


async def reject_tag(services: Services, kind: AssetKind, asset_id: str, tag: str) -> dict[str, Any]:
    """Refuse a tag that a model proposed, by its id or its value; it is not proposed again."""
    return await _judge(services, kind, asset_id, tag, "rejected")


async def _judge(
    services: Services, kind: AssetKind, asset_id: str, tag: str, verdict: Verdict
) -> dict[str, Any]:
    now = services.now()
    return await _change(
        services, kind, asset_id, lambda tags: with_verdict(tags, tag, verdict, now, _new_id)
    )


async def _change(
    services: Services, kind: AssetKind, asset_id: str, change: Callable[[Tags], Tags]
) -> dict[str, Any]:
    def work() -> dict[str, Any]:
        stored = find_asset(services, kind, asset_id)
        tags = services.assets.change_tags(stored, change)
        return {"kind": kind, "id": stored.meta.id, "name": stored.meta.name, **tags.model_dump(mode="json")}

    return await run_uncancellable(work)


# --- by a model


@dataclass(frozen=True, slots=True)
class _Tagging:
    """One session in which a model proposes tags."""

    stored: Stored
    session: TempSession
    settings: CliSettings
    model: str
    log: AutoTagLog
    log_name: str


async def auto_tag(
    services: Services, kind: AssetKind, asset_id: str, *, model: str | None = None, by: Trigger = "user"
) -> dict[str, Any]:
    """Ask a model for tags; they wait for a person's word, and a log tells how they came about."""
    work = await run_uncancellable(_begin, services, kind, asset_id, model, by)
    try:
        work = await _with_version(services, work)
        system, text = await run_uncancellable(_prompt, services, work)
        asked = await ask_json(
            services,
            model=work.model,
            system=system,
            text=text,
            schema=TAG_SCHEMA,
            read=read_tags,
            timeout=work.settings.default_timeout_seconds,
            retries=work.settings.default_retry_count,
        )
        return await run_uncancellable(_finish, services, work, asked)
    except AnswerNeeded:
        await run_uncancellable(_undo, services, work)
        raise
    except BaseException as error:
        reason = str(error) if isinstance(error, PersonaLabError) else type(error).__name__
        await run_uncancellable(_fail, services, work, reason)
        raise


async def batch(
    services: Services, kind: AssetKind, asset_ids: Sequence[str] | None = None, *, model: str | None = None
) -> list[dict[str, Any]]:
    """Ask a model for tags of many assets, one after the other; ``None`` means all that have no tag at all."""
    if asset_ids is None:
        asset_ids = await asyncio.to_thread(_untagged_ids, services, kind)
    done: list[dict[str, Any]] = []
    for asset_id in asset_ids:
        try:
            done.append(await auto_tag(services, kind, asset_id, model=model, by="batch"))
        except PersonaLabError as error:
            failed = {"code": error.code, "message": error.message(services.preferences.language())}
            done.append({"kind": kind, "id": asset_id, "status": "failed", "error": failed})
    return done


def _untagged_ids(services: Services, kind: AssetKind) -> list[str]:
    found = services.assets.skills() if kind == "skill" else services.assets.baselines()
    return [stored.meta.id for stored in found if not stored.tags.manual and not stored.tags.auto]


def _begin(services: Services, kind: AssetKind, asset_id: str, model: str | None, by: Trigger) -> _Tagging:
    stored = find_asset(services, kind, asset_id)
    if not is_uuid4(stored.meta.id):
        raise UserError("lab_foreign_id", asset_id=stored.meta.id[:80], name=stored.meta.name[:80])
    settings = services.lab_sessions.settings()
    chosen = model or services.lab_model()
    now = services.now()
    services.lab_sessions.expire(now)
    session = services.lab_sessions.open("auto_tag", kind, stored.meta.id, now)
    log = AutoTagLog(
        session_id=session.session_id,
        triggered_at=now,
        triggered_by=by,
        target_type=kind,
        target_id=stored.meta.id,
        status="running",
        duration_ms=0,
        cli_version="",
        model_version=chosen,
        raw_output="",
        parsed_tags=(),
        error=None,
    )
    try:
        name = services.assets.add_log(stored, log, f"session_{compact_time(now)}")
    except PersonaLabError:
        services.lab_sessions.drop(session.session_id)
        raise
    return _Tagging(stored, session, settings, chosen, log, name)


async def _with_version(services: Services, work: _Tagging) -> _Tagging:
    """Record the program before the question, so that a failed log names it, too."""
    version = await version_of(await services.executor(work.model))
    return replace(work, log=work.log.changed(cli_version=version))


def _prompt(services: Services, work: _Tagging) -> tuple[str, str]:
    stored = work.stored
    content = stored.content if isinstance(stored, StoredSkill) else _cases_text(stored)
    language = language_of([stored.meta.name, stored.meta.description, content])
    system, text = tag_prompt(
        stored.kind, stored.meta.name, stored.meta.description, content, stored.tags, language
    )
    return system, fitted(services, work.session, work.settings, system, text, language)


def _cases_text(stored: Stored) -> str:
    rows = () if isinstance(stored, StoredSkill) else stored.cases.cases
    return "\n\n".join(
        f"[{case.category}] {case.name}\n{case.input}\n→ {case.expected_output}" for case in rows
    )


def language_of(texts: Sequence[str]) -> PromptLanguage:
    """Return the language in which a model is asked about texts: English unless most of them are Chinese."""
    return language_among(texts) or language_among(["".join(texts)]) or "en"


def fitted(
    services: Services,
    session: TempSession,
    settings: CliSettings,
    system: str,
    text: str,
    language: PromptLanguage,
) -> str:
    """Return what is sent of a prompt: where it is too long, its beginning and end, and the whole is exported."""
    context = settings.context
    if estimated_tokens(system) + estimated_tokens(text) <= context.token_threshold:
        return text
    if context.auto_export:
        services.lab_sessions.export(session.session_id, f"{system}\n\n{text}\n")
    if not context.auto_compress:
        return text
    return shorten_text(text, max(1, context.token_threshold - estimated_tokens(system)), language)


def _finish(services: Services, work: _Tagging, asked: ParsedAnswer[list[str]]) -> dict[str, Any]:
    log_ref = f"auto_tag_log/{work.log_name}"
    now, answer = services.now(), asked.answer
    raw = answer.text or json.dumps(answer.structured, ensure_ascii=False)
    done = work.log.changed(
        status="completed",
        duration_ms=answer.duration_ms,
        cli_version=answer.cli_version,
        model_version=answer.model_version or work.model,
        raw_output=raw,
        parsed_tags=[ParsedTag(value=value).model_dump() for value in asked.value],
    )
    before: list[Tags] = []

    def add(tags: Tags) -> Tags:
        before.append(tags)
        return with_proposals(tags, asked.value, now, log_ref, _new_id)

    tags = services.assets.change_tags(work.stored, add, log=(work.log_name, done))
    services.lab_sessions.close(work.session.session_id)
    fresh = unknown_tags(asked.value, before[0])
    return {
        "kind": work.stored.kind,
        "id": work.stored.meta.id,
        "name": work.stored.meta.name,
        "status": "completed",
        "session_id": work.session.session_id,
        "log_ref": log_ref,
        "tags": [tag.model_dump(mode="json") for tag in tags.auto if tag.log_ref == log_ref],
        "known_before": [value for value in asked.value if value not in fresh],
    }


def _fail(services: Services, work: _Tagging, reason: str) -> None:
    failed = work.log.changed(status="failed", raw_output=reason, error=reason)
    services.assets.save_log(work.stored, work.log_name, failed)
    services.lab_sessions.close(work.session.session_id)


def _undo(services: Services, work: _Tagging) -> None:
    """Leave no trace: the answer comes from elsewhere, and the work is done anew with it."""
    services.assets.drop_log(work.stored, work.log_name)
    services.lab_sessions.drop(work.session.session_id)
