"""The MCP server with the fixtures of the conformance suite.

``python -m tests.e2e.mcp_server.conformance_server`` is ``python -m mcp_server --http --port 0`` with the
fixtures added; it also prints its address on stderr.
"""

from __future__ import annotations

import socket
import sys

import uvicorn

from mcp_server.http import build_app
from mcp_server.server import build_server
from personalab.services import open_services
from tests.e2e.mcp_server.conformance_fixtures import add_fixtures


def main() -> None:
    """Serve on a free port until told to end."""
    server = build_server(open_services(), toolsets=("chat",))
    add_fixtures(server)
    app = build_app(server, host="127.0.0.1", token=None)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
