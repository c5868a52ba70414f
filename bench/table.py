"""Figures with their goals, printed as a table."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value and, where there is one, what it should not exceed (or fall below)."""

    name: str
    value: float
    unit: str = "×"
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether the goal is met; a figure without a goal always is."""
        over = self.at_most is not None and self.value > self.at_most
        under = self.at_least is not None and self.value < self.at_least
        return not (over or under)

    def row(self) -> str:
        """Show it as a row of the table."""
        goal = ""
        if self.at_most is not None:
            goal = f"≤ {self.at_most:g}"
        elif self.at_least is not None:
            goal = f"≥ {self.at_least:g}"
        mark = ("ok" if self.met else "MISSED") if goal else ""
        return f"| {self.name} | {self.value:,.3g} {self.unit} | {goal} | {mark} | {self.note} |"


HEAD = "| figure | value | goal | | note |\n|---|---|---|---|---|"


def show(title: str, figures: list[Figure]) -> None:
    """Print a table."""
    print(f"\n### {title}\n\n{HEAD}")
    for figure in figures:
        print(figure.row(), flush=True)


def best_of(work: Callable[[], None], *, rounds: int = 7, warm: int = 1) -> float:
    """Time some work several times and take the fastest: what else the machine did only adds."""
    for _ in range(warm):
        work()
    times: list[float] = []
    for _ in range(rounds):
        gc.collect()
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def median(values: list[float]) -> float:
    """Take the middle."""
    return statistics.median(values)
