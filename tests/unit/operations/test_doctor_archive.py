"""Tests of the doctor's findings in cards, lorebooks and archives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from personalab.operations.doctor import examine_root
from personalab.services import Services
from personalab.storage.veloca import VelocaStore

pytestmark = pytest.mark.anyio


async def _found(services: Services) -> list[tuple[str, str]]:
    report = await examine_root(services)
    return [(finding.code, finding.file) for finding in report.findings]


async def test_good_cards_books_and_archives_are_healthy(services: Services, root: Path) -> None:
    card = {"name": "Ann", "description": "x", "first_mes": ""}
    (root / "characters" / "char_maren" / "card.json").write_text(json.dumps(card), encoding="utf-8")
    book = {"entries": {"0": {"uid": 0, "key": ["a"], "content": "b"}}}
    (root / "backgrounds" / "bg_lighthouse" / "lorebook.json").write_text(json.dumps(book), encoding="utf-8")
    (root / "archive").mkdir()
    with VelocaStore(root / "archive" / "veloca-storage.json") as store:
        store.create_session("one")
    assert await _found(services) == []


@pytest.mark.parametrize(
    ("place", "text", "code"),
    [
        ("characters/char_maren/card.json", "{", "beside_broken"),
        (
            "characters/char_maren/card.json",
            '{"spec": "chara_card_v2", "data": {"name": 3}}',
            "beside_broken",
        ),
        ("characters/char_maren/lorebook.json", '{"entries": 3}', "beside_broken"),
        ("backgrounds/bg_lighthouse/lorebook.json", "[]", "beside_broken"),
        ("archive/veloca-storage.json", '{"sessions": [], "ent', "archive_broken"),
        (
            "archive/mine.json",
            '{"sessions": [{}], "entries": [], "compacted_dialogues": []}',
            "archive_broken",
        ),
    ],
)
async def test_a_broken_one_is_named_with_what_to_do(
    services: Services, root: Path, place: str, text: str, code: str
) -> None:
    (root / place).parent.mkdir(exist_ok=True)
    (root / place).write_text(text, encoding="utf-8")
    report = await examine_root(services)
    assert [(finding.code, finding.file) for finding in report.findings] == [(code, place)]
    assert all(report.findings[0].remedy(language) for language in ("zh", "en"))
    assert (root / place).read_text(encoding="utf-8") == text
