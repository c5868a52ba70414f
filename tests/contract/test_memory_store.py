"""Conformance tests of memory stores: one suite for each database."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from personalab.errors import BadRecord, UserError
from personalab.memory.changes import MemoryRevision, Operation, revise, undo
from personalab.memory.records import Conversation, Memory, StoryPlace, new_id, read_request, saved_response
from personalab.ports import LearnedBefore
from personalab.retrieval.memory.store import DatabaseMemoryStore
from tests.support.retrieval.memories import (
    AGENT,
    IN_MEMORY,
    NOW,
    SESSION,
    USER,
    Concepts,
    learn,
    looking,
    open_at,
    said,
    said_in_story,
)

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
BACKENDS = ("embedded", "postgres", "in_memory")
between_processes = pytest.mark.parametrize("place", ["embedded", "postgres"], indirect=True)
OpenStore = Callable[..., DatabaseMemoryStore]


def make_place(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Give an empty place for memories: a folder, or a database's address."""
    if name == "embedded":
        return str(tmp_path / "memory")
    if name == "in_memory":
        return f"{IN_MEMORY}{tmp_path}"
    url = request.getfixturevalue("postgres_url")
    from tests.support.postgres import fresh_database

    return fresh_database(url)


@pytest.fixture(params=BACKENDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each database in turn."""
    return make_place(request.param, tmp_path, request)


@pytest.fixture
async def open_store(place: str) -> AsyncIterator[OpenStore]:
    """Open stores of one database, closed after the test."""
    opened: list[DatabaseMemoryStore] = []

    def open_one(embedder: Concepts | None = None) -> DatabaseMemoryStore:
        opened.append(open_at(place, embedder))
        return opened[-1]

    yield open_one
    for store in opened:
        await store.close()


@pytest.fixture
def store(open_store: OpenStore) -> DatabaseMemoryStore:
    """Open the test's store."""
    return open_store()


async def texts(store: DatabaseMemoryStore, query: str, limit: int = 10) -> list[str]:
    return [hit.entry.text for hit in await store.search(looking(query, limit=limit))]


async def known(store: DatabaseMemoryStore, agent: str = AGENT) -> Memory:
    memory = await store.memory(agent, USER)
    assert memory is not None
    return memory


# --- the source's shapes


async def test_a_memory_has_the_sources_fields_and_lists_of_strings(store: DatabaseMemoryStore) -> None:
    facts = ("用户是一名软件开发者", "擅长Python和JavaScript", "有5年工作经验")
    memory, _ = await learn(store, *facts)
    read = await known(store)
    assert read == memory
    fields = read.fields()
    assert list(fields) == [
        "memory_id",
        "agent_id",
        "user_id",
        "created_at",
        "updated_at",
        "profile_content",
        "event_content",
        "mind_content",
        "version",
    ]
    assert fields["profile_content"] == list(facts)
    assert fields["event_content"] == fields["mind_content"] == []
    assert uuid.UUID(fields["memory_id"])


async def test_a_conversation_comes_back_as_the_sources_object(store: DatabaseMemoryStore) -> None:
    result = {
        "modification_result": "LLM分析和信息提取的结果文本",
        "update_result": {
            "profile_updated": True,
            "raw_llm_response": "LLM原始回复内容",
            "metadata": {"stage": "llm_update", "llm_usage": {"total_tokens": 1500}},
        },
        "mind_result": {"insights": "心理分析结果文本", "confidence_score": 0.8},
        "pipeline_metadata": {"conversation_length": 2, "llm_model": "gpt-4o-mini", "profile_updated": True},
    }
    given: dict[str, Any] = {
        "conversation_id": new_id(),
        "agent_id": "agent_001",
        "user_id": "user_001",
        "session_id": SESSION,
        "created_at": "2024-01-01T10:00:00Z",
        "turn_count": 2,
        "memory_id": new_id(),
        "messages": [
            {
                "message_id": new_id(),
                "role": role,
                "content": content,
                "message_index": index,
                "created_at": f"2024-01-01T10:00:{index}0Z",
            }
            for index, (role, content) in enumerate(
                [("user", "你好，我想了解一下这个项目"), ("assistant", "您好！我很乐意为您介绍这个项目...")]
            )
        ],
        "pipeline_result": result,
    }
    await store.save_conversation(Conversation.read(given))
    kept = await store.conversation(given["conversation_id"])
    assert kept is not None
    assert kept.fields() == {
        **given,
        "summary": "Conversation with 2 turns: 你好，我想了解一下这个项目...",
    }
    memory = await store.memory("agent_001", "user_001")
    assert memory is not None
    assert memory.memory_id == given["memory_id"]


async def test_a_saved_request_is_answered_as_the_source_does(store: DatabaseMemoryStore) -> None:
    request = {
        "agent_id": "agent_001",
        "user_id": "user_001",
        "messages": [
            {"role": "user", "content": "用户消息内容"},
            {"role": "assistant", "content": "AI助手回复内容"},
        ],
        "session_id": SESSION,
    }
    saved = await store.save_conversation(read_request(request, NOW))
    assert saved_response(saved) == {
        "success": True,
        "message": "Conversation saved successfully",
        "conversation_id": saved.conversation_id,
        "session_id": SESSION,
        "created_at": NOW,
        "message_count": 2,
    }
    kept = await store.conversation(saved.conversation_id)
    assert kept == saved


@pytest.mark.parametrize(
    ("messages", "summary"),
    [
        (["你好" * 60, "嗯"], f"Conversation with 2 turns: {'你好' * 50}..."),
        ([], "Empty conversation"),
        (None, "Conversation with 1 turns: No user message..."),
    ],
)
async def test_a_summary_has_one_of_three_forms(
    store: DatabaseMemoryStore, messages: list[str] | None, summary: str
) -> None:
    conversation = said(*messages) if messages is not None else said("x", "y")
    if messages is None:
        conversation = replace(conversation, messages=(replace(conversation.messages[1], message_index=0),))
    saved = await store.save_conversation(conversation)
    kept = await store.conversation(saved.conversation_id)
    assert kept is not None
    assert kept.summary == summary


@pytest.mark.parametrize("name", ["agent_id", "user_id", "messages"])
async def test_a_missing_field_is_a_value_error_that_names_it(store: DatabaseMemoryStore, name: str) -> None:
    request = {"agent_id": "a", "user_id": "u", "messages": [{"role": "user", "content": "hi"}]}
    del request[name]
    with pytest.raises(ValueError, match=name):
        await store.save_conversation(read_request(request, NOW))
    assert await store.memories() == []


# --- saving


async def test_a_place_where_nothing_was_kept_knows_nothing(store: DatabaseMemoryStore) -> None:
    assert await store.memory(AGENT, USER) is None
    assert await store.memories() == []
    assert await store.conversation(new_id()) is None
    assert await store.conversations(AGENT, USER) == []
    assert await store.changes(AGENT, USER) == []
    assert await store.learned(AGENT, USER, SESSION) == 0
    assert await store.forget(AGENT, USER) is False
    assert await store.search(looking("anything")) == []
    assert await store.search_conversations("anything", AGENT, USER) == []


async def test_fifty_savers_of_a_new_pair_begin_one_memory(store: DatabaseMemoryStore) -> None:
    saving = [store.save_conversation(said(f"conversation {number}")) for number in range(50)]
    saved = await asyncio.gather(*saving)
    assert len({conversation.memory_id for conversation in saved}) == 1
    names = await store.memories()
    assert [(name.conversations, name.entries) for name in names] == [(50, 0)]


@between_processes
async def test_several_processes_that_save_a_new_pair_begin_one_memory(
    store: DatabaseMemoryStore, place: str
) -> None:
    command = [sys.executable, "-m", "tests.contract.memory_process", place, "save", "10"]
    started = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)
    ]
    for process in started:
        _, errors = await asyncio.to_thread(process.communicate, timeout=120)
        assert process.returncode == 0, errors.decode()
    assert [name.conversations for name in await store.memories()] == [40]


