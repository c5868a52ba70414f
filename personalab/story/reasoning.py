"""Separation of what a model thinks (``<think>…</think>``) from what it says."""

from __future__ import annotations

import re

_TAG = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
_CLOSING = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_TAGS = ("<think>", "<thinking>", "</think>", "</thinking>")
_TAG_PREFIXES = frozenset(tag[:length] for tag in _TAGS for length in range(1, len(tag)))
_LONGEST_PREFIX = max(map(len, _TAG_PREFIXES))


class ReasoningSplitter:
    """Splits streamed text at thinking tags, wherever the stream is cut.

    Tags may be nested; one that is never closed holds the rest of the stream. A closing tag without an opening one
    stays in the text: ``split_reasoning`` deals with it once the text is whole.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._held = ""
        """The end of the text so far, if it may be the beginning of a tag."""

    def feed(self, text: str) -> tuple[str, str]:
        """Return the reasoning and the speech in the next piece of text, as far as they can be told apart."""
        text = self._held + text
        self._held = ""
        if "<" not in text:
            return (text, "") if self._depth else ("", text)
        reasoning: list[str] = []
        speech: list[str] = []
        at = 0
        for tag in _TAG.finditer(text):
            (reasoning if self._depth else speech).append(text[at : tag.start()])
            at = tag.end()
            is_closing = bool(tag[1])
            if is_closing and not self._depth:
                speech.append(tag[0])
                continue
            inner = self._depth > 1 if is_closing else self._depth > 0
            if inner:
                reasoning.append(tag[0])
            self._depth += -1 if is_closing else 1
        rest = text[at:]
        self._held = _tag_prefix(rest)
        rest = rest[: len(rest) - len(self._held)]
        (reasoning if self._depth else speech).append(rest)
        return "".join(reasoning), "".join(speech)

    def flush(self) -> tuple[str, str]:
        """Return what was held back, at the end of the stream."""
        held, self._held = self._held, ""
        return (held, "") if self._depth else ("", held)


def _tag_prefix(text: str) -> str:
    """Return the end of a text that may be the beginning of a tag."""
    at = text.rfind("<", max(0, len(text) - _LONGEST_PREFIX))
    return text[at:] if at >= 0 and text[at:].lower() in _TAG_PREFIXES else ""


def split_reasoning(text: str) -> tuple[str, str]:
    """Separate the reasoning and the speech of a whole reply.

    Everything before a closing tag that was never opened is reasoning, too: some servers put the opening tag into
    the prompt.
    """
    if "<" not in text or _TAG.search(text) is None:
        return "", text
    splitter = ReasoningSplitter()
    parts = (splitter.feed(text), splitter.flush())
    reasoning, speech = "".join(part[0] for part in parts), "".join(part[1] for part in parts)
    closings = list(_CLOSING.finditer(speech))
    if closings:
        reasoning += speech[: closings[-1].start()]
        speech = speech[closings[-1].end() :]
    return reasoning.strip("\n"), speech.lstrip()


def separate_reasoning(content: str, stored: str = "") -> tuple[str, str]:
    """Return the reasoning of a reply, what is stored beside it and what its text holds, and the speech."""
    inline, speech = split_reasoning(content)
    return "\n\n".join(part for part in (stored, inline) if part), speech
