"""What every ``ConversationArchive`` guarantees."""

from __future__ import annotations

import asyncio

import pytest

from personalab.archive.veloca import COMPACTED, NOT_COMPACTED
from personalab.archive.veloca_archive import DEFAULT_NAME
from personalab.archive.veloca_compaction import CompactionMaterial, fingerprint
from personalab.errors import NotFound, StorageError, UserError
from tests.support.contract.archives import ArchiveWriter
from tests.support.contract.worlds import StoryWorld

pytestmark = pytest.mark.anyio

SAID = ("one", "two", "three", "four", "five", "six")


def session(writer: ArchiveWriter) -> tuple[str, list[str]]:
    """Write a session of six entries; return its id and theirs."""
    made = writer.begin_session("talk")
    return made, [writer.add_entry(made, "user", message) for message in SAID]


def seen(material: CompactionMaterial) -> str:
    """Return the fingerprint of a material."""
    return fingerprint(material.entries, material.summaries)


async def test_summary_and_its_entries_are_seen_by_others_when_the_call_returns(world: StoryWorld) -> None:
    writer = world.archive()
    made, ids = session(writer)
    archive = world.open_process().archive(DEFAULT_NAME)
    assert archive.name == DEFAULT_NAME
    material = await archive.material(made, None)
    assert [entry.message for entry in material.entries] == ["one", "two"]
    assert (material.session_id, material.trigger_entry_id) == (made, ids[2])
    dialogue = await archive.compact(made, ids[2], "in short", seen=seen(material))
    assert (dialogue.summary, dialogue.trigger_entry_id) == ("in short", ids[2])
    assert writer.context(made) == ["in short", *SAID[2:]]
    assert writer.compacted(made) == [COMPACTED] * 2 + [NOT_COMPACTED] * 4
    again = await world.open_process().archive(DEFAULT_NAME).material(made, ids[5])
    assert [found.summary for found in again.summaries] == ["in short"]


async def test_ids_may_be_shortened_to_what_only_one_has(world: StoryWorld) -> None:
    made, ids = session(world.archive())
    archive = world.open_process().archive(DEFAULT_NAME)
    material = await archive.material(made[:8], ids[3][:8])
    assert (material.session_id, material.trigger_entry_id) == (made, ids[3])
    for short in (made[:7], "", "0" * 36):
        with pytest.raises(NotFound) as caught:
            await archive.material(short, None)
        assert caught.value.code == "no_archive_session"
    with pytest.raises(NotFound) as caught:
        await archive.material(made, ids[0][:7])
    assert caught.value.code == "no_archive_entry"


async def test_archive_that_does_not_exist_is_not_found(world: StoryWorld) -> None:
    session(world.archive())
    before = world.dump()
    archive = world.open_process().archive("none.json")
    with pytest.raises(NotFound) as caught:
        await archive.material("x" * 36, None)
    assert caught.value.code == "no_archive"
    with pytest.raises(NotFound):
        await archive.compact("x" * 36, "y" * 36, "in short", seen="")
    assert world.dump() == before


async def test_changed_material_is_not_written_over(world: StoryWorld) -> None:
    writer = world.archive()
    made, ids = session(writer)
    archive = world.open_process().archive(DEFAULT_NAME)
    material = await archive.material(made, None)
    writer.add_entry(made, "user", "later: this does not matter")
    writer.edit_entry(ids[0], "another one")
    before = world.dump()
    with pytest.raises(UserError) as caught:
        await archive.compact(made, ids[2], "in short", seen=seen(material))
    assert caught.value.code == "archive_changed"
    assert world.dump() == before
    assert writer.context(made)[0] == "another one"


async def test_of_many_at_once_one_is_written(world: StoryWorld) -> None:
    writer = world.archive()
    made, ids = session(writer)
    archives = [world.open_process().archive(DEFAULT_NAME) for _ in range(4)]
    known = seen(await archives[0].material(made, None))
    results = await asyncio.gather(
        *(
            archive.compact(made, ids[2], f"by {number}", seen=known)
            for number, archive in enumerate(archives)
        ),
        return_exceptions=True,
    )
    assert sorted(isinstance(result, BaseException) for result in results) == [False, True, True, True]
    assert sum(message.startswith("by ") for message in writer.context(made)) == 1


async def test_failed_write_changes_nothing(world: StoryWorld) -> None:
    writer = world.archive()
    made, ids = session(writer)
    archive = world.open_process().archive(DEFAULT_NAME)
    known = seen(await archive.material(made, None))
    before = world.dump()
    if world.fail("compact"):
        with pytest.raises(StorageError):
            await archive.compact(made, ids[2], "in short", seen=known)
        assert world.dump() == before
    await archive.compact(made, ids[2], "in short", seen=known)
    assert writer.context(made)[0] == "in short"


async def test_cancelled_call_has_ended_when_it_raises(world: StoryWorld) -> None:
    writer = world.archive()
    made, ids = session(writer)
    archive = world.open_process().archive(DEFAULT_NAME)
    known = seen(await archive.material(made, None))
    writing = asyncio.create_task(archive.compact(made, ids[2], "in short", seen=known))
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    done = writer.context(made) == ["in short", *SAID[2:]]
    assert done or writer.context(made) == list(SAID)
    if not done:
        await archive.compact(made, ids[2], "in short", seen=known)
    assert writer.compacted(made) == [COMPACTED] * 2 + [NOT_COMPACTED] * 4
