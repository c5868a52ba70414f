"""The stand-in's compaction of a conversation: quotes, labelled as such."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from personalab.dialogue import Message, is_in
from personalab.texts import PromptLanguage

_TASK: dict[str, PromptLanguage] = {"=== 压缩任务 ===": "zh", "=== Compaction task ===": "en"}
_HEADING = re.compile(r"^=== .+ ===[ \t]*$", re.MULTILINE)
_SAID = re.compile(r"^(?:\[\d+\] (?:user|assistant|system)|summary): ", re.MULTILINE)
_NOTHING = "–"
_MOST = 6
_QUOTED = 40
_BEFORE = 150
"""Characters kept from each end of the account so far."""
_WORDS: dict[PromptLanguage, tuple[str, str, str]] = {
    "zh": ("（排练替身的摘录，不是真正的总结）", "“{quote}”", "；"),
    "en": ("(excerpts by the rehearsal stand-in, not a real summary) ", "'{quote}'", "; "),
}


def write_compaction(messages: Sequence[Message]) -> str | None:
    """Answer a request for an account as JSON; ``None`` for any other prompt."""
    system = next((said["content"] for said in messages if said["role"] == "system"), "")
    language: PromptLanguage | None = next(
        (known for heading, known in _TASK.items() if system.startswith(heading)), None
    )
    asked = next((said["content"] for said in messages if said["role"] == "user"), "")
    sections = [part.strip() for part in _HEADING.split(asked)][1:]
    if language is None or len(sections) < 2:
        return None
    label, quoted, joint = _WORDS[language]
    quotes = [quoted.replace("{quote}", _short(words)) for words in _said(sections[1])]
    before = sections[0].removeprefix(label.strip()).strip()
    told = [] if before == _NOTHING else [_ends(before)]
    text = label + joint.join([*told, *_some(quotes)])
    return json.dumps({"summary": text if is_in(language, text) else f"{label}…"}, ensure_ascii=False)


def _said(conversation: str) -> list[str]:
    found = [part.strip() for part in _SAID.split(conversation)]
    return [part for part in found if part] or ["…"]


def _some(quotes: list[str]) -> list[str]:
    """Keep the first and the last of many."""
    half = _MOST // 2
    return quotes if len(quotes) <= _MOST else [*quotes[:half], "…", *quotes[-half:]]


def _ends(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 2 * _BEFORE else f"{line[:_BEFORE]}…{line[-_BEFORE:]}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _QUOTED else f"{line[:_QUOTED]}…"
