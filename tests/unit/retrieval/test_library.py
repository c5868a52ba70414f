"""Tests of the event library on Chroma: storage and errors."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from personalab.errors import StorageError
from personalab.retrieval.library import ChromaLibrary
from personalab.story.recall import CONFIDENT
from tests.support.retrieval.events import event, looking, open_library

pytestmark = pytest.mark.anyio


class OtherEmbedder:
    """Tells texts apart by their first characters."""

    identity = "other:letters"

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [float(ord(character) % 7 + 1) for character in f"{text:_<8}"[:8]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the library of this test stands."""
    return tmp_path / "event_library"


def stored(folder: Path, name: str) -> Any:
    """Look into a collection with Chroma itself."""
    import chromadb
    from chromadb.config import Settings

    settings = Settings(anonymized_telemetry=False)
    client = chromadb.PersistentClient(str(folder / "chroma_db"), settings=settings)
    return client.get_collection(name, embedding_function=None)


async def test_ids_and_metadata_are_those_of_the_spec(folder: Path) -> None:
    library = open_library(folder)
    await library.write([event(1, "灯塔", kind=kind, background="") for kind in ("summary", "plot", "turn")])
    shared = {
        "session_id": "sess_001",
        "instance_id": "inst_001",
        "character_id": "char_a",
        "background_id": "",
        "index": 1,
        "first_turn": 1,
        "last_turn": 1,
    }
    summaries = stored(folder, "inst_001.summaries").get()
    assert summaries["ids"] == ["summary_inst_001_sess_001_1"]
    linked = {"timestamp": "", "related_plot_id": "plot_inst_001_sess_001_1"}
    assert summaries["metadatas"] == [{**shared, **linked}]
    plots = stored(folder, "inst_001.plots").get()
    linked = {"timestamp": "", "related_summary_id": "summary_inst_001_sess_001_1"}
    assert plots["metadatas"] == [{**shared, **linked}]
    turns = stored(folder, "inst_001.turns")
    assert turns.get()["metadatas"] == [{**shared, "timestamp": "2025-10-16T10:30:00Z"}]
    assert turns.metadata == {"hnsw:space": "cosine"}


