"""Chats and archives become stories: of the right character, never over another story, found by who looks them up."""

from __future__ import annotations

import asyncio
import json
import resource
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from personalab.errors import StorageError
from personalab.operations.exporting import export_entry
from personalab.operations.import_stories import StoryImports, import_archive
from personalab.operations.importing import import_content, import_files
from personalab.operations.imports import ImportFile, ImportOptions, ImportReport
from personalab.operations.recall import look_up
from personalab.services import Services, open_services
from personalab.storage.veloca import VelocaStore
from personalab.story.recall import RecallQuery
from personalab.story.records import Character
from tests.support.archive import making
from tests.support.graph.turns import lines, say, snapshot

pytestmark = pytest.mark.anyio


def chat(*said: str, character: str = "Maren", **header: Any) -> bytes:
    """Make a chat that the character begins."""
    rows: list[dict[str, Any]] = [
        {"user_name": "You", "character_name": character, "chat_metadata": {}, **header}
    ]
    for place, text in enumerate(said):
        is_user = place % 2 == 1
        when = f"2024-03-0{place + 1}T10:00:00.000Z"
        rows.append(
            {"name": "You" if is_user else character, "is_user": is_user, "mes": text, "send_date": when}
        )
    return b"".join(making.json_bytes(row) + b"\n" for row in rows)


CHAT = chat("Who is there?", "A friend.", "Then come in out of the rain.")


def uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


def veloca(*conversations: list[tuple[str, str]]) -> bytes:
    """Make a Veloca file of another program."""
    sessions: list[dict[str, Any]] = []
    entries: list[dict[str, Any]] = []
    for number, said in enumerate(conversations, start=1):
        begun = f"2024-01-0{number}T00:00:00.000Z"
        sessions.append(
            {"session_id": uuid(number), "name": f"talk {number}", "status": 0, "create_at": begun}
        )
        for role, text in said:
            entries.append(
                {
                    "entry_id": uuid(1000 + len(entries)),
                    "session_id": uuid(number),
                    "message": text,
                    "role": role,
                    "token_consumption": 5,
                    "status": 0,
                    "tools": None,
                    "create_at": begun,
                    "is_compaction": 1,
                }
            )
    return making.json_bytes({"sessions": sessions, "entries": entries, "compacted_dialogues": []})


TALKS = veloca(
    [("user", "Hello"), ("assistant", "Good evening.")], [("user", "灯塔在哪里"), ("assistant", "在北边。")]
)


def outcomes(report: ImportReport) -> list[tuple[str, str]]:
    assert {entry.kind for entry in report.imported} <= {"instance"}
    return [(entry.entry_id, entry.outcome) for entry in report.imported]


def codes(report: ImportReport) -> list[str]:
    return [skipped.error.code for skipped in report.skipped]


def told(report: ImportReport) -> list[str]:
    return [told.code for entry in report.imported for told in entry.notes]


# --- chats


async def test_a_chat_becomes_a_story_of_the_character_who_has_the_name(services: Services) -> None:
    report = await import_content(services, "chat.jsonl", CHAT.replace(b"Maren", b"mArEN"))
    assert outcomes(report) == [("inst_001", "new")]
    assert told(report) == []
    state = services.stories.instance("inst_001")
    assert (state.character_id, state.background_id) == ("char_maren", None)
    assert state.created_at == "2024-03-01T10:00:00Z"
    maren = services.stories.character("char_maren")
    assert services.stories.character_state("inst_001").base_persona == maren.base_persona
    rows = lines(services)
    assert rows[0]["instance_id"] == "inst_001"
    assert [(row["role"], row["turn"], row["content"]) for row in rows[1:]] == [
        ("assistant", 0, "Who is there?"),
        ("user", 1, "A friend."),
        ("assistant", 1, "Then come in out of the rain."),
    ]


async def test_a_story_that_came_in_goes_on(services: Services, answer_with: Any) -> None:
    await import_content(services, "chat.jsonl", CHAT)
    model = answer_with("It is warm here.")
    _, result = await say(services, "Thank you.")
    assert (result["status"], result["turn"]) == ("done", 2)
    asked = json.dumps(model.calls[-1], ensure_ascii=False)
    assert "Who is there?" in asked
    assert "come in out of the rain" in asked


