"""A session that makes a file of every kind a data root can have: run as a program, with the folder to write to.

    python -m tests.integration.security.broad_session FOLDER

The data root is ``PERSONALAB_DATA``; ``FOLDER`` gets what is exported.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from cli.running import services
from personalab.operations.exchange_folder import put_into_exchange
from tests.integration.security.terminal import run_command

STORY = "inst_001"
PROJECT = "First look"


def _run(*words: str) -> str:
    code, printed = run_command(*words)
    if code:
        raise SystemExit(f"{' '.join(words)}: {code}\n{printed}")
    return printed


def main(folder: Path) -> None:
    """Play, summarize, remember, archive, import, export, and run a project of the lab."""
    _run("settings", "set", "preferences.language", "en")
    _run("new", "--character", "char_maren", "--background", "bg_lighthouse")
    for number in range(8):
        _run("say", STORY, f"Good evening, said the {number}th time.")
    _run("update-memory", STORY)
    _run("summarize", STORY)
    _run("say", STORY, "Shall we go on?")
    _run("memory", "add", "char_maren", "event", "The player promised to mend the foghorn")
    _run("memory", "search", "char_maren", "foghorn")
    session = json.loads(_run("archive", "new", "weather", "--json"))
    session_id = str(session["session_id"])
    _run("archive", "append", session_id, "user", "Is it raining?")
    _run("archive", "fold")
    _run("archive", "append", session_id, "assistant", "It is.")
    _run("export", "char_maren", "--out", str(folder / "maren.json"))
    entry: dict[str, Any] = {"keys": ["sea"], "content": "Salt.", "enabled": True, "insertion_order": 1}
    data: dict[str, Any] = {"name": "Ann", "character_book": {"entries": [{**entry, "extensions": {}}]}}
    card = {"spec": "chara_card_v2", "spec_version": "2.0", "data": data}
    (folder / "ann.json").write_text(json.dumps(card), encoding="utf-8")
    _run("import", str(folder / "ann.json"))
    asyncio.run(put_into_exchange(services(), "out.json", b"{}"))
    _run("lab", "project", "new", PROJECT, "--skill", "2abe", "--skill", "fa22", "--baseline", "92e1")
    _run("lab", "run", PROJECT, "--yes")
    _run("reindex")
    _run("doctor")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        os.umask(int(sys.argv[2], 8))
    main(Path(sys.argv[1]))
