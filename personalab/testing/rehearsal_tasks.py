"""The stand-in's answers to requests for JSON: quotes of what was said, labelled as such.

A session is summarized in points, a persona grows by notes, a memory learns what a person said of themselves,
a conversation is compacted to excerpts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from personalab.dialogue import Message, is_in, without_indentation
from personalab.story.persona import MAX_PERSONA, NONE, figure_in
from personalab.texts import PromptLanguage

_SPEAKER = re.compile(r"^(?:User|Assistant): ", re.MULTILINE)
_HEADING = re.compile(r"^=== .+ ===[ \t]*$", re.MULTILINE)


def _request(
    messages: Sequence[Message], headings: Mapping[str, PromptLanguage]
) -> tuple[PromptLanguage | None, str]:
    """Return the language of a task with one of these headings (``None`` for another task), and the question."""
    system = next((said["content"] for said in messages if said["role"] == "system"), "")
    asked = next((said["content"] for said in messages if said["role"] == "user"), "")
    return next((known for heading, known in headings.items() if system.startswith(heading)), None), asked


def _short(text: str, length: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[:length]}…"


# --- summaries


_SUMMARY_TASK: dict[str, PromptLanguage] = {"=== 汇总任务 ===": "zh", "=== Summary task ===": "en"}
_SUMMARY_RANGE = re.compile(r"(?:第 |turns )(\d+)–(\d+)(?: 轮)?[）)] ===\n")
_TURN = re.compile(r"^(?:第(\d+)轮：|Turn (\d+):)[ \t]*\n", re.MULTILINE)
_TOGETHER = 5
_SUMMARY_WORDS = {
    "zh": ("（排练替身的摘录）第{first}–{last}轮：{quotes}", "“{quote}”", "；"),
    "en": ("(excerpts by the rehearsal stand-in) Turns {first}–{last}: {quotes}", "'{quote}'", "; "),
}


def write_summary(messages: Sequence[Message]) -> str | None:
    """Answer a request for points as JSON; ``None`` for any other prompt."""
    language, asked = _request(messages, _SUMMARY_TASK)
    found = _SUMMARY_RANGE.search(asked)
    if language is None or found is None:
        return None
    body = asked[found.end() : asked.rfind("\n=== ")]
    marks = list(_TURN.finditer(body))
    ends = [*(mark.start() for mark in marks[1:]), len(body)]
    turns = [
        (int(mark[1] or mark[2]), body[mark.end() : end].strip())
        for mark, end in zip(marks, ends, strict=True)
    ]
    if not turns:
        turns = [(int(found[1]), body.strip() or "…")]
    groups = [turns[at : at + _TOGETHER] for at in range(0, len(turns), _TOGETHER)]
    points = [_point(group, language) for group in groups]
    return json.dumps({"points": points}, ensure_ascii=False)


def _point(turns: Sequence[tuple[int, str]], language: PromptLanguage) -> dict[str, object]:
    whole, quoted, joint = _SUMMARY_WORDS[language]
    quotes = [quoted.replace("{quote}", _short(_SPEAKER.sub("", text), 40)) for _, text in turns]
    first, last = turns[0][0], turns[-1][0]
    summary = whole.replace("{first}", str(first)).replace("{last}", str(last))
    plot = "\n".join(text for _, text in turns)
    return {
        "summary": summary.replace("{quotes}", joint.join(quotes)),
        "plot": plot[:2_000],
        "turns": [first, last],
    }


# --- personas


_PERSONA_TASK: dict[str, PromptLanguage] = {"=== 成长任务 ===": "zh", "=== Growth task ===": "en"}
_PERSONA_RANGE = re.compile(r"(?:只能在 |only within )(\d+)(?: 到 | to )(\d+)")
_SO_FAR = re.compile(
    r"^=== (?:目前的成长人格|Who it has become so far) ===\n(.*?)\n\n=== ", re.MULTILINE | re.DOTALL
)
_NEXT_TURN = re.compile(r"\n\n|\n=== ")
_UNFIT = re.compile(r"[\d%％+＋★☆⭐█-▓■□▰▱={}\[\]]+")


class _PersonaPhrases(NamedTuple):
    """What the stand-in says in a language."""

    mark: str
    heading: str
    quoted: str
    silent: str
    first: str
    last: str


_PERSONA_WORDS: dict[PromptLanguage, _PersonaPhrases] = {
    "zh": _PersonaPhrases(
        "（排练替身的记录）",
        "第{turn}轮：\n",
        "“{quote}”",
        "对方的话",
        "还记得早先听到的{said}。",
        "最近把{said}放在心上。",
    ),
    "en": _PersonaPhrases(
        "(noted by the rehearsal stand-in)",
        "Turn {turn}:\n",
        "'{quote}'",
        "what was said",
        "Still remembers {said} from before.",
        "Has lately taken {said} to heart.",
    ),
}


def write_persona(messages: Sequence[Message]) -> str | None:
    """Answer a request for a grown persona as JSON; ``None`` for any other prompt."""
    language, asked = _request(messages, _PERSONA_TASK)
    told, _, task = asked.rpartition("\n=== ")
    found = _PERSONA_RANGE.search(task)
    if language is None or found is None:
        return None
    first, last = int(found[1]), int(found[2])
    words = _PERSONA_WORDS[language]
    notes = {last: _note(words.last, told, last, language)}
    if first != last:
        notes = {first: _note(words.first, told, first, language), **notes}
    old = _so_far(told)
    text = "\n".join([*_kept(old, words, language), f"{words.mark} {' '.join(notes.values())}"])
    changes = [{"change": note, "turns": [turn]} for turn, note in notes.items()]
    answer = {"evolved_persona": text, "changes": changes if text != old else []}
    return json.dumps(answer, ensure_ascii=False)


def _so_far(told: str) -> str:
    found = _SO_FAR.search(told)
    return "" if found is None or found[1].strip() == NONE else without_indentation(found[1]).strip()


def _kept(old: str, words: _PersonaPhrases, language: PromptLanguage) -> list[str]:
    """Keep what others wrote, where it is allowed in a persona."""
    own = [row for row in old.splitlines() if row.strip() and not row.startswith(words.mark)]
    text = "\n".join(own)[: MAX_PERSONA // 2].strip()
    return [text] if text and is_in(language, text) and figure_in(text) is None else []


def _note(template: str, told: str, turn: int, language: PromptLanguage) -> str:
    words = _PERSONA_WORDS[language]
    _, heading, after = told.rpartition(words.heading.replace("{turn}", str(turn)))
    after = after if heading else ""
    line = " ".join(_UNFIT.sub(" ", _SPEAKER.sub("", _NEXT_TURN.split(after)[0])).split())
    quote = _short(line, 30)
    fits = (
        any(map(str.isalpha, quote)) and (language == "zh" or is_in("en", quote)) and figure_in(quote) is None
    )
    return template.replace("{said}", words.quoted.replace("{quote}", quote) if fits else words.silent)


# --- memories


_MEMORY_TASK: dict[str, PromptLanguage] = {"=== 记忆任务 ===": "zh", "=== Memory task ===": "en"}
_MEMORY_SAID = re.compile(r"^\[(\d+)\] (user|assistant|system): ", re.MULTILINE)
_FACT = re.compile(r"^- \[(profile|event)\] (.+) (\[[\d, ]+\])$", re.MULTILINE)
_OF_ONESELF = re.compile(
    r"我叫|我是|我的名字|我不?喜欢|我讨厌|我住|我有|我会|我怕|我想"
    r"|\b(?:my name|i am|i'm|i like|i love|i hate|i live|i have|i want)\b",
    re.IGNORECASE,
)
_WISHES = re.compile(r"我想|\bi want\b", re.IGNORECASE)
_MEMORY_MOST = 5
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
    language, asked = _request(messages, _MEMORY_TASK)
    if language is None:
        return None
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


def _numbered(conversation: str) -> list[tuple[int, str, str]]:
    marks = list(_MEMORY_SAID.finditer(conversation))
    ends = [*(mark.start() for mark in marks[1:]), len(conversation)]
    return [
        (int(mark[1]), mark[2], conversation[mark.end() : end].strip())
        for mark, end in zip(marks, ends, strict=True)
    ]


def _quote(words: str, language: PromptLanguage, forms: dict[PromptLanguage, str]) -> str:
    """Quote in the language of the task, whatever the words are."""
    text = forms[language].replace("{words}", _short(words, 80))
    return text if is_in(language, text) else forms[language].replace("{words}", "…")


def _facts(sections: list[str], language: PromptLanguage) -> dict[str, Any]:
    said = _numbered(sections[0])
    found = [(number, words) for number, role, words in said if role == "user" and _OF_ONESELF.search(words)]
    facts = [
        {
            "text": _quote(words, language, _QUOTES),
            "type": "event" if _WISHES.search(words) else "profile",
            "messages": [number],
        }
        for number, words in found[-_MEMORY_MOST:]
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
    said = _numbered(sections[0])
    last = next((words for _, role, words in reversed(said) if role == "user"), "…")
    return {"insights": _quote(last, language, _INSIGHTS), "confidence_score": 0.1, "operations": []}


# --- compaction


_COMPACTION_TASK: dict[str, PromptLanguage] = {"=== 压缩任务 ===": "zh", "=== Compaction task ===": "en"}
_COMPACTION_SAID = re.compile(r"^(?:\[\d+\] (?:user|assistant|system)|summary): ", re.MULTILINE)
_NOTHING = "–"
_COMPACTION_MOST = 6
_BEFORE = 150
"""Characters kept from each end of the account so far."""
_COMPACTION_WORDS: dict[PromptLanguage, tuple[str, str, str]] = {
    "zh": ("（排练替身的摘录，不是真正的总结）", "“{quote}”", "；"),
    "en": ("(excerpts by the rehearsal stand-in, not a real summary) ", "'{quote}'", "; "),
}


def write_compaction(messages: Sequence[Message]) -> str | None:
    """Answer a request for an account as JSON; ``None`` for any other prompt."""
    language, asked = _request(messages, _COMPACTION_TASK)
    sections = [part.strip() for part in _HEADING.split(asked)][1:]
    if language is None or len(sections) < 2:
        return None
    label, quoted, joint = _COMPACTION_WORDS[language]
    quotes = [quoted.replace("{quote}", _short(words, 40)) for words in _said(sections[1])]
    before = sections[0].removeprefix(label.strip()).strip()
    told = [] if before == _NOTHING else [_ends(before)]
    text = label + joint.join([*told, *_some(quotes)])
    return json.dumps({"summary": text if is_in(language, text) else f"{label}…"}, ensure_ascii=False)


def _said(conversation: str) -> list[str]:
    found = [part.strip() for part in _COMPACTION_SAID.split(conversation)]
    return [part for part in found if part] or ["…"]


def _some(quotes: list[str]) -> list[str]:
    """Keep the first and the last of many."""
    half = _COMPACTION_MOST // 2
    return quotes if len(quotes) <= _COMPACTION_MOST else [*quotes[:half], "…", *quotes[-half:]]


def _ends(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 2 * _BEFORE else f"{line[:_BEFORE]}…{line[-_BEFORE:]}"
