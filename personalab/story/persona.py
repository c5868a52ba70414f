"""Prompts and answer checks for a character that grows by its experiences.

The model receives the original persona (which never changes), the current one, and the last turns; it answers
as JSON with the new text and the changes in it, each with the turns it is based on. The answer is validated
here, because a model may answer anything.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from typing import Any, Literal, TypedDict, cast

from personalab.dialogue import (
    HEADING,
    AnswerSchema,
    Message,
    indented_block,
    is_in,
    list_schema,
    object_in,
    object_schema,
    text_schema,
    whole_number_schema,
    whole_numbers,
    without_indentation,
)
from personalab.errors import Invalid, UserError
from personalab.story.prompt import turn_text
from personalab.story.summary import as_material
from personalab.story.transcript import Transcript, Turn
from personalab.texts import PromptLanguage, fill

LAST_TURNS = 20
"""Number of answered turns that are considered."""
MAX_PERSONA = 8_000
MAX_CHANGES = 20
"""More changes at once are another character."""
MAX_CHANGE = 1_000
NONE = "–"
"""Stands for a persona that has not grown yet."""

Count = Callable[[str], int]
Templates = Mapping[str, str]

_CUT = " … "
_LEAST_TURN = 40
"""Tokens of a turn below which it says nothing any more."""
_LONG_BASE = 40
"""Minimum length of a base persona whose occurrence in a text means that it was copied."""
_MARKER = re.compile(r"[\[［【]\s*PROGRESS\b", re.IGNORECASE)
_REFUSAL = re.compile(
    r"\s*(?:I(?:['’]m| am) (?:very |really )?sorry\b.{0,60}(?:can['’]?t|cannot|unable)"
    r"|I(?: can['’]?t| cannot| am unable to|['’]m unable to) (?:help|assist|comply|continue|fulfil|do|write|provide)"
    r"|As an? (?:AI|artificial|large language)\b"
    r"|(?:很|非常)?(?:对不起|抱歉).{0,20}(?:不能|无法|没办法|没法)"
    r"|作为(?:一个|一名|一款)?\s*(?:AI|人工智能|大?语言模型)"
    r"|我(?:不能|无法)(?:协助|帮助|满足|完成|提供|继续))",
    re.IGNORECASE | re.DOTALL,
)
_SENTENCE_END = re.compile(
    r"(?<=[。！？!?…])(?![。！？!?…”’」』）)\"'])|(?<=[.])(?=\s)|(?<=[”’」』）)\"'])(?<=[。！？.!?].)|\n"
)


@dataclass(frozen=True, slots=True)
class PersonaChange:
    """One thing that has changed in a character, and the turns that changed it."""

    change: str
    turns: tuple[int, ...]

    @classmethod
    def read(cls, data: object) -> PersonaChange:
        """Read it from its JSON value."""
        given = cast("dict[str, object]", data) if isinstance(data, dict) else {}
        change, turns = given.get("change"), given.get("turns")
        if isinstance(change, str) and isinstance(turns, list):
            rows = cast("list[object]", turns)
            numbers = tuple(turn for turn in rows if isinstance(turn, int))
            if len(numbers) == len(rows):
                return cls(change, numbers)
        raise Invalid("change_incomplete")

    def fields(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {"change": self.change, "turns": list(self.turns)}


@dataclass(frozen=True, slots=True)
class Evolution:
    """Who a character has become, and by what; without changes it is who it was."""

    evolved_persona: str
    changes: tuple[PersonaChange, ...]


class DiffPart(TypedDict):
    """A sentence that stayed, came or went."""

    op: Literal["same", "add", "remove"]
    text: str


# --- what the model reads


def turns_to_learn_from(transcript: Transcript) -> list[Turn]:
    """Pick the newest turns that were said and answered."""
    told = [turn for turn in transcript.turns if turn.user is not None and turn.answer is not None]
    return told[-LAST_TURNS:]


def evolve_messages(
    base: str, old: str, turns: Sequence[Turn], templates: Templates, count: Count, budget: int
) -> list[Message]:
    """Ask who the character has become; long turns are cut so that everything fits the budget."""

    def asked(conversation: str) -> list[Message]:
        text = fill(
            templates["evolve"],
            base=indented_block(base),
            evolved=indented_block(old.strip()) or NONE,
            conversation=conversation,
            first=turns[0].number,
            last=turns[-1].number,
            max_changes=MAX_CHANGES,
            max_characters=MAX_PERSONA,
        )
        return [{"role": "system", "content": templates["evolve_system"]}, {"role": "user", "content": text}]

    used = sum(count(message["content"]) for message in asked(""))
    if used + _LEAST_TURN * len(turns) > budget:
        raise UserError("persona_too_long", actual=used, limit=budget)
    texts = [turn_text(as_material(turn), templates) for turn in turns]
    return asked("".join(_fitting(texts, count, budget - used)).rstrip("\n"))


def _fitting(texts: Sequence[str], count: Count, budget: int) -> list[str]:
    """Cut the longest texts to one length, so that all of them fit and short ones stay whole."""
    costs = [count(text) for text in texts]
    left, limit = budget, budget
    for place, cost in enumerate(sorted(costs)):
        limit = left // (len(costs) - place)
        if cost > limit:
            break
        left -= cost
    return [
        text if cost <= limit else _shortened(text, cost, count, limit)
        for text, cost in zip(texts, costs, strict=True)
    ]


def _shortened(text: str, cost: int, count: Count, limit: int) -> str:
    """Take out the middle: a turn begins with what was said and ends with what was answered."""
    size = len(text) * limit // cost
    while size > 1:
        half = size // 2
        shorter = f"{text[:half]}{_CUT}{text[len(text) - half :].rstrip()}\n\n"
        if (cost := count(shorter)) <= limit:
            return shorter
        size = min(size - 1, size * limit // cost)
    return _CUT


# --- what the model answers


def evolution_schema(shown: Collection[int]) -> AnswerSchema:
    """Return the JSON schema of the persona that ``read_evolution`` reads."""
    change = object_schema(
        change=text_schema(at_most=MAX_CHANGE),
        turns=list_schema(whole_number_schema(shown), at_least=1, at_most=len(shown)),
    )
    schema = object_schema(
        evolved_persona=text_schema(at_least=0, at_most=MAX_PERSONA),
        changes=list_schema(change, at_most=MAX_CHANGES),
    )
    return AnswerSchema("evolved_persona", schema)


def read_evolution(
    answer: str, shown: Collection[int], base: str, old: str, language: PromptLanguage
) -> Evolution:
    """Read the new persona and its changes, which rest on ``shown`` turns; ``ValueError`` says what is wrong."""
    given = object_in(answer, "evolved_persona")
    text = given.get("evolved_persona")
    if not isinstance(text, str):
        raise Invalid("quoted_missing_or_not_text", field="evolved_persona")
    text = _clean(without_indentation(text))
    rows = _listed(given.get("changes"))
    if text == _clean(old) or (not rows and _folded(text) == _folded(old)):
        if rows:
            raise Invalid("changes_unfounded")
        return Evolution(old, ())
    _check_persona(text, base, language)
    if not rows:
        raise Invalid("changes_unnamed")
    if len(rows) > MAX_CHANGES:
        raise Invalid("changes_over", count=len(rows), limit=MAX_CHANGES)
    changes = [_change(row, place, shown, language) for place, row in enumerate(rows, start=1)]
    return Evolution(text, tuple(changes))


def _listed(changes: object) -> list[object]:
    """Read the list of changes: left out where there are none, and one alone needs no list."""
    if changes is None or isinstance(changes, dict):
        return [] if changes is None else [cast("object", changes)]
    if not isinstance(changes, list):
        raise Invalid("no_list_in_json", field="changes")
    return cast("list[object]", changes)


def _check_persona(text: str, base: str, language: PromptLanguage) -> None:
    if not text:
        raise Invalid("quoted_blank", field="evolved_persona")
    if len(text) > MAX_PERSONA:
        raise Invalid("quoted_too_long", field="evolved_persona", count=len(text), limit=MAX_PERSONA)
    if _REFUSAL.match(text):
        raise Invalid("persona_refused")
    made, grown = _folded(base), _folded(text)
    if made and (grown == made or (len(made) > _LONG_BASE and made in grown)):
        raise Invalid("persona_repeated")
    _check_words(text, '"evolved_persona"', language)


def _check_words(text: str, what: str, language: PromptLanguage) -> None:
    if not is_in(language, text):
        raise Invalid("story_language", what=what, language=language)
    if any(map(HEADING.match, text.splitlines())):
        raise Invalid("heading_inside", what=what)
    if _MARKER.search(text):
        raise Invalid("marker_inside", what=what)
    if (figure := figure_in(text)) is not None:
        raise Invalid("trait_in_figures", what=what, figure=figure[:40])


def _change(data: object, place: int, shown: Collection[int], language: PromptLanguage) -> PersonaChange:
    if not isinstance(data, dict):
        raise Invalid("change_not_object", place=place)
    given = cast("dict[str, object]", data)
    text = given.get("change")
    if not isinstance(text, str) or not (text := _clean(text)):
        raise Invalid("change_without_text", place=place)
    if len(text) > MAX_CHANGE:
        raise Invalid("change_too_long", place=place, count=len(text), limit=MAX_CHANGE)
    _check_words(text, f"change {place}", language)
    turns: object = given.get("turns")
    if turns is None and len(set(shown)) == 1:
        turns = list(shown)
    try:
        numbers = whole_numbers(turns)
    except ValueError:
        numbers = []
    if not numbers or not set(numbers) <= set(shown):
        said = json.dumps(turns, ensure_ascii=False, default=str)[:80]
        known = ", ".join(map(str, sorted(set(shown))))
        raise Invalid("change_turns", place=place, value=said, known=known)
    return PersonaChange(text, tuple(sorted(set(numbers))))


def _clean(text: str) -> str:
    """Make a text storable: neither half pairs nor the character 0 can be."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8").strip()


