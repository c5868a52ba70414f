"""The sentences from which the rehearsal stand-in composes its replies."""

from __future__ import annotations

from dataclasses import dataclass

from personalab.texts import PromptLanguage


@dataclass(frozen=True, slots=True)
class Lines:
    """The sentences of one language; each tuple holds variants of one moment."""

    announcement: str
    prefix: str
    joint: str
    nobody: str
    gestures: tuple[str, ...]
    to_questions: tuple[str, ...]
    to_statements: tuple[str, ...]
    silences: tuple[str, ...]
    recollections: tuple[str, ...]
    outlooks: tuple[str, ...]
    """The next point lies ahead."""
    beginnings: tuple[str, ...]
    """The point begins now."""
    struggles: tuple[str, ...]
    """The point is under way."""
    resolutions: tuple[str, ...]
    """The point comes to its end now."""
    endings: tuple[str, ...]
    """Every point lies behind."""
    closings: tuple[str, ...]


_ZH = Lines(
    announcement=(
        "（这是排练替身，不是真正的模型：它按固定规则应答，只供试用。"
        "设置 OPENAI_API_KEY 或 OPENAI_BASE_URL，"
        "再用 PERSONALAB_MODEL=openai:模型名 选定模型，就会由它来演。）\n\n"
    ),
    prefix="（排练）",
    joint="",
    nobody="他",
    gestures=(
        "（{name}抬起头，目光在你脸上停了一会儿）",
        "（{name}没有立刻回答，只是把外套的领子拢紧）",
        "（{name}往火里添了一根柴，火星飘起来又落下）",
        "（{name}靠着墙，手指一下一下敲着膝盖）",
        "（{name}回头看了一眼来路，才转向你）",
        "（{name}嘴角动了动，像是想笑，又忍住了）",
    ),
    to_questions=(
        "“{quote}”……这个问题我也问过自己。答案是：走下去才知道。",
        "你问“{quote}”？好，我不瞒你，可有些话只能说一半。",
        "“{quote}”——问得好。换作以前，我会说谎。",
        "你总问在点子上。“{quote}”，容我想一想再答你。",
        "“{quote}”？我心里有数，只是还差一个印证。",
    ),
    to_statements=(
        "“{quote}”，你这句话我听进去了。",
        "你说“{quote}”的时候，声音比你自己以为的要稳。",
        "“{quote}”……好，就照你说的，我们试一次。",
        "我记下了：“{quote}”。以后别怪我拿这句话提醒你。",
        "“{quote}”，也许吧。至少现在，我愿意信你。",
    ),
    silences=("你不说话，我也听得出你在想什么。", "沉默也是一种回答。"),
    recollections=(
        "我没有忘。“{event}”，那时的事我一直放在心上。",
        "你一提，我就想起来了：{event}。",
        "我们之间有过这么一段：{event}。这笔账我记着。",
    ),
    outlooks=(
        "前面等着我们的，是“{point}”，但还不到时候。",
        "我闻得到风里的味道，“{point}”就快来了。",
        "先把眼下的事做完，再说“{point}”。",
    ),
    beginnings=(
        "时候到了，“{point}”，就从这一步开始。",
        "走吧。从现在起，我们要面对的是“{point}”。",
        "门已经开了一条缝，后面就是“{point}”。",
    ),
    struggles=(
        "“{point}”还没有完，每一步都得踩实。",
        "我们正走在“{point}”的半路上，别回头。",
        "“{point}”比我想的更难，可也更近了。",
    ),
    resolutions=(
        "结束了。“{point}”，到这里算是有了交代。",
        "我长出一口气：“{point}”，我们做到了。",
        "尘埃落下来，“{point}”已经是身后的事。",
    ),
    endings=(
        "该走的路都走完了，“{point}”之后，剩下的是我们自己的日子。",
        "故事写到这里，“{point}”已成往事。",
    ),
    closings=(
        "你打算怎么做？",
        "跟紧我，别出声。",
        "说吧，下一步听你的。",
        "天快亮了，我们没有多少时间。",
        "……你还在听，对吧？",
    ),
)

_EN = Lines(
    announcement=(
        "(This is a rehearsal stand-in, not a real model: it answers by fixed rules, for trying things out. "
        "Set OPENAI_API_KEY or OPENAI_BASE_URL, and choose a model with PERSONALAB_MODEL=openai:NAME, "
        "to have one play the part.)\n\n"
    ),
    prefix="(rehearsal) ",
    joint=" ",
    nobody="The stranger",
    gestures=(
        "*{name} looks up and holds your gaze for a moment.*",
        "*{name} says nothing at first, and pulls the collar tighter.*",
        "*{name} feeds a stick to the fire; sparks rise and fade.*",
        "*{name} leans on the wall, one finger tapping a slow beat.*",
        "*{name} glances back along the road before turning to you.*",
        "*The corner of {name}'s mouth moves, almost a smile.*",
    ),
    to_questions=(
        '"{quote}" I have asked myself the same. We will know when we get there.',
        'You ask "{quote}" Fair enough; I can tell you half of it.',
        '"{quote}" A good question. There was a time I would have lied to you.',
        'Always the right question: "{quote}" Give me a moment before I answer.',
        '"{quote}" I have a guess, and I lack one proof.',
    ),
    to_statements=(
        '"{quote}" I heard that, and I will not forget it.',
        'When you say "{quote}", your voice is steadier than you think.',
        '"{quote}" All right. We try it your way, once.',
        'Then let it stand: "{quote}" Do not blame me when I remind you of it.',
        '"{quote}" Perhaps. For now I choose to believe you.',
    ),
    silences=("You say nothing, and still I hear it.", "Silence is an answer too."),
    recollections=(
        "I have not forgotten: {event}.",
        "Now that you speak of it, it comes back to me: {event}.",
        "We share this much, you and I: {event}.",
    ),
    outlooks=(
        'What waits ahead of us is this: "{point}". Not yet, though.',
        'I can smell it on the wind; "{point}" is close.',
        'First what is before us, then "{point}".',
    ),
    beginnings=(
        'It is time. "{point}": it begins with this step.',
        'Come. From here on, what we face is "{point}".',
        'The door stands ajar, and behind it: "{point}".',
    ),
    struggles=(
        '"{point}" is not done yet; every step has to hold.',
        'We are halfway through "{point}". Do not look back.',
        '"{point}" is harder than I thought, and nearer.',
    ),
    resolutions=(
        'It is over. "{point}": that account is settled.',
        'I let out a long breath. "{point}", and we did it.',
        'The dust comes down, and "{point}" lies behind us.',
    ),
    endings=(
        'Every road is walked; after "{point}", what is left is our own days.',
        'The story has told its last point, "{point}", and still we sit here.',
    ),
    closings=(
        "What will you do?",
        "Stay close, and keep quiet.",
        "Say the word; the next step is yours.",
        "It will be light soon. We have little time.",
        "You are still listening, are you not?",
    ),
)

LINES: dict[PromptLanguage, Lines] = {"zh": _ZH, "en": _EN}
