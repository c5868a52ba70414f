"""The lines of a session file, and the turns they make up.

A transcript grows line by line, so that a long session is parsed, rendered and counted once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from personalab.errors import Invalid, UserError
from personalab.reasoning import inert_tags, separate_reasoning
from personalab.story.director import has_speech
from personalab.texts import Language, PromptLanguage, prompt_language, say

NO_REPLY = "(无回复)"
"""What an empty reply is stored as, in every language: files are compared by it."""

_ERROR_NOTES: dict[PromptLanguage, tuple[str, str]] = {
    "zh": ("(系统错误: ", ")"),
    "en": ("(System error: ", ")"),
}
"""How the note begins and ends that is the last of a failed reply's content, by the language it was written in."""

OPENING_TURN = 0
"""The number of a character's opening line, before anyone has said anything."""

MAX_TURN = 10**9
"""A greater number is no turn that anyone played, and no index could hold it."""

REPLY_FLAGS = ("interrupted", "empty", "error", "truncated")
"""How a reply can end other than well; each is written only where it holds."""

MAX_REQUEST_ID_CHARACTERS = 128
_NO_EXTRA: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Metadata:
    """The first line of a session."""

    instance_id: str
    session_id: str
    created_at: str
    continued_from: str | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: _NO_EXTRA)


@dataclass(frozen=True, slots=True)
class Summary:
    """What happened before this session, in one point."""

    content: str
    extra: Mapping[str, Any] = field(default_factory=lambda: _NO_EXTRA)


@dataclass(frozen=True, slots=True)
class UserLine:
    """What the person said."""

    content: str
    turn: int
    timestamp: str
    extra: Mapping[str, Any] = field(default_factory=lambda: _NO_EXTRA)


@dataclass(frozen=True, slots=True)
class AssistantLine:
    """What the character replied; ``closed`` is false while it is being written."""

    content: str
    turn: int
    timestamp: str
    interrupted: bool = False
    empty: bool = False
    error: bool = False
    extra: Mapping[str, Any] = field(default_factory=lambda: _NO_EXTRA)
    closed: bool = True
    truncated: bool = False
    """Whether the model stopped at its length limit."""
    reasoning: str = ""
    """What the model thought: shown folded, never sent, searched or summarized."""

    @property
    def status(self) -> Literal["done", "interrupted", "empty", "error"]:
        """How the reply ended."""
        if self.error:
            return "error"
        if self.interrupted:
            return "interrupted"
        return "empty" if self.empty else "done"

    def abandoned(self, last_time: str) -> AssistantLine:
        """Return the reply as the next writer closes it after its writer died, at the latest known time."""
        return replace(self, interrupted=True, closed=True, timestamp=self.timestamp or last_time)


@dataclass(frozen=True, slots=True)
class OtherLine:
    """A line of a type we do not know: kept, never used."""

    data: Mapping[str, Any]


Line = Metadata | Summary | UserLine | AssistantLine | OtherLine


def encode_text(text: str) -> bytes:
    """Escape a text as the inside of a JSON string; a lone surrogate becomes its ``\\uXXXX`` escape."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "backslashreplace")


def dump_object(data: Mapping[str, Any]) -> bytes:
    """Write one JSON object compactly, as UTF-8, without a line end."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def dump_line(line: Line) -> bytes:
    """Write a line with its line end."""
    return dump_object(line_fields(line)) + b"\n"


def line_fields(line: Line) -> dict[str, Any]:
    """List a line's fields in the order they are written."""
    match line:
        case Metadata():
            known = {
                "type": "metadata",
                "instance_id": line.instance_id,
                "session_id": line.session_id,
                "created_at": line.created_at,
                "continued_from": line.continued_from,
            }
        case Summary():
            known = {"type": "summary", "content": line.content}
        case UserLine():
            known = {"role": "user", **_said(line)}
        case AssistantLine():
            reasoning = {"reasoning": line.reasoning} if line.reasoning else {}
            flags = {name: True for name in REPLY_FLAGS if getattr(line, name)}
            known = {"role": "assistant", **_said(line), **reasoning, **flags}
        case OtherLine():
            return dict(line.data)
    return {**known, **line.extra}


def _said(line: UserLine | AssistantLine) -> dict[str, Any]:
    return {"content": line.content, "turn": line.turn, "timestamp": line.timestamp}


