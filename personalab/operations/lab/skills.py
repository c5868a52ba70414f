"""Operations on skills: creation, versions, archiving, reading and comparison."""

from __future__ import annotations

import asyncio
import difflib
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from personalab.errors import UserError
from personalab.lab.assets import SkillMeta, SkillType
from personalab.lab.assets import edit_skill as edited
from personalab.services import Services
from personalab.storage.lab.assets import Stored, StoredSkill
from personalab.tasks import run_uncancellable

T = TypeVar("T")
_TRIES = 8


async def create_skill(
    services: Services,
    *,
    name: str,
    content: str,
    purpose: str,
    provider: str = "local",
    type: SkillType = "skill",
    description: str = "",
    author: str = "",
    source: str = "",
) -> StoredSkill:
    """Keep a new skill as its first version."""
    for field, value in (("name", name), ("content", content)):
        if not value.strip():
            raise UserError("lab_blank", field=field)
    now = services.now()

    def make(asset_id: str) -> StoredSkill:
        meta = first_meta(
            asset_id,
            now,
            name=name,
            description=description,
            author=author,
            source=source,
            purpose=purpose,
            provider=provider,
            type=type,
        )
        return services.assets.add_skill(SkillMeta.read(meta, "meta.json"), content)

    return await run_uncancellable(lambda: with_new_id(make))


async def edit_skill(
    services: Services,
    skill_id: str,
    *,
    content: str | None = None,
    name: str | None = None,
    description: str | None = None,
    author: str | None = None,
    source: str | None = None,
    purpose: str | None = None,
    provider: str | None = None,
    type: SkillType | None = None,
    expected_version: str | None = None,
) -> StoredSkill:
    """Make the next version with what changes; where nothing does, the skill stays as it is.

    ``expected_version`` is the one the change was made from: if another is the newest by now, it is refused.
    """
    if content is not None and not content.strip():
        raise UserError("lab_blank", field="content")
    changes = {
        "name": name,
        "description": description,
        "author": author,
        "source": source,
        "purpose": purpose,
        "provider": provider,
        "type": type,
    }

    def edit() -> StoredSkill:
        old = services.assets.skill(skill_id)
        check_expected(old, expected_version)
        made = edited(old.meta, old.content, new_content=content, changes=changes, now=services.now())
        if made is None:
            return old
        return services.assets.add_skill_version(old, made.meta, made.content, made.history)

    return await run_uncancellable(until_unchanged, edit, expected_version is not None)


async def archive_skill(services: Services, skill_id: str, *, archived: bool = True) -> StoredSkill:
    """Archive a skill, or restore it; it stays readable."""

    def archive() -> StoredSkill:
        old = services.assets.skill(skill_id)
        return services.assets.set_status(old, "archived" if archived else "active", services.now())

    return await run_uncancellable(until_unchanged, archive, False)


async def list_skills(
    services: Services,
    *,
    purpose: str | None = None,
    tag: str | None = None,
    query: str | None = None,
    archived: bool = False,
) -> list[dict[str, Any]]:
    """List the skills by name, with their tags and how they did; archived ones only if asked for, too."""

    def read() -> list[StoredSkill]:
        return [
            stored
            for stored in services.assets.skills(archived=archived)
            if is_meant(stored, purpose, tag, query, stored.content)
        ]

    found = await asyncio.to_thread(read)
    summaries = await _test_summaries(services) if found else {}
    return [{**shown(stored), "testSummary": summaries.get(stored.meta.id)} for stored in found]


async def get_skill(services: Services, skill_id: str, version: str | None = None) -> dict[str, Any]:
    """Return everything of a skill: its meta, content, tags, history, provenance, and how it did."""

    def read() -> dict[str, Any]:
        stored = services.assets.skill(skill_id, version)
        provenance = stored.provenance
        return {
            "meta": stored.meta.model_dump(mode="json"),
            "content": stored.content,
            **tags_and_past(services, stored),
            "provenance": provenance.model_dump(mode="json") if provenance is not None else None,
            "doubts": [f"{doubt.field}: {doubt.reason}" for doubt in stored.doubts],
        }

    found = await asyncio.to_thread(read)
    summaries = await _test_summaries(services)
    return {**found, "testSummary": summaries.get(found["meta"]["id"])}


