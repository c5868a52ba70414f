"""The lab's tools for skills: listing, showing, saving and tagging."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, InputRequiredResult
from pydantic import Field

from mcp_server.asking import Work, nothing_to_note
from mcp_server.growing import Given
from mcp_server.lab_desk import LabDesk
from mcp_server.lab_fitting import CONTENT_TOKENS, META_TOKENS, fit, page, page_text
from mcp_server.lab_results import AssetTags, SavedSkill, Skills, SkillView
from mcp_server.results import result
from mcp_server.stories import Cursor
from mcp_server.texts import tell
from personalab.errors import BadRecord
from personalab.lab.assets import SkillType
from personalab.operations.exchange_folder import check_file_name, exchange_folder
from personalab.operations.lab import tags as tagging
from personalab.operations.lab.exchange import import_persona, import_skill
from personalab.operations.lab.importing import ImportResult
from personalab.operations.lab.skills import (
    archive_skill,
    create_skill,
    edit_skill,
    get_skill,
    list_skills,
    skill_diff,
)
from personalab.storage.lab.assets import StoredSkill

SkillId = Annotated[str, Field(description="Its id, or the first 8 characters")]
Purpose = Annotated[str | None, Field(description="What for; a folder's name, such as coding")]
Archived = Annotated[bool, Field(description="Also archived ones")]
TagAction = Literal["add", "remove", "auto", "approve", "reject"]
MAX_CONTENT = 1_000_000
ROW_FIELDS = (
    *("id", "name", "purpose", "provider", "type", "version", "status", "description", "case_count"),
    *("tags", "pending_tags", "updated_at"),
)
_VERSIONS = 50


class SkillTools:
    """Prompts that are put to the test."""

    def __init__(self, lab: LabDesk) -> None:
        self._lab = lab
        self._services = lab.desk.services

    async def skill_list(
        self,
        purpose: str | None = None,
        tag: str | None = None,
        query: Annotated[str | None, Field(description="Words in name, tags or content")] = None,
        archived: Archived = False,
        cursor: Cursor = None,
    ) -> Annotated[CallToolResult, Skills]:
        """List skills."""
        with self._lab.plainly():
            found = await list_skills(
                self._services, purpose=purpose, tag=tag, query=query, archived=archived
            )
            rows = [{**asset_row(row), "testSummary": row["testSummary"]} for row in found]
            shown, following = await asyncio.to_thread(page, rows, cursor, await self._lab.budget())
        language = self._lab.language
        said = [tell("lab_skills", language, count=len(rows))]
        said += [f"{row_text(row)}{_tested(row['testSummary'])}" for row in shown]
        if not rows:
            said.append(tell("lab_no_skills", language))
        if following:
            said.append(tell("lab_more", language, cursor=following))
        return result("\n".join(said), {"skills": shown, "total": len(rows), "cursor": following})

    async def skill_get(
        self,
        skill_id: SkillId,
        version: str | None = None,
        diff_from: Annotated[str | None, Field(description="Show what changed since this version")] = None,
        cursor: Cursor = None,
    ) -> Annotated[CallToolResult, SkillView]:
        """Show a skill."""
        with self._lab.plainly():
            found = await get_skill(self._services, skill_id, version)
            meta, body = found["meta"], {"content": found["content"]}
            if diff_from is not None:
                diff = await skill_diff(self._services, meta["id"], diff_from, meta["version"])
                body = {"diff": diff or tell("lab_same_content", self._lab.language)}
            budget, (name, text) = await self._lab.budget(), next(iter(body.items()))
            shown, following = await asyncio.to_thread(page_text, text, cursor, budget, CONTENT_TOKENS)
        about: dict[str, Any] = {
            "meta": meta,
            "tags": found["tags"],
            "versions": found["versions"][-_VERSIONS:],
            "history": [history_row(record) for record in found["history"][-10:]],
            "provenance": found["provenance"],
            "testSummary": found["testSummary"],
            "doubts": found["doubts"][:10],
        }
        about = await asyncio.to_thread(fit, about, budget, META_TOKENS)
        said = [row_text({**meta, **about["meta"], "tags": valid_tags(about["tags"])})]
        said[0] += _tested(about["testSummary"])
        if about["provenance"]:
            said.append(str(about["provenance"]["recomposition_strategy"]))
        said += ["", shown]
        if following:
            said.append(tell("lab_more", self._lab.language, cursor=following))
        return result("\n".join(said), {**about, name: shown, "cursor": following})

    async def skill_save(
        self,
        skill_id: Annotated[str | None, Field(description="The one to change; left out: a new one")] = None,
        name: str | None = None,
        content: Annotated[str | None, Field(description="The prompt", max_length=MAX_CONTENT)] = None,
        purpose: Purpose = None,
        description: str | None = None,
        type: SkillType | None = None,
        expected_version: Annotated[
            str | None, Field(description="Refuse if another is the newest by now")
        ] = None,
        archived: Annotated[bool | None, Field(description="Put it away, or bring it back")] = None,
        file: Annotated[
            str | None,
            Field(
                description="Import a SKILL.md, promptfoo or text file, or a skill's folder, from the folder "
                "exchange; with content: what that text is called"
            ),
        ] = None,
        character_id: Annotated[str | None, Field(description="Import this character's persona")] = None,
    ) -> Annotated[CallToolResult, SavedSkill]:
        """Keep a skill."""
        self._check(skill_id, file, character_id)
        late = {"expected_version": expected_version, "archived": archived}
        if skill_id is None and file is None and character_id is None:
            self._lab.check_none(late, "lab_only_there", use="skill_id")
        elif skill_id is None:
            alone = {"name": name, "content": content, "purpose": purpose} if character_id is not None else {}
            given = {**alone, "description": description, "type": type, **late}
            self._lab.check_none(given, "lab_not_with", use="file" if file is not None else "character_id")
        with self._lab.plainly():
            if file is not None:
                came = await self._import(file, content, purpose, name)
            elif character_id is not None:
                came = [await import_persona(self._services, character_id)]
            else:
                texts = {"name": name, "content": content, "purpose": purpose, "description": description}
                came = [await self._save(skill_id, texts, type, expected_version, archived)]
        rows = [_came(row) for row in came]
        rows = await asyncio.to_thread(fit, rows[:40], await self._lab.budget())
        language = self._lab.language
        said = [tell(f"lab_{row['outcome']}", language, **row) for row in rows]
        return result("\n".join(said), {"saved": rows})

    def _check(self, *given: str | None) -> None:
        names = ("skill_id", "file", "character_id")
        both = [name for name, value in zip(names, given, strict=True) if value is not None]
        if len(both) > 1:
            raise ToolError(tell("one_of", self._lab.language, names=", ".join(both)))

    async def _save(
        self,
        skill_id: str | None,
        texts: Mapping[str, str | None],
        type: SkillType | None,
        expected: str | None,
        archived: bool | None,
    ) -> ImportResult:
        services = self._services
        if skill_id is None:
            given = {name: needed(value, name) for name, value in texts.items() if name != "description"}
            described = texts["description"] or ""
            made = await create_skill(services, **given, description=described, type=type or "skill")
            return ImportResult.of(services.assets, made, "created")
        before = await asyncio.to_thread(services.assets.skill, skill_id)
        after: StoredSkill = before
        if any(value is not None for value in (type, expected, *texts.values())):
            after = await edit_skill(services, skill_id, **texts, type=type, expected_version=expected)
        if archived is not None:
            after = await archive_skill(services, after.meta.id, archived=archived)
        same = after.meta.version == before.meta.version
        return ImportResult.of(services.assets, after, "same" if same else "updated")

    async def _import(
        self, file: str, content: str | None, purpose: str | None, name: str | None
    ) -> Sequence[ImportResult]:
        called = check_file_name(file)
        if content is None:
            path = exchange_folder(self._services) / called
            if await asyncio.to_thread(path.is_symlink):
                raise BadRecord("bad_file_name", value=called, folder=path.parent.name)
            return await import_skill(self._services, path, purpose=purpose, name=name)
        with tempfile.TemporaryDirectory(prefix="personalab-") as folder:
            path = Path(folder) / "imported" / called
            await asyncio.to_thread(_write, path, content)
            return await import_skill(self._services, path, purpose=purpose, name=name)

    # --- tags

    async def skill_tag(
        self,
        ctx: Context[Any],
        asset_id: SkillId,
        action: TagAction,
        tag: Annotated[str | None, Field(description="Its value or id; not for auto")] = None,
        kind: Literal["skill", "baseline"] = "skill",
        answer: Given = None,
        cursor: Cursor = None,
    ) -> Annotated[CallToolResult, AssetTags] | InputRequiredResult:
        """Tag an asset."""
        with self._lab.plainly():
            if action != "auto":
                change = getattr(tagging, f"{action}_tag")
                return await self._tagged(await change(self._services, kind, asset_id, needed(tag, "tag")))
            stored = await asyncio.to_thread(tagging.find_asset, self._services, kind, asset_id)
            asset = {"id": stored.meta.id, "kind": kind}

            async def run(model: str | None) -> dict[str, Any]:
                chosen = model or await asyncio.to_thread(self._services.lab_model)
                return await tagging.auto_tag(self._services, kind, asset["id"], model=chosen)

            again = f'skill_tag(asset_id="{asset["id"]}", action="auto", kind="{kind}", '
            work = Work("skill_tag", "\n".join(asset.values()), asset, again, answer, cursor)
            settled = await self._lab.asking.settle(ctx, work, run, nothing_to_note)
            if not isinstance(settled, tuple):
                return settled
            stored = await asyncio.to_thread(tagging.find_asset, self._services, kind, asset["id"])
            told = {"name": stored.meta.name, **stored.tags.model_dump(mode="json")}
            return await self._tagged({**asset, **told})

    async def _tagged(self, told: Mapping[str, Any]) -> CallToolResult:
        shown = {name: told[name] for name in ("id", "kind", "name", "manual", "auto")}
        shown = await asyncio.to_thread(fit, shown, await self._lab.budget())
        language = self._lab.language
        waiting = [row["value"] for row in shown["auto"] if row["status"] == "pending"]
        said = [tell("lab_tags", language, name=shown["name"], tags=", ".join(valid_tags(shown)) or "–")]
        if waiting:
            said.append(tell("lab_tags_wait", language, tags=", ".join(waiting)))
        del shown["name"]
        return result("\n".join(said), {**shown, "status": "done"})


# --- what skills and baselines share


def asset_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a list shows of an asset."""
    return {name: row[name] for name in ROW_FIELDS if name in row}


