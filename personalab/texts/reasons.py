"""Reasons inside errors and warnings, in Chinese and in English; some of them ask a model to correct its answer.

Where a library gave the reason, ``{text}`` has its own words.
"""

from __future__ import annotations

from personalab.texts.forms import Text

REASONS: dict[str, Text] = {
    "nested": Text("{reason}", "{reason}"),
    "at_field": Text("{field}：{reason}", "{field}: {reason}"),
    # --- a single value
    "missing": Text("它缺失", "it is missing"),
    "empty": Text("它是空的", "it is empty"),
    "blank_without_outline": Text("它是空的，也没有大纲", "it is blank, and there is no outline"),
    "blank": Text("它是空的", "it is blank"),
    "missing_or_blank": Text("它缺失或是空白", "it is missing or blank"),
    "not_object_shown": Text("它不是 JSON 对象（{shown}）", "it is not an object: {shown}"),
    "not_object": Text("它不是 JSON 对象", "it is not an object"),
    "not_list": Text("它不是列表", "it is not a list"),
    "not_text": Text("它不是文本", "it is not a text"),
    "not_bool": Text("它应为 true 或 false", "it is not true or false"),
    "negative": Text("它不是大于等于 0 的数", "it is not a number of 0 or more"),
    "not_number": Text("它不是数字", "it is not a number"),
    "not_whole": Text("它不是整数", "it is not a whole number"),
    "not_all_whole": Text("其中有的不是整数", "not all are whole numbers"),
    "not_all_texts": Text("其中有的不是文本", "not all entries are texts"),
    "not_json_text": Text("它不是 JSON 文本", "it is not a JSON text"),
    "not_json": Text("它不能写成 JSON", "it is not JSON"),
    "not_json_object": Text("不是 JSON 对象", "not a JSON object"),
    "not_utf8": Text("它不是 UTF-8 文本", "it is not UTF-8"),
    "not_unicode": Text("它不是完整的 Unicode 文本", "it is not well-formed Unicode"),
    "not_ascii": Text("它含有 ASCII 以外的字符", "it is not plain ASCII"),
    "not_base64": Text("它不是 base64", "it is not base64"),
    "not_uuid4": Text("它不是 UUID v4", "it is not a UUID of version 4"),
    "not_uuid": Text("它不是 UUID", "it is not a UUID"),
    "not_id": Text("它不能用作 ID", "it is not an id"),
    "not_iso_time": Text("它不是 ISO 8601 格式的时间", "it is not a time in ISO 8601"),
    "not_time_like": Text("它不是形如 {example} 的时间", "it is not a time like {example}"),
    "not_version_like": Text("它不是形如 {example} 的版本号", "it is not a version like {example}"),
    "not_like": Text("它不是 {example} 这样的编号", "it is not like {example}"),
    "time_out_of_range": Text("它不在可以表示的时间之内", "it is beyond all times"),
    "not_within": Text("它不在 0–{limit} 之内", "it is not within 0–{limit}"),
    "not_one_of": Text("应为其中之一：{known}", "it is none of {known}"),
    "control_or_long": Text(
        "它含有控制字符或不可见的字符，或者太长", "it has control or invisible characters, or is too long"
    ),
    "control": Text("它含有控制字符或不可见的字符", "it has control or invisible characters"),
    "too_many_characters": Text(
        "它有 {count} 个字符，超过 {limit} 个", "it has {count} characters, more than {limit}"
    ),
    "over_characters": Text("它超过 {limit} 个字符", "it has more than {limit} characters"),
    "too_many_entries": Text("它有 {count} 项，超过 {limit} 项", "it has {count} entries, more than {limit}"),
    "too_many_points": Text(
        "它有 {count} 个情节点，超过 {limit} 个", "it has {count} points, more than {limit}"
    ),
    "too_many_keys": Text("它有 {count} 项，超过上限 {limit}", "it has {count} keys, more than {limit}"),
    "too_many_bytes": Text("它有 {count} 字节，超过上限 {limit}", "{count} bytes, more than {limit}"),
    "too_many_cases": Text("它有 {count} 个用例，超过上限 {limit}", "{count} cases, more than {limit}"),
    "over_bytes": Text("> {limit} 字节", "> {limit} bytes"),
    "longer_than_bytes": Text("长度超过 {limit} 字节", "longer than {limit} bytes"),
    "bytes": Text("共 {count} 字节", "{count} bytes"),
    "number_too_large": Text("其中有过大的数字", "a number is too large"),
    "duplicate": Text("另一条记录有同样的值", "another record has the same"),
    "own_field": Text("它是记录自己的字段", "it is a field of the record itself"),
    "no_such_session": Text("没有这个会话", "there is no such session"),
    "no_such_entry": Text("没有这条消息", "there is no such entry"),
    "call_count": Text("其中的调用应有 1 到 {limit} 个", "it has not 1 to {limit} calls"),
    "too_deep": Text("嵌套过深", "nested too deeply"),
    # --- files
    "not_regular": Text("它不是普通文件", "it is not a regular file"),
    "not_plain_file": Text("它不是普通文件", "it is not a plain file"),
    "no_file_name": Text("它不能用作文件名", "it is no name of a file"),
    "link": Text("它是链接，而链接不会被跟随", "it is a link, and links are not followed"),
    "unreadable": Text("没有读取权限", "it may not be read"),
    "no_readable_line": Text("没有一行能够读取", "no line of it can be read"),
    "too_many_set_aside": Text("被移开的文件太多", "too many files were set aside"),
    "outside_project": Text("它指向项目之外", "it leads out of the project"),
    "other_instance": Text("instance_id 是 {instance_id}", "instance_id is {instance_id}"),
    "wrong_checksum": Text("校验和不符", "its checksum does not match"),
    "unpublished_checksum": Text("校验和与发布的文件不符", "its checksum is not that of the published file"),
    "cannot_unpack": Text("它无法解压", "it cannot be unpacked"),
    "outside_archive": Text("它的名称指向压缩包之外", "its name leads out of the archive"),
    "twice_in_archive": Text("它出现了两次", "it is there twice"),
    "encrypted": Text("它已加密", "it is encrypted"),
    "packed_otherwise": Text("它的压缩方式不受支持", "it is packed in a way that is not supported"),
    "unpacks_too_large": Text(
        "它解压后超过自身大小的 {limit} 倍", "it unpacks to more than {limit} times its size"
    ),
    "overlaps": Text("它与别的部分重叠", "it overlaps another part"),
    "cut_off": Text("它不完整", "it is cut off"),
    # --- what a file looks like
    "holds_list": Text("里面是一个 JSON 列表", "it holds a list of JSON values"),
    "holds_value": Text("里面只是一个 JSON 值", "it holds a single JSON value"),
    "holds_several": Text("里面有好几个 JSON 值", "it holds several JSON values"),
    "fields_are": Text("它的字段是 {names}", "its fields are {names}"),
    "looks_picture": Text("看起来是 {kind} 图片", "it looks like a {kind} picture"),
    "looks_archive": Text("看起来是 {kind} 压缩包", "it looks like a {kind} archive"),
    "looks_pdf": Text("看起来是 PDF 文档", "it looks like a PDF document"),
    "looks_sqlite": Text("看起来是 SQLite 数据库", "it looks like a SQLite database"),
    "looks_utf16": Text("看起来是 UTF-16 编码的文本，请另存为 UTF-8", "it looks like UTF-16 text"),
    "looks_blank": Text("里面只有空白", "it looks like a file of blanks"),
    "looks_binary": Text("看起来是二进制数据", "it looks like binary data"),
    "looks_text": Text("看起来是普通文本", "it looks like plain text"),
    "looks_agnai_chat": Text(
        "看起来是 Agnai 等程序的聊天记录，不能读取；可以读取 SillyTavern 聊天（JSONL）",
        "it looks like a chat of Agnai or the like, which is not read; a SillyTavern chat (JSONL) is",
    ),
    "looks_agnai_character": Text(
        "看起来是 Agnai 角色，不能读取；请在那里导出为 V2 角色卡",
        "it looks like an Agnai character, which is not read; export it there as a V2 card",
    ),
    "looks_book": Text(
        "看起来是 {program} 的世界书，不能读取；请转成 SillyTavern World Info 再导入",
        "it looks like {kind}, which is not read; bring it as a SillyTavern World Info",
    ),
    # --- a named field
    "field_missing_or_not_whole_from": Text(
        "{field} 缺失或不是整数", "{field} is missing or not a whole number from {low}"
    ),
    "field_missing_or_not_whole": Text("{field} 缺失或不是整数", "{field} is missing or not a whole number"),
    "quoted_missing_or_not_text": Text("“{field}” 缺失或不是文本", '"{field}" is missing or not a text'),
    "field_missing_or_not_text": Text("{field} 缺失或不是文本", "{field} is missing or not a text"),
    "field_missing_or_not_object": Text("{field} 缺失或不是 JSON 对象", "{field} is missing or no object"),
    "field_missing_or_not_id": Text("{field} 缺失或不能用作 ID", "{field} is missing or not an id"),
    "field_missing": Text("缺少 {field}", "{field} is missing"),
    "field_blank_or_missing": Text("{field} 缺失或是空白", "{field} is blank or missing"),
    "field_not_bool": Text("{field} 应为 true 或 false", "{field} is not true or false"),
    "field_not_whole_within": Text(
        "{field} 应为 {low} 到 {high} 的整数", "{field} is not a whole number from {low} to {high}"
    ),
    "field_not_whole": Text("{field} 不是整数", "{field} is not a whole number"),
    "field_not_share": Text("“{field}” 不是 0 到 1 的数", '"{field}" is not a number from 0 to 1'),
    "not_json_number": Text("JSON 里不能写 {word}", "{word} is not a number in JSON"),
    "field_not_number": Text("{field} 不是数字", "{field} is not a number"),
    "field_not_between": Text("{field} 不在 0 到 {limit} 之间", "{field} is not between 0 and {limit}"),
    "field_value_not_between": Text(
        "{field} 是 {value}，应在 0 到 {limit} 之间", "{field} is {value}, not between 0 and {limit}"
    ),
    "field_too_large": Text("{field} 大于 {limit}", "{field} is greater than {limit}"),
    "field_not_name": Text(
        "{field} 应为 {low} 到 {high} 个字符的名称", "{field} is not a name of {low} to {high} characters"
    ),
    "field_not_words": Text("{field} 应为文本列表", "{field} is not a list of words"),
    "field_not_texts": Text("{field} 应为文本列表", "{field} is not a list of texts"),
    "field_not_list": Text("{field} 不是列表", "{field} is not a list"),
    "field_not_text": Text("{field} 不是文本", "{field} is not a text"),
    "field_not_json_object": Text("{field} 不是 JSON 对象", "{field} is not a JSON object"),
    "bad_trigger": Text(
        "trigger 是 {value}，应为 auto、keywords、always 或 off",
        "trigger is {value}, not auto, keywords, always or off",
    ),
    "field_other_value": Text(
        "{field} 是 {value}，应为其中之一：{known}", "{field} is {value}, not one of {known}"
    ),
    "field_no_file_name": Text("{field} 不能用作文件名", "{field} is no name of a file"),
    "field_too_long": Text("{field} 超过 {limit} 个字符", "{field} is longer than {limit} characters"),
    "revisions_not_rising": Text("版本号没有递增", "the numbers of the revisions do not rise"),
    "change_incomplete": Text("缺少必要的内容", "a change has no text and turns"),
    "point_incomplete": Text("缺少必要的内容", "a point has no summary, plot and turns"),
    "step_without_entries": Text("缺少必要的内容", "a step without entries"),
    # --- settings, models and embedders
    "not_provider_model": Text("应写成 provider:model 的形式", "it is not of the form provider:model"),
    "not_postgresql": Text("应以 postgresql:// 开头", "it does not begin with postgresql://"),
    "not_runnable": Text("没有这个程序，或没有运行权限", "it is not there, or may not be run"),
    "no_version": Text("它没有给出版本号", "it does not tell its version"),
    "no_reason": Text("没有说明原因", "it does not say why"),
    "scripted_failure": Text("脚本要求它出错", "it was scripted to fail"),
    "memory_slow": Text("{seconds} 秒内没有回答", "no answer within {seconds} s"),
    "event_too_long": Text("回答里有一个事件太长", "an event of the answer is too long"),
    "event_not_object": Text("回答里有一个事件不是 JSON 对象", "an event of the answer is not an object"),
    "no_events": Text("回答里没有事件", "the answer has no events"),
    "compressed_answer": Text(
        "回答经过压缩，而请求并未要求", "the answer is compressed, which was not asked for"
    ),
    "vectors_missing_or_infinite": Text(
        "{texts} 段文本得到了 {count} 个向量，或向量里有非有限的数",
        "{count} vectors for {texts} texts, or numbers that are not finite",
    ),
    "vector_count": Text("{texts} 段文本得到了 {count} 个向量", "{count} vectors for {texts} texts"),
    "vector_lengths": Text("向量的长度不一致：{lengths}", "vectors of length {lengths}"),
    "vector_length": Text(
        "向量有 {count} 个数，应为 {expected} 个", "a vector of {count} numbers instead of {expected}"
    ),
    "vector_length_unknown": Text("向量有 {count} 个数", "a vector of {count} numbers instead of some"),
    "not_finite": Text("向量里有非有限的数", "numbers that are not finite"),
    # --- the lab's files
    "twice": Text("{name} 出现了两次", "{name} stands there twice"),
    "completed_without_scores": Text("状态是 completed，却没有分数", "it is completed and has no scores"),
    "scores_without_completion": Text("状态是 {status}，却有分数", "it is {status} and has scores"),
    "no_call_record": Text("缺少 call_id，或不是 JSON 对象", "it is no account of a call"),
    "other_case_count": Text("{value}，实际有 {count} 个用例", "{value}, but there are {count} cases"),
    "other_sum": Text("{value}，六项之和是 {total}", "{value}, but the six scores are {total}"),
    "other_parts": Text("{value}，各维度之和是 {total}", "{value}, but its parts are {total}"),
    "other_folder": Text("“{value}”，文件夹名说是 “{name}”", "'{value}', but the folder says '{name}'"),
    "other_file": Text("“{value}”，文件名说是 “{name}”", "'{value}', but the file says '{name}'"),
    "other_id": Text("它与 {file} 里的 id 不同", "it is not the id in {file}"),
    "not_best": Text("它不是各轮中得分最高的", "it is not the best of the rounds"),
    "not_leader": Text("它与 {file} 里得分最高的技能不同", "it is not who leads in {file}"),
    "no_such_skill": Text("项目里没有这个技能", "the project has no such skill"),
    "no_such_case": Text("基线里没有用例 {case_id}", "the baseline has no {case_id}"),
    "no_such_segment": Text("segments 里没有 {segment_id}", "segments has no {segment_id}"),
    "nothing_to_test": Text("它没有技能或没有用例", "it has no skills or no cases"),
    "not_verbatim": Text(
        "{segment_id} 不是技能原文里的片段", "{segment_id} does not stand in its skill letter by letter"
    ),
    "calls_used_up": Text("允许的 {limit} 次调用已用完", "all {limit} calls are made"),
    "money_used_up": Text("允许的 {limit} 美元已用完", "{limit} USD are spent"),
    "price_unknown": Text(
        "不知道每次调用的价格，无法遵守 max_usd；请改用 max_calls",
        "the price of a call is unknown, so max_usd cannot be kept; use max_calls",
    ),
    # --- patterns in lorebooks
    "pattern_too_long": Text("正则表达式太长", "the pattern is too long"),
    "pattern_too_large": Text("正则表达式太长", "the pattern is too large"),
    "nothing_before": Text("{text} 前面没有内容", "{text} stands alone"),
    "not_known": Text("不认识 {text}", "{text} is not known"),
    "group_not_opened": Text("括号没有开头", "a group is closed that was not opened"),
    "group_not_closed": Text("括号没有结尾", "a group is not closed"),
    "nothing_to_repeat": Text("没有可以重复的内容", "there is nothing to repeat"),
    "groups_too_deep": Text("括号嵌套过深", "its groups are nested too deep"),
    # --- a model's answers
    "thinking_unfinished": Text(
        "回答里没有 JSON：思考还没有结束就中断了",
        "there is no JSON in the answer: it ends before its thinking does",
    ),
    "no_json_with": Text("回答里没有含 {field} 的 JSON", "there is no JSON in the answer that has {field}"),
    "no_json": Text("回答里没有 JSON", "there is no JSON in the answer"),
    "json_unreadable": Text("JSON 无法解析（{reason}）", "the JSON cannot be read: {reason}"),
    "json_not_object": Text("JSON 不是对象", "the JSON is not an object"),
    "no_list_in_json": Text("JSON 里没有列表 “{field}”", 'the JSON has no list "{field}"'),
    "repeats_note": Text("它重复了对上一个回答的说明", "it repeats what it was told about its last answer"),
    "summary_missing": Text("没有给出摘要", "the summary is blank or missing"),
    "summary_too_long": Text(
        "摘要有 {count} 个字符，超过 {limit} 个", "the summary has {count} characters, more than {limit}"
    ),
    "summary_refused": Text("它拒绝总结", "it refuses instead of summing up"),
    "summary_language": Text(
        "摘要用的语言不对（应为 {language}）",
        "the summary is not written in the conversation's language ({language})",
    ),
    "no_points": Text("情节点列表是空的", "the list of points is empty"),
    "points_over": Text("共有 {count} 条，超过 {limit} 条", "there are {count} points, more than {limit}"),
    "facts_over": Text("共有 {count} 条，超过 {limit} 条", "there are {count} facts, more than {limit}"),
    "operations_over": Text(
        "共有 {count} 条，超过 {limit} 条", "there are {count} operations, more than {limit}"
    ),
    "changes_over": Text("共有 {count} 条，超过 {limit} 条", "there are {count} changes, more than {limit}"),
    "point_language": Text(
        "第 {place} 个情节点用的语言不对（应为 {language}）",
        "point {place} is not written in the story's language ({language})",
    ),
    "point_not_object": Text("第 {place} 个情节点不是 JSON 对象", "point {place} is not an object"),
    "point_without": Text("第 {place} 个情节点没有 “{field}”", 'point {place} has no "{field}"'),
    "point_field_too_long": Text(
        "第 {place} 个情节点的 “{field}” 有 {count} 个字符，超过 {limit} 个",
        '"{field}" of point {place} has {count} characters, more than {limit}',
    ),
    "point_turns": Text(
        "第 {place} 个情节点的 “turns” 是 {value}，应在 {first}–{last} 之内",
        '"turns" of point {place} is {value}: it must be [first, last] within {first}–{last}',
    ),
    "change_not_object": Text("第 {place} 处改变不是 JSON 对象", "change {place} is not an object"),
    "change_without_text": Text("第 {place} 处改变没有 “change”", 'change {place} has no "change"'),
    "change_too_long": Text(
        "第 {place} 处改变有 {count} 个字符，超过 {limit} 个",
        "change {place} has {count} characters, more than {limit}",
    ),
    "change_turns": Text(
        "第 {place} 处改变的 “turns” 是 {value}，应为给出的轮次（{known}）",
        '"turns" of change {place} is {value}: it must list some of the turns shown ({known})',
    ),
    "changes_unnamed": Text(
        "“evolved_persona” 与之前不同，“changes” 却是空的",
        '"evolved_persona" is another text than before, but "changes" is empty',
    ),
    "changes_unfounded": Text(
        "“changes” 列出了改变，“evolved_persona” 却与之前相同",
        '"changes" names changes, but "evolved_persona" is the same text as before',
    ),
    "persona_refused": Text(
        "“evolved_persona” 是拒绝的话，不是人格", '"evolved_persona" is a refusal, not a persona'
    ),
    "persona_repeated": Text(
        "“evolved_persona” 照抄了初始人格",
        '"evolved_persona" repeats the base persona word for word: write only what has grown',
    ),
    "quoted_blank": Text("“{field}” 是空的", '"{field}" is blank'),
    "quoted_too_long": Text(
        "“{field}” 有 {count} 个字符，超过 {limit} 个", '"{field}" has {count} characters, more than {limit}'
    ),
    "heading_inside": Text(
        "{what} 里有像提示词标题的一行",
        "{what} has a line like a heading of the prompt (===): write plain sentences",
    ),
    "marker_inside": Text("{what} 里有进度标记", "{what} has a progress marker: write plain sentences"),
    "trait_in_figures": Text(
        "{what} 把特质写成了数值（“{figure}”）",
        '{what} puts a trait into figures ("{figure}"): say it in words, without numbers',
    ),
    "story_language": Text(
        "{what} 用的语言不对（应为 {language}）", "{what} is not written in the story's language ({language})"
    ),
    "conversation_language": Text(
        "语言不对（应为 {language}）", "{what} not written in the conversation's language ({language})"
    ),
    "no_text": Text("没有文本 “{field}”", 'there is no text "{field}"'),
    "operation_field": Text(
        "第 {place} 条的 “{field}” 不对（可用：{known}）", '"{field}" of operation {place} is none of {known}'
    ),
    "operation_target": Text(
        "第 {place} 条的 “target” 不是给出的条目",
        '"target" of operation {place} names no entry that was shown',
    ),
    "fact_type": Text(
        "第 {place} 条的 “type” 应为 profile 或 event", '"type" of fact {place} is neither profile nor event'
    ),
    "messages_of": Text(
        "第 {place} 条的 “messages” 不是消息编号（{reason}）", '"messages" of {what} {place}: {reason}'
    ),
    "text_of": Text("第 {place} 条：{reason}", "{what} {place}: {reason}"),
    "text_without_words": Text(
        "第 {place} 条的 “text” 没有文字：{shown}", '"text" of {what} {place} has no words: {shown}'
    ),
    "item_not_object": Text("第 {place} 条不是 JSON 对象", "{what} {place} is not an object"),
    "messages_cut": Text(
        "太长：模型只看到这些消息的开头", "too long: the model saw only the beginning of these messages"
    ),
    "no_source_message": Text("没有依据的消息", "no source message"),
    "no_judgement": Text("没有评分", "there is no judgement"),
    "line_out_of_range": Text(
        "{field} 应为技能 {skill} 的行号（1 到 {last}）",
        "{field} is none of the lines 1 to {last} of {skill}",
    ),
    "field_not_one_of": Text("{field} 应为其中之一：{known}", "{field} is none of {known}"),
    "not_all_objects": Text("{field} 里有的不是 JSON 对象", "not all {field} are objects"),
    "field_not_object": Text("{field} 不是 JSON 对象", "{field} is not an object"),
    "no_case_in_list": Text("没有列表 “{field}”，或它是空的", 'there is no list "{field}" with a case in it'),
    "no_list": Text("没有列表 “{field}”，或它是空的", 'there is no list "{field}"'),
    "tag_not_text": Text("有的标签不是文本", "a tag is not a text"),
    "no_tag": Text("没有 1 到 {limit} 个字符的标签", "there is no tag of 1 to {limit} characters"),
    "field_over_bytes": Text("{field} 超过 {limit} 字节", "{field} has more than {limit} bytes"),
    # --- what the system says
    "os_ENOENT": Text("没有这个文件或目录", "{text}"),
    "os_EACCES": Text("没有权限", "{text}"),
    "os_EPERM": Text("不允许这样操作", "{text}"),
    "os_EISDIR": Text("是一个目录", "{text}"),
    "os_ENOTDIR": Text("不是目录", "{text}"),
    "os_ENAMETOOLONG": Text("文件名太长", "{text}"),
    "os_ENOEXEC": Text("它不是可以运行的程序", "{text}"),
    "os_E2BIG": Text("参数太长", "{text}"),
    "os_ENOSPC": Text("磁盘空间不足", "{text}"),
    "os_EROFS": Text("文件系统是只读的", "{text}"),
    "os_EIO": Text("读写出错", "{text}"),
    "os_EADDRINUSE": Text("地址已被占用", "{text}"),
    "os_EADDRNOTAVAIL": Text("这台机器没有这个地址", "{text}"),
    "python_deep": Text("嵌套过深", "{text}"),
    "python_large_number": Text("其中有过大的数字", "{text}"),
    "python_utf8": Text("它不是 UTF-8 文本（第 {at} 字节）", "{text}"),
    "python_json": Text("不是有效的 JSON（第 {line} 行第 {column} 列）", "{text}"),
    "python_csv": Text("有一格超过 {limit} 个字符", "{text}"),
    # --- what YAML says
    "yaml_scanner": Text("这里有 YAML 不允许的写法", "{text}"),
    "yaml_parser": Text("YAML 结构不完整，或缩进不对", "{text}"),
    "yaml_reader": Text("含有不允许的控制字符", "{text}"),
    # --- what pydantic says
    "pydantic_missing": Text("缺少这个字段", "{text}"),
    "pydantic_string_type": Text("应为文本", "{text}"),
    "pydantic_string_unicode": Text("应为文本", "{text}"),
    "pydantic_int_type": Text("应为整数", "{text}"),
    "pydantic_int_parsing": Text("应为整数", "{text}"),
    "pydantic_int_from_float": Text("应为整数", "{text}"),
    "pydantic_int_parsing_size": Text("应为整数，而且太大了", "{text}"),
    "pydantic_float_type": Text("应为数字", "{text}"),
    "pydantic_float_parsing": Text("应为数字", "{text}"),
    "pydantic_finite_number": Text("应为有限的数字", "{text}"),
    "pydantic_bool_type": Text("应为 true 或 false", "{text}"),
    "pydantic_bool_parsing": Text("应为 true 或 false", "{text}"),
    "pydantic_list_type": Text("应为列表", "{text}"),
    "pydantic_tuple_type": Text("应为列表", "{text}"),
    "pydantic_dict_type": Text("应为 JSON 对象", "{text}"),
    "pydantic_model_type": Text("应为 JSON 对象", "{text}"),
    "pydantic_model_attributes_type": Text("应为 JSON 对象", "{text}"),
    "pydantic_greater_than_equal": Text("应大于等于 {ge}", "{text}"),
    "pydantic_greater_than": Text("应大于 {gt}", "{text}"),
    "pydantic_less_than_equal": Text("应小于等于 {le}", "{text}"),
    "pydantic_less_than": Text("应小于 {lt}", "{text}"),
    "pydantic_literal_error": Text("应为其中之一：{expected}", "{text}"),
    "pydantic_too_short": Text("至少应有 {min_length} 项，现有 {actual_length} 项", "{text}"),
    "pydantic_too_long": Text("至多 {max_length} 项", "{text}"),
    "pydantic_string_too_short": Text("至少应有 {min_length} 个字符", "{text}"),
    "pydantic_string_too_long": Text("至多 {max_length} 个字符", "{text}"),
    "pydantic_string_pattern_mismatch": Text("应符合格式 {pattern}", "{text}"),
    "pydantic_extra_forbidden": Text("没有这个字段", "{text}"),
    "pydantic_json_invalid": Text("不是有效的 JSON", "{text}"),
}
