"""Token estimates, and shortening of texts that are too long for a model."""

from __future__ import annotations

import re
from collections.abc import Sequence

from personalab.errors import UserError
from personalab.texts import PromptLanguage, fill

_WIDE = re.compile("[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")
_LEFT_OUT: dict[PromptLanguage, str] = {
    "zh": "\n\n……（此处省略约 {tokens} 个 token；以上是开头，以下是结尾）……\n\n",
    "en": "\n\n… (about {tokens} tokens are left out here: the beginning stands above, the end below) …\n\n",
}


_NOTE_TOKENS = 60
"""No note on what was left out has more."""
LEAST_ROOM = 240
"""A prompt that is to be shortened needs so many tokens beside its fixed part."""


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of a text: one for each Chinese, Japanese or Korean character, else one for four."""
    wide = len(_WIDE.findall(text))
    return wide + -(-(len(text) - wide) // 4)


def shortened(text: str, tokens: int, language: PromptLanguage) -> str:
    """Keep the beginning and the end of a text that is too long, two parts to one, with a note between them."""
    total = estimated_tokens(text)
    if total <= tokens:
        return text
    head = _reach(text, tokens * 2 // 3)
    tail = _reach(text[::-1], tokens - tokens * 2 // 3)
    note = fill(_LEFT_OUT[language], tokens=total - tokens)
    return text[:head] + note + (text[-tail:] if tail else "")


def shorten_parts(texts: Sequence[str], tokens: int, language: PromptLanguage) -> list[str]:
    """Shorten the longest of several texts until all together fit; what the short ones leave free is theirs."""
    needed = [estimated_tokens(text) for text in texts]
    left, found = tokens, list(texts)
    order = sorted(range(len(texts)), key=needed.__getitem__)
    for number, at in enumerate(order):
        share = left // (len(order) - number)
        if needed[at] > share:
            found[at] = shortened(texts[at], max(1, share - _NOTE_TOKENS), language)
        left -= min(needed[at], share)
    return found


def exceeds(tokens: int, *texts: str) -> bool:
    """Return whether texts together have more tokens; short ones are not counted, for a character is one at most."""
    return sum(map(len, texts)) > tokens and sum(map(estimated_tokens, texts)) > tokens


def room_beside(threshold: int, *fixed: str, skill: str | None = None) -> int:
    """Return the tokens a threshold leaves beside what cannot be shortened: a skill's text, or a judge's instructions.

    A threshold that leaves too few is refused.
    """
    needed = sum(map(estimated_tokens, fixed)) + LEAST_ROOM
    if threshold >= needed:
        return threshold - needed + LEAST_ROOM
    if skill is None:
        raise UserError("lab_context_no_judge", threshold=threshold, tokens=needed)
    raise UserError("lab_context_no_skill", threshold=threshold, tokens=needed, skill=skill[:80])


def _reach(text: str, tokens: int) -> int:
    """Return the number of leading characters that have so many tokens."""
    low, high = 0, min(len(text), tokens * 4)
    while low < high:
        middle = (low + high + 1) // 2
        if estimated_tokens(text[:middle]) <= tokens:
            low = middle
        else:
            high = middle - 1
    return low
