"""The bundle's ``pyproject.toml``: the product's dependencies at the versions it was tested with."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def read_project(project: Path) -> dict[str, Any]:
    """Read the table ``project`` of the product's own ``pyproject.toml``."""
    return tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def uv_project(project: Path) -> str:
    """Write the bundle's ``pyproject.toml``: nothing to build, names and versions only."""
    own = read_project(project)
    rows = [
        "[project]",
        f"name = {json.dumps(own['name'])}",
        f"version = {json.dumps(own['version'])}",
        f"requires-python = {json.dumps(own['requires-python'])}",
        *_list("dependencies", own["dependencies"]),
        "",
        "[tool.uv]",
        "package = false",
        *_list("constraint-dependencies", tested_versions(project)),
    ]
    return "\n".join(rows) + "\n"


def _list(name: str, items: list[str]) -> list[str]:
    return [f"{name} = [", *(f"    {json.dumps(item)}," for item in items), "]"]


def tested_versions(project: Path) -> list[str]:
    """Keep those lines of ``constraints.txt`` that the product needs, not the tools of development."""
    needed = _needed(read_project(project)["dependencies"])
    lines = (project / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and canonicalize_name(Requirement(line).name) in needed]


def _needed(dependencies: list[str]) -> set[str]:
    """Follow the installed packages' metadata to every package that may be needed on some platform."""
    waiting = [Requirement(text) for text in dependencies]
    seen: set[tuple[str, str]] = set()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        for extra in ("", *wanted.extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                waiting += _requires(name, extra)
    return {name for name, _ in seen}


def _requires(name: str, extra: str) -> Iterator[Requirement]:
    """List what a package asks for by itself, or by one of its extras; platforms are not told apart."""
    try:
        texts = distribution(name).requires or []
    except PackageNotFoundError:  # for another platform or an older Python
        return
    for text in texts:
        found = Requirement(text)
        by_extra = found.marker is not None and "extra" in str(found.marker)
        if by_extra == bool(extra) and (
            not by_extra or (found.marker and found.marker.evaluate({"extra": extra}))
        ):
            yield found
