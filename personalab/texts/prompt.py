"""Texts about the sections of a prompt and why each is in it."""

from __future__ import annotations

from personalab.texts.forms import Text

PROMPT: dict[str, Text] = {
    # --- the sections' names
    "section.system_prompt": Text("扮演指令", "Role instruction"),
    "section.lorebook_before_char": Text("世界书（角色之前）", "Lorebooks, before the character"),
    "section.base_persona": Text("角色初始人格", "Who the character was made as"),
    "section.evolved_persona": Text("角色成长人格", "Who the character has become"),
    "section.lorebook_after_char": Text("世界书（角色之后）", "Lorebooks, after the character"),
    "section.player_memory": Text("对玩家的了解", "What is known about the player"),
    "section.background": Text("背景设定", "The world"),
    "section.story_outline": Text("故事大纲", "The outline"),
    "section.progress_instruction": Text("进度引导指令", "How progress is marked"),
    "section.example_dialogue": Text("对话示例", "Example dialogue"),
    "section.director_reminder": Text("导演提醒", "The director's reminder"),
    "section.recalled_events": Text("历史事件回忆", "Recalled events"),
    "section.conversation": Text("当前会话对话", "The conversation"),
    "section.post_history_instructions": Text("结尾提醒", "Closing reminder"),
    # --- why one is in, or left out
    "why.unread": Text("读不出来；见上面的警示", "It could not be read; see the warning above"),
    "why.template": Text("来自模板 {name}.txt", "From the template {name}.txt"),
    "why.system_prompt": Text(
        "角色卡自带的指令，放在最前面", "The character's own instruction; it comes first"
    ),
    "why.no_system_prompt": Text(
        "角色卡没有写，模板也是空的", "Neither the character nor the template has any"
    ),
    "why.base_persona": Text("总是放入，永不改变", "Always in; it never changes"),
    "why.no_base_persona": Text("角色没有初始人格", "The character has no persona"),
    "why.evolved_persona": Text(
        "角色成长到了第 {revision} 版", "The character has grown to revision {revision}"
    ),
    "why.evolved_by_hand": Text("写在角色状态里", "It stands in the character's state"),
    "why.no_evolved_persona": Text(
        "角色还没有成长；用“🧠 更新记忆”让它成长",
        "The character has not grown yet; “🧠 Update memory” lets it",
    ),
    "why.lore": Text("有 {count} 个条目被唤起", "{count} entries were called up"),
    "why.lore_off": Text("世界书已关闭", "Lorebooks are switched off"),
    "why.no_lore": Text("最近的消息没有唤起条目", "The newest messages call up no entry here"),
    "why.player_memory": Text(
        "角色记得玩家的事；最多 {limit} tokens", "The character remembers the player; at most {limit} tokens"
    ),
    "why.memory_off": Text("对玩家的记忆已关闭", "Memory of the player is switched off"),
    "why.no_player_memory": Text("角色对玩家还一无所知", "The character knows nothing about the player yet"),
    "why.background": Text("这个故事的背景", "It is this story's background"),
    "why.no_background": Text("这个故事没有背景设定", "This story has no world"),
    "why.outline": Text(
        "导演已开启；故事在第 {index} 点，共 {count} 点",
        "The director is on; the story is at point {index} of {count}",
    ),
    "why.director_off": Text("导演已关闭", "The director is switched off"),
    "why.no_outline": Text("背景没有故事大纲", "The background has no outline"),
    "why.instruction": Text("有大纲时总是放入", "Always in where there is an outline"),
    "why.reminder": Text(
        "已有 {count} 轮没有推进（阈值 {threshold}）",
        "{count} turns went by without progress (the threshold is {threshold})",
    ),
    "why.no_reminder": Text(
        "只有 {count} 轮没有推进，未达到阈值 {threshold}",
        "Only {count} turns without progress; the threshold is {threshold}",
    ),
    "why.recall_asked": Text("这句话问起了过去：{words}", "What is said asks for the past: {words}"),
    "why.recall_always": Text("设置为每轮都回忆", "The past is set to be looked up in every turn"),
    "why.recall_sure": Text(
        "没有问起过去，但找到的事件很可能正是所指",
        "It does not ask for the past, but what was found is surely meant",
    ),
    "why.recall_off": Text("回忆已关闭", "Recall is switched off"),
    "why.recall_unasked": Text("这句话没有问起过去", "What is said does not ask for the past"),
    "why.recall_unsure": Text(
        "没有问起过去，也没有足够确定的事件",
        "It does not ask for the past, and nothing that was found is sure enough",
    ),
    "why.recall_nothing": Text("问起了过去，但没有找到事件", "It asks for the past, but nothing was found"),
    "why.conversation": Text("第 {first}–{last} 轮，整个会话", "Turns {first}–{last}, the whole session"),
    "why.conversation_window": Text(
        "第 {first}–{last} 轮，最近的 {limit} tokens",
        "Turns {first}–{last}, the newest {limit} tokens",
    ),
    "why.no_conversation": Text("还没有对话", "Nothing has been said yet"),
    "why.post_history_instructions": Text(
        "角色卡自带的提醒，放在最后", "The character's own reminder; it comes last"
    ),
    "why.no_post_history_instructions": Text(
        "角色卡没有写，模板也是空的", "Neither the character nor the template has any"
    ),
    "why.example_dialogue": Text(
        "示范角色的说话方式；以消息的形式放在对话之前",
        "Shows how the character speaks; sent as messages before the conversation",
    ),
    "why.no_example_dialogue": Text("角色没有对话示例", "The character has no example dialogue"),
    "why.examples_dropped": Text(
        "放入后会超过 {limit} tokens 的上限，这一轮省略",
        "Left out of this turn: the prompt would exceed {limit} tokens",
    ),
    # --- why an entry of a lorebook is in, or left out
    "lore.constant": Text("总是加入", "always in"),
    "lore.decorator": Text("由作者的标记加入", "in by its author's mark"),
    "lore.key": Text("关键词“{key}”（{ago} 条消息之前）", "key “{key}” ({ago} messages ago)"),
    "lore.key_now": Text("关键词“{key}”（最新的一条消息）", "key “{key}” (in the newest message)"),
    "lore.pattern": Text("关键词“{key}”", "key “{key}”"),
    "lore.kept": Text("以前出现过关键词“{key}”", "key “{key}” occurred before"),
    "lore.recursion": Text("被条目“{caller}”的“{key}”引出", "called up by “{key}” in “{caller}”"),
    "lore.search": Text("查找关键词", "the search for its keys"),
    "lore.left_out": Text("{why}；没有加入：{reason}", "{why}; left out: {reason}"),
    "lore.budget": Text("世界书的空间不够", "no room left for lorebooks"),
    "lore.book_budget": Text("这本书的空间不够", "no room left for this book"),
    "lore.group": Text("同组的另一条已经加入", "another entry of its group is in"),
    "lore.duplicate": Text("内容与另一条相同", "another entry says the same"),
    "lore.empty": Text("没有内容", "it has no text"),
    "lore.pattern_wrong": Text("正则表达式有误", "its pattern is wrong"),
    "lore.pattern_slow": Text("正则表达式太慢", "its pattern is too slow"),
    "lore.search_slow": Text("太慢，这本书没有查完", "too slow, not all of the book was searched"),
}
