"""Recall: when a turn looks up the past, its query, and which events enter the prompt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, cast

from personalab.config import RecallModule
from personalab.i18n import ABOUT
from personalab.story.transcript import Turn, usable_reply
from personalab.texts import Language, fill, say

Kind = Literal["summary", "plot", "turn"]

CONFIDENT = 0.5
"""Minimum confidence of a hit that enters the prompt without a question about the past."""
UNASKED_LIMIT = 5
SHOWN_CHARACTERS = 600
"""How much of one recalled event the prompt shows."""
QUERY_CHARACTERS = 4_000
"""Maximum length of an input that is searched for: half from its beginning, half from its end, where questions are."""
FINDABLE_CHARACTERS = 50_000
"""Maximum searchable length of an event: of a turn, the beginnings of the input and of the answer, half each."""


@dataclass(frozen=True, slots=True)
class StoryEvent:
    """Something that happened: a summary's point, its detailed plot, or a turn word for word."""

    event_id: str
    kind: Kind
    text: str
    instance_id: str
    session_id: str
    index: int
    """Its place in the session, from 1; for a turn, the turn's number."""
    character_id: str
    background_id: str = ""
    first_turn: int = 0
    last_turn: int = 0
    """The turns it covers; 0 where that is not known."""
    related_id: str = ""
    """The plot of a summary, the summary of a plot."""
    timestamp: str = ""
    """When a turn was said, ISO 8601; questions name dates."""


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """What to look for, and where."""

    query: str
    kinds: tuple[Kind, ...]
    limit: int
    instance_id: str
    """The instance that is searched."""
    others: bool = False
    """Search all instances but this one."""
    character_id: str | None = None
    background_id: str | None = None
    """Only events of this character and background; ``None`` does not ask."""
    skip_session: str = ""
    skip_from: int = 0
    """Leave out this session's turns from this number on: they are in the prompt."""
    in_prompt: Set[str] = frozenset()
    """Leave out events with these texts, whatever session and turn the index has them under."""


@dataclass(frozen=True, slots=True)
class Hit:
    """An event that was found, and why."""

    event: StoryEvent
    score: float
    """Fused; comparable within one search only."""
    confidence: float
    """0 to 1, comparable between searches: how surely this answers the query; 0 without any evidence."""
    lexical_rank: int | None
    dense_rank: int | None
    """Places from 1 in the two rankings, or ``None`` where one did not find it."""
    matched: tuple[str, ...] = ()
    """The query's words that occur in the event, the rarest first."""
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class Lookup:
    """A decision to look something up."""

    query: str
    kinds: tuple[Kind, ...]
    limit: int
    asked: bool
    """Whether the person asks for the past; if not, only confident hits enter the prompt."""


@lru_cache(maxsize=32)
def _pattern(words: tuple[str, ...]) -> re.Pattern[str]:
    """Match any of the words: Latin ones as whole words, Chinese ones anywhere."""
    ordered = sorted(words, key=len, reverse=True)
    parts = [rf"\b{re.escape(word)}\b" if word.isascii() else re.escape(word) for word in ordered]
    return re.compile("|".join(parts) or r"(?!)", re.IGNORECASE)


def plan_lookup(user_input: str, module: RecallModule) -> Lookup | None:
    """Decide whether and how the input looks something up."""
    if module.trigger == "off":
        return None
    user_input = _question_in(user_input)
    words = module.keywords if module.trigger == "keywords" else module.keywords + module.auto_keywords
    asked = module.trigger == "always" or _pattern(words).search(user_input) is not None
    if not asked and module.trigger == "keywords":
        return None
    in_detail = _pattern(module.detail_words).search(user_input) is not None
    kinds: tuple[Kind, ...] = ("plot", "turn") if in_detail else ("summary", "turn")
    limit = module.n_results if asked else min(UNASKED_LIMIT, module.n_results)
    return Lookup(extract_query(user_input), kinds, limit, asked)


def _question_in(user_input: str) -> str:
    """Take the beginning and the end of a long input: a page that was pasted is no question."""
    if len(user_input) <= QUERY_CHARACTERS:
        return user_input
    half = QUERY_CHARACTERS // 2
    return f"{user_input[:half]}\n{user_input[-half:]}"


_FILLERS = """
    还记不记得 记不记得 还记得 记得 想起 回忆 之前 当时 那次 以前 上次 那时 你还 我们 你们 他们 她们 咱们 是不是 有没有
    能不能 可不可以 什么时候 为什么 什么 哪里 哪儿 哪个 哪些 多少 吗 呢 吧 啊 呀 嘛 的 了 你 我 他 她 它 还 请问 请 一下
    remember recall remind earlier previously what when where which who whom whose why the a an i you he she it we
    they me us my your our did do does is are was were have has had of to please about that still can could would
"""
_EDGE = " \t\r\n，。！？、；：,.!?;:…—-\"'“”‘’()（）"


def extract_query(user_input: str) -> str:
    """Leave what the question is about: words that only ask are taken out, unless nothing else is there."""
    core = _pattern(tuple(_FILLERS.split())).sub(" ", user_input)
    query = " ".join(part for word in core.split() if (part := word.strip(_EDGE)))
    return query or user_input.strip()


def choose(hits: Sequence[Hit], lookup: Lookup) -> list[Hit]:
    """Keep the hits that may enter the prompt: requested ones with evidence, or only confident ones."""
    known = with_evidence(hits) if lookup.asked else [hit for hit in hits if hit.confidence >= CONFIDENT]
    return distinct(known)[: lookup.limit]


