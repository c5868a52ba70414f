"""What docs/mcp.md shows is what happens."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_server.server import TOOLSETS, build_server
from personalab.services import Services
from tests.conftest import PROJECT

PAGES = ["docs/mcp.md", "docs/mcp.zh-CN.md"]


def _page(name: str) -> str:
    return (PROJECT / name).read_text(encoding="utf-8")


def test_the_walk_through_runs(root: Path) -> None:
    code = re.search(r"```python\n(.*?)```", _page("docs/mcp.md"), re.DOTALL)
    assert code is not None
    done = subprocess.run(
        [sys.executable, "-c", code[1]], capture_output=True, text=True, cwd=PROJECT, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "Is anyone up there?" in done.stdout
    assert (root / "instances" / "inst_001").is_dir()
    assert "done {'current_plot_index': 1, 'current_status': 'in_progress'" in done.stdout


@pytest.mark.anyio
async def test_the_table_of_tools_is_the_servers(services: Services) -> None:
    server = build_server(services, TOOLSETS)
    table = re.compile(r"^\| `([a-z]+_\w+)` \| `([^|]*?)`", re.MULTILINE)
    rows = dict(table.findall(_page("docs/mcp.md")))
    tools = {tool.name: tool.input_schema for tool in await server.list_tools()}
    assert list(rows) == list(tools)
    for name, schema in tools.items():
        needed = schema.get("required", [])
        shown = ", ".join(field if field in needed else f"{field}?" for field in schema["properties"])
        assert rows[name] == shown, name


@pytest.mark.anyio
async def test_the_table_of_addresses_is_the_servers(services: Services) -> None:
    server = build_server(services)
    templates = {template.uri_template for template in await server.list_resource_templates()}
    for page in PAGES:
        assert set(re.findall(r"`(persona://[^`]+)`", _page(page))) == templates


@pytest.mark.parametrize("page", PAGES)
def test_every_command_option_and_link_of_the_page_exists(page: str) -> None:
    text = _page(page)
    for link in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", text):
        assert (PROJECT / "docs" / link).exists(), link
    for command in ("serve", "mcp-config"):
        done = subprocess.run(
            [sys.executable, "-m", "cli", command, "--help"], capture_output=True, text=True, cwd=PROJECT
        )
        assert done.returncode == 0, done.stderr
    served = subprocess.run(
        [sys.executable, "-m", "mcp_server", "--help"], capture_output=True, text=True, cwd=PROJECT
    )
    for option in set(re.findall(r"(--(?:host|port|toolsets|max-turns|allow-host|debug))\b", text)):
        assert option in served.stdout, option
