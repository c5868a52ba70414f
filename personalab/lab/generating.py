"""How is a model asked for test cases, and how do its drafts wait for a person's word?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from personalab.answer_schema import choice_schema, list_schema, object_schema, text_schema
from personalab.errors import NotFound, UserError
from personalab.lab.assets import Case
from personalab.lab.dimensions import CATEGORIES, Category
from personalab.lab.judging import unused_mark
from personalab.lab.records import Filled, Record, Time
from personalab.texts import Language, fill

MAX_GENERATED = 50
_MAX_NAME, _MAX_TEXT = 200, 100_000
_SHOWN_CASES = 60
DRAFTS_FILE = "x_drafts.json"

_SYSTEM: dict[Language, str] = {
    "zh": """=== 用例生成任务 ===
你为提示词的测试基线写测试用例。测试目标放在带有同一标记的两行之间；读它，写出恰好 {count} 个用例。
- category 三类都要有（数量够三个时）：standard（标准）、boundary（边界）、exception（异常）。
- input 是原样发给被测提示词的完整输入，不要写占位符；expected_output 写可以核对的要求，不写评分。
- name 简短且互不相同；description 写这个用例测什么。不要重复已有用例。
只输出 JSON：
{"cases": [{"name": "…", "category": "standard", "input": "…", "expected_output": "…", "description": "…"}]}""",
    "en": """=== Case generation task ===
