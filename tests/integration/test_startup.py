"""A quick start delays what some packages import by themselves, and changes nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
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


_IN_THREADS = """
import threading
from personalab.startup import start_quickly
start_quickly()
import langgraph_sdk
import signals_of_the_test as signals
found = []
def use():
    try:
        from langgraph_sdk import get_client
        found.append(get_client())
    except BaseException as error:
        found.append(repr(error))
first, second = threading.Thread(target=use), threading.Thread(target=use)
first.start()
signals.runs.wait(60)
second.start()
second.join(0.2)
signals.may_end.set()
first.join(60)
second.join(60)
print(found)
"""
_FAILING = """
from personalab.startup import start_quickly
start_quickly()
import langgraph_sdk
for name in ("get_client", "get_client", "before"):
    try:
        getattr(langgraph_sdk, name)
    except ImportError as error:
        print(error.name)
open(langgraph_sdk.__path__[0] + "/../nothing_there.py", "w").close()
import importlib
importlib.invalidate_caches()
print(langgraph_sdk.get_client(), langgraph_sdk.before)
"""


def _run_with_package(program: str, folder: Path, package: str) -> list[str]:
    """Run a program that finds a package of ours in the place of a lazy one."""
    (folder / "langgraph_sdk").mkdir()
    (folder / "langgraph_sdk" / "__init__.py").write_text(package, encoding="utf-8")
    (folder / "signals_of_the_test.py").write_text(
        "import threading\nruns, may_end = threading.Event(), threading.Event()\n", encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{program}"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.splitlines()


def test_threads_that_need_a_delayed_package_wait_until_it_has_run(tmp_path: Path) -> None:
    package = (
        "import signals_of_the_test as signals\n"
        "signals.runs.set()\nsignals.may_end.wait(60)\n"
        "def get_client(): return 'client'\n"
    )
    assert _run_with_package(_IN_THREADS, tmp_path, package) == ["['client', 'client']"]


def test_delayed_package_that_fails_can_be_tried_again(tmp_path: Path) -> None:
    package = "before = 'before'\nimport nothing_there\ndef get_client(): return 'client'\n"
    failed = ["nothing_there"] * 3
    assert _run_with_package(_FAILING, tmp_path, package) == [*failed, "client before"]
