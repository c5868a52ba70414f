"""Separation of what a model thinks (``<think>…</think>``) from what it says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Literal

_TAG = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
_OPENING = re.compile(r"\s*<think(?:ing)?>", re.IGNORECASE)
_CLOSING_ROW = re.compile(r"</think(?:ing)?>[ \t]*(?:\n|\Z)", re.IGNORECASE)
_LAST_TAG = re.compile(rf"{_TAG.pattern}\Z", re.IGNORECASE)
_TAGS = ("<think>", "<thinking>", "</think>", "</thinking>")
_TAG_PREFIXES = frozenset(tag[:length] for tag in _TAGS for length in range(1, len(tag)))
_LONGEST_TAG = max(map(len, _TAGS))
_LONGEST_PREFIX = _LONGEST_TAG - 1

Piece = tuple[Literal["reasoning", "speech", "lone_closing"], str]
"""A piece of a model's text. After a closing tag that was never opened, everything before it is reasoning."""


class ReasoningSplitter:
    """Splits streamed text at thinking tags, wherever the stream is cut.

    Tags may be nested; one that is never closed holds the rest of the stream. A closing tag before any other tag is a
    piece of its own, a surplus one later is dropped. With ``is_thinking`` the text begins inside a thought.
    """

    def __init__(self, *, is_thinking: bool = False) -> None:
        self._depth = int(is_thinking)
        self.has_opened = is_thinking
        """Whether a thought has begun, seen or not."""
        self.has_closed = False
        """Whether a thought that has begun was ended."""
        self._held = ""
        """The end of the text so far, if it may be the beginning of a tag."""

    def feed(self, text: str) -> list[Piece]:
        """Return the pieces of the next text, as far as they can be told apart."""
        text = self._held + text
        self._held = ""
        if "<" not in text:
            return self._piece(text)
        pieces: list[Piece] = []
        at = 0
        for tag in _TAG.finditer(text):
            pieces += self._piece(text[at : tag.start()])
            at = tag.end()
            is_closing = bool(tag[1])
            if is_closing and not self._depth:
                if not self.has_opened:
                    pieces.append(("lone_closing", tag[0]))
                    self.has_opened = self.has_closed = True
                continue
            self.has_opened = True
            if self._depth > 1 if is_closing else self._depth > 0:
                pieces += self._piece(tag[0])
            self._depth += -1 if is_closing else 1
            self.has_closed = self.has_closed or not self._depth
        rest = text[at:]
        self._held = _tag_prefix(rest)
        return pieces + self._piece(rest[: len(rest) - len(self._held)])

    def flush(self) -> list[Piece]:
        """Return what was held back, at the end of the stream."""
        held, self._held = self._held, ""
        return self._piece(held)

    def flush_thought(self) -> list[Piece]:
        """Return what was held back of a thought, before reasoning that comes beside the text."""
        return self.flush() if self._depth else []

    def _piece(self, text: str) -> list[Piece]:
        if not text:
            return []
        return [("reasoning" if self._depth else "speech", text)]


def _tag_prefix(text: str) -> str:
    """Return the end of a text that may be the beginning of a tag."""
    at = text.rfind("<", max(0, len(text) - _LONGEST_PREFIX))
    return text[at:] if at >= 0 and text[at:].lower() in _TAG_PREFIXES else ""


def split_reasoning(text: str) -> tuple[str, str]:
    """Separate the reasoning and the speech of a whole reply; the speech of a reply holds no more tags.

    Everything before a closing tag that was never opened is reasoning, too: some servers put the opening tag into
    the prompt.
    """
    if "<" not in text or _TAG.search(text) is None:
        return "", text
    splitter = ReasoningSplitter()
    reasoning: list[str] = []
    speech: list[str] = []
    for kind, piece in [*splitter.feed(text), *splitter.flush()]:
        if kind == "lone_closing":
            reasoning += speech
            speech = []
        else:
            (reasoning if kind == "reasoning" else speech).append(piece)
    return "".join(reasoning).strip("\n"), _without_tags("".join(speech).lstrip())


def _without_tags(text: str) -> str:
    """Remove tags whose halves came together when a thought between them was taken out."""
    if _TAG.search(text) is None:
        return text
    kept: list[str] = []
    for character in text:
        kept.append(character)
        if character == ">" and (tag := _LAST_TAG.search("".join(kept[-_LONGEST_TAG:]))):
            del kept[-len(tag[0]) :]
    return "".join(kept)


def inert_tags(text: str) -> str:
    """Write the tags that a text quotes in angle quotation marks, so that they are tags no more."""
    return _TAG.sub(lambda tag: f"‹{tag[0][1:-1]}›", text)


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


_MAX_HABITS = 1_000


@dataclass(slots=True)
class ThinkingHabit:
    """What is known in this process about how the replies of one model at one address begin."""

    begins_inside: bool | None = None
    """Whether they begin inside a thought, so that only its closing tag is sent; ``None`` if nothing is known."""
    known: ClassVar[dict[tuple[str, str], ThinkingHabit]] = {}

    @classmethod
    def of(cls, model: str, address: str) -> ThinkingHabit:
        """Return what is known about a model, which is changed in place."""
        if len(cls.known) >= _MAX_HABITS:
            cls.known.clear()
        return cls.known.setdefault((model, address), cls())
