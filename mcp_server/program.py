"""Command line of the server: arguments, and the start over stdin and stdout or over HTTP."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from personalab.services import open_services
from personalab.serving.server import Address, run_program, server_options, show_tracing_notice, toolsets_of

if TYPE_CHECKING:
    from mcp_server.server import PersonaServer


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server and return the exit code."""
    parser = server_options("mcp_server", "The MCP server of PersonaLab / PersonaLab 的 MCP 服务器")
    parser.add_argument("--http", action="store_true", help="streamable HTTP instead of stdio / 使用 HTTP")
    return run_program(parser, arguments, _serve)


def _serve(options: argparse.Namespace) -> None:
    from mcp_server.server import build_server

    logging.basicConfig(
        level=logging.DEBUG if options.debug else logging.WARNING,
        stream=sys.stderr,
        format="%(levelname)s %(name)s: %(message)s",
    )
    services = open_services()
    show_tracing_notice(services)
    server = build_server(services, toolsets_of(options), max_turns=options.max_turns)
    if options.http:
        from mcp_server.http import serve

        serve(server, Address(options.host, options.port, services.settings.token), options.allow_host)
    else:
        asyncio.run(_stdio(server))


async def _stdio(server: PersonaServer) -> None:
    """Serve the client at stdin and stdout until it goes.

    A request to end closes the replies first. It cannot wait for stdin, which a thread is reading: so the process
    ends there.
    """
    from mcp_server.stdio import wire

    loop = asyncio.get_running_loop()
    ending: list[asyncio.Task[None]] = []

    async def end() -> None:
        try:
            await server.close()
        finally:
            os._exit(0)

    def begin_to_end() -> None:
        if not ending:
            ending.append(loop.create_task(end()))

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, begin_to_end)
    async with wire(lambda: loop.call_soon_threadsafe(begin_to_end) and None) as (read, write):
        await server.serve_streams(read, write)
