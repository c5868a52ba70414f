"""The dimensions that an answer is scored by, with their maximum points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

Dimension = Literal[
    "functional_correctness",
    "robustness",
    "readability",
    "conciseness",
    "complexity_control",
    "format_compliance",
]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
MAXIMA: Mapping[Dimension, int] = dict(zip(DIMENSIONS, (30, 20, 15, 15, 10, 10), strict=True))
"""The most points of each; together they are 100."""

Category = Literal["standard", "boundary", "exception"]
CATEGORIES: tuple[Category, ...] = get_args(Category)
