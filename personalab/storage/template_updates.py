"""Replacing untouched copies of older shipped prompt templates in a data root with the current ones.

A data root gets copies of the templates when it is made. A copy that a person edited is kept; one that still is what
an earlier version shipped is replaced, once: the marker file holds the version of the templates a root has seen, so
that a template that is emptied later stays empty.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from personalab.errors import PersonaLabError
from personalab.storage.files import read_bytes, replace_file
from personalab.storage.locked import locked_file

VERSION = "2"
_LONGEST = 4_096
EARLIER = {
    "zh/system_prompt": ("",),
    "en/system_prompt": ("",),
    "zh/post_history_instructions": ("",),
    "en/post_history_instructions": ("",),
    "zh/progress_instruction": (
        "=== 进度引导指令 ===\n如果剧情推进，请在回复中输出标记：[PROGRESS:X:status]",
    ),
    "en/progress_instruction": (
        "=== Progress instruction ===\nIf the story moves on, put a marker into your reply: [PROGRESS:X:status]",
    ),
}
"""What earlier versions shipped of the templates that have changed since."""


def update_templates(root: Path, shipped: Path, marker: str) -> None:
    """Replace the untouched older copies, unless the marker says that it was done; a failure leaves them in use."""
    with suppress(PersonaLabError, OSError):
        if _seen(root / marker) == VERSION or not (root / "prompt_templates").is_dir():
            return
        with locked_file(root / ".lock", "prompt_templates"):
            for name, earlier in EARLIER.items():
                file = f"prompt_templates/{name}.txt"
                with suppress(PersonaLabError, ValueError):
                    if _text(root / file, file) in earlier:
                        replace_file(root / file, (shipped / file).read_bytes(), file)
            replace_file(root / marker, VERSION.encode(), marker)


def _seen(marker: Path) -> str:
    try:
        return read_bytes(marker, marker.name, _LONGEST).decode("ascii", "replace").strip()
    except PersonaLabError:
        return ""


def _text(path: Path, shown: str) -> str:
    text = read_bytes(path, shown, _LONGEST).decode("utf-8-sig")
    return "\n".join(row.rstrip() for row in text.splitlines()).strip()
