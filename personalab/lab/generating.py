"""Generation of test cases by a model, and its drafts that await review."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, Literal, cast

from personalab.dialogue import list_schema, object_schema, text_schema
from personalab.errors import Invalid, NotFound, UserError
from personalab.lab.assets import Case
from personalab.lab.judging import unused_mark
from personalab.lab.records import CATEGORIES, Category, Filled, Record, Time
from personalab.texts import PromptLanguage, fill

MAX_GENERATED = 50
_MAX_NAME, _MAX_TEXT = 200, 100_000
_SHOWN_CASES = 60
_ASKED = {"name": 60, "input": 800, "expected_output": 400, "description": 200}
"""Maximum characters of a case's texts requested from a model; longer ones are read, too."""
DRAFTS_FILE = "x_drafts.json"

_SYSTEM: dict[PromptLanguage, str] = {
    "zh": """=== 用例生成任务 ===
你为提示词的测试基线写测试用例。测试目标放在带有同一标记的两行之间；读它，写出恰好 {count} 个用例，\
按类别放进各自的列表：
{shares}
每个用例的字段：
- name：简短，互不相同。
- input：原样发给被测提示词的完整输入，不要写占位符，不能为空。
- expected_output：可以核对的要求，不写评分。
- description：用一句话说明这个用例测什么。
不要重复已有用例。只输出一个 JSON 对象，键是类别，值是用例的列表：
{form}""",
    "en": """=== Case generation task ===
You write test cases for a baseline that prompts are tested with. Read what is to be tested, which stands between
two lines with the same mark, and write exactly {count} cases, each in the list of its category:
{shares}
The fields of a case:
- name: short, and no other case's.
- input: the whole input as it is sent to the prompt under test, without placeholders and never empty.
- expected_output: what can be checked, not points.
- description: what the case tests, in one sentence.
Repeat no case that is there already. Output one JSON object only, with the categories as keys and lists of cases as \
values:
{form}""",
}
_SHARES: dict[PromptLanguage, dict[Category, str]] = {
    "zh": {
        "standard": "- standard（标准）：{count} 个，常见的正常输入。",
        "boundary": "- boundary（边界）：{count} 个，刚好在允许范围边缘的输入。",
        "exception": "- exception（异常）：{count} 个，错误、残缺或不合要求的输入。",
    },
    "en": {
        "standard": "- standard: {count}, usual and valid input.",
        "boundary": "- boundary: {count}, input at the limits of what is allowed.",
        "exception": "- exception: {count}, input that is wrong, broken or not allowed.",
    },
}
_CASE_FORM = '[{"name", "input", "expected_output", "description"}]'
_TEXT: dict[PromptLanguage, str] = {
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
        """Return those without a decision."""
        return [draft for draft in self.drafts if draft.status == "pending"]


def generation_prompt(
    name: str, description: str, count: int, cases: Iterable[Case], language: PromptLanguage
) -> tuple[str, str]:
    """Return the question to a model: the system prompt and the text."""
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
    shares = _shares(count)
    rows = [fill(_SHARES[language][name], count=share) for name, share in shares.items()]
    form = ", ".join(f'"{name}": {_CASE_FORM}' for name in shares)
    return fill(_SYSTEM[language], count=count, shares="\n".join(rows), form=f"{{{form}}}"), text


def _shares(count: int) -> dict[Category, int]:
    """Share cases out among the categories as evenly as it goes; one that gets none is left out."""
    many = len(CATEGORIES)
    return {name: (count + many - 1 - at) // many for at, name in enumerate(CATEGORIES[:count])}


def cases_schema(count: int) -> dict[str, Any]:
    """Return the JSON schema of so many cases: a list for each category, so that none is forgotten."""
    texts = {
        name: text_schema(at_least=int(name != "description"), at_most=most) for name, most in _ASKED.items()
    }
    case = object_schema(**texts)
    lists = {name: list_schema(case, at_least=n, at_most=n) for name, n in _shares(count).items()}
    return object_schema(**lists)


def read_cases(data: Mapping[str, object], count: int) -> list[Drafted]:
    """Read the cases of an answer, one of each category in turn; ``ValueError`` says what is wrong with it.

    At most ``count`` are taken. How many there are of a category is up to the model, but none may be without any.
    """
    found = [_cases(data, name) for name in _shares(count)]
    turns = chain.from_iterable(zip_longest(*found))
    return [case for case in turns if case is not None][:count]


def _cases(data: Mapping[str, object], category: Category) -> list[Drafted]:
    rows = data.get(category)
    if not isinstance(rows, list) or not rows:
        raise Invalid("no_case_in_list", field=category)
    return [_case(row, category, f"{category}[{at}]") for at, row in enumerate(cast("list[object]", rows))]


def _case(row: object, category: Category, where: str) -> Drafted:
    if not isinstance(row, Mapping):
        raise Invalid("field_not_object", field=where)
    fields = cast("Mapping[str, object]", row)
    texts = {name: _text(fields, name, where, needed=name != "description") for name in _ASKED}
    name = " ".join(texts["name"].split())[:_MAX_NAME]
    return Drafted(name, category, texts["input"], texts["expected_output"], texts["description"])


def _text(fields: Mapping[str, object], name: str, where: str, *, needed: bool) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str) or (needed and not value.strip()):
        raise Invalid("field_missing_or_not_text", field=f"{where}.{name}")
    if len(value) > _MAX_TEXT:
        raise Invalid("field_too_long", field=f"{where}.{name}", limit=_MAX_TEXT)
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