async def test_the_same_conversation_twice_changes_nothing(store: DatabaseMemoryStore) -> None:
    first = await store.save_conversation(said("hello", "hi", session=SESSION))
    again = await store.save_conversation(said("hello", "hi", session=SESSION))
    assert again == first
    assert len(await store.conversations(AGENT, USER)) == 1
    other = await store.save_conversation(said("hello", "hi", session=new_id()))
    assert other.conversation_id != first.conversation_id
    unnamed = [await store.save_conversation(said("hello", "hi")) for _ in range(2)]
    assert unnamed[0] == unnamed[1]
    assert len(await store.conversations(AGENT, USER)) == 3


async def test_an_id_that_is_saved_stays_what_it_was_and_is_no_one_elses(store: DatabaseMemoryStore) -> None:
    first = await store.save_conversation(said("the first words"))
    other = replace(said("quite other words"), conversation_id=first.conversation_id)
    assert await store.save_conversation(other) == first
    stranger = replace(said("mine", agent="someone else"), conversation_id=first.conversation_id)
    with pytest.raises(UserError):
        await store.save_conversation(stranger)
    assert await store.memory("someone else", USER) is None


async def test_a_memory_id_that_is_another_pairs_is_refused(store: DatabaseMemoryStore) -> None:
    first = await store.save_conversation(said("hello"))
    stranger = replace(said("hello", agent="someone else"), memory_id=first.memory_id)
    with pytest.raises(UserError) as refused:
        await store.save_conversation(stranger)
    assert refused.value.code == "memory_id_taken"
    await store.save_conversation(said("good day", agent="someone else"))
    with pytest.raises(UserError):
        await store.save_conversation(stranger)
    own = replace(said("again"), memory_id=first.memory_id)
    assert (await store.save_conversation(own)).memory_id == first.memory_id