def _folded(text: str) -> str:
    return "".join(text.split()).casefold()


# --- what is shown of it


def sentences(text: str) -> list[str]:
    """Cut a text behind the ends of its sentences and lines."""
    return [part.strip() for part in _SENTENCE_END.split(text) if part and part.strip()]


def diff(before: str, after: str) -> list[DiffPart]:
    """Compare two texts sentence by sentence."""
    old, new = sentences(before), sentences(after)
    parts: list[DiffPart] = []
    for op, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new, False).get_opcodes():
        if op == "equal":
            parts += [DiffPart(op="same", text=text) for text in old[old_from:old_to]]
            continue
        parts += [DiffPart(op="remove", text=text) for text in old[old_from:old_to]]
        parts += [DiffPart(op="add", text=text) for text in new[new_from:new_to]]
    return parts


_NUMBER = r"[+\-−]?\d{1,3}(?:\.\d+)?(?![\d.]*\d)"
_DIGIT = "[一二三四五六七八九]"
_HAN_NUMBER = f"(?:[二三四五六七八九]?十{_DIGIT}|[二三四五六七八九]十|{_DIGIT}百|[两二三四五六七八九])"

_TRAIT_ZH = (
    "(?:信任|好感|亲密|亲近|忠诚|友好|友情|友谊|爱意|爱情|爱慕|喜爱|依赖|依恋|愤怒|怒气|恐惧|焦虑|压力|士气|心情|情绪|理智|"
    "勇气|勇敢|自信|决心|多疑|怀疑|疑心|警惕|警觉|敌意|仇恨|憎恨|羁绊|关系|尊敬|敬意|魅力|智力|智慧|力量|敏捷|体力|精力|耐力|"
    "幸福|快乐|悲伤|好奇|同情|希望|绝望|愧疚|羞耻|嫉妒|耐心|坚韧|开放|外向|宜人|尽责|神经质|满意|生命|健康|疲劳|饥饿|堕落)"
)
_SCALE_ZH = "(?:度|值|指数|等级|级别|水平|程度|评分|分数|点数|得分)"
_MOVES_ZH = (
    r"(?:\s|[:：=→,，]|->|目前|现在|如今|已经?|从|由|为|是|有|约|大约|达到?|上升|下降|提升|提高|降低|增加|减少|增长|"
    r"升|降|涨|跌|到|至|了|的|在)"
)
_COUNTED_ZH = (
    r"(?!\s*(?:个|多|余|来|几|天|日|年|月|周|星期|小时|分钟|秒|次|人|号|岁|点钟|名|位|枚|条|把|章|轮|回|夜|里|米|公里|"
    r"代|世纪))"
)