def with_evidence(hits: Iterable[Hit]) -> list[Hit]:
    """Drop hits that neither the words nor the meaning of the query speak for."""
    return [hit for hit in hits if hit.confidence > 0]


def distinct(hits: Iterable[Hit]) -> list[Hit]:
    """Leave out what a later session took over word for word: only the first is kept."""
    known: dict[tuple[str, str, str], Hit] = {}
    for hit in hits:
        known.setdefault((hit.event.kind, hit.event.text, hit.event.timestamp), hit)
    return list(known.values())


def shown_text(event: StoryEvent, templates: Mapping[str, str]) -> str:
    """Word an event for the prompt, in one piece of bounded length."""
    text = event.text if len(event.text) <= SHOWN_CHARACTERS else event.text[:SHOWN_CHARACTERS] + "…"
    if event.kind != "turn":
        return text
    return fill(templates["recalled_turn"], turn=event.index, session_id=event.session_id, text=text)


def recalled_item(hit: Hit, templates: Mapping[str, str], language: Language) -> dict[str, Any]:
    """Describe a hit: its text, where it came from and why it was found."""
    event = hit.event
    return {
        "text": shown_text(event, templates),
        "event_id": event.event_id,
        "kind": event.kind,
        "session_id": event.session_id,
        "turns": [event.first_turn, event.last_turn] if _is_placed(event) else None,
        "reason": reason(hit, language),
        "confidence": round(hit.confidence, 3),
    }


def _is_placed(event: StoryEvent) -> bool:
    """Return whether an event's position is known; 0 is the opening turn, or none."""
    return event.kind == "turn" or event.last_turn > 0


def reason(hit: Hit, language: Language) -> str:
    """Describe why an event was found."""
    parts: list[str] = []
    comma = ABOUT.say("comma", language)
    if hit.matched:
        parts.append(say("recall.words", language, words=comma.join(hit.matched[:5]), rank=hit.lexical_rank))
    if hit.dense_rank is not None:
        similarity = f"{hit.similarity:.2f}" if hit.similarity is not None else "?"
        parts.append(say("recall.meaning", language, similarity=similarity, rank=hit.dense_rank))
    return ABOUT.say("semicolon", language).join(parts)


def turn_event(
    turn: Turn, instance_id: str, session_id: str, character_id: str, background_id: str
) -> StoryEvent:
    """Make a turn findable word for word, as far as it is not endless."""
    rows = [turn.user.content[: FINDABLE_CHARACTERS // 2]] if turn.user else []
    if (answer := turn.answer) is not None:
        rows.append(answer[: FINDABLE_CHARACTERS // 2])
    last = turn.last_reply
    return StoryEvent(
        event_id=f"turn_{instance_id}_{session_id}_{turn.number}",
        kind="turn",
        text="\n".join(rows),
        instance_id=instance_id,
        session_id=session_id,
        index=turn.number,
        character_id=character_id,
        background_id=background_id,
        first_turn=turn.number,
        last_turn=turn.number,
        timestamp=turn.user.timestamp if turn.user else (last.timestamp if last else ""),
    )


class PromptTexts(Set[str]):
    """The texts that a conversation puts into the prompt, collected only for a search that finds something.

    A summary carries turns over into the next session under new numbers, so that only their text identifies them.
    """

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._turns = turns

    @cached_property
    def _texts(self) -> frozenset[str]:
        return _prompt_texts(self._turns)

    def __contains__(self, text: object) -> bool:
        return text in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def _prompt_texts(turns: Iterable[Turn]) -> frozenset[str]:
    """Collect the texts as events would have them."""
    texts: set[str] = set()
    for turn in turns:
        answers = _answers(turn)
        texts.update(answers)
        if turn.user is not None:
            said = turn.user.content
            texts.add(said)
            texts.update(f"{said}\n{answer}" for answer in answers)
        if turn.notes:
            texts.update(note.content for note in turn.notes)
    return frozenset(texts)


def _answers(turn: Turn) -> tuple[str, ...]:
    """Return the usable replies of a turn, worked out once."""
    found = turn.memo.get(_answers)
    if found is None:
        replies = map(usable_reply, turn.replies)
        found = turn.memo[_answers] = tuple(text for text in replies if text is not None)
    return cast("tuple[str, ...]", found)


def point_events(
    points: Iterable[tuple[str, str | None, tuple[int, int] | None]],
    instance_id: str,
    session_id: str,
    character_id: str,
    background_id: str,
) -> list[StoryEvent]:
    """Make a summary's points findable: each (summary, plot, turns covered), cross-linked by their ids."""
    events: list[StoryEvent] = []
    for index, (summary, plot, turns) in enumerate(points, start=1):
        tail = f"{instance_id}_{session_id}_{index}"
        first, last = turns or (0, 0)
        pairs: list[tuple[Kind, str | None]] = [("summary", summary), ("plot", plot)]
        for kind, text in pairs:
            if not text:
                continue
            related = f"plot_{tail}" if kind == "summary" else f"summary_{tail}"
            events.append(
                StoryEvent(
                    event_id=f"{kind}_{tail}",
                    kind=kind,
                    text=text[:FINDABLE_CHARACTERS],
                    instance_id=instance_id,
                    session_id=session_id,
                    index=index,
                    character_id=character_id,
                    background_id=background_id,
                    first_turn=first,
                    last_turn=last,
                    related_id=related if plot else "",
                )
            )
    return events
