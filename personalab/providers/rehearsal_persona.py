"""The stand-in's growth of a persona: notes of what was said last, labelled as such."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from personalab.dialogue import Message, is_in, without_indentation
from personalab.story.persona import MAX_PERSONA, NONE
from personalab.story.quantities import figure_in
from personalab.texts import PromptLanguage

_TASK: dict[str, PromptLanguage] = {"=== 成长任务 ===": "zh", "=== Growth task ===": "en"}
_RANGE = re.compile(r"(?:只能在 |only within )(\d+)(?: 到 | to )(\d+)")
_SO_FAR = re.compile(
    r"^=== (?:目前的成长人格|Who it has become so far) ===\n(.*?)\n\n=== ", re.MULTILINE | re.DOTALL
)
_SPEAKER = re.compile(r"^(?:User|Assistant): ", re.MULTILINE)
_NEXT_TURN = re.compile(r"\n\n|\n=== ")
_UNFIT = re.compile(r"[\d%％+＋★☆⭐█-▓■□▰▱={}\[\]]+")
_QUOTED = 30


class _PersonaPhrases(NamedTuple):
    """What the stand-in says in a language."""

    mark: str
    heading: str
    quoted: str
    silent: str
    first: str
    last: str


_WORDS: dict[PromptLanguage, _PersonaPhrases] = {
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
    system = next((said["content"] for said in messages if said["role"] == "system"), "")
    language: PromptLanguage | None = next(
        (known for heading, known in _TASK.items() if system.startswith(heading)), None
    )
    asked = next((said["content"] for said in messages if said["role"] == "user"), "")
    told, _, task = asked.rpartition("\n=== ")
    found = _RANGE.search(task)
    if language is None or found is None:
        return None
    first, last = int(found[1]), int(found[2])
    words = _WORDS[language]
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
    words = _WORDS[language]
    _, heading, after = told.rpartition(words.heading.replace("{turn}", str(turn)))
    after = after if heading else ""
    line = " ".join(_UNFIT.sub(" ", _SPEAKER.sub("", _NEXT_TURN.split(after)[0])).split())
    quote = line if len(line) <= _QUOTED else f"{line[:_QUOTED]}…"
    fits = (
        any(map(str.isalpha, quote)) and (language == "zh" or is_in("en", quote)) and figure_in(quote) is None
    )
    return template.replace("{said}", words.quoted.replace("{quote}", quote) if fits else words.silent)
