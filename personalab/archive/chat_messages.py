"""Conversion between single messages of a SillyTavern chat and lines of a session.

An imported message is kept whole in its line, except for its text, under ``sillytavern``. A message made of
our own lines carries what SillyTavern has no field for in its ``extra``, under ``personalab`` (the mark),
including markers and reasoning that are not shown; what SillyTavern adds to such a message later is kept
under ``sillytavern_added``. SillyTavern shows ``extra.reasoning`` as a message's reasoning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from personalab.archive.cards import clean_name
from personalab.archive.foreign_lines import sent_at, time_of
from personalab.reasoning import separate_reasoning, split_reasoning
from personalab.story.director import ANY_MARKER, without_markers
from personalab.story.transcript import (
    AssistantLine,
    Line,
    OtherLine,
    Summary,
    UserLine,
    dump_object,
    line_fields,
    parse_line,
    usable_reply,
)

Raw = Mapping[str, Any]
Said = UserLine | AssistantLine
Inner = Literal["extra", "chat_metadata"]

FOREIGN = "sillytavern"
ADDED = "sillytavern_added"
SPEAKER = "sillytavern_speaker"
"""Where a line tells whose name was put before its words."""
OURS = "personalab"
FORMAT = 1
NARRATOR = "System"
"""Who says a summary."""
_LONGEST_SPEAKER = 100
_TEXTS = ("mes", "swipes", "swipe_id", "swipe_info", "send_date")
"""Fields that are rebuilt from the lines."""


# --- the text of a message, and the rest


def spoken(value: object) -> str | None:
    """Return a text that may be plain or, as Chub writes it, in an object."""
    if isinstance(value, dict):
        value = cast("dict[str, Any]", value).get("message")
    return value if isinstance(value, str) else None


def _respoken(value: object, text: str) -> object:
    return {**cast("dict[str, Any]", value), "message": text} if isinstance(value, dict) else text


def chosen(message: Raw) -> int | None:
    """Find which swipe is shown, if the message says so."""
    swipes, at = message.get("swipes"), message.get("swipe_id")
    if not isinstance(swipes, list) or not isinstance(at, int) or isinstance(at, bool):
        return None
    found = cast("list[object]", swipes)
    return at if 0 <= at < len(found) and spoken(found[at]) is not None else None


def kept_of(message: Raw) -> dict[str, Any]:
    """Return all of a message that its line has no place for: all but the text, where nothing else tells it."""
    text, at = message.get("mes"), chosen(message)
    told = at is None and isinstance(text, str) and _speech(message, text) == text
    if told or (at is not None and isinstance(text, str) and spoken(message["swipes"][at]) == text):
        return {name: value for name, value in message.items() if name != "mes"}
    return dict(message)


def _speech(message: Raw, text: str) -> str:
    """Return what a line holds of a message's text: a character's without its thoughts."""
    return text if message.get("is_user") else split_reasoning(text)[1]


def reasoning_in(extra: object) -> str:
    """Find the reasoning that SillyTavern shows with a message."""
    found = cast("dict[str, Any]", extra).get("reasoning") if isinstance(extra, dict) else None
    return found if isinstance(found, str) and found.strip() else ""


def without_reasoning(message: Raw) -> dict[str, Any]:
    """Leave out the reasoning, which a line of ours has a field for."""
    if not reasoning_in(extra := message.get("extra")):
        return dict(message)
    rest = {name: value for name, value in cast("dict[str, Any]", extra).items() if name != "reasoning"}
    return {**message, "extra": rest}


def _text_before(kept: Raw) -> str | None:
    """Return the text that the message was imported with, as far as the kept data shows it."""
    if "mes" in kept:
        return spoken(kept["mes"])
    at = chosen(kept)
    return spoken(kept["swipes"][at]) if at is not None else None


def message_of(kept: Raw, text: str) -> dict[str, Any]:
    """Rebuild a message; where its text has changed, the chosen swipe changes with it."""
    before = _text_before(kept)
    message = {**kept, "mes": kept.get("mes", text if before is None else before)}
    at = chosen(message)
    if before is not None and text not in (before, _speech(kept, before)):
        message["mes"] = _respoken(message["mes"], text)
        if at is not None:
            swipes = list(cast("list[object]", kept["swipes"]))
            swipes[at] = _respoken(swipes[at], text)
            message["swipes"] = swipes
    return message


def foreign_message(line: Line) -> dict[str, Any] | None:
    """Return the message a line came from, with the line's text; ``None`` for a line of our own."""
    if isinstance(line, OtherLine):
        return _hidden_message(line)
    if not isinstance(line, UserLine | AssistantLine) or not isinstance(line.extra.get(FOREIGN), dict):
        return None
    kept = cast("dict[str, Any]", line.extra[FOREIGN])
    text = _text_before(kept)
    if (text is None and "mes" in kept) or kept.get("is_system"):
        return None
    if bool(kept.get("is_user")) != isinstance(line, UserLine):
        return None
    if isinstance(line, AssistantLine) and line.status != "done":
        return None
    words = _words(line)
    if kept_of(message_of(kept, words if text is None else text)) != kept:
        return None
    return message_of(kept, words)


