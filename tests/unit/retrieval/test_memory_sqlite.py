"""Tests of the embedded memory store when files are lost, broken or replaced."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest

from personalab.errors import StorageError
from personalab.memory.changes import Operation, revise
from personalab.memory.search import MemorySearch
from personalab.retrieval.embedders import open_embedder
from personalab.retrieval.memory.store import DatabaseMemoryStore
from tests.support.retrieval.memories import (
    AGENT,
    NOW,
    USER,
    Concepts,
    backend_at,
    learn,
    looking,
    open_at,
    said,
)

pytestmark = pytest.mark.anyio
OpenStore = Callable[..., DatabaseMemoryStore]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give the folder of the test's memories."""
    return tmp_path / "memory"


@pytest.fixture
async def open_store(folder: Path) -> AsyncIterator[OpenStore]:
    """Open stores of one folder, closed after the test."""
    opened: list[DatabaseMemoryStore] = []

    def open_one(embedder: Concepts | None = None) -> DatabaseMemoryStore:
        opened.append(open_at(str(folder), embedder))
        return opened[-1]

    yield open_one
    for store in opened:
        await store.close()


def run(folder: Path, query: str, *values: object) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(folder / "memory.db")) as connection, connection:
        return connection.execute(query, values).fetchall()


async def texts(store: DatabaseMemoryStore, query: str) -> list[str]:
    return [hit.entry.text for hit in await store.search(looking(query))]


async def test_asking_makes_no_file(open_store: OpenStore, folder: Path) -> None:
    store = open_store()
    assert await store.memory(AGENT, USER) is None
    assert await store.search(looking("cat")) == []
    assert await store.reindex() == 0
    assert not folder.exists()


async def test_the_lists_of_strings_are_kept_in_step(open_store: OpenStore, folder: Path) -> None:
    memory, _ = await learn(open_store(), "一", "二", "三")
    query = "SELECT profile_content, event_content FROM memories"
    assert run(folder, query) == [('["一","二","三"]', "[]")]
    two = memory.of("profile")[1].content_id
    operations = [
        Operation("remove", "profile", content_id=two),
        Operation("add", "event", 'it\'s "四"'),
    ]
    assert await open_store().commit(revise(memory, operations, NOW, origin="edit"))
    assert run(folder, query) == [('["一","三"]', '["it\'s \\"四\\""]')]


