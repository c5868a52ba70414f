"""The lines of a session file.

A line is read leniently (unknown fields are kept and written back in their place at the end) and written
strictly: compact JSON, UTF-8, the known fields first, in the source's order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from personalab.errors import Invalid
from personalab.reasoning import inert_tags, separate_reasoning
from personalab.texts import Language, PromptLanguage, prompt_language

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