async def test_conversations_are_listed_newest_first_and_page_by_page(store: DatabaseMemoryStore) -> None:
    saved = [
        await store.save_conversation(said(f"number {at}", at=f"2025-10-16T10:0{at}:00Z")) for at in (0, 1, 2)
    ]
    newest = [found.conversation_id for found in reversed(saved)]
    listed = await store.conversations(AGENT, USER)
    assert [found.conversation_id for found in listed] == newest
    page = await store.conversations(AGENT, USER, limit=1, before=newest[0])
    assert [found.conversation_id for found in page] == newest[1:2]
    assert await store.conversations(AGENT, USER, before=newest[-1]) == []
    assert await store.conversations(AGENT, USER, before=new_id()) == []


async def test_memories_are_listed_page_by_page(store: DatabaseMemoryStore) -> None:
    for number in range(5):
        await store.save_conversation(said("hello", agent=f"agent {number}"))
    everyone = await store.memories()
    assert [name.memory_id for name in everyone] == sorted(name.memory_id for name in everyone)
    first = await store.memories(limit=2)
    rest = await store.memories(limit=10, after=first[-1].memory_id)
    assert [*first, *rest] == everyone


async def test_ids_may_have_any_printable_characters(store: DatabaseMemoryStore) -> None:
    agent, user = "агент 'x\"; DROP TABLE memories;-- %_🦊\\", "玩家/..?#[]{}"
    conversation = await store.save_conversation(said("猫 and %_ and '", agent=agent, user=user))
    memory = await store.memory(agent, user)
    assert memory is not None
    assert (memory.agent_id, memory.user_id) == (agent, user)
    hits = await store.search_conversations("猫", agent, user)
    assert [hit.conversation.conversation_id for hit in hits] == [conversation.conversation_id]
    for name in ("", "  ", "a\nb", "a\x00b", "\ud800"):
        with pytest.raises(BadRecord):
            said("hello", agent=name)


@pytest.mark.parametrize(
    "text",
    [
        "null \x00 byte",
        "half a pair \ud83d and \udc00",
        "emoji 👩‍👩‍👧‍👦 and \u202eright to left",
        "quotes ' \" ` ; -- /* */ % _ \\ {} [] $1 ?1 :x",
        "long " * 40_000,
        "\ufeff\u2028\u2029\x7f\x1b[31m",
    ],
    ids=["nul", "surrogates", "emoji", "quotes", "long", "controls"],
)
async def test_hostile_texts_are_kept_and_found(store: DatabaseMemoryStore, text: str) -> None:
    conversation = said(text, "lighthouse", "lighthouse again")
    if text.startswith("long"):
        conversation = said(*[text] * 5, "lighthouse")
    saved = await store.save_conversation(conversation)
    assert await store.conversation(saved.conversation_id) == saved
    result = {"modification_result": text, text[:50]: [text]}
    assert await store.commit(
        revise(await known(store), [], NOW, origin="edit"),
        conversation_id=saved.conversation_id,
        result=result,
    )
    assert (await store.conversation(saved.conversation_id)) is not None
    hits = await store.search_conversations(f"lighthouse {text[:2000]}", AGENT, USER)
    assert [hit.conversation.conversation_id for hit in hits] == [saved.conversation_id]
    await store.search(looking(text[:2000]))


