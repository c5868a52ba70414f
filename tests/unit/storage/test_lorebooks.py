"""Lorebooks beside characters and backgrounds: read once, and again when their files change."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from personalab.errors import UserError
from personalab.services import Services
from personalab.storage.lorebooks import LorebookFiles
from personalab.storage.stories import StoryFiles
from personalab.story.lore import Lorebook

LONG_AGO = 1_000_000_000


@pytest.fixture
def stories(tmp_path: Path) -> StoryFiles:
    return StoryFiles(tmp_path)


def _put(stories: StoryFiles, kind: Any, entry_id: str, content: bytes | dict[str, Any]) -> Path:
    path = stories.beside(kind, entry_id, "lorebook.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = content if isinstance(content, bytes) else json.dumps(content).encode("utf-8")
    path.write_bytes(raw)
    return path


def _book(name: str) -> dict[str, Any]:
    return {"name": name, "entries": [{"keys": ["k"], "content": name}]}


def _names(books: tuple[Lorebook, ...]) -> list[str]:
    return [book.name for book in books]


def test_a_story_has_the_books_of_its_character_and_of_its_background(stories: StoryFiles) -> None:
    _put(stories, "characters", "ally", _book("hers"))
    _put(stories, "backgrounds", "sea", {"entries": {"0": {"key": ["k"], "content": "c"}}})
    files = LorebookFiles(stories)
    assert _names(files.of("ally", "sea")[0]) == ["hers", "sea"]
    assert _names(files.of("ally", None)[0]) == ["hers"]


def test_whether_there_is_a_book_at_all_is_told_without_reading_it(services: Services, root: Path) -> None:
    place = ("char_maren", "bg_lighthouse")
    assert not services.lorebooks.has_any(*place)
    assert not services.lorebooks.has_any("char_maren", None)
    (root / "backgrounds" / "bg_lighthouse" / "lorebook.json").write_text("broken", encoding="utf-8")
    assert services.lorebooks.has_any(*place)
    assert not services.lorebooks.has_any("char_maren", None)


def test_where_there_is_no_book_there_is_nothing_to_tell(stories: StoryFiles) -> None:
    (stories.root / "characters" / "ally").mkdir(parents=True)
    assert LorebookFiles(stories).of("ally", "nowhere") == ((), [])


def test_a_book_is_read_once_until_its_file_changes(stories: StoryFiles) -> None:
    path = _put(stories, "characters", "ally", _book("one"))
    files = LorebookFiles(stories)
    [first], _ = files.of("ally", None)
    [again], _ = files.of("ally", None)
    assert again is first
    path.write_text(json.dumps(_book("two")), encoding="utf-8")
    assert _names(files.of("ally", None)[0]) == ["two"]


def test_a_change_is_seen_though_size_and_time_stay_the_same(stories: StoryFiles) -> None:
    path = _put(stories, "characters", "ally", _book("one"))
    os.utime(path, ns=(LONG_AGO, LONG_AGO))
    files = LorebookFiles(stories)
    files.of("ally", None)
    path.write_text(json.dumps(_book("two")), encoding="utf-8")
    os.utime(path, ns=(LONG_AGO, LONG_AGO))
    assert _names(files.of("ally", None)[0]) == ["two"]


def test_a_book_that_was_taken_away_is_gone(stories: StoryFiles) -> None:
    path = _put(stories, "characters", "ally", _book("one"))
    files = LorebookFiles(stories)
    files.of("ally", None)
    path.unlink()
    assert files.of("ally", None) == ((), [])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"{", "JSON"),
        (b"\xff\xfe", "UTF-8"),
        (b'{"entries": [{"keys": 5}]}', "entries[0].keys"),
        (b"[" * 90 + b"]" * 90, "nested"),
        (b" " * (16 * 1024 * 1024 + 1), "16777217 bytes"),
    ],
    ids=["cut-off", "not-utf8", "wrong-field", "too-deep", "too-large"],
)
def test_a_book_that_cannot_be_read_is_told_and_the_other_one_still_counts(
    stories: StoryFiles, content: bytes, told: str
) -> None:
    _put(stories, "characters", "ally", content)
    _put(stories, "backgrounds", "sea", _book("sea"))
    files = LorebookFiles(stories)
    for _ in range(2):
        books, [notice] = files.of("ally", "sea")
        assert _names(books) == ["sea"]
        assert notice.category == "lorebook_unreadable"
        assert notice.params["file"] == "characters/ally/lorebook.json"
        assert told in str(notice.params["reason"])
        assert "characters/ally/lorebook.json" in notice.event(1, "zh")["message"]


def test_what_is_no_plain_file_is_told_and_does_not_block(stories: StoryFiles) -> None:
    for name, make in (("folder", os.mkdir), ("pipe", os.mkfifo)):
        path = stories.beside("characters", name, "lorebook.json")
        path.parent.mkdir(parents=True)
        make(path)
        books, [notice] = LorebookFiles(stories).of(name, None)
        assert books == ()
        assert str(notice.params["reason"]) in ("it is not a plain file", "Is a directory")


def test_a_broken_book_that_is_mended_counts_again(stories: StoryFiles) -> None:
    path = _put(stories, "characters", "ally", b"{")
    files = LorebookFiles(stories)
    assert files.of("ally", None)[1]
    path.write_text(json.dumps(_book("mended")), encoding="utf-8")
    books, notices = files.of("ally", None)
    assert (_names(books), notices) == (["mended"], [])


def test_an_id_that_leads_elsewhere_is_refused(stories: StoryFiles) -> None:
    with pytest.raises(UserError):
        LorebookFiles(stories).of("../secrets", None)


def test_only_so_many_books_are_kept_and_the_oldest_goes_first(stories: StoryFiles) -> None:
    for name in ("a", "b", "c"):
        _put(stories, "characters", name, _book(name))
    files = LorebookFiles(stories, keep=2)
    first = {name: files.of(name, None)[0][0] for name in ("a", "b", "c")}
    assert files.of("c", None)[0][0] is first["c"]
    assert files.of("b", None)[0][0] is first["b"]
    assert files.of("a", None)[0][0] is not first["a"]


def test_many_threads_may_ask_at_once_while_the_file_changes(stories: StoryFiles) -> None:
    path = _put(stories, "characters", "ally", _book("0"))
    files = LorebookFiles(stories)
    seen: list[str] = []
    wrong: list[object] = []

    def ask() -> None:
        for _ in range(200):
            books, notices = files.of("ally", None)
            seen.extend(_names(books))
            wrong.extend(notices)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(1, 50):
        fresh = path.with_name("fresh")
        fresh.write_text(json.dumps(_book(str(number))), encoding="utf-8")
        os.replace(fresh, path)
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(seen) == 800
    assert _names(files.of("ally", None)[0]) == ["49"]