def parse_line(raw: bytes) -> Line:
    """Read one line; raise ``ValueError`` that names the field which is wrong."""
    try:
        found = json.loads(raw)
    except RecursionError as error:
        raise Invalid("too_deep") from error
    if not isinstance(found, dict):
        raise Invalid("not_json_object")
    data = cast("dict[str, Any]", found)
    match data.get("type"), data.get("role"):
        case "metadata", _:
            return _metadata(data)
        case "summary", _:
            return Summary(_text(data, "content"), _rest(data, "type", "content"))
        case _, "user":
            return UserLine(
                _text(data, "content"),
                _turn(data),
                _time(data),
                _rest(data, "role", "content", "turn", "timestamp"),
            )
        case _, "assistant":
            return _assistant(data)
        case _:
            return OtherLine(data)


def _metadata(data: dict[str, Any]) -> Metadata:
    continued = data.get("continued_from")
    if continued is not None and not isinstance(continued, str):
        raise Invalid("field_not_text", field="continued_from")
    return Metadata(
        _text(data, "instance_id"),
        _text(data, "session_id"),
        _text(data, "created_at"),
        continued,
        _rest(data, "type", "instance_id", "session_id", "created_at", "continued_from"),
    )


def _assistant(data: dict[str, Any]) -> AssistantLine:
    known = ["role", "content", "turn", "timestamp", *REPLY_FLAGS]
    thoughts = data.get("reasoning")
    if isinstance(thoughts, str):  # anything else is another program's field, and kept as it is
        known.append("reasoning")
    else:
        thoughts = ""
    reasoning, content = separate_reasoning(_text(data, "content"), thoughts)
    return AssistantLine(
        content,
        _turn(data),
        _time(data),
        extra=_rest(data, *known),
        reasoning=reasoning,
        **{name: bool(data.get(name)) for name in REPLY_FLAGS},
    )


def _text(data: dict[str, Any], name: str) -> str:
    value = data.get(name)
    if not isinstance(value, str):
        raise Invalid("field_missing_or_not_text", field=name)
    return value


def _time(data: dict[str, Any]) -> str:
    return _text(data, "timestamp") if "timestamp" in data else ""


def _turn(data: dict[str, Any]) -> int:
    value = data.get("turn")
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Invalid("field_missing_or_not_whole", field="turn")
    if value > MAX_TURN:
        raise Invalid("field_too_large", field="turn", limit=MAX_TURN)
    return value


def _rest(data: dict[str, Any], *known: str) -> Mapping[str, Any]:
    if len(data) <= len(known) and all(name in known for name in data):
        return _NO_EXTRA
    return {name: value for name, value in data.items() if name not in known}


# --- notes of failed replies


def error_note(message: str, after: str, language: Language) -> str:
    """Return the note of a failed reply: on a new line, or alone.

    Thinking tags that the message quotes are written so that no reader takes them for tags.
    """
    begin, end = _ERROR_NOTES[prompt_language(language)]
    return ("\n" if after.strip() else "") + f"{begin}{inert_tags(message)}{end}"


def without_error_note(content: str) -> str:
    """Return what a failed reply says before its note."""
    begins = tuple(begin for begin, _ in _ERROR_NOTES.values())
    if content.lstrip().startswith(begins):
        return ""
    at = max(content.rfind(f"\n{begin}") for begin in begins)
    return content if at < 0 else content[:at]


def usable_reply(line: AssistantLine) -> str | None:
    """Return what later prompts may show of a reply, without its error note; ``None`` if no words are left."""
    content = line.content
    if line.error:
        content = without_error_note(content)
    if line.empty or content == NO_REPLY or not has_speech(content):
        return None
    return content


def shown_reply(content: str, language: Language) -> str:
    """Word a stored reply for its reader: the note for an empty one is the same in every file."""
    return say("no_reply", language) if content == NO_REPLY else content


