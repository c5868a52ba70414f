"""How is the server started? Over stdin and stdout, or over HTTP."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from personalab.errors import PersonaLabError, UserError
from personalab.services import open_services
from personalab.serving.places import MAX_TURNS
from personalab.serving.running import Address
from personalab.settings import spoken_language

if TYPE_CHECKING:
    from mcp_server.server import PersonaServer

DEFAULT_PORT = 8765


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server; return the exit code: 2 for bad usage or input, 1 for anything else that went wrong."""
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison] (it is, after 2>&-)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.stderr = os.fdopen(2, "w")
    try:
        options = _options().parse_args(arguments)
        logging.basicConfig(
            level=logging.DEBUG if options.debug else logging.WARNING,
            stream=sys.stderr,
            format="%(levelname)s %(name)s: %(message)s",
        )
        _serve(options)
    except PersonaLabError as error:
        sys.stderr.write(f"{error.message(spoken_language())}\n")
        return 2 if isinstance(error, UserError) else 1
    except KeyboardInterrupt:
        return 130
    return 0


class _Parser(argparse.ArgumentParser):
    """Refuses in one sentence, as every entrance does."""

    def error(self, message: str) -> NoReturn:
        raise UserError("bad_usage", reason=message)


def _options() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m mcp_server", description="The MCP server of PersonaLab / PersonaLab 的 MCP 服务器"
    )
    parser.add_argument(
        "--toolsets", default="chat,memory", help="chat, memory, archive, lab (default: chat,memory) / 工具集"
    )
    parser.add_argument(
        "--max-turns",
        type=_number("--max-turns", 1, 10_000),
        default=MAX_TURNS,
        help="turns at once / 同时进行的轮次",
    )
    parser.add_argument("--debug", action="store_true", help="log more, to stderr / 更多日志")
    parser.add_argument("--http", action="store_true", help="streamable HTTP instead of stdio / 使用 HTTP")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address; others than loopback need PERSONALAB_TOKEN / 地址"
    )
    parser.add_argument(
        "--port", type=_number("--port", 0, 65_535), default=DEFAULT_PORT, help="0 takes a free one / 端口"
    )
    parser.add_argument(
        "--allow-host", action="append", default=[], help="a name clients may use / 允许的主机名"
    )
    return parser


def _number(name: str, low: int, high: int) -> Callable[[str], int]:
    def whole(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 9 and low <= int(text) <= high):
            raise UserError("setting_out_of_range", field=name, value=text[:40], range=f"{low}–{high}")
        return int(text)

    return whole


def _serve(options: argparse.Namespace) -> None:
    from mcp_server.server import build_server

    services = open_services()
    toolsets = [name.strip() for name in options.toolsets.split(",") if name.strip()]
    server = build_server(services, toolsets, max_turns=options.max_turns)
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
        await server.close()
        os._exit(0)

    def begin_to_end() -> None:
        if not ending:
            ending.append(loop.create_task(end()))

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, begin_to_end)
    async with wire(lambda: loop.call_soon_threadsafe(begin_to_end) and None) as (read, write):
        await server.serve_streams(read, write)