# --- changing


async def test_a_change_is_kept_only_by_whom_the_memory_still_stands(store: DatabaseMemoryStore) -> None:
    await store.save_conversation(said("hello"))
    memory = await known(store)
    mine = revise(memory, [Operation("add", "profile", "likes tea")], NOW, origin="edit")
    theirs = revise(memory, [Operation("add", "profile", "likes coffee")], NOW, origin="edit")
    assert await store.commit(mine)
    assert not await store.commit(theirs)
    assert (await known(store)).texts("profile") == ["likes tea"]
    assert len(await store.changes(AGENT, USER)) == 1


async def test_of_many_changes_at_once_one_is_kept(store: DatabaseMemoryStore) -> None:
    await store.save_conversation(said("hello"))
    memory = await known(store)
    wishes = [
        revise(memory, [Operation("add", "mind", f"thought {number}")], NOW, origin="edit")
        for number in range(8)
    ]
    kept = await asyncio.gather(*(store.commit(wish) for wish in wishes))
    assert sum(kept) == 1
    assert (await known(store)) == wishes[kept.index(True)].memory


async def test_a_change_and_its_result_are_kept_together(store: DatabaseMemoryStore) -> None:
    saved = await store.save_conversation(said("I like tea"))
    memory = await known(store)
    operation = Operation("add", "profile", "likes tea", messages=(0,))
    revised = revise(memory, [operation], NOW, origin="memorize", conversation_id=saved.conversation_id)
    result = {"modification_result": "说了茶", "pipeline_metadata": {"profile_updated": True}}
    assert await store.commit(revised, conversation_id=saved.conversation_id, result=result)
    kept = await store.conversation(saved.conversation_id)
    assert kept is not None
    assert kept.pipeline_result == result
    failed = {"error": {"stage": "modify"}, "pipeline_metadata": {}}
    later = {"modification_result": "said again", "pipeline_metadata": {"profile_updated": False}}
    place = saved.conversation_id
    with pytest.raises(LearnedBefore):
        await store.commit(revised_again(await known(store)), conversation_id=place, result=later)
    with pytest.raises(LearnedBefore):
        await store.commit(
            revised_again(await known(store)), conversation_id=place, result=failed, again=True
        )
    assert not await store.commit(revised_again(memory), conversation_id=place, result=later, again=True)
    kept = await store.conversation(place)
    assert kept is not None
    assert kept.pipeline_result == result
    nothing = revise(await known(store), [], NOW, origin="memorize")
    assert await store.commit(nothing, conversation_id=place, result=later, again=True)
    kept = await store.conversation(place)
    assert kept is not None
    assert kept.pipeline_result == later
    assert (await known(store)).version == 1


async def test_a_storys_conversation_waits_until_it_was_learned_from(store: DatabaseMemoryStore) -> None:
    place = StoryPlace("inst_001", "sess_001", 1, 1)
    first = await store.save_conversation(replace(said("one"), story=place))
    second = await store.save_conversation(
        replace(said("two"), story=replace(place, first_turn=2, last_turn=2))
    )
    await store.save_conversation(said("without a story"))
    nothing = revise(await known(store), [], NOW, origin="memorize")
    failed = {"error": {"stage": "modify"}, "pipeline_metadata": {}}
    assert await store.commit(nothing, conversation_id=first.conversation_id, result=failed)
    pair = (first.agent_id, first.user_id)
    names = [found.conversation_id for found in await store.waiting(*pair, "inst_001")]
    assert names == [first.conversation_id, second.conversation_id]
    assert await store.waiting(*pair, "inst_002") == []
    done = {"pipeline_metadata": {"profile_updated": False}}
    assert await store.commit(nothing, conversation_id=first.conversation_id, result=done)
    names = [found.conversation_id for found in await store.waiting(*pair, "inst_001")]
    assert names == [second.conversation_id]


