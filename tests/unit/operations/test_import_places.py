"""What comes in finds its place: the same again changes nothing, and nobody takes a stranger's place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from personalab.data_files import dump_json
from personalab.operations.exporting import ExportFormat, export_entry
from personalab.operations.importing import import_content, import_files
from personalab.operations.imports import ImportOptions, ImportReport
from personalab.services import Services, open_services
from personalab.settings import read_settings
from tests.support.archive import making
from tests.support.graph.turns import snapshot

pytestmark = pytest.mark.anyio
OVERWRITE = ImportOptions(overwrite=True)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Services:
    """Another data root."""
    return open_services(read_settings({"PERSONALAB_DATA": str(tmp_path / "elsewhere")}))


def card(name: str, **changes: Any) -> bytes:
    return making.json_bytes(making.chinese_card(name=name, **changes))


def settled(report: ImportReport) -> tuple[str, str]:
    assert report.skipped == []
    [entry] = report.imported
    return entry.entry_id, entry.outcome


async def exported(
    services: Services, entry_id: str, format: ExportFormat | None = None, **more: Any
) -> tuple[str, bytes]:
    found = await export_entry(services, entry_id, format, **more)
    return found.name, b"".join(found.chunks)


# --- whose place is taken


async def test_a_stranger_is_never_replaced_whatever_the_files_are_called(
    services: Services, tmp_path: Path
) -> None:
    for folder, name in (("a", "李白"), ("b", "杜甫")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "card_v2.png").write_bytes(making.card_png(making.chinese_card(name=name)))
    first, _ = settled(await import_files(services, [tmp_path / "a"]))
    second, outcome = settled(await import_files(services, [tmp_path / "b" / "card_v2.png"], OVERWRITE))
    assert outcome == "new"
    assert services.stories.character(first).name == "李白"
    assert services.stories.character(second).name == "杜甫"


async def test_of_those_that_share_an_id_the_namesake_is_replaced(services: Services) -> None:
    ids = [settled(await import_content(services, None, card(name)))[0] for name in ("Ann!", "Ann?")]
    assert ids == ["ann", "ann_2"]
    fresh = await import_content(services, None, card("Ann?", description="新的人。"), OVERWRITE)
    assert settled(fresh) == ("ann_2", "replaced")
    assert settled(await import_content(services, None, card("Ann."), OVERWRITE)) == ("ann_3", "new")
    chosen = ImportOptions(overwrite=True, new_id="ann")
    assert settled(await import_content(services, None, card("Ann."), chosen)) == ("ann", "replaced")


async def test_a_world_of_another_name_is_never_replaced(services: Services) -> None:
    def world(name: str) -> bytes:
        return making.json_bytes(making.character_book(name=name))

    assert settled(await import_content(services, None, world("The Sea"))) == ("the_sea", "new")
    other = await import_content(services, None, world("The Sea!"), OVERWRITE)
    assert settled(other) == ("the_sea_2", "new")
    changed = making.json_bytes(making.character_book(name="The Sea", scan_depth=9))
    assert settled(await import_content(services, None, changed, OVERWRITE)) == ("the_sea", "replaced")


async def test_a_world_with_its_outline_leaves_and_comes_home(
    services: Services, elsewhere: Services
) -> None:
    name, out = await exported(services, "bg_lighthouse")
    assert name == "bg_lighthouse.background.json"
    assert settled(await import_content(services, name, out)) == ("bg_lighthouse", "same")
    assert settled(await import_content(elsewhere, name, out, ImportOptions(new_id="rock"))) == (
        "rock",
        "new",
    )
    there, here = elsewhere.stories.background("rock"), services.stories.background("bg_lighthouse")
    assert (there.name, there.world_setting, there.story_outline) == (
        here.name,
        here.world_setting,
        here.story_outline,
    )


async def test_a_world_that_was_changed_elsewhere_replaces_only_when_asked(services: Services) -> None:
    _, out = await exported(services, "bg_lighthouse")
    book = making.json_bytes(making.character_book(name="Eldoria"))
    await import_content(services, None, book, ImportOptions(into="bg_lighthouse"))
    changed = making.json_bytes({**json.loads(out), "world_setting": "Fog."})
    assert settled(await import_content(services, None, changed)) == ("the_skerry_light", "new")
    assert settled(await import_content(services, None, changed, OVERWRITE))[1] == "same"
    chosen = ImportOptions(overwrite=True, new_id="bg_lighthouse")
    assert settled(await import_content(services, None, changed, chosen)) == ("bg_lighthouse", "replaced")
    assert services.stories.background("bg_lighthouse").world_setting == "Fog."
    assert services.stories.beside("backgrounds", "bg_lighthouse", "lorebook.json").read_bytes() == book


@pytest.mark.parametrize("name", ["", "   ", "Fog "])
async def test_a_world_is_known_again_whatever_else_it_says_and_however_it_is_called(
    services: Services, root: Path, name: str
) -> None:
    world = making.json_bytes({"name": name, "world_setting": "Fog.", "description": "of ours"})
    assert settled(await import_content(services, "fog.json", world)) == ("fog", "new")
    assert services.stories.background("fog").name.lower() == "fog"
    before = snapshot(root)
    assert settled(await import_content(services, "fog.json", world)) == ("fog", "same")
    assert snapshot(root) == before


@pytest.mark.parametrize(
    "changes",
    [
        {"world_setting": " ", "story_outline": []},
        {"world_setting": 3},
        {"world_setting": "x" * 200_001},
        {"name": "x" * 201},
        {"story_outline": {}},
        {"story_outline": ["a point"]},
        {"story_outline": [{"content": "x" * 10_001}]},
        {"story_outline": [{"content": "x"}] * 201},
    ],
)
async def test_a_world_that_cannot_be_used_is_refused_and_leaves_nothing(
    services: Services, root: Path, changes: dict[str, object]
) -> None:
    before = snapshot(root)
    world: dict[str, object] = {"name": "Fog", "world_setting": "Fog.", "story_outline": [], **changes}
    report = await import_content(services, None, making.json_bytes(world))
    assert [skipped.error.code for skipped in report.skipped] == ["field_wrong"]
    assert snapshot(root) == before


# --- the same again


async def test_a_card_is_known_again_whatever_its_file_and_its_id(services: Services, root: Path) -> None:
    raw = card("李白")
    entry_id, _ = settled(await import_content(services, "card_v2.json", raw))
    sera, _ = settled(await import_content(services, None, card("Sera"), ImportOptions(new_id="old_friend")))
    before = snapshot(root)
    for name in ("renamed.json", "李白.json", None):
        assert settled(await import_content(services, name, raw)) == (entry_id, "same")
    assert settled(await import_content(services, None, card("Sera"))) == (sera, "same")
    assert snapshot(root) == before


async def test_a_card_is_known_behind_a_gap_among_the_numbers(services: Services, root: Path) -> None:
    for text in ("一", "二", "三"):
        await import_content(services, None, card("Ann", description=text))
    (root / "characters" / "ann_2").rename(root / "elsewhere")
    again = await import_content(services, None, card("Ann", description="三"))
    assert settled(again) == ("ann_3", "same")


async def test_nothing_is_called_by_a_name_nobody_gave(services: Services, root: Path) -> None:
    world = making.json_bytes({"entries": {"0": {"uid": 0, "key": ["sea"], "content": "Salt."}}})
    entry_id, _ = settled(await import_content(services, None, world))
    assert entry_id.startswith("bg_")
    assert services.stories.background(entry_id).name == entry_id
    assert settled(await import_content(services, "named.json", world)) == (entry_id, "same")
    before = snapshot(root)
    chat = making.json_bytes({"mes": "Hi"})
    report = await import_content(services, None, chat)
    assert [skipped.error.code for skipped in report.skipped] == ["chat_nameless"]
    assert snapshot(root) == before
    wishes = ImportOptions(character="char_maren")
    assert settled(await import_content(services, None, chat, wishes))[1] == "new"


async def test_a_book_that_was_given_to_a_world_becomes_one_of_its_own(services: Services) -> None:
    book = making.json_bytes(making.character_book(name="Eldoria"))
    given = await import_content(services, None, book, ImportOptions(into="bg_lighthouse"))
    assert settled(given) == ("bg_lighthouse", "given")
    assert settled(await import_content(services, None, book)) == ("eldoria", "new")


# --- what left comes home


@pytest.mark.parametrize("format", ["card-png", "card-json", "charx"])
async def test_a_card_that_left_comes_home_to_its_own_character(
    services: Services, elsewhere: Services, root: Path, format: ExportFormat
) -> None:
    name, out = await exported(services, "char_maren", format)
    before = snapshot(root)
    assert settled(await import_content(services, name, out)) == ("char_maren", "same")
    assert settled(await import_content(services, name, out, OVERWRITE)) == ("char_maren", "same")
    assert snapshot(root) == before
    definition = services.stories.character("char_maren").fields()
    (elsewhere.stories.root / "characters" / "char_maren").rename(elsewhere.stories.root / "gone")
    assert settled(await import_content(elsewhere, name, out)) == ("char_maren", "new")
    assert elsewhere.stories.character("char_maren").fields() == definition


async def test_an_id_that_is_someone_elses_there_is_left_to_them(
    services: Services, elsewhere: Services
) -> None:
    name, out = await exported(services, "char_maren", "card-json")
    path = elsewhere.stories.root / "characters" / "char_maren" / "definition.json"
    path.write_bytes(dump_json({**json.loads(path.read_bytes()), "name": "Somebody else"}))
    assert settled(await import_content(elsewhere, name, out, OVERWRITE)) == ("maren", "new")
    assert elsewhere.stories.character("char_maren").name == "Somebody else"


async def test_a_card_that_was_edited_here_is_known_when_it_comes_home(
    services: Services, root: Path
) -> None:
    await import_content(services, "a.png", making.card_png(making.v2_card()))
    path = root / "characters" / "seraphina" / "definition.json"
    path.write_bytes(dump_json({**json.loads(path.read_bytes()), "base_persona": "She has changed."}))
    name, out = await exported(services, "seraphina", "card-png")
    before = snapshot(root)
    assert settled(await import_content(services, name, out)) == ("seraphina", "same")
    notes = making.v2_card(creator_notes="Other notes, the same character.")
    assert settled(await import_content(services, None, making.json_bytes(notes))) == ("seraphina_2", "new")
    assert {path: text for path, text in snapshot(root).items() if "seraphina_2" not in str(path)} == before


@pytest.mark.parametrize("format", ["lorebook", "world-info"])
async def test_a_world_keeps_its_name_on_the_way(
    services: Services, elsewhere: Services, format: ExportFormat
) -> None:
    world = {"entries": {"0": {"uid": 0, "key": ["sea"], "content": "Salt."}}}
    await import_content(services, "Eldoria Isles.json", making.json_bytes(world))
    name, out = await exported(services, "eldoria_isles", format)
    assert settled(await import_content(services, name, out)) == ("eldoria_isles", "same")
    assert settled(await import_content(elsewhere, name, out)) == ("eldoria_isles", "new")
    assert elsewhere.stories.background("eldoria_isles").name == "Eldoria Isles"
    bare = making.json_bytes({**world, "mine": 1})
    assert settled(await import_content(elsewhere, f"north.{format}.json", bare)) == ("north", "new")


# --- what says nothing


@pytest.mark.parametrize(
    ("value", "code", "word"),
    [
        ({"name": "Bo", "description": " ", "scenario": ""}, "card_blank", "description"),
        ({"data": {"name": "Bo", "first_mes": ""}}, "card_blank", "first_mes"),
        ({"entries": [{"text": "Salt.", "keys": ["sea"]}]}, "book_blank", "content"),
        ({"entries": [{"content": "Salt.", "keywords": ["sea"]}]}, "book_blank", "keys"),
        ({"entries": {"0": {"entry": "Salt.", "keywords": ["sea"]}}}, "book_blank", "content"),
    ],
    ids=["card", "inner card", "text", "keywords", "entry"],
)
async def test_what_would_lose_all_it_says_is_refused_by_what_it_lacks(
    services: Services, root: Path, value: object, code: str, word: str
) -> None:
    before = snapshot(root)
    [skipped] = (await import_content(services, "a.json", making.json_bytes(value))).skipped
    assert skipped.error.code == code
    assert word in skipped.error.message("zh")
    assert word in skipped.error.message("en")
    assert snapshot(root) == before


async def test_a_book_of_constants_and_an_empty_one_come_in(services: Services) -> None:
    always = making.character_book(entries=[{"content": "Salt.", "constant": True}])
    told = making.character_book(name="Told", entries=[{"content": "@@activate\nSalt."}])
    for book in (always, told, making.character_book(name="Empty", entries=[])):
        assert settled(await import_content(services, None, making.json_bytes(book)))[1] == "new"
