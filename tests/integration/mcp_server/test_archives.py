"""Files come in and go out through one folder, and archived conversations are compacted by whoever can write."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from mcp_server.server import DEFAULT_TOOLSETS, PersonaServer, build_server
from personalab.operations import archives
from personalab.operations.archives import ArchivePlace, archive_of
from personalab.services import Services
from personalab.testing.scripted import ScriptedModel
from tests.conftest import PROJECT
from tests.integration.mcp_server.conftest import Mode
from tests.integration.mcp_server.test_budgets import COUNTERS, LIMIT, SOME, TEXTS, tokens
from tests.support.archive.making import json_bytes, v2_card
from tests.support.graph.turns import snapshot
from tests.support.mcp_server.calls import CHAT, MEMORY, call, data_of, refused, text_of
from tests.support.mcp_server.processes import ERAS, Era, talking, world
from tests.support.mcp_server.scribes import Scribe, as_host, tell_story

pytestmark = pytest.mark.anyio
ARCHIVE = ["archive_import", "archive_export", "archive_compact"]
SAID = ["我要去北方。", "路上小心。", "明天出发。", "好。", "谢谢。", "不客气。", "再见。", "再见。"]
ACCOUNT = "用户明天去北方。"
LIST_LIMIT = 1_000
"""What the three tools may add to a host's list."""


class Summer(Scribe):
    """Sums any conversation up, after so many answers that cannot be used."""

    def answer(self, questions: Sequence[str]) -> str:
        self.asked.append(questions[-1])
        if self._bad:
            self._bad -= 1
            return "nothing of the kind"
        return json.dumps({"summary": ACCOUNT})


@pytest.fixture
def server(services: Services) -> PersonaServer:
    """The server with this toolset alone, without a model of its own."""
    return build_server(services, ["archive"])


@pytest.fixture
def exchange(root: Path, services: Services) -> Path:
    """The folder that files are exchanged through."""
    folder = services.settings.data_root / "exchange"
    folder.mkdir()
    return folder


@pytest.fixture
def place(services: Services) -> ArchivePlace:
    """The archive of the data root."""
    return archive_of(services)


@pytest.fixture
async def session(place: ArchivePlace) -> str:
    """A session of eight entries."""
    return await _begin(place, SAID)


async def _begin(place: ArchivePlace, said: Sequence[str]) -> str:
    made = await archives.begin_session(place, "北行")
    for number, message in enumerate(said):
        role = "assistant" if number % 2 else "user"
        await archives.append_entry(place, made["session_id"], role, message)
    return made["session_id"]


# --- the toolset


async def test_the_tools_are_there_when_they_are_asked_for_and_cost_little(
    services: Services, mode: Mode
) -> None:
    for toolsets, names in (
        (("archive",), ARCHIVE),
        (("archive", "memory", "chat"), [*CHAT, *MEMORY, *ARCHIVE]),
        (DEFAULT_TOOLSETS, [*CHAT, *MEMORY]),
    ):
        async with Client(build_server(services, toolsets), mode=mode) as client:
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools] == names
            assert ("archive_import" in (client.instructions or "")) == ("archive" in toolsets)
        if toolsets == ("archive",):
            dumped = listed.model_dump_json(by_alias=True, exclude_none=True)
            assert max(counter.count(dumped) for counter in COUNTERS) < LIST_LIMIT
            for tool in listed.tools:
                assert tool.annotations is not None
                assert None not in tool.annotations.model_dump(exclude={"title"}).values()


async def test_card_with_our_id_offers_a_choice(server: PersonaServer, exchange: Path) -> None:
    async with Client(server) as client:
        out = await call(client, "archive_export", entry_id="char_maren", format="card-json")
        card = json.loads((exchange / out["name"]).read_bytes())
        card["data"]["description"] = "Changed elsewhere."
        given = json.dumps(card)
        (entry,) = (await call(client, "archive_import", content=given))["imported"]
        assert (entry["outcome"], entry["options"]) == ("exists", ["update", "copy", "skip"])
        (entry,) = (await call(client, "archive_import", content=given, on_conflict="update"))["imported"]
        assert (entry["outcome"], entry["id"]) == ("replaced", "char_maren")


