"""Skills are made, edited, listed and compared, whatever others do at the same time."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from personalab.errors import NotFound, UserError
from personalab.operations.lab.skills import (
    archive_skill,
    create_skill,
    edit_skill,
    get_skill,
    list_skills,
    skill_diff,
    with_new_id,
)
from personalab.operations.lab.tags import add_tag
from personalab.services import Services
from tests.conftest import NOW

pytestmark = pytest.mark.anyio


@pytest.fixture
def services(services: Services, root: Path) -> Services:
    """A workspace without the shipped samples."""
    shutil.rmtree(root / "workspace", ignore_errors=True)
    return services


async def test_a_skill_is_made_edited_and_told_with_all_that_belongs_to_it(services: Services) -> None:
    made = await create_skill(
        services, name="助手", content="一\n二\n", purpose="code", author="张三", type="agent"
    )
    assert (made.meta.version, made.meta.created_at, made.meta.type) == ("v1", NOW, "agent")
    await edit_skill(services, made.meta.id, content="一\n三\n", description="新")
    await add_tag(services, "skill", made.meta.id, "Python")
    found = await get_skill(services, made.meta.id)
    assert (found["meta"]["version"], found["content"], found["versions"]) == ("v2", "一\n三\n", ["v1", "v2"])
    assert found["history"][0]["changed_fields"] == ["content", "meta.description"]
    assert found["tags"]["manual"][0]["value"] == "Python"
    assert (found["provenance"], found["testSummary"], found["doubts"]) == (None, None, [])
    assert (await get_skill(services, made.meta.id, "v1"))["content"] == "一\n二\n"
    json.dumps(found)


async def test_the_difference_of_two_versions_is_a_unified_diff(services: Services) -> None:
    made = await create_skill(services, name="助手", content="一\n二\n", purpose="code")
    await edit_skill(services, made.meta.id, content="一\n三\n")
    found = await skill_diff(services, made.meta.id, "v1", "v2")
    assert found.splitlines()[:2] == ["--- 助手 v1", "+++ 助手 v2"]
    assert found.splitlines()[-2:] == ["-二", "+三"]
    assert await skill_diff(services, made.meta.id, "v1", "v1") == ""
    with pytest.raises(NotFound):
        await skill_diff(services, made.meta.id, "v1", "v9")


async def test_a_list_is_chosen_by_purpose_tag_and_words(services: Services) -> None:
    first = await create_skill(services, name="甲", content="写代码", purpose="code")
    await create_skill(services, name="乙", content="写诗 Poem", purpose="art", provider="them")
    await add_tag(services, "skill", first.meta.id, "Python")
    assert {row["name"] for row in await list_skills(services)} == {"甲", "乙"}
    assert [row["name"] for row in await list_skills(services, purpose="art")] == ["乙"]
    assert [(row["name"], row["tags"]) for row in await list_skills(services, tag="python")] == [
        ("甲", ["Python"])
    ]
    assert [row["name"] for row in await list_skills(services, query="poem")] == ["乙"]
    assert (await list_skills(services))[0]["testSummary"] is None
    await archive_skill(services, first.meta.id)
    assert [row["name"] for row in await list_skills(services)] == ["乙"]
    assert len(await list_skills(services, archived=True)) == 2
    assert (await archive_skill(services, first.meta.id, archived=False)).meta.version == "v3"


async def test_edits_at_once_each_make_a_version(services: Services) -> None:
    made = await create_skill(services, name="助手", content="x", purpose="code")
    changes = [{"description": "d"}, {"author": "a"}, {"source": "s"}, {"content": "y"}, {"name": "n"}]
    await asyncio.gather(*(edit_skill(services, made.meta.id, **change) for change in changes))  # pyright: ignore[reportArgumentType] (texts all)
    found = services.assets.skill(made.meta.id)
    assert (found.meta.version, found.content) == ("v6", "y")
    assert (found.meta.description, found.meta.author, found.meta.source, found.meta.name) == (
        "d",
        "a",
        "s",
        "n",
    )


async def test_an_edit_of_what_is_not_the_newest_any_more_is_refused(services: Services) -> None:
    made = await create_skill(services, name="助手", content="x", purpose="code")
    await edit_skill(services, made.meta.id, content="y", expected_version="v1")
    with pytest.raises(UserError) as refused:
        await edit_skill(services, made.meta.id, content="z", expected_version="v1")
    assert (refused.value.code, refused.value.params["version"]) == ("lab_asset_changed", "v2")


@pytest.mark.parametrize(
    "wrong", [{"name": " "}, {"content": "\n"}, {"purpose": "a/b"}, {"provider": ".."}, {"purpose": ""}]
)
async def test_what_is_no_skill_is_refused_and_nothing_is_kept(
    services: Services, root: Path, wrong: dict[str, str]
) -> None:
    fields = {"name": "n", "content": "c", "purpose": "p", "provider": "q", **wrong}
    with pytest.raises(UserError):
        await create_skill(
            services,
            name=fields["name"],
            content=fields["content"],
            purpose=fields["purpose"],
            provider=fields["provider"],
        )
    assert not (root / "workspace" / "skills").exists()


def test_an_id_that_begins_like_anothers_is_drawn_again() -> None:
    """Resolution 7."""
    drawn: list[str] = []

    def make(asset_id: str) -> str:
        drawn.append(asset_id)
        if len(drawn) < 3:
            raise UserError("lab_short_id_taken", short="", folder="")
        return asset_id

    assert with_new_id(make) == drawn[2]
    assert len(set(drawn)) == 3
    with pytest.raises(UserError, match="blank"):
        with_new_id(lambda _: (_ for _ in ()).throw(UserError("lab_blank", field="name")))
