"""Clients of others that the MCP server is tested with.

``python tests/fetch_clients.py`` brings the ones in JavaScript (``tests/support/clients/package.json``, with
a Node that runs them) into ``build/node``, and each one in Python into an environment of its own in
``build/clients``, for they want other versions of ``mcp`` than we do. What is there already, in the right
version, stays. Nothing that is brought runs anything while it is installed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import distributions
from pathlib import Path

CLIENTS = Path(__file__).resolve().parent / "support" / "clients"
BUILD = Path(__file__).resolve().parents[1] / "build"
PYTHON_CLIENTS = {
    "langchain": ["langchain-mcp-adapters"],
    "fastmcp": ["fastmcp"],
    "openai_agents": ["openai-agents"],
    "smolagents": ["smolagents[mcp,openai]"],
    "pydantic_ai": ["pydantic-ai-slim[mcp,openai]"],
    "semantic_kernel": ["semantic-kernel[mcp]"],
    "autogen": ["autogen-agentchat", "autogen-ext[mcp,openai]"],
    "google_genai": ["google-genai"],
}
"""The folder of each environment, named as its file of versions, and what is installed there."""

AT_ONCE = 3
"""Installations that run at the same time: each waits for the network as much as for a core."""


def main(build: Path) -> None:
    """Put every client in its place, unless it is there."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        waiting = [pool.submit(bring_node, build / "node")]
        for name, packages in PYTHON_CLIENTS.items():
            versions = read_versions(CLIENTS / f"{name}.txt")
            waiting.append(pool.submit(bring_python, build / "clients" / name, packages, versions))
        for one in waiting:
            one.result()


def bring_node(folder: Path) -> None:
    """Install the clients in JavaScript with npm."""
    if not missing_from_node(folder):
        print(f"{folder}: the clients in JavaScript are there.")
        return
    npm = shutil.which("npm")
    if npm is None:
        sys.exit(
            "The clients in JavaScript are installed with npm, which is not here: install Node.js with npm."
        )
    print(f"{folder}: installing the clients in JavaScript with npm ...", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(CLIENTS / "package.json", folder / "package.json")
    flags = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--loglevel=error"]
    subprocess.run([npm, "install", *flags], cwd=folder, check=True)
    if missing := missing_from_node(folder):
        sys.exit(f"npm ended well, but this is still missing in {folder}: {', '.join(missing)}.")


def missing_from_node(folder: Path) -> list[str]:
    """Name what is not there in the version that package.json wants; Node is asked for its own."""
    wanted = json.loads((CLIENTS / "package.json").read_text(encoding="utf-8"))
    missing: list[str] = []
    for name, version in wanted["dependencies"].items():
        about = folder / "node_modules" / name / "package.json"
        if not about.is_file() or json.loads(about.read_text(encoding="utf-8"))["version"] != version:
            missing.append(f"{name} {version}")
    [node_version] = set(wanted["optionalDependencies"].values())
    node = folder / "node_modules" / ".bin" / "node"
    said = (
        subprocess.run([node, "--version"], capture_output=True, text=True, check=True)
        if node.is_file()
        else None
    )
    if said is None or said.stdout.strip() != f"v{node_version}":
        missing.append(f"node {node_version}")
    return missing


def read_versions(constraints: Path) -> dict[str, str]:
    """Read the pinned version of each distribution."""
    lines = constraints.read_text(encoding="utf-8").split()
    return {plain(name): version for name, _, version in (line.partition("==") for line in lines)}


def bring_python(folder: Path, packages: list[str], versions: dict[str, str]) -> None:
    """Install a client in Python with pip, in an environment of its own."""
    names = [plain(package.partition("[")[0]) for package in packages]
    shown = ", ".join(f"{name} {versions[name]}" for name in names)
    if is_in_place(folder, names, versions):
        print(f"{folder}: {shown} is there.")
        return
    print(f"{folder}: installing {shown} with pip ...", flush=True)
    venv.create(folder, with_pip=True, clear=True, symlinks=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--constraint", CLIENTS / f"{folder.name}.txt", *packages], check=True)


def is_in_place(folder: Path, names: list[str], versions: dict[str, str]) -> bool:
    """Tell whether a client is there, and nothing beside it in another version than the pinned one."""
    if not (folder / "bin" / "python").exists():
        return False
    sites = [str(site) for site in folder.glob("lib/python*/site-packages")]
    there = {plain(found.name): found.version for found in distributions(path=sites)}
    return set(names) <= there.keys() and all(
        versions.get(name, version) == version for name, version in there.items()
    )


def plain(name: str) -> str:
    """Write a distribution's name as indexes compare it."""
    return name.lower().replace("_", "-").replace(".", "-")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else BUILD)