async def test_card_names_its_world(server: PersonaServer, exchange: Path) -> None:
    card = v2_card(extensions={"world": "Harbour"})
    card["data"].pop("character_book", None)
    book = {"entries": {"0": {"uid": 0, "key": ["sea"], "content": "Wide."}}}
    async with Client(server) as client:
        raw = await client.call_tool("archive_import", {"content": json.dumps(card)})
        assert data_of(raw)["imported"][0]["world"]["status"] == "missing"
        assert "Harbour" in text_of(raw)
        arrived = await client.call_tool(
            "archive_import", {"name": "Harbour.json", "content": json.dumps(book)}
        )
        assert "seraphina" in text_of(arrived)
        world = data_of(arrived)["imported"][0]["id"]
        out = await call(client, "archive_export", entry_id=world, format="world-info")
        assert out["name"] == "Harbour.json"
        again = await call(client, "archive_export", entry_id=world, format="world-info")
        assert again["name"] == "Harbour-2.json"


async def test_the_page_tells_what_the_tools_take(server: PersonaServer) -> None:
    page = (PROJECT / "docs" / "mcp.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(archive_\w+)` \| `([^|]*?)`", page, re.MULTILINE))
    tools = {tool.name: tool.input_schema for tool in await server.list_tools()}
    assert list(rows) == list(tools)
    for name, schema in tools.items():
        needed = schema.get("required", [])
        assert rows[name] == ", ".join(
            field if field in needed else f"{field}?" for field in schema["properties"]
        )


# --- in


@pytest.mark.parametrize("way", ["folder", "content", "base64"])
async def test_a_card_comes_in_from_the_folder_or_with_the_call(
    server: PersonaServer, services: Services, exchange: Path, mode: Mode, way: str
) -> None:
    raw = json_bytes(v2_card(name="Seraphina"))
    (exchange / "sera.json").write_bytes(raw)
    given = {
        "folder": {"name": "sera.json"},
        "content": {"content": raw.decode("utf-8")},
        "base64": {"name": "sera.json", "content_base64": base64.b64encode(raw).decode("ascii")},
    }
    async with Client(server, mode=mode) as client:
        found = await client.call_tool("archive_import", given[way])
        again = await call(client, "archive_import", **given[way])
    assert not found.is_error, text_of(found)
    entry = data_of(found)["imported"][0]
    assert (entry["kind"], entry["name"], entry["outcome"]) == ("character", "Seraphina", "new")
    assert entry["file"] == ("content" if way == "content" else "sera.json")
    assert entry["id"] in text_of(found)
    assert services.stories.character(entry["id"]).name == "Seraphina"
    assert again["imported"][0]["outcome"] == "same"


async def test_a_chat_becomes_a_story_of_the_character_that_is_named(
    server: PersonaServer, services: Services, mode: Mode
) -> None:
    rows: list[dict[str, Any]] = [
        {"user_name": "Ann", "character_name": "Nobody we know", "create_date": "", "chat_metadata": {}},
        {"name": "Ann", "is_user": True, "send_date": "2024-01-01T00:00:00.000Z", "mes": "Hello?"},
        {"name": "Maren", "is_user": False, "send_date": "2024-01-01T00:01:00.000Z", "mes": "Mind the step."},
    ]
    chat = "\n".join(json.dumps(row) for row in rows)
    async with Client(server, mode=mode) as client:
        found = await call(
            client, "archive_import", name="talk.jsonl", content=chat, character_id="char_maren"
        )
    story = found["imported"][0]
    assert story["kind"] == "instance"
    state = services.stories.instance(story["id"])
    assert state.character_id == "char_maren"
    said = services.stories.session(story["id"], state.current_session_id).view()
    assert [turn.user.content for turn in said.turns if turn.user] == ["Hello?"]


async def test_a_lorebook_goes_to_whom_it_is_for(
    server: PersonaServer, services: Services, exchange: Path, mode: Mode
) -> None:
    book = {"entries": {"0": {"uid": 0, "key": ["灯塔"], "content": "灯塔已荒废。", "comment": ""}}}
    (exchange / "world.json").write_bytes(json_bytes(book))
    async with Client(server, mode=mode) as client:
        found = await call(client, "archive_import", name="world.json", into="bg_lighthouse")
    assert (found["imported"][0]["kind"], found["imported"][0]["id"]) == ("background", "bg_lighthouse")
    assert found["imported"][0]["outcome"] == "given"
    kept = services.stories.beside("backgrounds", "bg_lighthouse", "lorebook.json")
    assert json.loads(kept.read_text(encoding="utf-8")) == book


