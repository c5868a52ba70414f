"""Helpers that install and run the fake ``claude`` as a program and count its calls."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from personalab.lab.calling import Call, CallAnswer
from personalab.providers.claude_cli import ClaudeCli
from personalab.testing.fake_claude import VERSION

PROJECT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class FakeCli:
    """A ``claude`` in a folder of its own, with its rules and its log."""

    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / "claude"

    @property
    def spool(self) -> Path:
        return self.folder / "spool"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "FAKE_CLAUDE_RULES": str(self.folder / "rules.json"),
            "FAKE_CLAUDE_LOG": str(self.folder / "log.jsonl"),
        }

    def rules(self, *rules: Mapping[str, Any]) -> None:
        (self.folder / "rules.json").write_text(json.dumps(rules), encoding="utf-8")

    def executor(self, **options: Any) -> ClaudeCli:
        return ClaudeCli(str(self.path), environment={**self.environment, "CLAUDECODE": "1"}, **options)

    def run(self, call: Call, **options: Any) -> CallAnswer:
        return asyncio.run(self.executor(**options).run(call, self.spool))

    def calls(self) -> list[dict[str, Any]]:
        log = self.folder / "log.jsonl"
        return [json.loads(row) for row in log.read_text("utf-8").splitlines()] if log.exists() else []

    def left(self) -> set[str]:
        return {path.name for path in self.spool.iterdir()} if self.spool.exists() else set()


_SCRIPT = """#!/bin/sh
[ "$1" = --version ] && echo "{version} (the fake)" && exit
PYTHONPATH="{project}" PYTHONDONTWRITEBYTECODE=1 exec "{python}" -S -m personalab.testing.fake_claude "$@"
"""


def install(folder: Path) -> FakeCli:
    """Put the fake where a test can run it; its script tells the version, which saves half of the starts."""
    folder.mkdir(parents=True, exist_ok=True)
    fake = FakeCli(folder)
    fake.path.write_text(
        _SCRIPT.format(version=VERSION, project=PROJECT, python=sys.executable), encoding="utf-8"
    )
    fake.path.chmod(0o755)
    fake.rules()
    return fake


def question(text: str = "What is a tide?", **changes: Any) -> Call:
    """Make a call."""
    fields: dict[str, Any] = {
        "call_id": "call_1",
        "system": "Answer briefly.",
        "system_file": None,
        "text": text,
        "schema": None,
        "model": "opus",
        "timeout_seconds": 30.0,
        **changes,
    }
    return Call(**fields)