You write test cases for a baseline that prompts are tested with. Read what is to be tested, which stands between
two lines with the same mark, and write exactly {count} cases.
- All three categories occur (where there are three cases or more): standard, boundary, exception.
- input is the whole input as it is sent to the prompt under test, without placeholders.
- expected_output says what can be checked, not points.
- name is short and no other case's; description says what the case tests. Repeat no case that is there already.
Output JSON only:
{"cases": [{"name": "…", "category": "standard", "input": "…", "expected_output": "…", "description": "…"}]}""",
}
_TEXT: dict[Language, str] = {
    "zh": "基线：{name}\n数量：{count}\n已有用例：\n{known}\n\n"
    "=== 内容 ===\n<<<{mark}\n{description}\n{mark}>>>",
    "en": "Baseline: {name}\nCount: {count}\nCases it has:\n{known}\n\n"
    "=== Content ===\n<<<{mark}\n{description}\n{mark}>>>",
}


@dataclass(frozen=True, slots=True)
class Drafted:
    """A case as a model wrote it."""

    name: str
    category: Category
    input: str
    expected_output: str
    description: str


class Draft(Record):
    """A case that waits for review; ``case_id`` is what it became."""

    id: Filled
    name: str
    category: Category
    input: str
    expected_output: str
    description: str = ""
    status: Literal["pending", "accepted", "rejected"]
    generated_at: Time
    decided_at: Time | None = None
    session_id: str
    case_id: str | None = None


class Drafts(Record):
    """``x_drafts.json`` beside a baseline."""

    drafts: tuple[Draft, ...] = ()

    def pending(self) -> list[Draft]:
        """Give those that nobody has decided on."""
        return [draft for draft in self.drafts if draft.status == "pending"]


def generation_prompt(
    name: str, description: str, count: int, cases: Iterable[Case], language: Language
) -> tuple[str, str]:
    """Word what a model is asked for: the system prompt and the text."""
    if not 1 <= count <= MAX_GENERATED:
        raise UserError("lab_bad_draft_count", count=count, limit=MAX_GENERATED)
    if not description.strip():
        raise UserError("lab_blank", field="description")
    known = [f"- {' '.join(case.name.split())[:_MAX_NAME]}" for case in cases]
    told = {
        "name": " ".join(name.split()),
        "known": "\n".join(known[-_SHOWN_CASES:]) or "–",
        "description": description,
    }
    text = fill(_TEXT[language], count=count, mark=unused_mark(*told.values()), **told)
    return fill(_SYSTEM[language], count=count), text


def cases_schema(count: int) -> dict[str, Any]:
    """Give the JSON schema of so many cases at most."""
    case = object_schema(
        name=text_schema(),
        category=choice_schema(CATEGORIES),
        input=text_schema(),
        expected_output=text_schema(),
        description=text_schema(at_least=0),
    )
    return object_schema(cases=list_schema(case, at_least=1, at_most=count))


def read_cases(data: Mapping[str, object], count: int) -> list[Drafted]:
    """Read the cases of an answer; ``ValueError`` says what is wrong with it."""
    rows = data.get("cases")
    if not isinstance(rows, list) or not rows:
        raise ValueError('there is no list "cases" with a case in it')
    found = [_case(row, at) for at, row in enumerate(cast("list[object]", rows)[:count])]
    missing = [name for name in CATEGORIES if name not in {case.category for case in found}]
    if count >= len(CATEGORIES) and missing:
        raise ValueError(f"there is no case of the category {', '.join(missing)}")
    return found


def _case(row: object, at: int) -> Drafted:
    if not isinstance(row, Mapping):
        raise ValueError(f"cases[{at}] is not an object")
    fields = cast("Mapping[str, object]", row)
    category = fields.get("category")
    if category not in CATEGORIES:
        raise ValueError(f"cases[{at}].category is none of {', '.join(CATEGORIES)}")
    texts = {
        name: _text(fields, name, at, needed=name != "description")
        for name in ("name", "input", "expected_output", "description")
    }
    name = " ".join(texts["name"].split())[:_MAX_NAME]
    return Drafted(name, category, texts["input"], texts["expected_output"], texts["description"])


def _text(fields: Mapping[str, object], name: str, at: int, *, needed: bool) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str) or (needed and not value.strip()):
        raise ValueError(f"cases[{at}].{name} is missing or not a text")
    if len(value) > _MAX_TEXT:
        raise ValueError(f"cases[{at}].{name} is longer than {_MAX_TEXT} characters")
    return value


def drafted(
    before: Drafts, cases: Sequence[Drafted], known: Iterable[Case], now: str, session_id: str
) -> Drafts:
    """Add drafts; one whose input a case or a pending draft has already is left out."""
    inputs = {case.input.strip() for case in known} | {draft.input.strip() for draft in before.pending()}
    fresh: list[Draft] = []
    number = max((int(draft.id[6:]) for draft in before.drafts if draft.id[6:].isdecimal()), default=0)
    for case in cases:
        if case.input.strip() in inputs:
            continue
        inputs.add(case.input.strip())
        number += 1
        fresh.append(
            Draft(
                id=f"draft_{number:03d}",
                name=case.name,
                category=case.category,
                input=case.input,
                expected_output=case.expected_output,
                description=case.description,
                status="pending",
                generated_at=now,
                session_id=session_id,
            )
        )
    return before.model_copy(update={"drafts": (*before.drafts, *fresh)})


def chosen(drafts: Drafts, draft_ids: Sequence[str] | None) -> list[Draft]:
    """Find the pending drafts that are meant; ``None`` means all of them."""
    pending = {draft.id: draft for draft in drafts.pending()}
    if draft_ids is None:
        return list(pending.values())
    for draft_id in draft_ids:
        if draft_id not in pending:
            raise NotFound("lab_no_draft", draft_id=draft_id[:80], known=", ".join(list(pending)[:20]) or "–")
    return [pending[draft_id] for draft_id in dict.fromkeys(draft_ids)]


def decided(
    drafts: Drafts, which: Mapping[str, str | None], status: Literal["accepted", "rejected"], now: str
) -> Drafts:
    """Write down what became of drafts; each accepted one names its case."""
    fresh = tuple(
        draft.model_copy(update={"status": status, "decided_at": now, "case_id": which[draft.id]})
        if draft.id in which
        else draft
        for draft in drafts.drafts
    )
    return drafts.model_copy(update={"drafts": fresh})
