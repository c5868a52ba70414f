"""A project is made whole, of copies, under a name that nobody has; and it is found and told of as it is."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from personalab.errors import BadRecord, NotFound, PersonaLabError, UserError
from personalab.lab.options import RunOptions
from personalab.operations.lab import projects
from personalab.operations.lab.projects import create_project, list_projects, project_status, skip_task
from personalab.services import Services
from personalab.storage.lab.projects import ProjectPlace
from tests.support.lab.running import (
    BASELINES,
    OPTIONS,
    SKILLS,
    FakeExecutor,
    add_assets,
    evaluate,
    make_project,
    use,
)

pytestmark = pytest.mark.anyio


async def test_a_project_is_made_of_copies_and_an_edit_of_a_skill_changes_nothing_in_it(
    services: Services,
) -> None:
    place = await make_project(services)
    config = place.config
    assert place.name == "project_first_test_20251016103000"
    assert config.original_skill_ids == SKILLS
    assert [ref.local_path for ref in config.skills] == [
        "skills/skill_aaaaaaaa_v1",
        "skills/skill_bbbbbbbb_v1",
    ]
    assert config.baselines[0].local_path == "baselines/baseline_cccccccc_v1"
    assert (config.progress.total_tasks, config.progress.last_checkpoint) == (6, None)
    original = services.assets.skill(SKILLS[0]).folder
    assert (place.folder / "skills/skill_aaaaaaaa_v1/meta.json").read_bytes() == (
        original / "meta.json"
    ).read_bytes()
    (original / "content.txt").write_text("edited", encoding="utf-8")
    assert place.skills()[0].content == "alpha answers briefly.\n"


async def test_projects_of_the_same_second_get_numbers_and_a_chinese_name_its_id(services: Services) -> None:
    """Contradictions 14 and 30 of the source."""
    await asyncio.to_thread(add_assets, services)
    names = ["Same", "Same", "Same", "对比实验"]
    made = [
        await create_project(
            services, name=name, skill_ids=SKILLS[:1], baseline_ids=BASELINES[:1], options=OPTIONS
        )
        for name in names
    ]
    stem = "project_same_20251016103000"
    assert [one["project"] for one in made[:3]] == [stem, f"{stem}_2", f"{stem}_3"]
    assert made[3]["project"] == f"project_p{made[3]['id'][:8]}_20251016103000"


async def test_a_long_name_still_makes_a_folder_that_can_be_leased(services: Services) -> None:
    await asyncio.to_thread(add_assets, services)
    for _ in range(2):
        made = await create_project(
            services, name="long " * 40, skill_ids=SKILLS[:1], baseline_ids=BASELINES[:1], options=OPTIONS
        )
        assert len(made["project"]) <= 64
        async with services.projects.leases.holding(made["project"], "test", wait=1):
            assert services.projects.is_running(services.projects.project(made["project"]))


async def test_a_project_is_found_by_folder_id_beginning_of_the_id_and_its_only_name(
    services: Services,
) -> None:
    place = await make_project(services)
    for wanted in (place.name, place.config.id, place.config.id[:8], "First test"):
        assert services.projects.project(wanted).folder == place.folder
    for wanted in ("", "nothing", "../projects", place.config.id[:7], "project_first_test_20251016103000/"):
        with pytest.raises(NotFound) as caught:
            services.projects.project(wanted)
        assert caught.value.code == "lab_no_project"
    await create_project(
        services, name="First test", skill_ids=SKILLS[:1], baseline_ids=BASELINES[:1], options=OPTIONS
    )
    with pytest.raises(UserError, match="matches several projects"):
        services.projects.project("First test")


async def test_what_cannot_be_measured_makes_no_project(services: Services) -> None:
    await asyncio.to_thread(add_assets, services, cases=1)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"name": " "}, "lab_project_nameless"),
        ({"skill_ids": []}, "lab_project_empty"),
        ({"baseline_ids": []}, "lab_project_empty"),
        ({"skill_ids": [SKILLS[0], SKILLS[0]]}, "lab_project_twice"),
    ]
    for changes, code in wrong:
        given: dict[str, Any] = {
            "name": "x",
            "skill_ids": SKILLS,
            "baseline_ids": BASELINES[:1],
            "options": OPTIONS,
            **changes,
        }
        with pytest.raises(UserError) as caught:
            await create_project(services, **given)
        assert caught.value.code == code
    assert services.projects.list() == []


async def test_a_project_half_made_by_one_who_died_is_neither_listed_nor_left(services: Services) -> None:
    place = await make_project(services)
    half = place.folder.with_name(".new-dead")
    half.mkdir()
    (half / "config.json").write_text("{", encoding="utf-8")
    assert [found.name for found in services.projects.list()] == [place.name]
    await create_project(
        services, name="x", skill_ids=SKILLS[:1], baseline_ids=BASELINES[:1], options=OPTIONS
    )
    assert not half.exists()


async def test_a_broken_project_is_a_problem_and_hides_no_other(services: Services) -> None:
    place = await make_project(services)
    for name in ("project_broken_1", "project_empty_1", "Ünsafe name"):
        place.folder.with_name(name).mkdir()
    (place.folder.with_name("project_broken_1") / "config.json").write_text('{"id": 1}', encoding="utf-8")
    assert [found["project"] for found in await list_projects(services)] == [place.name]
    problems = {problem.name: problem.error for problem in services.projects.problems()}
    assert set(problems) == {"project_broken_1", "project_empty_1", "Ünsafe name"}
    with pytest.raises(BadRecord, match=r"project_broken_1/config\.json"):
        services.projects.project("project_broken_1")


@pytest.mark.parametrize(
    "path", ["../../../secret", "/etc", "skills/../../x", "skills//x", "a\\b", "skills/.x"]
)
async def test_a_plan_that_points_out_of_its_project_is_refused(services: Services, path: str) -> None:
    place = await make_project(services)
    ref = place.config.skills[0].changed(local_path=path)
    place = ProjectPlace(place.folder, place.config.changed(skills=[ref.model_dump()]))
    with pytest.raises(BadRecord) as caught:
        place.skills()
    assert caught.value.code == "lab_bad_local_path"


async def test_a_link_out_of_the_project_is_not_followed(services: Services, tmp_path: Path) -> None:
    place = await make_project(services)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "content.txt").write_text("secret", encoding="utf-8")
    copy = place.folder / "skills/skill_aaaaaaaa_v1"
    copy.rename(copy.with_name("elsewhere"))
    os.symlink(outside, copy)
    with pytest.raises(BadRecord):
        place.skills()


async def test_status_is_interrupted_when_it_says_running_and_nobody_holds_it(services: Services) -> None:
    """Contradiction 19 of the source: a crash leaves the word, and the lock tells the truth."""
    place = await make_project(services)
    place.save_config(place.config.changed(status="running"))
    assert (await project_status(services, place.name))["status"] == "interrupted"
    async with services.projects.leases.holding(place.name, "test", wait=1):
        assert (await project_status(services, place.name))["status"] == "running"


async def test_options_come_from_the_settings_of_the_command_line_unless_given(services: Services) -> None:
    """Contradiction 35 of the source: the default time-out stays, and a project may have its own."""
    await asyncio.to_thread(add_assets, services)
    settings = services.lab_sessions.settings()
    services.lab_sessions.save_settings(settings.changed(cli_path=sys.executable))
    made = await create_project(services, name="x", skill_ids=SKILLS[:1], baseline_ids=BASELINES[:1])
    place = services.projects.project(made["project"])
    assert (place.options().model, place.options().timeout_seconds) == ("claude-opus-4-6", 60)
    assert place.config.cli_config == place.options().call_config()
    fresh = await projects.change_options(services, place.name, {"timeout_seconds": 300, "max_calls": 10})
    assert place.again().config.cli_config.timeout_seconds == fresh.timeout_seconds == 300
    (place.folder / "x_run.json").unlink()
    assert place.again().options() == RunOptions(model="claude-opus-4-6", timeout_seconds=300)


async def test_without_the_command_line_the_model_of_turns_answers(services: Services) -> None:
    await asyncio.to_thread(add_assets, services)
    settings = services.lab_sessions.settings()
    services.lab_sessions.save_settings(settings.changed(cli_path="no-such-program"))
    made = await create_project(services, name="x", skill_ids=SKILLS[:1], baseline_ids=BASELINES[:1])
    assert made["model"] == "rehearsal"
    services.lab_sessions.save_settings(settings.changed(default_model="openai:some-model"))
    assert services.lab_model() == "openai:some-model"


async def test_what_makes_the_scores_stands_once_there_are_results(services: Services) -> None:
    use(services, FakeExecutor())
    place = await make_project(services)
    await projects.change_options(services, place.name, {"judges": ["other"]})
    await projects.change_options(services, place.name, {"judges": []})
    await evaluate(services, place.name)
    for changes in ({"judges": ["other"]}, {"repeats": 2}, {"no_skill_arm": True}, {"model": "other"}):
        with pytest.raises(UserError) as caught:
            await projects.change_options(services, place.name, changes)
        assert caught.value.code == "lab_option_fixed"
    assert (await projects.change_options(services, place.name, {"concurrency": 9})).concurrency == 9
    for wrong in ({"concurency": 9}, {"concurrency": 0}, {"extra_flags": ["--resume"]}):
        with pytest.raises(PersonaLabError):
            await projects.change_options(services, place.name, wrong)


async def test_a_skipped_task_is_neither_completed_nor_failed_until_it_is_taken_in_again(
    services: Services,
) -> None:
    """Contradiction 17 of the source."""
    fake = use(services, FakeExecutor())
    place = await make_project(services)
    await skip_task(services, place.name, SKILLS[0][:8], "case_002")
    _, result = await evaluate(services, place.name)
    assert (result["status"], result["completed"], result["failed"], result["skipped"]) == ("done", 5, 0, 1)
    assert not [name for name in fake.ids("x") if "aaaaaaaa_v1-case_002" in name]
    kept = json.loads((place.results / "aaaaaaaa_v1/case_002.json").read_text(encoding="utf-8"))
    assert (kept["status"], set(kept["scores"].values())) == ("skipped", {None})
    status = await project_status(services, place.name)
    assert (status["progress"]["completed_tasks"], status["progress"]["left"]) == (5, 1)
    assert (await skip_task(services, place.name, SKILLS[0], "case_002", undo=True))["status"] == "open"
    for case in ("case_001", "case_002"):
        with pytest.raises(UserError, match="nothing to undo"):
            await skip_task(services, place.name, SKILLS[0], case, undo=True)
    _, result = await evaluate(services, place.name)
    assert (result["completed"], result["skipped"]) == (6, 0)
    with pytest.raises(UserError, match="can't be skipped"):
        await skip_task(services, place.name, SKILLS[0], "case_002")
    with pytest.raises(NotFound, match="no single task"):
        await skip_task(services, place.name, "", "case_002")