def _hidden_message(line: OtherLine) -> dict[str, Any] | None:
    if set(line.data) != {"type", "message"} or line.data["type"] != FOREIGN:
        return None
    found: object = line.data["message"]
    message = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    return message if message.get("is_system") and spoken(message.get("mes")) is not None else None


def hidden_line(message: Raw) -> OtherLine:
    """Keep a message that no prompt shows."""
    return OtherLine({"type": FOREIGN, "message": dict(message)})


# --- others than the character


def speaker_of(message: Raw) -> str:
    """Return the speaker of a message, on one line."""
    found: object = message.get("name")
    return clean_name(found)[:_LONGEST_SPEAKER].strip() if isinstance(found, str) else ""


def spoken_by(line: Line, speaker: object) -> Line:
    """Prefix a line of the character with the name of someone else who speaks."""
    if not isinstance(line, AssistantLine) or not isinstance(speaker, str):
        return line
    return replace(line, content=f"{speaker}: {line.content}", extra={**line.extra, SPEAKER: speaker})


def prefixed_speaker(line: Line) -> str | None:
    """Return the name before a line's words, as long as it is there."""
    if not isinstance(line, AssistantLine):
        return None
    speaker: object = line.extra.get(SPEAKER)
    return speaker if isinstance(speaker, str) and line.content.startswith(f"{speaker}: ") else None


def _words(line: Said) -> str:
    speaker = prefixed_speaker(line)
    return line.content if speaker is None else line.content.removeprefix(f"{speaker}: ")


# --- the mark


def marked(message: Raw, mark: Raw, inner: Inner) -> dict[str, Any]:
    """Add our mark where SillyTavern ignores it."""
    place = message.get(inner, {})
    if not isinstance(place, dict):
        return {**message, OURS: _noting(message, mark)}
    found = cast("dict[str, Any]", place)
    made = {} if inner in message else {"made": True}
    return {**message, inner: {**found, OURS: {**_noting(found, mark), **made}}}


def _noting(place: Raw, mark: Raw) -> dict[str, Any]:
    return {**mark, "was": place[OURS]} if OURS in place else dict(mark)


