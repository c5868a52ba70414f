"""Commands that start the servers and print configurations for MCP clients."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from cli.commands.options import AsJson

Client = Literal["claude", "vscode", "cursor"]
Toolsets = Annotated[
    str | None,
    typer.Option("--toolsets", metavar="NAMES", help="Which tools, e.g. chat,memory / 提供哪些工具"),
]
Debug = Annotated[bool, typer.Option("--debug", help="Log to stderr what the server does / 输出调试日志")]


def mcp_config(
    client: Annotated[
        Client | None,
        typer.Argument(metavar="[claude|vscode|cursor]", help="All, if left out / 不写则全部显示"),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="URL", help="Connect to a running `serve` / 连接已启动的 serve"),
    ] = None,
    json: AsJson = False,
) -> None:
    """Show what to paste into Claude Desktop, VS Code or Cursor / 显示客户端的配置

    The configuration goes to stdout, where it belongs and what to do next to stderr.
    """
    from cli.mcp import show_config

    show_config(client, http, as_json=json)


def mcp(context: typer.Context, toolsets: Toolsets = None, debug: Debug = False) -> None:
    """Be the MCP server on stdin and stdout, as clients start it / 作为 MCP 服务器运行

    Clients do this by themselves; `mcp-config` tells them how.
    """
    from cli.mcp import become_server

    become_server(_shared(context, toolsets, debug))


def serve(
    context: typer.Context,
    mcp_only: Annotated[bool, typer.Option("--mcp-only", help="Only MCP, at /mcp / 只提供 MCP")] = False,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Where to listen / 监听地址")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="At which port / 端口")] = 8765,
    toolsets: Toolsets = None,
    max_turns: Annotated[
        int | None,
        typer.Option("--max-turns", min=1, max=10_000, help="At most so many turns at once / 同时进行的轮数"),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="A name it is reached by / 允许的主机名"),
    ] = None,
    debug: Debug = False,
) -> None:
    """Serve the page, its API and MCP / 启动网页、接口与 MCP 服务器"""
    from cli.mcp import become_server

    words = ["--http"] if mcp_only else []
    words += ["--host", host, "--port", str(port)]
    if max_turns is not None:
        words += ["--max-turns", str(max_turns)]
    for name in allow_host or []:
        words += ["--allow-host", name]
    become_server(words + _shared(context, toolsets, debug), "mcp_server" if mcp_only else "web")


def _shared(context: typer.Context, toolsets: str | None, debug: bool) -> list[str]:
    """Word the options of both servers; ``--debug`` may stand before the command as well."""
    above = context.parent.params if context.parent is not None else {}
    words = ["--toolsets", toolsets] if toolsets is not None else []
    return [*words, "--debug"] if debug or above.get("debug") else words
