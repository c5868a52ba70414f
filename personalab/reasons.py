"""How does a technical reason read inside a Chinese sentence?

Reasons are worded in English where they come up, some of them for a model to act on. These are the ones a person meets.
"""

from __future__ import annotations

import re

_WORDED: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"it is not an object", "它不是 JSON 对象"),
        (r"it is not a list", "它不是列表"),
        (r"it is not a text", "它不是文本"),
        (r"it is not a UUID", "它不是 UUID"),
        (r"it is not a whole number", "它不是整数"),
        (r"it is not a time in ISO 8601", "它不是 ISO 8601 格式的时间"),
        (r"it is none of (.+)", r"应为其中之一：\1"),
        (r"it has control or invisible characters", "它含有控制字符或不可见的字符"),
        (r"not all are whole numbers", "其中有的不是整数"),
        (r"not all entries are texts", "其中有的不是文本"),
        (r"there is no JSON in the answer", "回答里没有 JSON"),
        (r"the JSON cannot be read: (.+)", r"JSON 无法解析（\1）"),
        (r"the JSON is not an object", "JSON 不是对象"),
        (r'the JSON has no list "(\w+)"', r"JSON 里没有列表 “\1”"),
        (r"the list of points is empty", "情节点列表是空的"),
        (r"there are (\d+) (?:points|facts|operations|changes), more than (\d+)", r"共有 \1 条，超过 \2 条"),
        (
            r"(.+?) is not written in the (?:story's|conversation's) language \((\w+)\)",
            r"\1 用的语言不对（应为 \2）",
        ),
        (r"no source message", "没有依据的消息"),
        (r"No such file or directory", "没有这个文件或目录"),
        (r"Permission denied", "没有权限"),
        (r"Is a directory", "是一个目录"),
    )
)


def in_chinese(reason: str) -> str:
    """Word a reason in Chinese, as far as it is one of those."""
    for pattern, words in _WORDED:
        if found := pattern.fullmatch(reason):
            return found.expand(words)
    return reason
