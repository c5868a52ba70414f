"""Configurations for MCP clients, and the start of the servers from the command line.

Entrances do not import one another, so the server is a separate program that replaces this process.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from cli.output import BOLD, DIM, can_show, note, paint, write, write_json
from cli.running import Refusal, language
from cli.texts import tell
from personalab.settings import Settings, dotenv_path, in_checkout, read_settings

if TYPE_CHECKING:
    from cli.commands.mcp import Client
    from personalab.texts import Language

CLIENTS: dict[Client, str] = {"claude": "Claude Desktop", "vscode": "VS Code", "cursor": "Cursor"}
_NAME = "personalab"
_SERVER = ["-P", "-m", "mcp_server"]


def become_server(words: list[str], server: str = "mcp_server") -> NoReturn:
    """Replace the program of this process with a server."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-P", "-m", server, *words])  # noqa: S606 (no shell is meant)


def show_config(client: Client | None, http: str | None, *, as_json: bool) -> None:
    """Print the clients' configurations, and beside them where they belong; never a key or a token."""
    settings = read_settings()
    url = None if http is None else _endpoint(http)
    if url is not None and client == "claude":
        raise Refusal("claude_no_http")
    # A url in Claude Desktop's file is refused, and with it the start of some versions.
    chosen: list[Client] = (
        [client] if client else [name for name in CLIENTS if not (url and name == "claude")]
    )
    made = [
        {"client": name, "path": str(_path(name)), "config": _config(name, settings, url)} for name in chosen
    ]
    speech = language()
    if as_json:
        write_json(made[0] if client else made)
    else:
        for name, one in zip(chosen, made, strict=True):
            _show(name, one["path"], one["config"], speech)
        if url is not None and client is None:
            note(tell("claude_left_out", speech))
    _say_where_secrets_go(settings, url, speech)


def _show(client: Client, path: object, config: object, speech: Language) -> None:
    note(paint(f"── {CLIENTS[client]}", BOLD, sys.stderr))
    note(tell(f"paste_{client}", speech, path=path))
    if client == "claude" and in_checkout():
        note(paint(tell("or_bundle", speech), DIM, sys.stderr))
    write(json.dumps(config, indent=2, ensure_ascii=not can_show(json.dumps(config, ensure_ascii=False))))


def _say_where_secrets_go(settings: Settings, url: str | None, speech: Language) -> None:
    if url is not None:
        if settings.token:
            note(tell("token_not_printed", speech))
    elif settings.openai_api_key:
        place = dotenv_path() if in_checkout() else None
        note(tell("key_not_printed" if place else "key_into_env", speech, place=place))


# --- what a client needs to know


def _path(client: Client) -> Path:
    """Return the configuration file that a client reads."""
    match client:
        case "claude":
            import platformdirs

            folder = platformdirs.user_config_path("Claude", appauthor=False, roaming=True)
            return folder / "claude_desktop_config.json"
        case "vscode":
            return Path(".vscode", "mcp.json")
        case "cursor":
            return Path.home() / ".cursor" / "mcp.json"


def _config(client: Client, settings: Settings, url: str | None) -> dict[str, Any]:
    if client == "vscode":
        kind = "stdio" if url is None else "http"
        config: dict[str, Any] = {"servers": {_NAME: {"type": kind, **_entry(client, settings, url)}}}
        if url is not None and settings.token:
            asked = {"type": "promptString", "id": "personalab-token", "description": "PERSONALAB_TOKEN"}
            config["inputs"] = [{**asked, "password": True}]
        return config
    return {"mcpServers": {_NAME: _entry(client, settings, url)}}


def _entry(client: Client, settings: Settings, url: str | None) -> dict[str, Any]:
    if url is None:
        return {"command": sys.executable, "args": _SERVER, "env": _environment(settings)}
    if not settings.token:
        return {"url": url}
    token = "${input:personalab-token}" if client == "vscode" else "${env:PERSONALAB_TOKEN}"
    return {"url": url, "headers": {"Authorization": f"Bearer {token}"}}


def _environment(settings: Settings) -> dict[str, str]:
    """Return the variables that the server would not find on its own, wherever the client starts it."""
    found = {"PERSONALAB_DATA": str(settings.data_root)}
    if settings.model_chosen:
        found["PERSONALAB_MODEL"] = settings.model
    if settings.openai_base_url and _is_open(settings.openai_base_url):
        found["OPENAI_BASE_URL"] = settings.openai_base_url
    return found


def _is_open(url: str) -> bool:
    """Return whether an address contains no password or key."""
    return not any(mark in url for mark in "@?#")


def _endpoint(url: str) -> str:
    """Complete the address of a running server."""
    if not _is_open(url):
        raise Refusal("bad_url", url="…")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise Refusal("bad_url", url=url[:200]) from error
    if not usable:
        raise Refusal("bad_url", url=url[:200])
    return url if parts.path.strip("/") else f"{url.rstrip('/')}/mcp"
