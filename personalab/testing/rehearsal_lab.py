"""The stand-in's answers to the lab's tasks: word counts and quotes, labelled as such."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence

from personalab.dialogue import Message
from personalab.texts import PromptLanguage

Writer = Callable[[str, str, PromptLanguage], str | None]
"""Answers a task, given the question and its language."""

_SECTION = re.compile(r"^=== (.+?) ===[ \t]*$", re.MULTILINE)
_MARKED = re.compile(r"^<<<(\w+)\n(.*?)\n\1>>>$", re.MULTILINE | re.DOTALL)
_WORD = re.compile(r"[a-z][a-z0-9_]{2,}|[\u3400-\u9fff]{2}", re.IGNORECASE)
_COUNT = re.compile(r"^(?:数量：|Count: )(\d{1,4})$", re.MULTILINE)
_REFUSAL = re.compile(
    r"\b(?:sorry|cannot|can't|as an ai)\b|抱歉|对不起|无法|作为(?:一个)?(?:AI|人工智能)", re.IGNORECASE
)
_WANTS_CODE = re.compile(r"\b(?:function|code|script|python|class)\b|函数|代码|脚本|程序", re.IGNORECASE)
_CODE = re.compile(
    r"^\s*(?:def |class |async def |import |from \w+ import |function |const |let |#include)|```",
    re.MULTILINE,
)
_LABEL: dict[PromptLanguage, str] = {
    "zh": "（排练替身按字词重合度给分，不是真正的评判）",
    "en": "(scored by the rehearsal stand-in from shared words, not a real judgement)",
}
_PLAIN = frozenset(
    [
        "the",
        "and",
        "for",
        "that",
        "with",
        "this",
        "are",
        "not",
        "you",
        "your",
        "has",
        "have",
        "was",
        "its",
        "but",
        "from",
        "one",
        "all",
        "any",
        "can",
    ]
)
"""Words that tell nothing."""
_SKILL = re.compile(r"(?:技能|Skill) ?([A-Z])")
_SEGMENT = re.compile(r"seg_\d+")
_NUMBERED = re.compile(r"^\[(\d+)\] ", re.MULTILINE)
_QUOTED = 3
"""Maximum paragraphs quoted from a skill."""
_QUOTE: dict[PromptLanguage, str] = {
    "zh": "（排练替身只是摘录了原文）",
    "en": "(the rehearsal stand-in only quotes it)",
}
_MAXIMA = {
    "functional_correctness": 30,
    "robustness": 20,
    "readability": 15,
    "conciseness": 15,
    "complexity_control": 10,
    "format_compliance": 10,
}


def write_lab(messages: Sequence[Message]) -> str | None:
    """Answer one of the lab's tasks; ``None`` for any other prompt."""
    system = next((said["content"] for said in messages if said["role"] == "system"), "")
    asked = next((said["content"] for said in messages if said["role"] == "user"), "")
    for (heading, language), write in _TASKS.items():
        if system.startswith(f"=== {heading} ==="):
            return write(system, asked, language)
    return None


# --- judging


def _judge(_: str, asked: str, language: PromptLanguage) -> str | None:
    parts = [found[2] for found in _MARKED.finditer(asked)]
    if len(parts) != 3:
        return None
    share = _shared(parts[0], parts[1], parts[2])
    scores = {
        name: {"score": round(most * share), "reason": _LABEL[language]} for name, most in _MAXIMA.items()
    }
    return json.dumps(scores, ensure_ascii=False)


def _shared(asked: str, expected: str, answer: str) -> float:
    """Return the share of what was wanted that occurs: words of the expectation, and some of the request."""
    said = _words(answer)
    if not said:
        return 0.0
    found = 0.7 * _part(_words(expected), said) + 0.3 * _part(_words(asked), said)
    found = 0.2 + 1.2 * found if not _REFUSAL.search(answer) else 0.5 * found
    if _WANTS_CODE.search(asked):
        found = found + 0.2 if _CODE.search(answer) else 0.6 * found
    return min(1.0, found * min(1.0, len(answer) / 40))


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)} - _PLAIN


