"""Export of a story as readable Markdown or plain text.

Each turn is written once, with the reply that counts; turns that a session took over from the one before it
are not repeated. Spoken text cannot be mistaken for the transcript's own markup: in Markdown everything but
emphasis is escaped, in plain text the lines after the first are indented. Progress markers and a model's
reasoning are left out unless requested.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol

from personalab.archive.chat_messages import WORDS_ONLY, ShownReply
from personalab.archive.foreign_lines import moment_of
from personalab.dialogue import indented
from personalab.story.director import without_markers
from personalab.story.transcript import (
    OPENING_TURN,
    AssistantLine,
    Metadata,
    Transcript,
    Turn,
    UserLine,
    taken_over,
    usable_reply,
)
from personalab.texts import Language, say

Style = Literal["markdown", "text"]

_UNSEEN = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Controls and marks that would change how a screen shows the rest, and halves of characters."""
_INLINE = re.compile(r"[\\`\[\]|~]")
_BEGINS = re.compile(r"(?:#|>|:|=+\s*$|[-+](?=\s|$)|\*(?=\s|$)|-+\s*$|([-*_])(?:\s*\1){2,}\s*$)")
_NUMBERED = re.compile(r"(\d{1,9})([.)])(?=\s|$)", re.ASCII)
_ANY = re.compile(r"[\\`*_\[\]|~#!]")
_TAB = 4


def transcript_of(
    sessions: Iterable[Transcript],
    *,
    style: Style,
    character: str,
    player: str,
    language: Language,
    shown_too: ShownReply = WORDS_ONLY,
) -> Iterator[str]:
    """Write sessions in their order, in pieces of text."""
    teller = _Teller(_STYLES[style](), _one_line(character), _one_line(player), language, shown_too)
    yield teller.style.title(teller.character)
    for session in sessions:
        yield from teller.tell(session)
    yield from teller.rest()


class _TranscriptStyle(Protocol):
    """How the parts of a transcript look."""

    def title(self, text: str) -> str: ...
    def session(self, text: str) -> str: ...
    def turn(self, text: str) -> str: ...
    def summary(self, label: str, text: str) -> str: ...
    def said(self, name: str, when: str, text: str, mark: str) -> str: ...


@dataclass(slots=True)
class _Teller:
    style: _TranscriptStyle
    character: str
    player: str
    language: Language
    shown_too: ShownReply
    told: dict[str, Transcript] = field(default_factory=dict[str, Transcript])
    held: Turn | None = None
    """The last turn of a session, while it is unanswered: the next session may continue it."""

    def tell(self, session: Transcript) -> Iterator[str]:
        """Yield the new part of a session."""
        older = self._continued(session.metadata)
        known = taken_over(session.turns, older) if older is not None else 0
        if self.held is not None and not (older is not None and _goes_on(session.turns[known:], self.held)):
            yield from self._turn(self.held)
        self.held = None
        if session.metadata is not None:
            self.told[session.metadata.session_id] = session
            yield self.style.session(self._heading(session.metadata))
        for turn in session.turns[:known]:
            yield from self._summaries(turn)
        fresh = session.turns[known:]
        for place, turn in enumerate(fresh):
            yield from self._summaries(turn)
            if place == len(fresh) - 1 and turn.answer is None and not session.trailing:
                self.held = turn
            else:
                yield from self._turn(turn)
        for note in session.trailing:
            yield self.style.summary(self._word("summary"), note.content)

    def rest(self) -> Iterator[str]:
        """Yield what was held back to the end."""
        if self.held is not None:
            yield from self._turn(self.held)

    def _continued(self, metadata: Metadata | None) -> Transcript | None:
        before = metadata.continued_from if metadata is not None else None
        return self.told.get(before) if before is not None else None

    def _heading(self, metadata: Metadata) -> str:
        name = self._word("session", session_id=_one_line(metadata.session_id))
        return f"{name} · {when}" if (when := _time(metadata.created_at)) else name

    def _summaries(self, turn: Turn) -> Iterator[str]:
        for note in turn.notes:
            yield self.style.summary(self._word("summary"), note.content)

    def _turn(self, turn: Turn) -> Iterator[str]:
        opening = turn.number == OPENING_TURN and turn.user is None
        yield self.style.turn(self._word("opening" if opening else "turn", turn=turn.number))
        if turn.user is not None:
            yield self._said(self.player, turn.user, turn.user.content, "")
        answers = [line for line in turn.replies if usable_reply(line) is not None]
        if answers:
            yield from self._answer(answers[-1], usable_reply(answers[-1]) or "")
        elif turn.replies:
            yield self._said(self.character, turn.replies[-1], "", self._word("empty"))

    def _answer(self, line: AssistantLine, text: str) -> Iterator[str]:
        if self.shown_too.reasoning and line.reasoning.strip():
            yield self.style.summary(self._word("reasoning"), line.reasoning.strip())
        text = text if self.shown_too.markers else without_markers(text)
        endings = [name for name in ("interrupted", "error", "truncated") if getattr(line, name)]
        yield self._said(self.character, line, text, " ".join(map(self._word, endings)))

    def _said(self, name: str, line: UserLine | AssistantLine, text: str, mark: str) -> str:
        return self.style.said(name, _time(line.timestamp), text, mark)

    def _word(self, name: str, **params: object) -> str:
        return say(f"transcript.{name}", self.language, **params)


