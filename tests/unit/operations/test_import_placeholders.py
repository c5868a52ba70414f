"""Cards, chats and lorebooks that belong together find each other, whichever comes first."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.archive.foreign_files import called_by_file, file_stem
from personalab.operations.exporting import export_entry
from personalab.operations.import_places import join_stories
from personalab.operations.importing import import_content, import_files
from personalab.operations.imports import Imported, ImportOptions, OnConflict
from personalab.services import Services
from tests.support.archive import making
from tests.support.graph.turns import snapshot
from tests.unit.operations.test_importing_stories import chat

pytestmark = pytest.mark.anyio
SAID = ("Who is there?", "A friend.", "Then come in.")
CHAT = chat(*SAID, character="Seraphina")
CARD = making.json_bytes(making.v2_card())


async def one(services: Services, name: str, content: bytes, **wishes: Any) -> Imported:
    """Import one file and return what it became."""
    report = await import_content(services, name, content, ImportOptions(**wishes))
    assert report.skipped == []
    (entry,) = report.imported
    return entry


def codes(entry: Imported) -> list[str]:
    """Name the notes of an entry."""
    return [note.code for note in entry.notes]


def book(name: str, text: str = "A land of glades.") -> bytes:
    """Make a World Info; SillyTavern names it by its file."""
    entry = {"uid": 0, "key": ["glade"], "content": text, "comment": name}
    return making.json_bytes({"entries": {"0": entry}})


def naming(world: str, **changes: Any) -> bytes:
    """Make a card that names a World Info and brings none."""
    card = making.v2_card(extensions={"world": world}, **changes)
    card["data"].pop("character_book", None)
    return making.json_bytes(card)


# --- a chat before its card


async def test_card_joins_the_chat_that_was_imported_before_it(services: Services) -> None:
    story = await one(services, "a.jsonl", CHAT)
    made = services.stories.instance(story.entry_id).character_id
    card = await one(services, "b.json", CARD)
    assert (card.entry_id, card.outcome, codes(card)) == (made, "joined", ["chats_joined"])
    assert [found.entry_id for found in services.stories.characters()].count(made) == 1
    character, state = services.stories.character(made), services.stories.character_state(story.entry_id)
    assert "guards the forest glade" in character.base_persona
    assert (state.base_persona, state.instructions) == (character.base_persona, character.instructions)
    assert (await one(services, "b.json", CARD)).outcome == "same"
    later = await one(services, "c.jsonl", chat("Again?", character="Seraphina"))
    assert services.stories.instance(later.entry_id).character_id == made


@pytest.mark.parametrize("name", ["seraphina", "Sera", "SERA"])
async def test_card_joins_by_nickname_and_whatever_the_case(services: Services, name: str) -> None:
    story = await one(services, "a.jsonl", chat(*SAID, character=name))
    card = await one(services, "b.json", making.json_bytes(making.v3_card()))
    assert card.outcome == "joined"
    assert services.stories.instance(story.entry_id).character_id == card.entry_id


async def test_evolved_persona_survives_the_joining(services: Services) -> None:
    story = (await one(services, "a.jsonl", CHAT)).entry_id
    state = services.stories.character_state(story)
    services.stories.save_character_state(story, replace(state, evolved_persona="She trusts you now."))
    await one(services, "b.json", CARD)
    assert services.stories.character_state(story).evolved_persona == "She trusts you now."


async def test_character_that_someone_has_written_is_not_replaced(services: Services) -> None:
    story = (await one(services, "a.jsonl", CHAT)).entry_id
    made = services.stories.character(services.stories.instance(story).character_id)
    services.stories.save_character(replace(made, base_persona="My own Seraphina."))
    card = await one(services, "b.json", CARD)
    assert (card.outcome, card.entry_id) == ("new", f"{made.character_id}_2")
    assert services.stories.character(made.character_id).base_persona == "My own Seraphina."


async def test_ambiguous_names_are_left_alone_and_named(services: Services, root: Path) -> None:
    story = (await one(services, "a.jsonl", CHAT)).entry_id
    made = services.stories.character(services.stories.instance(story).character_id)
    services.stories.save_character(replace(made, character_id="twin", base_persona="Another one."))
    before = snapshot(root / "characters")
    card = await one(services, "b.json", CARD)
    assert (card.outcome, codes(card)) == ("new", ["chats_ambiguous"])
    assert "seraphina, twin" in card.notes[0].message("en")
    after = snapshot(root / "characters")
    assert {path: text for path, text in after.items() if card.entry_id not in path.split("/")} == before


async def test_story_in_use_gets_the_persona_with_the_next_import(services: Services) -> None:
    hurried = replace(services, settings=replace(services.settings, busy_seconds=0.01))
    story = (await one(services, "a.jsonl", CHAT)).entry_id
    async with services.leases.holding(story, "turn", wait=1):
        card = await one(hurried, "b.json", CARD)
    assert (card.outcome, codes(card)) == ("joined", ["chat_not_joined"])
    again = await one(services, "b.json", CARD)
    assert (again.outcome, codes(again)) == ("same", ["chats_joined"])
    report = await import_content(services, "b.json", CARD)
    await join_stories(services, report)
    assert codes(report.imported[0]) == []


# --- a card with an id of ours


async def exported(services: Services, entry_id: str, **changes: Any) -> bytes:
    """Export a character as a card and change the card's fields elsewhere."""
    raw = b"".join((await export_entry(services, entry_id, "card-json")).chunks)
    card = json.loads(raw)
    card["data"] |= changes
    return making.json_bytes(card)


