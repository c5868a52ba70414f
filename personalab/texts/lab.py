"""Texts about skills, baselines, projects and their scores."""

from __future__ import annotations

from personalab.texts.forms import Text

LAB: dict[str, Text] = {
    # --- any file of the workspace
    "lab_bad_record": Text(
        "{file} 的字段 {field} 不对：{reason}；请修正该文件",
        "{file}: the field {field} is wrong: {reason}; mend the file",
    ),
    "lab_not_strict": Text(
        "{file} 没有写入：字段 {field} 不符合格式（{reason}）",
        "{file} was not written: its field {field} is not of the format ({reason})",
    ),
    # --- executors
    "lab_spool_foreign": Text(
        "{file} 不能用来保存回答：{reason}；请检查是谁放在那里的，删除后再运行",
        "{file} cannot hold an answer: {reason}; find out who put it there, remove it and run again",
    ),
    "lab_bad_call": Text(
        "这次调用不能执行：{field} 不可用（{reason}）；请改正后再试",
        "This call cannot be made: its {field} cannot be used ({reason}); mend it and try again",
    ),
    "lab_flag_refused": Text(
        "extra_flags 不接受 “{flag}”；可以使用的有：{allowed}",
        "extra_flags does not take '{flag}'; it takes: {allowed}",
    ),
    "lab_flags_local": Text(
        "extra_flags 只能在终端里设置，不能通过网页、MCP 或其他远程方式设置；请去掉它",
        "extra_flags can only be set at the terminal, not through the web, MCP or another remote client; leave it out",
    ),
    "provider.cli_missing": Text(
        "无法运行 claude 命令行程序 “{cli_path}”：{reason}；请安装 Claude Code，或写明它的位置（{do:set_lab_cli} cli_path /路径/claude），或新建项目时换用聊天模型（{do:chat_model}）",
        "The claude program '{cli_path}' cannot be run: {reason}; install Claude Code, tell where it is ({do:set_lab_cli} cli_path /somewhere/claude), or make the project with a chat model ({do:chat_model})",
    ),
    "provider.call_timeout": Text(
        "{seconds} 秒内没有得到回答，已停止；请重试，或提高 timeout_seconds",
        "There was no answer within {seconds} s and the call was stopped; try again, or raise timeout_seconds",
    ),
    "provider.cli_crashed": Text(
        "claude 程序意外结束（{exit}）：{reason}；请重试",
        "The claude program ended unexpectedly ({exit}): {reason}; try again",
    ),
    "provider.cli_garbage": Text(
        "claude 程序的输出里没有结果：{reason}；请重试",
        "The claude program wrote no result: {reason}; try again",
    ),
    "provider.cli_usage": Text(
        "claude 程序不接受这次调用：{reason}；请检查 extra_flags 和程序的版本",
        "The claude program does not take this call: {reason}; check extra_flags and the program's version",
    ),
    "provider.cli_stopped": Text(
        "claude 在回答完成前停止（{reason}）；请检查 extra_flags 里的限制，或简化输入",
        "claude stopped before its answer was whole ({reason}); check the limits in extra_flags, or simplify the input",
    ),
    "provider.cli_login": Text(
        "claude 没有登录或密钥被拒绝：{reason}；请运行 claude 登录，或检查 ANTHROPIC_API_KEY",
        "claude is not signed in, or its key was refused: {reason}; run claude to sign in, or check ANTHROPIC_API_KEY",
    ),
    "provider.cli_busy": Text(
        "模型服务限流或过载（{status}）：{reason}；请稍后再试",
        "The model's service limits the rate or is overloaded ({status}): {reason}; try again later",
    ),
    "provider.cli_too_much": Text(
        "claude 程序的输出超过 {limit} 字节，已停止；请检查这个用例的输入",
        "The claude program wrote more than {limit} bytes and was stopped; check this case's input",
    ),
    # --- assets: skills, baselines, tags, drafts, sessions
    "lab_bad_name": Text(
        "{what} “{value}” 不能用作文件夹名；请只用字母、数字、_ 和 -，以字母或数字开头，至多 64 个字符",
        "The {what} '{value}' cannot name a folder; use letters, digits, _ and -, begin with a letter or a digit, 64 characters at most",
    ),
    "lab_no_skill": Text(
        "没有技能 “{asset_id}”；请用完整 id、至少前 8 个字符或文件夹名，可用 {do:list_skills} 查看",
        "There is no skill '{asset_id}'; give its id, 8 characters of it at least, or its folder's name: see {do:list_skills}",
    ),
    "lab_no_baseline": Text(
        "没有基线 “{asset_id}”；请用完整 id、至少前 8 个字符或文件夹名，可用 {do:list_baselines} 查看",
        "There is no baseline '{asset_id}'; give its id, 8 characters of it at least, or its folder's name: see {do:list_baselines}",
    ),
    "lab_ambiguous_id": Text(
        "“{asset_id}” 同时指 {found}；请写出完整的 id",
        "'{asset_id}' may mean {found}; write the whole id",
    ),
    "lab_no_version": Text(
        "{name} 没有版本 {version}；现有：{known}", "{name} has no version {version}; there are: {known}"
    ),
    "lab_short_id_taken": Text(
        "id 的前 8 个字符 {short} 已被 {folder} 使用；请换一个 id",
        "The first 8 characters of the id, {short}, are those of {folder}; choose another id",
    ),
    "lab_asset_changed": Text(
        "“{name}” 已被别人改动，现在是 {version}；请重新读取后再编辑",
        "Someone else has changed '{name}' meanwhile, it is {version} now; read it again and edit that",
    ),
    "lab_foreign_id": Text(
        "“{name}” 的 id {asset_id} 不是 UUID v4，不能写入新版本；请用它的内容新建一个",
        "The id {asset_id} of '{name}' is no UUID of version 4, so no version can be written; make a new one with its content",
    ),
    "lab_doubt": Text(
        "{file} 自相矛盾：{field} 是 {reason}；以文件夹和实际内容为准",
        "{file} contradicts itself: {field} is {reason}; the folder and what is really there hold",
    ),
    "lab_blank": Text("{field} 不能为空；请填写", "The {field} is blank; fill it in"),
    "lab_not_unicode": Text(
        "{field} 含有无法写成 UTF-8 的字符；请去掉它们",
        "The {field} has characters that cannot be written as UTF-8; take them out",
    ),
    "lab_too_large": Text(
        "{file} 有 {bytes} 字节，超过上限 {limit}；请缩短",
        "{file} has {bytes} bytes, more than {limit}; shorten it",
    ),
    "lab_bad_extra": Text(
        "附带文件 “{file}” 的路径不可用；请用以 x_ 开头的相对路径",
        "The path '{file}' of a file that comes along cannot be used; use a relative one that begins with x_",
    ),
    "lab_extra_too_large": Text(
        "附带文件太多或太大（{count} 个，{bytes} 字节；上限 {most} 个，{limit} 字节）；请减少",
        "The files that come along are too many or too large ({count}, {bytes} bytes; at most {most}, {limit} bytes); leave some out",
    ),
    "lab_other_baseline": Text(
        "这些用例不属于基线 {baseline_id} 的 {version}；请检查 cases.json",
        "These cases are not those of the baseline {baseline_id}, {version}; check cases.json",
    ),
    "lab_too_many_cases": Text(
        "{count} 个用例超过上限 {limit}；请分成几个基线",
        "{count} cases are more than {limit}; make several baselines of them",
    ),
    "lab_no_case": Text(
        "没有用例 “{case_id}”；现有：{known}", "There is no case '{case_id}'; there are: {known}"
    ),
    "lab_blank_case": Text(
        "用例 {case_id} 的 {field} 不能为空；请填写", "The {field} of the case {case_id} is blank; fill it in"
    ),
    "lab_bad_category": Text(
        "没有类别 “{value}”；可用：{known}", "There is no category '{value}'; there are: {known}"
    ),
    "lab_bad_tag": Text(
        "标签 “{value}” 不可用；请写成一行，1 到 {limit} 个字符",
        "The tag '{value}' cannot be used; write one line of 1 to {limit} characters",
    ),
    "lab_no_tag": Text("没有标签 “{tag}”；现有：{known}", "There is no tag '{tag}'; there are: {known}"),
    "lab_bad_draft_count": Text(
        "一次可以生成 1 到 {limit} 个用例，不是 {count} 个",
        "1 to {limit} cases can be generated at once, not {count}",
    ),
    "lab_no_draft": Text(
        "没有待审核的草稿 “{draft_id}”；现有：{known}",
        "No draft '{draft_id}' waits for review; there are: {known}",
    ),
    "lab_no_session": Text(
        "没有临时会话 “{session_id}”；请检查它的 id",
        "There is no temporary session '{session_id}'; check its id",
    ),
    "lab_ask_failed": Text(
        "向模型 {model} 的调用失败：{reason}；什么都没有改变",
        "The call to the model {model} failed: {reason}; nothing was changed",
    ),
    "lab_context_no_skill": Text(
        "context_config.token_threshold 是 {threshold}，放不下技能 “{skill}” 和它的输入：至少需要约 {tokens} 个 token。"
        "请在 workspace/cli/config.json 里调大 context.token_threshold，或把 context.auto_compress 设为 false",
        "context_config.token_threshold is {threshold}, but the skill '{skill}' and its input need about {tokens} tokens. "
        "Raise context.token_threshold in workspace/cli/config.json, or set context.auto_compress to false",
    ),
    "lab_context_no_judge": Text(
        "context_config.token_threshold 是 {threshold}，放不下评分要求：至少需要约 {tokens} 个 token。"
        "请在 workspace/cli/config.json 里调大 context.token_threshold，或把 context.auto_compress 设为 false",
        "context_config.token_threshold is {threshold}, but a judge's instructions need about {tokens} tokens. Raise "
        "context.token_threshold in workspace/cli/config.json, or set context.auto_compress to false",
    ),
    "lab_context_over": Text(
        "提示词约有 {tokens} 个 token，超过项目的 context_config.token_threshold（{threshold}），又不能缩短；没有调用模型。"
        "请少选一些片段，或在项目的 config.json 里调大 token_threshold",
        "The prompt has about {tokens} tokens, more than the project's context_config.token_threshold ({threshold}), and "
        "cannot be shortened; no model was called. Choose fewer segments, or raise token_threshold in the project's "
        "config.json",
    ),
    "lab_answer_repeats_note": Text(
        "模型 {model} 没有改正回答，只是重复了我们的修改要求；什么都没有保存，请再试一次，或换一个模型",
        "The model {model} repeated our request for a correction instead of correcting its answer; nothing was saved. "
        "Try again, or choose another model",
    ),
    # --- reports
    "lab_report_format": Text(
        "没有报告格式 “{format}”；可用：{known}", "There is no report format '{format}'; there are: {known}"
    ),
    # --- formats in and out
    "lab_format_unknown": Text(
        "无法识别 {file} 的格式；可以导入含 SKILL.md 的文件夹、.md 或 .txt 文本、promptfoo 配置（.yaml、.json）",
        "{file} is of no known form; bring a folder with a SKILL.md, a text (.md, .txt) or a promptfoo configuration (.yaml, .json)",
    ),
    "lab_nothing_there": Text(
        "{file} 不存在或无法读取；请检查路径",
        "{file} does not exist or cannot be read; check the path",
    ),
    "lab_no_skill_md": Text(
        "文件夹 {file} 里没有 SKILL.md；请选择技能自己的文件夹",
        "The folder {file} has no SKILL.md; choose the skill's own folder",
    ),
    "lab_file_large": Text(
        "{file} 有 {actual} 字节，上限是 {limit}；请缩短后再试",
        "{file} has {actual} bytes, the limit is {limit}; shorten it and try again",
    ),
    "lab_not_utf8": Text(
        "{file} 不是 UTF-8 文本（第 {place} 字节）；请另存为 UTF-8",
        "{file} is not UTF-8 text (byte {place}); save it as UTF-8",
    ),
    "lab_half_character": Text(
        "{file} 里有不完整的字符（如 \\ud800）；请改正后再试",
        "{file} has half of a character (such as \\ud800); mend it and try again",
    ),
    "lab_file_blank": Text("{file} 没有内容；请写上提示词", "{file} says nothing; write the prompt into it"),
    "lab_front_open": Text(
        "{file} 开头的 --- 没有对应的结束行；请在元数据之后加一行 ---",
        "{file} begins with --- that nothing closes; add a line --- behind the front matter",
    ),
    "lab_bad_yaml": Text(
        "{file} 第 {line} 行不是有效的 YAML（{reason}）；请改正后再试",
        "{file}: line {line} is not YAML ({reason}); mend it and try again",
    ),
    "lab_bad_json": Text(
        "{file} 不是有效的 JSON（{reason}）；请改正后再试",
        "{file} is not JSON ({reason}); mend it and try again",
    ),
    "lab_yaml_several": Text(
        "{file} 第 {line} 行开始了第二个 YAML 文档；请只留一个",
        "{file}: a second YAML document begins at line {line}; leave only one",
    ),
    "lab_yaml_anchor": Text(
        "{file} 第 {line} 行用了锚点、引用或合并（&、*、<<）；请直接写出内容",
        "{file}: line {line} uses an anchor, an alias or a merge (&, *, <<); write the value out",
    ),
    "lab_yaml_tag": Text(
        "{file} 第 {line} 行用了类型标签（!）；请去掉它",
        "{file}: line {line} uses a tag (!); take it out",
    ),
    "lab_yaml_key": Text(
        "{file} 第 {line} 行的键不是文本；请改成简单的名称",
        "{file}: the key at line {line} is not a text; use a plain name",
    ),
    "lab_key_twice": Text(
        "{file} 里 “{key}” 出现了两次；请只留一个",
        "{file} has '{key}' twice; leave only one",
    ),
    "lab_too_deep": Text(
        "{file} 的嵌套超过 {limit} 层；请简化后再试",
        "{file} is nested deeper than {limit}; simplify it and try again",
    ),
    "lab_folder_large": Text(
        "文件夹 {file} 超过上限（{files} 个文件、共 {limit} 字节）；请移走技能不需要的文件",
        "The folder {file} is beyond the limit ({files} files, {limit} bytes in all); move away what the skill does not need",
    ),
    "lab_bad_inner": Text(
        "不能导入 {file}：只接受普通文件，名称不含特殊字符，链接不能指向文件夹或文件夹之外；请移走它",
        "{file} cannot be brought in: only plain files with plain names are, and no links to folders or out of the folder; move it away",
    ),
    "lab_export_taken": Text(
        "{file} 已存在；请换一个位置，或允许覆盖（--overwrite）",
        "{file} exists; choose another place, or allow it to be written over (--overwrite)",
    ),
    "lab_no_prompts": Text(
        "{file} 里没有 prompts，不是可用的 promptfoo 配置；请检查文件",
        "{file} has no prompts, so it is no promptfoo configuration to use; check the file",
    ),
    "lab_too_many_prompts": Text(
        "{file} 有 {actual} 条提示词，上限是 {limit}；请拆成几个配置",
        "{file} has {actual} prompts, the limit is {limit}; split it up",
    ),
    "lab_too_many_tests": Text(
        "{file} 的测试展开后超过 {limit} 个；请拆成几个配置",
        "The tests of {file} are more than {limit} when written out; split it up",
    ),
    "lab_too_many_asserts": Text(
        "{file} 的 {field} 过多或嵌套过深（上限 {limit} 条）；请简化",
        "{file}: {field} has too many assertions or nests them too deeply (at most {limit}); simplify it",
    ),
    "lab_is_code": Text(
        "{file} 的 {field} 是程序（{value}），这里不会运行它；请换成文本文件",
        "{file}: {field} is a program ({value}), which is not run here; use a text file instead",
    ),
    "lab_bad_reference": Text(
        "{file} 的 {field} 指向 “{value}”；只能逐个引用配置所在文件夹里的文件",
        "{file}: {field} names '{value}'; only single files in the configuration's own folder can be used",
    ),
    "lab_bad_tests": Text(
        "{file} 的 {field} 是 “{value}”；只读取写在配置里或 .yaml、.json、.csv 文件里的测试，请先转换",
        "{file}: {field} is '{value}'; only tests in the configuration or in a .yaml, .json or .csv file are read, convert them first",
    ),
    "lab_promptfoo_unread": Text(
        "{file} 中有些设置会改变评测方式，这里没有沿用：{found}；请检查用例的期望是否仍然合适",
        "Some settings of {file} change what is measured and were not taken over: {found}; check whether the expectations of the cases still fit",
    ),
    "lab_case_begin": Text("请开始。", "Begin."),
    "lab_assert_equals": Text("回答应等于：{value}", "The answer equals: {value}"),
    "lab_assert_contains": Text("回答应包含：{value}", "The answer contains: {value}"),
    "lab_assert_icontains": Text(
        "回答应包含（不分大小写）：{value}", "The answer contains, in upper or lower case: {value}"
    ),
    "lab_assert_all": Text("回答应包含其中每一项：{value}", "The answer contains each of: {value}"),
    "lab_assert_any": Text("回答应至少包含其中一项：{value}", "The answer contains at least one of: {value}"),
    "lab_assert_starts": Text("回答应以此开头：{value}", "The answer begins with: {value}"),
    "lab_assert_regex": Text(
        "回答应匹配正则表达式：{value}", "The answer matches the regular expression: {value}"
    ),
    "lab_assert_json": Text("回答应是有效的 JSON {value}", "The answer is valid JSON {value}"),
    "lab_assert_has_json": Text("回答应含有有效的 JSON {value}", "The answer contains valid JSON {value}"),
    "lab_assert_refusal": Text("回答应拒绝这个请求", "The answer refuses the request"),
    "lab_assert_similar": Text("回答的意思应接近：{value}", "The answer means much the same as: {value}"),
    "lab_assert_facts": Text("回答应与此事实一致：{value}", "The answer agrees with these facts: {value}"),
    "lab_assert_code": Text(
        "回答应通过这段 {kind} 检查（此处只作文字引用，不会运行）：{value}",
        "The answer passes this {kind} check (quoted here, never run): {value}",
    ),
    "lab_assert_other": Text("回答应满足 {kind}：{value}", "The answer satisfies {kind}: {value}"),
    "lab_assert_not": Text("以下不应成立——{line}", "This must not hold: {line}"),
    "lab_assert_none": Text("回答应完整满足请求", "The answer meets the request in full"),
    "lab_rubric_functional_correctness": Text(
        "功能正确性：回答完成了请求的事，结果正确。期望：{expected}",
        "Functional correctness: the answer does what was asked, correctly. Expected: {expected}",
    ),
    "lab_rubric_robustness": Text(
        "健壮性：回答处理了边界、异常和不合理的输入。期望：{expected}",
        "Robustness: the answer deals with limits, errors and unreasonable input. Expected: {expected}",
    ),
    "lab_rubric_readability": Text(
        "可读性：回答条理清楚，命名和说明易懂",
        "Readability: the answer is well ordered, its names and explanations easy to follow",
    ),
    "lab_rubric_conciseness": Text(
        "简洁性：没有多余的话和重复", "Conciseness: nothing is superfluous or said twice"
    ),
    "lab_rubric_complexity_control": Text(
        "复杂度控制：做法不比问题本身复杂",
        "Complexity control: the way taken is no more complex than the matter itself",
    ),
    "lab_rubric_format_compliance": Text(
        "格式规范性：回答遵守了要求的格式和惯例。期望：{expected}",
        "Format compliance: the answer keeps to the format and conventions asked for. Expected: {expected}",
    ),
    "lab_persona_of": Text("角色 {name} 的人设", "The persona of {name}"),
    "lab_evals_of": Text("{name} 的用例", "Evals of {name}"),
    # --- iterations
    "lab_other_iteration": Text(
        "这个项目有一次没有结束的迭代，它的 {field} 是 {value}；不带这个参数就接着做，或用 {do:fresh_iteration}另起一次",
        "This project has an iteration that has not ended, with {field} {value}; leave that out to go on with it, or begin another with {do:fresh_iteration}",
    ),
    "lab_nothing_to_iterate": Text(
        "项目 {project} 的技能没有内容或基线没有用例，没有可以迭代的",
        "The skills of the project {project} are empty, or its baseline has no cases: there is nothing to iterate",
    ),
    "lab_not_run_yet": Text(
        "项目 {project} 还没有得分；先运行它：{do:run_project}",
        "The project {project} has no scores yet; run it first: {do:run_project}",
    ),
    "lab_no_baseline_in_project": Text(
        "项目 {project} 里没有（唯一的）基线 {baseline}",
        "The project {project} has no baseline {baseline}, or more than one",
    ),
    "lab_iteration_ended": Text(
        "这个项目的迭代已经结束，它的 {field} 是 {value}；想多跑几轮请用更大的 {do:max_rounds}，另起一次请用 {do:fresh_iteration}",
        "The iteration of this project has ended, with {field} {value}; for more rounds give a larger {do:max_rounds}, begin another with {do:fresh_iteration}",
    ),
    "lab_iterate_incomplete": Text(
        "项目 {project} 里没有一个技能在所有用例上都有得分，无从比较；先补上失败的：{do:rerun_failed}",
        "No skill of the project {project} has scores for all its cases, so there is nothing to compare with; first rerun what failed: {do:rerun_failed}",
    ),
    "lab_iteration_failing": Text(
        "这一批 {total} 次评测有 {failed} 次失败（{reason}）；搜索停在这里，什么都没有丢，问题解决后再次运行 {do:iterate} 会重做失败的",
        "{failed} of this batch's {total} evaluations failed ({reason}); the search waits here and nothing is lost: once that is mended, {do:iterate} makes the failed ones again",
    ),
    "lab_iteration_drops": Text(
        "迭代的规则只能要求保留片段，不能去掉 {segments}；要去掉它们请用重组（{do:recompose}）",
        "The rules of an iteration can keep segments, not drop {segments}; to drop them, recompose ({do:recompose})",
    ),
    "lab_no_iteration": Text(
        "项目 {project} 还没有迭代；开始：{do:iterate}",
        "The project {project} has no iteration yet; begin one: {do:iterate}",
    ),
    "lab_not_iterating": Text(
        "测试项目 {project} 现在没有在迭代，没有什么要停下；如果它正在运行，请暂停它",
        "The project {project} is not being iterated now, so there is nothing to stop; if it is running, pause it",
    ),
    # --- scoring, analysis, recomposition, leaderboard
    "lab_unknown_segment": Text(
        "没有片段 {segment}；已知的片段：{known}。请改用其中的编号，或重新运行差异分析",
        "There is no segment {segment}; there are: {known}. Use one of these, or run the analysis again",
    ),
    "lab_kept_segment_lost": Text(
        "片段 {segments} 必须原样保留，却不在结果里；没有写入任何内容，请重试或修改保留规则",
        "The segments {segments} have to stay word for word and are not in the result; nothing was written, try again or change the rules",
    ),
    "lab_retention_contradiction": Text(
        "保留规则对片段 {segment} 既要求保留又要求去掉；请只说一种",
        "The retention rules both keep and drop the segment {segment}; say one of the two",
    ),
    "lab_retention_unclear": Text(
        "看不准这条保留规则：“{clause}”。请写成：保留 seg_001；去掉 seg_002",
        "This retention rule is not clear: “{clause}”. Write: keep seg_001; drop seg_002",
    ),
    "lab_dropped_segment_stays": Text(
        "片段 {segments} 应当去掉，却仍在结果里（它与保留的片段重叠，或写作者又写了回来）；请修改保留规则后重试",
        "The segments {segments} were to be dropped and still stand in the result (they overlap kept ones, or the writer put them back); change the rules and try again",
    ),
    "lab_no_segments": Text(
        "项目 {project} 没有可用的优势片段；请先运行差异分析：{do:analyse}",
        "Project {project} has no segments to use; run its analysis first: {do:analyse}",
    ),
    "lab_incomplete_set": Text(
        "{skill_name} 只完成了 {completed} 个用例（失败 {failed}，跳过 {skipped}），与其他技能的用例不同，因此排在后面",
        "{skill_name} completed only {completed} cases ({failed} failed, {skipped} skipped), not the same as the others, so it ranks after them",
    ),
    "lab_nothing_completed": Text(
        "{skill_name} 没有完成任何用例（失败 {failed}，跳过 {skipped}）；请重跑失败的用例",
        "{skill_name} completed no case ({failed} failed, {skipped} skipped); rerun what failed",
    ),
    "lab_no_skill_incomplete": Text(
        "不用 Skill 的对照只完成了 {completed} 个用例（失败 {failed}，跳过 {skipped}）；只在共同完成的用例上与它比较",
        "The arm without a skill completed only {completed} cases ({failed} failed, {skipped} skipped); skills are compared with it on the cases both completed",
    ),
    "lab_no_skill_nothing": Text(
        "不用 Skill 的对照没有完成任何用例（失败 {failed}，跳过 {skipped}），无法与它比较；请重跑失败的用例",
        "The arm without a skill completed no case ({failed} failed, {skipped} skipped), so nothing can be compared with it; rerun what failed",
    ),
    "lab_no_skill_skipped": Text(
        "不用 Skill 的对照没有完成任何用例：{skipped} 个被跳过，没有失败的；提高预算或取消跳过后再运行",
        "The arm without a skill completed no case: {skipped} were skipped and none failed; run again with a larger budget, or undo the skips",
    ),
    "lab_skill_not_shown": Text(
        "{skill_name} 没有给模型看：技能太多或太长；它的片段没有被分析",
        "{skill_name} was not shown to the model: there were too many skills or too much text; its segments were not looked for",
    ),
    "lab_skill_shortened": Text(
        "{skill_name} 太长，模型只看到了开头的 {shown} 个字符",
        "{skill_name} is long; the model saw its first {shown} characters only",
    ),
    "lab_board_skill_gone": Text(
        "技能 {name}（{asset_id}）已不在库中；它的成绩按测试时的版本显示",
        "The skill {name} ({asset_id}) is in the library no more; its scores are shown as of the version tested",
    ),
    "lab_board_baseline_gone": Text(
        "基线 {name}（{asset_id}）已不在库中；它的成绩按测试时的版本显示",
        "The baseline {name} ({asset_id}) is in the library no more; its scores are shown as of the version tested",
    ),
    "lab_board_doubt": Text(
        "项目 {project} 的汇总里有个平均分不等于各维度之和（{reason}）；这里按各维度之和显示",
        "In the summary of the project {project} an average is not the sum of its parts ({reason}); the sum is shown",
    ),
    "lab_board_unreadable": Text(
        "项目 {project} 的成绩无法读取：{reason}；它没有列入排行榜",
        "The scores of project {project} cannot be read: {reason}; it is not on the leaderboard",
    ),
    # --- projects and their runs
    "lab_no_project": Text(
        "没有测试项目 “{project}”；请用 {do:list_projects} 查看有哪些",
        "There is no project '{project}'; see which there are with: {do:list_projects}",
    ),
    "lab_project_ambiguous": Text(
        "“{project}” 对应多个测试项目：{projects}；请写目录名",
        "'{project}' names more than one project: {projects}; give the folder's name",
    ),
    "lab_project_busy": Text(
        "测试项目 {project} 正由进程 {pid} 使用（已等待 {seconds} 秒）；请等它结束，或先暂停它",
        "The project {project} is in use by process {pid} (waited {seconds} s); wait until it ends, or pause it first",
    ),
    "lab_project_idle": Text(
        "测试项目 {project} 现在没有在运行，没有什么要停下",
        "The project {project} is not running now, so there is nothing to stop",
    ),
    "lab_project_nameless": Text("测试项目需要一个名称", "A project needs a name"),
    "lab_project_empty": Text(
        "测试项目至少需要一个 Skill 和一个基线；请各选一个",
        "A project needs at least one skill and one baseline; choose one of each",
    ),
    "lab_project_twice": Text(
        "{kind} {id} 选了两次，或两个的前 8 位相同；结果会混在一起，请只选一个",
        "The {kind} {id} is chosen twice, or two share their first 8 characters: their results would mix; choose one",
    ),
    "lab_baseline_empty": Text(
        "基线 “{baseline}” 没有用例；请先添加用例",
        "The baseline '{baseline}' has no cases; add some first",
    ),
    "lab_bad_project_folder": Text(
        "目录名 “{name}” 不能用作测试项目；请改成字母、数字、_ 和 -，最多 64 个字符",
        "The folder '{name}' cannot be a project; rename it with letters, digits, _ and -, at most 64 of them",
    ),
    "lab_bad_local_path": Text(
        "{file} 里的 local_path “{value}” 不在项目目录之内；请修正该文件",
        "{file}: the local_path '{value}' does not lie in the project's folder; mend the file",
    ),
    "lab_unsafe_id": Text(
        "{what} “{value}” 不能用作文件名；请只用字母、数字、_ 和 -，最多 48 个字符，且不以 x_ 开头",
        "The {what} '{value}' cannot be a file's name; use letters, digits, _ and -, at most 48, not beginning with x_",
    ),
    "lab_no_option": Text(
        "没有选项 “{option}”；可用的有：{options}", "There is no option '{option}'; there are: {options}"
    ),
    "lab_option_fixed": Text(
        "已经有结果，选项 {option} 不能再改，否则分数不可比；请新建一个测试项目",
        "There are results, so {option} stands: scores would not compare; make a new project",
    ),
    "lab_no_task": Text(
        "测试项目 {project} 里没有唯一对应的任务（Skill {skill}，用例 {case}）；请写完整的 id，有多个基线时也写基线",
        "In the project {project} no single task fits (skill {skill}, case {case}); give the whole ids, with several baselines the baseline's, too",
    ),
    "lab_task_completed": Text(
        "Skill “{skill}” 的用例 {case} 已经完成，不能再跳过",
        "The skill '{skill}' has completed the case {case}; it cannot be skipped any more",
    ),
    "lab_run_hopeless": Text(
        "运行已中止，因为其余调用也会同样失败：{reason}；排除原因后继续运行即可，已付的调用不会再付",
        "The run was ended, for every other call would fail alike: {reason}; mend it and run again, nothing that was paid is paid again",
    ),
    "lab_judge_blind": Text(
        "评分模型 {judge} 分不清预先准备的好答案和坏答案，因此不排名：{reason}；至少应相差 {least} 分，实际为 {gap}。请换一个评分模型，或修好后用 rerun_failed 重测",
        "The judge {judge} cannot tell planted good answers from bad ones, so nothing is ranked: {reason}; the gap is {gap} and should be {least} at least. Choose another judge, or test it anew with rerun_failed once it is mended",
    ),
    "lab_control_failed": Text(
        "评分模型 {judge} 没有通过预测试：调用失败（{reason}）；请排除原因后继续运行",
        "The judge {judge} could not be tested: its call failed ({reason}); mend it and run again",
    ),
    # --- what the doctor finds
    "lab_doctor_broken": Text("无法读取：{reason}", "cannot be read: {reason}"),
    "lab_doctor_broken_remedy": Text("请修正它，或从备份恢复", "mend it, or restore it from a backup"),
    "lab_doctor_field": Text("字段 {field} 不对：{reason}", "the field {field} is wrong: {reason}"),
    "lab_doctor_field_remedy": Text("请修正它，或从备份恢复", "mend it, or restore it from a backup"),
    "lab_doctor_doubt": Text("自相矛盾：{field}：{reason}", "it contradicts itself: {field}: {reason}"),
    "lab_doctor_doubt_remedy": Text(
        "可以照常使用，以实际内容为准；想改的话请改正这个字段",
        "it can be used as it is, what is really there holds; correct the field if you like",
    ),
    "lab_doctor_line": Text("这一行不是一次调用的记录：{reason}", "the line is wrong: {reason}"),
    "lab_doctor_line_remedy": Text(
        "这次调用没有计入开销；请修正或删去这一行",
        "its call is not accounted for; mend the line or take it out",
    ),
    "lab_doctor_running": Text(
        "项目标为 running，但没有进程在运行它", "the project is said to be running, and nobody runs it"
    ),
    "lab_doctor_progress": Text(
        "progress 与结果文件不符；实际（完成+失败/总数）：{found}",
        "progress is not what the results say (completed+failed/total): {found}",
    ),
    "lab_doctor_spool": Text(
        "{count} 次调用的文件已不再需要：回答已存入用例的文件",
        "the files of {count} calls are no longer needed: their answers stand with their cases",
    ),
    "lab_doctor_expired": Text(
        "会话已于 {expires_at} 到期，记录还没有更新（状态：{status}）",
        "the session expired at {expires_at}, but its record was not updated (status: {status})",
    ),
    "lab_doctor_busy": Text("项目正在运行，无法修复", "the project is being run, so it was not repaired"),
    "lab_doctor_busy_remedy": Text(
        "等它结束，或用 {do:pause_project} 暂停，然后再试",
        "wait for it or pause it with {do:pause_project}, then try again",
    ),
    # --- money, and work that was left
    "lab_price_unknown": Text(
        "没有人知道 {models} 每次调用的价格，所以 --max-usd 管不住花费，而这里又无法询问；请改用 --max-calls，或加 --yes",
        "Nobody tells what a call of {models} costs, so --max-usd bounds nothing, and nobody can be asked here; use --max-calls, or add --yes",
    ),
    "lab_left_off": Text(
        "已中断：已得到的回答和评分都保留着，不会再付一次；正在进行的调用已放弃。继续：{command}",
        "Interrupted: every answer and score so far is kept and not paid for again; calls under way were given up. Go on with: {command}",
    ),
    # --- what was given to a command
    "lab_bad_option": Text(
        "{field} 的值不可用：{reason}；请改正后再试",
        "The value of {field} cannot be used: {reason}; mend it and try again",
    ),
    "lab_not_skipped": Text(
        "{skill} 的用例 {case} 没有被跳过，不需要取消",
        "The case {case} of {skill} is not skipped, so there is nothing to undo",
    ),
    "lab_only_skipped": Text(
        "{skill_name} 没有完成任何用例：{skipped} 个被跳过，没有失败的；提高预算或取消跳过后再运行",
        "{skill_name} completed no case: {skipped} were skipped and none failed; run again with a larger budget, or undo the skips",
    ),
}
