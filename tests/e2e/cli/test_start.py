"""Tests of the program's imports at the start and of its help."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.e2e.cli.conftest import CHECKOUT, Run

HEAVY = (
    "asyncio", "chromadb", "langchain_core", "langgraph", "numpy", "openai", "prompt_toolkit", "pydantic",
    "tiktoken",
)  # fmt: skip
COMMANDS = (
    "chat", "say", "new", "library", "read", "retry", "stop", "switch-background", "summarize", "recall", "prompt",
    "settings", "lab", "reindex", "doctor", "serve", "mcp", "mcp-config",
)  # fmt: skip


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from cli.program import app\n"
        "sys.argv = ['personalab', '--help']\n"
        "try: app()\n"
        "except SystemExit: pass\n"
        f"print('HEAVY', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=CHECKOUT, check=True
    )
    assert done.stdout.splitlines()[-1] == "HEAVY []"


def test_turn_imports_only_what_it_uses() -> None:
    unused = (
        "graph.memorize", "graph.summarize", "personalab.memory.pipeline", "personalab.lab.calling",
        "personalab.providers.langchain_source", "personalab.providers.local", "personalab.testing.rehearsal",
    )  # fmt: skip
    program = (
        "import sys, graph.chat_turn, personalab.services\n"
        "from personalab.providers.chat_models import open_model\n"
        "from personalab.providers.model_settings import ModelSettings\n"
        "open_model('openai:m', settings=ModelSettings(base_url='http://127.0.0.1:1/v1'))\n"
        f"print([name for name in {unused!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=CHECKOUT, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_help_names_every_command(personalab: Run) -> None:
    done = personalab("--help", COLUMNS="120")
    assert done.returncode == 0
    assert all(f" {command} " in done.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_in_both_languages(personalab: Run, command: str) -> None:
    done = personalab(command, "--help")
    assert done.returncode == 0
    assert any("\u4e00" <= character <= "\u9fff" for character in done.stdout)
    assert command in ("chat", "serve", "mcp", "lab") or "--json" in done.stdout


def test_a_bare_call_shows_the_help_and_is_bad_usage(personalab: Run) -> None:
    done = personalab()
    assert done.returncode == 2
    assert "Usage" in done.stdout + done.stderr


def test_the_version_is_told(personalab: Run) -> None:
    done = personalab("--version")
    assert (done.returncode, done.stdout.split()[0]) == (0, "personalab")
