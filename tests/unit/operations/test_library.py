"""Writing characters and backgrounds: whole or not at all, never over another one by accident."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from personalab.errors import PersonaLabError, StorageError, UserError
from personalab.operations.instances import new_instance
from personalab.operations.library import save_background, save_character
from personalab.services import Services
from tests.support.graph.turns import snapshot

pytestmark = pytest.mark.anyio


async def test_a_new_character_and_world_can_be_played_at_once(services: Services, root: Path) -> None:
    saved = await save_character(services, "nora", name="Nora", base_persona="A diver.", language="en")
    world = await save_background(
        services, "reef", name="The reef", world_setting="Warm water.", story_outline=["Dive", "Rise"]
    )
    assert saved.created
    assert world.created
    state = await new_instance(services, "nora", "reef")
    assert state.background_id == "reef"
    written = json.loads((root / "backgrounds" / "reef" / "background.json").read_text(encoding="utf-8"))
    assert [point["index"] for point in written["story_outline"]] == [1, 2]


async def test_what_exists_is_changed_only_when_asked_and_only_in_what_is_given(
    services: Services, root: Path
) -> None:
    path = root / "characters" / "char_maren" / "definition.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), "mine": 7}), encoding="utf-8")
    before = snapshot(root)
    with pytest.raises(UserError, match="replace"):
        await save_character(services, "char_maren", base_persona="Somebody else.")
    assert snapshot(root) == before
    old = services.stories.character("char_maren")
    saved = await save_character(services, "char_maren", name="Maren H.", overwrite=True)
    assert not saved.created
    found = json.loads(path.read_text(encoding="utf-8"))
    assert (found["name"], found["base_persona"], found["mine"]) == ("Maren H.", old.base_persona, 7)
    world = await save_background(services, "bg_wasteland", story_outline=["one"], overwrite=True)
    assert [point.content for point in world.entry.story_outline] == ["one"]
    assert world.entry.world_setting


@pytest.mark.parametrize(
    "given",
    [
        {"character_id": "../x", "base_persona": "x"},
        {"character_id": "con", "base_persona": "x"},
        {"character_id": "fine"},
        {"character_id": "fine", "base_persona": "  "},
        {"character_id": "fine", "base_persona": "x" * 200_001},
        {"character_id": "fine", "base_persona": "x", "name": "n" * 201},
    ],
)
async def test_a_character_that_cannot_be_is_refused_and_leaves_nothing(
    services: Services, root: Path, given: dict[str, Any]
) -> None:
    before = snapshot(root)
    with pytest.raises(UserError):
        await save_character(services, **given)
    assert snapshot(root) == before


@pytest.mark.parametrize("outline", [["x"] * 201, ["x" * 10_001], ["  "]])
async def test_an_outline_that_cannot_be_is_refused(
    services: Services, root: Path, outline: list[str]
) -> None:
    before = snapshot(root)
    with pytest.raises(UserError):
        await save_background(services, "fine", world_setting="x", story_outline=outline)
    assert snapshot(root) == before


async def test_a_character_that_cannot_be_written_leaves_nothing(services: Services, root: Path) -> None:
    (root / "characters").chmod(0o555)
    if os.geteuid() == 0:
        folder = root / "characters"
        for path in sorted(folder.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        folder.rmdir()
        folder.write_text("not a folder")
    before = snapshot(root)
    with pytest.raises(StorageError):
        await save_character(services, "fine", base_persona="x")
    assert snapshot(root) == before


async def test_many_writers_of_one_character_take_turns(services: Services, root: Path) -> None:
    made: list[bool] = []
    refused: list[PersonaLabError] = []

    def write(number: int) -> None:
        try:
            saved = asyncio.run(save_character(services, "nora", base_persona=f"Nora {number}"))
            made.append(saved.created)
        except PersonaLabError as error:
            refused.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert made == [True]
    assert {error.code for error in refused} == {"entry_exists"}
    assert not list((root / "characters").glob(".new-*"))


async def test_greetings_and_a_language_are_changed_only_where_they_are_given(
    services: Services, root: Path
) -> None:
    await save_character(
        services, "nora", base_persona="A diver.", language="en", greetings=["Hello.", "You again?"]
    )
    kept = await save_character(services, "nora", name="Nora", overwrite=True)
    assert (kept.entry.greetings, kept.entry.language) == (("Hello.", "You again?"), "en")
    bare = await save_character(services, "nora", language="", greetings=[], overwrite=True)
    assert (bare.entry.greetings, bare.entry.language) == ((), None)
    written = json.loads((root / "characters" / "nora" / "definition.json").read_text(encoding="utf-8"))
    assert "language" not in written
    with pytest.raises(UserError):
        await save_character(services, "nora", greetings=[" "], overwrite=True)
