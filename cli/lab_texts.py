"""Terminal texts of the skill lab, in Chinese and in English."""

from __future__ import annotations

from personalab.texts import Text

LAB_TEXTS: dict[str, Text] = {
    # --- which one is meant
    "lab_which_skill": Text(
        "没有技能 “{word}”；请给出 ID、ID 的前几位（至少 4 位）或完整名称：personalab lab skills",
        "There is no skill '{word}'; give its id, its first 4 characters at least, or its name: "
        "see personalab lab skills",
    ),
    "lab_which_baseline": Text(
        "没有基线 “{word}”；请给出 ID、ID 的前几位（至少 4 位）或完整名称：personalab lab baselines",
        "There is no baseline '{word}'; give its id, its first 4 characters at least, or its name: "
        "see personalab lab baselines",
    ),
    "lab_which_asset": Text(
        "没有叫 “{word}” 的技能或基线；查看：personalab lab skills，personalab lab baselines",
        "There is no skill and no baseline '{word}'; see personalab lab skills and personalab lab baselines",
    ),
    "lab_which_kind": Text(
        "“{word}” 既是技能又是基线；请加 --kind skill 或 --kind baseline",
        "'{word}' is both a skill and a baseline; add --kind skill or --kind baseline",
    ),
    "lab_which_project": Text(
        "没有项目 “{word}”；请给出文件夹名、ID、ID 的前几位（至少 4 位）或完整名称：personalab lab projects",
        "There is no project '{word}'; give its folder's name, its id, its first 4 characters at least, or its name: "
        "see personalab lab projects",
    ),
    # --- what is refused
    "lab_need_content": Text(
        "请用 --content 或 --file 给出提示词（--content - 读标准输入）",
        "Give the prompt with --content or --file (--content - reads stdin)",
    ),
    "lab_nothing_given": Text(
        "没有要修改的内容；请至少给出一个选项", "Nothing is to be changed; give an option at least"
    ),
    "lab_one_name": Text("--name 只能用于一个文件", "--name is for one path only"),
    "lab_tags_or_all": Text(
        "请给出标签，或用 --all 表示全部（二选一）", "Name the tags, or give --all, one of the two"
    ),
    "lab_drafts_or_all": Text(
        "请给出草稿编号，或用 --all 表示全部（二选一）", "Name the drafts, or give --all, one of the two"
    ),
    "lab_no_pending": Text("“{name}” 没有待定的标签", "'{name}' has no tags that wait"),
    "lab_bad_cases": Text(
        '{file} 不是用例列表；应为 [{{"name": …, "input": …, "expected_output": …}}] 或含 cases 的对象',
        '{file} is no list of cases; write [{{"name": …, "input": …, "expected_output": …}}] or an object with cases',
    ),
    "lab_no_setting": Text(
        "没有设置 “{name}”；有：{known}", "There is no setting '{name}'; there are: {known}"
    ),
    "lab_bad_setting": Text(
        "{name} 不能是 “{value}”；可用：{known}", "{name} cannot be '{value}'; use: {known}"
    ),
    "lab_bad_seeds": Text(
        "“{text}” 不是随机种子；请写成 0-39 或 1,2,5，至多 1000 个",
        "'{text}' are no seeds; write 0-39 or 1,2,5, at most 1000 of them",
    ),
    "lab_bad_choice": Text(
        "{option} 没有 “{value}”；有：{known}", "{option} has no '{value}'; there are: {known}"
    ),
    "lab_no_folder": Text("没有文件夹 {folder}；请先建立它", "There is no folder {folder}; make it first"),
    "lab_say_yes": Text(
        "模型 {models} 可能会花钱，而这里无法询问；请加 --yes，或用 --max-calls / --max-usd 给出预算",
        "{models} may cost money and nobody can be asked here; add --yes, or a budget (--max-calls, --max-usd)",
    ),
    "lab_iterate_say_yes": Text(
        "模型 {models} 可能会花钱，而这里无法询问；请加 --yes，或用 --max-evaluations 或 --max-calls 给出上限",
        "{models} may cost money and nobody can be asked here; add --yes, or give a limit with --max-evaluations "
        "or --max-calls",
    ),
    # --- assets
    "lab_archived": Text(" 已归档", " archived"),
    "lab_no_skills": Text(
        "没有这样的技能；可以装入示例：personalab lab samples",
        "No such skills; bring the samples: personalab lab samples",
    ),
    "lab_no_baselines": Text(
        "没有这样的基线；可以装入示例：personalab lab samples",
        "No such baselines; bring the samples: personalab lab samples",
    ),
    "lab_samples_here": Text("示例都已经在这里了", "All samples are here already"),
    "lab_tested": Text(
        "最高 {best} 分，测试 {count} 次，{staleness}", "best {best}, tested {count} times, {staleness}"
    ),
    "lab_current": Text("最新", "current"),
    "lab_skill_updated": Text("技能已更新", "skill updated since"),
    "lab_baseline_updated": Text("基线已更新", "baseline updated since"),
    "lab_both_updated": Text("技能和基线都已更新", "skill and baseline updated since"),
    "lab_scoreless": Text("没有得分", "no scores"),
    "lab_made_of": Text("由 {sources} 重组而成（项目 {project}）", "Made of {sources} (project {project})"),
    "lab_doubtful": Text("自相矛盾：{reason}", "It contradicts itself: {reason}"),
    "lab_no_difference": Text(
        "{before} 与 {after} 的内容没有差别", "{before} and {after} have the same content"
    ),
    "lab_made_skill": Text(
        "已保存技能 {name}（{asset_id}，{version}）", "Kept the skill {name} ({asset_id}, {version})"
    ),
    "lab_made_baseline": Text(
        "已保存基线 {name}（{asset_id}，{version}）", "Kept the baseline {name} ({asset_id}, {version})"
    ),
    "lab_edited": Text("{name} 现在是 {version}", "{name} is {version} now"),
    "lab_unchanged": Text(
        "{name} 没有变化，仍是 {version}", "Nothing of {name} changed; it is still {version}"
    ),
    "lab_put_away": Text("已归档 {name}", "Put {name} away"),
    "lab_brought_back": Text("已恢复 {name}", "Brought {name} back"),
    "lab_recomposed": Text(
        "已重组出技能 {name}（{asset_id}，{version}）", "Made the skill {name} ({asset_id}, {version})"
    ),
    "lab_retention": Text(
        "规则这样理解：保留 {kept}；去掉 {dropped}",
        "The rules were understood so: keep {kept}; drop {dropped}",
    ),
    "lab_outcome_created": Text("新增", "new"),
    "lab_outcome_updated": Text("更新", "updated"),
    "lab_outcome_same": Text("相同", "same"),
    "lab_kind_skill": Text("技能", "skill"),
    "lab_kind_baseline": Text("基线", "baseline"),
    "lab_character_made": Text(
        "已用 {name} 新建角色 {character}", "Made the character {character} of {name}"
    ),
    "lab_character_changed": Text(
        "角色 {character} 的人设已换成 {name}", "The character {character} is {name} now"
    ),
    # --- tags
    "lab_no_tags": Text("（没有标签）", "(no tags)"),
    "lab_tag_pending": Text("待定", "waits"),
    "lab_tag_approved": Text("已接受", "accepted"),
    "lab_tag_rejected": Text("已拒绝", "refused"),
    "lab_tagging": Text("正在为 {name} 提议标签…", "Proposing tags for {name}…"),
    "lab_tagging_failed": Text("{asset_id} 没有得到标签：{message}", "{asset_id} got no tags: {message}"),
    "lab_all_tagged": Text("没有缺少标签的", "None is without tags"),
    "lab_approve_them": Text(
        "接受：personalab lab tag approve {asset_id} --all",
        "Accept them: personalab lab tag approve {asset_id} --all",
    ),
    # --- baselines
    "lab_cases": Text("{count} 个用例", "{count} cases"),
    "lab_standard": Text("常规", "standard"),
    "lab_boundary": Text("边界", "boundary"),
    "lab_exception": Text("异常", "exception"),
    "lab_case_added": Text(
        "已添加 {case_id}；{name} 现在是 {version}", "Added {case_id}; {name} is {version} now"
    ),
    "lab_drafting": Text("正在为 {name} 起草用例…", "Drafting cases for {name}…"),
    "lab_drafts_wait": Text(
        "{count} 个草稿待审核；采用：personalab lab baseline accept {asset_id} --all",
        "{count} drafts wait for review; accept them: personalab lab baseline accept {asset_id} --all",
    ),
    "lab_repeated": Text(
        "{count} 个与已有的重复，没有保留", "{count} repeated what is there and were not kept"
    ),
    "lab_no_drafts": Text("没有待审核的草稿", "No drafts wait for review"),
    # --- projects
    "lab_project_made": Text(
        "已建立项目 {project}：{tasks}，模型 {model}；估算：personalab lab plan {project}",
        "Made the project {project}: {tasks}, with {model}; what it takes: personalab lab plan {project}",
    ),
    "lab_tasks": Text("{count} 项任务", "{count} tasks"),
    "lab_tasks_and_idle": Text(
        "{count} 项任务，另有 {idle} 项不用技能", "{count} tasks and {idle} without a skill"
    ),
    "lab_idle_left": Text("（另有 {idle} 项不用技能）", " (and {idle} tasks without a skill)"),
    "lab_idle_within": Text("其中 {idle} 项不用技能", "{idle} of them are the tasks without a skill"),
    "lab_no_projects": Text(
        "还没有项目；新建：personalab lab project new",
        "There are no projects; make one: personalab lab project new",
    ),
    "lab_unread_asset": Text("{name} 读不了：{reason}", "{name} cannot be read: {reason}"),
    "lab_unread_project": Text(
        "{name} 不是可读的项目：{reason}", "{name} is no project that can be read: {reason}"
    ),
    "lab_status_pending": Text("未运行", "not run"),
    "lab_status_running": Text("运行中", "running"),
    "lab_status_completed": Text("已完成", "completed"),
    "lab_status_interrupted": Text("已中断", "interrupted"),
    "lab_progress": Text(
        "{bar} 完成 {completed_tasks}/{total_tasks}，失败 {failed_tasks}，剩余 {left}",
        "{bar} {completed_tasks}/{total_tasks} completed, {failed_tasks} failed, {left} left",
    ),
    "lab_made_by": Text(
        "模型 {model}，评分 {judges}；{calls} 次调用，花费 {spent}",
        "Model {model}, judged by {judges}; {calls} calls, {spent} spent",
    ),
    "lab_run_it": Text("运行：personalab lab run {project}", "Run it: personalab lab run {project}"),
    "lab_unreal": Text(
        "这些结果出自替身（{versions}），不是真实模型",
        "These results are of a stand-in ({versions}), not of a real model",
    ),
    "lab_gain": Text("比无技能 {gain}", "{gain} over no skill"),
    "lab_no_skill_arm": Text("（无技能）", "(no skill)"),
    "lab_ties": Text("= 表示并列：各自的区间重叠", "= are ties: their intervals overlap"),
    "lab_paired": Text(
        "逐个用例比较，{first} 比 {other} 高 {gap} 分（{low} 到 {high}）",
        "Compared case by case, {first} leads {other} by {gap} ({low} to {high})",
    ),
    "lab_detectable": Text(
        "逐个用例比较时，这些用例能分辨的最小差距约 {points} 分",
        "Compared case by case, the least difference these cases can show is about {points} points",
    ),
    "lab_counts": Text(
        "完成 {completed} 失败 {failed} 跳过 {skipped}", "{completed} done {failed} failed {skipped} skipped"
    ),
    "lab_plan": Text(
        "{tasks}，已完成 {done}；还要调用 {calls} 次"
        "（执行 {execute_calls}，评分 {judge_calls}，检验评分 {control_calls}）"
        "，约 {input_tokens} 输入 + {output_tokens} 输出 token，费用 {cost}（估计，不含重试）"
        "；已调用 {calls_made} 次，花费 {spent}",
        "{tasks}, {done} done; {calls} calls are left "
        "({execute_calls} to execute, {judge_calls} to judge, {control_calls} to test the judges), "
        "about {input_tokens} tokens in and {output_tokens} out, cost {cost} (estimated, retries come on top); "
        "{calls_made} calls made, {spent} spent",
    ),
    "lab_unknown_money": Text("未知", "unknown"),
    "lab_budget": Text("预算：调用 {calls}，花费 {usd}", "Budget: {calls} calls, {usd}"),
    "lab_over_budget": Text(
        "预算不够（调用 {calls}，花费 {usd}）：剩下的会被跳过，以后可以提高预算继续",
        "The budget does not suffice ({calls} calls, {usd}): the rest is left out, and can be done with a larger one",
    ),
    "lab_skipped": Text("已跳过 {skill} 的 {case}", "{case} of {skill} is left out"),
    "lab_unskipped": Text("{skill} 的 {case} 会再运行", "{case} of {skill} will be run again"),
    # --- running
    "lab_ask_spend": Text(
        "模型 {models} 可能会花钱。运行吗？[y/N]", "{models} may cost money. Run it? [y/N]"
    ),
    "lab_not_run": Text("没有运行", "Nothing was run"),
    "lab_stage_controls": Text("检验评分", "controls"),
    "lab_stage_execute": Text("执行", "execute"),
    "lab_stage_judge": Text("评分", "judge"),
    "lab_round": Text("第 {number} 轮", "round {number}"),
    "lab_failed_so_far": Text(" 失败 {count}", " {count} failed"),
    "lab_run_done": Text(
        "已完成 {completed}/{total}，失败 {failed}，跳过 {skipped}，花费 {cost}",
        "{completed}/{total} completed, {failed} failed, {skipped} left out, {cost} spent",
    ),
    "lab_run_interrupted": Text(
        "已中断：完成 {completed}/{total}，失败 {failed}，跳过 {skipped}，花费 {cost}"
        "；继续：personalab lab resume {project}",
        "Interrupted: {completed}/{total} completed, {failed} failed, {skipped} left out, {cost} spent; "
        "go on with: personalab lab resume {project}",
    ),
    "lab_run_budget": Text(
        "预算用完：完成 {completed}/{total}，失败 {failed}，跳过 {skipped}，花费 {cost}"
        "；提高上限后继续：personalab lab run {project} {limits}（none 表示不限）",
        "Out of budget: {completed}/{total} completed, {failed} failed, {skipped} left out, {cost} spent; "
        "go on with a higher limit, or none: personalab lab run {project} {limits}",
    ),
    "lab_budget_used": Text("预算已用完：{reason}", "The budget is used up: {reason}"),
    "lab_after_run": Text(
        "报告：personalab lab report {project}；差异分析：personalab lab analyse {project}",
        "Its report: personalab lab report {project}; why they differ: personalab lab analyse {project}",
    ),
    "lab_checked": Text(
        "及格分 {least}：通过 {passed}，不及格 {failure}，出错 {error}，没有结果 {skipped}",
        "Pass score {least}: {passed} passed, {failure} failed, {error} could not be run, {skipped} have no result",
    ),
    "lab_paused": Text("{project} 已停下", "{project} has stopped"),
    "lab_stopping": Text(
        "{project} 会在进行中的调用结束后停下", "{project} will stop when the calls under way have ended"
    ),
    # --- what came of it
    "lab_analysing": Text("正在分析 {project}…", "Analysing {project}…"),
    "lab_best": Text(
        "最好的是 {name}（{skill_id}）；各维度领先者：",
        "The best is {name} ({skill_id}); who leads in each dimension:",
    ),
    "lab_functional_correctness": Text("功能正确性", "functional correctness"),
    "lab_robustness": Text("健壮性", "robustness"),
    "lab_readability": Text("可读性", "readability"),
    "lab_conciseness": Text("简洁性", "conciseness"),
    "lab_complexity_control": Text("复杂度控制", "complexity control"),
    "lab_format_compliance": Text("格式遵循", "format compliance"),
    "lab_no_segments_found": Text("模型没有指出可用的片段", "The model named no segments that can be used"),
    "lab_after_analysis": Text(
        "重组：personalab lab recompose {project}；迭代：personalab lab iterate {project}",
        "Make a skill of them: personalab lab recompose {project}; search on: personalab lab iterate {project}",
    ),
    "lab_recomposing": Text("正在重组 {project}…", "Recomposing {project}…"),
    # --- iterating
    "lab_iterate_bound": Text(
        "至多 {evaluations} 次评估，每次 {calls_each} 次调用，共至多 {calls} 次调用（不含重试）；已调用 {made} 次",
        "At most {evaluations} evaluations of {calls_each} calls, {calls} calls in all (retries come on top); "
        "{made} calls made so far",
    ),
    "lab_screened_only": Text("只筛选，没有候选晋级", "screened only, nothing was promoted"),
    "lab_iterated": Text(
        "{round} 轮，共 {evaluations} 次评估；结束原因：{cause}",
        "{round} rounds on {evaluations} evaluations; ended by {cause}",
    ),
    "lab_cause_threshold": Text("达到目标分", "reaching the score that was asked for"),
    "lab_cause_max_rounds": Text("轮数用完", "the last round"),
    "lab_cause_budget": Text("预算用完", "the budget"),
    "lab_cause_plateau": Text("不再有提高", "a plateau"),
    "lab_cause_exhausted": Text("没有新的组合", "having tried everything"),
    "lab_cause_manual": Text("人工停止", "a person"),
    "lab_cause_error": Text("出错", "an error"),
    "lab_estimated": Text(
        "没有复测；估计为 {score}，区间 [{low}, {high}]",
        "It was not tested again; by estimate it is about {score}, between {low} and {high}",
    ),
    "lab_corrected": Text(
        "复测后的估计：{score}，区间 [{low}, {high}]",
        "After the re-test it is about {score}, between {low} and {high}",
    ),
    "lab_winner": Text(
        "胜者已存入库：personalab lab skill show {skill_id}",
        "The winner is in the library: personalab lab skill show {skill_id}",
    ),
    "lab_no_winner": Text(
        "没有候选胜过原来的技能；库没有变化",
        "No candidate was better than the originals; the library is as it was",
    ),
    "lab_iterating_now": Text("{project} 正在运行", "{project} is running right now"),
    "lab_iteration_open": Text(
        "迭代没有结束；继续：personalab lab iterate {project}",
        "The search has not ended; go on with: personalab lab iterate {project}",
    ),
    "lab_iteration_over": Text(
        "这次迭代早已结束，什么都没有做；要更多轮：personalab lab iterate {project} --rounds N（比原来多），"
        "另起一次：personalab lab iterate {project} --fresh",
        "The search had ended before and nothing was done; for more rounds: personalab lab iterate {project} "
        "--rounds N (more than it had), for another search: personalab lab iterate {project} --fresh",
    ),
    "lab_plateau": Text("平台 {level}", "plateau {level}"),
    # --- leaderboard, settings, bench
    "lab_board_empty": Text("还没有成绩；先运行一个项目", "There are no scores yet; run a project first"),
    "lab_board_skills": Text("{count} 个技能", "{count} skills"),
    "lab_program_found": Text("（在 {path}）", " (found at {path})"),
    "lab_program_missing": Text(
        "（找不到；安装它，或改成它的位置：personalab lab cli set cli_path /路径/claude）",
        " (not found; install it, or tell where it is: personalab lab cli set cli_path /somewhere/claude)",
    ),
    "lab_project_model": Text(
        "这里用哪个模型由项目决定（{models}），与 PERSONALAB_MODEL 无关；换模型请新建项目：personalab lab project new … --model MODEL",
        "Here the project says which models are used ({models}), not PERSONALAB_MODEL; for others make a project: "
        "personalab lab project new … --model MODEL",
    ),
    "lab_no_sessions": Text("没有临时会话", "There are no temporary sessions"),
    "lab_expired": Text("{count} 个会话已过期", "{count} sessions have expired"),
    "lab_benching": Text("测量 {bar} {done}/{total}", "Measuring {bar} {done}/{total}"),
    "lab_figures": Text("规格里的指标：", "The figures of the specification:"),
    "lab_met": Text("达到", "met"),
    "lab_not_met": Text("未达到", "not met"),
    "lab_not_measured": Text("未测量", "not measured"),
    "lab_figure": Text("要求 {goal}，测得 {measured}", "asked for {goal}, measured {measured}"),
}
