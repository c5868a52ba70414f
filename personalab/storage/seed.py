"""Samples and defaults of a new data root, and newer prompt templates for an older one.

A copy of a template that a person edited is kept; one that equals a template of an earlier version is replaced, once:
the marker file holds the version of the templates that a root has received, so that a template that is emptied later
stays empty.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from personalab.data_files import locked_file, make_folder, read_bytes, replace_file, writing
from personalab.errors import PersonaLabError

VERSION = 4
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
    "zh/memorize_update": {
        3: (
            "=== 对话 ===\n"
            "{conversation}\n"
            "\n"
            "=== 已经知道的（编号在前） ===\n"
            "{known}\n"
            "\n"
            "=== 这次找到的信息 ===\n"
            "{facts}\n"
            "\n"
            "=== 要求 ===\n"
            "第二步：根据找到的信息，给出对档案（profile）和事件（event）的修改：\n"
            '- {"op": "add", "type": "profile", "text": "…", "reason": "…'
            '", "messages": [0]}：新的信息。\n'
            '- {"op": "replace", "target": "p1", "text": "…", "reason": "'
            '…", "messages": [0]}：更正、补充或合并编号为 target 的一条；与它矛盾的新信息也用 repla'
            "ce。\n"
            '- {"op": "remove", "target": "e1", "reason": "…", "messages"'
            ": [0]}：用户明确说它不对或不再成立，又没有新的说法。\n"
            "已经知道的不要再加。每一条修改都要有理由和依据的消息编号。没有要改的就给空列表。"
            "用对话的语言写。只输出这样的 JSON，不要别的文字：\n"
            '{"operations": [{"op": "add", "type": "event", "text": "…", '
            '"reason": "…", "messages": [2]}]}'
        ),
    },
    "en/memorize_update": {
        3: (
            "=== Conversation ===\n"
            "{conversation}\n"
            "\n"
            "=== Known already (each with its label) ===\n"
            "{known}\n"
            "\n"
            "=== Found this time ===\n"
            "{facts}\n"
            "\n"
            "=== What to do ===\n"
            "Second step: from what was found, give the changes to the profile and the events:\n"
            '- {"op": "add", "type": "profile", "text": "…", "reason": "…'
            '", "messages": [0]}: something new.\n'
            '- {"op": "replace", "target": "p1", "text": "…", "reason": "'
            '…", "messages": [0]}: mends, completes or merges the entry t'
            "hat target names; also for something new that contradicts it.\n"
            '- {"op": "remove", "target": "e1", "reason": "…", "messages"'
            ": [0]}: the user said clearly that it is wrong or no longer so, and nothing takes it"
            "s place.\n"
            "Do not add what is known. Every change needs a reason and the numbers of the message"
            "s it rests on. Give an empty list if there is nothing to change. Write in the langua"
            "ge of the conversation. Output JSON like this and nothing else:\n"
            '{"operations": [{"op": "add", "type": "event", "text": "…", '
            '"reason": "…", "messages": [2]}]}'
        ),
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


SEEDING = ".seeding"
"""Marks a data root whose samples are still being copied; the next start continues."""
SEEDED = ".seeded"
"""Marks a data root that has got its samples; what is deleted later stays deleted.

It holds the version of the prompt templates that the root has seen.
"""


def seed(root: Path, shipped: Path) -> bool:
    """Copy the shipped files into a new data root; of one that has files of its own, update the templates alone.

    The ``data`` folder of a checkout holds the shipped files (``data/shipped``) and may hold stories from the time
    when the samples were kept beside them: it gets what it lacks, once.
    """
    seeded = _fill(root, shipped)
    update_templates(root, shipped, SEEDED)
    return seeded


def _fill(root: Path, shipped: Path) -> bool:
    with writing(f"PERSONALAB_DATA ({root})"):
        if not _is_unseeded(root, shipped):
            return False
        root.parent.mkdir(parents=True, exist_ok=True)
        make_folder(root)
        with locked_file(root / ".lock", f"PERSONALAB_DATA ({root})"):
            if not _is_unseeded(root, shipped):
                return False
            (root / SEEDING).touch(mode=0o600)
            for source in sorted(shipped.rglob("*")):
                if source.is_file():
                    _copy(source, root / source.relative_to(shipped))
            os.replace(root / SEEDING, root / SEEDED)
    return True


def _is_unseeded(root: Path, shipped: Path) -> bool:
    if not root.is_dir() or (root / SEEDING).exists():
        return True
    holds_shipped = (root / shipped.name).is_dir() and (root / shipped.name).samefile(shipped)
    if holds_shipped and not (root / SEEDED).exists():
        return True
    own = (name for name in os.listdir(root) if not name.startswith("."))
    return not any(name != shipped.name or not holds_shipped for name in own)


def _copy(source: Path, target: Path) -> None:
    if not os.path.lexists(target):
        make_folder(target.parent)
        replace_file(target, source.read_bytes(), str(target))
