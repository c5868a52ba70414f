"""Progress through a story's outline: markers in replies, and reminders to the model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypedDict, cast

from personalab.story.events import Notice
from personalab.story.records import Background, OutlinePoint, PlotState, PlotStatus
from personalab.texts import fill

CURRENT_EVENTS = 15
REFERENCE_EVENTS = 5

ANY_MARKER = re.compile(r"\[PROGRESS:[^\]\n]{0,40}\]")
"""A progress marker, readable or not."""
_MARKER = re.compile(r"\[PROGRESS:(\d{1,9}):(completed|in_progress|pending)\]", re.ASCII)
EMPHASIS = "[*_`]"
_MARKED = rf"({EMPHASIS}{{0,3}}){ANY_MARKER.pattern}"
MARKER_LINE = re.compile(rf"(?:(?<=\n)|\A)[ \t]*(?:{_MARKED}\1[ \t]*)+(?:\n|\Z)|{_MARKED}\2")
"""A line that holds nothing but markers, or a marker among words, with the emphasis around it."""

_MISSPELT_OPENING = r"\\?[\[【]\s{0,4}PROGRESS\s{0,4}[:：][^\]】\n]{0,80}"
_FENCE = r"```+[A-Za-z]{1,12}(?=[ \t]*(?:\n|\Z))"
# A single full stop says nothing; three dots are a silence that a character keeps.
_STRAY = r"[\s*_`~>#|\-,，;；:：()（）\"'“”‘’「」『』\u200b-\u200d\u2060\ufeff]|(?<![.。])[.。](?![.。])"
_MARKER_WORD = "".join(f"(?:{letter}" for letter in "PROGRESS")
_OPEN_MARKER = rf"\\?(?:[\[【]\s{{0,4}}{_MARKER_WORD}\s{{0,4}}{')?' * len('PROGRESS')})?|{_MISSPELT_OPENING}"
"""What may still become a marker; an empty text may."""
_QUIET = rf"{_STRAY}|{_MISSPELT_OPENING}[\]】]|(?!(?:{_OPEN_MARKER})\Z)[\[【]|[\]】]"
"""A blank, emphasis, a bullet, brackets, quotes, stray punctuation, or a marker, also a misspelt one.

A square bracket may begin a marker, so that it is stray only where none can follow.
"""
_UNFINISHED_MARKER = re.compile(rf"(?:{_OPEN_MARKER})\Z", re.IGNORECASE)
_LONGEST_NAME = 64
_LONGEST_HELD_LINE = 256


class MarkedPoint(TypedDict):
    """An outline point with its position relative to the current one, as the prompt shows it."""

    index: int
    content: str
    status: PlotStatus


def mark_outline(background: Background, plot: PlotState) -> list[MarkedPoint]:
    """Mark each point as behind, here or ahead."""
    return [
        {"index": point.index, "content": point.content, "status": _status(point.index, plot)}
        for point in background.story_outline
    ]


def _status(index: int, plot: PlotState) -> PlotStatus:
    if index < plot.current_plot_index:
        return "completed"
    return plot.current_status if index == plot.current_plot_index else "pending"


def current_point(background: Background, plot: PlotState) -> OutlinePoint | None:
    """Find the point the story should move to: the last one when the index is past the end."""
    outline = background.story_outline
    if not outline:
        return None
    return outline[min(max(plot.current_plot_index, 1), len(outline)) - 1]


def needs_reminder(plot: PlotState, threshold: int) -> bool:
    """Return whether so many replies lacked a marker that the model is reminded."""
    return plot.no_update_count >= threshold


def reminder_query(point: OutlinePoint) -> str:
    """Word the search for events that belong to a point."""
    return f"故事大纲第{point.index}点：{point.content}"


def reminder_values(
    point: OutlinePoint, current: Sequence[str], reference: Sequence[str], templates: Mapping[str, str]
) -> dict[str, str]:
    """Fill the reminder's places; a group without events is left out."""

    def group(name: str, texts: Sequence[str]) -> str:
        rows = [fill(templates[f"{name}_line"], n=n, text=text) for n, text in enumerate(texts, start=1)]
        return "\n\n" + fill(templates[name], events="\n".join(rows)) if rows else ""

    return {
        "index": str(point.index),
        "content": point.content,
        "current_events": group("current_events", current),
        "reference_events": group("reference_events", reference),
    }


@dataclass(frozen=True, slots=True)
class PlotProgress:
    """What a reply did to the plot, and what is odd about it."""

    plot_state: PlotState
    warnings: tuple[Notice, ...] = ()


