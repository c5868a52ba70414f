"""Helpers that start the MCP server and third-party clients."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

PROJECT = Path(__file__).resolve().parents[3]
SCRIPTS = Path(__file__).resolve().parent
NODE_MODULES = PROJECT / "build" / "node" / "node_modules"
PYTHON_CLIENTS = PROJECT / "build" / "clients"

SERVER = [sys.executable, "-m", "mcp_server"]
"""The product on stdio."""
HTTP_SERVER = [*SERVER, "--http", "--port", "0"]
SECONDS = 120
"""Nothing here takes as long; a client that hangs is ended."""

_URL = re.compile(r"http://127\.0\.0\.1:\d+/mcp")
_OUTSIDE = ("OPENAI_", "PERSONALAB_", "LANGSMITH_", "LANGCHAIN_", "MCP_", "npm_", "NODE_")

_UNSET = ("PERSONALAB_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL")
"""Set to nothing, so that no ``.env`` sets them."""

Json = dict[str, Any]
Transport = Literal["stdio", "http"]


def world(folder: Path, **more: str) -> dict[str, str]:
    """Make an environment with a data root of its own and nothing of the person who runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OUTSIDE)}
    return {
        **kept,
        "HOME": str(folder / "home"),
        "LANG": "en_US.UTF-8",
        "PERSONALAB_DATA": str(folder / "data"),
        **dict.fromkeys(_UNSET, ""),
        "NODE_PATH": str(NODE_MODULES),
        "PATH": f"{NODE_MODULES / '.bin'}{os.pathsep}{os.environ['PATH']}",
        "MCP_CATALOG_PATH": str(folder / "inspector.json"),
        **more,
    }


@dataclass(frozen=True, slots=True)
class Running:
    """A server over HTTP."""

    url: str
    process: subprocess.Popen[str]


@contextlib.contextmanager
def serving(command: Sequence[str], environment: Mapping[str, str]) -> Generator[Running]:
    """Run a server that says its address on stderr, and end it afterwards."""
    process = subprocess.Popen(
        command,
        cwd=PROJECT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    with process:
        assert process.stderr is not None
        said: list[str] = []
        for line in process.stderr:
            said.append(line)
            if found := _URL.search(line):
                break
        else:
            raise AssertionError(f"the server ended without an address:\n{''.join(said)}")
        draining = threading.Thread(target=said.extend, args=(process.stderr,), daemon=True)
        draining.start()
        try:
            yield Running(found[0], process)
        finally:
            process.terminate()
            try:
                process.wait(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            finally:
                draining.join()
            # Shown by pytest where a test failed.
            print("".join(said), file=sys.stderr)


@contextlib.contextmanager
def reachable(transport: Transport, environment: Mapping[str, str]) -> Generator[Json]:
    """Say in a plan where the product is: a command that starts it, or the address of one that runs."""
    if transport == "stdio":
        yield {"command": SERVER}
    else:
        with serving(HTTP_SERVER, environment) as running:
            yield {"url": running.url}


def run(
    command: Sequence[str | Path], environment: Mapping[str, str], typed: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a program of somebody else's to its end."""
    return subprocess.run(
        command,
        input=typed,
        capture_output=True,
        env=environment,
        cwd=PROJECT,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )


def play(command: Sequence[str | Path], plan: Json, environment: Mapping[str, str]) -> Json:
    """Let a client play a plan, and give what it saw."""
    ended = run(command, environment, json.dumps(plan))
    print(ended.stderr, file=sys.stderr)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads(ended.stdout)


def require_node() -> None:
    """Skip where the clients in JavaScript are missing."""
    if not (NODE_MODULES / ".bin" / "node").exists():
        pytest.skip("no clients in build/node; run: python tests/fetch_clients.py")


def python_of(client: str) -> Path:
    """Find the Python of a client's own environment; skip where it is missing."""
    found = PYTHON_CLIENTS / client / "bin" / "python"
    if not found.exists():
        pytest.skip(f"no clients in build/clients/{client}; run: python tests/fetch_clients.py")
    return found
