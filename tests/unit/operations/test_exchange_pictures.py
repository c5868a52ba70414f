"""Pictures travel with their characters, from PNG to CHARX and back, and chats find whom they were held with."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from personalab.archive.cards import without_id
from personalab.data_files import dump_json
from personalab.operations.exporting import ExportFormat, export_entry
from personalab.operations.importing import import_content
from personalab.operations.imports import ImportOptions, ImportReport
from personalab.services import Services
from tests.support.archive import making
from tests.support.graph.turns import snapshot

pytestmark = pytest.mark.anyio


async def out_of(services: Services, entry_id: str, format: ExportFormat) -> bytes:
    return b"".join((await export_entry(services, entry_id, format)).chunks)


def settled(report: ImportReport) -> tuple[str, str]:
    assert report.skipped == []
    [entry] = report.imported
    return entry.entry_id, entry.outcome


def pixels(png: bytes) -> list[tuple[bytes, bytes]]:
    return [chunk for chunk in making.chunks_of(png) if chunk[0] != b"tEXt"]


OTHER = making.picture(pixels=b"other pixels")


# --- from PNG to CHARX


@pytest.mark.parametrize("assets", [None, "ccdefault:"])
async def test_a_picture_becomes_the_main_icon_of_a_charx(services: Services, assets: str | None) -> None:
    icon = {"type": "icon", "uri": assets, "name": "main", "ext": "png"}
    emotion = {"type": "emotion", "uri": "https://x.invalid/a.png", "name": "joy", "ext": "png"}
    card = making.v3_card(assets=[emotion, icon] if assets else None)
    png = making.card_png(making.v2_card(), card)
    await import_content(services, "a.png", png)
    out = await out_of(services, "seraphina", "charx")
    with zipfile.ZipFile(io.BytesIO(out)) as archive:
        listed = json.loads(archive.read("card.json"))["data"]["assets"]
        picture = archive.read("assets/icon/main.png")
    main = {"type": "icon", "uri": "embeded://assets/icon/main.png", "name": "main", "ext": "png"}
    assert listed == ([main, emotion] if assets else [main])
    assert making.chunks_of(picture) == pixels(png)
    assert settled(await import_content(services, "a.charx", out)) == ("seraphina", "same")


async def test_a_main_icon_that_lies_elsewhere_is_left_there(services: Services) -> None:
    icon = {"type": "icon", "uri": "https://x.invalid/a.png", "name": "main", "ext": "png"}
    card = making.v3_card(assets=[icon])
    await import_content(services, "a.png", making.card_png(card, card))
    with zipfile.ZipFile(io.BytesIO(await out_of(services, "seraphina", "charx"))) as archive:
        assert archive.namelist() == ["card.json"]
        assert without_id(json.loads(archive.read("card.json"))) == without_id(card)


# --- from CHARX to PNG


def packed(picture: bytes, uri: str = "embeded://assets/icon/images/main.png") -> bytes:
    icons = [
        {"type": "icon", "uri": "embeded://assets/icon/images/side.png", "name": "side", "ext": "png"},
        {"type": "icon", "uri": uri, "name": "main", "ext": "png"},
    ]
    return making.charx(making.v3_card(assets=icons), main=picture, side=b"no picture")


async def test_the_main_icon_of_a_charx_becomes_the_picture(services: Services) -> None:
    await import_content(services, "a.charx", packed(OTHER))
    out = await out_of(services, "seraphina", "card-png")
    assert pixels(out) == making.chunks_of(OTHER)
    assert making.card_in(out, "ccv3")


@pytest.mark.parametrize(
    "content",
    [
        packed(b"a JPEG"),
        packed(OTHER[:-6]),
        packed(OTHER, "embeded://assets/missing.png"),
        packed(OTHER, "embeded://../../etc/passwd"),
        packed(OTHER, "ccdefault:"),
    ],
    ids=["other kind", "cut off", "missing", "outside", "default"],
)
async def test_an_icon_that_cannot_be_used_leaves_the_plain_picture(
    services: Services, content: bytes
) -> None:
    await import_content(services, "a.charx", content)
    out = await out_of(services, "seraphina", "card-png")
    assert len([chunk for chunk in pixels(out) if chunk[0] == b"IDAT"]) == 1
    assert pixels(out) != making.chunks_of(OTHER)
    assert making.card_in(out, "ccv3")


# --- a picture that comes later


async def test_a_picture_comes_to_the_card_that_lacks_it_and_leaves_what_was_edited(
    services: Services, root: Path
) -> None:
    await import_content(services, "a.json", making.json_bytes(making.v2_card()))
    folder = root / "characters" / "seraphina"
    edited = dump_json({**json.loads((folder / "definition.json").read_bytes()), "base_persona": "Mine."})
    (folder / "definition.json").write_bytes(edited)
    png = making.card_png(making.v2_card())
    assert settled(await import_content(services, "a.png", png)) == ("seraphina", "completed")
    assert (folder / "card.png").read_bytes() == png
    assert (folder / "definition.json").read_bytes() == edited
    assert settled(await import_content(services, "a.png", png)) == ("seraphina", "same")


async def test_another_picture_takes_its_place_only_when_asked(services: Services, root: Path) -> None:
    await import_content(services, "a.png", making.card_png(making.v2_card()))
    before = snapshot(root)
    again = making.picture(making.text_chunk("chara", making.v2_card()), making.text_chunk("chara", {}))
    other = making.picture(making.text_chunk("chara", making.v2_card()), pixels=b"other pixels")
    assert settled(await import_content(services, "a.png", again)) == ("seraphina", "same")
    kept = await import_content(services, "b.png", other)
    assert settled(kept) == ("seraphina", "same")
    assert [note.code for note in kept.imported[0].notes] == ["picture_kept"]
    assert snapshot(root) == before
    replaced = await import_content(services, "b.png", other, ImportOptions(overwrite=True))
    assert settled(replaced) == ("seraphina", "replaced")
    assert (root / "characters" / "seraphina" / "card.png").read_bytes() == other


# --- stories


async def test_a_story_as_veloca_says_which_pictures_are_not_in_it(services: Services, instance: str) -> None:
    assert (await export_entry(services, instance)).left_out == ()
    folder = services.stories.root / "characters" / services.stories.instance(instance).character_id
    (folder / "card.png").write_bytes(OTHER)
    assert (await export_entry(services, instance)).left_out == ("characters/char_alserqi/card.png",)
    assert (await export_entry(services, instance, "text")).left_out == ()


def call(root: Path, character_id: str, **changes: Any) -> None:
    path = root / "characters" / character_id / "definition.json"
    path.write_bytes(dump_json({**json.loads(path.read_bytes()), **changes}))


async def test_a_chat_comes_home_to_a_character_with_a_nickname(services: Services, root: Path) -> None:
    call(root, "char_alserqi", nickname="小阿")
    state = services.stories.create_instance(
        services.stories.character("char_alserqi"), None, None, "2026-01-01T00:00:00Z"
    )
    out = await out_of(services, state.instance_id, "sillytavern")
    header = json.loads(out.splitlines()[0])
    assert header["character_name"] == services.stories.character("char_alserqi").name
    before = services.stories.names("characters")
    entry_id, _ = settled(await import_content(services, "chat.jsonl", out))
    assert services.stories.instance(entry_id).character_id == "char_alserqi"
    by_nickname = making.json_bytes({"name": "小阿", "is_user": False, "mes": "你好"})
    entry_id, _ = settled(await import_content(services, "chat.jsonl", by_nickname))
    assert services.stories.instance(entry_id).character_id == "char_alserqi"
    assert services.stories.names("characters") == before


async def test_of_two_of_one_name_a_chat_finds_the_one_it_was_held_with(
    services: Services, root: Path
) -> None:
    call(root, "char_maren", name="Twin")
    call(root, "char_alserqi", name="Twin")
    for character_id in ("char_maren", "char_alserqi"):
        character = services.stories.character(character_id)
        state = services.stories.create_instance(character, None, None, "2026-01-01T00:00:00Z")
        out = await out_of(services, state.instance_id, "sillytavern")
        entry_id, _ = settled(await import_content(services, "chat.jsonl", out))
        assert services.stories.instance(entry_id).character_id == character_id
        call(root, character_id, name="Renamed")
        other, _ = settled(await import_content(services, "chat.jsonl", out + b"\n"))
        assert services.stories.instance(other).character_id != character_id
        call(root, character_id, name="Twin")


async def test_a_group_is_told_when_it_comes_in(services: Services) -> None:
    rows: list[dict[str, Any]] = [
        {"user_name": "You", "character_name": "Maren", "chat_metadata": {}},
        {"name": "Maren", "is_user": False, "mes": "Come in."},
        {"name": "Bob", "is_user": False, "mes": "Hello."},
    ]
    report = await import_content(services, "c.jsonl", b"\n".join(making.json_bytes(row) for row in rows))
    [note] = report.imported[0].notes
    assert note.code == "several_speak"
    assert "Bob" in note.message("zh")
    assert "Bob" in note.message("en")
