"""What the bench measures, and what it says about it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from personalab.lab.benching import BenchReport, Row, figures, run_bench, table

_SMALL = ("ledger", "beam_3")


def _row(preset: str, engine: str, headroom: float | None, to_80: float | None) -> Row:
    shares = (headroom,) * 4
    return Row(preset, engine, 40, 0, shares, (0.01,) * 4, to_80, 0.9, 0.5, 0.6)  # pyright: ignore[reportArgumentType]


def _report(*rows: Row) -> BenchReport:
    return BenchReport((1, 2), (150, 200, 300, 408), rows)


_GOOD = (
    _row("base", "ledger", 0.93, 160),
    _row("base", "beam_3", 0.60, 640),
    _row("interactions", "ledger", 0.9, 170),
    _row("interactions", "beam_3", 0.6, None),
    _row("pure_noise", "ledger", None, None),
    replace(_row("pure_noise", "beam_3", None, None), claimed_gain=3.0),
)


def test_the_bench_gives_the_same_rows_for_the_same_seeds() -> None:
    calls: list[tuple[int, int]] = []
    one = run_bench(
        [1, 2], ["base", "pure_noise"], _SMALL, (100, 150), lambda done, total: calls.append((done, total))
    )
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert [(row.preset, row.engine) for row in one.rows] == [
        ("base", "ledger"),
        ("base", "beam_3"),
        ("pure_noise", "ledger"),
        ("pure_noise", "beam_3"),
    ]
    assert one == run_bench([1, 2], ["base", "pure_noise"], _SMALL, (100, 150))
    base = one.row("base", "ledger")
    assert base is not None
    assert base.worlds + base.excluded == 2
    assert all(share is not None and share <= 1.0 for share in base.headroom)
    noise = one.row("pure_noise", "ledger")
    assert noise is not None
    assert noise.headroom == (None, None)
    assert json.loads(json.dumps(one.fields()))["rows"][0]["engine"] == "ledger"
    text = table(one)
    assert len(text.splitlines()) == 6
    assert "@150" in text


def test_all_promises_are_met_by_good_rows() -> None:
    assert all(met for _, _, _, met in figures(_report(*_GOOD)))


@pytest.mark.parametrize(
    ("place", "worse", "missed"),
    [
        (0, {"headroom": (0.8, 0.8, 0.84, 0.91)}, "headroom, base, 300 evaluations"),
        (0, {"headroom": (0.8, 0.8, 0.86, 0.89)}, "headroom, base, 408 evaluations"),
        (0, {"to_80": 220.0}, "times fewer evaluations to 80 % than beam 3"),
        (2, {"headroom": (0.7, 0.7, 0.7, 0.79)}, "headroom, 60 interactions, 408 evaluations"),
        (4, {"claimed_gain": 1.1}, "claimed gain under pure noise, points"),
        (2, {"headroom": (0.59, 0.7, 0.8, 0.9)}, "least lead over beam 3, any preset and budget"),
        (0, {"off_by": 1.2}, "reported score off the truth, base, points"),
    ],
)
def test_a_promise_that_is_not_kept_is_named(place: int, worse: dict[str, float], missed: str) -> None:
    rows = list(_GOOD)
    rows[place] = replace(rows[place], **worse)
    assert [name for name, _, _, met in figures(_report(*rows)) if not met] == [missed]


def test_what_was_not_measured_is_not_met() -> None:
    assert [met for _, _, _, met in figures(_report())] == [False] * 7