@pytest.mark.parametrize("data", ["{", "[]", '{"created_at": 1}', "null", ""])
async def test_an_entry_that_cannot_be_read_is_set_aside(
    open_store: OpenStore, folder: Path, data: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store()
    await learn(store, "has a cat", "likes tea")
    run(folder, "UPDATE memory_contents SET content_data = ? WHERE content_text = 'has a cat'", data)
    with caplog.at_level(logging.WARNING, "personalab.memory"):
        memory = await store.memory(AGENT, USER)
    assert memory is not None
    assert memory.texts("profile") == ["likes tea"]
    assert "memory_contents" in caplog.text
    [(table, row)] = run(folder, "SELECT table_name, row FROM set_aside")
    assert table == "memory_contents"
    assert "has a cat" in str(row)
    assert run(folder, "SELECT profile_content FROM memories") == [('["likes tea"]',)]
    assert await texts(store, "cat") == []
    assert await store.commit(revise(memory, [Operation("add", "mind", "calm")], NOW, origin="edit"))


async def test_a_search_passes_over_an_entry_that_cannot_be_read(open_store: OpenStore, folder: Path) -> None:
    store = open_store()
    await learn(store, "likes tea", "hates tea")
    run(folder, "UPDATE memory_contents SET content_data = '{' WHERE content_text = 'hates tea'")
    assert await texts(store, "tea") == ["likes tea"]
    assert run(folder, "SELECT count(*) FROM set_aside") == [(1,)]


async def test_a_conversation_or_change_that_cannot_be_read_is_set_aside(
    open_store: OpenStore, folder: Path
) -> None:
    store = open_store()
    _, conversation = await learn(store, "has a cat")
    kept = await store.save_conversation(said("other words"))
    run(
        folder,
        "UPDATE conversations SET conversation_data = '{' WHERE conversation_id = ?",
        conversation.conversation_id,
    )
    run(folder, "UPDATE memory_changes SET steps = 'x'")
    assert await store.conversations(AGENT, USER) == [kept]
    assert await store.conversation(conversation.conversation_id) is None
    assert await store.changes(AGENT, USER) == []
    tables = run(folder, "SELECT table_name FROM set_aside ORDER BY table_name")
    assert tables == [("conversations",), ("memory_changes",)]
    again = await store.save_conversation(said("has a cat"))
    assert await store.conversation(again.conversation_id) == again


async def test_a_broken_conversation_does_not_keep_it_from_being_saved_again(
    open_store: OpenStore, folder: Path
) -> None:
    store = open_store()
    await store.save_conversation(said("hello"))
    run(folder, "UPDATE conversations SET conversation_data = '{'")
    again = await store.save_conversation(said("hello"))
    assert await store.conversations(AGENT, USER) == [again]
    assert run(folder, "SELECT count(*) FROM set_aside") == [(1,)]


@pytest.mark.parametrize("lost", ["vectors", "vectors/*/chroma.sqlite3"])
@pytest.mark.parametrize("reopened", [True, False])
async def test_lost_vectors_are_made_anew(
    open_store: OpenStore, folder: Path, lost: str, reopened: bool
) -> None:
    embedder = Concepts()
    store = open_store(embedder)
    await learn(store, "has a cat", "likes tea")
    assert await texts(store, "feline") == ["has a cat"]
    for path in list(folder.glob(lost)):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if reopened:
        await store.close()
        store = open_store(embedder)
    assert await texts(store, "feline") == ["has a cat"]
    assert sorted(embedder.asked) == ["has a cat", "has a cat", "likes tea", "likes tea"]


async def test_broken_vectors_leave_the_words_and_are_mended_by_reindexing(
    open_store: OpenStore, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store()
    await learn(store, "has a cat", "likes tea")
    assert await texts(store, "feline") == ["has a cat"]
    await store.close()
    [database] = folder.glob("vectors/*/chroma.sqlite3")
    database.write_bytes(b"not a database" * 100)
    store = open_store()
    with caplog.at_level(logging.WARNING, "personalab.memory"):
        assert await texts(store, "tea and a guitar") == ["likes tea"]
    assert "reindex" in caplog.text
    assert await store.forget("nobody", USER) is False
    await store.reindex()
    assert await texts(store, "feline") == ["has a cat"]


async def test_many_removed_entries_leave_room_for_the_rest(open_store: OpenStore, folder: Path) -> None:
    store = open_store()
    await learn(store, *(f"cat {number}" for number in range(250)), kind="event")
    memory, _ = await learn(store, "a feline friend")
    assert len(await texts(store, "猫")) == 10
    operations = [Operation("remove", "event", content_id=entry.content_id) for entry in memory.of("event")]
    assert await store.commit(revise(memory, operations, NOW, origin="edit"))
    assert await texts(store, "猫") == ["a feline friend"]
    assert run(folder, "SELECT count(*) FROM vectors_gone") == [(0,)]


async def test_two_embedders_at_once_do_not_undo_each_others_work(
    open_store: OpenStore, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = open_store(Concepts(4)), open_store(Concepts(5))
    await learn(old, "has a cat", "likes tea")
    assert await texts(old, "feline") == ["has a cat"]
    assert await texts(new, "feline") == ["has a cat"]
    with caplog.at_level(logging.WARNING, "personalab.memory"):
        assert await texts(old, "feline") == []
        assert await texts(old, "tea") == ["likes tea"]
    assert "test:concepts-5" in caplog.text
    assert await texts(new, "feline") == ["has a cat"]


async def test_a_file_that_was_replaced_is_read_as_it_is_now(open_store: OpenStore, folder: Path) -> None:
    store = open_store()
    await learn(store, "has a cat")
    shutil.rmtree(folder)
    assert await store.memory(AGENT, USER) is None
    await learn(store, "likes tea")
    assert await texts(store, "tea") == ["likes tea"]
    assert run(folder, "SELECT content_text FROM memory_contents") == [("likes tea",)]


async def test_a_file_that_is_no_database_is_told(open_store: OpenStore, folder: Path) -> None:
    folder.mkdir()
    (folder / "memory.db").write_bytes(b"not a database" * 1000)
    with pytest.raises(StorageError) as broken:
        await open_store().memory(AGENT, USER)
    assert broken.value.code == "file_broken"
    assert (folder / "memory.db").read_bytes() == b"not a database" * 1000


async def test_a_file_of_a_newer_version_is_left_alone(open_store: OpenStore, folder: Path) -> None:
    store = open_store()
    await learn(store, "has a cat")
    await store.close()
    run(folder, "PRAGMA user_version=99")
    with pytest.raises(StorageError) as refused:
        await open_store().memory(AGENT, USER)
    assert refused.value.code == "memory_too_new"


async def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "memory").write_text("a file", encoding="utf-8")
    store = open_at(str(tmp_path / "memory"))
    with pytest.raises(StorageError) as refused:
        await store.save_conversation(said("hello"))
    assert refused.value.code == "not_writable"
    await store.close()


async def test_the_offline_embedder_finds_by_meaning(folder: Path) -> None:
    offline = open_embedder("offline", api_key=None, base_url=None)
    store = DatabaseMemoryStore(backend_at(str(folder)), lambda: offline)
    await learn(store, "她养了一只小猫", "他每天早上跑步", "周末去海边游泳", "👍🏽 … !!")
    assert (await texts(store, "宠物 动物"))[0] == "她养了一只小猫"
    assert (await texts(store, "跑步"))[0] == "他每天早上跑步"
    assert await store.search(MemorySearch("跑步", AGENT, USER, types=())) == []
    await store.close()