def _part(wanted: set[str], said: set[str]) -> float:
    return len(wanted & said) / len(wanted) if wanted else 0.5


# --- analysis and recomposition


def _analyse(_: str, asked: str, language: PromptLanguage) -> str | None:
    """Quote the first paragraphs of each skill."""
    rows: list[dict[str, str | int]] = []
    for heading, body in _sections(asked):
        named, block = _SKILL.fullmatch(heading), _MARKED.search(body)
        if named is None or block is None:
            continue
        paragraphs = [lines for part in block[2].split("\n\n") if (lines := _NUMBERED.findall(part))]
        for lines, name in zip(paragraphs[:_QUOTED], _MAXIMA, strict=False):
            rows.append(
                {
                    "skill": named[1],
                    "first": int(lines[0]),
                    "last": int(lines[-1]),
                    "type": "instruction",
                    "reason": _QUOTE[language],
                    "dimension": name,
                }
            )
    return json.dumps({"segments": rows, "issues": []}, ensure_ascii=False)


def _recompose(_: str, asked: str, language: PromptLanguage) -> str | None:
    """Join the segments, without those to be dropped."""
    parts: list[str] = []
    for found in _MARKED.finditer(asked):
        said = asked[: found.start()].rstrip().rpartition("\n")[2]
        if _SEGMENT.match(said) and not said.endswith(("：去掉", ": drop")):
            parts.append(found[2])
    return json.dumps({"content": "\n\n".join(parts)}, ensure_ascii=False) if parts else None


# --- tags and cases


def _tag(_: str, asked: str, language: PromptLanguage) -> str | None:
    counted = Counter(word.lower() for word in _WORD.findall(_content(asked)))
    found = [word for word, _ in sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))[:3]]
    label = "排练" if language == "zh" else "rehearsal"
    return json.dumps({"tags": [label, *found]}, ensure_ascii=False)


def _cases(_: str, asked: str, language: PromptLanguage) -> str | None:
    count = _COUNT.search(asked)
    goal = " ".join(_content(asked).split())
    kinds = ("standard", "boundary", "exception")
    words = {
        "zh": (
            "排练用例 {n}：{kind}",
            "{goal}（第 {n} 个用例，{kind}）",
            "回答要符合：{goal}",
            "由排练替身按规则写成，请改写",
        ),
        "en": (
            "Rehearsal case {n}: {kind}",
            "{goal} (case {n}, {kind})",
            "The answer has to fit: {goal}",
            "Written by rule by the rehearsal stand-in: please rewrite it",
        ),
    }[language]
    lists: dict[str, list[dict[str, str]]] = {}
    for number in range(1, (int(count[1]) if count else 3) + 1):
        kind = kinds[(number - 1) % 3]
        name, request, wanted, note = (
            text.replace("{n}", str(number)).replace("{kind}", kind).replace("{goal}", goal[:400])
            for text in words
        )
        row = {"name": name, "input": request, "expected_output": wanted, "description": note}
        lists.setdefault(kind, []).append(row)
    return json.dumps(lists, ensure_ascii=False)


def _content(asked: str) -> str:
    """Return the text between the marks, or all of a text without marks."""
    found = _MARKED.search(asked)
    return found[2] if found else asked


def _sections(text: str) -> list[tuple[str, str]]:
    """Cut a text at its headings."""
    found = list(_SECTION.finditer(text))
    ends = [*(heading.start() for heading in found[1:]), len(text)]
    return [
        (heading[1].strip(), text[heading.end() : end].strip())
        for heading, end in zip(found, ends, strict=False)
    ]


_TASKS: dict[tuple[str, PromptLanguage], Writer] = {
    ("分析任务", "zh"): _analyse,
    ("Analysis task", "en"): _analyse,
    ("重组任务", "zh"): _recompose,
    ("Recomposition task", "en"): _recompose,
    ("评分任务", "zh"): _judge,
    ("Judging task", "en"): _judge,
    ("打标签任务", "zh"): _tag,
    ("Tagging task", "en"): _tag,
    ("用例生成任务", "zh"): _cases,
    ("Case generation task", "en"): _cases,
}
