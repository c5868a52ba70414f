"""The benchmark of the search engines in the synthetic world, with its output as a table."""

from __future__ import annotations

import multiprocessing
import os
import re
from collections.abc import Collection, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cli.output import GREEN, RED, ProgressLine, bar, paint, write, write_json
from cli.running import DONE, FAILED, Refusal, language
from cli.texts import tell

if TYPE_CHECKING:
    from personalab.lab.benching import Figure, Spread
    from personalab.lab.world import Preset

MAX_SEEDS = 1_000
USUAL_SEEDS = "2000-2039"
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def seeds_of(text: str) -> list[int]:
    """Read seeds: numbers and ranges, such as ``0-39`` or ``1,2,5``; each counts once."""
    found: dict[int, None] = {}
    for part in text.replace(" ", "").split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise Refusal("lab_bad_seeds", text=text[:80])
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= MAX_SEEDS:
            raise Refusal("lab_bad_seeds", text=text[:80])
        found.update(dict.fromkeys(range(first, last + 1)))
    if len(found) > MAX_SEEDS:
        raise Refusal("lab_bad_seeds", text=text[:80])
    return list(found)


def run(
    seeds: str | None, presets: Sequence[str], engines: Sequence[str], *, check: bool, as_json: bool
) -> int:
    """Measure, print the table and which figures of the specification are met.

    With ``check``, a figure that is not met makes the exit code 1.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for matrices this small, threads only get in the way
    from personalab.lab import benching

    wanted = seeds_of(USUAL_SEEDS if seeds is None else seeds)
    _check(presets, benching.PRESETS, "--preset")
    _check(engines, benching.ENGINES, "--engine")
    chosen: list[Preset] = [name for name in benching.PRESETS if not presets or presets.count(name)]
    entered = [name for name in benching.ENGINES if name in engines or not engines]
    progress = ProgressLine()

    def show(done: int, total: int) -> None:
        progress.show(tell("lab_benching", language(), bar=bar(done, total), done=done, total=total))

    try:
        with _workers() as spread:
            report = benching.run_bench(wanted, chosen, entered, progress=show, spread=spread)
    finally:
        progress.clear()
    figures = benching.figures(report)
    if as_json:
        write_json({**report.fields(), "figures": [_fields(figure) for figure in figures]})
    else:
        write(benching.table(report))
        _show_figures(figures)
    return FAILED if check and not all(figure.met for figure in figures) else DONE


@contextmanager
def _workers() -> Generator[Spread]:
    """Work with every core, each in a process of its own."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if count == 1:
        yield map
        return
    with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool.map


def _fields(figure: Figure) -> dict[str, object]:
    return {name: getattr(figure, name) for name in ("name", "goal", "measured", "met")}


def _check(given: Sequence[str], known: Collection[str], option: str) -> None:
    for name in given:
        if name not in known:
            raise Refusal("lab_bad_choice", option=option, value=name[:40], known=", ".join(known))


def _show_figures(figures: Sequence[Figure]) -> None:
    write("")
    write(tell("lab_figures", language()))
    for figure in figures:
        if figure.measured is None:
            mark, measured = tell("lab_not_measured", language()), "–"
        else:
            mark = (
                paint(tell("lab_met", language()), GREEN)
                if figure.met
                else paint(tell("lab_not_met", language()), RED)
            )
            measured = f"{figure.measured:.2f}"
        told = tell("lab_figure", language(), goal=figure.goal, measured=measured)
        write(f"  {mark}  {figure.name}: {told}")
