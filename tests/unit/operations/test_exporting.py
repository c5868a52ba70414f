"""What leaves can be read by others, comes back as it was, and never takes another file's place unasked."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from personalab.archive.cards import with_id
from personalab.archive.veloca import check_archive
from personalab.data_files import dump_json
from personalab.errors import PersonaLabError, StorageError, UserError
from personalab.operations.exporting import (
    EXPORT_FORMATS,
    ExportFile,
    ExportFormat,
    export_entry,
    write_export,
)
from personalab.operations.importing import import_content, import_files
from personalab.operations.imports import ImportOptions
from personalab.services import Services, open_services
from personalab.settings import read_settings
from personalab.story.transcript import dump_object
from tests.support.archive import making
from tests.support.graph.turns import lines as lines_in
from tests.support.graph.turns import snapshot

pytestmark = pytest.mark.anyio


async def content(
    services: Services, entry_id: str, format: ExportFormat | None = None, **more: Any
) -> bytes:
    exported = await export_entry(services, entry_id, format, **more)
    return b"".join(exported.chunks)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Services:
    """Another data root."""
    made = open_services(read_settings({"PERSONALAB_DATA": str(tmp_path / "elsewhere")}))
    made.now = lambda: "2026-01-01T00:00:00Z"
    return made


def say(services: Services, instance_id: str, session_id: str, *rows: dict[str, Any]) -> None:
    path = services.stories.session_path(instance_id, session_id)
    with path.open("ab") as file:
        file.writelines(dump_object(row) + b"\n" for row in rows)


def user(text: str, turn: int) -> dict[str, Any]:
    return {"role": "user", "content": text, "turn": turn, "timestamp": "2025-10-16T10:31:00Z"}


def reply(text: str, turn: int, **more: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": text, "turn": turn, "timestamp": "2025-10-16T10:32:00Z"}
    return {**said, **more}


@pytest.fixture
def story(services: Services, instance: str) -> str:
    """A story of two sessions, with a retry, a summary and fields nobody knows."""
    say(
        services,
        instance,
        "sess_001",
        user("灯塔的钥匙在哪里？", 1),
        reply("半句", 1, interrupted=True),
        reply("在旧船底下。", 1),
        user("谢谢", 2),
        reply("不客气。", 2, mine={"x": [1]}),
    )
    folder = services.stories.instances / instance / "sessions"
    metadata = {
        "type": "metadata",
        "instance_id": instance,
        "session_id": "sess_002",
        "created_at": "2025-10-17T10:00:00Z",
        "continued_from": "sess_001",
    }
    summary = {"type": "summary", "content": "他们找到了钥匙。"}
    (folder / "sess_002.jsonl").write_bytes(dump_object(metadata) + b"\n")
    say(services, instance, "sess_002", summary, user("出发吧", 1), reply("好。", 1))
    point = {"summary": "他们找到了钥匙。", "plot": "钥匙在旧船底下。", "turns": [1, 2]}
    (folder / "sess_002.plots.json").write_bytes(dump_json({"points": [point]}))
    state = services.stories.instance(instance)
    services.stories.save_instance(replace(state, current_session_id="sess_002"))
    return instance


# --- cards


async def test_unchanged_card_leaves_as_it_came_with_its_id(services: Services) -> None:
    card = making.v2_card(unknown={"deep": [1, None]})
    png = making.card_png(card)
    await import_content(services, "a.png", png)
    exported = await export_entry(services, "seraphina")
    assert (exported.name, exported.media_type, exported.format) == ("seraphina.png", "image/png", "card-png")
    out = b"".join(exported.chunks)
    marked = with_id(card, "seraphina")
    assert making.card_in(out, "chara") == marked
    assert [chunk for chunk in making.chunks_of(out) if chunk[0] != b"tEXt"] == [
        chunk for chunk in making.chunks_of(png) if chunk[0] != b"tEXt"
    ]
    assert json.loads(await content(services, "seraphina", "card-json")) == marked


async def test_a_v3_card_is_found_by_old_and_new_programs(services: Services) -> None:
    card = making.v3_card()
    await import_content(services, "a.json", making.json_bytes(card))
    out = await content(services, "seraphina")
    assert making.card_in(out, "ccv3") == with_id(card, "seraphina")
    older: Any = making.card_in(out, "chara")
    assert (older["spec"], older["data"]["name"]) == ("chara_card_v2", "Seraphina")
    assert b"ccv3" not in await content(services, "seraphina", "card-png", version="v2")
    first = json.loads(await content(services, "seraphina", "card-json", version="v1"))
    assert first["description"] == card["data"]["description"]
    assert "spec" not in first


async def test_a_charx_keeps_its_pictures(services: Services) -> None:
    card = making.v3_card()
    await import_content(services, "a.charx", making.charx(card, main=b"a picture"))
    with zipfile.ZipFile(io.BytesIO(await content(services, "seraphina", "charx"))) as out:
        assert json.loads(out.read("card.json")) == with_id(card, "seraphina")
        assert out.read("assets/icon/images/main.png") == b"a picture"
    with pytest.raises(UserError) as refused:
        await content(services, "seraphina", "charx", version="v2")
    assert refused.value.code == "charx_is_v3"


@pytest.mark.parametrize("format", ["card-png", "card-json", "charx"])
async def test_a_character_written_by_hand_comes_back_elsewhere(
    services: Services, elsewhere: Services, root: Path, format: ExportFormat
) -> None:
    path = root / "characters" / "char_alserqi" / "definition.json"
    definition = {**json.loads(path.read_bytes()), "mine": {"深": 1}, "greetings": ["你来了。"]}
    path.write_bytes(making.json_bytes(definition))
    out = await content(services, "char_alserqi", format)
    report = await import_content(elsewhere, "x", out, ImportOptions(new_id="char_alserqi", overwrite=True))
    assert [entry.outcome for entry in report.imported] == ["replaced"]
    assert elsewhere.stories.character("char_alserqi").fields() == definition


# --- lorebooks


async def test_a_lorebook_leaves_in_both_shapes(services: Services, elsewhere: Services) -> None:
    book = making.character_book()
    await import_content(services, "a.json", making.json_bytes(book), ImportOptions(into="char_maren"))
    lorebook = json.loads(await content(services, "char_maren", "lorebook"))
    assert lorebook["spec"] == "lorebook_v3"
    assert lorebook["data"]["entries"][0]["keys"] == book["entries"][0]["keys"]
    world = json.loads(await content(services, "char_maren", "world-info"))
    [entry] = world["entries"].values()
    assert (entry["key"], entry["content"]) == (book["entries"][0]["keys"], book["entries"][0]["content"])
    for format in ("lorebook", "world-info"):
        out = await content(services, "char_maren", format)
        report = await import_content(elsewhere, f"{format}.json", out)
        assert report.skipped == []
    await import_content(services, "world.json", making.json_bytes({**book, "name": "Eldoria"}))
    exported = await export_entry(services, "eldoria")
    assert (exported.kind, exported.name) == ("backgrounds", "eldoria.lorebook.json")


# --- stories


async def test_a_story_comes_back_elsewhere_as_it_was(
    services: Services, elsewhere: Services, root: Path, tmp_path: Path, story: str
) -> None:
    out = await content(services, story)
    assert check_archive(json.loads(out)) == []
    report = await import_content(elsewhere, "story.json", out)
    assert [(entry.kind, entry.entry_id, entry.outcome) for entry in report.imported] == [
        ("instance", story, "new")
    ]
    assert report.not_indexed is None
    there = tmp_path / "elsewhere" / "instances" / story
    assert snapshot(there) == snapshot(root / "instances" / story)
    assert await content(elsewhere, story) == out


@pytest.mark.parametrize("format", ["markdown", "text"])
async def test_a_transcript_tells_the_whole_story_or_one_session(
    services: Services, story: str, format: ExportFormat
) -> None:
    whole = (await content(services, story, format, language="zh")).decode("utf-8")
    for said in ("灯塔的钥匙在哪里？", "在旧船底下。", "他们找到了钥匙。", "出发吧", "好。"):
        assert said in whole
    one = (await content(services, story, format, session_id="sess_001", language="en")).decode("utf-8")
    assert "谢谢" in one
    assert "出发吧" not in one
    exported = await export_entry(services, story, format, session_id="sess_001")
    assert exported.name.startswith("inst_001-sess_001.")


async def test_a_chat_holds_one_session_and_says_so(
    services: Services, elsewhere: Services, story: str
) -> None:
    exported = await export_entry(services, story, "sillytavern")
    assert exported.other_sessions == ("sess_001",)
    first = await content(services, story, "sillytavern", session_id="sess_001")
    rows = [json.loads(line) for line in first.splitlines()]
    assert rows[0]["character_name"] == services.stories.character("char_alserqi").name
    assert [row["mes"] for row in rows[1:] if not row.get("is_system")] == [
        "灯塔的钥匙在哪里？",
        "在旧船底下。",
        "谢谢",
        "不客气。",
    ]
    report = await import_content(elsewhere, "chat.jsonl", first)
    [entry] = report.imported
    assert elsewhere.stories.instance(entry.entry_id).character_id == "char_alserqi"
    assert lines_in(elsewhere, entry.entry_id)[1:] == lines_in(services, story)[1:]


async def test_markers_and_reasoning_leave_only_when_asked_and_come_back(
    services: Services, elsewhere: Services, instance: str
) -> None:
    marker, thoughts = "[PROGRESS:1:completed]", "她在撒谎。"
    say(
        services,
        instance,
        "sess_001",
        user("走吗？", 1),
        reply(f"走。\n\n{marker}", 1, reasoning=thoughts, truncated=True),
    )
    asked = {"markers": True, "reasoning": True}
    limit = {"markdown": "达到长度上限", "text": "达到长度上限"}
    formats: tuple[ExportFormat, ...] = ("markdown", "text")
    for format in formats:
        plain = (await content(services, instance, format, language="zh")).decode("utf-8")
        assert (marker[1:-1] in plain, thoughts in plain, limit[format] in plain) == (False, False, True)
        full = (await content(services, instance, format, language="zh", **asked)).decode("utf-8")
        assert (marker[1:-1].replace("_", "\\_") in full, thoughts in full) == (True, True)
    for more in ({}, asked):
        raw = await content(services, instance, "sillytavern", **more)
        shown = json.loads(raw.splitlines()[-1])
        assert (marker in shown["mes"], shown["extra"].get("reasoning") == thoughts) == (bool(more),) * 2
        report = await import_content(elsewhere, "chat.jsonl", raw)
        entry_id = report.imported[0].entry_id
        assert lines_in(elsewhere, entry_id)[1:] == lines_in(services, instance)[1:]
    assert marker.encode() in await content(services, instance, "veloca")


# --- what cannot leave


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"entry_id": "nobody"}, "no_library_entry"),
        ({"entry_id": "../x"}, "bad_id"),
        ({"entry_id": "characters/inst_001"}, "no_library_entry"),
        ({"entry_id": "char_maren", "format": "markdown"}, "format_not_for"),
        ({"entry_id": "inst_001", "format": "charx"}, "format_not_for"),
        ({"entry_id": "char_maren", "format": "lorebook"}, "no_lorebook"),
        ({"entry_id": "inst_001", "session_id": "sess_001"}, "option_not_for"),
        ({"entry_id": "inst_001", "version": "v2"}, "option_not_for"),
        ({"entry_id": "char_maren", "markers": True}, "option_not_for"),
        ({"entry_id": "char_maren", "reasoning": True}, "option_not_for"),
        ({"entry_id": "inst_001", "format": "text", "session_id": "sess_404"}, "no_session"),
        ({"entry_id": "inst_001", "format": "text", "session_id": "../x"}, "bad_id"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_cannot_leave_is_refused_with_the_reason(
    services: Services, instance: str, asked: dict[str, Any], code: str
) -> None:
    with pytest.raises(PersonaLabError) as refused:
        await content(services, **asked)
    assert refused.value.code == code
    assert refused.value.message("zh") != refused.value.message("en")


async def test_those_that_share_an_id_are_told_apart(services: Services) -> None:
    await import_content(services, "a.json", making.json_bytes(making.v2_card(name="Eldoria")))
    await import_content(services, "b.json", making.json_bytes(making.character_book(name="Eldoria")))
    with pytest.raises(UserError) as refused:
        await export_entry(services, "eldoria")
    assert refused.value.code == "entry_ambiguous"
    assert "backgrounds/eldoria" in str(refused.value)
    assert (await export_entry(services, "eldoria", "card-json")).kind == "characters"
    assert (await export_entry(services, "backgrounds/eldoria")).format == "lorebook"


async def test_a_broken_card_beside_a_character_is_named(services: Services, root: Path) -> None:
    (root / "characters" / "char_maren" / "card.json").write_bytes(b"{")
    with pytest.raises(StorageError) as refused:
        await export_entry(services, "char_maren")
    assert "characters/char_maren/card.json" in str(refused.value)


def test_every_form_leaves_from_some_kind(services: Services) -> None:
    from personalab.operations.exporting import formats_of

    kinds = ("instances", "characters", "backgrounds")
    assert {form for kind in kinds for form in formats_of(kind)} == set(EXPORT_FORMATS)


def test_the_terminal_offers_every_form() -> None:
    from cli.commands.exchange import Format

    assert get_args(Format) == EXPORT_FORMATS


# --- files


def parcel(chunks: Any) -> ExportFile:
    return ExportFile("a.txt", "text/plain", "instances", "a", "text", chunks)


async def test_a_file_is_written_whole_and_never_over_another_unasked(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    assert await write_export(parcel([b"one", b"two"]), path) == 6
    assert path.read_bytes() == b"onetwo"
    with pytest.raises(UserError) as refused:
        await write_export(parcel([b"three"]), path)
    assert refused.value.code == "export_exists"
    assert path.read_bytes() == b"onetwo"
    await write_export(parcel([b"three"]), path, overwrite=True)
    assert path.read_bytes() == b"three"
    assert [found.name for found in tmp_path.iterdir() if found.is_file()] == ["a.txt"]


async def test_what_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    def breaking() -> Iterator[bytes]:
        yield b"half"
        raise StorageError("file_missing", file="x")

    path = tmp_path / "a.txt"
    with pytest.raises(StorageError):
        await write_export(parcel(breaking()), path)
    assert not any(found.is_file() for found in tmp_path.iterdir())
    path.write_bytes(b"old")
    with pytest.raises(StorageError):
        await write_export(parcel(breaking()), path, overwrite=True)
    assert path.read_bytes() == b"old"


async def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as refused:
        await write_export(parcel([b"x"]), tmp_path / "no" / "a.txt")
    assert refused.value.code == "export_unwritable"
    assert "--out" in str(refused.value)


async def test_files_that_went_out_come_in_together(
    services: Services, elsewhere: Services, story: str, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    leaving: list[tuple[str, ExportFormat | None]] = [
        ("char_alserqi", None),
        (story, None),
        (story, "sillytavern"),
    ]
    for entry_id, format in leaving:
        exported = await export_entry(services, entry_id, format)
        await write_export(exported, folder / exported.name)
    report = await import_files(elsewhere, [folder])
    assert report.skipped == []
    assert [entry.kind for entry in report.imported] == ["character", "instance", "instance"]
