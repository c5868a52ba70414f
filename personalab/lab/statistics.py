"""Confidence intervals of averages, and differences that can be told from chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

LEVEL = 0.95
POWER = 0.80
"""A difference is called detectable if it would be found so often."""
_TINY = 1e-300
_STEPS = 300
_HALVINGS = 200


@dataclass(frozen=True, slots=True)
class Interval:
    """Where a true value lies, as far as is known."""

    low: float
    high: float

    def overlaps(self, other: Interval) -> bool:
        """Return whether both values may be equal."""
        return self.low <= other.high and other.low <= self.high

    def within(self, least: float, most: float) -> Interval:
        """Cut off what cannot be."""
        return Interval(min(max(self.low, least), most), min(max(self.high, least), most))


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """How far two series are apart where both have a value; ``detectable`` is what so many pairs could show."""

    mean: float
    n: int
    sd: float | None
    interval: Interval | None
    detectable: float | None


def mean_of(values: Sequence[float]) -> float:
    """Average values; their order does not matter."""
    return math.fsum(values) / len(values)


def spread_of(values: Sequence[float]) -> float | None:
    """Return the standard deviation of a sample; one value has none."""
    if len(values) < 2:
        return None
    mean = mean_of(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def interval_of(values: Sequence[float], level: float = LEVEL) -> Interval | None:
    """Return Student's interval of an average; one value has none."""
    spread = spread_of(values)
    if spread is None:
        return None
    mean, n = mean_of(values), len(values)
    reach = t_quantile(0.5 + level / 2, n - 1) * spread / math.sqrt(n)
    return Interval(mean - reach, mean + reach)


def difference_of(pairs: Sequence[tuple[float, float]]) -> PairedDifference | None:
    """Compare two series pair by pair, the first minus the second; nothing to compare gives ``None``."""
    if not pairs:
        return None
    gaps = [one - other for one, other in pairs]
    spread = spread_of(gaps)
    detectable = None if spread is None else detectable_of(spread, len(gaps))
    return PairedDifference(mean_of(gaps), len(gaps), spread, interval_of(gaps), detectable)


def detectable_of(spread: float, n: int) -> float:
    """Return the smallest paired difference that ``n`` pairs would show four times in five."""
    return (t_quantile(0.5 + LEVEL / 2, n - 1) + t_quantile(POWER, n - 1)) * spread / math.sqrt(n)


def pooled_spread(groups: Sequence[Sequence[float]]) -> float | None:
    """Return the spread inside groups, whatever lies between them; groups of one say nothing."""
    telling = [group for group in groups if len(group) > 1]
    if not telling:
        return None
    squares = math.fsum((value - mean_of(group)) ** 2 for group in telling for value in group)
    return math.sqrt(squares / sum(len(group) - 1 for group in telling))


# --- Student's distribution


@lru_cache(maxsize=1024)
def t_quantile(share: float, freedom: int) -> float:
    """Return the value that Student's t stays below in this share of all cases."""
    if not 0 < share < 1 or freedom < 1:
        raise ValueError("a share lies between 0 and 1, and the degrees of freedom are at least 1")
    if share == 0.5:
        return 0.0
    if share < 0.5:
        return -t_quantile(1 - share, freedom)
    low, high = 0.0, 1.0
    while t_share(high, freedom) < share:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if t_share(middle, freedom) < share else (low, middle)
    return (low + high) / 2


def t_share(value: float, freedom: int) -> float:
    """Return the share of all cases in which Student's t stays below a value."""
    if value == 0:
        return 0.5
    tail = _beta_share(freedom / (freedom + value * value), freedom / 2, 0.5) / 2
    return 1 - tail if value > 0 else tail


def _beta_share(x: float, a: float, b: float) -> float:
    """Compute the regularised incomplete beta function."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    weight = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    if x < (a + 1) / (a + b + 2):
        return weight * _fraction(x, a, b) / a
    return 1 - weight * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """Evaluate its continued fraction by Lentz's method."""
    c, d = 1.0, 1 / _apart(1 - (a + b) * x / (a + 1))
    found = d
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        before = found
        for step in (even, odd):
            d = 1 / _apart(1 + step * d)
            c = _apart(1 + step / c)
            found *= d * c
        if abs(found - before) <= 1e-15 * abs(found):
            break
    return found


def _apart(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
