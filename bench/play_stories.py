"""The stories that ``bench play`` plays: who is in them, and the player's lines."""

from __future__ import annotations

from dataclasses import dataclass

from personalab.story.records import Background, Character, Instructions, OutlinePoint
from personalab.texts import Language


@dataclass(frozen=True, slots=True)
class Story:
    """A story with a fixed script for the player."""

    name: str
    language: Language
    character_id: str
    background_id: str
    lines: tuple[str, ...]
    character: Character | None = None
    background: Background | None = None
    """Both are ``None`` where the shipped sample is used."""


WASTELAND = Story(
    "wasteland",
    "zh",
    "char_alserqi",
    "bg_wasteland",
    (
        "你就是Alserqi？有人托我把这封信交给你，说只能当面给。",
        "送信的人我没看清脸，只记得他左边袖口烧焦了一块。",
        "信封上画着一只断翅的鸟。这个记号你认识吗？",
        "你的手在抖。伤口是不是又裂开了？",
        "别急着赶我走。我在北门外看见过Victor的人，他们在搬油桶。",
        "一共六个人，每天黄昏换岗，那时候北门只剩一个守卫。",
        "如果我带你走排水渠，能直接到炼油厂的后墙。你敢不敢去？",
        "进去之前你得告诉我，你到底想杀了他，还是想问他为什么？",
        "（压低声音）前面有手电筒的光。我们现在怎么办？",
        "我捡到了他们的值班表，上面有你父亲的名字。这是怎么回事？",
        "那块怀表为什么一直停在三点十七分？",
        "天快亮了。你相信我吗？",
    ),
)
LIGHTHOUSE = Story(
    "lighthouse",
    "en",
    "char_maren",
    "bg_lighthouse",
    (
        "Good morning. I'm the surveyor from the Lights Board. I believe you were told I was coming?",
        "The sea was worse than the boatman promised. Where can I put my suitcase?",
        "You've kept this place very neat. How long have you been alone here?",
        "I have to list everything for the report. May I see the lamp room?",
        "There's a gap on the second shelf. Which year is missing?",
        "I read about a ferry, the Ansgar. Did you know anyone on board?",
        "I'm sorry. I shouldn't have asked like that. Let me help you with the lamp oil.",
        "(looks out of the window) Did you see that? A light, out past the reef.",
        "It blinked twice and then went dark. Have you ever seen that before?",
        "If the missing log turned up, would you want to read it?",
        "Were you on watch the night the lamps went out?",
        "What should I write in my report, Maren?",
    ),
)
NIGHT_SHOP = Story(
    "night_shop",
    "zh",
    "char_linwan",
    "bg_night_shop",
    (
        "还是老样子，一杯热美式。今晚怎么就你一个人？",
        "外面雨下得真大，我的伞被风吹坏了。",
        "你刚才一直盯着门口看，在等谁吗？",
        "这把钥匙是你的？我在关东煮的柜子后面捡到的。",
        "304号柜……是火车站的寄存柜吧？",
        "你弟弟离家之前，有没有跟你说过什么？",
        "那张车票上写的是哪一天？",
        "（把咖啡推到一边）走吧，店先关一会儿，我陪你去车站。",
        "柜子打开了，里面有一台旧相机。你要看看照片吗？",
        "最后一张照片里的人，是你们店长。",
        "你打算直接去问他吗？",
        "不管你怎么决定，我都在。你想让我做什么？",
    ),
    Character(
        "char_linwan",
        "林晚",
        "林晚，二十六岁，江城一家二十四小时便利店的夜班店员。话不多，爱用吐槽掩饰关心，记得每个熟客的口味。"
        "三年前弟弟林晨和她大吵一架后离家，再也没有消息。她一直上夜班，因为弟弟最后一次出现就是在这家店的监控里。"
        "她习惯一边擦柜台一边说话，紧张的时候会反复整理收银台上的口香糖。",
        "zh",
        instructions=Instructions(
            example_dialogue=(
                "<START>\n{{user}}：有没有不辣的泡面？\n"
                "{{char}}：（从最下层抽出一桶，在手里掂了掂）番茄的，放了两个月没人要。你胃不好就别硬撑。\n"
                "<START>\n{{user}}：你们店几点关门？\n"
                "{{char}}：（抬眼看了看门上的“24小时”）你认字吧？……开玩笑的。外面冷，进来站会儿再走。"
            )
        ),
    ),
    Background(
        "bg_night_shop",
        "雨夜便利店",
        "现代江城，连下了一周的雨。街角的便利店凌晨两点还亮着灯，对面是快要拆掉的老火车站。玩家是常在深夜来买咖啡的熟客，"
        "住在隔壁楼。店长老周最近总是提前下班，监控室的门换了新锁。",
        (
            OutlinePoint(1, "捡到一把寄存柜的钥匙"),
            OutlinePoint(2, "得知林晚弟弟失踪的经过"),
            OutlinePoint(3, "去老火车站打开寄存柜"),
            OutlinePoint(4, "决定怎样面对店长老周"),
        ),
    ),
)
SWORD_INN = Story(
    "sword_inn",
    "zh",
    "char_suqing",
    "bg_sword_inn",
    (
        "店家，还有空房吗？我赶了三天的路。",
        "你背上那把剑的剑穗，我在师父的画像里见过。",
        "别误会，我不是来寻仇的。",
        "外面马蹄声越来越近了，是冲你来的？",
        "他们要的是半张地图。另外半张在我这里。",
        "要不要赌一把？你信我，我就把地图给你看。",
    ),
    Character(
        "char_suqing",
        "苏青",
        "苏青，江湖人称“断水剑”，三十岁，隐姓埋名在边关开了一家小客栈。左眼有旧伤，怕强光。嘴硬心软，恨别人提起师门，"
        "每晚都要把剑擦一遍。七年前师门被灭，她是唯一活下来的人，一直怀疑是自己带回去的那封信引来了仇家。",
        "zh",
    ),
    Background(
        "bg_sword_inn",
        "边关客栈",
        "大雪封山的边关小镇，客栈里只剩三两个客人。朝廷和江湖都在找一张旧地图。玩家是独自赶路的年轻镖师。",
        (
            OutlinePoint(1, "认出苏青的身份"),
            OutlinePoint(2, "追兵包围客栈"),
            OutlinePoint(3, "拼合两半地图"),
        ),
    ),
)
SALVAGE = Story(
    "salvage",
    "en",
    "char_okafor",
    "bg_salvage",
    (
        "Captain, the hull scan came back. That wreck isn't on any chart.",
        "How long do we have before the corporate patrol gets here?",
        "I could go over alone and cut the vault open. Two hours, maybe less.",
        "Why did you go quiet when I read out the name of the ship?",
        "There's a heartbeat on the thermal. Somebody is alive in there.",
        "Tell me what you want to do, and be honest for once.",
    ),
    Character(
        "char_okafor",
        "Okafor",
        "Ada Okafor, forty-four, captain and owner of the salvage tug Patience. Blunt, superstitious, owes money in "
        "three ports. She chews liquorice root when she thinks, never swears in front of her crew, and keeps a list of "
        "every ship she has taken apart. Nine years ago she left a crewmate behind on the survey ship Halcyon and told "
        "nobody.",
        "en",
    ),
    Background(
        "bg_salvage",
        "The Halcyon wreck",
        "The outer belt, a century from now. Salvage crews live from wreck to wreck under the eyes of the corporate "
        "patrol. The player is the tug's young cutter, six weeks into the first contract.",
        (
            OutlinePoint(1, "Identify the wreck"),
            OutlinePoint(2, "Board it before the patrol arrives"),
            OutlinePoint(3, "Learn what the captain did nine years ago"),
        ),
    ),
)

STORIES = {story.name: story for story in (WASTELAND, LIGHTHOUSE, NIGHT_SHOP)}
"""The measured stories."""
UNSEEN = {story.name: story for story in (SWORD_INN, SALVAGE)}
"""Stories that the prompts were not tuned on."""