def has_speech(reply: str, character: str = "") -> bool:
    """Return whether a reply holds more than markers, blanks, stray punctuation and the character's name as a label."""
    return _silent_patterns(character)[0].fullmatch(reply) is None


def without_markers(reply: str) -> str:
    """Remove the markers from a reply, with the line that held nothing else."""
    return MARKER_LINE.sub("", reply).rstrip() if "[PROGRESS:" in reply else reply


def silent_prefix(text: str, character: str = "") -> tuple[int, bool]:
    """Measure the blanks and markers at the beginning of a text, and return whether words follow them.

    While the rest may still become a marker, or the character's name before it, no words follow.
    """
    silent, may_become_silent = _silent_patterns(character)
    found = silent.match(text)
    at = found.end() if found else 0
    return at, may_become_silent.match(text, at) is None


class SilentStart:
    """Holds the beginning of a streamed reply back until its first words, wherever the stream is cut."""

    def __init__(self, character: str = "") -> None:
        self._character = character
        self._lines: list[str] = []
        """Whole lines without words."""
        self._line = ""
        self.has_words = False
        self.silent = 0
        """How many characters come before the first words, once they have come."""

    @property
    def held(self) -> str:
        """What is held back."""
        return "".join((*self._lines, self._line))

    def take(self) -> str:
        """Return what was held back, whatever it is."""
        held, self._lines, self._line = self.held, [], ""
        return held

    def flush(self) -> str:
        """Return what was held back at the end of the stream, if it says something after all."""
        silent, _ = silent_prefix(self._line, self._character)
        if self.has_words or _UNFINISHED_MARKER.match(self._line, silent):
            return ""
        self.has_words = True
        return self.held

    def feed(self, text: str) -> str:
        """Return what can be shown after the next piece of text: nothing until words have come."""
        if self.has_words:
            return text
        self._line += text
        silent, self.has_words = silent_prefix(self._line, self._character)
        if self.has_words:
            held = self.held
            self.silent = len(held) - len(self._line) + silent
            self._lines, self._line = [], ""
            return held
        end = self._line.rfind("\n", 0, silent) + 1
        if silent - end > _LONGEST_HELD_LINE:
            end = silent
        if end:
            self._lines.append(self._line[:end])
            self._line = self._line[end:]
        return ""


@lru_cache(maxsize=256)
def _silent_patterns(character: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns of what is no speech, and of what may still become that."""
    is_short = 0 < len(character) <= _LONGEST_NAME
    name = f"(?-i:{re.escape(character)})" if is_short else r"(?!)"
    beginnings = f"(?-i:{name_prefixes(character)})" if is_short else ""
    after = r"[*_ \t]{0,8}"
    label = rf"{name}{after}[:：]"
    may_become = [_OPEN_MARKER, r"(?<=```)[A-Za-z]{1,12}[ \t]*"]
    if beginnings:
        may_become += [beginnings, f"{name}{after}"]
    return (
        re.compile(rf"(?:{_FENCE}|{label}|{_QUIET})*+", re.IGNORECASE),
        re.compile(rf"(?:{'|'.join(may_become)})\Z", re.IGNORECASE),
    )


def name_prefixes(name: str) -> str:
    """Return a pattern of a name's beginnings."""
    pattern = ""
    for character in reversed(name):
        pattern = f"{re.escape(character)}(?:{pattern})?" if pattern else re.escape(character)
    return pattern


def read_progress(reply: str, plot: PlotState, outline_length: int) -> PlotProgress:
    """Follow the last valid marker of a reply; without one, count another reply that had none."""
    standing: PlotState | None = None
    stray: list[str] = []
    for match in _MARKER.finditer(reply):
        index = int(match[1])
        if 1 <= index <= outline_length:
            standing = PlotState(index, cast("PlotStatus", match[2]), 0)
        else:
            stray.append(match[0])
    warnings: tuple[Notice, ...] = ()
    unread = [found for found in ANY_MARKER.findall(reply) if not _MARKER.fullmatch(found)]
    if unread:
        warnings = (Notice("progress_unreadable", {"marker": unread[-1]}),)
    if stray:
        warnings = (
            *warnings,
            Notice("progress_out_of_range", {"marker": stray[-1], "length": outline_length}),
        )
    missed = PlotState(plot.current_plot_index, plot.current_status, plot.no_update_count + 1)
    return PlotProgress(standing or missed, warnings)
