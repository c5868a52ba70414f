"""The stand-in's summary of a session in points: quotes, labelled as such."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from personalab.dialogue import Message
from personalab.texts import PromptLanguage

_TASK: dict[str, PromptLanguage] = {"=== 汇总任务 ===": "zh", "=== Summary task ===": "en"}
_RANGE = re.compile(r"(?:第 |turns )(\d+)–(\d+)(?: 轮)?[）)] ===\n")
_TURN = re.compile(r"^(?:第(\d+)轮：|Turn (\d+):)[ \t]*\n", re.MULTILINE)
_SPEAKER = re.compile(r"^(?:User|Assistant): ", re.MULTILINE)
_TOGETHER = 5
_QUOTED = 40
_WORDS = {
    "zh": ("（排练替身的摘录）第{first}–{last}轮：{quotes}", "“{quote}”", "；"),
    "en": ("(excerpts by the rehearsal stand-in) Turns {first}–{last}: {quotes}", "'{quote}'", "; "),
}


def write_summary(messages: Sequence[Message]) -> str | None:
    """Answer a request for points as JSON; ``None`` for any other prompt."""
    system = next((said["content"] for said in messages if said["role"] == "system"), "")
    language: PromptLanguage | None = next(
        (known for heading, known in _TASK.items() if system.startswith(heading)), None
    )
    asked = next((said["content"] for said in messages if said["role"] == "user"), "")
    found = _RANGE.search(asked)
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
    whole, quoted, joint = _WORDS[language]
    quotes = [quoted.replace("{quote}", _short(_SPEAKER.sub("", text))) for _, text in turns]
    first, last = turns[0][0], turns[-1][0]
    summary = whole.replace("{first}", str(first)).replace("{last}", str(last))
    plot = "\n".join(text for _, text in turns)
    return {
        "summary": summary.replace("{quotes}", joint.join(quotes)),
        "plot": plot[:2_000],
        "turns": [first, last],
    }


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _QUOTED else f"{line[:_QUOTED]}…"
