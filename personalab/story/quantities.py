"""Detection of traits in figures, in texts that must describe a character in words alone.

Figures of the story itself (three days ago, in 1987, shelter No. 3, an oath of 20 years) do not count. A
number counts only in the form of a score (80 %, 7/10, +5, Lv. 3, ★★★) that is not a date or a telephone
number, or directly after the name of a trait with nothing behind it that it could count.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

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