async def test_the_newest_of_each_list_can_be_read_alone(store: DatabaseMemoryStore) -> None:
    memory, _ = await learn(store, *(f"fact {number}" for number in range(9)))
    brief = await store.memory(memory.agent_id, memory.user_id, newest=3)
    assert brief is not None
    assert brief.texts("profile") == ["fact 6", "fact 7", "fact 8"]
    assert (brief.memory_id, brief.version) == (memory.memory_id, memory.version)
    assert await store.memory(memory.agent_id, "nobody", newest=3) is None


def revised_again(memory: Memory) -> MemoryRevision:
    """Change a memory that is another by now."""
    return revise(memory, [Operation("add", "profile", "likes cake")], NOW, origin="edit")


async def test_a_replaced_fact_stays_in_the_history_and_can_be_brought_back(
    store: DatabaseMemoryStore,
) -> None:
    memory, conversation = await learn(store, "lives in Berlin", "plays the guitar")
    [berlin, guitar] = memory.of("profile")
    operations = [
        Operation("replace", "profile", "lives in Oslo", berlin.content_id, "moved", (0,)),
        Operation("remove", "profile", content_id=guitar.content_id),
    ]
    told = {"conversation_id": conversation.conversation_id}
    revised = revise(memory, operations, NOW, origin="memorize", **told)
    assert await store.commit(revised)
    assert await known(store) == revised.memory
    newest, oldest = await store.changes(AGENT, USER)
    assert newest == revised.change
    assert [step.before and step.before.text for step in newest.steps] == [
        "lives in Berlin",
        "plays the guitar",
    ]
    assert oldest.version == 1
    assert await texts(store, "guitar") == []
    back = undo(await known(store), newest, NOW)
    assert await store.commit(back)
    assert (await known(store)).texts("profile") == ["lives in Berlin", "plays the guitar"]
    assert await texts(store, "Berlin") == ["lives in Berlin"]
    assert "plays the guitar" in await texts(store, "吉他")
    assert [change.origin for change in await store.changes(AGENT, USER, limit=1)] == ["undo"]


async def test_forgetting_leaves_nothing_but_how_far_a_story_was_saved(store: DatabaseMemoryStore) -> None:
    memory, conversation = await learn(store, "has a cat")
    await store.save_conversation(said_in_story(7, "go on", "yes"))
    assert await texts(store, "feline") == ["has a cat"]
    assert await store.forget(AGENT, USER)
    assert await store.memory(AGENT, USER) is None
    assert await store.conversation(conversation.conversation_id) is None
    assert await store.changes(AGENT, USER) == []
    assert await texts(store, "cat") == []
    assert await store.learned(AGENT, USER, SESSION) == 7
    assert not await store.forget(AGENT, USER)
    await store.save_conversation(replace(said("a dog"), memory_id=memory.memory_id))
    assert (await known(store)).entries == ()
    assert await texts(store, "cat feline") == []


async def test_a_story_is_saved_up_to_its_last_turn(store: DatabaseMemoryStore) -> None:
    await store.save_conversation(said_in_story(4, "a", "b"))
    await store.save_conversation(said_in_story(2, "c", "d"))
    assert await store.learned(AGENT, USER, SESSION) == 4
    await store.save_conversation(said_in_story(9, "a", "b"))
    assert await store.learned(AGENT, USER, SESSION) == 9
    assert await store.learned(AGENT, USER, new_id()) == 0
    [*_, first] = await store.conversations(AGENT, USER)
    assert first.story is not None
    assert first.story.last_turn == 4


# --- finding


