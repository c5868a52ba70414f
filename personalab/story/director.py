"""Progress through a story's outline: markers in replies, and reminders to the model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, cast

from personalab.story.events import Notice
from personalab.story.instance import PlotState, PlotStatus
from personalab.story.library import Background, OutlinePoint
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
_NO_SPEECH = re.compile(
    # A single full stop says nothing; three dots are a silence that a character keeps.
    rf"(?:[\s*_`~>#|\-,，;；:：\u200b-\u200d\u2060\ufeff]|(?<![.。])[.。](?![.。])|{_MISSPELT_OPENING}[\]】])*+",
    re.IGNORECASE,
)
"""Blanks, emphasis, bullets, stray punctuation and markers, also misspelt ones."""
_MARKER_WORD = "".join(f"(?:{letter}" for letter in "PROGRESS")
_OPEN_MARKER = re.compile(
    rf"(?:\\?(?:[\[【]\s{{0,4}}{_MARKER_WORD}\s{{0,4}}{')?' * len('PROGRESS')})?|{_MISSPELT_OPENING})\Z",
    re.IGNORECASE,
)
"""A text that may still become a marker; an empty one may."""


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
class Progress:
    """What a reply did to the plot, and what is odd about it."""

    plot_state: PlotState
    warnings: tuple[Notice, ...] = ()


def has_speech(reply: str) -> bool:
    """Return whether a reply holds more than markers, blanks and stray punctuation."""
    return _NO_SPEECH.fullmatch(reply) is None


def without_markers(reply: str) -> str:
    """Remove the markers from a reply, with the line that held nothing else."""
    return MARKER_LINE.sub("", reply).rstrip() if "[PROGRESS:" in reply else reply


def silent_prefix(text: str) -> tuple[int, bool]:
    """Measure the blanks and markers at the beginning of a text, and return whether words follow them.

    While the rest may still become a marker, no words follow.
    """
    found = _NO_SPEECH.match(text)
    at = found.end() if found else 0
    return at, _OPEN_MARKER.match(text, at) is None


def read_progress(reply: str, plot: PlotState, outline_length: int) -> Progress:
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
    return Progress(standing or missed, warnings)
