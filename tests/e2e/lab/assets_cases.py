"""Operations on skills and baselines that are killed at every step, and the state that must hold afterwards."""

from __future__ import annotations

from pathlib import Path

from personalab.errors import NotFound
from personalab.lab.assets import NO_TAGS, ManualTag, SkillMeta, edit_skill
from personalab.storage.lab.assets import AssetFiles
from tests.support.killing import Case, Cases, Scene

ID = "00000001-0000-4000-8000-000000000000"
OTHER = "00000002-0000-4000-8000-000000000000"
NOW, LATER = "2024-01-01T12:00:00Z", "2024-01-01T13:00:00Z"
LONG = "新的内容。" * 200


def warm() -> None:
    """Import what is imported late: nothing."""


def opened(root: Path) -> AssetFiles:
    return AssetFiles(root / "workspace")


def meta(asset_id: str) -> SkillMeta:
    fields = {"id": asset_id, "name": "技能", "purpose": "code", "provider": "us", "version": "v1"}
    times = {"status": "active", "created_at": NOW, "updated_at": NOW}
    return SkillMeta.read({**fields, **times}, "meta.json")


async def prepare(root: Path) -> None:
    files = opened(root)
    kept = files.add_skill(meta(ID), "旧的内容", extra={"x_source/SKILL.md": b"raw"})
    made = edit_skill(kept.meta, kept.content, new_content="第二版", changes={}, now=NOW)
    assert made is not None
    files.add_skill_version(kept, made.meta, made.content, made.history)


def check_old(scene: Scene) -> None:
    """Every file that was there is there, and every list works without a problem."""
    for path in (scene.before / "workspace/skills").rglob("*"):
        if path.is_file() and path.name != "tags.json":
            assert (scene.root / path.relative_to(scene.before)).read_bytes() == path.read_bytes()
    assert opened(scene.root).problems() == []


def check_swept(scene: Scene) -> None:
    skills = scene.root / "workspace/skills"
    left = [path.name for path in skills.rglob("*") if path.name.startswith(".")]
    assert left == [], left


# --- an edit


async def edit(root: Path) -> None:
    files = opened(root)
    old = files.skill(ID)
    made = edit_skill(old.meta, old.content, new_content=LONG, changes={"name": "新"}, now=LATER)
    if made is not None:
        files.add_skill_version(old, made.meta, made.content, made.history)


async def is_edited(scene: Scene) -> bool:
    check_old(scene)
    found = opened(scene.root).skill(ID)
    whole = (found.meta.version, found.meta.name, found.content, len(opened(scene.root).history(found)))
    assert whole in [("v2", "技能", "第二版", 1), ("v3", "新", LONG, 2)]
    return found.meta.version == "v3"


async def check_edited(scene: Scene) -> None:
    assert await is_edited(scene)
    opened(scene.root).set_status(opened(scene.root).skill(ID), "archived", LATER)
    check_swept(scene)


# --- a new skill


async def create(root: Path) -> None:
    try:
        opened(root).skill(OTHER)
    except NotFound:
        opened(root).add_skill(meta(OTHER), LONG, extra={"x_source/a/b.txt": b"b" * 100})


async def is_created(scene: Scene) -> bool:
    check_old(scene)
    found = [skill for skill in opened(scene.root).skills() if skill.meta.id == OTHER]
    for skill in found:
        assert skill.content == LONG
        assert opened(scene.root).beside(skill, "x_source/a/b.txt") == b"b" * 100
    return bool(found)


async def check_created(scene: Scene) -> None:
    assert await is_created(scene)
    await edit(scene.root)
    check_swept(scene)


# --- a tag


async def tag(root: Path) -> None:
    files = opened(root)
    fresh = ManualTag(id=OTHER, value="标签", created_at=NOW)
    files.change_tags(
        files.skill(ID), lambda tags: tags if tags.manual else tags.model_copy(update={"manual": (fresh,)})
    )


async def is_tagged(scene: Scene) -> bool:
    check_old(scene)
    values = opened(scene.root).skill(ID).tags.valid()
    assert values in ([], ["标签"])
    return bool(values)


async def check_tagged(scene: Scene) -> None:
    assert await is_tagged(scene)
    files = opened(scene.root)
    files.change_tags(files.skill(ID), lambda _: NO_TAGS)
    check_swept(scene)


CASES: Cases = {
    "edit": Case(prepare, edit, is_edited, check_edited),
    "create": Case(prepare, create, is_created, check_created),
    "tag": Case(prepare, tag, is_tagged, check_tagged),
}
