"""A rule-based stand-in model that continues a story without any real model.

It reads its prompt (persona, outline, recalled events, the player's words) and answers with fixed sentences,
the same for the same prompt. Its replies identify it as a stand-in.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Literal

from personalab.dialogue import Message
from personalab.ports import ReplyChunk
from personalab.providers.rehearsal_compact import write_compaction
from personalab.providers.rehearsal_lab import write_lab
from personalab.providers.rehearsal_lines import LINES, Lines
from personalab.providers.rehearsal_memory import write_memory
from personalab.providers.rehearsal_persona import write_persona
from personalab.providers.rehearsal_summary import write_summary
from personalab.providers.well_formed import well_formed
from personalab.texts import PromptLanguage, fill

Status = Literal["completed", "in_progress", "pending"]
Section = Literal["persona", "outline", "reminder", "recalled"]

_MOVES_EVERY = 3
_REST_EVERY = 16
_QUOTED = 18
_HEADING = re.compile(r"^=== (.+?) ===[ \t]*$", re.MULTILINE)
_HEADINGS: dict[str, Section] = {
    "角色初始人格": "persona",
    "Base persona": "persona",
    "故事大纲": "outline",
    "Story outline": "outline",
    "导演提醒": "reminder",
    "Director's reminder": "reminder",
    "历史事件回忆": "recalled",
    "Recalled events": "recalled",
}
_NOTE_END = re.compile(r"^(?:（以上.*）|\(The above.*\))[ \t]*$", re.MULTILINE)
_LAST_NOTE = re.compile(r"\n\n\[[^\[\]]*\]\s*(?:\Z|(?=[（(]))")
"""The reminder after the player's words."""
_EXAMPLE_START = re.compile(r"^(?:（以下是示例.*）|\(The following is an example.*\))[ \t]*$", re.MULTILINE)
_EXAMPLE_END = re.compile(r"^(?:（示例结束.*）|\(End of the examples.*\))[ \t]*$", re.MULTILINE)
_NAME_ZH = re.compile(
    r"^\W*(?:你是|我是|姓名是?|名字[是叫]?|角色)?[\s:：“「『]*([^\s，,。.；;：:、（(）)”」』！!]{1,16})"
)
_NAME_EN = re.compile(
    r"(?:You are|I am|My name is|Name:|Character:)?\W*(?!(?:A|An|The|You|I|My)\b)"
    r"((?:[A-Z][\w'’-]*)(?: [A-Z][\w'’-]*){0,2})"
)
_NO_NAME = re.compile(r"['’]s\b|(?<=[\u3400-\u9fff])(?:是|的)")
"""What follows a name and is none of it."""
_MARKER = re.compile(r"\[\s*PROGRESS[^\]]*\]?", re.IGNORECASE)
_SOURCE = re.compile(r"^(?:第\d+轮|Turn \d+)\s*(?:（.*?）|\(.*?\))?[:：]\s*")
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
_LETTER = re.compile("[A-Za-z]")
_PIECE = re.compile(r"[\u3000-\u9fff\uff00-\uffef]{1,2}|\s*[^\s\u3000-\u9fff\uff00-\uffef]{1,8}|\s+")


@dataclass(frozen=True, slots=True)
class RehearsalPoint:
    """The current outline point."""

    index: int
    content: str
    status: Status


@dataclass(frozen=True, slots=True)
class RehearsalScene:
    """What the stand-in understands of its prompt."""

    language: PromptLanguage
    name: str
    turn: int
    words: str
    point: RehearsalPoint | None
    reminded: bool
    recalled: tuple[str, ...]


class RehearsalModel:
    """Answers by rule, in small pieces; ``delay`` is the pause between them, in seconds."""

    def __init__(self, *, delay: float = 0.01) -> None:
        self._delay = delay

    @property
    def name(self) -> str:
        """``rehearsal``."""
        return "rehearsal"

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[ReplyChunk]:
        """Yield a reply to the prompt, the same for the same prompt."""
        reply = well_formed(
            write_summary(messages)
            or write_persona(messages)
            or write_memory(messages)
            or write_compaction(messages)
            or write_lab(messages)
            or write_reply(read_scene(messages))
        )
        for at, piece in enumerate(_PIECE.findall(reply), 1):
            yield ReplyChunk(piece)
            if self._delay > 0 or at % _REST_EVERY == 0:
                await asyncio.sleep(self._delay)


def read_scene(messages: Sequence[Message]) -> RehearsalScene:
    """Find the speaker, the plot's position and the last messages in a prompt."""
    messages = _without_examples(messages)
    system = "\n".join(said["content"] for said in messages if said["role"] == "system")
    last = next((said["content"] for said in reversed(messages) if said["role"] == "user"), "")
    head, notes = _sections(system), _sections(last)
    words = _player_words(last)
    persona = head.get("persona", "")
    language = _language(persona or system or words)
    return RehearsalScene(
        language=language,
        name=_name(persona, language),
        turn=1 + sum(said["role"] == "assistant" for said in messages),
        words=words,
        point=_current_point(head.get("outline", "")),
        reminded="reminder" in notes or "reminder" in head,
        recalled=_items(notes.get("recalled", "") or head.get("recalled", "")),
    )


