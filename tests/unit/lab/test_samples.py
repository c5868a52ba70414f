"""The samples are of the format to the letter, and worth running."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from personalab.data_files import dump_json
from personalab.dialogue import language_in
from personalab.lab.assets import BaselineMeta, Cases, SkillMeta, Tags, baseline_doubts
from personalab.lab.records import CATEGORIES, Record, asset_folder, is_uuid4
from personalab.services import Services
from personalab.storage.lab.assets import AssetFiles
from tests.conftest import PROJECT

WORKSPACE = PROJECT / "data" / "shipped" / "workspace"
SKILLS = sorted(WORKSPACE.glob("skills/*/*/*"))
BASELINES = sorted(WORKSPACE.glob("baselines/*/*/*"))


def _strictly(kind: type[Record], path: Path) -> Record:
    """Read a file, and check that it is written as we write it."""
    record = kind.read(json.loads(path.read_bytes()), path.name)
    assert dump_json(record.fields(path.name)) == path.read_bytes()
    assert record.doubts() == []
    return record


def _placed(kind: str, folder: Path, meta: SkillMeta | BaselineMeta) -> None:
    purpose, provider, name = folder.parts[-3:]
    assert (meta.purpose, meta.provider) == (purpose, provider)
    assert name == asset_folder("skill" if kind == "skill" else "baseline", meta.id, meta.version)
    assert is_uuid4(meta.id)


@pytest.mark.parametrize("folder", SKILLS, ids=lambda path: path.name)
def test_every_sample_skill_is_strictly_of_the_format(folder: Path) -> None:
    meta = _strictly(SkillMeta, folder / "meta.json")
    assert isinstance(meta, SkillMeta)
    _placed("skill", folder, meta)
    _strictly(Tags, folder / "tags.json")
    content = (folder / "content.txt").read_text(encoding="utf-8")
    assert 6 <= len([part for part in content.split("\n\n") if part.strip()]) <= 15
    assert {path.name for path in folder.iterdir()} == {"meta.json", "content.txt", "tags.json"}


@pytest.mark.parametrize("folder", BASELINES, ids=lambda path: path.name)
def test_every_sample_baseline_is_strictly_of_the_format(folder: Path) -> None:
    meta, cases = _strictly(BaselineMeta, folder / "meta.json"), _strictly(Cases, folder / "cases.json")
    assert isinstance(meta, BaselineMeta)
    assert isinstance(cases, Cases)
    _placed("baseline", folder, meta)
    _strictly(Tags, folder / "tags.json")
    assert baseline_doubts(meta, cases) == []
    assert cases.version == meta.version
    counts = Counter(case.category for case in cases.cases)
    assert set(counts) == set(CATEGORIES)
    assert min(counts.values()) >= 2
    assert len(cases.cases) >= 8
    assert {path.name for path in folder.iterdir()} == {"meta.json", "cases.json", "tags.json"}


def test_each_kind_has_two_skills_in_two_languages_and_a_baseline() -> None:
    files = AssetFiles(WORKSPACE)
    spoken = sorted((skill.meta.purpose, language_in(skill.content)) for skill in files.skills())
    assert spoken == [("coding", "en"), ("coding", "zh"), ("persona", "en"), ("persona", "zh")]
    assert sorted(baseline.meta.purpose for baseline in files.baselines()) == ["coding", "persona"]
    assert files.problems() == []


def test_a_new_data_root_has_the_samples(services: Services) -> None:
    shipped = AssetFiles(WORKSPACE)
    assert [skill.meta for skill in services.assets.skills()] == [skill.meta for skill in shipped.skills()]
    assert [one.meta for one in services.assets.baselines()] == [one.meta for one in shipped.baselines()]
