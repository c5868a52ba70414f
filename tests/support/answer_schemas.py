"""Every question that a model answers in JSON: its schema, an answer that is taken, and how it is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from personalab.archive.veloca_compaction import account_schema, read_account
from personalab.dialogue import AnswerSchema
from personalab.lab.analysis import AnalysedSkill, AnalysisReader, analysis_call, shown_skills
from personalab.lab.findings import AdvantageSegment
from personalab.lab.generating import cases_schema, read_cases
from personalab.lab.judging import judgement_schema, read_judgement
from personalab.lab.projects import Breakdown, RankRow
from personalab.lab.recomposing import SegmentSelection, WriterReader, writer_call
from personalab.lab.records import CATEGORIES, DIMENSIONS
from personalab.lab.retention import Retention
from personalab.lab.tagging import TAG_SCHEMA, read_tags
from personalab.memory.changes import Operation, revise
from personalab.memory.pipeline import Reader, ShownEntries, shown_entries
from personalab.memory.records import ContentType, empty_memory, new_id, read_request
from personalab.story.persona import evolution_schema, read_evolution
from personalab.story.summary import points_schema, read_points

NOW = "2025-10-16T10:30:00Z"


@dataclass(frozen=True, slots=True)
class JsonQuestion:
    """A question that is answered in JSON."""

    schema: AnswerSchema
    sample: Mapping[str, Any]
    """An answer that is taken."""
    read: Callable[[str], object]
    beyond: str = ""
    """A pattern of the reasons for which an answer in the schema's form is refused: no schema can express them."""


def _object(read: Callable[[Any], object]) -> Callable[[str], object]:
    return lambda answer: read(json.loads(answer))


_BLANK_OR_FOREIGN = r"blank|missing|has no \"|has no words|not written in"

# --- stories

_SHOWN_TURNS = (2, 3, 5)
_EVOLVED = {
    "evolved_persona": "She has learned to wait.",
    "changes": [{"change": "She trusts the player.", "turns": [3, 5]}],
}
_POINTS = {"points": [{"summary": "They left.", "plot": "They left before dawn.", "turns": [2, 4]}]}

# --- memory

_TALK = read_request(
    {
        "agent_id": "a",
        "user_id": "u",
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "I am a doctor in Leeds and I love the sea"},
            {"role": "assistant", "content": "Hello, doctor, what a lovely place that is"},
            {"role": "user", "content": "Last week I went to the sea with my dog"},
        ],
    },
    NOW,
)
_READER = Reader(_TALK)
_PLAYER: tuple[ContentType, ...] = ("profile", "event")


def _shown(*types: ContentType) -> ShownEntries:
    known = [Operation("add", kind, f"The user has a {kind}", messages=(1,)) for kind in types]
    memory = empty_memory(new_id(), "a", "u", NOW)
    revised = revise(memory, known, NOW, origin="memorize", conversation_id=new_id())
    return shown_entries(revised.memory, types, "", len, 10_000)


_KNOWN, _MINDS, _NOTHING = _shown(*_PLAYER), _shown("mind"), ShownEntries({})
_ADD = {"op": "add", "type": "profile", "text": "The user is a doctor", "reason": "told", "messages": [1]}
_REPLACE = {"op": "replace", "target": "p1", "text": "The user is a nurse", "reason": "", "messages": [1, 3]}
_REMOVE = {"op": "remove", "target": "e1", "reason": "taken back", "messages": [3]}
_MIND = {"op": "add", "text": "The user is proud", "reason": "tone", "messages": [1]}
_INSIGHTS = {"insights": "The user is proud.", "confidence_score": 0.7}

# --- the lab

_ROW = RankRow(
    rank=1,
    skill_id="a",
    skill_name="Coder",
    skill_version="v1",
    completed_cases=1,
    failed_cases=0,
    avg_score=60.0,
    score_breakdown=Breakdown(**dict.fromkeys(DIMENSIONS, 10.0)),
)
_SKILLS, _ = shown_skills([AnalysedSkill(_ROW, "You write code.\nKeep it short.\n")])
_SEGMENT = {
    "skill": "A",
    "first": 2,
    "last": 2,
    "type": "format",
    "reason": "It helps.",
    "dimension": "conciseness",
}
_ISSUE = {"skill": "A", "dimension": "robustness", "description": "Errors are not handled."}
_CASE = {"name": "Empty input", "input": "", "expected_output": "an error", "description": ""}
_CHOICE = SegmentSelection(
    (
        AdvantageSegment(
            id="seg_001",
            skill_id="a",
            skill_name="Coder",
            type="format",
            content="Keep it short.",
            reason="It helps.",
            dimension="conciseness",
        ),
    ),
    Retention(kept=("seg_001",), dropped=()),
    (),
)


