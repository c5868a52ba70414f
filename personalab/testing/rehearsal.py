"""A rule-based stand-in model that continues a story without any real model.

It reads its prompt (persona, outline, recalled events, the player's words) and answers with fixed sentences,
the same for the same prompt. Its replies identify it as a stand-in."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Literal

from personalab.dialogue import Message, well_formed
from personalab.ports import ReplyChunk
from personalab.testing.rehearsal_lab import write_lab
from personalab.testing.rehearsal_tasks import write_compaction, write_memory, write_persona, write_summary
from personalab.texts import PromptLanguage, fill


@dataclass(frozen=True, slots=True)
class Lines:
    """The sentences of one language; each tuple holds variants of one moment."""

    announcement: str
    prefix: str
    joint: str
    nobody: str
    gestures: tuple[str, ...]
    to_questions: tuple[str, ...]
    to_statements: tuple[str, ...]
    silences: tuple[str, ...]
    recollections: tuple[str, ...]
    outlooks: tuple[str, ...]
    """The next point lies ahead."""
    beginnings: tuple[str, ...]
    """The point begins now."""
    struggles: tuple[str, ...]
    """The point is under way."""
    resolutions: tuple[str, ...]
    """The point comes to its end now."""
    endings: tuple[str, ...]
    """Every point lies behind."""
    closings: tuple[str, ...]


_ZH = Lines(
    announcement=(
        "（这是排练替身，不是真正的模型：它按固定规则应答，只供试用。"
        "设置 OPENAI_API_KEY 或 OPENAI_BASE_URL，"
        "再用 PERSONALAB_MODEL=openai:模型名 选定模型，就会由它来演。）\n\n"
    ),
    prefix="（排练）",
    joint="",
    nobody="他",
    gestures=(
        "（{name}抬起头，目光在你脸上停了一会儿）",
        "（{name}没有立刻回答，只是把外套的领子拢紧）",
        "（{name}往火里添了一根柴，火星飘起来又落下）",
        "（{name}靠着墙，手指一下一下敲着膝盖）",
        "（{name}回头看了一眼来路，才转向你）",
        "（{name}嘴角动了动，像是想笑，又忍住了）",
    ),
    to_questions=(
        "“{quote}”……这个问题我也问过自己。答案是：走下去才知道。",
        "你问“{quote}”？好，我不瞒你，可有些话只能说一半。",
        "“{quote}”——问得好。换作以前，我会说谎。",
        "你总问在点子上。“{quote}”，容我想一想再答你。",
        "“{quote}”？我心里有数，只是还差一个印证。",
    ),
    to_statements=(
        "“{quote}”，你这句话我听进去了。",
        "你说“{quote}”的时候，声音比你自己以为的要稳。",
        "“{quote}”……好，就照你说的，我们试一次。",
        "我记下了：“{quote}”。以后别怪我拿这句话提醒你。",
        "“{quote}”，也许吧。至少现在，我愿意信你。",
    ),
    silences=("你不说话，我也听得出你在想什么。", "沉默也是一种回答。"),
    recollections=(
        "我没有忘。“{event}”，那时的事我一直放在心上。",
        "你一提，我就想起来了：{event}。",
        "我们之间有过这么一段：{event}。这笔账我记着。",
    ),
    outlooks=(
        "前面等着我们的，是“{point}”，但还不到时候。",
        "我闻得到风里的味道，“{point}”就快来了。",
        "先把眼下的事做完，再说“{point}”。",
    ),
    beginnings=(
        "时候到了，“{point}”，就从这一步开始。",
        "走吧。从现在起，我们要面对的是“{point}”。",
        "门已经开了一条缝，后面就是“{point}”。",
    ),
    struggles=(
        "“{point}”还没有完，每一步都得踩实。",
        "我们正走在“{point}”的半路上，别回头。",
        "“{point}”比我想的更难，可也更近了。",
    ),
    resolutions=(
        "结束了。“{point}”，到这里算是有了交代。",
        "我长出一口气：“{point}”，我们做到了。",
        "尘埃落下来，“{point}”已经是身后的事。",
    ),
    endings=(
        "该走的路都走完了，“{point}”之后，剩下的是我们自己的日子。",
        "故事写到这里，“{point}”已成往事。",
    ),
    closings=(
        "你打算怎么做？",
        "跟紧我，别出声。",
        "说吧，下一步听你的。",
        "天快亮了，我们没有多少时间。",
        "……你还在听，对吧？",
    ),
)

_EN = Lines(
    announcement=(
        "(This is a rehearsal stand-in, not a real model: it answers by fixed rules, for trying things out. "
        "Set OPENAI_API_KEY or OPENAI_BASE_URL, and choose a model with PERSONALAB_MODEL=openai:NAME, "
        "to have one play the part.)\n\n"
    ),
    prefix="(rehearsal) ",
    joint=" ",
    nobody="The stranger",
    gestures=(
        "*{name} looks up and holds your gaze for a moment.*",
        "*{name} says nothing at first, and pulls the collar tighter.*",
        "*{name} feeds a stick to the fire; sparks rise and fade.*",
        "*{name} leans on the wall, one finger tapping a slow beat.*",
        "*{name} glances back along the road before turning to you.*",
        "*The corner of {name}'s mouth moves, almost a smile.*",
    ),
    to_questions=(
        '"{quote}" I have asked myself the same. We will know when we get there.',
        'You ask "{quote}" Fair enough; I can tell you half of it.',
        '"{quote}" A good question. There was a time I would have lied to you.',
        'Always the right question: "{quote}" Give me a moment before I answer.',
        '"{quote}" I have a guess, and I lack one proof.',
    ),
    to_statements=(
        '"{quote}" I heard that, and I will not forget it.',
        'When you say "{quote}", your voice is steadier than you think.',
        '"{quote}" All right. We try it your way, once.',
        'Then let it stand: "{quote}" Do not blame me when I remind you of it.',
        '"{quote}" Perhaps. For now I choose to believe you.',
    ),
    silences=("You say nothing, and still I hear it.", "Silence is an answer too."),
    recollections=(
        "I have not forgotten: {event}.",
        "Now that you speak of it, it comes back to me: {event}.",
        "We share this much, you and I: {event}.",
    ),
    outlooks=(
        'What waits ahead of us is this: "{point}". Not yet, though.',
        'I can smell it on the wind; "{point}" is close.',
        'First what is before us, then "{point}".',
    ),
    beginnings=(
        'It is time. "{point}": it begins with this step.',
        'Come. From here on, what we face is "{point}".',
        'The door stands ajar, and behind it: "{point}".',
    ),
    struggles=(
        '"{point}" is not done yet; every step has to hold.',
        'We are halfway through "{point}". Do not look back.',
        '"{point}" is harder than I thought, and nearer.',
    ),
    resolutions=(
        'It is over. "{point}": that account is settled.',
        'I let out a long breath. "{point}", and we did it.',
        'The dust comes down, and "{point}" lies behind us.',
    ),
    endings=(
        'Every road is walked; after "{point}", what is left is our own days.',
        'The story has told its last point, "{point}", and still we sit here.',
    ),
    closings=(
        "What will you do?",
        "Stay close, and keep quiet.",
        "Say the word; the next step is yours.",
        "It will be light soon. We have little time.",
        "You are still listening, are you not?",
    ),
)

LINES: dict[PromptLanguage, Lines] = {"zh": _ZH, "en": _EN}


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