async def test_a_chat_with_nobody_known_brings_a_character_and_says_so(services: Services) -> None:
    report = await import_content(services, "chat.jsonl", chat("Hello.", character="Nora Ray"))
    assert told(report) == ["character_made"]
    assert services.stories.character("nora_ray").name == "Nora Ray"
    assert services.stories.instance("inst_001").character_id == "nora_ray"
    again = await import_content(services, "other.jsonl", chat("Good day.", character="Nora Ray"))
    assert told(again) == []
    assert services.stories.instance("inst_002").character_id == "nora_ray"
    nameless = await import_content(services, "My friend.jsonl", making.json_bytes({"mes": "Hi"}))
    assert services.stories.character("my_friend").name == "My friend"
    assert outcomes(nameless) == [("inst_003", "new")]


async def test_whose_chat_it_is_can_be_said(services: Services) -> None:
    options = ImportOptions(character="char_alserqi", new_id="old_days")
    report = await import_content(services, "chat.jsonl", CHAT, options)
    assert outcomes(report) == [("old_days", "new")]
    assert services.stories.instance("old_days").character_id == "char_alserqi"
    other = await import_content(services, "chat.jsonl", chat("Other"), options)
    assert codes(other) == ["instance_exists"]


async def test_the_same_chat_again_is_known_even_when_it_was_played_on(
    services: Services, root: Path, answer_with: Any
) -> None:
    await import_content(services, "chat.jsonl", CHAT)
    answer_with("It is warm here.")
    await say(services, "Thank you.")
    before = snapshot(root / "instances")
    report = await import_content(services, "renamed.jsonl", CHAT)
    assert outcomes(report) == [("inst_001", "same")]
    assert snapshot(root / "instances") == before
    other = await import_content(services, "chat.jsonl", CHAT, ImportOptions(character="char_alserqi"))
    assert outcomes(other) == [("inst_002", "new")]


async def test_cards_come_before_chats_so_that_these_find_them(services: Services, tmp_path: Path) -> None:
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "1 chat.jsonl").write_bytes(chat("You are awake.", character="Seraphina"))
    (tmp_path / "box" / "2 card.png").write_bytes(making.card_png(making.v2_card()))
    report = await import_files(services, [tmp_path / "box"])
    assert [(entry.kind, entry.entry_id) for entry in report.imported] == [
        ("instance", "inst_001"),
        ("character", "seraphina"),
    ]
    assert services.stories.instance("inst_001").character_id == "seraphina"


@pytest.mark.parametrize(
    "content",
    [CHAT + b"{broken\n", CHAT + b'{"mes": 7}\n', CHAT + b"[]\n"],
    ids=["no JSON", "no text", "no object"],
)
async def test_a_chat_with_a_bad_line_leaves_nothing_and_names_the_line(
    services: Services, root: Path, content: bytes
) -> None:
    before = snapshot(root)
    report = await import_content(services, "chat.jsonl", content.replace(b"Maren", b"Nobody"))
    [skipped] = report.skipped
    assert "5" in skipped.error.message("zh")
    assert snapshot(root) == before


async def test_a_story_that_cannot_be_written_takes_its_new_character_back(
    services: Services, root: Path
) -> None:
    (root / "instances").write_bytes(b"not a folder")
    before = snapshot(root)
    report = await import_content(services, "chat.jsonl", chat("Hello.", character="Nora"))
    assert codes(report) == ["not_writable"]
    assert snapshot(root) == before
    assert not (root / "characters" / "nora").exists()


async def test_what_came_in_can_be_recalled(services: Services) -> None:
    report = await import_content(services, "chat.jsonl", CHAT)
    assert report.not_indexed is None
    found = await services.library.search(RecallQuery("out of the rain", ("turn",), 5, "inst_001"))
    assert found[0].event.first_turn == 1
    assert await look_up(services, "inst_001", "rain", "turns")


async def test_a_library_that_cannot_be_written_is_told_and_undoes_nothing(
    services: Services, root: Path
) -> None:
    (root / "event_library").write_bytes(b"not a folder")
    report = await import_content(services, "chat.jsonl", CHAT)
    assert outcomes(report) == [("inst_001", "new")]
    assert report.not_indexed is not None
    assert report.fields("en")["not_indexed"]


# --- archives of another program


