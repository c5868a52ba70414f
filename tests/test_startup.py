"""A quick start delays what some packages import by themselves, and changes nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.conftest import PROJECT

_PROGRAM = """
import json, sys
if sys.argv[1] == "quick":
    from personalab.startup import start_quickly
    start_quickly()
import langgraph.graph
early = [name for name in ("langgraph_sdk.client", "langsmith.types.run") if name in sys.modules]
import langgraph_sdk, langsmith.types
from langgraph_sdk import get_client
found = [langgraph_sdk.__version__, get_client.__module__, langsmith.types.Run.__module__]
names = [
    sorted(name for name in vars(package) if not name.startswith("_"))
    for package in (langgraph_sdk, langsmith.types)
]
print(json.dumps({"early": early, "found": found, "names": names}))
"""


def _run(way: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, way], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_quick_start_delays_packages_and_changes_nothing_else() -> None:
    usual, quick = _run("usual"), _run("quick")
    assert (usual["early"], quick["early"]) == (["langgraph_sdk.client", "langsmith.types.run"], [])
    assert quick["found"] == usual["found"]
    assert [set(names) - {"lazy_loader"} for names in quick["names"]] == [
        set(names) for names in usual["names"]
    ]
