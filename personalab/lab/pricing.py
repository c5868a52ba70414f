"""Models that are free, models that report their costs, and whether a limit can be enforced."""

from __future__ import annotations

from collections.abc import Sequence

_HERE = ("scripted:", "local:")


def is_free(model: str) -> bool:
    """Tell whether a model runs here, and so costs nothing."""
    return model == "rehearsal" or model.startswith(_HERE)


def tells_price(model: str) -> bool:
    """Tell whether a model's answers say what they cost: those of the command line do, a chat model's do not."""
    return is_free(model) or ":" not in model


def is_limited(models: Sequence[str], max_calls: int | None, max_usd: float | None) -> bool:
    """Tell whether a budget bounds what is spent; one in money does if every model tells what it costs."""
    return max_calls is not None or (max_usd is not None and all(map(tells_price, models)))
