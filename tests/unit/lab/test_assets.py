"""Skills and baselines are kept one folder for each version, and a workspace of others is read as far as it goes."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from personalab.errors import NotFound, StorageError, UserError
from personalab.lab.assets import (
    NO_TAGS,
    BaselineMeta,
    Cases,
    ManualTag,
    SkillMeta,
    Tags,
    edit_baseline,
    edit_skill,
    new_case,
)
from personalab.lab.findings import Provenance
from personalab.storage.lab.assets import AssetFiles, StoredSkill

EXAMPLES: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "support" / "lab" / "source_examples.json").read_text(encoding="utf-8")
)
NOW, LATER = "2024-01-01T12:00:00Z", "2024-01-01T13:00:00Z"
TAGS = Tags(
    manual=(ManualTag(id="7a1b2c3d-0000-4000-8000-000000000001", value="Python", created_at=NOW),), auto=()
)


def identity(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


def skill_meta(number: int = 1, **changes: object) -> SkillMeta:
    fields = {
        "id": identity(number),
        "name": f"技能 {number}",
        "purpose": "code",
        "provider": "us",
        "version": "v1",
    }
    rest = {"status": "active", "created_at": NOW, "updated_at": NOW}
    return SkillMeta.read({**fields, **rest, **changes}, "meta.json")


def baseline_meta(number: int = 1, **changes: object) -> BaselineMeta:
    fields = {
        "id": identity(number),
        "name": f"集 {number}",
        "purpose": "code_test",
        "provider": "us",
        "version": "v1",
    }
    rest = {"status": "active", "created_at": NOW, "updated_at": NOW}
    return BaselineMeta.read({**fields, **rest, **changes}, "meta.json")


def cases(count: int, number: int = 1) -> Cases:
    rows = [
        new_case(f"case_{n:03d}", {"name": f"n{n}", "input": f"i{n}", "expected_output": "o"}, NOW)
        for n in range(1, count + 1)
    ]
    return Cases(baseline_id=identity(number), version="v1", cases=tuple(rows))


def edited(files: AssetFiles, old: StoredSkill, content: str | None = None, **changes: object) -> StoredSkill:
    made = edit_skill(old.meta, old.content, new_content=content, changes=changes, now=LATER)
    assert made is not None
    return files.add_skill_version(old, made.meta, made.content, made.history)


def tree(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


@pytest.fixture
def files(tmp_path: Path) -> AssetFiles:
    return AssetFiles(tmp_path / "workspace")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return tmp_path / "workspace"


# --- keeping


def test_a_skill_stands_in_the_files_of_the_source_and_is_read_back(
    files: AssetFiles, workspace: Path
) -> None:
    """Resolution 7: the first 8 characters of the id stand in the folder's name."""
    kept = files.add_skill(skill_meta(), "你是助手。\r\n", tags=TAGS, extra={"x_source/SKILL.md": b"---\n"})
    folder = workspace / "skills/code/us/skill_00000001_v1"
    assert set(tree(folder)) == {"meta.json", "content.txt", "tags.json", "x_source/SKILL.md"}
    assert (folder / "content.txt").read_bytes() == "你是助手。\r\n".encode()
    assert (folder / "meta.json").read_text("utf-8").startswith('{\n  "id": "00000001-')
    assert files.skill(identity(1)) == kept
    assert (kept.folder, kept.content, kept.tags, kept.provenance) == (folder, "你是助手。\r\n", TAGS, None)


def test_a_recomposed_skill_keeps_where_it_came_from(files: AssetFiles) -> None:
    came = Provenance.read({**EXAMPLES["6.2"], "source_project_id": identity(9)}, "provenance.json")
    kept = files.add_skill(skill_meta(), "x", provenance=came)
    assert files.skill(identity(1)).provenance == came
    assert edited(files, kept, "y").provenance == came


def test_a_baseline_has_no_type_and_no_content_file_and_its_cases_are_counted(files: AssetFiles) -> None:
    """Resolution 10."""
    kept = files.add_baseline(baseline_meta(case_count=99), cases(3))
    data = json.loads((kept.folder / "meta.json").read_bytes())
    assert (kept.meta.case_count, data["case_count"]) == (3, 3)
    assert not {"type", "content_file"} & set(data)
    assert files.baseline("baseline_00000001_v1") == kept


