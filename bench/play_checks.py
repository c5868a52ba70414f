"""Faults of a role-play reply that can be found without a judge."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from personalab.texts import Language

SIMILAR = 0.8
"""Two replies are near-identical when so much of their letters and digits agrees (``difflib`` ratio)."""
_SHORTEST_SIMILAR = 8
_COPIED: dict[Language, int] = {"zh": 12, "en": 40}
"""Characters in a row."""
_MARKER = re.compile(r"\[PROGRESS:(\d{1,9}):(completed|in_progress|pending)\]")
_ANY_MARKER = re.compile(r"\[\s*PROGRESS[^\]\n]{0,40}\]?", re.IGNORECASE)
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
_HAN_RUN = re.compile("[\u3400-\u9fff\uf900-\ufaff]{5}")
_LATIN_RUN = re.compile(r"(?:[A-Za-z'’]+[ ,.;:!?-]+){5}[A-Za-z]")
_NOT_LETTERS = re.compile(r"[\W_]+")

_PHRASES: dict[Language, tuple[str, ...]] = {
    "zh": (
        r"好的[，,。！!]\s*(?:[\w·]{1,12}[，,]\s*)?(?:我(?:明白|知道|了解|会|将|来)|让我|以下|下面|请)",
        r"(?:抱歉|对不起)[，,]?\s*(?:但)?我(?:无法|不能)(?:满足|提供|继续|完成|协助|回答|帮)",
        r"我(?:可以|能|会|来)帮助?(?:你|您)(?:完成|解决|处理|解答|分析|理解)",
        r"作为(?:一个|一名|一款)?\s*(?:AI|人工智能|语言模型|虚拟|聊天|助手)",
        r"人工智能(?:助手|模型|程序)|语言模型|虚拟助手|聊天机器人",
        r"请(?:继续|接着)(?:描述|提供|讲述|说明|您的|你的|提问|[。！!]|$)",
        r"有什么(?:我)?(?:可以|能|需要我?)(?:为您|为你|帮|协助)",
        r"(?:我|很)?(?:可以|能|乐意|高兴)(?:为您|帮您|协助您)|为您(?:提供|服务|解答)",
        r"很高兴(?:能)?(?:为|帮|见到您|认识您|与您)",
        r"如果[您你](?:还)?有(?:任何|其他|什么|更多|具体)的?(?:问题|疑问|需要|需求|想法|信息|要求)",
        r"(?:请|欢迎)随时(?:告诉|提问|联系|提出|向我)",
        r"请(?:您|你)?(?:告诉|提供)(?:我)?更多(?:的)?(?:信息|细节|内容|背景)",
        r"希望(?:这|以上|我的)[^。\n]{0,12}(?:帮助|帮到|满意)",
        r"以下是[^。\n]{0,12}(?:回复|回应|回答|对话|剧情|故事)",
        r"感谢[您你]的?(?:提问|分享|理解|反馈|耐心|支持|提供|信任|合作|配合)",
        r"根据[您你](?:提供)?的(?:要求|指令|描述|设定|请求)",
        r"角色扮演|故事大纲|剧情(?:点|推进|发展)|大纲第",
        r"我(?:会|将)(?:尽力|尽我所能|竭尽全力)(?:帮|协助|为您|提供|回答|满足)",
    ),
    "en": (
        r"\bas an? (?:AI|artificial|language model|assistant)\b",
        r"\bI(?:'m|’m| am) (?:just |only )?an? (?:AI|artificial intelligence|assistant)\b",
        r"\bI(?:'m|’m| am)? ?(?:cannot|can't|can’t|unable to|not able to) (?:fulfil|fulfill|assist with|help with|"
        r"comply|provide|continue with|engage)\b",
        r"\b(?:language model|virtual assistant|chatbot)\b",
        r"\bhow (?:can|may) I (?:assist|help|be of)\b",
        r"\bI(?:'m|’m| am) here to (?:help|assist|support|listen|answer)\b",
        r"\b(?:is there )?anything else (?:I can|you(?:'d| would) like|you need)\b",
        r"\b(?:please )?feel free to\b",
        r"\b(?:I(?:'d|’d| would) be|I(?:'m|’m| am)) (?:happy|glad|delighted) to (?:help|assist|answer|hear|provide)\b",
        r"\bplease (?:provide|share|continue (?:with|describing|your)|let me know)\b",
        r"\blet me know if\b",
        r"\bthank you for (?:sharing|reaching out|providing|asking|the information|your (?:question|patience|"
        r"understanding|feedback|time|request|message|interest|concern))",
        r"\bgreat question\b",
        r"\brole[- ]?play|\bstory outline\b|\bthe outline\b|\bplot point\b",
        r"\bhere(?:'s|’s| is) (?:my|a|the|your) (?:response|reply|continuation|summary|story)\b",
        r"\bI hope (?:this|that) helps\b",
        r"\b(?:certainly|sure|absolutely)[!,] (?:here|I (?:can|will|'ll)|let(?:'s| me)|how)",
        r"\bI understand (?:your|that you|the)\b[^.\n]{0,60}(?:request|concern|question|interest)",
        r"\bI(?:'m|’m| am) sorry, but I (?:can't|cannot|can’t)\b",
        r"\bsorry, I (?:can't|cannot|can’t) (?:proceed|continue|assist|help|answer|provide|discuss|engage)\b",
    ),
}
_PLAYERS: dict[Language, tuple[str, ...]] = {
    "zh": ("玩家", "用户", "User", "Human", "你", "你说", "你问", "你答"),
    "en": ("User", "Player", "The player", "Human", "You", "You say", "You ask"),
}
_YOU_ACT: dict[Language, str] = {
    "zh": "你(?:接|拿|点|走|转|看|站|坐|抬|低|伸|握|摇|笑|沉默|犹豫|深吸|皱)",
    "en": r"You (?:nod|take|look|step|turn|shake|smile|walk|reach|hesitate|pause|sigh|follow|stand|sit)",
}
"""How the player's actions begin, where a model writes them."""
_YOU_SAY: dict[Language, re.Pattern[str]] = {
    "zh": re.compile(r"[”」\"][，,]?\s*你(?:说|问|答|回答|喊|低声)[^\n]{0,20}|你(?:说道|问道|答道|回答道)"),
    "en": re.compile(
        r"[”\"],?\s+you (?:say|ask|reply|answer|whisper)\b|\byou (?:say|reply|answer), [“\"]", re.IGNORECASE
    ),
}
_THOUGHTS = re.compile(
    r"</?think(?:ing)?>|<\|?(?:reasoning|analysis|channel)\|?>|^\s*(?:思考|思路|推理|Thought|Reasoning)\s*[:：]"
    r"|^\s*(?:(?:okay|ok|alright|hmm|so|first),?\s*){0,2}(?:the|this) user (?:says|said|is|wants|asked|asks|has)\b"
    r"|^\s*(?:好的?|嗯|首先)?[，,]?\s*用户(?:说|问|想|要|正在|希望|提到)",
    re.IGNORECASE | re.MULTILINE,
)


