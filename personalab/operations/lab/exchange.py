"""Import and export of the lab's skills and baselines, including personas and samples."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from personalab.dialogue import language_among
from personalab.errors import NotFound, UserError
from personalab.lab.assets import check_folder_name, checked_case
from personalab.lab.formats import EVALS, SKILL_MD_NAMES, format_of_file
from personalab.lab.formats.evals import read_evals, stated_id
from personalab.lab.formats.promptfoo import promptfoo_config, read_promptfoo
from personalab.lab.formats.skill_md import (
    LONGEST_NAME,
    PROVIDER,
    PURPOSE,
    read_plain,
    read_skill_md,
    source_of,
    stated,
)
from personalab.lab.records import SHORT
from personalab.operations.lab.importing import (
    ImportResult,
    IncomingBaseline,
    IncomingSkill,
    Original,
    is_here,
    leaving,
    merge_tags,
    place_baseline,
    place_skill,
    skill_from,
    tags_of_file,
)
from personalab.operations.library import SaveResult, save_character
from personalab.services import WORKSPACE, Services
from personalab.storage.exchange import all_or_nothing
from personalab.storage.lab.assets import AssetFiles, StoredSkill
from personalab.storage.lab.external_folders import (
    ExternalFile,
    read_beside,
    read_external_file,
    read_folder,
    write_folder,
)
from personalab.story.macros import Names, player_name
from personalab.story.records import Character, check_id, display_name
from personalab.tasks import run_uncancellable
from personalab.texts import say

ANY_PURPOSE = "imported"
LOCAL = "local"


async def import_skill(
    services: Services,
    path: Path,
    *,
    purpose: str | None = None,
    provider: str | None = None,
    name: str | None = None,
) -> list[ImportResult]:
    """Import a folder with a SKILL.md, a text or a promptfoo configuration, whole or not at all.

    What is given here counts before what the file says of itself; ``name`` is for a file that holds one skill.
    """
    for field, value in (("purpose", purpose), ("provider", provider)):
        if value is not None:
            check_folder_name(value, field)
    if name is not None and not name.strip():
        raise UserError("lab_blank", field="name")

    def bring() -> list[ImportResult]:
        skills, baselines = _read(services, path, purpose, provider, name)
        with all_or_nothing() as made:
            came = [place_skill(services, coming, made) for coming in skills]
            cases = [place_baseline(services, coming, made) for coming in baselines]
        pairs = zip(came, skills, strict=True)
        return [merge_tags(services, one, coming.tags) for one, coming in pairs] + cases

    return await run_uncancellable(bring)


IncomingAssets = tuple[list[IncomingSkill], list[IncomingBaseline]]


def _read(
    services: Services, path: Path, purpose: str | None, provider: str | None, name: str | None
) -> IncomingAssets:
    if path.is_dir():
        return _read_folder(services, path, purpose, provider, name)
    form = format_of_file(path.name)
    if form == "skill_md" and path.is_file():
        return _read_folder(services, path.absolute().parent, purpose, provider, name)
    raw = read_external_file(path)
    place = (purpose or ANY_PURPOSE, provider or LOCAL)
    if form == "plain":
        plain = read_plain(raw, path.name)
        return [IncomingSkill(name or plain.name, plain.content, *place, source=path.name)], []
    folder = path.absolute().parent
    suite = read_promptfoo(raw, path.name, lambda beside: read_beside(folder, beside), services.now())
    skills = [
        IncomingSkill(
            (name if name and len(suite.prompts) == 1 else prompt.name),
            prompt.content,
            *place,
            source=path.name,
        )
        for prompt in suite.prompts
    ]
    original = Original(path.name, {path.name: ExternalFile(raw)})
    baseline = IncomingBaseline(
        suite.name,
        suite.cases,
        *place,
        description=suite.description,
        source=path.name,
        original=original,
    )
    return skills, [baseline] if suite.cases else []


def _read_folder(
    services: Services, folder: Path, purpose: str | None, provider: str | None, name: str | None
) -> IncomingAssets:
    """Read a skill's folder: the skill, the files around it, and its evals."""
    files = read_folder(folder)
    main = next((found for found in SKILL_MD_NAMES if found in files), None)
    if main is None:
        raise UserError("lab_no_skill_md", file=str(folder))
    folder_name = folder.absolute().name
    document = read_skill_md(files[main].content, main, folder_name)
    if not document.body.strip():
        raise UserError("lab_file_blank", file=main)
    said = stated(document)
    skill = IncomingSkill(
        name=name or said.name,
        content=document.body,
        purpose=purpose or said.purpose or ANY_PURPOSE,
        provider=provider or said.provider or LOCAL,
        description=said.description,
        author=said.author,
        source=said.source,
        type=said.type,
        skill_id=said.skill_id,
        tags=tags_of_file(said.tags),
        original=Original(folder_name, files),
    )
    if EVALS not in files:
        return [skill], []
    return [skill], [_evals(services, skill, files[EVALS], purpose, provider)]