def write_reply(scene: RehearsalScene) -> str:
    """Write the reply: a gesture, an answer, the story's next step, and its marker."""
    lines = LINES[scene.language]
    pick = _Picker(scene)
    parts = [pick.one(lines.gestures, name=scene.name), _answer(scene, lines, pick)]
    if scene.recalled:
        event = _short(_SOURCE.sub("", scene.recalled[0]), 60).rstrip("。.")
        parts.append(pick.one(lines.recollections, event=event))
    step = _next_step(scene)
    if scene.point is not None:
        said = {"pending": lines.outlooks, "in_progress": lines.struggles, "completed": lines.endings}
        if step is not None:
            said = {"in_progress": lines.beginnings, "completed": lines.resolutions}
        parts.append(pick.one(said[step or scene.point.status], point=_short(scene.point.content, 60)))
    parts.append(pick.one(lines.closings, name=scene.name))
    opening = lines.announcement if scene.turn == 1 else lines.prefix
    marker = f"[PROGRESS:{scene.point.index}:{step}]" if scene.point and step else ""
    return opening + lines.joint.join(parts) + marker


def _next_step(scene: RehearsalScene) -> Status | None:
    """Decide whether this reply moves the story: every few turns, and always when the director reminds."""
    if scene.point is None or not (scene.reminded or scene.turn % _MOVES_EVERY == 1):
        return None
    if scene.point.status == "completed":
        return "completed" if scene.reminded else None
    return "in_progress" if scene.point.status == "pending" else "completed"


def _answer(scene: RehearsalScene, lines: Lines, pick: _Picker) -> str:
    words = scene.words.strip()
    if not words:
        return pick.one(lines.silences)
    asked = words.rstrip("”\"’' ").endswith(("?", "？", "吗", "呢"))
    quote = _short(words, _QUOTED if scene.language == "zh" else 3 * _QUOTED)
    return pick.one(lines.to_questions if asked else lines.to_statements, quote=quote)


class _Picker:
    """Picks variants by a hash of the scene, so that each turn sounds different and each replay the same."""

    def __init__(self, scene: RehearsalScene) -> None:
        seed = f"{scene.name}\0{scene.words}\0{scene.turn}".encode("utf-8", "replace")
        self._bytes = hashlib.blake2b(seed, digest_size=16).digest()
        self._at = 0
        self._turn = scene.turn

    def one(self, variants: tuple[str, ...], **params: str) -> str:
        number = self._bytes[self._at % len(self._bytes)]
        self._at += 1
        return fill(variants[(number + self._turn) % len(variants)], **params)


def _sections(text: str) -> dict[Section, str]:
    headings = list(_HEADING.finditer(text))
    ends = [*(heading.start() for heading in headings[1:]), len(text)]
    found: dict[Section, str] = {}
    for heading, end in zip(headings, ends, strict=False):
        if (section := _HEADINGS.get(heading[1].strip())) is not None:
            found[section] = text[heading.end() : end].strip()
    return found


def _without_examples(messages: Sequence[Message]) -> list[Message]:
    """Leave out the example dialogues before the story."""
    system = [said for said in messages if said["role"] == "system"]
    told = [said for said in messages if said["role"] != "system"]
    if told and _EXAMPLE_START.match(told[0]["content"]):
        for at, said in enumerate(told):
            if said["role"] == "user" and (end := _EXAMPLE_END.search(said["content"])) is not None:
                rest = Message(role="user", content=said["content"][end.end() :].strip())
                return [*system, rest, *told[at + 1 :]]
    return list(messages)


def _player_words(text: str) -> str:
    if told := list(_LAST_NOTE.finditer(text)):
        text = text[: told[-1].start()]
    if (note := list(_NOTE_END.finditer(text))) and _HEADING.search(text):
        return text[note[-1].end() :].strip()
    if _HEADING.search(text):
        return text.rpartition("\n\n")[2].strip()
    return text.strip()


def _items(text: str) -> tuple[str, ...]:
    lines = (_NOTE_END.split(text)[0]).splitlines()
    return tuple(line.strip().removeprefix("-").strip() for line in lines if line.strip().startswith("-"))


def _current_point(text: str) -> RehearsalPoint | None:
    start, end = text.find("{"), text.rfind("}")
    try:
        rows = json.loads(text[start : end + 1])["story_outline"]
        points = [RehearsalPoint(int(row["index"]), str(row["content"]), row["status"]) for row in rows]
    except (ValueError, TypeError, LookupError):
        return None
    unfinished = [point for point in points if point.status != "completed"]
    return (unfinished[:1] or points[-1:] or [None])[0]


def _language(text: str) -> PromptLanguage:
    return "zh" if len(_HAN.findall(text)) * 4 > len(_LETTER.findall(text)) else "en"


def _name(persona: str, language: PromptLanguage) -> str:
    pattern = _NAME_ZH if language == "zh" else _NAME_EN
    found = pattern.search(persona) if persona else None
    return _NO_NAME.split(found[1])[0] or found[1] if found else LINES[language].nobody


def _short(text: str, length: int) -> str:
    """Make a quotation; a marker in it would be taken for the stand-in's own."""
    line = " ".join(_MARKER.sub("", text).split())
    return line if len(line) <= length else line[:length].rstrip() + "…"
