"""Models that are free, models that report their costs, and whether a limit can be enforced."""

from __future__ import annotations

from collections.abc import Sequence

_HERE = ("scripted:", "local:")


def is_free(model: str) -> bool:
    """Return whether a model runs on this machine, and is therefore free."""
    return model == "rehearsal" or model.startswith(_HERE)


def tells_price(model: str) -> bool:
    """Return whether a model's answers report their cost: the command line's do, a chat model's do not."""
    return is_free(model) or ":" not in model


def is_limited(models: Sequence[str], max_calls: int | None, max_usd: float | None) -> bool:
    """Return whether a budget limits the spending; one in money does if every model reports its cost."""
    return max_calls is not None or (max_usd is not None and all(map(tells_price, models)))
