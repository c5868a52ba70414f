"""Build the bundle for Claude Desktop: ``dist/personalab-VERSION.mcpb``.

    python -m tools.build_mcpb [--out DIR] [--packer PATH]

The code is what the wheel holds; what it depends on is named, and installed by the host's uv. With the official
packer (``@anthropic-ai/mcpb``, looked for in ``build/node``) the bundle is validated. Needs no network.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tools.build_mcpb.icon import ICON
from tools.build_mcpb.manifest import ENTRY_POINT, LONG_DESCRIPTION, MAIN, ask_server, manifest
from tools.build_mcpb.packing import check, pack
from tools.build_mcpb.requirements import read_project, uv_project

PROJECT = Path(__file__).resolve().parents[2]
PACKER = PROJECT / "build" / "node" / "node_modules" / ".bin" / "mcpb"

_BUILD_WHEEL = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"


def build(out: Path, packer: Path | None) -> Path:
    """Stage the bundle, check it if there is a packer, and pack it."""
    project = read_project(PROJECT)
    target = out / f"{project['name']}-{project['version']}.mcpb"
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder, "bundle")
        _unpack(_wheel(Path(folder)), bundle / "server")
        _write(bundle, ENTRY_POINT, MAIN)
        _write(bundle, "pyproject.toml", uv_project(PROJECT))
        _write(bundle, "README.md", f"{_introduction()}\n\n{LONG_DESCRIPTION}")
        shutil.copyfile(PROJECT / "LICENSE", bundle / "LICENSE")
        shutil.copyfile(ICON, bundle / "icon.png")
        offers = asyncio.run(ask_server(bundle))
        described = json.dumps(manifest(project, offers), ensure_ascii=False, indent=2)
        _write(bundle, "manifest.json", described + "\n")
        if packer is not None:
            check(bundle, packer)
        pack(bundle, target)
    return target


def _wheel(folder: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-c", _BUILD_WHEEL, str(folder)], cwd=PROJECT, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"The wheel cannot be built:\n{done.stderr}")
    return folder / done.stdout.split()[-1]


def _unpack(wheel: Path, target: Path) -> None:
    """Lay out the wheel's code; beside it stand no pyproject.toml and no data, so it is no checkout.

    Of its metadata only what tells the version comes along.
    """
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if ".dist-info/" not in name or name.endswith("/METADATA"):
                archive.extract(name, target)


def _write(bundle: Path, name: str, text: str) -> None:
    (bundle / name).write_text(text, encoding="utf-8", newline="\n")


def _introduction() -> str:
    """Take the README's heading and its first paragraph."""
    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    found = re.match(r"# .+\n\n.+(?=\n\n)", text)
    if found is None:
        raise SystemExit("README.md does not begin with a heading and a paragraph")
    return found[0]


def _own_changes() -> list[str]:
    """List files of the shipped data that are in no commit: they would be part of the bundle."""
    done = subprocess.run(
        [
            "git",
            "--no-optional-locks",
            "status",
            "--porcelain",
            "--untracked-files=all",
            "--",
            "data/shipped",
        ],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    return [row[3:] for row in done.stdout.splitlines()]


def main() -> None:
    """Build the bundle and say where it is and whether it was validated."""
    reader = argparse.ArgumentParser(prog="python -m tools.build_mcpb", description="Build the .mcpb bundle.")
    reader.add_argument("--out", type=Path, default=PROJECT / "dist", metavar="DIR")
    reader.add_argument("--packer", type=Path, metavar="PATH", help="the official program mcpb")
    asked = reader.parse_args()
    packer = asked.packer or (PACKER if PACKER.exists() else None)
    target = build(asked.out, packer)
    print(f"{target} ({target.stat().st_size / 1e6:.1f} MB)")
    if packer is None:
        print(f"Not validated: the official packer is not in {PACKER.parent}", file=sys.stderr)
    if shutil.which("git") and (changes := _own_changes()):
        print(f"Look before you give it away, it holds your own: {', '.join(changes)}", file=sys.stderr)


if __name__ == "__main__":
    main()
