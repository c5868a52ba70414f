"""The lab's tools for baselines: listing, showing and saving them with their cases."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, InputRequiredResult
from pydantic import Field

from mcp_server.asking import Work, nothing_to_note
from mcp_server.budget import page_of, page_offset
from mcp_server.growing import Given
from mcp_server.lab_desk import LabDesk
from mcp_server.lab_fitting import CONTENT_TOKENS, META_TOKENS, ROWS, fit, page
from mcp_server.lab_results import Baselines, BaselineView, SavedBaseline
from mcp_server.lab_skills import Archived, Purpose, asset_row, needed, row_text, valid_tags
from mcp_server.results import result
from mcp_server.schemas import object_schema
from mcp_server.stories import Cursor
from mcp_server.texts import tell
from personalab.errors import BadRecord, NotFound, PersonaLabError, Reason
from personalab.operations.lab import baselines
from personalab.storage.lab.assets import StoredBaseline

BaselineId = Annotated[str, Field(description="Its id, or the first 8 characters")]
_CASE_FIELDS = ("name", "category", "input", "expected_output", "description")
_CASE = object_schema(
    id=str,
    name=str,
    category=("standard", "boundary", "exception"),
    input=str,
    expected_output=str,
    description=str,
    remove=bool,
)
_TEXTS = ("input", "expected_output", "description")
_ALL = "all"


@dataclass(frozen=True, slots=True)
class _Wish:
    """What a call wants of a baseline, beside its cases."""

    texts: Mapping[str, str | None]
    archived: bool | None
    expected: str | None


class BaselineTools:
    """Cases that skills are tested with."""

    def __init__(self, lab: LabDesk) -> None:
        self._lab = lab
        self._services = lab.desk.services

    async def baseline_list(
        self,
        purpose: str | None = None,
        tag: str | None = None,
        query: Annotated[str | None, Field(description="Words in name, tags or cases' names")] = None,
        archived: Archived = False,
        cursor: Cursor = None,
    ) -> Annotated[CallToolResult, Baselines]:
        """List baselines."""
        with self._lab.plainly():
            found = await baselines.list_baselines(
                self._services, purpose=purpose, tag=tag, query=query, archived=archived
            )
            rows = [asset_row(row) for row in found]
            shown, following = await asyncio.to_thread(page, rows, cursor, await self._lab.budget())
        language = self._lab.language
        said = [tell("lab_baselines", language, count=len(rows))]
        said += [f"{row_text(row)} · {tell('lab_cases', language, count=row['case_count'])}" for row in shown]
        if following:
            said.append(tell("lab_more", language, cursor=following))
        return result("\n".join(said), {"baselines": shown, "total": len(rows), "cursor": following})

    async def baseline_get(
        self,
        baseline_id: BaselineId,
        version: str | None = None,
        case_id: Annotated[str | None, Field(description="Show this case or draft whole")] = None,
        cursor: Cursor = None,
    ) -> Annotated[CallToolResult, BaselineView]:
        """Show a baseline."""
        with self._lab.plainly():
            found = await baselines.get_baseline(self._services, baseline_id, version)
            budget = await self._lab.budget()
            about = {name: found[name] for name in ("meta", "tags", "versions")}
            about["versions"] = about["versions"][-ROWS:]
            about = await asyncio.to_thread(fit, about, budget, META_TOKENS)
            head = row_text({**found["meta"], **about["meta"], "tags": valid_tags(about["tags"])})
            if case_id is not None:
                return await self._one(about, head, _chosen(found, case_id), cursor)
            rows = [*({"kind": "case", **row} for row in found["cases"])]
            rows += [{"kind": "draft", **row} for row in found["drafts"]]
            some = [_brief_case(row) for row in rows]
            shown, following = await asyncio.to_thread(page, some, cursor, budget, CONTENT_TOKENS)
            start = page_offset(cursor, max(len(rows), 1))
        language = self._lab.language
        said = [head, *(case_text(row) for row in shown)]
        if shown != some[start : start + len(shown)]:
            said.append(tell("lab_cases_cut", language, baseline_id=found["meta"]["id"][:8]))
        if found["drafts"]:
            said.append(tell("lab_drafts_wait", language, count=len(found["drafts"])))
        if following:
            said.append(tell("lab_more", language, cursor=following))
        kinds: dict[str, list[dict[str, Any]]] = {"case": [], "draft": []}
        for row in shown:
            kinds[row.pop("kind")].append(row)
        data: dict[str, Any] = {**about, "cases": kinds["case"], "drafts": kinds["draft"]}
        return result("\n".join(said), {**data, "cursor": following})

    async def _one(
        self, about: Mapping[str, Any], head: str, case: Mapping[str, Any], cursor: str | None
    ) -> CallToolResult:
        """Show one case whole, a long one page by page."""
        parts = [{"field": name, "content": str(case[name])} for name in _TEXTS]
        budget = await self._lab.budget()
        shown, following = await asyncio.to_thread(page_of, parts, cursor, budget)
        brief_case = {name: case[name] for name in ("id", "name", "category")}
        brief_case = await asyncio.to_thread(fit, brief_case, budget, 300)
        said = [head, f"{brief_case['id']} {brief_case['name']} [{brief_case['category']}]"]
        said += [f"=== {part['field']} ===\n{part['content']}" for part in shown]
        if following:
            said.append(tell("lab_more", self._lab.language, cursor=following))
        data: dict[str, Any] = {"meta": {"id": about["meta"]["id"]}, "tags": {}, "versions": []}
        return result("\n".join(said), {**data, "case": brief_case, "parts": shown, "cursor": following})

    async def baseline_save(
        self,
        ctx: Context[Any],
        baseline_id: Annotated[
            str | None, Field(description="The one to change; left out: a new one")
        ] = None,
        name: str | None = None,
        purpose: Purpose = None,
        description: str | None = None,
        cases: Annotated[
            list[Annotated[dict[str, Any], _CASE]] | None,
            Field(description="With id: change that one, or remove it", max_length=500),
        ] = None,
        expected_version: Annotated[
            str | None, Field(description="Refuse if another is the newest by now")
        ] = None,
        archived: Annotated[bool | None, Field(description="Put it away, or bring it back")] = None,
        generate: Annotated[
            str | None, Field(description="Draft cases: what is to be tested", max_length=20_000)
        ] = None,
        count: Annotated[int, Field(description="So many drafts", ge=1, le=50)] = 5,
        accept: Annotated[
            list[str] | None, Field(description='Drafts to make cases of, by id, or ["all"]')
        ] = None,
        reject: Annotated[list[str] | None, Field(description="Drafts to refuse, alike")] = None,
        answer: Given = None,
        cursor: Cursor = None,
    ) -> Annotated[CallToolResult, SavedBaseline] | InputRequiredResult:
        """Keep a baseline."""
        texts = {"name": name, "purpose": purpose, "description": description}
        wish = _Wish(texts, archived, expected_version)
        changes = cases is not None or archived is not None or any(texts.values())
        self._check(changes=changes, generate=generate, accept=accept, reject=reject)
        late = {"expected_version": expected_version, "archived": archived}
        drafting = {"generate": generate, "accept": accept, "reject": reject}
        if use := next((name for name, value in drafting.items() if value is not None), None):
            self._lab.check_none(late, "lab_not_with", use=use)
        elif baseline_id is None:
            self._lab.check_none(late, "lab_only_there", use="baseline_id")
        with self._lab.plainly():
            if baseline_id is None and (generate is None and accept is None and reject is None):
                made = await self._create(texts, cases or [])
                return await self._saved(made, "created", [case.id for case in made.cases.cases])
            named = needed(baseline_id, "baseline_id")
            stored = await asyncio.to_thread(self._services.assets.baseline, named)
            asset_id = stored.meta.id
            if generate is not None:
                return await self._generate(ctx, asset_id, generate, count, answer, cursor)
            if reject is not None:
                await baselines.reject_drafts(self._services, asset_id, _ids(reject))
                return await self._drafts(asset_id)
            if accept is not None:
                after = await baselines.accept_drafts(self._services, asset_id, _ids(accept))
            else:
                after = await self._change(stored, wish, cases or [])
        before = {case.id: case for case in stored.cases.cases}
        touched = [case.id for case in after.cases.cases if before.get(case.id) != case]
        same = after.meta.version == stored.meta.version
        return await self._saved(after, "unchanged" if same else "changed", touched)

    def _check(self, **given: object) -> None:
        both = [name for name, value in given.items() if value not in (None, False)]
        if len(both) > 1:
            raise ToolError(tell("one_of", self._lab.language, names=", ".join(both)))

    async def _create(
        self, texts: Mapping[str, str | None], cases: Sequence[Mapping[str, Any]]
    ) -> StoredBaseline:
        return await baselines.create_baseline(
            self._services,
            name=needed(texts["name"], "name"),
            purpose=needed(texts["purpose"], "purpose"),
            description=texts["description"] or "",
            cases=[_case_fields(case) for case in cases],
        )

    async def _change(
        self, stored: StoredBaseline, wish: _Wish, cases: Sequence[Mapping[str, Any]]
    ) -> StoredBaseline:
        after, asset_id = stored, stored.meta.id
        if wish.expected is not None or any(value is not None for value in wish.texts.values()):
            after = await baselines.edit_baseline(
                self._services, asset_id, **wish.texts, expected_version=wish.expected
            )
        for number, case in enumerate(cases):
            try:
                after = await self._case(asset_id, case)
            except PersonaLabError as error:
                said = self._lab.worded(error.message(self._lab.language))
                words = {"number": number + 1, "done": number, "reason": said}
                raise ToolError(tell("lab_case_refused", self._lab.language, **words)) from None
        if wish.archived is not None:
            after = await baselines.archive_baseline(self._services, asset_id, archived=wish.archived)
        return after

    async def _case(self, asset_id: str, case: Mapping[str, Any]) -> StoredBaseline:
        """Add a case, or change or remove the one that is named."""
        case_id = case.get("id")
        if case_id is None:
            fields = {"category": "standard", **_case_fields(case)}
            for name in ("name", "input", "expected_output"):
                needed(fields.get(name), name)
            return await baselines.add_case(self._services, asset_id, **fields)
        if case.get("remove"):
            return await baselines.remove_case(self._services, asset_id, str(case_id))
        return await baselines.edit_case(self._services, asset_id, str(case_id), **_case_fields(case))

    # --- drafts

    async def _generate(
        self,
        ctx: Context[Any],
        asset_id: str,
        generate: str,
        count: int,
        answer: str | None,
        cursor: str | None,
    ) -> CallToolResult | InputRequiredResult:
        async def run(model: str | None) -> dict[str, Any]:
            chosen = model or await asyncio.to_thread(self._services.lab_model)
            return await baselines.generate_cases(self._services, asset_id, generate, count, model=chosen)

        again = f'baseline_save(baseline_id="{asset_id}", generate=…, count={count}, '
        key = "\n".join((asset_id, str(count), generate))
        work = Work("baseline_save", key, {"id": asset_id}, again, answer, cursor)
        settled = await self._lab.asking.settle(ctx, work, run, nothing_to_note)
        return await self._drafts(asset_id) if isinstance(settled, tuple) else settled

    async def _drafts(self, asset_id: str) -> CallToolResult:
        found = await baselines.drafts(self._services, asset_id)
        rows = [_brief_case({"kind": "draft", **row}) for row in found[-ROWS:]]
        shown = await asyncio.to_thread(fit, rows, await self._lab.budget())
        said = [tell("lab_drafts_wait", self._lab.language, count=len(found))]
        said += [case_text(row) for row in shown]
        for row in shown:
            row.pop("kind")
        return result("\n".join(said), {"id": asset_id, "status": "drafts", "drafts": shown})

    async def _saved(self, stored: StoredBaseline, status: str, touched: list[str]) -> CallToolResult:
        meta = stored.meta
        data: dict[str, Any] = {"id": meta.id, "status": status, "name": meta.name, "version": meta.version}
        data = await asyncio.to_thread(fit, data, await self._lab.budget(), META_TOKENS)
        outcome = {"created": "created", "changed": "updated", "unchanged": "same"}[status]
        kind = {"kind": "baseline", "outcome": outcome}
        said = tell(f"lab_{outcome}", self._lab.language, **{**data, **kind})
        shown = touched[:200]
        if shown:
            said += f"\n{', '.join(shown)}"
        return result(said, {**data, "case_ids": shown})


def _chosen(found: Mapping[str, Any], case_id: str) -> Mapping[str, Any]:
    rows = [*found["cases"], *found["drafts"]]
    chosen = next((row for row in rows if row["id"] == case_id), None)
    if chosen is None:
        known = ", ".join(str(row["id"]) for row in rows[:20]) or "–"
        raise NotFound("lab_no_case", case_id=case_id[:80], known=known)
    return chosen


def _brief_case(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("kind", "id", *_CASE_FIELDS)}


def case_text(row: Mapping[str, Any]) -> str:
    """Word a case."""
    mark = "?" if row["kind"] == "draft" else "-"
    return f"{mark} {row['id']} {row['name']} [{row['category']}]\n  > {row['input']}\n  = {row['expected_output']}"


def _case_fields(case: Mapping[str, Any]) -> dict[str, Any]:
    """Take a case's texts; what else a client sends with it is refused."""
    unknown = [name for name in case if name not in (*_CASE_FIELDS, "id", "remove")]
    if unknown:
        raise BadRecord("field_wrong", field=f"cases.{unknown[0][:40]}", reason=", ".join(_CASE_FIELDS))
    for name in _CASE_FIELDS:
        if not isinstance(case.get(name, ""), str):
            raise BadRecord("field_wrong", field=f"cases.{name}", reason=Reason("not_text"))
    return {name: case[name] for name in _CASE_FIELDS if name in case}


def _ids(given: Sequence[str]) -> list[str] | None:
    return None if list(given) == [_ALL] else list(given)