_END_ZH = r"(?=\s*(?:$|[,，.。;；:：!！?？、)）\]】」”\n]))"
_UNCOUNTED_ZH = (
    rf"(?:{_END_ZH}|(?=\s*点(?:数|{_END_ZH}))"
    r"|(?=\s*(?:[/%→]|->|分(?!钟)|级|到|至|升|降|涨|跌|变|左右|上下|以上|以下|而|但|和|与)))"
)
_DATED = r"(?!\s*(?:[那这当]|日|号|晚|早|凌晨|清晨|上午|中午|下午|傍晚|夜|之[前后]|以[前后]|[前后]))"

_TRAIT_EN = (
    r"\b(?:trust|affection|affinity|loyalty|friendship|friendliness|intimacy|closeness|love|anger|fear|anxiety|stress|"
    r"morale|mood|sanity|courage|bravery|confidence|suspicion|hostility|hatred|respect|bond|relationship|rapport|"
    r"charisma|intelligence|wisdom|strength|dexterity|agility|stamina|energy|happiness|sadness|curiosity|resolve|empathy|"
    r"openness|extraversion|agreeableness|conscientiousness|neuroticism|hope|guilt|shame|jealousy|patience|health|"
    r"hp|xp|san)\b"
)
_SCALE_EN = r"(?:levels?|scores?|ratings?|points?|value|meter|index)"
_MOVES_EN = (
    r"(?:\s*(?:[:=→]|->)\s*|\s+(?:(?:is|was|stands|sits|remains|has|rose|risen|rises|grew|grown|fell|fallen|falls|drops|"
    r"increased|decreased|dropped|gone|went|up|down|now|currently|still|reached|reaches)\s+){1,4}(?:at\s+|to\s+|by\s+|from\s+)?"
    r"|\s*(?=[+\-−]\s?\d)|\s+)"
)
_UNCOUNTED_EN = r"(?=\s*(?:$|[,.;:!?)\]/%\n]|and\b|but\b|to\b|from\b|now\b|out\b|points?\b|stars?\b))"