def without_markers(reply: str) -> str:
    """Take the progress markers out of a reply, well-formed or not."""
    return _ANY_MARKER.sub("", reply).strip()


def markers(reply: str) -> list[tuple[int, str]]:
    """List the well-formed markers: the number of the point and the status."""
    return [(int(number), status) for number, status in _MARKER.findall(reply)]


def is_marker_only(reply: str) -> bool:
    """Return whether a reply says nothing but a marker; a blank one does not either."""
    return not _NOT_LETTERS.sub("", without_markers(reply))


def is_wrong_language(reply: str, language: Language, names: Sequence[str] = ()) -> bool:
    """Return whether most of a reply, or a sentence of it, is in the other language; names are in any."""
    text = without_markers(reply)
    for name in names:
        text = text.replace(name, " ")
    han = len(_HAN.findall(text))
    letters = sum(character.isalpha() for character in text)
    if not letters:
        return False
    if language == "zh":
        return han * 2 < letters or _LATIN_RUN.search(text) is not None
    return han * 4 > letters or _HAN_RUN.search(text) is not None


def assistant_phrases(reply: str, language: Language) -> list[str]:
    """List the phrases of an assistant, or of someone who talks about the role-play."""
    found = (re.search(pattern, reply, re.IGNORECASE) for pattern in _PHRASES[language])
    return [match[0] for match in found if match]


def player_lines(reply: str, language: Language, names: Sequence[str] = ()) -> list[str]:
    """List the lines written for the player: a name and a colon, who acts in brackets, or "…" with "you say"."""
    known = "|".join(map(re.escape, sorted({*_PLAYERS[language], *names}, key=len, reverse=True)))
    speech = re.compile(
        rf"^[\s>*_“\"「（(\[【]*(?:{known})[*_\]】）)]*\s*(?:[（(][^）)\n]{{0,40}}[）)])?[*_\s]*[:：].*$",
        re.MULTILINE | re.IGNORECASE,
    )
    actors = "|".join(
        map(re.escape, sorted({"玩家", "用户", "User", "The player", *names}, key=len, reverse=True))
    )
    action = re.compile(rf"[（(*]\s*(?:{actors}|{_YOU_ACT[language]})(?![A-Za-z])[^）)*\n]{{1,80}}[）)*]")
    label = re.compile(rf"^\s*[（(\[【](?:{known})[）)\]】].*$", re.MULTILINE | re.IGNORECASE)
    patterns = (speech, label, action, _YOU_SAY[language])
    return [match[0].strip() for pattern in patterns for match in pattern.finditer(reply)]


def thought_leaks(reply: str) -> list[str]:
    """List what belongs to a model's reasoning and not to its reply."""
    return [match[0].strip() for match in _THOUGHTS.finditer(reply)]


def is_repeated(reply: str, earlier: Sequence[str], threshold: float = SIMILAR) -> bool:
    """Return whether a reply is the same as an earlier one, or nearly; markers and punctuation do not count."""
    said = _bare(reply)
    if not said:
        return False
    for other in map(_bare, earlier):
        if said == other:
            return True
        if min(len(said), len(other)) < _SHORTEST_SIMILAR:
            continue
        matcher = SequenceMatcher(None, said, other, autojunk=False)
        if matcher.real_quick_ratio() >= threshold and matcher.ratio() >= threshold:
            return True
    return False


def is_copied(reply: str, instructions: str, language: Language) -> bool:
    """Return whether a reply repeats a long run of the prompt's instructions."""
    matcher = SequenceMatcher(None, reply, instructions, autojunk=False)
    return matcher.find_longest_match().size >= _COPIED[language]


def has_action(reply: str) -> bool:
    """Return whether a reply shows an action or expression in brackets or asterisks."""
    return re.search(r"（[^）\n]+）|\([^)\n]+\)|\*[^*\n]+\*", reply) is not None


def _bare(reply: str) -> str:
    return _NOT_LETTERS.sub("", without_markers(reply)).casefold()