async def test_unchanged_export_is_recognised(services: Services, root: Path) -> None:
    await one(services, "a.json", CARD)
    card = await exported(services, "seraphina")
    before = snapshot(root)
    entry = await one(services, "other name.json", card)
    assert (entry.entry_id, entry.outcome, entry.options) == ("seraphina", "same", ())
    assert snapshot(root) == before


@pytest.mark.parametrize("choice", [None, "skip"])
async def test_changed_export_changes_nothing_unasked(
    services: Services, root: Path, choice: OnConflict | None
) -> None:
    await one(services, "a.json", CARD)
    card = await exported(services, "seraphina", description="Changed elsewhere.")
    mine = replace(services.stories.character("seraphina"), base_persona="My own words.")
    services.stories.save_character(mine)
    before = snapshot(root)
    entry = await one(services, "b.json", card, on_conflict=choice)
    assert (entry.entry_id, entry.outcome) == ("seraphina", "exists")
    assert entry.options == (() if choice else ("update", "copy", "skip"))
    assert entry.notes[0].message("zh")
    assert snapshot(root) == before


async def test_changed_export_updates_or_copies_when_asked(services: Services) -> None:
    await one(services, "a.json", CARD)
    card = await exported(services, "seraphina", description="Changed elsewhere.", name="Sera the Second")
    copied = await one(services, "b.json", card, on_conflict="copy")
    assert (copied.outcome, copied.entry_id) == ("new", "sera_the_second")
    updated = await one(services, "b.json", card, on_conflict="update")
    assert updated.outcome == "same", "the copy is the same card"
    other = await exported(services, "seraphina", description="Changed again.")
    updated = await one(services, "b.json", other, on_conflict="update")
    assert (updated.outcome, updated.entry_id) == ("replaced", "seraphina")
    assert "Changed again." in services.stories.character("seraphina").base_persona


# --- the world that a card names


async def test_missing_world_is_asked_for_and_linked_when_it_comes(services: Services, root: Path) -> None:
    card = await one(services, "a.json", naming("Eldoria"))
    assert card.world is not None
    assert (card.world.name, card.world.status, codes(card)) == ("Eldoria", "missing", ["world_missing"])
    assert "Eldoria" in card.notes[0].message("en")
    arrived = await one(services, "Eldoria.json", book("x"))
    assert codes(arrived) == ["world_given"]
    given = root / "characters" / card.entry_id / "lorebook.json"
    assert given.read_bytes() == book("x")
    books, _ = services.lorebooks.of(card.entry_id, arrived.entry_id)
    assert len(books) == 1, "the same book of character and background counts once"


async def test_world_in_the_library_is_linked(services: Services, root: Path) -> None:
    arrived = await one(services, "Eldoria.json", book("x"))
    card = await one(services, "a.json", naming("eldoria"))
    assert card.world is not None
    assert (card.world.status, card.world.background_ids) == ("linked", (arrived.entry_id,))
    assert (root / "characters" / card.entry_id / "lorebook.json").is_file()


async def test_world_of_the_same_batch_is_linked_whichever_comes_first(
    services: Services, tmp_path: Path
) -> None:
    folder = tmp_path / "box"
    folder.mkdir()
    (folder / "a.json").write_bytes(naming("Eldoria"))
    (folder / "Eldoria.json").write_bytes(book("x"))
    (folder / "z.json").write_bytes(naming("Eldoria", name="Kai"))
    report = await import_files(services, [folder])
    worlds = [entry.world.status for entry in report.imported if entry.world is not None]
    assert worlds == ["linked", "linked"]


async def test_own_lorebook_is_never_replaced_by_a_named_world(services: Services, root: Path) -> None:
    own = making.character_book(name="Mine")
    card = making.v2_card(extensions={"world": "Eldoria"}, character_book=own)
    entry = await one(services, "a.json", making.json_bytes(card))
    kept = (root / "characters" / entry.entry_id / "lorebook.json").read_bytes()
    arrived = await one(services, "Eldoria.json", book("x"))
    assert (entry.world, codes(arrived)) == (None, [])
    assert (root / "characters" / entry.entry_id / "lorebook.json").read_bytes() == kept


async def test_several_worlds_of_a_name_are_left_to_the_person(services: Services) -> None:
    ids = {(await one(services, "Eldoria.json", book("x", text))).entry_id for text in ("one", "two")}
    card = await one(services, "a.json", naming("Eldoria"))
    assert card.world is not None
    assert (card.world.status, set(card.world.background_ids)) == ("ambiguous", ids)


# --- the file name of a World Info


async def test_world_info_is_exported_under_the_name_of_the_book(services: Services) -> None:
    arrived = await one(services, "北方 的灯塔.json", book("x"))
    out = await export_entry(services, arrived.entry_id, "world-info")
    assert out.name == "北方 的灯塔.json"
    assert (await one(services, out.name, b"".join(out.chunks))).outcome == "same"
    assert (await export_entry(services, arrived.entry_id, "lorebook")).name.endswith(".lorebook.json")


@given(st.text(max_size=300))
def test_any_book_name_makes_a_portable_file_name(name: str) -> None:
    stem = file_stem(name, "bg_x")
    assert stem
    assert not set(stem) & set('/\\:*?"<>|\0')
    assert stem == stem.strip()
    assert not stem.startswith(".")
    assert not stem.endswith(".")
    assert stem.isprintable()
    assert len(f"{stem}.json".encode()) <= 255
    assert file_stem(stem, "bg_x") == stem


@pytest.mark.parametrize(
    ("name", "stem"), [("CON", "_CON"), ("a/b: c?", "a_b_ c_"), ("..", "bg_x"), ("St. Ives", "St. Ives")]
)
def test_names_that_a_system_reserves_are_changed(name: str, stem: str) -> None:
    assert file_stem(name, "bg_x") == stem
    assert called_by_file(f"{stem}.json") == stem
