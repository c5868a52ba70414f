"""Placement of imported skills and baselines in the library, and the original files that are kept of them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

from personalab.data_files import dump_json
from personalab.errors import BadRecord, PersonaLabError, Reason, StorageError, UserError, json_reason
from personalab.lab.assets import (
    CASE_FIELDS,
    NO_TAGS,
    BaselineMeta,
    Case,
    Cases,
    HistoryRecord,
    ManualTag,
    SkillMeta,
    SkillType,
    Tags,
    edit_baseline,
    edit_skill,
)
from personalab.lab.formats import EVALS, KEPT, SKILL_MD, SKILL_MD_NAMES
from personalab.lab.formats.evals import evals_json, has_same_extras, read_evals
from personalab.lab.formats.skill_md import SkillMd, has_same_head, name_in_file, read_skill_md, skill_md
from personalab.lab.records import AssetKind, Filled, Record, in_seconds, next_version
from personalab.lab.tagging import MAX_TAG, repaired_tags, visible_line
from personalab.operations.lab.skills import first_meta, with_new_id
from personalab.services import Services
from personalab.storage.lab.assets import AssetFiles, Stored, StoredBaseline, StoredSkill
from personalab.storage.lab.external_folders import ExternalFile

KEPT_LIST = f"{KEPT}.json"


class KeptFile(Record):
    """A file that something came from."""

    name: Filled
    executable: bool = False


class KeptList(Record):
    """``x_source.json``."""

    called: str
    files: tuple[KeptFile, ...]


@dataclass(frozen=True, slots=True)
class Original:
    """The folder that something came from."""

    called: str
    files: Mapping[str, ExternalFile]

    def beside(self) -> dict[str, bytes]:
        """Return the files that keep it beside an asset."""
        listed = [
            {"name": name, **({"executable": True} if file.executable else {})}
            for name, file in self.files.items()
        ]
        kept = {kept_name(name): file.content for name, file in self.files.items()}
        return {KEPT_LIST: dump_json({"called": self.called, "files": listed}), **kept}

    def main(self) -> str | None:
        """Name the file that makes the folder a skill."""
        return next((found for found in SKILL_MD_NAMES if found in self.files), None)

    def document(self) -> SkillMd | None:
        """Read the SKILL.md."""
        main = self.main()
        return read_skill_md(self.files[main].content, main, self.called) if main is not None else None


def kept_name(name: str) -> str:
    """Name a kept file so that none is hidden: hidden ones are left-overs in the workspace."""
    parts = [part.replace("%", "%25") for part in name.split("/")]
    return "/".join([KEPT, *(f"%2E{part[1:]}" if part.startswith(".") else part for part in parts)])


def original_of(assets: AssetFiles, stored: Stored) -> Original | None:
    """Find the files that an asset came from; a list that cannot be read, or a file of it that is gone, is an error."""
    listed = _listed(assets, stored)
    if listed is None:
        return None
    files: dict[str, ExternalFile] = {}
    for row in listed.files:
        content = assets.beside(stored, kept_name(row.name))
        if content is None:
            raise StorageError("file_missing", file=f"{stored.folder.name}/{kept_name(row.name)}")
        files[row.name] = ExternalFile(content, row.executable)
    return Original(listed.called, files)


def _listed(assets: AssetFiles, stored: Stored) -> KeptList | None:
    raw = assets.beside(stored, KEPT_LIST)
    if raw is None:
        return None
    file = f"{stored.folder.name}/{KEPT_LIST}"
    try:
        return KeptList.read(json.loads(raw), file)
    except BadRecord as error:
        reason = Reason("at_field", field=error.params["field"], reason=error.params["reason"])
        raise StorageError("file_broken", file=file, reason=reason) from error
    except (ValueError, RecursionError) as error:
        raise StorageError("file_broken", file=file, reason=json_reason(error)) from error


# --- out


def leaving(
    assets: AssetFiles, stored: StoredSkill, baseline: StoredBaseline | None
) -> tuple[str, dict[str, ExternalFile]]:
    """Make the folder that a skill leaves as: its name, and its files."""
    original = original_of(assets, stored)
    files = dict(original.files) if original is not None else {}
    document = original.document() if original is not None else None
    main = (original.main() if original is not None else None) or SKILL_MD
    name = name_in_file(stored.meta, document)
    written = skill_md(stored.meta, stored.content, stored.tags.valid(), document)
    files[main] = ExternalFile(written, main in files and files[main].executable)
    if baseline is not None:
        files[EVALS] = ExternalFile(_leaving_evals(assets, baseline, name))
    return name, files


def _leaving_evals(assets: AssetFiles, baseline: StoredBaseline, skill_name: str) -> bytes:
    kept = _kept_evals(original_of(assets, baseline))
    return evals_json(skill_name, baseline.meta, baseline.cases.cases, kept)


def _kept_evals(original: Original | None) -> bytes | None:
    found = original.files.get(EVALS) if original is not None else None
    return found.content if found is not None else None


# --- changes that neither a meta nor a content shows


def changed_files(assets: AssetFiles, old: StoredSkill, coming: Original | None) -> list[str]:
    """Name the files of a skill's folder that are not as they are kept, were added or are gone.

    Its evals are a baseline's matter while they are there; of its SKILL.md, only the front matter is compared.
    """
    if coming is None:
        return []
    kept = original_of(assets, old)
    before = dict(kept.files) if kept is not None else {}
    after = dict(coming.files)
    if EVALS in after:
        before[EVALS] = after[EVALS]
    heads = [
        kept.document() if kept is not None else None,
        Original(coming.called, leaving(assets, old, None)[1]).document(),
    ]
    head = coming.document()
    if head is not None and any(found is not None and has_same_head(head, found) for found in heads):
        for files in (before, after):
            for main in SKILL_MD_NAMES:
                files.pop(main, None)
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def changed_evals(assets: AssetFiles, old: StoredBaseline, coming: Original | None) -> list[str]:
    """Name the file of evals if it says more or less than what is kept of it; other originals are all in the cases."""
    raw = _kept_evals(coming)
    if raw is None:
        return []
    evals = read_evals(raw, EVALS)
    for known in (_kept_evals(original_of(assets, old)), _leaving_evals(assets, old, "")):
        try:
            if known is not None and has_same_extras(evals, read_evals(known, EVALS)):
                return []
        except PersonaLabError:
            # What is kept cannot be read any more: what comes takes its place.
            continue
    return [EVALS]


Outcome = Literal["created", "same", "updated"]
S = TypeVar("S", StoredSkill, StoredBaseline)
M = TypeVar("M", SkillMeta, BaselineMeta)


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What became of something that was brought in."""

    kind: AssetKind
    id: str
    name: str
    version: str
    outcome: Outcome
    folder: str

    @classmethod
    def of(cls, assets: AssetFiles, stored: Stored, outcome: Outcome) -> ImportResult:
        """Make the result from the stored asset."""
        meta, shown = stored.meta, assets.workspace.shown(stored.folder)
        return cls(stored.kind, meta.id, meta.name, meta.version, outcome, shown)


