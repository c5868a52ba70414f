"""How does a server that loads graphs by name get them? Over one set of services a process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import cache

from graph.pumped import PumpedBuilder, PumpedGraph
from personalab.services import Services, open_services, tracing_notice

Build = Callable[[Services], PumpedBuilder]


async def served(name: str, build: Build) -> PumpedGraph:
    """Give a compiled graph, always the same one."""
    return await asyncio.to_thread(_compiled, name, build)


@cache
def _compiled(name: str, build: Build) -> PumpedGraph:
    return build(services_of_this_process()).compile(name=name)


@cache
def services_of_this_process() -> Services:
    """Open the services once; the graphs and whatever else the server runs share them."""
    services = open_services()
    services.remote = True
    if notice := tracing_notice(services):
        logging.getLogger("personalab.tracing").warning(notice)
    return services
