"""Chinese sentences have no English inside, whatever reason they give."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.stories import told
from mcp_server.stories import line_text
from personalab.errors import NotFound, StorageError
from personalab.operations.doctor import examine_root
from personalab.services import Services
from personalab.story.transcript import NO_REPLY, AssistantLine, UserLine, line_fields
from personalab.testing.scripted import ScriptedModel
from personalab.texts import Language, say
from tests.support.catalogues import texts_of
from tests.support.graph.turns import lines, only
from tests.support.graph.turns import say as say_to

PROJECT = Path(__file__).resolve().parents[2]
TYPED = re.compile(
    r"personalab(?: [a-z-]+)*|\b[\w.-]+=\S+|--[\w-]+(?: \w+)?|[A-Z][A-Z ]+[A-Z]|/[a-z]+(?: [a-z]+)*"
)
"""What a person types: commands, options, settings, SQL."""
NAMES = re.compile(
    r"Claude (?:Code|Desktop)|World Info|VS Code|MCP(?:: Open User Configuration| Apps)|pip install|make \w+"
    r"|\b(?:JSON|UTF|ISO|UUID|ID|SillyTavern|true|false)\b"
)
SENTENCE = re.compile(r"[A-Za-z']+(?: [A-Za-z']+){2,}")
"""Three words in a row are no name of anything."""
FOR_MODELS = "mcp.instructions."


def _english(text: str) -> list[str]:
    return SENTENCE.findall(TYPED.sub("·", NAMES.sub("·", text)))


def test_every_sentence_is_chinese() -> None:
    texts = {code: text for code, text in texts_of("zh").items() if not code.startswith(FOR_MODELS)}
    assert {code: found for code, text in texts.items() if (found := _english(text))} == {}


def test_an_error_of_ours_is_a_reason_in_the_readers_language() -> None:
    error = NotFound("no_background", background_id="bg_x")
    words = {"background_id": "bg_x", "reason": error}
    assert "没有背景 bg_x" in say("warning.background_unreadable", "zh", **words)
    assert "There is no world bg_x" in say("warning.background_unreadable", "en", **words)
    missing = StorageError("file_missing", file="modules/director.json")
    assert not _english(say("warning.director_switch", "zh", file="modules/director.json", reason=missing))


@pytest.mark.anyio
async def test_warnings_of_a_turn_are_chinese(services: Services, instance: str, root: Path) -> None:
    (root / "modules" / "director.json").unlink()
    (root / "modules" / "recall.json").write_text('{"trigger": "never"}', encoding="utf-8")
    path = root / "instances" / instance / "instance_state.json"
    state = json.loads(path.read_bytes())
    path.write_text(json.dumps({**state, "background_id": "bg_gone"}), encoding="utf-8")
    events, _ = await say_to(services, "你好")
    warnings = {event["category"]: event["message"] for event in only(events, "warning")}
    assert {"director_switch", "recall_switch", "background_unreadable"} <= warnings.keys()
    assert {category: found for category, text in warnings.items() if (found := _english(text))} == {}


@pytest.mark.anyio
async def test_findings_of_the_doctor_are_chinese(services: Services, instance: str, root: Path) -> None:
    (root / "modules" / "memory.json").write_text('{"enabled": "yes"}', encoding="utf-8")
    (root / "instances" / instance / "instance_state.json").write_text("[]", encoding="utf-8")
    findings = (await examine_root(services)).findings
    assert len(findings) >= 2
    assert [found for finding in findings if (found := _english(finding.message("zh")))] == []


@pytest.mark.parametrize(("language", "shown"), [("zh", "(无回复)"), ("en", "(no reply)")])
def test_an_empty_reply_is_shown_in_the_readers_language(language: Language, shown: str) -> None:
    stored = AssistantLine(NO_REPLY, 1, "", empty=True)
    entries = [line_fields(UserLine(NO_REPLY, 1, "")), line_fields(stored)]
    asked, answered = told(entries, "Ann", language)[-2:]
    assert asked.endswith("(无回复)"), "what a person said stays as it is"
    assert answered.endswith(shown)
    assert line_text(entries[0], language).endswith("(无回复)")
    assert line_text(entries[1], language).endswith(shown)


@pytest.mark.anyio
async def test_an_empty_reply_is_stored_alike_in_every_language(
    services: Services, instance: str, answer_with: Callable[..., ScriptedModel]
) -> None:
    services.preferences.change({"language": "en"})
    answer_with("  ", "  ")
    await say_to(services, "Hello")
    assert lines(services)[-1]["content"] == "(无回复)"
