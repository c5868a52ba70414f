"""SVG plots of scores, with relative widths so that they fit a phone as well."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from personalab.lab.reports.data import Iteration, RoundMark
from personalab.lab.reports.texts import figure, markup, word
from personalab.lab.statistics import Interval
from personalab.texts import Language

_STRIP = 30
_BAR = 24
_PLOT = 260
MAX_ROUNDS = 400
"""Maximum rounds drawn."""


@dataclass(frozen=True, slots=True)
class Scale:
    """From where to where an axis goes, and where it has its lines."""

    low: float
    high: float
    step: float

    def share(self, value: float) -> float:
        """Return the place of a value in percent, inside the axis."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0) * 100

    def ticks(self) -> list[float]:
        """Return the values at its lines."""
        return [self.low + self.step * n for n in range(round((self.high - self.low) / self.step) + 1)]


def scale_for(values: Sequence[float]) -> Scale:
    """Choose an axis between 0 and 100 that holds the values and little more."""
    if not values:
        return Scale(0, 100, 20)
    inside = [min(max(value, 0.0), 100.0) for value in values]
    low, high = min(inside), max(inside)
    step = next(step for step in (2, 5, 10, 20) if high - low <= 5 * step)
    first, last = step * math.floor(low / step), step * math.ceil(high / step)
    if last - first < 2 * step:
        first, last = max(first - step, 0), min(last + step, 100)
    if last - first < 2 * step:
        first, last = (0, 2 * step) if first == 0 else (100 - 2 * step, 100)
    return Scale(first, last, step)


def strip(label: str, mean: float | None, span: Interval | None, scale: Scale, *, plain: bool = False) -> str:
    """Draw an average with its interval; ``plain`` is what it is compared with."""
    middle, parts = _STRIP / 2, [_grid(scale, _STRIP)]
    kind = "bare" if plain else "whisker"
    if span is not None:
        left, right = scale.share(span.low), scale.share(span.high)
        parts.append(_line(kind, left, right, middle, middle))
        parts += [_line(kind, end, end, middle - 4, middle + 4) for end in (left, right)]
    if mean is not None and plain:
        # a share and pixels do not add up in an attribute
        parts.append(
            f'<svg aria-hidden="true" x="{_share(scale.share(mean))}"><rect class="square" x="-5" y="{middle - 5:g}" '
            'width="10" height="10"/></svg>'
        )
    elif mean is not None:
        parts.append(_circle("dot", scale.share(mean), middle, 5))
    return _svg(label, _STRIP, parts)


def axis(scale: Scale) -> str:
    """Write the figures of an axis; the strips tell a reader who does not see them the same."""
    ticks = "".join(
        f'<text x="{_share(scale.share(tick))}" y="13" text-anchor="middle">{tick:g}</text>'
        for tick in scale.ticks()
    )
    return f'<svg height="18" aria-hidden="true">{ticks}</svg>'


def bar(label: str, value: float | None, most: float) -> str:
    """Draw a score as a share of the most points it can have."""
    share = 0.0 if value is None else min(max(value / most, 0.0), 1.0) * 100
    middle = _BAR / 2
    rail = f'<rect class="rail" width="100%" height="8" y="{middle - 4:g}" rx="4"/>'
    filled = f'<rect class="bar" width="{_share(share)}" height="8" y="{middle - 4:g}" rx="4"/>'
    return _svg(label, _BAR, [rail, filled if share else ""])


def progress(iteration: Iteration, language: Language) -> str:
    """Draw the best score so far over the rounds, with all candidates that have a score."""
    rounds = iteration.rounds[:MAX_ROUNDS]
    slots = len(rounds) + (iteration.corrected is not None)
    scale = scale_for(list(_values(iteration, rounds)))
    parts = [*_levels(scale), *_numbers(rounds, slots)]
    if iteration.start_score is not None:
        at = _height(scale, iteration.start_score)
        parts.append(_line("begin", 0, 100, at, at))
    parts += _best_line(iteration, rounds, scale, slots)
    for at, mark in enumerate(rounds, 1):
        parts += _dots(mark, at * 100 / slots, scale, language)
    if iteration.corrected is not None:
        parts += _fair(iteration, scale, language)
    title = word("progress_title", language)
    start, best = figure(iteration.start_score), figure(iteration.best_score)
    told = word("progress_desc", language, rounds=len(iteration.rounds), start=start, best=best)
    return f'<div class="progress">{_svg(title, _PLOT, parts, told)}</div>'


