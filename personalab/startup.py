"""Faster start and end: less garbage collection, and large packages are executed only when they are used."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_START_THRESHOLDS = (20_000, 50, 100)
_SERVER_THRESHOLDS = (10_000, 10, 5)
"""Runs of a graph are garbage in cycles: collected late, they take half as much memory again."""
_LAZY_PACKAGES = frozenset({"langgraph_sdk", "langsmith.types"})
"""LangGraph needs one small module of each; what the packages import by themselves takes a fifth of a start."""


def start_quickly() -> None:
    """Collect less often than Python's defaults, which take a tenth of a start, and delay large packages."""
    gc.set_threshold(*_START_THRESHOLDS)
    if not any(isinstance(finder, _LazyFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _LazyFinder())


def freeze_startup() -> None:
    """Leave everything imported so far out of later collections, which would pause a server's streams."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_SERVER_THRESHOLDS)


def end_quickly() -> None:
    """Leave everything out of the collections Python makes when it ends: they take half a second."""
    gc.disable()
    gc.freeze()


class _LazyFinder(MetaPathFinder):
    """Finds the lazy packages; their modules are imported as usual."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _LAZY_PACKAGES:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _LazyLoader(spec.loader)
        return spec


class _LazyLoader(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> None:
        """Use Python's default module creation."""

    def exec_module(self, module: ModuleType) -> None:
        """Run nothing yet."""
        module.__dict__["lazy_loader"] = self._loader
        module.__class__ = _LazyPackage


class _LazyPackage(ModuleType):
    """A package whose ``__init__`` runs as soon as a name is needed that is no module imported before.

    Other threads wait until it has run. One that fails leaves the package as it was, to be tried again.
    """

    lazy_loader: Loader
    is_running = False
    _loading = threading.RLock()

    def __getattr__(self, name: str) -> Any:
        with self._loading:
            if self.__class__ is _LazyPackage:
                if self.is_running:  # its own code asks for a name that it has not defined yet
                    raise AttributeError(
                        f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self
                    )
                self._run()
        return getattr(self, name)

    def _run(self) -> None:
        names = vars(self)
        before = {*names}
        names["is_running"] = True
        try:
            self.lazy_loader.exec_module(self)
        except BaseException:
            for name in {*names} - before:
                if not isinstance(names[name], ModuleType):  # modules stay imported
                    del names[name]
            raise
        finally:
            names.pop("is_running", None)
        self.__class__ = ModuleType  # pyright: ignore[reportAttributeAccessIssue] (this is its purpose)
