"""``personalab`` run many times from one process that has imported everything and forks for each command.

Importing takes ten times as long as most commands do. Each command still has a process, an environment and files of
its own. What a start itself does (imports, locale, encodings) is tested by programs that are really started.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
_PACKAGES = ("cli", "graph", "nodes", "personalab")
_LIBRARIES = ("chromadb.api.rust", "chromadb.telemetry.product.posthog", "langchain_openai")
_STARTED_FOR_REAL = ("PYTHON", "LANGSMITH_", "LANGCHAIN_", "SSL_", "TERMINAL_WIDTH")
"""Variables that are read while Python or a library starts."""
_START_SECONDS = 300
_server: list[_ForkServer] = []


def run_personalab(
    words: Sequence[str], environment: Mapping[str, str], *, typed: str = "", seconds: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, like ``subprocess.run`` of ``python -m cli``."""
    usual = {"PYTHONIOENCODING": "utf-8"}
    if "--help" in words or any(
        name.startswith(_STARTED_FOR_REAL) and usual.get(name) != value and os.environ.get(name) != value
        for name, value in environment.items()
    ):
        return subprocess.run(
            [sys.executable, "-m", "cli", *words],
            input=typed,
            capture_output=True,
            env=environment,
            cwd=CHECKOUT,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
            check=False,
        )
    if not _server:
        _server.append(_ForkServer())
    return _server[0].run(words, environment, typed, seconds)


class _ForkServer:
    """The client's side."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forked", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            cwd=CHECKOUT,
            # It outlives the test that comes first, and must not know its folder.
            env={
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("PERSONALAB_", "XDG_"))
            },
        )
        theirs.close()
        atexit.register(self.close)
        # A command's time begins when everything is loaded.
        self._socket.settimeout(_START_SECONDS)
        assert self._socket.recv(1), "the process that runs commands did not start"
        self._socket.settimeout(None)

    def close(self) -> None:
        """End the server."""
        self._socket.close()
        self._process.wait(10)

    def run(
        self, words: Sequence[str], environment: Mapping[str, str], typed: str, seconds: float
    ) -> subprocess.CompletedProcess[str]:
        with (
            tempfile.TemporaryFile() as entered,
            tempfile.TemporaryFile() as printed,
            tempfile.TemporaryFile() as said,
        ):
            entered.write(typed.encode("utf-8"))
            entered.seek(0)
            ours, theirs = socket.socketpair()
            with ours, theirs:
                streams = [file.fileno() for file in (entered, printed, said)]
                socket.send_fds(self._socket, [b"x"], [theirs.fileno(), *streams])
                theirs.close()
                request = json.dumps({"words": list(words), "environment": dict(environment)}).encode("utf-8")
                ours.sendall(len(request).to_bytes(8, "big") + request)
                ours.settimeout(seconds)
                answer = json.loads(ours.makefile("rb").readline() or b"null")
            assert answer is not None, "the process that runs commands has ended"
            found: list[str] = []
            for file in (printed, said):
                file.seek(0)
                found.append(file.read().decode("utf-8", "replace"))
        return subprocess.CompletedProcess(["personalab", *words], answer, *found)


# --- in the process that forks


def _serve(commands: socket.socket) -> None:
    """Fork for every command; one between us and the command waits for it and reports its exit code."""
    _load_everything()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    commands.sendall(b"r")
    while True:
        started, fds, _, _ = socket.recv_fds(commands, 1, 4)
        if not started:
            return
        if os.fork() == 0:
            commands.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if _run_and_report(fds):
                return _become_command(fds)
            os._exit(0)
        for fd in fds:
            os.close(fd)


def _load_everything() -> None:
    """Import the product with the libraries it imports late, and read the vocabulary that tokens are counted with."""
    for package in map(importlib.import_module, _PACKAGES):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    for name in _LIBRARIES:
        importlib.import_module(name)
    from personalab.providers.tokens import load_encoding

    load_encoding("o200k_base")
    assert threading.active_count() == 1, "a process with threads cannot be forked"


_request: list[dict[str, object]] = []


def _run_and_report(fds: list[int]) -> bool:
    """Return true in the process of the command; in the other one, report how it ended."""
    client = socket.socket(fileno=os.dup(fds[0]))
    incoming = client.makefile("rb")
    size = int.from_bytes(incoming.read(8), "big")
    _request.append(json.loads(incoming.read(size)))
    child = os.fork()
    if child == 0:
        client.detach()
        return True
    _, status = os.waitpid(child, 0)
    client.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    return False


def _become_command(fds: list[int]) -> None:
    """Be a new ``personalab``."""
    request = _request[0]
    for target, fd in enumerate(fds[1:]):
        os.dup2(fd, target)
    for fd in fds:
        os.close(fd)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), encoding="utf-8")
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(2, "w", closefd=False)),
        encoding="utf-8",
        errors="backslashreplace",
        line_buffering=True,
    )
    os.environ.clear()
    os.environ.update(request["environment"])  # pyright: ignore[reportCallIssue, reportArgumentType]
    sys.argv = ["personalab", *request["words"]]  # pyright: ignore[reportGeneralTypeIssues]
    os.chdir(CHECKOUT)
    from cli.main import main

    main()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