async def test_an_empty_library_answers_at_once_without_chroma_or_numpy(folder: Path) -> None:
    program = f"""
import asyncio, sys
from pathlib import Path
from personalab.retrieval.library import ChromaLibrary
from personalab.story.recall import RecallQuery
library = ChromaLibrary(Path({str(folder)!r}), lambda: 1 / 0)
assert asyncio.run(library.search(RecallQuery("x", ("turn",), 5, "inst_001"))) == []
assert asyncio.run(library.missing("inst_001", ["a"])) == ["a"]
assert not {{"chromadb", "numpy", "langchain_core"}} & set(sys.modules), "heavy"
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[3])
    assert not folder.exists()
    library = open_library(folder)
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        for _ in range(20):
            await library.search(looking("灯塔"))
    finally:
        sys.setprofile(None)
    assert calls / 20 < 100


async def test_an_instance_that_was_never_written_is_searched_without_opening_anything(folder: Path) -> None:
    await open_library(folder).write([event(1, "灯塔")])
    (folder / "chroma_db" / "chroma.sqlite3").write_bytes(b"broken")
    assert await open_library(folder).search(looking("灯塔", instance="inst_009")) == []


async def test_a_blank_query_finds_nothing(folder: Path) -> None:
    library = open_library(folder)
    await library.write([event(1, "灯塔")])
    assert await library.search(looking(" \n")) == []
    assert await library.search(looking("？！…")) == []


async def test_another_embedder_is_refused_until_the_library_is_made_anew(folder: Path) -> None:
    library = open_library(folder)
    await library.write([event(1, "灯塔的钥匙")])
    other = ChromaLibrary(folder, OtherEmbedder)
    for work in (other.search(looking("灯塔")), other.write([event(2, "地图")])):
        with pytest.raises(StorageError) as refused:
            await work
        assert refused.value.code == "other_embedder"
        for language in ("zh", "en"):
            message = refused.value.message(language)
            assert "offline:" in message
            assert "other:letters" in message
            assert "personalab reindex" in message
    state = await other.state()
    assert (state.status, state.counts["turn"]) == ("other_embedder", 1)
    assert state.embedder.startswith("offline:")
    await other.reset()
    await other.write([event(2, "地图")])
    assert [hit.event.index for hit in await other.search(looking("地图"))] == [2]
    assert (await library.state()).status == "other_embedder"


@pytest.mark.parametrize("broken", ["chroma_db/chroma.sqlite3", "catalogue.json"])
async def test_a_broken_library_says_so_and_can_be_made_anew(folder: Path, broken: str) -> None:
    await open_library(folder).write([event(1, "灯塔的钥匙")])
    (folder / broken).write_bytes(b"\x00 no library " * 999)
    library = open_library(folder)
    for work in (library.search(looking("灯塔")), library.write([event(2, "地图")])):
        with pytest.raises(StorageError) as refused:
            await work
        assert refused.value.code == "library_unreadable"
        assert "personalab reindex" in refused.value.message("zh")
    assert (await library.state()).status == "unreadable"
    await library.reset()
    await library.write([event(2, "地图")])
    assert [hit.event.index for hit in await library.search(looking("地图"))] == [2]
    assert (await library.state()).status == "ready"
    assert sorted(path.name for path in folder.iterdir()) == ["catalogue.json", "chroma_db", "lock"]


def _search_elsewhere(folder: Path, query: str) -> str:
    """Search in a new process, which holds nothing in memory yet; return the code of what it raises."""
    code = (
        "import asyncio, sys; from pathlib import Path; from personalab.errors import PersonaLabError\n"
        "from tests.support.retrieval.events import looking, open_library\n"
        "try: print(asyncio.run(open_library(Path(sys.argv[1])).search(looking(sys.argv[2]))))\n"
        "except PersonaLabError as error: print(error.code)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder), query], capture_output=True, text=True)
    return done.stdout + done.stderr


async def test_broken_vectors_are_told_and_can_be_made_anew(folder: Path) -> None:
    library = open_library(folder)
    await library.write([event(n, f"灯塔 {n}") for n in range(1, 1200)])
    files = list((folder / "chroma_db").glob("*/*.bin"))
    assert files
    for file in files:
        file.write_bytes(b"x")
    told = _search_elsewhere(folder, "灯塔 77")
    assert "library_unreadable" in told, told
    await library.reset()
    await library.write([event(1, "地图")])
    assert await library.search(looking("地图"))


async def test_a_catalogue_that_is_gone_means_an_empty_library(folder: Path) -> None:
    await open_library(folder).write([event(1, "灯塔")])
    (folder / "catalogue.json").unlink()
    library = open_library(folder)
    assert (await library.state()).status == "empty"
    await library.write([event(2, "地图")])
    assert (await library.state()).counts["turn"] == 1


async def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "event_library").write_text("a file stands in the way", encoding="utf-8")
    with pytest.raises(StorageError) as refused:
        await open_library(tmp_path / "event_library").write([event(1, "灯塔")])
    assert refused.value.code == "not_writable"


async def test_nothing_leaves_the_machine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("a connection was tried")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, forbidden)
    monkeypatch.setattr(socket, "getaddrinfo", forbidden)
    library = open_library(folder)
    await library.write([event(1, "灯塔的钥匙"), event(1, "the lighthouse key", kind="summary")])
    assert len(await library.search(looking("lighthouse 灯塔", "turn", "summary"))) == 2


async def test_half_characters_and_nul_are_stored_as_far_as_they_can_be(folder: Path) -> None:
    library = open_library(folder)
    await library.write([event(1, "灯塔\ud83d 的\x00钥匙 \U0001f511")])
    text = (await library.search(looking("灯塔")))[0].event.text
    assert text == "灯塔\ufffd 的\x00钥匙 \U0001f511"
    again = await open_library(folder).search(looking("钥匙"))
    assert again[0].event.text == text


async def test_an_answer_is_found_by_the_question_before_it(folder: Path) -> None:
    library = open_library(folder)
    await library.write([event(1, "你最喜欢的乐器是什么？"), event(2, "是大提琴。"), event(3, "下雨了。")])
    hits = await library.search(looking("喜欢的乐器"))
    assert [hit.event.index for hit in hits[:2]] == [1, 2]


async def test_a_day_is_a_word_of_its_turns(folder: Path) -> None:
    library = open_library(folder)
    days = ["2025-05-01", "2025-05-02", "2025-06-02"]
    for number, day in enumerate(days):
        stamp = f"{day}T10:00:00Z"
        await library.write([event(1, "我们出门了", session=f"sess_00{number}", timestamp=stamp)])
    for query in ("五月二号", "5月2日", "May 2nd", "2025-05-02"):
        assert (await library.search(looking(query)))[0].event.session_id == "sess_001", query


async def test_many_hidden_turns_do_not_hide_the_rest(folder: Path) -> None:
    library = open_library(folder)
    now = [event(n, f"灯塔 {n}", session="sess_002") for n in range(1, 520)]
    await library.write([event(1, "海边的房子有一座灯塔"), *now])
    hits = await library.search(replace(looking("灯塔"), skip_session="sess_002"))
    assert [hit.event.session_id for hit in hits] == ["sess_001"]


async def test_small_talk_is_never_sure_of_anything(folder: Path) -> None:
    library = open_library(folder)
    lines = ["你好，我是守灯人。", "好的，我们继续走。", "谢谢你，再见。", "Hello, let's go on.", "哈哈哈。"]
    story = [f"第{n}天，我们修好了第{n}盏灯，又去码头买了{n}斤鱼。" for n in range(1, 30)]
    kept = ["老船长把黄铜怀表埋在了礁石下面。"]
    await library.write([event(n, text) for n, text in enumerate([*lines, *story, *kept], start=1)])
    for line in ("你好", "继续", "好的", "Go on.", "谢谢你", "哈哈哈", "Hello!", "嗯"):
        assert all(hit.confidence < CONFIDENT for hit in await library.search(looking(line))), line
    sure = await library.search(looking("船长的黄铜怀表埋在哪块礁石下"))
    assert sure[0].confidence >= CONFIDENT
