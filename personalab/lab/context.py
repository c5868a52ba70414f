"""How long is a text for a model, about, and what is sent of one that is too long?"""

from __future__ import annotations

import re

from personalab.texts import Language, fill

_WIDE = re.compile("[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")
_LEFT_OUT: dict[Language, str] = {
    "zh": "\n\n……（此处省略约 {tokens} 个 token；以上是开头，以下是结尾）……\n\n",
    "en": "\n\n… (about {tokens} tokens are left out here: the beginning stands above, the end below) …\n\n",
}


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of a text: one for each Chinese, Japanese or Korean character, else one for four."""
    wide = len(_WIDE.findall(text))
    return wide + -(-(len(text) - wide) // 4)


def shortened(text: str, tokens: int, language: Language) -> str:
    """Keep the beginning and the end of a text that is too long, two parts to one, with a note between them."""
    total = estimated_tokens(text)
    if total <= tokens:
        return text
    head = _reach(text, tokens * 2 // 3)
    tail = _reach(text[::-1], tokens - tokens * 2 // 3)
    note = fill(_LEFT_OUT[language], tokens=total - tokens)
    return text[:head] + note + (text[-tail:] if tail else "")


def _reach(text: str, tokens: int) -> int:
    """Tell how many characters from the beginning have so many tokens."""
    low, high = 0, min(len(text), tokens * 4)
    while low < high:
        middle = (low + high + 1) // 2
        if estimated_tokens(text[:middle]) <= tokens:
            low = middle
        else:
            high = middle - 1
    return low