async def test_entries_are_found_by_words_and_by_meaning(store: DatabaseMemoryStore) -> None:
    _, conversation = await learn(store, "the user keeps a kitten", "grew up by the ocean", "likes tea")
    [hit] = await store.search(looking("likes tea with milk"))
    assert hit.entry.text == "likes tea"
    assert hit.fields()["conversation_id"] == conversation.conversation_id
    assert hit.fields()["messages"] == [2]
    assert hit.fields()["content_type"] == "profile"
    assert hit.score > 0
    assert 0 <= hit.confidence <= 1
    assert await texts(store, "猫") == ["the user keeps a kitten"]
    assert (await texts(store, "海 waves"))[0] == "grew up by the ocean"
    assert await texts(store, "  ") == []
    assert await texts(store, "kitten", limit=0) == []


async def test_what_is_found_is_the_pairs_own_and_of_the_types_asked_for(store: DatabaseMemoryStore) -> None:
    await learn(store, "has a cat named Tom")
    await learn(store, "fed a cat on Sunday", kind="event")
    await learn(store, "seems to love every cat", kind="mind")
    await learn(store, "cat of another agent", agent="someone else")
    everything = {hit.entry.content_type for hit in await store.search(looking("cat"))}
    assert everything == {"profile", "event", "mind"}
    for kind in ("profile", "event", "mind"):
        assert {hit.entry.content_type for hit in await store.search(looking("cat", kind))} == {kind}
    both = await store.search(looking("feline", "event", "mind"))
    assert {hit.entry.content_type for hit in both} == {"event", "mind"}
    other = await store.search(looking("cat", agent="someone else"))
    assert [hit.entry.text for hit in other] == ["cat of another agent"]


async def test_few_of_one_type_are_found_among_many_of_another(store: DatabaseMemoryStore) -> None:
    await learn(store, *(f"met cat number {number}" for number in range(600)), kind="event")
    await learn(store, "owns a cat", "sings a song")
    assert [hit.entry.text for hit in await store.search(looking("cat", "profile"))] == ["owns a cat"]
    assert (await texts_of(store, "feline", "profile"))[0] == "owns a cat"
    assert (await texts_of(store, "吉他", "profile"))[0] == "sings a song"


async def texts_of(store: DatabaseMemoryStore, query: str, kind: str) -> list[str]:
    """Find texts of one type."""
    hits = await store.search(looking(query, kind))  # pyright: ignore[reportArgumentType] (a type's name)
    return [hit.entry.text for hit in hits]


async def test_equally_good_hits_stand_in_the_memorys_order(store: DatabaseMemoryStore) -> None:
    facts = [f"cat {word}" for word in ("aa", "bb", "cc", "dd", "ee", "ff")]
    memory, _ = await learn(store, *facts)
    assert await texts(store, "cat") == facts
    assert await texts(store, "feline", limit=3) == facts[:3]
    revised = revise(
        memory,
        [Operation("remove", "profile", content_id=memory.of("profile")[2].content_id)],
        NOW,
        origin="edit",
    )
    assert await store.commit(revised)
    del facts[2]
    assert await texts(store, "cat") == facts


async def test_what_changes_is_found_as_it_is_now(store: DatabaseMemoryStore) -> None:
    memory, _ = await learn(store, "has a cat", "likes tea")
    assert await texts(store, "feline") == ["has a cat"]
    cat = memory.of("profile")[0]
    revised = revise(
        memory, [Operation("replace", "profile", "has a guitar", cat.content_id)], NOW, origin="edit"
    )
    assert await store.commit(revised)
    assert await texts(store, "feline") == []
    assert await texts(store, "song") == ["has a guitar"]
    await learn(store, "sails the sea")
    assert await texts(store, "ocean") == ["sails the sea"]


async def test_conversations_are_found_by_words_and_by_meaning(store: DatabaseMemoryStore) -> None:
    cats = await store.save_conversation(said("my kitten is ill", "poor thing"))
    sea = await store.save_conversation(said("we go to the ocean", "take a towel"))
    await store.save_conversation(said("the kitten of a stranger", agent="someone else"))
    found = await store.search_conversations("towel", AGENT, USER)
    assert [hit.conversation for hit in found] == [sea]
    found = await store.search_conversations("猫", AGENT, USER)
    assert [hit.conversation for hit in found] == [cats]
    assert found[0].fields()["summary"] == "Conversation with 2 turns: my kitten is ill..."
    assert found[0].score > 0
    assert len(await store.search_conversations("kitten ocean", AGENT, USER, limit=1)) == 1


