"""How is a message said to someone who looks at a page and types no commands?

What only the terminal can do is still named by its command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from personalab.texts import Language, Text

_ID = r"[\w{}-]+"
_PLACES = {
    f"stop {_ID}": Text("“⏹ 停止”", "“⏹ Stop”"),
    f"summarize {_ID} --undo": Text("“📝 汇总”", "“📝 Sum up”"),
    f"memory (?:list|conversations(?: AGENT| 角色)?|(?:get|history|undo) {_ID})": Text(
        "“记忆”页", "the memory page"
    ),
    "library": Text("故事库", "the library"),
    "new": Text("“新故事”", "“New story”"),
    "switch-background": Text("对话的 ⋯ 菜单", "the ⋯ menu of its chat"),
    "settings reset": Text("“恢复默认”", "“Restore defaults”"),
    "lab (?:skills|baselines|projects)": Text("实验室", "the lab"),
    "lab run --rerun-failed": Text("“重跑失败项”", "“Run failed ones again”"),
    "lab run": Text("“运行”", "“Run”"),
    "lab iterate": Text("“迭代”", "“Search”"),
    "lab analyse": Text("“分析优势”", "“Find out why”"),
    "lab pause": Text("“暂停”", "“Pause”"),
}
"""Commands, and where a page does the same."""
_COMMANDS = [(re.compile(rf"personalab {command}\b(?! --)"), place) for command, place in _PLACES.items()]


def for_page(message: str, language: Language) -> str:
    """Name places of the page where a message names the terminal's commands."""
    if "personalab " in message:
        for command, place in _COMMANDS:
            message = command.sub(place.zh if language == "zh" else place.en, message)
    return message


def told_on_page(event: Mapping[str, Any], language: Language) -> dict[str, Any]:
    """Word what an event says to people."""
    said = {name: event[name] for name in ("message", "suggestion") if isinstance(event.get(name), str)}
    return {**event, **{name: for_page(text, language) for name, text in said.items()}}
