"""Separation of what a model thinks (``<think>…</think>``) from what it says."""

from __future__ import annotations

import re

_TAG = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
_OPENING = re.compile(r"\s*<think(?:ing)?>", re.IGNORECASE)
_CLOSING = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_CLOSING_ROW = re.compile(r"</think(?:ing)?>[ \t]*(?:\n|\Z)", re.IGNORECASE)
_TAGS = ("<think>", "<thinking>", "</think>", "</thinking>")
_TAG_PREFIXES = frozenset(tag[:length] for tag in _TAGS for length in range(1, len(tag)))
_LONGEST_PREFIX = max(map(len, _TAG_PREFIXES))


class ReasoningSplitter:
    """Splits streamed text at thinking tags, wherever the stream is cut.

    Tags may be nested; one that is never closed holds the rest of the stream. A closing tag before any opening one
    stays in the text: ``split_reasoning`` deals with it once the text is whole. A surplus one later is dropped.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._has_opened = False
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
                if not self._has_opened:
                    speech.append(tag[0])
                continue
            self._has_opened = True
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


def begins_thinking(answer: str) -> bool:
    """Return whether an answer begins with thoughts."""
    return _OPENING.match(answer) is not None


def without_thoughts(answer: str) -> str:
    """Remove the thoughts that an answer begins with; tags that are quoted further on stay.

    Without an opening tag, thoughts end with the first line that ends with a closing one.
    """
    if not begins_thinking(answer):
        found = _CLOSING_ROW.search(answer)
        is_lone = found is not None and all(tag[1] for tag in _TAG.finditer(answer, 0, found.start()))
        return answer[found.end() :].lstrip() if found is not None and is_lone else answer
    depth = 0
    for tag in _TAG.finditer(answer):
        depth += -1 if tag[1] else 1
        if depth == 0:
            return answer[tag.end() :].lstrip()
    return ""


def separate_reasoning(content: str, stored: str = "") -> tuple[str, str]:
    """Return the reasoning of a reply, what is stored beside it and what its text holds, and the speech."""
    inline, speech = split_reasoning(content)
    return "\n\n".join(part for part in (stored, inline) if part), speech