def unmarked(message: Raw, inner: Inner) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Take our mark off a message; ``None`` where there is none."""
    found = dict(message)
    place = found.get(inner)
    if isinstance(place, dict):
        inside, mark = _taken_off(cast("dict[str, Any]", place))
        if mark is not None:
            found[inner] = inside
            if mark.get("made") and not inside:
                del found[inner]
            return found, mark
    return _taken_off(found)


def _taken_off(place: Raw) -> tuple[dict[str, Any], dict[str, Any] | None]:
    mark = place.get(OURS)
    if not isinstance(mark, dict) or not isinstance(cast("dict[str, Any]", mark).get("format"), int):
        return dict(place), None
    found = cast("dict[str, Any]", mark)
    rest = {name: value for name, value in place.items() if name != OURS}
    return ({**rest, OURS: found["was"]} if "was" in found else rest), found


def added_to(made: Raw, message: Raw, inner: Inner, own: Sequence[str] = _TEXTS) -> dict[str, Any]:
    """Return the fields of a message beyond those that its lines produce."""
    added = {
        name: value
        for name, value in message.items()
        if name not in own and name != inner and (name not in made or made[name] != value)
    }
    place = message.get(inner)
    if isinstance(place, dict) and place:
        added[inner] = cast("dict[str, Any]", place)
    return added


def with_added(made: Raw, added: object, inner: Inner, own: Sequence[str] = _TEXTS) -> dict[str, Any] | None:
    """Return a message with what another program had added to it; ``None`` if that is invalid."""
    if not isinstance(added, dict):
        return None
    more = cast("dict[str, Any]", added)
    whole = {**made, **more}
    return whole if more and added_to(made, whole, inner, own) == more else None


# --- messages made of our lines, and the rows of their marks


@dataclass(frozen=True, slots=True)
class ShownReply:
    """What of a reply is shown to other programs beside its words; marks carry it in any case."""

    markers: bool = False
    reasoning: bool = False


WORDS_ONLY = ShownReply()


def made_of(
    group: Sequence[Line], character: str, player: str, when: str, shown_too: ShownReply = WORDS_ONLY
) -> dict[str, Any] | None:
    """Make a message of lines that belong together; ``None`` for lines that nobody says."""
    line = group[-1]
    if isinstance(line, Summary):
        return _message(NARRATOR, line.content, when, hidden=True)
    if isinstance(line, UserLine):
        return {**_message(player, line.content, line.timestamp), "is_user": True}
    if not isinstance(line, AssistantLine):
        return None
    tries = [one for one in group if isinstance(one, AssistantLine)]
    shown = [one for one in tries if usable_reply(one) is not None]
    if not shown:
        return _message(character, shown_text(line, shown_too), line.timestamp, hidden=True)
    message = _message(character, shown_text(shown[-1], shown_too), shown[-1].timestamp)
    if len(shown) > 1:
        message["swipe_id"] = len(shown) - 1
        message["swipes"] = [shown_text(one, shown_too) for one in shown]
        message["swipe_info"] = [
            with_reasoning({"send_date": sent_at(one.timestamp), "extra": {}}, [one], shown_too)
            for one in shown
        ]
    return message


def with_reasoning(message: Raw, group: Sequence[Line], shown_too: ShownReply) -> dict[str, Any]:
    """Add the reasoning of the reply that a message shows, if it is to be shown."""
    replies = [one for one in group if isinstance(one, AssistantLine) and usable_reply(one) is not None]
    extra: object = message.get("extra", {})
    if not shown_too.reasoning or not replies or not isinstance(extra, dict) or "reasoning" in extra:
        return dict(message)
    thoughts = replies[-1].reasoning
    shown = {"reasoning": thoughts} if thoughts.strip() else {}
    return {**message, "extra": {**cast("dict[str, Any]", extra), **shown}}


def _message(name: str, text: str, when: str, *, hidden: bool = False) -> dict[str, Any]:
    return {
        "name": name,
        "is_user": False,
        "is_system": hidden,
        "send_date": sent_at(when),
        "mes": text,
        "extra": {},
    }


def shown_text(line: Line, shown_too: ShownReply = WORDS_ONLY) -> str:
    """Return what a message shows of a line."""
    if isinstance(line, AssistantLine):
        text = usable_reply(line) or line.content
        return text if shown_too.markers else without_markers(text)
    return line.content if isinstance(line, UserLine | Summary) else ""


def rows_of(
    group: Sequence[Line], *, without: str | None = None, shown_too: ShownReply = WORDS_ONLY
) -> list[dict[str, Any]]:
    """Return what a mark says of each line: its fields but for a text that is shown whole, and which swipe that is."""
    rows: list[dict[str, Any]] = []
    shown = [line for line in group if not isinstance(line, AssistantLine) or usable_reply(line) is not None]
    for line in group:
        fields = line_fields(line)
        if without is not None and line is group[-1]:
            fields.pop(without, None)
        row: dict[str, Any] = {"fields": fields}
        at = next((place for place, one in enumerate(shown) if one is line), None)
        if at is None and not shown and line is group[-1]:
            at = 0
        if at is not None:
            row["swipe"] = at
            if shown_text(line, shown_too) == fields["content"] and not _failed(line):
                del fields["content"]
        rows.append(row)
    return rows


def _failed(line: Line) -> bool:
    """Return whether a reply counts as failed, as long as its text is the one it ended with."""
    return isinstance(line, AssistantLine) and (line.empty or line.error)


def lines_from(rows: object, message: Raw) -> list[Line] | None:
    """Rebuild the lines of a marked message, with later edits; ``None`` if they cannot be determined."""
    if not isinstance(rows, list) or not rows:
        return None
    texts, at = _texts_in(message)
    thoughts = [reasoning_in(_extra_of(message, swipe, at)) for swipe in range(len(texts))]
    found = [_from_row(row, texts, thoughts) for row in cast("list[object]", rows)]
    told = [one for one in found if one is not None]
    return _in_order(told, texts, thoughts, at, message) if len(told) == len(found) else None


def _extra_of(message: Raw, swipe: int, at: int) -> object:
    """Find the ``extra`` of a swipe; that of the chosen one is the message's own."""
    if swipe == at:
        return message.get("extra")
    match message.get("swipe_info"):
        case [*rows] if swipe < len(rows) and isinstance(rows[swipe], dict):
            return cast("dict[str, Any]", rows[swipe]).get("extra")
        case _:
            return None