def test_an_id_that_begins_like_anothers_is_refused(files: AssetFiles) -> None:
    """Resolution 7: the caller draws another; an import is refused."""
    files.add_skill(skill_meta(), "x")
    with pytest.raises(UserError) as refused:
        files.add_skill(skill_meta(id="00000001-1111-4111-8111-111111111111", purpose="other"), "y")
    assert refused.value.code == "lab_short_id_taken"
    assert len(files.skills()) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"purpose": "../x"},
        {"provider": "a b"},
        {"id": "not-a-uuid-at-all"},
        {"created_at": "2024-01-01T12:00:00.5Z"},
    ],
)
def test_what_the_format_forbids_is_not_written(
    files: AssetFiles, workspace: Path, change: dict[str, Any]
) -> None:
    """Resolution 1: strict when writing."""
    with pytest.raises(UserError):
        files.add_skill(skill_meta(**change), "x")
    assert tree(workspace) == {}


@pytest.mark.parametrize(
    "name", ["../x", "x_/../../y", "/x_y", "x_a//b", "meta.json", "x_\\..\\y", "x_a/./b", "x_\0"]
)
def test_files_that_come_along_cannot_leave_the_folder(files: AssetFiles, workspace: Path, name: str) -> None:
    with pytest.raises(UserError) as refused:
        files.add_skill(skill_meta(), "x", extra={name: b""})
    assert refused.value.code == "lab_bad_extra"
    assert tree(workspace) == {}


def test_what_is_too_large_is_refused_before_it_is_written(files: AssetFiles, workspace: Path) -> None:
    with pytest.raises(UserError) as refused:
        files.add_skill(skill_meta(), "x" * (1024 * 1024 + 1))
    assert refused.value.code == "lab_too_large"
    with pytest.raises(UserError):
        files.add_skill(skill_meta(), "\ud800")
    assert tree(workspace) == {}
    assert files.add_skill(skill_meta(), "x" * 1024 * 1024).content


# --- versions


def test_an_edit_makes_a_folder_and_leaves_the_old_one_byte_for_byte(
    files: AssetFiles, workspace: Path
) -> None:
    """Resolution 9: the whole history is copied forward, the versions are counted."""
    first = files.add_skill(skill_meta(), "one", tags=TAGS, extra={"x_source/SKILL.md": b"raw"})
    before = tree(first.folder)
    second = edited(files, first, "two")
    third = edited(files, second, None, description="d")
    assert tree(first.folder) == before
    assert third.folder == workspace / "skills/code/us/skill_00000001_v3"
    assert (third.meta.version_count, third.content, third.tags) == (3, "two", TAGS)
    assert set(tree(third.folder)) == {
        *("meta.json", "content.txt", "tags.json", "x_source/SKILL.md"),
        "history/v1_to_v2_20240101130000.json",
        "history/v2_to_v3_20240101130000.json",
    }
    assert [record.to_version for record in files.history(third)] == ["v2", "v3"]
    assert files.history(first) == []
    assert files.versions(third) == ["v1", "v2", "v3"]
    assert (files.skill(identity(1)), files.skill(identity(1), "v1")) == (third, first)
    assert files.skills() == [third]


def test_an_edit_of_what_someone_else_has_edited_is_refused(files: AssetFiles) -> None:
    first = files.add_skill(skill_meta(), "one")
    second = edited(files, first, "two")
    with pytest.raises(UserError) as refused:
        edited(files, first, "three")
    assert refused.value.code == "lab_asset_changed"
    assert files.skill(identity(1)) == second


def test_a_skill_that_moves_to_another_purpose_stays_one_skill(files: AssetFiles, workspace: Path) -> None:
    first = files.add_skill(skill_meta(), "one")
    moved = edited(files, first, None, purpose="docs")
    assert moved.folder == workspace / "skills/docs/us/skill_00000001_v2"
    assert files.skills() == [moved]
    assert files.skill(identity(1), "v1") == first
    assert files.versions(first) == ["v1", "v2"]


def test_archiving_is_a_change_of_its_own_and_hides_from_lists_only(files: AssetFiles) -> None:
    first = files.add_skill(skill_meta(), "one")
    put_away = files.set_status(first, "archived", LATER)
    assert (put_away.meta.version, files.history(put_away)[0].changed_fields) == ("v2", ("meta.status",))
    assert files.skills() == []
    assert files.skills(archived=True) == [put_away]
    assert files.skill(identity(1)).meta.status == "archived"
    assert files.set_status(put_away, "archived", LATER) == put_away
    assert files.set_status(put_away, "active", LATER).meta.version == "v3"


def test_tags_change_without_a_version_and_go_to_the_newest(files: AssetFiles) -> None:
    """Resolution 12."""
    first = files.add_skill(skill_meta(), "one")
    second = edited(files, first, "two")
    before = tree(first.folder)
    files.change_tags(first, lambda _: TAGS)
    assert tree(first.folder) == before
    assert files.skill(identity(1)).tags == TAGS
    assert files.versions(second) == ["v1", "v2"]