@pytest.mark.parametrize(
    "name",
    [
        "../config.json",
        "/etc/passwd",
        "a/b.json",
        "..",
        ".hidden",
        "",
        "a\\b.json",
        "c:x.json",
        "a\n.json",
        "link.json",
        "folder",
        "none.json",
        "x" * 300,
    ],
)
async def test_no_client_reaches_what_lies_elsewhere(
    server: PersonaServer, root: Path, exchange: Path, tmp_path: Path, name: str
) -> None:
    outside = tmp_path / "outside.json"
    outside.write_bytes(json_bytes(v2_card()))
    (exchange / "link.json").symlink_to(outside)
    (exchange / "folder").mkdir()
    (exchange / "there.json").write_bytes(b"{}")
    before = snapshot(root)
    async with Client(server) as client:
        said = await refused(client, "archive_import", name=name)
    assert str(tmp_path) not in said
    assert snapshot(root) == before


async def test_what_cannot_come_in_says_why_without_a_path(
    server: PersonaServer, services: Services, root: Path, exchange: Path
) -> None:
    services.preferences.change({"language": "en"})
    (exchange / "photo.png").write_bytes(b"\xff\xd8\xff\xe0 a jpeg")
    (exchange / "bad.json").write_bytes(b'{"spec": "chara_card_v2", "data": [')
    before = snapshot(root)
    async with Client(server) as client:
        for given, word in (
            ({"name": "photo.png"}, "JPEG"),
            ({"name": "bad.json"}, "JSON"),
            ({}, "name"),
            ({"content": "x", "content_base64": "eA=="}, "content_base64"),
            ({"content_base64": "!!"}, "base64"),
            ({"content": ""}, "name"),
            ({"name": "bad.json", "character_id": "nobody"}, "nobody"),
            ({"content": "x", "name": "../y"}, "exchange"),
            ({"content": "x" * 4_000_001}, "4000000"),
            ({"name": "none.json"}, "bad.json, photo.png"),
        ):
            said = await refused(client, "archive_import", **given)
            assert word in said, (given, said)
            assert str(root) not in said
    assert snapshot(root) == before


# --- out


@pytest.mark.parametrize(
    ("entry_id", "format", "ending"),
    [
        ("inst_001", None, ".json"),
        ("inst_001", "markdown", ".md"),
        ("inst_001", "sillytavern", ".jsonl"),
        ("char_maren", None, ".png"),
        ("char_maren", "card-json", ".json"),
    ],
)
async def test_what_goes_out_lies_in_the_folder_under_a_new_name_each_time(
    server: PersonaServer,
    services: Services,
    instance: str,
    root: Path,
    mode: Mode,
    entry_id: str,
    format: str | None,
    ending: str,
) -> None:
    tell_story(services, 2)
    given: dict[str, Any] = {"entry_id": entry_id, **({"format": format} if format else {})}
    async with Client(server, mode=mode) as client:
        first = await client.call_tool("archive_export", given)
        second = await call(client, "archive_export", **given)
    assert not first.is_error, text_of(first)
    found = data_of(first)
    assert found["name"].endswith(ending)
    assert second["name"] != found["name"]
    assert second["name"].endswith(ending)
    for made in (found, second):
        raw = (root / "exchange" / made["name"]).read_bytes()
        assert len(raw) == made["size"]
        if ending == ".png":
            assert "text" not in made
        else:
            assert (made["text"], made["whole"]) == (raw.decode("utf-8"), True)
            assert made["text"] in text_of(first) or made is second
    assert found["name"] in text_of(first)
    assert str(root) not in text_of(first)


@pytest.mark.parametrize("kind", SOME)
async def test_of_a_long_text_only_the_beginning_is_shown(
    server: PersonaServer, services: Services, instance: str, root: Path, kind: str
) -> None:
    tell_story(services, 2, TEXTS[kind])
    async with Client(server) as client:
        found = await client.call_tool("archive_export", {"entry_id": instance})
        assert not found.is_error, text_of(found)
        assert tokens(found) < LIMIT
    data = data_of(found)
    whole = (root / "exchange" / data["name"]).read_bytes().decode("utf-8")
    assert whole.startswith(data["text"])
    assert data["whole"] is False
    assert len(data["text"]) > 500


