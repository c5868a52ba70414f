"""Running terminal commands one after the other in this process, each on freshly opened services."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from contextlib import suppress

from cli import running
from cli.running import run
from personalab.errors import PersonaLabError
from personalab.testing.rehearsal import RehearsalModel


def run_command(*words: str) -> tuple[int, str]:
    """Run a command; return its exit code and all it printed."""
    running._opened.clear()  # pyright: ignore[reportPrivateUsage] (as a new process would begin)
    with suppress(PersonaLabError):
        running.services().models["rehearsal"] = RehearsalModel(delay=0)
    sys.argv = ["personalab", *words]
    with tempfile.TemporaryFile() as captured:
        sys.stdout.flush()
        kept = os.dup(1), os.dup(2)
        try:
            os.dup2(captured.fileno(), 1)
            os.dup2(captured.fileno(), 2)
            code = run()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)
            os.close(kept[0])
            os.close(kept[1])
        if running._opened:  # pyright: ignore[reportPrivateUsage] (as above)
            asyncio.run(running.services().close())
        captured.seek(0)
        return code, captured.read().decode("utf-8", "replace")
