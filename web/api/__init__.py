"""The routers of the API."""

from __future__ import annotations

from web.api import (
    exchange,
    growth,
    instances,
    jobs,
    lab,
    lab_findings,
    lab_projects,
    lab_results,
    library,
    memory,
    prompt,
    sessions,
    settings,
    system,
    turns,
)

ROUTERS = (
    turns.router,  # routes are tried in this order
    system.router,
    library.router,
    instances.router,
    sessions.router,
    growth.router,
    prompt.router,
    memory.router,
    settings.router,
    exchange.router,
    jobs.router,
    lab.router,
    lab_projects.router,
    lab_results.router,
    lab_findings.router,
)