def test_writers_of_many_threads_lose_nothing(files: AssetFiles) -> None:
    kept = files.add_skill(skill_meta(), "one")

    def tag(number: int) -> None:
        fresh = ManualTag(id=identity(number), value=f"t{number}", created_at=NOW)
        files.change_tags(kept, lambda tags: tags.model_copy(update={"manual": (*tags.manual, fresh)}))

    threads = [threading.Thread(target=tag, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {tag.value for tag in files.skill(identity(1)).tags.manual} == {f"t{n}" for n in range(12)}


def test_a_baseline_gets_versions_alike(files: AssetFiles) -> None:
    first = files.add_baseline(baseline_meta(), cases(2), extra={"x_drafts.json": b"{}"})
    made = edit_baseline(first.meta, first.cases, new_cases=first.cases.cases[:1], changes={}, now=LATER)
    assert made is not None
    second = files.add_baseline_version(
        first, made.meta, made.cases, made.history, extra={"x_drafts.json": b"[]"}
    )
    assert (second.meta.case_count, second.cases.version) == (1, "v2")
    assert (files.beside(second, "x_drafts.json"), files.beside(first, "x_drafts.json")) == (b"[]", b"{}")
    assert files.history(second)[0].changed_fields == ("cases.-case_002",)


# --- finding


def test_an_asset_is_found_by_its_id_its_beginning_or_its_folder(files: AssetFiles) -> None:
    kept = files.add_skill(skill_meta(), "x")
    files.add_skill(skill_meta(2), "y")
    for name in (identity(1), "00000001", "00000001-0000", "skill_00000001_v1"):
        assert files.skill(name) == kept
    for name in ("0000000", "", "00000003", "skill_00000001_v2", "../skills", "baseline_00000001_v1"):
        with pytest.raises(NotFound):
            files.skill(name)
    with pytest.raises(NotFound) as missing:
        files.skill(identity(1), "v7")
    assert "v1" in str(missing.value)


def test_the_beginning_of_two_ids_names_neither(files: AssetFiles, workspace: Path) -> None:
    """Resolution 7: others may have let ids collide."""
    files.add_skill(skill_meta(), "x")
    lay(
        workspace / "skills/else/us/skill_00000001_v1", {**FOREIGN, "id": "00000001-other", "purpose": "else"}
    )
    assert len(files.skills()) == 2
    with pytest.raises(UserError) as unclear:
        files.skill("00000001")
    assert unclear.value.code == "lab_ambiguous_id"
    assert files.skill("00000001-other").meta.id == "00000001-other"
    assert files.skill(identity(1)).meta.id == identity(1)


# --- a workspace that others wrote

FOREIGN: dict[str, Any] = EXAMPLES["2.1"]


def lay(folder: Path, meta: dict[str, Any], content: str = "你是…") -> Path:
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
    (folder / "content.txt").write_text(content, encoding="utf-8")
    return folder


def test_the_examples_of_the_source_are_a_workspace(files: AssetFiles, workspace: Path) -> None:
    """Resolution 1: its ids are no UUIDs of version 4, and are read nevertheless."""
    folder = lay(workspace / "skills/code_generate/provider_internal/skill_a1b2c3d4_v1", FOREIGN)
    (folder / "tags.json").write_text(json.dumps(EXAMPLES["2.2"]), encoding="utf-8")
    (folder / "auto_tag_log").mkdir()
    (folder / "auto_tag_log" / "session_20240101121000.json").write_text(json.dumps(EXAMPLES["2.4"]), "utf-8")
    place = workspace / "baselines/code_generate_test/provider_internal/baseline_b2c3d4e5_v1"
    lay(place, EXAMPLES["3.1"])
    (place / "cases.json").write_text(json.dumps(EXAMPLES["3.2"]), encoding="utf-8")
    found = files.skills()[0]
    assert (found.meta.id, found.tags.valid(), found.doubts) == (
        FOREIGN["id"],
        ["Python", "代码生成", "函数生成"],
        (),
    )
    assert list(files.logs(found)) == ["session_20240101121000.json"]
    assert [case.id for case in files.baselines()[0].cases.cases] == ["case_001", "case_002", "case_003"]
    assert [problem.error.code for problem in files.problems()] == ["lab_doubt"]


def test_the_folder_decides_where_and_the_meta_the_rest(files: AssetFiles, workspace: Path) -> None:
    lay(workspace / "skills/writing/them/skill_12345678_v3", FOREIGN)
    found = files.skills()[0]
    assert (found.meta.purpose, found.meta.provider, found.meta.version) == ("writing", "them", "v3")
    assert (found.meta.id, found.meta.name) == (FOREIGN["id"], FOREIGN["name"])
    assert [doubt.field for doubt in found.doubts] == ["purpose", "provider", "version", "id"]
    assert files.skill(FOREIGN["id"]) == found == files.skill("skill_12345678_v3")
    assert all(not problem.broken for problem in files.problems())


@pytest.mark.parametrize("wreck", ["meta", "json", "content", "utf8", "large", "tags", "deep", "field"])
def test_a_broken_folder_is_a_problem_and_no_list_fails_of_it(
    files: AssetFiles, workspace: Path, wreck: str
) -> None:
    good = files.add_skill(skill_meta(), "x")
    folder = lay(
        workspace / "skills/code/them/skill_a1b2c3d4_v1", {**FOREIGN, "purpose": "code", "provider": "them"}
    )
    match wreck:
        case "meta":
            (folder / "meta.json").unlink()
        case "json":
            (folder / "meta.json").write_bytes(b"{")
        case "content":
            (folder / "content.txt").unlink()
        case "utf8":
            (folder / "content.txt").write_bytes(b"\xff\xfe")
        case "large":
            (folder / "content.txt").write_bytes(b"x" * (1024 * 1024 + 1))
        case "tags":
            (folder / "tags.json").write_text("[]", encoding="utf-8")
        case "deep":
            (folder / "meta.json").write_text("[" * 100_000, encoding="utf-8")
        case _:
            (folder / "meta.json").write_text(json.dumps({**FOREIGN, "status": "?"}), encoding="utf-8")
    assert files.skills() == [good]
    problem = files.problems()[0]
    assert (problem.folder, problem.broken) == ("workspace/skills/code/them/skill_a1b2c3d4_v1", True)
    assert "workspace/skills/code/them/skill_a1b2c3d4_v1" in problem.error.message("zh")
    with pytest.raises((StorageError, UserError)):
        files.skill("skill_a1b2c3d4_v1")


def test_links_and_pipes_are_not_followed(files: AssetFiles, workspace: Path, tmp_path: Path) -> None:
    outside = lay(tmp_path / "outside/us/skill_a1b2c3d4_v1", FOREIGN)
    (workspace / "skills/code/us").mkdir(parents=True)
    (workspace / "skills/linked").symlink_to(tmp_path / "outside")
    (workspace / "skills/code/us/skill_a1b2c3d4_v1").symlink_to(outside)
    assert files.skills() == []
    inner = lay(workspace / "skills/code/us/skill_b1b2c3d4_v1", FOREIGN)
    (inner / "content.txt").unlink()
    (inner / "content.txt").symlink_to(outside / "content.txt")
    piped = lay(workspace / "skills/code/us/skill_c1b2c3d4_v1", FOREIGN)
    (piped / "meta.json").unlink()
    os.mkfifo(piped / "meta.json")
    assert files.skills() == []
    assert len([problem for problem in files.problems() if problem.broken]) == 2


def test_what_is_no_asset_is_left_alone(files: AssetFiles, workspace: Path) -> None:
    kept = files.add_skill(skill_meta(), "x")
    (workspace / "skills/README.md").write_text("hello", encoding="utf-8")
    for name in ("notes", "skill_zz", "baseline_00000009_v1", ".skill_00000007_v1.0123abcd.tmp"):
        (workspace / "skills/code/us" / name).mkdir()
    assert files.skills() == [kept]
    files.add_skill(skill_meta(2), "y")
    left = sorted(path.name for path in (workspace / "skills/code/us").iterdir())
    assert left == ["baseline_00000009_v1", "notes", "skill_00000001_v1", "skill_00000002_v1", "skill_zz"]


def test_a_list_opens_no_file_of_an_older_version(files: AssetFiles) -> None:
    first = files.add_skill(skill_meta(), "one")
    second = edited(files, first, "two")
    for path in first.folder.rglob("*.*"):
        path.write_bytes(b"broken")
    assert files.skills() == [second]
    assert files.problems() == []


def test_an_empty_workspace_has_nothing_and_is_not_made_by_looking(
    files: AssetFiles, workspace: Path
) -> None:
    assert (files.skills(), files.baselines(archived=True), files.problems()) == ([], [], [])
    assert not workspace.exists()
    assert files.add_skill(skill_meta(), "x", tags=NO_TAGS).tags == NO_TAGS