def _from_row(row: object, texts: Sequence[str], thoughts: Sequence[str]) -> tuple[int | None, Line] | None:
    data = cast("dict[str, Any]", row) if isinstance(row, dict) else {}
    fields, swipe = data.get("fields"), data.get("swipe")
    if not isinstance(fields, dict):
        return None
    known = cast("dict[str, Any]", fields)
    if swipe is None:
        line = _parsed(known)
    elif not isinstance(swipe, int) or not 0 <= swipe < len(texts):
        return None
    else:
        line = _line_from(known, texts[swipe], thoughts[swipe])
    return (swipe, line) if line is not None else None


def _texts_in(message: Raw) -> tuple[list[str], int]:
    """Return the texts of a message and the index of the shown one; ``mes`` takes precedence."""
    shown, at = spoken(message.get("mes")) or "", chosen(message)
    if at is None:
        return [shown], 0
    texts = [spoken(swipe) or "" for swipe in cast("list[object]", message["swipes"])]
    texts[at] = shown
    return texts, at


def _parsed(fields: dict[str, Any]) -> UserLine | AssistantLine | Summary | None:
    try:
        line = parse_line(dump_object(fields))
    except ValueError:
        return None
    return line if isinstance(line, UserLine | AssistantLine | Summary) else None


def _line_from(fields: dict[str, Any], text: str, thoughts: str) -> Line | None:
    if fields.get("role") != "assistant":
        line = _parsed({**fields, "content": fields.get("content", text)})
        return line if line is None or text == shown_text(line) else replace(line, content=text)
    thoughts, text = separate_reasoning(text, thoughts)
    line = _parsed({**fields, "content": fields.get("content", text)})
    if not isinstance(line, AssistantLine):
        return None
    if thoughts:
        line = replace(line, reasoning=thoughts)
    if text in (shown_text(line), shown_text(line, ShownReply(markers=True))):
        return line
    return replace(line, content=_with_markers(text, line.content), empty=False, error=False)


def _with_markers(text: str, before: str) -> str:
    """Append the markers that were not shown to a text that was edited elsewhere."""
    markers = ANY_MARKER.findall(before)
    return text if not markers or ANY_MARKER.search(text) else f"{text}\n\n{' '.join(markers)}"


def _in_order(
    found: Sequence[tuple[int | None, Line]],
    texts: Sequence[str],
    thoughts: Sequence[str],
    at: int,
    message: Raw,
) -> list[Line]:
    """Add the tries that were made elsewhere, and let the chosen one be the newest."""
    known = {swipe for swipe, _ in found if swipe is not None}
    rows = list(found)
    last = rows[-1][1]
    if isinstance(last, AssistantLine):
        for swipe in range(len(texts)):
            if swipe not in known:
                reasoning, text = separate_reasoning(texts[swipe], thoughts[swipe])
                when = _swiped_at(message, swipe)
                rows.append((swipe, AssistantLine(text, last.turn, when, reasoning=reasoning)))
        newest = max((swipe for swipe, _ in rows if swipe is not None), default=at)
        if at != newest:
            rows.sort(key=lambda row: row[0] == at)
    return [line for _, line in rows]


def _swiped_at(message: Raw, swipe: int) -> str:
    match message.get("swipe_info"):
        case [*rows] if swipe < len(rows) and isinstance(rows[swipe], dict):
            return time_of(rows[swipe].get("send_date"))
        case _:
            return time_of(message.get("send_date"))
