"""Files of elsewhere come in, each whole or not at all, whatever else lies beside them."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from personalab.errors import NotFound, UserError
from personalab.operations.importing import import_content, import_files
from personalab.operations.imports import ImportOptions, ImportReport
from personalab.services import Services
from personalab.storage.exchange import find_files
from tests.support.archive import making
from tests.support.graph.turns import snapshot

pytestmark = pytest.mark.anyio


@pytest.fixture
def box(tmp_path: Path) -> Path:
    """A folder that someone brings."""
    folder = tmp_path / "box"
    folder.mkdir()
    return folder


def put(folder: Path, name: str, content: bytes | object) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else making.json_bytes(content))
    return path


def outcomes(report: ImportReport) -> list[tuple[str, str, str]]:
    return [(entry.kind, entry.entry_id, entry.outcome) for entry in report.imported]


def reasons(report: ImportReport) -> dict[str, str]:
    return {Path(entry.file).name: entry.error.code for entry in report.skipped}


def kept(root: Path, *parts: str) -> Any:
    return json.loads(root.joinpath(*parts).read_bytes())


# --- cards


async def test_a_card_in_a_picture_becomes_a_character_with_all_that_came(
    services: Services, root: Path, box: Path
) -> None:
    card = making.v2_card()
    path = put(box, "whatever.dat", making.card_png(card))
    report = await import_files(services, [path])
    assert outcomes(report) == [("character", "seraphina", "new")]
    assert report.skipped == []
    character = services.stories.character("seraphina")
    assert character.name == "Seraphina"
    assert character.greetings[0] == card["data"]["first_mes"]
    folder = root / "characters" / "seraphina"
    assert kept(folder, "card.json") == card
    assert kept(folder, "lorebook.json") == card["data"]["character_book"]
    assert (folder / "card.png").read_bytes() == path.read_bytes()
    assert not (folder / "card.charx").exists()


async def test_cards_come_in_every_form(services: Services, root: Path, box: Path) -> None:
    put(box, "1.charx", making.charx(making.v3_card(name="Ada"), main=b"picture"))
    put(box, "2.json", making.v1_card(name="Bea"))
    put(box, "3.json", b"\xef\xbb\xbf" + making.json_bytes(making.v3_card(name="Cleo")))
    report = await import_files(services, [box])
    assert [entry.format for entry in report.imported] == ["charx", "card_json", "card_json"]
    assert [entry.entry_id for entry in report.imported] == ["ada", "bea", "cleo"]
    assert (root / "characters" / "ada" / "card.charx").exists()
    assert not (root / "characters" / "bea" / "lorebook.json").exists()


async def test_the_same_card_again_changes_nothing(services: Services, root: Path, box: Path) -> None:
    png = put(box, "a.png", making.card_png(making.v2_card()))
    await import_files(services, [png])
    before = snapshot(root)
    copy = put(box, "b.json", json.dumps(making.v2_card(), indent=3).encode())
    report = await import_files(services, [png, copy])
    assert outcomes(report) == [("character", "seraphina", "same")] * 2
    assert snapshot(root) == before


async def test_another_card_of_the_same_name_gets_an_id_of_its_own(
    services: Services, root: Path, box: Path
) -> None:
    for number in (1, 2, 3):
        put(box, f"{number}.json", making.v2_card(description=f"Somebody else {number}"))
    report = await import_files(services, [box])
    assert [entry.entry_id for entry in report.imported] == ["seraphina", "seraphina_2", "seraphina_3"]
    again = await import_files(services, [box / "3.json"])
    assert outcomes(again) == [("character", "seraphina_3", "same")]


async def test_a_card_replaces_another_one_only_when_asked(services: Services, root: Path, box: Path) -> None:
    await import_files(services, [put(box, "a.png", making.card_png(making.v2_card()))])
    wishes = ImportOptions(overwrite=True)
    fresh = making.v2_card(description="She has changed.", character_book=None)
    report = await import_files(services, [put(box, "b.json", fresh)], wishes)
    assert outcomes(report) == [("character", "seraphina", "replaced")]
    folder = root / "characters" / "seraphina"
    assert "She has changed." in services.stories.character("seraphina").base_persona
    assert kept(folder, "card.json") == fresh
    assert sorted(path.name for path in folder.iterdir()) == ["card.json", "definition.json"]
    assert outcomes(await import_files(services, [box / "b.json"], wishes)) == [
        ("character", "seraphina", "same")
    ]


async def test_a_lorebook_of_ones_own_survives_a_new_card_without_one(
    services: Services, root: Path, box: Path
) -> None:
    await import_files(services, [put(box, "a.json", making.v1_card())])
    book = put(box, "book.json", making.character_book(name="Mine"))
    await import_files(services, [book], ImportOptions(into="seraphina"))
    fresh = put(box, "b.json", making.v1_card(description="Other"))
    await import_files(services, [fresh], ImportOptions(overwrite=True))
    assert kept(root, "characters", "seraphina", "lorebook.json")["name"] == "Mine"


@pytest.mark.parametrize(
    ("name", "file", "expected"),
    [
        ("Zoë O'Neil!", "x.json", "zoe_oneil"),
        ("CON", "x.json", "char_con"),
        ("a" * 200, "x.json", "a" * 48),
        ("../../etc", "x.json", "etc"),
    ],
)
async def test_an_id_is_made_of_the_name(
    services: Services, box: Path, name: str, file: str, expected: str
) -> None:
    report = await import_files(services, [put(box, file, making.v1_card(name=name))])
    assert outcomes(report) == [("character", expected, "new")]
    assert services.stories.character(expected).name == name


async def test_a_name_no_letter_can_tell_gets_an_id_that_stays_the_same(
    services: Services, box: Path
) -> None:
    first = await import_files(services, [put(box, "一.json", making.v1_card(name="青鸾"))])
    [entry] = first.imported
    assert entry.entry_id.startswith("char_")
    other = await import_files(
        services, [put(box, "二.json", making.v1_card(name="青鸾", description="另一个"))]
    )
    assert other.imported[0].entry_id == f"{entry.entry_id}_2"


async def test_an_id_can_be_chosen_for_one_thing_alone(services: Services, root: Path, box: Path) -> None:
    path = put(box, "a.json", making.v1_card())
    report = await import_files(services, [path], ImportOptions(new_id="sera"))
    assert outcomes(report) == [("character", "sera", "new")]
    other = put(box, "b.json", making.v1_card(name="Other"))
    before = snapshot(root)
    taken = await import_files(services, [other], ImportOptions(new_id="sera"))
    assert reasons(taken) == {"b.json": "id_taken"}
    with pytest.raises(UserError) as many:
        await import_files(services, [box], ImportOptions(new_id="fresh"))
    assert many.value.code == "id_for_many"
    with pytest.raises(UserError) as bad:
        await import_files(services, [path], ImportOptions(new_id="../up"))
    assert bad.value.code == "bad_id"
    assert snapshot(root) == before


# --- lorebooks


async def test_a_lorebook_becomes_a_background_of_its_name(services: Services, root: Path, box: Path) -> None:
    book = making.character_book(name="Eldoria")
    world = {"entries": {"0": {"uid": 0, "key": ["sea"], "content": "It is salt."}}, "note": 7}
    put(box, "1.json", book)
    put(box, "The Sea.json", world)
    report = await import_files(services, [box])
    assert outcomes(report) == [("background", "eldoria", "new"), ("background", "the_sea", "new")]
    assert services.stories.background("eldoria").name == "Eldoria"
    assert kept(root, "backgrounds", "eldoria", "lorebook.json") == book
    assert kept(root, "backgrounds", "the_sea", "lorebook.json") == world
    again = await import_files(services, [box])
    assert {entry.outcome for entry in again.imported} == {"same"}


async def test_a_lorebook_is_given_to_someone_and_replaced_only_when_asked(
    services: Services, root: Path, box: Path
) -> None:
    first = put(box, "1.json", making.character_book())
    second = put(box, "2.json", making.character_book(name="Other"))
    wishes = ImportOptions(into="char_maren")
    given = await import_files(services, [first], wishes)
    assert outcomes(given) == [("character", "char_maren", "given")]
    assert "The glade" in given.imported[0].notes[0].message("en")
    assert outcomes(await import_files(services, [first], wishes)) == [("character", "char_maren", "same")]
    assert reasons(await import_files(services, [second], wishes)) == {"2.json": "book_taken"}
    replaced = await import_files(services, [second], ImportOptions(into="char_maren", overwrite=True))
    assert outcomes(replaced) == [("character", "char_maren", "given")]
    assert replaced.imported[0].notes[0].code == "book_exchanged"
    assert kept(root, "characters", "char_maren", "lorebook.json")["name"] == "Other"
    world = await import_files(services, [first], ImportOptions(into="backgrounds/bg_lighthouse"))
    assert outcomes(world) == [("background", "bg_lighthouse", "given")]
    assert services.stories.background("bg_lighthouse").world_setting


@pytest.mark.parametrize("into", ["nobody", "../characters", "characters/bg_lighthouse", "instances/x", ""])
async def test_a_lorebook_for_nobody_is_refused(services: Services, root: Path, box: Path, into: str) -> None:
    path = put(box, "1.json", making.character_book())
    before = snapshot(root)
    report = await import_files(services, [path], ImportOptions(into=into))
    assert reasons(report)["1.json"] in ("no_library_entry", "bad_id")
    assert snapshot(root) == before


# --- many files


async def test_a_bad_file_does_not_keep_the_others_out(services: Services, root: Path, box: Path) -> None:
    put(box, "a.png", making.picture())
    put(box, "b.json", making.v1_card(name="Bea"))
    put(box, "c.jpg", b"\xff\xd8\xff\xe0 JFIF")
    put(box, "d.json", making.v2_card(name=7))
    put(box, "e.json", b"{")
    put(box, "f.charx", making.zip_of({"../card.json": b"{}"}))
    put(box, "g/h/i.json", making.v1_card(name="Ida"))
    put(box, "j.txt", b"")
    put(box, ".hidden.json", making.v1_card(name="Hidden"))
    put(box, ".cache/k.json", making.v1_card(name="Hidden"))
    put(box, "l.json", making.character_book(entries=[{"keys": 7, "content": "x"}]))
    progress: list[tuple[int, int, str]] = []
    report = await import_files(
        services,
        [box, box / "missing.png"],
        on_progress=lambda done, total, name: progress.append((done, total, name)),
    )
    assert [entry.entry_id for entry in report.imported] == ["bea", "ida"]
    assert set(reasons(report)) == {
        "a.png",
        "c.jpg",
        "d.json",
        "e.json",
        "f.charx",
        "j.txt",
        "l.json",
        "missing.png",
    }
    for skipped in report.skipped:
        assert skipped.error.message("zh") != skipped.error.message("en") != ""
    assert "data.name" in str(next(one.error for one in report.skipped if one.file.endswith("d.json")))
    assert [told[0] for told in progress] == sorted(told[0] for told in progress)
    assert progress[-1] == (10, 10, "")
    assert not list((root / "characters").glob(".new-*"))


async def test_a_file_is_brought_once_however_often_it_is_named(services: Services, box: Path) -> None:
    path = put(box, "a.json", making.v1_card())
    report = await import_files(services, [path, box, box / ".." / "box" / "a.json"])
    assert outcomes(report) == [("character", "seraphina", "new")]


def test_more_files_than_can_come_in_at_once_are_refused(box: Path) -> None:
    for number in range(3):
        put(box, f"{number}.json", b"{}")
    assert len(find_files([box], limit=3)) == 3
    with pytest.raises(UserError) as refused:
        find_files([box], limit=2)
    assert refused.value.code == "too_many_files"


async def test_links_are_followed_inside_a_folder_and_not_out_of_it(services: Services, box: Path) -> None:
    outside = put(box.parent, "outside/secret.json", making.v1_card(name="Secret"))
    put(box, "in/a.json", making.v1_card(name="Ada"))
    (box / "out.json").symlink_to(outside)
    (box / "folder").symlink_to(outside.parent)
    (box / "loop").symlink_to(box)
    (box / "z.json").symlink_to(box / "in" / "a.json")
    report = await import_files(services, [box])
    assert [(entry.entry_id, entry.outcome) for entry in report.imported] == [("ada", "new"), ("ada", "same")]
    assert reasons(report) == {"out.json": "link_outside"}
    named = await import_files(services, [box / "out.json"])
    assert [entry.entry_id for entry in named.imported] == ["secret"]


async def test_what_is_no_plain_file_is_not_waited_for(services: Services, box: Path) -> None:
    os.mkfifo(box / "pipe")
    report = await import_files(services, [box])
    assert reasons(report) == {"pipe": "file_unreadable"}
    assert "普通文件" in report.skipped[0].error.message("zh")


async def test_a_file_that_may_not_be_read_is_listed(services: Services, box: Path) -> None:
    path = put(box, "a.json", making.v1_card())
    path.chmod(0)
    if os.access(path, os.R_OK):
        path.unlink()
        path.symlink_to(path)
    report = await import_files(services, [path])
    assert reasons(report) == {"a.json": "file_unreadable"}


async def test_a_character_that_cannot_be_written_is_listed_and_leaves_nothing(
    services: Services, root: Path, box: Path
) -> None:
    path = put(box, "a.json", making.v1_card())
    (root / "characters").rename(root / "elsewhere")
    (root / "characters").write_bytes(b"not a folder")
    before = snapshot(root)
    report = await import_files(services, [path])
    assert reasons(report) == {"a.json": "not_writable"}
    assert snapshot(root) == before


async def test_many_who_bring_the_same_card_make_one_character(
    services: Services, root: Path, box: Path
) -> None:
    path = put(box, "a.json", making.v1_card())
    came: list[str] = []

    def bring() -> None:
        report = asyncio.run(import_files(services, [path]))
        came.extend(entry.outcome for entry in report.imported)

    threads = [threading.Thread(target=bring) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert sorted(came) == ["new"] + ["same"] * 7
    assert len(list((root / "characters").glob("seraphina*"))) == 1


async def test_wishes_nobody_can_fulfil_are_refused_at_once(services: Services, box: Path) -> None:
    with pytest.raises(NotFound):
        await import_files(services, [box], ImportOptions(character="nobody"))
    with pytest.raises(UserError):
        await import_files(services, [box], ImportOptions(character="../x"))


async def test_a_content_at_hand_comes_in_like_a_file(services: Services) -> None:
    report = await import_content(services, "sera.png", making.card_png(making.v2_card()))
    assert outcomes(report) == [("character", "seraphina", "new")]
    refused = await import_content(services, "x.json", b"{}")
    assert reasons(refused) == {"x.json": "format_unknown"}
    assert refused.fields("zh")["skipped"][0]["code"] == "format_unknown"
