"""Routes for the lab's library: skills, baselines and proposed tags."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query

from personalab.errors import UserError
from personalab.lab.calling import is_free
from personalab.operations.lab import tags as tagging
from personalab.operations.lab.baselines import get_baseline, list_baselines
from personalab.operations.lab.skills import get_skill, list_skills
from personalab.services import Services
from web.api.jobs import started
from web.api.lab_shapes import (
    AssetId,
    AssetTagsResponse,
    BaselineList,
    BaselineResponse,
    BaselineRow,
    JudgedTag,
    ProposedTags,
    SkillList,
    SkillResponse,
    SkillRow,
    Tag,
    Version,
    WaitingTag,
    WaitingTags,
)
from web.api.lab_wording import unread_text
from web.desk import AppContext, ContextDep
from web.shapes import JobStarted

router = APIRouter(prefix="/api/lab", tags=["lab"])

Archived = Annotated[bool, Query(description="Whether archived ones are listed, too")]
Words = Annotated[str | None, Query(max_length=200, description="Words that stand in name, tags or text")]
OneVersion = Annotated[Version | None, Query(description="The newest if left out")]

# --- skills and baselines


@router.get("/skills")
async def skill_list(desk: ContextDep, archived: Archived = False, query: Words = None) -> SkillList:
    """List the skills with their tags and how they did."""
    found = await list_skills(desk.services, archived=archived, query=query)
    rows = [SkillRow.model_validate(row) for row in found]
    return SkillList(skills=rows, unread=await _unread(desk, "skills"))


@router.get("/skills/{skill_id}")
async def skill_get(desk: ContextDep, skill_id: AssetId, version: OneVersion = None) -> SkillResponse:
    """Give one version of a skill, whole."""
    found = await get_skill(desk.services, skill_id, version)
    provenance: Mapping[str, Any] = found["provenance"] or {}
    return SkillResponse(
        skill=SkillRow.model_validate({**_with_tags(found), "testSummary": found["testSummary"]}),
        content=found["content"],
        all_tags=_tags(found["tags"]),
        versions=found["versions"],
        history=found["history"],
        strategy=provenance.get("recomposition_strategy"),
    )


@router.get("/baselines")
async def baseline_list(desk: ContextDep, archived: Archived = False, query: Words = None) -> BaselineList:
    """List the baselines."""
    found = await list_baselines(desk.services, archived=archived, query=query)
    return BaselineList(
        baselines=[BaselineRow(**row) for row in found], unread=await _unread(desk, "baselines")
    )


@router.get("/baselines/{baseline_id}")
async def baseline_get(
    desk: ContextDep, baseline_id: AssetId, version: OneVersion = None
) -> BaselineResponse:
    """Give one version of a baseline with its cases."""
    found = await get_baseline(desk.services, baseline_id, version)
    return BaselineResponse(
        baseline=BaselineRow(**_with_tags(found)),
        cases=found["cases"],
        all_tags=_tags(found["tags"]),
        versions=found["versions"],
        history=found["history"],
    )


async def _unread(desk: AppContext, shelf: str) -> list[str]:
    """Return a sentence per skill or baseline that is not listed because it cannot be read."""
    found = await asyncio.to_thread(desk.services.assets.problems)
    broken = [one for one in found if one.broken and one.folder.split("/")[1] == shelf]
    return [unread_text(one.folder, one.error, desk.language) for one in broken]


def _with_tags(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return an asset's meta with its tags as a list shows them."""
    tags = _tags(found["tags"])
    valid = dict.fromkeys(tag.value for tag in tags if tag.status == "approved")
    pending = [tag.value for tag in tags if tag.status == "pending"]
    return {**found["meta"], "tags": list(valid), "pending_tags": pending}


def _tags(tags: Mapping[str, Any]) -> list[Tag]:
    by_people = [
        Tag(id=row["id"], value=row["value"], by="person", status="approved") for row in tags["manual"]
    ]
    by_models = [
        Tag(id=row["id"], value=row["value"], by="model", status=row["status"]) for row in tags["auto"]
    ]
    return [*by_people, *by_models]


# --- tags


@router.get("/tags")
async def waiting_tags(desk: ContextDep) -> WaitingTags:
    """List the tags that models proposed and that wait for a person's word."""
    return WaitingTags(waiting=await asyncio.to_thread(_waiting, desk.services))


def _waiting(services: Services) -> list[WaitingTag]:
    stored = [*services.assets.skills(), *services.assets.baselines()]
    return [
        WaitingTag(
            kind=asset.kind,
            asset_id=asset.meta.id,
            asset_name=asset.meta.name,
            tag_id=tag.id,
            value=tag.value,
            generated_at=tag.generated_at,
        )
        for asset in stored
        for tag in asset.tags.auto
        if tag.status == "pending"
    ]


@router.post("/tags/approve")
async def approve_tag(desk: ContextDep, asked: JudgedTag) -> AssetTagsResponse:
    """Accept a tag that a model proposed."""
    return _tagged(await tagging.approve_tag(desk.services, asked.kind, asked.asset_id, asked.tag))


@router.post("/tags/reject")
async def reject_tag(desk: ContextDep, asked: JudgedTag) -> AssetTagsResponse:
    """Refuse a tag that a model proposed; it is not proposed again."""
    return _tagged(await tagging.reject_tag(desk.services, asked.kind, asked.asset_id, asked.tag))


def _tagged(told: Mapping[str, Any]) -> AssetTagsResponse:
    return AssetTagsResponse(kind=told["kind"], asset_id=told["id"], all_tags=_tags(told))


@router.post("/tags/propose", status_code=202)
async def propose_tags(desk: ContextDep, asked: ProposedTags) -> JobStarted:
    """Let a model propose tags, by one call; they wait for a person's word."""
    services = desk.services
    stored = await asyncio.to_thread(tagging.find_asset, services, asked.kind, asked.asset_id)
    model = await asyncio.to_thread(services.lab_model)
    check_confirmed([model], 1, confirm=asked.confirm)
    asset_id = stored.meta.id

    async def work() -> AsyncGenerator[dict[str, Any]]:
        yield {"type": "progress", "stage": "tag"}
        done = await tagging.auto_tag(services, asked.kind, asset_id, model=model)
        yield {"asset_id": asset_id, "proposed": [row["value"] for row in done["tags"]]}

    return started(desk.jobs.begin("lab_tag", f"lab-tags:{asset_id}", work()))


def check_confirmed(models: Sequence[str], calls: int, *, confirm: bool) -> None:
    """Refuse to spend money that nobody has agreed to."""
    if calls and not confirm and not all(map(is_free, models)):
        names = ", ".join(dict.fromkeys(models))
        raise UserError("lab_not_confirmed", calls=calls, models=names[:200])