def row_text(row: Mapping[str, Any]) -> str:
    """Word an asset in a line."""
    tags = "".join(f" #{tag}" for tag in row.get("tags") or ())
    away = f" ({row['status']})" if row["status"] != "active" else ""
    about = f" · {row['description']}" if row.get("description") else ""
    return f"- {row['id'][:8]} {row['name']} {row['version']} [{row['purpose']}]{away}{tags}{about}"


def valid_tags(tags: Mapping[str, Any]) -> list[str]:
    """Return the values that count: those of people, and those a person approved."""
    approved = [row["value"] for row in tags["auto"] if row["status"] == "approved"]
    return [*(row["value"] for row in tags["manual"]), *approved]


def history_row(record: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a change without its old and new content."""
    return {name: record[name] for name in ("from_version", "to_version", "timestamp", "changed_fields")}


def needed(value: str | None, name: str) -> str:
    """Return an argument that this use of a tool requires."""
    if value is None:
        raise BadRecord("field_missing", field=name)
    return value


def _tested(summary: Mapping[str, Any] | None) -> str:
    if not summary or summary["best_score"] is None:
        return ""
    return f" · {summary['best_score']:g} ({summary['best_baseline_name']}, {summary['staleness']})"


def _came(row: ImportResult) -> dict[str, Any]:
    names = ("kind", "id", "name", "version", "outcome")
    return {name: getattr(row, name) for name in names}


def _write(path: Path, content: str) -> None:
    path.parent.mkdir()
    path.write_bytes(content.encode("utf-8"))
