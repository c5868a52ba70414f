"""The environment, the data root and what it is filled with."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from personalab.errors import UserError
from personalab.services import Services, open_services
from personalab.settings import read_settings
from personalab.storage.seed import VERSION
from personalab.story.records import Background, Character, InstanceState
from tests.support.graph.turns import snapshot

PROJECT = Path(__file__).parents[2]


def test_the_environment_decides_root_model_and_embeddings(tmp_path: Path) -> None:
    plain = read_settings({"PERSONALAB_DATA": str(tmp_path)})
    assert (plain.data_root, plain.model, plain.embeddings) == (tmp_path, "rehearsal", "offline")
    for given in ({"OPENAI_API_KEY": "sk-x"}, {"OPENAI_BASE_URL": "http://127.0.0.1:1"}):
        assert read_settings({"PERSONALAB_DATA": str(tmp_path), **given}).model.startswith("openai:")
    named = read_settings(
        {"PERSONALAB_MODEL": "openai:x", "OPENAI_API_KEY": "sk-x", "PERSONALAB_EMBEDDINGS": "openai:y"}
    )
    assert (named.model, named.embeddings) == ("openai:x", "openai:y")
    assert "sk-x" not in repr(named)
    assert read_settings({}).data_root == PROJECT / "data"


@pytest.mark.parametrize("effort", ["off", "low", "medium", "high"])
def test_reasoning_effort_is_read_from_the_environment(effort: str) -> None:
    assert read_settings({"PERSONALAB_REASONING": effort}).reasoning == effort
    assert read_settings({"PERSONALAB_REASONING": " "}).reasoning is None


def test_unknown_reasoning_effort_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError) as caught:
        read_settings({"PERSONALAB_REASONING": "a lot"})
    assert "off, low, medium, high" in caught.value.message("en")


@pytest.mark.parametrize("seconds", ["soon", "-1", "99999"])
def test_a_waiting_time_that_is_none_is_refused(seconds: str) -> None:
    with pytest.raises(UserError) as caught:
        read_settings({"PERSONALAB_BUSY_SECONDS": seconds})
    assert seconds in str(caught.value)


def test_a_dotenv_file_stands_behind_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "copy"
    kept_out = shutil.ignore_patterns("vocab", "vectors", "__pycache__")
    shutil.copytree(PROJECT / "personalab", copy / "personalab", ignore=kept_out)
    (copy / "pyproject.toml").touch()
    (copy / "data" / "shipped").mkdir(parents=True)
    (copy / ".env").write_text(
        "PERSONALAB_MODEL=openai:from-file\nPERSONALAB_DATA=/elsewhere\n", encoding="utf-8"
    )
    monkeypatch.delenv("PERSONALAB_MODEL")
    code = "from personalab.settings import read_settings as r; s = r(); print(s.model, s.data_root)"
    done = subprocess.run([sys.executable, "-c", code], cwd=copy, capture_output=True, text=True, check=True)
    model, root = done.stdout.split()
    assert model == "openai:from-file"
    assert root != "/elsewhere", "what the environment says comes first"


def test_only_settings_reads_the_environment() -> None:
    readers = [
        path.relative_to(PROJECT).as_posix()
        for folder in ("personalab", "nodes", "graph", "mcp_server")
        for path in (PROJECT / folder).rglob("*.py")
        if re.search(r"\benviron\b|getenv\(|getproxies", path.read_text(encoding="utf-8"))
    ]
    # The fake stands for a program of its own, which is told by its environment what to do.
    assert sorted(readers) == ["personalab/settings.py", "personalab/testing/fake_claude.py"]


def test_a_new_data_root_is_filled_with_the_samples_and_another_left_alone(root: Path) -> None:
    settings = read_settings({"PERSONALAB_DATA": str(root)})
    open_services(settings)
    shipped = snapshot(settings.shipped)
    assert snapshot(root) == {**shipped, ".seeded": str(VERSION).encode()}
    (root / "config.json").unlink()
    before = snapshot(root)
    open_services(settings)
    assert snapshot(root) == before


def test_an_empty_folder_that_exists_is_filled_too(root: Path) -> None:
    root.mkdir()
    open_services(read_settings({"PERSONALAB_DATA": str(root)}))
    assert (root / "characters" / "char_alserqi" / "definition.json").is_file()


def test_the_samples_are_two_stories_in_two_languages(services: Services) -> None:
    characters = [found.record for found in services.stories.characters()]
    assert {found.language for found in characters if isinstance(found, Character)} == {"zh", "en"}
    backgrounds = [found.record for found in services.stories.backgrounds()]
    assert len(backgrounds) == 2
    for background in backgrounds:
        assert isinstance(background, Background)
        assert len(background.story_outline) >= 5
        assert background.world_setting


def test_a_library_with_a_broken_entry_lists_the_others(
    services: Services, root: Path, instance: str
) -> None:
    (root / "instances" / "bad").mkdir()
    (root / "instances" / "worse").mkdir()
    (root / "instances" / "worse" / "instance_state.json").write_text("[1]", encoding="utf-8")
    (root / "instances" / "not an id").mkdir()
    listed = services.stories.all_instances()
    assert [(found.entry_id, isinstance(found.record, InstanceState)) for found in listed] == [
        ("bad", False),
        (instance, True),
        ("worse", False),
    ]
    assert all(found.error for found in listed if found.record is None)
