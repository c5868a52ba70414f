"""The original files of imported skills and baselines, their export, and changes made to them since.

They are kept next to the asset in ``x_source``, and listed in ``x_source.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from personalab.data_files import dump_json
from personalab.errors import BadRecord, PersonaLabError, Reason, StorageError, json_reason
from personalab.lab.formats import EVALS, KEPT, SKILL_MD, SKILL_MD_NAMES
from personalab.lab.formats.evals import evals_json, has_same_extras, read_evals
from personalab.lab.formats.skill_md import SkillMd, has_same_head, name_in_file, read_skill_md, skill_md
from personalab.lab.records import Filled, Record
from personalab.storage.lab.assets import AssetFiles, Stored, StoredBaseline, StoredSkill
from personalab.storage.lab.outside import OutsideFile

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
    files: Mapping[str, OutsideFile]

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
    files: dict[str, OutsideFile] = {}
    for row in listed.files:
        content = assets.beside(stored, kept_name(row.name))
        if content is None:
            raise StorageError("file_missing", file=f"{stored.folder.name}/{kept_name(row.name)}")
        files[row.name] = OutsideFile(content, row.executable)
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
) -> tuple[str, dict[str, OutsideFile]]:
    """Make the folder that a skill leaves as: its name, and its files."""
    original = original_of(assets, stored)
    files = dict(original.files) if original is not None else {}
    document = original.document() if original is not None else None
    main = (original.main() if original is not None else None) or SKILL_MD
    name = name_in_file(stored.meta, document)
    written = skill_md(stored.meta, stored.content, stored.tags.valid(), document)
    files[main] = OutsideFile(written, main in files and files[main].executable)
    if baseline is not None:
        files[EVALS] = OutsideFile(_leaving_evals(assets, baseline, name))
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
