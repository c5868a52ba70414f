"""Untouched copies of older shipped templates give way to the current ones; edited ones are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from personalab.services import Services, open_services
from personalab.settings import read_settings
from personalab.storage.seed import EARLIER, SEEDED

OLD = {
    "zh/system_prompt": "",
    "en/post_history_instructions": "\n",
    "zh/progress_instruction": "=== 进度引导指令 ===\n如果剧情推进，请在回复中输出标记：[PROGRESS:X:status]\n",
    "en/progress_instruction": (
        "\ufeff=== Progress instruction ===\r\n"
        "If the story moves on, put a marker into your reply: [PROGRESS:X:status]\r\n"
    ),
}


def _path(root: Path, name: str) -> Path:
    return root / "prompt_templates" / f"{name}.txt"


@pytest.fixture
def old_root(services: Services, root: Path) -> Path:
    """A data root as an earlier version made it."""
    for name, text in OLD.items():
        _path(root, name).write_bytes(text.encode())
    (root / SEEDED).write_bytes(b"")
    return root


def _reopened() -> Services:
    return open_services(read_settings())


def test_untouched_older_templates_are_replaced(old_root: Path) -> None:
    templates = _reopened().preferences
    shipped = read_settings().shipped / "prompt_templates"
    for name in OLD:
        assert _path(old_root, name).read_bytes() == (shipped / f"{name}.txt").read_bytes()
    assert "{{char}}" in templates.templates("zh")[0]["system_prompt"]


def test_edited_templates_are_kept(old_root: Path) -> None:
    _path(old_root, "zh/system_prompt").write_text("我的要求", encoding="utf-8")
    _path(old_root, "en/progress_instruction").write_text(
        OLD["en/progress_instruction"] + "!", encoding="utf-8"
    )
    before = {
        name: _path(old_root, name).read_bytes() for name in ("zh/system_prompt", "en/progress_instruction")
    }
    _reopened()
    assert {name: _path(old_root, name).read_bytes() for name in before} == before


def test_templates_emptied_after_the_update_stay_empty(old_root: Path) -> None:
    _reopened()
    _path(old_root, "zh/system_prompt").write_text("", encoding="utf-8")
    assert _reopened().preferences.templates("zh")[0]["system_prompt"] == ""


def test_templates_emptied_in_a_new_root_stay_empty(services: Services, root: Path) -> None:
    _path(root, "zh/system_prompt").write_text("", encoding="utf-8")
    assert _reopened().preferences.templates("zh")[0]["system_prompt"] == ""


def test_root_that_cannot_be_written_is_still_opened(old_root: Path) -> None:
    (old_root / ".lock").unlink(missing_ok=True)
    (old_root / ".lock").mkdir()
    assert _reopened().preferences.templates("zh")[0]["system_prompt"] == ""


def test_a_root_of_the_second_version_keeps_what_was_emptied(old_root: Path) -> None:
    earlier = EARLIER["en/post_history_instructions"][2]
    _path(old_root, "en/post_history_instructions").write_text(f"{earlier}\n", encoding="utf-8")
    _path(old_root, "zh/post_history_instructions").write_text("", encoding="utf-8")
    (old_root / SEEDED).write_bytes(b"2")
    english, chinese = (
        _reopened().preferences.templates(language)[0]["post_history_instructions"]
        for language in ("en", "zh")
    )
    assert "Stay in character" in english
    assert not chinese