async def test_each_conversation_of_an_archive_becomes_a_story(services: Services) -> None:
    report = await import_content(services, "v.json", TALKS, ImportOptions(character="char_maren"))
    assert outcomes(report) == [("inst_001", "new"), ("inst_002", "new")]
    assert [row["content"] for row in lines(services, "inst_002")[1:]] == ["灯塔在哪里", "在北边。"]
    again = await import_content(services, "v.json", TALKS, ImportOptions(character="char_maren"))
    assert outcomes(again) == [("inst_001", "same"), ("inst_002", "same")]


async def test_an_archive_that_does_not_say_with_whom_asks_for_it(services: Services, root: Path) -> None:
    before = snapshot(root)
    report = await import_content(services, "v.json", TALKS)
    assert codes(report) == ["character_needed"]
    assert "--character" in str(report.skipped[0].error)
    many = await import_content(
        services, "v.json", TALKS, ImportOptions(character="char_maren", new_id="one")
    )
    assert codes(many) == ["id_for_many"]
    empty = await import_content(services, "v.json", veloca(), ImportOptions(character="char_maren"))
    assert codes(empty) == ["nothing_in_archive"]
    assert snapshot(root) == before


async def test_an_archive_comes_in_whole_or_not_at_all(services: Services, root: Path) -> None:
    broken = json.loads(TALKS)
    broken["entries"][-1]["role"] = "king"
    before = snapshot(root)
    report = await import_content(
        services, "v.json", making.json_bytes(broken), ImportOptions(character="char_maren")
    )
    assert len(report.skipped) == 1
    assert report.imported == []
    assert snapshot(root) == before


async def test_an_archive_in_use_comes_in_with_what_is_not_folded_in_yet(
    services: Services, tmp_path: Path
) -> None:
    path = tmp_path / "box" / "veloca-storage.json"
    path.parent.mkdir()
    with VelocaStore(path) as store:
        store.create_session("talk")
    with VelocaStore(path) as store:
        session = store.sessions()[0].session_id
        store.create_entry(session, "user", "Are you there?")
        report = await import_files(services, [path.parent], ImportOptions(character="char_maren"))
    assert outcomes(report) == [("inst_001", "new")]
    assert report.skipped == []
    assert [row["content"] for row in lines(services)[1:]] == ["Are you there?"]


# --- stories of ours


async def taken_out(services: Services, instance_id: str) -> dict[str, Any]:
    exported = await export_entry(services, instance_id)
    return json.loads(b"".join(exported.chunks))


async def test_a_story_comes_back_beside_the_one_that_went_on(
    services: Services, instance: str, answer_with: Any
) -> None:
    doc = making.json_bytes(await taken_out(services, instance))
    assert outcomes(await import_content(services, "s.json", doc)) == [(instance, "same")]
    answer_with("嗯。")
    await say(services, "走吧")
    report = await import_content(services, "s.json", doc)
    assert outcomes(report) == [("inst_001_2", "new")]
    assert told(report) == ["id_changed"]
    assert len(lines(services, "inst_001_2")) == 1
    assert lines(services, "inst_001_2")[0]["instance_id"] == "inst_001_2"
    assert len(lines(services, instance)) == 3
    assert outcomes(await import_content(services, "s.json", doc)) == [("inst_001_2", "same")]
    wished = await import_content(services, "s.json", doc, ImportOptions(new_id="mine"))
    assert outcomes(wished) == [("mine", "new")]
    taken = await import_content(services, "s.json", doc, ImportOptions(new_id=instance))
    assert codes(taken) == ["instance_exists"]


async def test_a_story_brings_those_it_is_played_with_and_leaves_others_alone(
    services: Services, root: Path, instance: str
) -> None:
    book = making.json_bytes(making.character_book())
    await import_content(services, "b.json", book, ImportOptions(into="bg_wasteland"))
    doc = await taken_out(services, instance)
    for kind, entry_id in (("character", "fresh_char"), ("background", "fresh_bg")):
        doc["personalab"][kind]["id"] = entry_id
        doc["personalab"]["instance"][f"{kind}_id"] = entry_id
    report = await import_content(services, "s.json", making.json_bytes(doc), ImportOptions(new_id="one"))
    assert sorted(told(report)) == ["background_brought", "character_brought", "id_changed"]
    assert services.stories.character("fresh_char").base_persona
    assert json.loads((root / "backgrounds" / "fresh_bg" / "lorebook.json").read_bytes())["entries"]
    known = await import_content(services, "s.json", making.json_bytes(doc), ImportOptions(new_id="two"))
    assert told(known) == ["id_changed"]
    before = snapshot(root / "characters") | snapshot(root / "backgrounds")
    doc["personalab"]["character"]["definition"]["base_persona"] = "Somebody else."
    doc["personalab"]["background"]["beside"] = {}
    kept = await import_content(services, "s.json", making.json_bytes(doc), ImportOptions(new_id="three"))
    assert sorted(told(kept)) == ["background_kept", "character_kept", "id_changed"]
    assert snapshot(root / "characters") | snapshot(root / "backgrounds") == before