async def skill_diff(services: Services, skill_id: str, from_version: str, to_version: str) -> str:
    """Compare the contents of two versions, as ``diff -u`` does."""

    def compare() -> str:
        one = services.assets.skill(skill_id, from_version)
        other = services.assets.skill(one.meta.id, to_version)
        lines = difflib.unified_diff(
            one.content.splitlines(),
            other.content.splitlines(),
            f"{one.meta.name} {one.meta.version}",
            f"{other.meta.name} {other.meta.version}",
            lineterm="",
        )
        return "\n".join(lines)

    return await asyncio.to_thread(compare)


async def _test_summaries(services: Services) -> dict[str, dict[str, Any]]:
    """Return the test summary of each tested skill, by its id."""
    from personalab.operations.lab.leaderboard import test_summaries

    found = await test_summaries(services)
    return {skill_id: summary.model_dump(mode="json") for skill_id, summary in found.items()}


# --- what skills and baselines share


def first_meta(asset_id: str, now: str, **fields: str) -> dict[str, str]:
    """Make the meta of a first version out of what a person may say of it."""
    made = {"version": "v1", "status": "active", "created_at": now, "updated_at": now}
    return {"id": asset_id, **fields, **made}


def with_new_id(make: Callable[[str], T]) -> T:
    """Make something under a fresh id; one that begins like another's is drawn again."""
    for _ in range(_TRIES):
        try:
            return make(str(uuid.uuid4()))
        except UserError as error:
            if error.code != "lab_short_id_taken":
                raise
    return make(str(uuid.uuid4()))


def until_unchanged(edit: Callable[[], T], strictly: bool) -> T:
    """Repeat an edit after a concurrent change, unless a certain version was expected."""
    for _ in range(_TRIES):
        try:
            return edit()
        except UserError as error:
            if strictly or error.code != "lab_asset_changed":
                raise
    return edit()


def check_expected(stored: Stored, version: str | None) -> None:
    """Refuse to go on from a version that is not the newest any more."""
    if version is not None and stored.meta.version != version:
        raise UserError("lab_asset_changed", name=stored.meta.name[:80], version=stored.meta.version)


def is_meant(stored: Stored, purpose: str | None, tag: str | None, query: str | None, text: str) -> bool:
    """Return whether an asset is one of the requested ones."""
    is_there = purpose is None or stored.meta.purpose == purpose
    return is_there and has_tag(stored, tag) and speaks_of(stored, query, text)


def tags_and_past(services: Services, stored: Stored) -> dict[str, Any]:
    """Return an asset's tags, its versions, and how it came to be as it is."""
    return {
        "tags": stored.tags.model_dump(mode="json"),
        "versions": services.assets.versions(stored),
        "history": [record.model_dump(mode="json") for record in services.assets.history(stored)],
    }


def has_tag(stored: Stored, tag: str | None) -> bool:
    """Return whether an asset has a tag that counts."""
    return tag is None or tag.casefold() in {value.casefold() for value in stored.tags.valid()}


def speaks_of(stored: Stored, query: str | None, text: str) -> bool:
    """Return whether every word of a query occurs in an asset's names, tags or text."""
    if query is None or not query.strip():
        return True
    meta = stored.meta
    parts = (meta.id, meta.name, meta.description, meta.author, *stored.tags.valid(), text)
    whole = "\n".join(parts).casefold()
    return all(word in whole for word in query.casefold().split())


def shown(stored: Stored) -> dict[str, Any]:
    """Return an asset as a list shows it."""
    pending = [tag.value for tag in stored.tags.auto if tag.status == "pending"]
    return {**stored.meta.model_dump(mode="json"), "tags": stored.tags.valid(), "pending_tags": pending}
