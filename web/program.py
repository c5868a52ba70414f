"""Command line of the web server, and its start."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from personalab.services import Services, open_services
from personalab.serving.server import (
    Address,
    check_address,
    run_program,
    run_server,
    server_options,
    show_tracing_notice,
    toolsets_of,
)
from personalab.texts import say


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server and return the exit code."""
    parser = server_options("web", "The page, its API and MCP in one server / 网页、接口与 MCP 服务器")
    return run_program(parser, arguments, _serve)


def _serve(options: argparse.Namespace) -> None:
    services = open_services()
    # Before anything heavy is loaded: a server that may not begin says so at once.
    check_address(options.host.strip("[]"), services.settings.token)
    show_tracing_notice(services)

    from web.app import Limits
    from web.joining import whole_app
    from web.logs import write_logs

    write_logs(debug=options.debug)
    app = whole_app(
        lambda: services,
        host=options.host.strip("[]"),
        token=services.settings.token,
        allow_hosts=options.allow_host,
        toolsets=toolsets_of(options),
        limits=Limits(max_turns=options.max_turns),
    )

    async def close() -> None:
        await app.state.desk.close()

    address = Address(options.host, options.port, services.settings.token)
    run_server(app, address, told=lambda url: _greeting(services, url), close=close)


def _greeting(services: Services, url: str) -> str:
    return say("web_is_at", services.preferences.language(), url=url)
