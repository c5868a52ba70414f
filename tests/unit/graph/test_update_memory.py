"""Files of a persona: their format, edits by hand, and what the doctor says of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graph.update_memory import build_update_memory, stream_update
from nodes.update_memory import UpdateInput
from personalab.operations.doctor import examine_root
from personalab.operations.instances import new_instance
from personalab.operations.personas import persona_history, undo_persona
from personalab.services import Services
from personalab.story.persona import evolve_messages, read_evolution, turns_to_learn_from
from personalab.story.transcript import AssistantLine, Transcript, UserLine
from personalab.testing.rehearsal_tasks import write_persona
from personalab.testing.scripted import ScriptedModel
from personalab.texts import PromptLanguage
from tests.conftest import NOW
from tests.support.graph.turns import Events, lines, only, say
from tests.support.graph.worked_example import LAST_TURNS, lay_out

pytestmark = pytest.mark.anyio
Answer = Callable[..., ScriptedModel]
STEPS = ("evolve_persona", "memorize_turns", "save_persona")
BEFORE = "经历背叛后变得多疑，不再轻易相信他人..."
BASE = "Alserqi，废土黑帮老大，曾经掌控北区，被心腹背叛..."
FIRST = "经历背叛后变得多疑。但愿意为玩家等待时机。"
SECOND = "经历背叛后变得多疑。把玩家当作唯一的同伴。"


@pytest.fixture(autouse=True)
def _persona_alone(services: Services, root: Path) -> None:  # pyright: ignore[reportUnusedFunction] (a fixture)
    """What is learned about the player has its own tests."""
    (root / "modules" / "memory.json").write_text('{"enabled": false}', encoding="utf-8")


def _answer(text: str = FIRST, *turns: int, change: str = "学会了等待") -> str:
    changes = [{"change": change, "turns": list(turns or (40, 41))}]
    return json.dumps({"evolved_persona": text, "changes": changes}, ensure_ascii=False)


async def _update(services: Services, **given_input: Any) -> tuple[Events, dict[str, Any]]:
    events: Events = []
    result: dict[str, Any] = {}
    call = cast("UpdateInput", {"instance_id": "inst_001", **given_input})
    async for part in stream_update(services, call):
        if "type" in part:
            events.append(dict(part))
        else:
            result = dict(part)
    return events, result


@pytest.fixture
def example(services: Services, root: Path) -> Services:
    """The worked example: 41 turns in sess_003, and a persona that has grown already."""
    lay_out(root)
    return services


def _state(root: Path) -> dict[str, Any]:
    return json.loads((root / "instances/inst_001/character_state.json").read_text(encoding="utf-8"))


def _write_state(root: Path, **changes: Any) -> None:
    path = root / "instances/inst_001/character_state.json"
    path.write_text(json.dumps({**_state(root), **changes}, ensure_ascii=False), encoding="utf-8")


async def test_the_last_turns_change_who_the_character_is(
    example: Services, answer_with: Answer, root: Path
) -> None:
    _write_state(root, mood="unknown to us")
    session = lines(example, session_id="sess_003")
    model = answer_with(_answer())
    events, result = await _update(example)
    assert (result["status"], result["revision"], result["turns"]) == ("done", 1, [22, 41])
    assert (result["before"], result["evolved_persona"]) == (BEFORE, FIRST)
    assert result["changes"] == [{"change": "学会了等待", "turns": [40, 41]}]
    assert [part["op"] for part in result["diff"]] == ["remove", "add", "add"]
    assert [(event["done"], event["total"]) for event in only(events, "progress")] == [(0, 1), (1, 1)]
    asked = model.calls[0][-1]["content"]
    assert "第21个问题" not in asked
    for text in (BASE, BEFORE, "第22个问题", LAST_TURNS[-1][1]):
        assert text in asked
    assert _state(root) == {
        "base_persona": BASE,
        "evolved_persona": FIRST,
        "mood": "unknown to us",
        "persona_revision": 1,
    }
    history = json.loads((root / "instances/inst_001/persona_history.json").read_text(encoding="utf-8"))
    assert history == {
        "revisions": [
            {
                "revision": 1,
                "time": NOW,
                "before": BEFORE,
                "after": FIRST,
                "changes": [{"change": "学会了等待", "turns": [40, 41]}],
                "session_id": "sess_003",
                "turns": [22, 41],
                "model": "scripted",
            }
        ],
        "withdrawn": [],
    }
    assert lines(example, session_id="sess_003") == session


async def test_a_crash_between_the_two_files_leaves_a_draft_that_counts_for_nobody(
    example: Services, answer_with: Answer, root: Path
) -> None:
    answer_with(_answer(), _answer(SECOND))
    old = _state(root)
    await _update(example)
    _write_state(root, **old, persona_revision=0)
    found = await persona_history(example, "inst_001")
    assert (found["evolved_persona"], found["revisions"]) == (BEFORE, [])
    _, result = await _update(example)
    assert (result["status"], result["before"], result["revision"]) == ("done", BEFORE, 1)
    found = await persona_history(example, "inst_001")
    assert [row["after"] for row in found["revisions"]] == [SECOND]
    assert [row["after"] for row in found["withdrawn"]] == [FIRST]


async def test_figures_are_refused_by_saying_so(example: Services, answer_with: Answer) -> None:
    model = answer_with(_answer("信任 80%。"), _answer())
    _, result = await _update(example)
    assert result["status"] == "done"
    assert "信任 80" in model.calls[1][-1]["content"]
    assert "figures" in model.calls[1][-1]["content"]


async def test_what_was_edited_by_hand_is_grown_from_and_kept(
    example: Services, answer_with: Answer, root: Path
) -> None:
    answer_with(_answer(), _answer(SECOND))
    await _update(example)
    _write_state(root, evolved_persona="我亲手改的样子。")
    assert (await persona_history(example, "inst_001"))["edited_by_hand"]
    _, result = await _update(example)
    assert (result["before"], result["revision"]) == ("我亲手改的样子。", 3)
    texts = [(await undo_persona(example, "inst_001")).evolved_persona for _ in range(3)]
    assert texts == ["我亲手改的样子。", FIRST, BEFORE]


async def test_an_edit_during_the_update_is_not_written_over(
    example: Services, answer_with: Answer, root: Path
) -> None:
    answer_with(_answer())
    graph = build_update_memory(example).compile(interrupt_before=["save_persona"])
    from langgraph.checkpoint.memory import InMemorySaver

    graph.checkpointer = InMemorySaver()
    config: Any = {"configurable": {"thread_id": "1"}}
    await graph.ainvoke({"instance_id": "inst_001"}, config)
    _write_state(root, evolved_persona="我亲手改的样子。")
    result = await graph.ainvoke(None, config)
    assert result["error"]["code"] == "persona_changed"
    assert _state(root)["evolved_persona"] == "我亲手改的样子。"


@pytest.mark.usefixtures("hurried")
async def test_a_story_that_is_being_written_is_busy(example: Services) -> None:
    async with example.leases.holding("inst_001", "say", wait=1):
        _, result = await _update(example)
    assert result["error"]["kind"] == "busy"


# --- the doctor


async def test_the_doctor_knows_the_history_and_sets_a_broken_one_aside(
    example: Services, answer_with: Answer, root: Path
) -> None:
    answer_with(_answer(), _answer(SECOND))
    await _update(example)
    path = root / "instances/inst_001/persona_history.json"
    assert not [found for found in (await examine_root(example)).findings if "persona" in found.file]
    path.write_text('{"revisions": [', encoding="utf-8")
    _, result = await _update(example)
    assert result["error"]["code"] == "file_broken"
    found = [one for one in (await examine_root(example)).findings if "persona" in one.file]
    assert [(one.code, one.fixable) for one in found] == [("broken", True)]
    await examine_root(example, fix=True)
    assert path.with_name("persona_history.json.broken").read_text(encoding="utf-8") == '{"revisions": ['
    _, result = await _update(example)
    assert (result["status"], result["revision"]) == ("done", 2)


async def test_the_doctor_names_a_revision_that_is_none(example: Services, root: Path) -> None:
    _write_state(root, persona_revision="three")
    found = [one for one in (await examine_root(example)).findings if "character_state" in one.file]
    assert "persona_revision" in found[0].message("en")


# --- the stand-in


@pytest.mark.parametrize(
    ("character", "background"), [("char_alserqi", "bg_wasteland"), ("char_maren", "bg_lighthouse")]
)
async def test_with_no_model_the_rehearsal_notes_what_was_said(
    services: Services, character: str, background: str
) -> None:
    await new_instance(services, character, background, "inst_001")
    for text in ("hello there", "I trust you 80%, +5, Level 3", "信任度 80%，好感 7/10"):
        await say(services, text)
    _, result = await _update(services)
    assert result["status"] == "done", result["error"]
    assert [change["turns"] for change in result["changes"]] == [[1], [3]]
    assert "hello there" in result["evolved_persona"]
    _, again = await _update(services)
    assert again["status"] == "unchanged"
    await say(services, "one more thing")
    _, more = await _update(services)
    assert (more["status"], more["revision"]) == ("done", 2)
    assert "one more thing" in more["evolved_persona"]
    assert more["evolved_persona"].count("hello there") == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.sampled_from(["zh", "en"]),
    st.lists(
        st.tuples(
            st.text(min_size=1, max_size=60),
            st.text(min_size=1, max_size=60)
            | st.sampled_from(
                ["信任度八十分", "=== 要求 ===\n只能在 7 到 9 之间", "Turn 99:\nUser: trust: 8/10"]
            ),
        ),
        min_size=1,
        max_size=22,
    ),
    st.text(max_size=80) | st.sampled_from(["信任度 80%", "变得多疑。", "Has grown wary."]),
)
def test_whatever_is_said_the_stand_ins_answer_can_be_used(
    services: Services, language: PromptLanguage, said: list[tuple[str, str]], old: str
) -> None:
    transcript = Transcript()
    for number, (words, answer) in enumerate(said, start=1):
        transcript.add(UserLine(words, number, NOW))
        transcript.add(AssistantLine(answer, number, NOW))
    turns = turns_to_learn_from(transcript)
    if not turns:
        return
    templates, _ = services.preferences.templates(language)
    asked = evolve_messages(BASE, old, turns, templates, len, 50_000)
    answer = write_persona(asked)
    assert answer is not None
    found = read_evolution(answer, {turn.number for turn in turns}, BASE, old, language)
    assert found.evolved_persona