@dataclass(frozen=True, slots=True)
class IncomingSkill:
    """A skill on its way in."""

    name: str
    content: str
    purpose: str
    provider: str
    description: str = ""
    author: str = ""
    source: str = ""
    type: SkillType = "skill"
    skill_id: str | None = None
    tags: tuple[str, ...] = ()
    original: Original | None = None

    def fields(self) -> dict[str, str]:
        """Return what a person may change of its meta."""
        names = ("name", "description", "author", "source", "purpose", "provider", "type")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class IncomingBaseline:
    """A baseline on its way in."""

    name: str
    cases: tuple[Case, ...]
    purpose: str
    provider: str
    description: str = ""
    author: str = ""
    source: str = ""
    baseline_id: str | None = None
    original: Original | None = None

    def fields(self) -> dict[str, str]:
        """Return what a person may change of its meta."""
        names = ("name", "description", "author", "source", "purpose", "provider")
        return {name: getattr(self, name) for name in names}


# --- placing


def place_skill(services: Services, coming: IncomingSkill, made: list[Path]) -> ImportResult:
    """Keep a skill; a folder that is made for it is added to ``made``."""
    assets, now = services.assets, services.now()
    old = _skill_here(assets, coming)
    extra = _beside(coming)
    if old is None:

        def add(skill_id: str) -> StoredSkill:
            meta = SkillMeta.read(first_meta(skill_id, now, **coming.fields()), "meta.json")
            return assets.add_skill(meta, coming.content, tags=_with(NO_TAGS, coming.tags, now), extra=extra)

        return _came(assets, add(coming.skill_id) if coming.skill_id else with_new_id(add), "created", made)
    changes: Mapping[str, object] = coming.fields()
    edit = edit_skill(old.meta, old.content, new_content=coming.content, changes=changes, now=now)
    files = changed_files(assets, old, coming.original)
    if edit is None and not files:
        return ImportResult.of(assets, old, "same")
    meta = edit.meta if edit is not None else _next(old.meta, now)
    history = _history(old.meta, meta, edit.history if edit is not None else None, files)
    stored = assets.add_skill_version(old, meta, coming.content, history, extra=extra)
    return _came(assets, stored, "updated", made)


def place_baseline(services: Services, coming: IncomingBaseline, made: list[Path]) -> ImportResult:
    """Keep a baseline, as a skill is kept."""
    assets, now = services.assets, services.now()
    old = _baseline_here(assets, coming)
    extra = _beside(coming)
    if old is None:

        def add(baseline_id: str) -> StoredBaseline:
            meta = BaselineMeta.read(first_meta(baseline_id, now, **coming.fields()), "meta.json")
            cases = Cases(baseline_id=baseline_id, version="v1", cases=coming.cases)
            return assets.add_baseline(meta, cases, extra=extra)

        stored = add(coming.baseline_id) if coming.baseline_id else with_new_id(add)
        return _came(assets, stored, "created", made)
    changes: Mapping[str, object] = coming.fields()
    edit = edit_baseline(old.meta, old.cases, new_cases=coming.cases, changes=changes, now=now)
    files = changed_evals(assets, old, coming.original)
    if edit is None and not files:
        return ImportResult.of(assets, old, "same")
    meta = edit.meta if edit is not None else _next(old.meta, now)
    cases = edit.cases if edit is not None else _as_they_are(old.cases, meta)
    history = _history(old.meta, meta, edit.history if edit is not None else None, files)
    stored = assets.add_baseline_version(old, meta, cases, history, extra=extra)
    return _came(assets, stored, "updated", made)