def _goes_on(turns: list[Turn], held: Turn) -> bool:
    """Return whether a session begins with a turn that was left unanswered in the one before."""
    if not turns or turns[0].user is None or held.user is None:
        return False
    first = turns[0].user
    return (first.content, first.timestamp) == (held.user.content, held.user.timestamp)


def _time(timestamp: str) -> str:
    moment = moment_of(timestamp)
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment is not None else ""


def _seen(text: str) -> str:
    return _UNSEEN.sub("\ufffd", text)


def _one_line(text: str) -> str:
    return " ".join(_seen(text).split())


# --- Markdown


class _Markdown:
    def title(self, text: str) -> str:
        return f"# {_plain(text)}\n"

    def session(self, text: str) -> str:
        return f"\n## {_plain(text)}\n"

    def turn(self, text: str) -> str:
        return f"\n### {_plain(text)}\n"

    def summary(self, label: str, text: str) -> str:
        rows = f"**{_plain(label)}**\n\n{escape_markdown(text)}".split("\n")
        return "\n" + "\n".join(f"> {row}".rstrip() for row in rows) + "\n"

    def said(self, name: str, when: str, text: str, mark: str) -> str:
        head = f"**{_plain(name)}**" + (f" · {when}" if when else "")
        parts = [head, escape_markdown(text), f"*{_plain(mark)}*" if mark else ""]
        return "".join(f"\n{part}\n" for part in parts if part)


def escape_markdown(text: str) -> str:
    """Write a text so that only its emphasis, line breaks and paragraphs are Markdown's."""
    rows = [_escaped_row(row) for row in _seen(text).strip("\r\n").splitlines()]
    broken = [
        f"{row}\\" if row and place + 1 < len(rows) and rows[place + 1] else row
        for place, row in enumerate(rows)
    ]
    return "\n".join(broken)


def _escaped_row(row: str) -> str:
    body = row.strip(" \t")
    lead = len(row.rstrip(" \t").expandtabs(_TAB)) - len(body.expandtabs(_TAB)) if body else 0
    body = body.replace("\t", " ")
    numbered = _NUMBERED.match(body)
    at = 0 if _BEGINS.match(body) else numbered.end(1) if numbered else None
    whole = _inert(body) if at is None else f"{body[:at]}\\{_inert(body[at:])}"
    return "\u00a0" * lead + whole.replace("&", "&amp;").replace("<", "&lt;")


def _inert(text: str) -> str:
    return _INLINE.sub(r"\\\g<0>", text)


def _plain(text: str) -> str:
    """Write a text so that nothing in it is Markdown's."""
    escaped = _ANY.sub(r"\\\g<0>", text)
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# --- plain text


class _Text:
    def title(self, text: str) -> str:
        return f"{text}\n"

    def session(self, text: str) -> str:
        return f"\n== {text} ==\n"

    def turn(self, text: str) -> str:
        return f"\n[{text}]\n"

    def summary(self, label: str, text: str) -> str:
        return f"\n({label}) {indented(_seen(text))}\n"

    def said(self, name: str, when: str, text: str, mark: str) -> str:
        head = f"{name} ({when}):" if when else f"{name}:"
        return " ".join(part for part in (head, indented(_seen(text)), mark) if part) + "\n"


_STYLES: dict[Style, type[_Markdown] | type[_Text]] = {"markdown": _Markdown, "text": _Text}
