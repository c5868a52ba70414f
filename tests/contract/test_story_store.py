"""What every ``StoryStore`` and ``SettingsStore`` guarantees."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from personalab.errors import NotFound, PersonaLabError, StorageError, UserError
from personalab.story.persona_history import (
    PersonaHistory,
    at_revision,
    grow_persona,
    grown,
    revision_of,
    undo_growth,
)
from tests.support.contract.worlds import BACKGROUND, CHARACTER, NOW, SESSION, SHIPPED, STORY, StoryWorld

pytestmark = pytest.mark.anyio


async def test_saved_state_is_seen_by_others(world: StoryWorld) -> None:
    ports, other = world.open_process(), world.open_process()
    lock = await ports.lock.acquire(STORY, "say", wait=1)
    state = await ports.stories.instance(STORY)
    assert (await other.stories.instance(STORY)) == state
    changed = state.with_plot(replace(state.plot_state, no_update_count=7))
    await ports.stories.save_instance(changed, lock, sync=True)
    assert (await other.stories.instance(STORY)).plot_state.no_update_count == 7
    await lock.release()


async def test_state_is_not_saved_under_an_outdated_lock(world: StoryWorld) -> None:
    ports = world.open_process()
    lock = await ports.lock.acquire(STORY, "say", wait=1)
    state = await ports.stories.instance(STORY)
    if not world.can_lose_locks:
        await lock.release()
        return
    world.end_process(lock)
    for following in (None, await world.open_process().lock.acquire(STORY, "say", wait=1)):
        with pytest.raises(StorageError) as caught:
            await ports.stories.save_instance(state, lock)
        assert caught.value.code == "lock_lost"
        if following is not None:
            await following.release()


async def test_failed_save_leaves_the_state_as_it_was(world: StoryWorld) -> None:
    ports = world.open_process()
    lock = await ports.lock.acquire(STORY, "say", wait=1)
    state = await ports.stories.instance(STORY)
    if world.fail("save_instance"):
        with pytest.raises(StorageError):
            await ports.stories.save_instance(replace(state, background_id=None), lock)
        assert await world.open_process().stories.instance(STORY) == state
    await lock.release()


async def test_records_of_a_story_are_read(world: StoryWorld) -> None:
    stories = world.open_process().stories
    state = await stories.instance(STORY)
    assert (state.character_id, state.background_id) == (CHARACTER, BACKGROUND)
    assert (await stories.background(BACKGROUND)).story_outline
    assert (await stories.character_state(STORY)).base_persona
    name = await stories.character_name(CHARACTER)
    assert name
    assert name != CHARACTER
    assert await stories.character_name("char_404") == "char_404"
    assert await stories.lorebooks("char_404", None) == ((), [])


async def test_persona_and_its_history_are_saved_together(world: StoryWorld) -> None:
    ports, other = world.open_process(), world.open_process()
    state, history = await ports.stories.persona(STORY)
    assert (state, history) == (await ports.stories.character_state(STORY), PersonaHistory())
    lock = await ports.lock.acquire(STORY, "update-memory", wait=1)
    fresh, kept = grown(state, history, "学会了等待。", {"changes": [], "session_id": SESSION}, NOW)
    await ports.stories.save_persona(STORY, fresh, kept, lock)
    read, chain = await other.stories.persona(STORY)
    assert (read.evolved_persona, read.base_persona) == ("学会了等待。", state.base_persona)
    assert [revision.after for revision in chain.counting(revision_of(read))] == ["学会了等待。"]
    assert read == await other.stories.character_state(STORY)
    await ports.stories.save_persona(STORY, at_revision(fresh, "", 0), None, lock)
    read, chain = await other.stories.persona(STORY)
    assert (read.evolved_persona, revision_of(read)) == ("", 0)
    assert [revision.after for revision in chain.set_aside(0)] == ["学会了等待。"]
    await lock.release()


async def test_persona_is_changed_by_one_who_knows_the_current_one(world: StoryWorld) -> None:
    ports = world.open_process()
    lock = await ports.lock.acquire(STORY, "update-memory", wait=1)
    grow = partial(grow_persona, ports.stories, lock, STORY, why={"changes": []}, now=NOW)
    await grow("一", expected="")
    with pytest.raises(UserError) as caught:
        await grow("二", expected="")
    assert caught.value.code == "persona_changed"
    await grow("二", expected="一")
    undone = [(await undo_growth(ports.stories, lock, STORY, NOW)).evolved_persona for _ in range(2)]
    assert undone == ["一", ""]
    with pytest.raises(UserError) as caught:
        await undo_growth(ports.stories, lock, STORY, NOW)
    assert caught.value.code == "no_growth_to_undo"
    await lock.release()


async def test_persona_is_not_saved_under_an_outdated_lock(world: StoryWorld) -> None:
    ports = world.open_process()
    lock = await ports.lock.acquire(STORY, "update-memory", wait=1)
    state, history = await ports.stories.persona(STORY)
    if not world.can_lose_locks:
        await lock.release()
        return
    world.end_process(lock)
    following = await world.open_process().lock.acquire(STORY, "say", wait=1)
    with pytest.raises(StorageError) as caught:
        await ports.stories.save_persona(STORY, *grown(state, history, "x", {}, NOW), lock)
    assert caught.value.code == "lock_lost"
    assert await world.open_process().stories.persona(STORY) == (state, history)
    await following.release()


async def test_cancelled_save_has_ended_when_it_raises(world: StoryWorld) -> None:
    ports = world.open_process()
    lock = await ports.lock.acquire(STORY, "update-memory", wait=1)
    state, history = await ports.stories.persona(STORY)
    fresh, kept = grown(state, history, "学会了等待。", {"changes": []}, NOW)
    saving = asyncio.create_task(ports.stories.save_persona(STORY, fresh, kept, lock))
    await asyncio.sleep(0)
    saving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await saving
    read, chain = await world.open_process().stories.persona(STORY)
    assert (read.evolved_persona, len(chain.counting(revision_of(read)))) == ("学会了等待。", 1)
    await lock.release()


async def test_persona_that_cannot_be_saved_stays_as_it_was(world: StoryWorld) -> None:
    ports = world.open_process()
    lock = await ports.lock.acquire(STORY, "update-memory", wait=1)
    state, history = await ports.stories.persona(STORY)
    if world.fail("save_persona"):
        with pytest.raises(StorageError):
            await ports.stories.save_persona(STORY, *grown(state, history, "x", {}, NOW), lock)
        assert await world.open_process().stories.character_state(STORY) == state
    await lock.release()


async def test_missing_records_are_errors(world: StoryWorld) -> None:
    stories = world.open_process().stories
    with pytest.raises(NotFound):
        await stories.instance("inst_404")
    with pytest.raises(NotFound):
        await stories.character_state("inst_404")
    with pytest.raises(NotFound):
        await stories.persona("inst_404")
    with pytest.raises(NotFound):
        await stories.background("bg_404")
    with pytest.raises(PersonaLabError):
        await stories.instance("../x")


async def test_settings_and_templates_are_read(world: StoryWorld) -> None:
    settings = world.open_process().settings
    preferences = await settings.preferences()
    assert not preferences.notices
    assert preferences.config.language == await settings.language()
    templates, notices = await settings.templates("zh")
    assert not notices
    assert set(templates) == {path.stem for path in (SHIPPED / "prompt_templates" / "zh").glob("*.txt")}
