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
        (r"(.+) is no name of a file", r"\1 不能用作文件名"),
        (r"it is no name of a file", "它不能用作文件名"),
        (r"it is not an id", "它不能用作 ID"),
        (r"it is not a whole number", "它不是整数"),
        (r"it is not a time in ISO 8601", "它不是 ISO 8601 格式的时间"),
        (r"it is not a number of 0 or more", "它不是大于等于 0 的数"),
        (r"it is not a JSON text", "它不是 JSON 文本"),
        (r"it is not JSON", "它不能写成 JSON"),
        (r"it is a field of the record itself", "它是记录自己的字段"),
        (r"it has not 1 to (\d+) calls", r"其中的调用应有 1 到 \1 个"),
        (r"another record has the same", "另一条记录有同样的值"),
        (r"there is no such session", "没有这个会话"),
        (r"there is no such entry", "没有这条消息"),
        (r"it is no regular file", "它不是普通文件"),
        (r"it is no Veloca archive: .+", "它不是 Veloca 存档"),
        (r"it is blank", "它是空的"),
        (r"it is none of (.+)", r"应为其中之一：\1"),
        (r"it has control or invisible characters", "它含有控制字符或不可见的字符"),
        (r"it is missing or blank", "它缺失或是空白"),
        (r"it has (\d+) characters, more than (\d+)", r"它有 \1 个字符，超过 \2 个"),
        (r"it has (\d+) entries, more than (\d+)", r"它有 \1 项，超过 \2 项"),
        (r"it is not base64", "它不是 base64"),
        (r"it cannot be unpacked", "它无法解压"),
        (r"its checksum does not match", "校验和不符"),
        (r"its name leads out of the archive", "它的名称指向压缩包之外"),
        (r"it is there twice", "它出现了两次"),
        (r"it is encrypted", "它已加密"),
        (r"it is packed in a way that is not supported", "它的压缩方式不受支持"),
        (r"it unpacks to more than (\d+) times its size", r"它解压后超过自身大小的 \1 倍"),
        (r"it overlaps another part", "它与别的部分重叠"),
        (r"it is cut off", "它不完整"),
        (r"not all are whole numbers", "其中有的不是整数"),
        (r"it is not a number", "它不是数字"),
        (r"it is not true or false", "它应为 true 或 false"),
        (r"the field (\S+) is wrong: it is not an? ([\w ]+)", r"字段 \1 应为 \2"),
        (r"the field (\S+) is wrong: (.+)", r"字段 \1 不对（\2）"),
        (r"it is not JSON: (.+)", r"它不是 JSON（\1）"),
        (r"it is not UTF-8 text \(byte (\d+)\)", r"它不是 UTF-8 文本（第 \1 字节）"),
        (r"it has (\d+) bytes, the limit is (\d+)", r"它有 \1 字节，上限是 \2"),
        (r"it has (\d+) (?:entries|keys), more than (\d+)", r"它有 \1 项，超过上限 \2"),
        (r"not all entries are texts", "其中有的不是文本"),
        (r"there is no JSON in the answer", "回答里没有 JSON"),
        (r"the JSON cannot be read: (.+)", r"JSON 无法解析（\1）"),
        (r"the JSON is not an object", "JSON 不是对象"),
        (r'the JSON has no list "(\w+)"', r"JSON 里没有列表 “\1”"),
        (r"the list of points is empty", "情节点列表是空的"),
        (r"there are (\d+) (?:points|facts|operations|changes), more than (\d+)", r"共有 \1 条，超过 \2 条"),
        (r"the summary is blank or missing", "没有给出摘要"),
        (r"the summary has (\d+) characters, more than (\d+)", r"摘要有 \1 个字符，超过 \2 个"),
        (r"it refuses instead of summing up", "它拒绝总结"),
        (
            r"the summary is not written in the conversation's language \((\w+)\)",
            r"摘要用的语言不对（应为 \1）",
        ),
        (
            r"(.+?) is not written in the (?:story's|conversation's) language \((\w+)\)",
            r"\1 用的语言不对（应为 \2）",
        ),
        (r"no source message", "没有依据的消息"),
        (r"No such file or directory", "没有这个文件或目录"),
        (r"Permission denied", "没有权限"),
        (r"Is a directory", "是一个目录"),
        (r"it is not a plain file", "它不是普通文件"),
        (
            r"it looks like a chat of Agnai or the like, .+",
            "看起来是 Agnai 等程序的聊天记录，不能读取；可以读取 SillyTavern 聊天（JSONL）",
        ),
        (r"it looks like an Agnai character, .+", "看起来是 Agnai 角色，不能读取；请在那里导出为 V2 角色卡"),
        (
            r"it looks like an? (Agnai|NovelAI|RisuAI) (?:memory book|lorebook), .+",
            r"看起来是 \1 的世界书，不能读取；请转成 SillyTavern World Info 再导入",
        ),
        (r"it looks like a (\w+) picture", r"看起来是 \1 图片"),
        (r"it looks like a PDF document", "看起来是 PDF 文档"),
        (r"it looks like a (\w+) archive", r"看起来是 \1 压缩包"),
        (r"it looks like a SQLite database", "看起来是 SQLite 数据库"),
        (r"it looks like UTF-16 text", "看起来是 UTF-16 编码的文本，请另存为 UTF-8"),
        (r"it looks like a file of blanks", "里面只有空白"),
        (r"it looks like binary data", "看起来是二进制数据"),
        (r"it looks like plain text", "看起来是普通文本"),
        (r"it holds a list of JSON values", "里面是一个 JSON 列表"),
        (r"it holds a single JSON value", "里面只是一个 JSON 值"),
        (r"it holds several JSON values", "里面有好几个 JSON 值"),
        (r"its fields are (.+)", r"它的字段是 \1"),
    )
)


def in_chinese(reason: str) -> str:
    """Word a reason in Chinese, as far as it is one of those."""
    for pattern, words in _WORDED:
        if found := pattern.fullmatch(reason):
            return found.expand(words)
    return reason
