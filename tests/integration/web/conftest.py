"""Fixtures of the tests in this folder."""

from tests.support.web.fixtures import (
    app,
    app_client,
    environment,
    handed,
    live,
    serve,
    served,
    slow_model,
    slowly_served,
)

__all__ = [
    "app",
    "app_client",
    "environment",
    "handed",
    "live",
    "serve",
    "served",
    "slow_model",
    "slowly_served",
]
