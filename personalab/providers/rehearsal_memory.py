"""The stand-in's memory of a conversation: quotes of what people say about themselves, labelled as such."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from personalab.dialogue import Message, is_in
from personalab.texts import PromptLanguage

_TASK: dict[str, PromptLanguage] = {"=== 记忆任务 ===": "zh", "=== Memory task ===": "en"}
_HEADING = re.compile(r"^=== .+ ===[ \t]*$", re.MULTILINE)
_SAID = re.compile(r"^\[(\d+)\] (user|assistant|system): ", re.MULTILINE)
_FACT = re.compile(r"^- \[(profile|event)\] (.+) (\[[\d, ]+\])$", re.MULTILINE)
_OF_ONESELF = re.compile(
    r"我叫|我是|我的名字|我不?喜欢|我讨厌|我住|我有|我会|我怕|我想"
    r"|\b(?:my name|i am|i'm|i like|i love|i hate|i live|i have|i want)\b",
    re.IGNORECASE,
)
_WISHES = re.compile(r"我想|\bi want\b", re.IGNORECASE)
_MOST = 5
_QUOTED = 80
_QUOTES: dict[PromptLanguage, str] = {
    "zh": "（排练替身的摘录）用户说：“{words}”",
    "en": "(excerpt by the rehearsal stand-in) The user said: '{words}'",
}
_INSIGHTS: dict[PromptLanguage, str] = {
    "zh": "（排练替身不会分析，只会摘录）用户最后说：“{words}”",
    "en": "(the rehearsal stand-in quotes and does not analyse) Last the user said: '{words}'",
}


def write_memory(messages: Sequence[Message]) -> str | None:
    """Answer one of the three questions about a conversation as JSON; ``None`` for any other prompt."""
    system = next((said["content"] for said in messages if said["role"] == "system"), "")
    language: PromptLanguage | None = next(
        (known for heading, known in _TASK.items() if system.startswith(heading)), None
    )
    if language is None:
        return None
    asked = next((said["content"] for said in messages if said["role"] == "user"), "")
    sections = [part.strip() for part in _HEADING.split(asked)][1:]
    if len(sections) < 3:
        return None
    writers: dict[str, Callable[[list[str], PromptLanguage], dict[str, Any]]] = {
        '"facts"': _facts,
        '"insights"': _insights,
        '"operations"': _operations,
    }
    write = next((known for mark, known in writers.items() if mark in sections[-1]), None)
    return json.dumps(write(sections, language), ensure_ascii=False) if write else None


def _said(conversation: str) -> list[tuple[int, str, str]]:
    marks = list(_SAID.finditer(conversation))
    ends = [*(mark.start() for mark in marks[1:]), len(conversation)]
    return [
        (int(mark[1]), mark[2], conversation[mark.end() : end].strip())
        for mark, end in zip(marks, ends, strict=True)
    ]


def _quote(words: str, language: PromptLanguage, forms: dict[PromptLanguage, str]) -> str:
    """Quote in the language of the task, whatever the words are."""
    line = " ".join(words.split())
    short = line if len(line) <= _QUOTED else f"{line[:_QUOTED]}…"
    text = forms[language].replace("{words}", short)
    return text if is_in(language, text) else forms[language].replace("{words}", "…")


def _facts(sections: list[str], language: PromptLanguage) -> dict[str, Any]:
    said = _said(sections[0])
    found = [(number, words) for number, role, words in said if role == "user" and _OF_ONESELF.search(words)]
    facts = [
        {
            "text": _quote(words, language, _QUOTES),
            "type": "event" if _WISHES.search(words) else "profile",
            "messages": [number],
        }
        for number, words in found[-_MOST:]
    ]
    return {"facts": facts}


def _operations(sections: list[str], _language: PromptLanguage) -> dict[str, Any]:
    return {
        "operations": [
            {
                "op": "add",
                "type": found[1],
                "text": found[2],
                "reason": "rehearsal",
                "messages": json.loads(found[3]),
            }
            for found in _FACT.finditer(sections[2])
        ]
    }


def _insights(sections: list[str], language: PromptLanguage) -> dict[str, Any]:
    said = _said(sections[0])
    last = next((words for _, role, words in reversed(said) if role == "user"), "…")
    return {"insights": _quote(last, language, _INSIGHTS), "confidence_score": 0.1, "operations": []}