_LEVEL = rf"(?:[:=]\s*\d|\d+(?:{_UNCOUNTED_EN}|(?=\s+(?:with|towards?)\b|\s+{_TRAIT_EN})))"

_SCORES = (
    # per cent, and so many out of so many
    r"\d\s*%",
    r"\d\s*(?:percent|per\s?cent|pct)\b",
    r"\b(?:ten|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)(?:-\w+)?\s+per\s?cent\b",
    r"百分之(?!百)[\d零一二两三四五六七八九十]",
    rf"(?<![\d/.])(?<!\bon )(?<!\bby )(?<!\bsince )(?<!\buntil )\d{{1,2}}(?:\.\d+)?\s*/\s*10(?![\d/]){_DATED}",
    r"(?<![\d/.])\d{1,3}(?:\.\d+)?\s*/\s*100(?![\d/])",
    r"\d\s+out\s+of\s+(?:5|10|100)\b(?!\s+(?!in\b|for\b|on\b|and\b|but\b|now\b)[a-z])",
    # points, marks, levels, stars, bars
    r"(?<![0-9A-Za-z])(?<!区号)(?<!区号是)(?<!号码是)\+\s?(?!\d{1,3}\s*(?:开头|打头|区号|的?号码|的?电话)|[\d -]{7})\d",
    r"(?<![\d.点时:])(?<![点时] )\d+(?:\.\d+)?\s*分(?![钟之米店部队公别手开散支数歧成为贝])",
    rf"(?:增加|减少|提升|提高|上升|下降|降低|获得|失去|加|减|扣)了?\s*(?:\d+|{_HAN_NUMBER})\s*(?:点|级)(?!钟|台阶|半|\d)",
    r"\b(?:lvl|lv)\b\.?\s*[:=]?\s*\d",
    rf"(?<!\bon )(?<!\bbelow )(?<!\bbeneath )\blevel\s*{_LEVEL}",
    rf"(?:等级|级别)\s*(?:[:：=]|为|是|达到|升到|升至)?\s*{_NUMBER}",
    r"[★☆⭐]{2,}|[█▓▒░■□▰▱]{3,}",
    # the name of a trait, and its figure
    rf"{_TRAIT_ZH}{_SCALE_ZH}{_MOVES_ZH}{{0,8}}{_NUMBER}{_COUNTED_ZH}",
    rf"{_TRAIT_ZH}{_SCALE_ZH}{_MOVES_ZH}{{0,8}}{_HAN_NUMBER}(?:分|点|级|成|{_END_ZH})",
    rf"{_TRAIT_ZH}\s*(?:(?:[:：=→]|->|从|升到|升至|降到|降至)\s*)?{_NUMBER}{_UNCOUNTED_ZH}",
    rf"{_TRAIT_ZH}(?:有|到|达到?|为|是|[:：=])?\s*[一二两三四五六七八九\d]成{_END_ZH}",
    rf"[一二两三四五六七八九\d]成的?{_TRAIT_ZH}{_END_ZH}",
    rf"{_TRAIT_EN}(?:\s+{_SCALE_EN})?{_MOVES_EN}{_NUMBER}{_UNCOUNTED_EN}",
    rf"{_TRAIT_EN}\s+{_SCALE_EN}\s+of\s+{_NUMBER}",
    rf"\d\s+(?:points?\s+of\s+)?{_TRAIT_EN}(?:\s+points?\b|(?=\s*[,.;!?)]))",
)


@cache
def _figures() -> re.Pattern[str]:
    """Compile them when the first persona is read: that takes a while."""
    return re.compile("|".join(f"(?:{score})" for score in _SCORES), re.IGNORECASE)


def figure_in(text: str) -> str | None:
    """Return the first trait in figures, verbatim; ``None`` if there is none."""
    found = _figures().search(unicodedata.normalize("NFKC", text))
    return found[0].strip() if found else None
