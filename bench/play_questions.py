"""Questions that a model answers in JSON, asked about fixed, small material through the program's own code.

An answer is valid when the program accepts it, with at most the one repair that the program asks for.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from nodes.structured_output import StructuredModel
from personalab.archive.veloca import ArchiveEntry
from personalab.archive.veloca_compaction import (
    account_schema,
    compact_messages,
    cut_into_pieces,
    read_account,
)
from personalab.dialogue import AnswerSchema, Message
from personalab.errors import PersonaLabError
from personalab.lab.analysis import AnalysedSkill, AnalysisReader, analysis_call, shown_skills
from personalab.lab.assets import Tags
from personalab.lab.calling import Call
from personalab.lab.generating import cases_schema, generation_prompt, read_cases
from personalab.lab.judging import asked_again, judge_call, read_judgement
from personalab.lab.projects import Breakdown, RankRow
from personalab.lab.records import DIMENSIONS
from personalab.lab.tagging import TAG_SCHEMA, read_tags, tag_prompt
from personalab.memory.pipeline import (
    Fact,
    Reader,
    ShownEntries,
    mind_messages,
    modify_messages,
    shown_messages,
    update_messages,
)
from personalab.memory.records import ContentType, read_request
from personalab.operations.lab.questions import ask_json
from personalab.services import Services
from personalab.story import summary
from personalab.story.persona import evolution_schema, evolve_messages, read_evolution
from personalab.story.summary import points_schema, read_points, summary_messages
from personalab.story.transcript import AssistantLine, Transcript, UserLine

NOW = "2025-10-16T10:30:00Z"
_SESSION = "550e8400-e29b-41d4-a716-446655440000"
_SECONDS = 1_800.0
_LIMIT = 500
_DRAFTS = 3
_TYPES: tuple[ContentType, ...] = ("profile", "event")


@dataclass(frozen=True, slots=True)
class _Material:
    """What the questions are about, in one language."""

    persona: str
    turns: tuple[tuple[str, str], ...]
    facts: tuple[Fact, ...]
    skill: str
    case: tuple[str, str, str]
    """An input, what is expected and an answer to be judged."""
    task: str


MATERIAL: Mapping[str, _Material] = {
    "zh": _Material(
        "Alserqi，废土黑帮老大，被心腹 Victor 背叛后失去一切。性格坚毅、多疑、重情义，说话简短低沉。",
        (
            (
                "我叫阿青，是南城的信使，这封信是给你的。",
                "（接过信，没有拆开）南城的信使很少走夜路。谁付的钱？",
            ),
            ("一个烧焦了袖口的男人，给了我两罐净水。", "（捏紧信封）炼油厂的人。他往哪边走了？"),
            ("往铁路那边。我怕狗，没敢跟过去。", "（点头）没跟是对的。你救过我一次，我记着。"),
            ("那我们什么时候去北门？我想今晚就走。", "（合上怀表）今晚。你答应我，听见枪声就往回跑。"),
        ),
        (
            Fact("玩家是南城的信使，名叫阿青", "profile", (1,)),
            Fact("玩家怕狗", "profile", (5,)),
            Fact("玩家和Alserqi约定今晚去北门", "event", (7, 8)),
        ),
        "你是一名代码审查员。\n先指出会导致错误的问题，再谈风格。\n每条意见都引用具体的行。\n回答要简短。\n",
        (
            "写一个函数，返回列表里最大的数；列表为空时返回 None。",
            "空列表返回 None；不修改参数；不用排序。",
            "def largest(values):\n    return max(values) if values else None",
        ),
        "检查一个把中文日期（如“2025年3月5日”）转成 ISO 格式的函数，输入可能缺月份、有空格或全角数字。",
    ),
    "en": _Material(
        "Maren Holt, keeper of the Skerry Light. Dry-humoured, patient with weather and impatient with people.",
        (
            (
                "I'm Zoe, the surveyor. I grew up on a farm, I've never seen a lamp room.",
                "(nods) Then don't touch it.",
            ),
            ("Which year is missing on that shelf?", "(turns away) Nineteen twenty. The damp took it."),
            ("I read about the Ansgar. I'm sorry about your brother.", "(very still) Who told you his name?"),
            (
                "The Board's files did. Shall we look for the log together tonight?",
                "(hands over a lantern) Tonight.",
            ),
        ),
        (
            Fact("The user is a surveyor called Zoe", "profile", (1,)),
            Fact("The user grew up on a farm", "profile", (1,)),
            Fact("The user and Maren agreed to look for the missing log tonight", "event", (7, 8)),
        ),
        "You review code.\nName what causes errors first, then style.\n"
        "Quote the line of every remark.\nKeep it short.\n",
        (
            "Write a function that returns the largest number of a list, or None for an empty list.",
            "None for an empty list; the argument is not changed; no sorting.",
            "def largest(values):\n    return max(values) if values else None",
        ),
        "Check a function that turns dates such as '5 March 2025' into ISO dates; the day may be missing, blanks and "
        "upper case may be odd.",
    ),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """One try at a question."""

    question: str
    valid: bool
    seconds: float
    reason: str


Ask = Callable[[], Awaitable[object]]


async def ask_all(
    services: Services,
    model: str,
    language: Any,
    tries: int,
    *,
    names: Sequence[str] = (),
    at_once: int = 1,
) -> list[Answer]:
    """Ask every question, or those with the given names, so many times; any failure counts as an invalid answer."""
    answers: list[Answer] = []
    places = asyncio.Semaphore(at_once)

    async def try_once(name: str, ask: Ask) -> None:
        async with places:
            start, reason = time.perf_counter(), ""
            try:
                await ask()
            except (PersonaLabError, ValueError) as error:
                reason = str(error)[:300]
            answers.append(Answer(name, not reason, time.perf_counter() - start, reason))
            print(answers[-1], file=sys.stderr, flush=True)

    for name, ask in questions(services, model, language).items():
        if names and name not in names:
            continue
        async with asyncio.TaskGroup() as group:
            for _ in range(tries):
                group.create_task(try_once(name, ask))
    return answers


def questions(services: Services, model: str, language: Any) -> dict[str, Ask]:
    """Build the questions; each is asked, read and repaired as the program does it."""
    return {**_story_questions(services, model, language), **_lab_questions(services, model, language)}


def _story_questions(services: Services, model: str, language: Any) -> dict[str, Ask]:
    material = MATERIAL[language]
    templates = services.preferences.templates(language)[0]
    transcript = Transcript()
    for number, (said, answered) in enumerate(material.turns, start=1):
        transcript.extend([UserLine(said, number, NOW), AssistantLine(answered, number, NOW)])
    turns = transcript.turns
    (piece,) = summary.cut_into_pieces(turns, templates, len, 100_000)
    numbers = range(1, len(turns) + 1)
    talk = read_request(
        {
            "agent_id": "a",
            "user_id": "u",
            "messages": [
                {"role": role, "content": text}
                for pair in material.turns
                for role, text in zip(("user", "assistant"), pair, strict=True)
            ],
        },
        NOW,
    )
    reader, nothing = Reader(talk), ShownEntries({})
    said = shown_messages(talk, len, 100_000).text
    profile = "\n".join(f"- {fact.text}" for fact in material.facts)
    entries = [
        ArchiveEntry(
            f"660e8400-e29b-41d4-a716-{number:012d}",
            _SESSION,
            message.content,
            message.role,
            1,
            0,
            None,
            NOW,
            1,
        )
        for number, message in enumerate(talk.messages, start=1)
    ]
    (told,) = cut_into_pieces(entries, "", len, 100_000)

    def ask(messages: Sequence[Message], read: Callable[[str], object], schema: AnswerSchema) -> Ask:
        async def answered() -> object:
            return await StructuredModel(await services.model(model), templates["json_repair"]).ask(
                messages, read, schema
            )

        return answered

    return {
        "summarize": ask(
            summary_messages(piece, [], material.persona, templates),
            partial(read_points, first=1, last=len(turns), language=language),
            points_schema(1, len(turns)),
        ),
        "update_memory": ask(
            evolve_messages(material.persona, "", turns, templates, len, 100_000),
            partial(read_evolution, shown=numbers, base=material.persona, old="", language=language),
            evolution_schema(numbers),
        ),
        "memorize: modify": ask(
            modify_messages(said, "–", templates), reader.findings, reader.findings_schema()
        ),
        "memorize: update": ask(
            update_messages(said, nothing, material.facts, templates),
            partial(reader.read_changes, shown=nothing, types=_TYPES),
            reader.changes_schema(nothing, _TYPES),
        ),
        "memorize: theory of mind": ask(
            mind_messages(said, profile, nothing, templates),
            partial(reader.minds, shown=nothing),
            reader.minds_schema(nothing),
        ),
        "compact": ask(
            compact_messages(told, "", _LIMIT, templates),
            partial(read_account, limit=_LIMIT, language=language),
            account_schema(_LIMIT),
        ),
    }


def _lab_questions(services: Services, model: str, language: Any) -> dict[str, Ask]:
    material = MATERIAL[language]
    row = RankRow(
        rank=1,
        skill_id="a",
        skill_name="Reviewer",
        skill_version="v1",
        completed_cases=1,
        failed_cases=0,
        avg_score=60.0,
        score_breakdown=Breakdown(**dict.fromkeys(DIMENSIONS, 10.0)),
    )
    shown, _ = shown_skills([AnalysedSkill(row, material.skill)])
    analysis = analysis_call(shown, language)
    tagging = tag_prompt("skill", "Reviewer", "", material.skill, Tags(manual=(), auto=()), language)
    drafting = generation_prompt("Dates", material.task, _DRAFTS, (), language)

    def ask(
        told: tuple[str, str], schema: Mapping[str, object], read: Callable[[Mapping[str, object]], object]
    ) -> Ask:
        return partial(
            ask_json,
            services,
            model=model,
            system=told[0],
            text=told[1],
            schema=schema,
            read=read,
            timeout=_SECONDS,
            retries=0,
        )

    return {
        "judge": partial(_judge, services, model, language),
        "analyse": ask((analysis.system, analysis.text), analysis.schema, AnalysisReader(shown)),
        "tags": ask(tagging, TAG_SCHEMA, read_tags),
        "case drafts": ask(drafting, cases_schema(_DRAFTS), partial(read_cases, count=_DRAFTS)),
    }


async def _judge(services: Services, model: str, language: Any) -> object:
    """Ask a judge as an evaluation does: once more with the reason where the scores cannot be read."""
    executor, call = await services.executor(model), judge_call(*MATERIAL[language].case, language)
    reason = ""
    with tempfile.TemporaryDirectory() as folder:
        for number in (1, 2):
            asked = asked_again(call, reason, language) if reason else call
            answer = await executor.run(
                Call(f"judge_{number}", asked.system, None, asked.text, asked.schema, model, _SECONDS),
                Path(folder),
            )
            try:
                return read_judgement(answer.structured if answer.structured is not None else answer.text)
            except ValueError as error:
                reason = str(error)
    raise ValueError(reason)


def as_dicts(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """Give the answers as JSON objects."""
    return [asdict(answer) for answer in answers]