@pytest.mark.parametrize(
    "change",
    [
        {"character": {"id": "../evil", "definition": {}}},
        {"character": {"id": "evil", "definition": {"name": 7}}},
        {
            "character": {
                "id": "evil",
                "definition": {"base_persona": "x"},
                "beside": {"lorebook.json": {"entries": 3}},
            }
        },
        {
            "character": {
                "id": "evil",
                "definition": {"base_persona": "x"},
                "beside": {"card.json": {"data": 3}},
            }
        },
        {"documents": {"../../x.json": {}}},
        {"instance": {}},
    ],
    ids=["id", "definition", "lorebook", "card", "path", "state"],
)
async def test_a_story_that_was_tampered_with_is_refused_and_leaves_nothing(
    services: Services, root: Path, instance: str, change: dict[str, Any]
) -> None:
    doc = await taken_out(services, instance)
    doc["personalab"].update(change)
    before = snapshot(root)
    report = await import_content(services, "s.json", making.json_bytes(doc), ImportOptions(new_id="fresh"))
    assert len(report.skipped) == 1
    assert report.skipped[0].error.message("zh")
    assert snapshot(root) == before
    assert not (root / "characters" / "evil").exists()


# --- others who bring the same, and what breaks off


async def test_those_who_bring_the_same_chats_at_once_bring_each_once(
    services: Services, root: Path, tmp_path: Path
) -> None:
    for number in range(6):
        path = tmp_path / "chats" / f"{number}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(chat(f"Hello {number}", character=f"Someone {number % 3}"))
    others = [open_services(services.settings) for _ in range(3)]
    await asyncio.gather(*(import_files(each, [tmp_path / "chats"]) for each in others))
    assert len(list((root / "instances").iterdir())) == 6
    assert len([name for name in services.stories.names("characters") if name.startswith("someone")]) == 3


async def test_what_another_one_brought_meanwhile_is_known_at_the_next_file(services: Services) -> None:
    stories = StoryImports(services.stories, ImportOptions(), services.now)
    stories.look()
    await import_content(services, "a.jsonl", CHAT)
    stories.look()
    assert len(stories.brought) == 1


def test_an_archive_that_broke_off_is_not_taken_for_brought(services: Services, root: Path) -> None:
    said = [("user", "Hello"), ("assistant", "Good evening.")]
    stories = StoryImports(services.stories, ImportOptions(character="char_maren"), services.now)
    both = BytesIO(veloca(said, [("user", "x" * 200_000)]))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(StorageError):
            import_archive(stories, ImportFile("a.json", "veloca", both))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list((root / "instances").iterdir()) == []
    (again,) = import_archive(stories, ImportFile("b.json", "veloca", BytesIO(veloca(said))))
    assert again.outcome == "new"
    assert services.stories.names("instances") == [again.entry_id]


async def test_a_chats_name_is_made_fit_for_a_terminal(services: Services) -> None:
    await import_content(services, "a.jsonl", chat("Hi", character="\x1b[31mEvil\nName " + "x" * 10_000))
    names = [
        entry.record.name for entry in services.stories.characters() if isinstance(entry.record, Character)
    ]
    assert any(name.startswith("[31mEvil Name xxx") and len(name) == 400 for name in names)


async def test_a_chat_that_went_on_here_calls_the_player_as_before(services: Services) -> None:
    report = await import_content(services, "a.jsonl", chat("Hi", "Hello", "Go on", user_name="Kay"))
    await say(services, "And now?", report.imported[0].entry_id)
    exported = await export_entry(services, report.imported[0].entry_id, "sillytavern")
    rows = [json.loads(row) for row in b"".join(exported.chunks).splitlines()]
    assert [row["name"] for row in rows[1:] if row["is_user"]] == ["You", "Kay"]
