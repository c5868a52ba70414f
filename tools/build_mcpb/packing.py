"""Reproducible packing of a folder into an ``.mcpb`` file, and its check by the official packer."""

from __future__ import annotations

import os
import subprocess
import tempfile
import zipfile
from pathlib import Path

_BEGINNING = (1980, 1, 1, 0, 0, 0)
"""The oldest time a zip can tell: the files' own times would make each bundle another."""
_PLAIN_FILE = 0o100644 << 16


def pack(bundle: Path, target: Path) -> None:
    """Zip every file of the folder in a fixed order, with fixed times and rights."""
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".part")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in names(bundle):
            entry = zipfile.ZipInfo(name, _BEGINNING)
            entry.create_system, entry.external_attr = 3, _PLAIN_FILE
            archive.writestr(entry, (bundle / name).read_bytes(), zipfile.ZIP_DEFLATED)
    unfinished.replace(target)


def names(bundle: Path) -> list[str]:
    """List the folder's files as an archive names them."""
    return sorted(path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file())


def check(bundle: Path, packer: Path) -> None:
    """Let the official packer judge the manifest and pack the folder; refuse what it refuses or leaves out.

    Its archive tells the time of day, so it is compared with the folder and not kept.
    """
    _run(packer, "validate", str(bundle / "manifest.json"))
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder, "official.mcpb")
        _run(packer, "pack", str(bundle), str(packed))
        with zipfile.ZipFile(packed) as archive:
            missing = set(names(bundle)) ^ {name for name in archive.namelist() if not name.endswith("/")}
            changed = {
                name
                for name in names(bundle)
                if name not in missing and archive.read(name) != (bundle / name).read_bytes()
            }
    if missing or changed:
        raise SystemExit(f"The official packer packs other files: {', '.join(sorted(missing | changed))}")


def _run(packer: Path, *words: str) -> None:
    """Run the packer by the node that was installed beside it, if one was."""
    path = os.pathsep.join((str(packer.absolute().parent), os.environ.get("PATH", os.defpath)))
    try:
        done = subprocess.run(
            [str(packer.absolute()), *words],
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
    except OSError as error:
        raise SystemExit(f"Cannot run {packer}: {error.strerror}") from error
    if done.returncode:
        raise SystemExit(f"mcpb {words[0]} failed:\n{done.stdout}{done.stderr}")
