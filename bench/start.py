"""Start time of ``personalab --help`` compared with a bare typer program."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from bench.table import Figure, best_of

_BARE = '''
import typer
app = typer.Typer()
@app.command()
def one(name: str) -> None:
    """Say one thing."""
@app.command()
def two(name: str) -> None:
    """Say another."""
app()
'''


def figures() -> list[Figure]:
    """Measure the start of the terminal program."""
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder) / "bare.py"
        bare.write_text(_BARE, encoding="utf-8")

        def run(*command: str) -> float:
            return best_of(
                lambda: subprocess.run([sys.executable, *command], check=True, capture_output=True) and None
            )

        floor, ours = run(str(bare), "--help"), run("-m", "cli", "--help")
    note = f"{ours * 1e3:.0f} ms / {floor * 1e3:.0f} ms"
    return [Figure("personalab --help / a bare typer program's", ours / floor, at_most=1.5, note=note)]