def _values(iteration: Iteration, rounds: Sequence[RoundMark]) -> Iterator[float]:
    known = [iteration.start_score, iteration.best_score, iteration.corrected]
    if span := iteration.corrected_interval:
        known += [span.low, span.high]
    for mark in rounds:
        known += [mark.score, *(dot.score for dot in mark.candidates)]
    return (value for value in known if value is not None)


def best_so_far(iteration: Iteration) -> list[float | None]:
    """Return the best score of an iteration after each of its rounds."""
    best, found = iteration.start_score, list[float | None]()
    for mark in iteration.rounds:
        scored = [mark.score, *(dot.score for dot in mark.candidates), best]
        best = max((value for value in scored if value is not None), default=None)
        found.append(best)
    return found


def _best_line(iteration: Iteration, rounds: Sequence[RoundMark], scale: Scale, slots: int) -> Iterator[str]:
    before, came_from = iteration.start_score, 0.0
    for at, best in enumerate(best_so_far(iteration)[: len(rounds)], 1):
        here = at * 100 / slots
        if before is not None:
            level = _height(scale, before)
            yield _line("best", came_from, here, level, level)
            if best is not None and best != before:
                yield _line("best", here, here, level, _height(scale, best))
        before, came_from = best, here


def _levels(scale: Scale) -> Iterator[str]:
    for tick in scale.ticks():
        at = _height(scale, tick)
        yield _line("grid", 0, 100, at, at)
        yield f'<text x="-8" y="{at + 4:g}" text-anchor="end">{tick:g}</text>'


def _numbers(rounds: Sequence[RoundMark], slots: int) -> Iterator[str]:
    every = max(1, math.ceil(len(rounds) / 12))
    for at, mark in enumerate(rounds, 1):
        if at % every == 0 or len(rounds) == 1:
            yield f'<text x="{_share(at * 100 / slots)}" y="{_PLOT + 20}" text-anchor="middle">{mark.round}</text>'


def _dots(mark: RoundMark, at: float, scale: Scale, language: Language) -> Iterator[str]:
    number = f"{word('round', language)} {mark.round}"
    scored = sorted(mark.candidates, key=lambda dot: dot.won)
    for dot in scored:
        if dot.score is not None:
            told = f"{number} · {dot.strategy} · {figure(dot.score)}"
            kind, size = ("won", 5) if dot.won else ("hollow", 3.5)
            yield _circle(kind, at, _height(scale, dot.score), size, told)
    if mark.score is not None and not any(dot.won and dot.score is not None for dot in scored):
        told = f"{number} · {mark.strategy} · {figure(mark.score)}"
        yield _circle("won", at, _height(scale, mark.score), 5, told)


def _fair(iteration: Iteration, scale: Scale, language: Language) -> Iterator[str]:
    if span := iteration.corrected_interval:
        low, high = _height(scale, span.low), _height(scale, span.high)
        yield _line("fair-line", 100, 100, low, high)
    middle = _height(scale, iteration.corrected or 0.0)
    kind = "corrected" if iteration.retested else "estimated"
    told = f"{word(kind, language)} {figure(iteration.corrected)}"
    yield (
        f'<svg aria-hidden="true" x="100%" y="{middle:g}"><path class="fair" d="M0-7 7 0 0 7-7 0z">'
        f"<title>{markup(told)}</title></path></svg>"
    )


def _height(scale: Scale, value: float) -> float:
    return round((100 - scale.share(value)) * _PLOT / 100, 1)


def _grid(scale: Scale, height: float) -> str:
    return "".join(_line("grid", scale.share(tick), scale.share(tick), 0, height) for tick in scale.ticks())


def _svg(label: str, height: float, parts: Sequence[str], told: str = "") -> str:
    more = f"<desc>{markup(told)}</desc>" if told else ""
    return f'<svg role="img" height="{height:g}"><title>{markup(label)}</title>{more}{"".join(parts)}</svg>'


def _share(value: float) -> str:
    return f"{value:.2f}%"


def _line(kind: str, x1: float, x2: float, y1: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{_share(x1)}" x2="{_share(x2)}" y1="{y1:g}" y2="{y2:g}"/>'


def _circle(kind: str, x: float, y: float, size: float, told: str = "") -> str:
    inside = f"<title>{markup(told)}</title>" if told else ""
    return f'<circle class="{kind}" cx="{_share(x)}" cy="{y:g}" r="{size:g}">{inside}</circle>'
