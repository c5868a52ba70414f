"""Settings are read again when their files change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from personalab.storage import preferences
from personalab.storage.preferences import PreferenceFiles


def test_language_is_known_until_its_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        preferences, "_SETTLED_NS", -(10**12)
    )  # a file that was just written counts as settled
    files, path = PreferenceFiles(tmp_path, tmp_path), tmp_path / "config.json"
    assert (files.language(), files.known_language()) == ("zh", None)
    for language in ("en", "zh"):
        path.write_text(json.dumps({"preferences": {"language": language}}), encoding="utf-8")
        assert (files.known_language(), files.language(), files.known_language()) == (
            None,
            language,
            language,
        )
    path.write_text("{", encoding="utf-8")
    assert (files.known_language(), files.language(), files.known_language()) == (None, "zh", None)


def test_language_of_a_file_that_was_just_written_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"preferences": {"language": "en"}}', encoding="utf-8")
    files = PreferenceFiles(tmp_path, tmp_path)
    assert (files.language(), files.known_language()) == ("en", None)