def _evals(
    services: Services, skill: IncomingSkill, file: ExternalFile, purpose: str | None, provider: str | None
) -> IncomingBaseline:
    evals = read_evals(file.content, EVALS)
    cases = tuple(checked_case(found.case(services.now())) for found in evals.cases)
    language = language_among([skill.content, *(case.input for case in cases)]) or "en"
    said, baseline_id = evals.stated, stated_id(evals)
    return IncomingBaseline(
        name=(said.get("name", "").strip() and said["name"][:LONGEST_NAME])
        or say("lab_evals_of", language, name=skill.name),
        cases=cases,
        purpose=purpose or said.get("purpose") or skill.purpose,
        provider=provider or said.get("provider") or skill.provider,
        description=said.get("description", ""),
        author=said.get("author", "" if baseline_id else skill.author),
        source=said.get("source", "" if baseline_id else skill.source),
        baseline_id=baseline_id,
        original=Original(skill.name, {EVALS: file}),
    )


# --- out


async def export_skill(
    services: Services,
    skill_id: str,
    folder: Path,
    *,
    baseline_id: str | None = None,
    overwrite: bool = False,
) -> list[Path]:
    """Write a skill's own folder into ``folder``: SKILL.md, what it came with, and a baseline as its evals.

    Without a baseline, evals it came with leave as they came.
    """

    def write() -> list[Path]:
        stored = services.assets.skill(skill_id)
        baseline = services.assets.baseline(baseline_id) if baseline_id is not None else None
        name, files = leaving(services.assets, stored, baseline)
        return write_folder(folder / name, files, overwrite=overwrite)

    return await run_uncancellable(write)


async def export_promptfoo(
    services: Services,
    skill_ids: Sequence[str],
    baseline_id: str,
    folder: Path,
    *,
    model: str,
    overwrite: bool = False,
) -> list[Path]:
    """Write skills and a baseline as a promptfoo configuration; ``model`` is promptfoo's id of a provider."""

    def write() -> list[Path]:
        baseline = services.assets.baseline(baseline_id)
        skills = [services.assets.skill(skill_id) for skill_id in skill_ids]
        cases = baseline.cases.cases
        files = promptfoo_config(
            baseline.meta.name,
            [(stored.meta, stored.content) for stored in skills],
            cases,
            model=model,
            language=language_among(case.input for case in cases) or "en",
        )
        return write_folder(
            folder, {name: ExternalFile(raw) for name, raw in files.items()}, overwrite=overwrite
        )

    return await run_uncancellable(write)


# --- personas


async def import_persona(services: Services, character_id: str) -> ImportResult:
    """Import a character's persona as a skill, as its prompt carries it; a changed one is the next version."""

    def bring() -> ImportResult:
        character = services.stories.character(character_id)
        config = services.preferences.read().config
        language = character.language or config.prompt_language
        names = Names(display_name(character), player_name(config, language))
        source = source_of(character_id)
        old = skill_from(services.assets, source, PURPOSE)
        coming = IncomingSkill(
            name=character.name if old is None else old.meta.name,
            content=names.fill(character.base_persona),
            purpose=PURPOSE,
            provider=PROVIDER if old is None else old.meta.provider,
            description=say("lab_persona_of", language, name=character.name)
            if old is None
            else old.meta.description,
            author="" if old is None else old.meta.author,
            source=source,
            type="skill" if old is None else old.meta.type,
            skill_id=None if old is None else old.meta.id,
        )
        if not coming.content.strip():
            raise UserError("lab_blank", field="base_persona")
        with all_or_nothing() as made:
            return place_skill(services, coming, made)

    return await run_uncancellable(bring)


async def skill_to_character(
    services: Services, skill_id: str, character_id: str, *, overwrite: bool = False
) -> SaveResult[Character]:
    """Make a skill's content who a character is; of one that exists, only that changes, and only if asked to."""
    check_id(character_id, "character_id")

    def read() -> tuple[StoredSkill, bool]:
        stored = services.assets.skill(skill_id)
        try:
            services.stories.character(character_id)
        except NotFound:
            return stored, False
        return stored, True

    stored, exists = await asyncio.to_thread(read)
    return await save_character(
        services,
        character_id,
        name=None if exists else stored.meta.name,
        base_persona=stored.content.strip(),
        language=None if exists else language_among([stored.content]),
        overwrite=overwrite,
    )


# --- samples


async def install_samples(services: Services) -> list[ImportResult]:
    """Install the shipped samples that are missing; existing ones stay as they are."""

    def install() -> list[ImportResult]:
        shipped, assets = AssetFiles(services.settings.shipped / WORKSPACE), services.assets
        came: list[ImportResult] = []
        for skill in shipped.skills(archived=True):
            if not is_here(assets, "skill", skill.meta.id[:SHORT]):
                stored = assets.add_skill(skill.meta, skill.content, tags=skill.tags)
                came.append(ImportResult.of(assets, stored, "created"))
        for baseline in shipped.baselines(archived=True):
            if not is_here(assets, "baseline", baseline.meta.id[:SHORT]):
                kept = assets.add_baseline(baseline.meta, baseline.cases, tags=baseline.tags)
                came.append(ImportResult.of(assets, kept, "created"))
        return came

    return await run_uncancellable(install)
