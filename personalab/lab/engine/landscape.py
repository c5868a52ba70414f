"""A model of the score of every set of segments, and the search for its maximum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
_LEAST_STEP = 1e-9


@dataclass(frozen=True, slots=True)
class Landscape:
    """A score for every set: a level, what each segment adds, and what each pair adds to that.

    ``pairs`` is symmetric and its diagonal is zero.
    """

    level: float
    main: Floats
    pairs: Floats

    def value(self, chosen: Floats) -> float:
        """Return the score of a set."""
        return float(self.level + self.main @ chosen + 0.5 * chosen @ self.pairs @ chosen)

    def gains(self, chosen: Floats) -> Floats:
        """Return what the set would gain by putting in or taking out each segment."""
        return (1.0 - 2.0 * chosen) * (self.main + self.pairs @ chosen)

    def climb(self, chosen: Floats, free: Mask) -> Floats:
        """Put in or take out one free segment after the other, the best first, until nothing helps."""
        chosen = chosen.copy()
        slope = self.main + self.pairs @ chosen
        for _ in range(4 * len(chosen)):
            gains = np.where(free, (1.0 - 2.0 * chosen) * slope, -np.inf)
            place = int(np.argmax(gains)) if len(gains) else 0
            if not len(gains) or gains[place] <= _LEAST_STEP:
                break
            step = 1.0 - 2.0 * chosen[place]
            chosen[place] += step
            slope += self.pairs[:, place] * step
        return chosen

    def plus(self, other: Landscape, weight: float) -> Landscape:
        """Add a share of another landscape to this one."""
        return Landscape(
            self.level + weight * other.level,
            self.main + weight * other.main,
            self.pairs + weight * other.pairs,
        )