@dataclass(slots=True)
class Turn:
    """One number: what the person said and every reply that was tried."""

    number: int
    user: UserLine | None = None
    replies: list[AssistantLine] = field(default_factory=list[AssistantLine])
    notes: list[Summary] = field(default_factory=list[Summary])
    """Summaries directly before this turn in the file."""
    memo: dict[object, object] = field(default_factory=dict[object, object])
    """What was worked out of this turn; emptied when a line is added to it."""

    @property
    def last_reply(self) -> AssistantLine | None:
        """The newest reply, good or not."""
        return self.replies[-1] if self.replies else None

    @property
    def answer(self) -> str | None:
        """What the character's answer is in later prompts, if there is one."""
        for line in reversed(self.replies):
            if (text := usable_reply(line)) is not None:
                return text
        return None

    @property
    def characters(self) -> int:
        """How long everything is that was said in the turn, the summaries before it included."""
        said = [*self.notes, *self.replies, *([self.user] if self.user else [])]
        return sum(len(line.content) for line in said)

    def unanswered(self) -> Turn:
        """Return the turn as it stood before anyone tried to answer it."""
        return replace(self, replies=[], memo={}) if self.replies else self

    @property
    def settled(self) -> bool:
        """Whether the turn has a whole reply, so that it cannot be tried again."""
        last = self.last_reply
        if last is None or not last.closed or last.interrupted or last.error:
            return False
        return usable_reply(last) is not None


@dataclass(slots=True)
class Transcript:
    """A session's lines in order, grouped into turns."""

    metadata: Metadata | None = None
    turns: list[Turn] = field(default_factory=list[Turn])
    trailing: list[Summary] = field(default_factory=list[Summary])
    """Summaries after the last turn: they belong to the turn that comes next."""

    def add(self, line: Line) -> None:
        """Take in the next line of the file."""
        match line:
            case Metadata():
                self.metadata = self.metadata or line
            case Summary():
                self.trailing.append(line)
            case UserLine():
                turn = self._open(line.turn)
                if turn.user is not None:
                    turn = self._new(line.turn)
                turn.user = line
                turn.memo.clear()
            case AssistantLine():
                turn = self._open(line.turn)
                turn.replies.append(line)
                turn.memo.clear()
            case _:
                pass

    def extend(self, lines: Iterable[Line]) -> None:
        """Take in several lines."""
        for line in lines:
            self.add(line)

    def copy(self) -> Transcript:
        """Return a transcript that can grow while this one stays; settled turns are shared."""
        turns = list(self.turns)
        if turns:
            last = turns[-1]
            turns[-1] = replace(last, replies=list(last.replies), memo=dict(last.memo))
        return Transcript(self.metadata, turns, list(self.trailing))

    def _open(self, number: int) -> Turn:
        if self.turns and self.turns[-1].number == number:
            return self.turns[-1]
        return self._new(number)

    def _new(self, number: int) -> Turn:
        turn = Turn(number, notes=self.trailing)
        self.trailing = []
        self.turns.append(turn)
        return turn

    @property
    def last(self) -> Turn | None:
        """The newest turn."""
        return self.turns[-1] if self.turns else None

    @property
    def next_turn(self) -> int:
        """The number of the turn that comes next."""
        number = max((turn.number for turn in self.turns), default=0) + 1
        if number > MAX_TURN:
            raise UserError("turns_used_up", limit=MAX_TURN)
        return number

    def requested(self, request_id: str) -> Turn | None:
        """Find the newest turn that a call with this ``request_id`` began."""
        for turn in reversed(self.turns):
            if turn.user is not None and turn.user.extra.get("request_id") == request_id:
                return turn
        return None

    def summaries(self) -> Iterator[Summary]:
        """Every summary of the session, in order."""
        for turn in self.turns:
            yield from turn.notes
        yield from self.trailing


def taken_over(turns: Sequence[Turn], older: Transcript) -> int:
    """Count the first turns that are an older session's last answered ones under new numbers."""
    before = [_said_in(turn) for turn in older.turns if turn.answer is not None]
    now = [_said_in(turn) for turn in turns[: len(before)]]
    for count in range(len(now), 0, -1):
        if now[:count] == before[-count:]:
            return count
    return 0


def left_behind(turns: Sequence[Turn], older: Transcript) -> Turn | None:
    """Find the turn that an older session ends with, unanswered, if nothing has been said since."""
    last = older.last
    if last is None or last.user is None or last.answer is not None:
        return None
    return last if taken_over(turns, older) == len(turns) else None


def told_turns(transcript: Transcript) -> list[Turn]:
    """Pick the turns that were answered, and the last one if it still waits for its answer."""
    told = [turn for turn in transcript.turns if turn.user is not None or turn.answer is not None]
    return [turn for turn in told if turn.answer is not None or turn is told[-1]]


def _said_in(turn: Turn) -> tuple[str, str]:
    line = turn.user or turn.last_reply
    return (line.content, line.timestamp) if line else ("", "")