async def test_an_embedder_of_another_dimension_makes_everything_findable_anew(open_store: OpenStore) -> None:
    first = Concepts(4)
    store = open_store(first)
    await learn(store, "has a cat", "likes tea")
    assert await texts(store, "feline") == ["has a cat"]
    await store.close()
    second = Concepts(7)
    store = open_store(second)
    assert await texts(store, "feline") == ["has a cat"]
    assert sorted(second.asked) == ["has a cat", "likes tea"]
    assert await texts(store, "feline") == ["has a cat"]
    assert len(second.asked) == 2


async def test_a_text_is_embedded_once(open_store: OpenStore) -> None:
    embedder = Concepts()
    store = open_store(embedder)
    memory, conversation = await learn(store, "has a cat", "likes tea")
    for _ in range(2):
        await texts(store, "feline")
        await store.search_conversations("feline", AGENT, USER)
    cited = [Operation("add", "profile", "has a cat!", messages=(1,))]
    told = {"conversation_id": conversation.conversation_id}
    assert await store.commit(revise(memory, cited, NOW, origin="memorize", **told))
    assert await texts(store, "feline") == ["has a cat"]
    assert sorted(embedder.asked) == ["has a cat", "has a cat\nlikes tea", "likes tea"]


@pytest.mark.parametrize("embedder", [Concepts(fails=True), Concepts(wrong=3)], ids=["fails", "wrong"])
async def test_an_embedder_that_fails_leaves_the_search_by_words(
    open_store: OpenStore, embedder: Concepts, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(embedder)
    await learn(store, "has a cat", "likes tea")
    with caplog.at_level(logging.WARNING, "personalab.memory"):
        assert await texts(store, "tea") == ["likes tea"]
    assert caplog.records
    await store.close()
    assert await texts(open_store(), "feline") == ["has a cat"]


async def test_reindexing_embeds_everything_again(open_store: OpenStore) -> None:
    embedder = Concepts()
    store = open_store(embedder)
    await learn(store, "has a cat", "likes tea")
    await learn(store, "plays the guitar", agent="someone else")
    assert await texts(store, "feline") == ["has a cat"]
    embedder.asked.clear()
    told: list[tuple[int, int]] = []
    assert await store.reindex(lambda done, total: told.append((done, total))) == 5
    assert told[0] == (0, 5)
    assert told[-1] == (5, 5)
    assert len(embedder.asked) == 5
    assert await texts(store, "feline") == ["has a cat"]
    assert len(embedder.asked) == 5


@between_processes
async def test_two_processes_see_what_each_other_writes(store: DatabaseMemoryStore, place: str) -> None:
    async def other(*arguments: str) -> list[str]:
        command = [sys.executable, "-m", "tests.contract.memory_process", place, *arguments]
        done = await asyncio.to_thread(
            subprocess.run, command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    await learn(store, "has a cat")
    assert await texts(store, "feline") == ["has a cat"]
    await other("learn", "sails the sea")
    assert await texts(store, "海") == ["sails the sea"]
    await learn(store, "plays the guitar")
    assert await other("find", "吉他") == ["plays the guitar"]
    await other("learn", "writes python")
    assert await texts(store, "软件") == ["writes python"]
    assert await texts(store, "feline") == ["has a cat"]


@between_processes
async def test_processes_that_learn_and_search_at_once_lose_nothing(
    store: DatabaseMemoryStore, place: str
) -> None:
    command = [sys.executable, "-m", "tests.contract.memory_process", place, "mix"]
    started = [
        subprocess.Popen(
            [*command, name, "6"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for name in ("Ann", "Bob", "Cyd")
    ]
    for process in started:
        _, errors = await asyncio.to_thread(process.communicate, timeout=240)
        assert process.returncode == 0, errors
        assert not errors, errors
    assert (await known(store)).version == 18
    assert len(await texts(store, "feline", limit=50)) == 18


async def test_the_memory_is_plain_json(store: DatabaseMemoryStore) -> None:
    await learn(store, "has a cat")
    [change] = await store.changes(AGENT, USER)
    for fields in ((await known(store)).fields(), change.fields()):
        assert json.loads(json.dumps(fields)) == fields