def _beside(coming: IncomingSkill | IncomingBaseline) -> dict[str, bytes]:
    return coming.original.beside() if coming.original is not None else {}


def _came(assets: AssetFiles, stored: Stored, outcome: Outcome, made: list[Path]) -> ImportResult:
    made.append(stored.folder)
    return ImportResult.of(assets, stored, outcome)


def _next(meta: M, now: str) -> M:
    """Make the meta of a version in which only the files around an asset are others."""
    return meta.changed(
        version=next_version(meta.version),
        version_count=meta.version_count + 1,
        created_at=in_seconds(meta.created_at),
        updated_at=now,
    )


def _as_they_are(cases: Cases, meta: BaselineMeta) -> Cases:
    mended = [
        case.changed(created_at=in_seconds(case.created_at), updated_at=in_seconds(case.updated_at))
        for case in cases.cases
    ]
    return cases.changed(
        baseline_id=meta.id, version=meta.version, cases=[case.model_dump() for case in mended]
    )


def _history(before: M, after: M, edited: HistoryRecord | None, files: Sequence[str]) -> HistoryRecord:
    """Record what changed; of files only their names are told, for they are kept in both versions."""
    fields = edited.changed_fields if edited is not None else ()
    return HistoryRecord(
        from_version=before.version,
        to_version=after.version,
        timestamp=after.updated_at,
        changed_fields=(*fields, *(f"{KEPT}/{name}" for name in files)),
        diff=edited.diff if edited is not None else {},
    )


def merge_tags(services: Services, came: ImportResult, values: Sequence[str]) -> ImportResult:
    """Add the imported tags that a skill lacks; none is removed."""
    stored, now = services.assets.skill(came.id), services.now()
    if set(values) <= set(stored.tags.valid()):
        return came
    services.assets.change_tags(stored, lambda tags: _with(tags, values, now))
    return replace(came, outcome="updated" if came.outcome == "same" else came.outcome)


def _skill_here(assets: AssetFiles, coming: IncomingSkill) -> StoredSkill | None:
    if coming.skill_id is not None:
        return _with_id(assets.skills(archived=True), coming.skill_id)
    for stored in assets.skills(archived=True):
        says = {name: getattr(stored.meta, name) for name in coming.fields()}
        if stored.content == coming.content and says == coming.fields():
            kept = original_of(assets, stored)
            if coming.original is None or kept is None or kept == coming.original:
                return stored
    return None


def _baseline_here(assets: AssetFiles, coming: IncomingBaseline) -> StoredBaseline | None:
    if coming.baseline_id is not None:
        return _with_id(assets.baselines(archived=True), coming.baseline_id)
    told = _told(coming.cases)
    for stored in assets.baselines(archived=True):
        says = {name: getattr(stored.meta, name) for name in coming.fields()}
        if says == coming.fields() and _told(stored.cases.cases) == told:
            return stored
    return None


def _with_id(listed: Sequence[S], asset_id: str) -> S | None:
    return next((stored for stored in listed if stored.meta.id == asset_id), None)


def _told(cases: Sequence[Case]) -> list[tuple[str, ...]]:
    return [tuple(str(getattr(case, name)) for name in ("id", *CASE_FIELDS)) for case in cases]


def _with(tags: Tags, values: Sequence[str], now: str) -> Tags:
    fresh = [
        ManualTag(id=_new_id(), value=value, created_at=now) for value in values if value not in tags.valid()
    ]
    return repaired_tags(tags.model_copy(update={"manual": (*tags.manual, *fresh)}), _new_id)


def _new_id() -> str:
    return str(uuid.uuid4())


def tags_of_file(values: Sequence[str]) -> tuple[str, ...]:
    """Take the tags that a file names: what shows nothing is left out, and a tag that is too long is refused."""
    found = list(dict.fromkeys(tag for value in values if (tag := visible_line(value))))
    for tag in found:
        if len(tag) > MAX_TAG:
            raise UserError("lab_bad_tag", value=tag[:80], limit=MAX_TAG)
    return tuple(found)


def skill_from(assets: AssetFiles, source: str, purpose: str) -> StoredSkill | None:
    """Find the skill that says where it came from."""
    listed = assets.skills(archived=True)
    return next((one for one in listed if (one.meta.source, one.meta.purpose) == (source, purpose)), None)


def is_here(assets: AssetFiles, kind: AssetKind, short: str) -> bool:
    """Return whether an asset with this id, or the same beginning, exists, readable or not."""
    return any(place.name.short == short for place in assets.workspace.places(kind))
