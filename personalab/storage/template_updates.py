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

VERSION = 3
_LONGEST = 4_096
EARLIER: dict[str, dict[int, str]] = {
    "zh/system_prompt": {1: ""},
    "en/system_prompt": {1: ""},
    "zh/post_history_instructions": {
        1: "",
        2: (
            "现在轮到{{char}}。以{{char}}的身份用第一人称回应{{user}}刚才的话：先用括号写"
            "一个新的动作或神情，再说台词，给出新的细节或问一个具体的问题。写两到五句话，不替{{user}}说话"
            "或行动，不重复之前的回复，不客套。"
        ),
    },
    "zh/last_note": {
        2: ("{said}\n\n（以下是给你的要求，不是玩家说的话。）\n{instructions}"),
    },
    "en/post_history_instructions": {
        1: "",
        2: (
            "It is {{char}}'s turn. Answer {{user}}'s last words as {{char}}, in the first person: first a "
            "new action or expression in parentheses, then speech, with a new detail or one concrete question. "
            "Two to five sentences. Do not speak or act for {{user}}, do not repeat earlier replies, no "
            "pleasantries."
        ),
    },
    "en/last_note": {
        2: ("{said}\n\n(What follows are instructions for you, not the player's words.)\n{instructions}"),
    },
    "zh/progress_instruction": {
        1: "=== 进度引导指令 ===\n如果剧情推进，请在回复中输出标记：[PROGRESS:X:status]",
    },
    "en/progress_instruction": {
        1: "=== Progress instruction ===\nIf the story moves on, put a marker into your reply: [PROGRESS:X:status]",
    },
}
"""What earlier versions shipped of the templates that have changed since."""


def update_templates(root: Path, shipped: Path, marker: str) -> None:
    """Replace the untouched older copies, unless the marker says that it was done; a failure leaves them in use."""
    with suppress(PersonaLabError, OSError):
        seen = _seen(root / marker)
        if seen >= VERSION or not (root / "prompt_templates").is_dir():
            return
        with locked_file(root / ".lock", "prompt_templates"):
            for name, texts in EARLIER.items():
                earlier = [text for version, text in texts.items() if version >= seen]
                file = f"prompt_templates/{name}.txt"
                with suppress(PersonaLabError, ValueError):
                    if _text(root / file, file) in earlier:
                        replace_file(root / file, (shipped / file).read_bytes(), file)
            replace_file(root / marker, str(VERSION).encode(), marker)


def _seen(marker: Path) -> int:
    """Return the version of the templates that a root has; 1 where it does not say so."""
    try:
        return int(read_bytes(marker, marker.name, _LONGEST))
    except (PersonaLabError, ValueError):
        return 1


def _text(path: Path, shown: str) -> str:
    text = read_bytes(path, shown, _LONGEST).decode("utf-8-sig")
    return "\n".join(row.rstrip() for row in text.splitlines()).strip()
