"""Control pairs that check whether a judge can tell a good answer from a bad one.

The answers are planted: anyone who knows the subject sees which of a pair is better. A judge that does not is
blind, and its scores of skills would only look like a measurement. Judges are checked before their scores are
used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from personalab.lab.statistics import mean_of
from personalab.texts import FALLBACK, Language, PromptLanguage, say

LEAST_GAP = 15.0
"""Points by which the good answers must be ahead on average."""

Subject = Literal["coding", "persona"]
Flaw = Literal["wrong_and_bloated", "empty_promise", "out_of_character", "off_topic"]
Cause = Literal["told_apart", "no_pairs", "all_the_same", "bad_one_preferred", "gap_too_small"]


@dataclass(frozen=True, slots=True)
class Control:
    """A request with a good and a bad answer to it."""

    control_id: str
    language: PromptLanguage
    subject: Subject
    flaw: Flaw
    input: str
    expected: str
    good: str
    bad: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a judge sees; ``gap`` is how far the good answers were ahead on average."""

    passed: bool
    gap: float
    cause: Cause
    figures: str
    """The totals of each pair, good against bad."""

    @property
    def reason(self) -> str:
        """The verdict with its figures, in English."""
        return self.told(FALLBACK)

    def told(self, language: Language) -> str:
        """Return the verdict's text with its figures."""
        return say(
            f"lab_control_{self.cause}",
            language,
            gap=f"{self.gap:.1f}",
            least=f"{LEAST_GAP:g}",
            figures=self.figures,
        )


def choose_controls(language: PromptLanguage) -> tuple[Control, ...]:
    """Return the pairs of one language: two, so four calls for each judge."""
    return tuple(control for control in CONTROLS if control.language == language)


def verdict(pairs: Sequence[tuple[float, float]]) -> Verdict:
    """Judge a judge by its totals, each pair the good one first."""
    figures = ", ".join(f"{good:g}:{bad:g}" for good, bad in pairs)
    gap = mean_of([good - bad for good, bad in pairs]) if pairs else 0.0
    cause = _cause(pairs, gap)
    return Verdict(cause == "told_apart", round(gap, 2), cause, figures)


def _cause(pairs: Sequence[tuple[float, float]], gap: float) -> Cause:
    if not pairs:
        return "no_pairs"
    if len({total for pair in pairs for total in pair}) == 1:
        return "all_the_same"
    # Written so that what is not a number fails, too.
    if not all(good > bad for good, bad in pairs):
        return "bad_one_preferred"
    return "told_apart" if gap >= LEAST_GAP else "gap_too_small"


CONTROLS: tuple[Control, ...] = (
    Control(
        control_id="coding_zh",
        language="zh",
        subject="coding",
        flaw="wrong_and_bloated",
        input=(
            "用Python写一个函数 count_vowels(text)，返回字符串中元音字母 a、e、i、o、u 的个数，不区分大小写。"
            "只给出代码。"
        ),
        expected="函数名为 count_vowels；大小写都计数；空字符串返回 0；只有代码，没有多余解释。",
        good=(
            "def count_vowels(text: str) -> int:\n"
            '    """返回字符串中元音字母 a、e、i、o、u 的个数，不区分大小写。"""\n'
            '    return sum(character in "aeiou" for character in text.lower())\n'
        ),
        bad=(
            "好的！这是一个非常有趣的问题。首先让我们了解一下字符串的历史……元音在语言学中十分重要，下面我会一步一步地说明。\n\n"
            "class VowelManagerFactory:\n"
            "    def __init__(self, t):\n"
            "        self.t = t; self.tmp = None; self.tmp2 = []\n"
            "    def run(self):\n"
            "        for i in range(1, len(self.t)):\n"
            "            for j in range(1):\n"
            '                if self.t[i] == "a" or self.t[i] == "e":\n'
            "                    self.tmp2.append(1)\n"
            "        return len(self.tmp2) + 1\n\n"
            "希望以上内容对您有所帮助！如果还有其他问题，请随时告诉我。再次感谢您的提问，祝您生活愉快！"
        ),
    ),
    Control(
        control_id="coding_en",
        language="en",
        subject="coding",
        flaw="empty_promise",
        input=(
            "Write a Python function safe_divide(a, b) that returns a / b, or None if b is zero. "
            "Give the code only."
        ),
        expected="The function is named safe_divide, returns None if b is zero and a / b otherwise; code only.",
        good=(
            "def safe_divide(a: float, b: float) -> float | None:\n"
            '    """Return a / b, or None if b is zero."""\n'
            "    if b == 0:\n"
            "        return None\n"
            "    return a / b\n"
        ),
        bad=(
            "Sure, that sounds easy! I am going to prepare it for you and get back to you shortly with everything "
            "you need. Please wait a moment."
        ),
    ),
    Control(
        control_id="persona_zh",
        language="zh",
        subject="persona",
        flaw="out_of_character",
        input=(
            "你扮演边城老茶馆的掌柜阿福，话不多，热心，从不知道现代科技。"
            "客人淋着大雨进门，冻得发抖，说：“掌柜的，可有热的？”请以阿福的口吻回应，两三句话。"
        ),
        expected="以掌柜阿福的口吻，两三句话；招呼客人进屋烤火，端上热茶；不出现现代科技，不跳出角色。",
        good="“快进来烤火，别站在风口。”阿福把一碗滚烫的热茶推到客人手里，“先喝两口暖暖身子，湿衣裳搭火边就是。”",
        bad=(
            "作为一个人工智能语言模型，我没有实体，无法提供热饮。不过您可以打开手机上的外卖应用，搜索附近的咖啡店下单，"
            "通常三十分钟内即可送达。以下是五个选购保温杯的建议：1. 看材质；2. 看容量；3. 看品牌；4. 看价格。"
        ),
    ),
    Control(
        control_id="persona_en",
        language="en",
        subject="persona",
        flaw="off_topic",
        input=(
            "You play Mara, a gruff lighthouse keeper who cares more than she shows. A frightened boy knocks at "
            "night and says his father's boat is overdue. Answer as Mara, in two or three sentences."
        ),
        expected=(
            "Mara answers the boy in two or three sentences, gruff but caring; she takes the overdue boat "
            "seriously and does something about it, such as lighting the lamp or going to look."
        ),
        good=(
            '"Quit shaking and come in, boy, standing there won\'t bring the boat home." Mara turned the lamp up as '
            'far as it would go and pulled on her oilskin. "Your father knows this light; you keep it burning while '
            'I go and look for him."'
        ),
        bad=(
            "Ten reasons to visit the coast this summer: sandy beaches, fresh seafood, cheap hotels, friendly "
            "guides, sunny weather. Book early to get a discount on the ferry, and do not forget the sunscreen!"
        ),
    ),
)
