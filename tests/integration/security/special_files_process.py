"""Terminal commands on a data root in which one file after the other is something else: run as a program.

    python -m tests.integration.security.special_files_process KIND FOLDER [SHARE]

``FOLDER`` holds a data root ``data``; each case works on a copy of it in a process of its own, which an alarm ends if
it hangs. With ``SHARE``, one file in so many is tried as a named pipe, beside those in ``SOME``. Prints one JSON
object a case that went wrong.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from personalab.providers.tokens import OfflineCounter
from tests.integration.security.broad_session import PROJECT, STORY
from tests.integration.security.terminal import run_command

ALARM_SECONDS = 120
_STORY_COMMANDS = (
    ("library",),
    ("read", STORY),
    ("say", STORY, "Good evening"),
    ("update-memory", STORY),
    ("export", "ann", "--overwrite"),
)
COMMANDS = {
    "instances": (*_STORY_COMMANDS, ("reindex",)),
    "memory": (
        ("memory", "get", "char_maren"),
        ("memory", "add", "char_maren", "profile", "The player likes tea"),
        ("say", STORY, "Good evening"),
        ("reindex",),
    ),
    "event_library": (("recall", STORY, "foghorn"), ("say", STORY, "Good evening"), ("reindex",)),
    "archive": (("archive", "sessions"), ("archive", "new", "another"), ("archive", "verify")),
    "workspace": (
        ("lab", "skills"),
        ("lab", "baselines"),
        ("lab", "projects"),
        ("lab", "project", "show", PROJECT),
        ("lab", "run", PROJECT, "--yes"),
        ("lab", "board"),
    ),
}
"""What works with the files of a folder; the others belong to every story."""
ALWAYS = (
    ("settings", "set", "thresholds.summary_last_n_turns", "4"),
    ("doctor", "--fix"),
)
ABSENT = (
    f"instances/{STORY}/.awaited",
    f"instances/{STORY}/sessions/sess_002.torn",
    f"instances/{STORY}/sessions/sess_002.broken",
    "memory/memory.db-wal",
    "memory/memory.db-journal",
    "event_library/catalogue.new",
    ".seeding",
)
"""Files that are only there at times."""


SOME = (
    "config.json",
    f"instances/{STORY}/.lock",
    f"instances/{STORY}/sessions/sess_002.jsonl",
    "memory/memory.db",
    "event_library/catalogue.json",
    "archive/veloca-storage.json.journal",
    "workspace/.lock",
)
"""Files that are tried as every kind; others as a named pipe."""


def _socket(path: Path) -> None:
    # The address of a socket is short: it is bound where it is, and moved.
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("s")
    os.rename("s", path)


KINDS: dict[str, Callable[[Path], None]] = {
    "fifo": os.mkfifo,
    "folder": os.mkdir,
    "socket": _socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
}


def _targets(root: Path) -> Iterator[str]:
    """Name every file, but one of those in several folders that are read alike."""
    seen: set[str] = set()
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        alike = name
        if name.startswith(("prompt_templates", "workspace/skills", "workspace/baselines")):
            alike = name.partition("/")[0] + path.suffix
        elif "/results/" in name or path.suffix == ".bin":
            alike = path.suffix
        if path.is_file() and alike not in seen:
            seen.add(alike)
            yield name
    yield from ABSENT


def _load_libraries() -> None:
    """Import once what takes long, and nothing that starts a thread: the cases are forked from here."""
    importlib.import_module("chromadb")
    importlib.import_module("graph.chat_turn")
    OfflineCounter("o200k_base").count("")


def _case(root: Path, name: str, make: Callable[[Path], None]) -> None:
    """Run all commands; the exit code tells whether each ended as it should."""
    signal.alarm(ALARM_SECONDS)
    path = root / name
    path.unlink(missing_ok=True)
    make(path)
    os.chdir(root.parent)
    wrong = False
    for words in (*COMMANDS.get(name.partition("/")[0], _STORY_COMMANDS), *ALWAYS):
        print(json.dumps({"running": words, "file": name}), file=sys.stderr, flush=True)
        code, printed = run_command(*words)
        unclear = "Traceback" in printed or "The program failed" in printed or (code and not printed.strip())
        if code not in (0, 1, 2) or unclear:
            wrong = True
            print(json.dumps({"file": name, "command": words, "code": code, "printed": printed}), flush=True)
    os._exit(wrong)


def main(kind: str, folder: Path, share: int | None) -> None:
    """Try the files of the data root in turn."""
    work = folder / kind
    _load_libraries()
    others = [name for name in _targets(folder / "data") if name not in SOME]
    if kind != "fifo" or not share:
        others = []
    else:
        others = random.Random(os.environ.get("PERSONALAB_TEST_SEED")).sample(others, len(others) // share)
    for name in [*SOME, *others]:
        shutil.copytree(folder / "data", work / "data")
        os.environ["PERSONALAB_DATA"] = str(work / "data")
        child = os.fork()
        if child == 0:
            _case(work / "data", name, KINDS[kind])
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            print(json.dumps({"file": name, "signal": os.WTERMSIG(status)}), flush=True)
        shutil.rmtree(work)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)