def _analysis(data: Any) -> object:
    return AnalysisReader(_SKILLS)(data)


def _written(data: Any) -> object:
    return WriterReader(_CHOICE, 1_000_000)(data)


JSON_QUESTIONS: Mapping[str, JsonQuestion] = {
    "summarize": JsonQuestion(
        points_schema(2, 4),
        _POINTS,
        partial(read_points, first=2, last=4, language="en"),
        _BLANK_OR_FOREIGN + "|it must be",
    ),
    "summarize one turn": JsonQuestion(
        points_schema(7, 7),
        {"points": [{**_POINTS["points"][0], "turns": [7, 7]}]},
        partial(read_points, first=7, last=7, language="en"),
        _BLANK_OR_FOREIGN,
    ),
    "update_memory": JsonQuestion(
        evolution_schema(_SHOWN_TURNS),
        _EVOLVED,
        partial(read_evolution, shown=_SHOWN_TURNS, base="A smuggler.", old="She is wary.", language="en"),
        _BLANK_OR_FOREIGN + "|is empty|same text|refusal|heading|marker|figures|word for word",
    ),
    "memorize: modify": JsonQuestion(
        _READER.findings_schema(),
        {"facts": [{"text": "The user is a doctor", "type": "profile", "messages": [1, 3]}]},
        _READER.findings,
        _BLANK_OR_FOREIGN,
    ),
    "memorize: update": JsonQuestion(
        _READER.changes_schema(_KNOWN, _PLAYER),
        {"operations": [_ADD, _REPLACE, _REMOVE]},
        partial(_READER.read_changes, shown=_KNOWN, types=_PLAYER),
        _BLANK_OR_FOREIGN,
    ),
    "memorize: update, nothing known": JsonQuestion(
        _READER.changes_schema(_NOTHING, _PLAYER),
        {"operations": [_ADD]},
        partial(_READER.read_changes, shown=_NOTHING, types=_PLAYER),
        _BLANK_OR_FOREIGN,
    ),
    "memorize: theory of mind": JsonQuestion(
        _READER.minds_schema(_MINDS),
        {**_INSIGHTS, "operations": [_MIND, {**_REMOVE, "target": "m1"}]},
        partial(_READER.minds, shown=_MINDS),
        _BLANK_OR_FOREIGN,
    ),
    "compact": JsonQuestion(
        account_schema(500),
        {"summary": "The user leaves on Friday."},
        partial(read_account, limit=500, language="en"),
        _BLANK_OR_FOREIGN + "|refuses",
    ),
    "judge": JsonQuestion(
        AnswerSchema("answer", judgement_schema()),
        {name: {"score": 5, "reason": "It works."} for name in DIMENSIONS},
        _object(read_judgement),
        _BLANK_OR_FOREIGN,
    ),
    "analyse": JsonQuestion(
        AnswerSchema("answer", analysis_call(_SKILLS, "en").schema),
        {"segments": [_SEGMENT], "issues": [_ISSUE]},
        _object(_analysis),
        _BLANK_OR_FOREIGN,
    ),
    "tags": JsonQuestion(
        AnswerSchema("answer", TAG_SCHEMA),
        {"tags": ["coding", "short"]},
        _object(read_tags),
        "there is no tag",
    ),
    "case drafts": JsonQuestion(
        AnswerSchema("answer", cases_schema(3)),
        {name: [{**_CASE, "input": f"a {name} input"}] for name in CATEGORIES},
        _object(partial(read_cases, count=3)),
        _BLANK_OR_FOREIGN,
    ),
    "recompose": JsonQuestion(
        AnswerSchema("answer", writer_call(_CHOICE, "", "en").schema),
        {"content": "You write code. Keep it short."},
        _object(_written),
        _BLANK_OR_FOREIGN + "|seg_001",
    ),
}