async def test_what_cannot_go_out_says_why_and_writes_nothing(
    server: PersonaServer, services: Services, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").mkdir()
    before = snapshot(root)
    async with Client(server) as client:
        for given in (
            {"entry_id": "nobody"},
            {"entry_id": "../../secret"},
            {"entry_id": "characters/../../secret"},
            {"entry_id": "char_maren", "format": "veloca"},
            {"entry_id": "char_maren", "format": "pdf"},
            {"entry_id": "char_maren", "session_id": "sess_001"},
        ):
            said = await refused(client, "archive_export", **given)
            assert str(tmp_path) not in said
    assert snapshot(root) == before


async def test_a_story_that_went_out_comes_back_after_it_was_lost(
    server: PersonaServer, services: Services, instance: str, root: Path
) -> None:
    tell_story(services, 3)
    async with Client(server) as client:
        out = await call(client, "archive_export", entry_id=instance)
        same = await call(client, "archive_import", name=out["name"])
        before = snapshot(root / "instances")
        shutil.rmtree(root / "instances" / instance)
        back = await call(client, "archive_import", name=out["name"])
    assert [entry["outcome"] for entry in same["imported"] if entry["kind"] == "instance"] == ["same"]
    story = next(entry for entry in back["imported"] if entry["kind"] == "instance")
    assert (story["id"], story["outcome"]) == (instance, "new")
    after = snapshot(root / "instances")
    session = f"{instance}/sessions/sess_001.jsonl"
    assert after[session] == before[session]


async def test_what_a_file_has_no_room_for_is_told(
    server: PersonaServer, services: Services, instance: str, root: Path
) -> None:
    (root / "characters" / "char_alserqi" / "card.png").write_bytes(b"a picture")
    async with Client(server) as client:
        out = await client.call_tool("archive_export", {"entry_id": instance})
    assert out.structured_content is not None
    assert out.structured_content["left_out"] == ["characters/char_alserqi/card.png"]
    assert "card-png" in text_of(out)


# --- compacting


async def _seen(place: ArchivePlace, session: str) -> list[str]:
    return [message["content"] for message in await archives.context(place, session)]


async def _check_compacted(client: Client, found: dict[str, Any], place: ArchivePlace, session: str) -> None:
    assert (found["status"], found["entries"], found["session_id"]) == ("done", 4, session)
    assert found["dialogue"]["summary"] == ACCOUNT
    assert await _seen(place, session) == [ACCOUNT, *SAID[4:]]
    undone = await call(client, "archive_compact", session_id=session, undo=True)
    assert (undone["status"], undone["entries"]) == ("undone", 4)
    assert await _seen(place, session) == SAID
    await refused(client, "archive_compact", session_id=session, undo=True)


async def test_a_provider_compacts(
    server: PersonaServer,
    place: ArchivePlace,
    session: str,
    provider: Callable[..., ScriptedModel],
    mode: Mode,
) -> None:
    provider("no", json.dumps({"summary": ACCOUNT}))
    async with Client(server, mode=mode) as client:
        found = await call(client, "archive_compact", session_id=session)
        await _check_compacted(client, found, place, session)


async def test_a_clients_model_compacts(
    server: PersonaServer, place: ArchivePlace, session: str, mode: Mode
) -> None:
    summer = Summer(bad=1)
    async with Client(server, mode=mode, sampling_callback=summer) as client:
        found = await call(client, "archive_compact", session_id=session)
        await _check_compacted(client, found, place, session)
    assert len(summer.asked) == 2


async def test_the_host_compacts_and_nothing_is_written_before_it_has_answered(
    server: PersonaServer, place: ArchivePlace, session: str, mode: Mode
) -> None:
    async with Client(server, mode=mode) as client:
        asked = await call(client, "archive_compact", session_id=session)
        assert (asked["status"], asked["cursor"]) == ("awaiting_answer", None)
        assert SAID[0] in asked["prompt"]["messages"][-1]["content"]
        assert await _seen(place, session) == SAID
        found, rounds = await as_host(client, "archive_compact", Summer(bad=1), session_id=session)
        assert len(rounds) == 2
        await _check_compacted(client, found, place, session)


async def test_a_long_conversation_is_answered_for_in_several_rounds(
    server: PersonaServer, services: Services, place: ArchivePlace
) -> None:
    services.preferences.change({"max_total_tokens": 10_000, "conversation_load_all": False})
    services.preferences.change({"conversation_max_tokens": 1_000})
    long = await _begin(place, [f"第{number}句：" + "我们往北走。" * 200 for number in range(10)])
    summer = Summer()
    async with Client(server) as client:
        found, rounds = await as_host(client, "archive_compact", summer, session_id=long)
    assert (found["status"], found["entries"]) == ("done", 6)
    assert len(rounds) >= len(summer.asked) > 1
    assert all(ACCOUNT in asked for asked in summer.asked[1:])


async def test_the_callers_own_summary_and_another_archive_are_taken(
    server: PersonaServer, services: Services, mode: Mode
) -> None:
    second = archive_of(services, name="second.json")
    session = await _begin(second, SAID)
    last = (await archives.entries(second, session))[-1]["entry_id"]
    given = {"session_id": session, "archive": "second.json"}
    async with Client(server, mode=mode) as client:
        found = await call(client, "archive_compact", **given, trigger_entry_id=last, summary="短。")
        assert (found["archive"], found["entries"]) == ("second.json", 7)
        assert await _seen(second, session) == ["短。", "再见。"]
        asked = await call(client, "archive_compact", session_id=session, archive="second.json", undo=True)
    assert (asked["status"], asked["archive"]) == ("undone", "second.json")


async def test_a_giant_summary_is_shown_in_part_and_kept_whole(
    server: PersonaServer, place: ArchivePlace, session: str
) -> None:
    summary = TEXTS["chinese"][:200_000].strip()
    async with Client(server) as client:
        found = await client.call_tool("archive_compact", {"session_id": session, "summary": summary})
    assert not found.is_error, text_of(found)
    assert tokens(found) < LIMIT
    assert (await _seen(place, session))[0] == summary


@pytest.mark.parametrize("kind", SOME)
async def test_a_long_conversation_is_asked_for_within_the_budget(
    server: PersonaServer, place: ArchivePlace, kind: str
) -> None:
    long = await _begin(place, [TEXTS[kind][:30_000]] * 6)
    shown: list[str] = []
    cursor: str | None = ""
    async with Client(server) as client:
        while cursor is not None and len(shown) < 100:
            given = {"session_id": long, **({"cursor": cursor} if cursor else {})}
            found = await client.call_tool("archive_compact", given)
            assert not found.is_error, text_of(found)
            assert tokens(found) < LIMIT
            cursor = data_of(found)["cursor"]
            shown.append(data_of(found)["status"])
    assert cursor is None
    assert set(shown) == {"awaiting_answer"}


async def test_what_cannot_be_compacted_says_why_without_a_path(
    server: PersonaServer, services: Services, root: Path, place: ArchivePlace, session: str
) -> None:
    services.preferences.change({"language": "en"})
    (root / "archive" / "broken.json").write_bytes(b"{")
    before = snapshot(root)
    async with Client(server) as client:
        for given, word in (
            ({"session_id": "0" * 36}, session),
            ({"session_id": session, "archive": "../config.json"}, "archive"),
            ({"session_id": session, "archive": "none.json"}, "archive/none.json"),
            ({"session_id": session, "archive": "broken.json"}, "archive/broken.json"),
            ({"session_id": session, "archive": "broken.json", "undo": True}, "archive/broken.json"),
            ({"session_id": session, "summary": " "}, "summary"),
            ({"session_id": session, "summary": "x", "undo": True}, "undo, summary"),
            ({"session_id": session, "summary": "x", "answer": "{}"}, "summary, answer"),
            ({"session_id": session, "answer": "{}"}, "archive_compact"),
            ({"session_id": session, "trigger_entry_id": "nope"}, "nope"),
        ):
            said = await refused(client, "archive_compact", **given)
            assert word in said, (given, said)
            assert str(root) not in said
    after = snapshot(root)
    after.pop("archive/broken.json.lock", None)
    assert after == before


async def test_a_link_to_the_data_root_is_not_told_either(services: Services, tmp_path: Path) -> None:
    real = tmp_path / "real"
    services.settings.data_root.rename(real)
    services.settings.data_root.symlink_to(real)
    (real / "archive").mkdir()
    (real / "archive" / "broken.json").write_bytes(b"{")
    linked = Services(replace(services.settings))
    async with Client(build_server(linked, ["archive"])) as client:
        said = await refused(client, "archive_compact", session_id="0" * 36, archive="broken.json")
    assert str(tmp_path) not in said


# --- over a real connection


@pytest.mark.parametrize("era", ERAS)
def test_the_tools_work_over_stdio(tmp_path: Path, era: Era) -> None:
    environment = world(tmp_path)
    log = tmp_path / "log"
    with talking(environment, log, "--toolsets", "archive", era=era) as talk:
        listed = [tool["name"] for tool in talk.request("tools/list")["tools"]]
        assert listed == ARCHIVE
        card = json_bytes(v2_card(name="Over the wire")).decode("utf-8")
        came = talk.call("archive_import", content=card)
        entry = came["imported"][0]
        out = talk.call("archive_export", entry_id=entry["id"], format="card-json")
    written = tmp_path / "data" / "exchange" / out["name"]
    assert json.loads(written.read_text(encoding="utf-8"))["data"]["name"] == "Over the wire"
