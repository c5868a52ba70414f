"""Texts of the MCP server about the skill lab, in Chinese and in English."""

from __future__ import annotations

from personalab.texts import Text

LAB_INSTRUCTIONS = Text(
    """
技能实验室（skill_*、baseline_*、project_* 等）：找出哪个提示词更好、为什么，并做出更好的。
- 用 skill_save 存提示词（“技能”），用 baseline_save 存测试用例（可用 generate 起草，问过用户再 accept），用 project_create 选技能和基线，再用 project_run 运行：它先给出调用次数和费用的计划；把计划给用户看，用户同意后再加 confirm=true（或给 max_calls / max_usd）。
- 运行属于服务器：调用超时或取消不会丢失任何东西，运行继续；用 project_status 看进度，再调用 project_run 会接着跟随。
- 得分后：analysis_run 找出优势片段，skill_recompose 用片段做出新技能，iteration_start 自动搜索更好的组合；leaderboard_query 看历次成绩。结果是 awaiting_answer 时由你按提示词写 JSON，加 answer 再调用。
- 结果里说是替身（rehearsal、fake）时，分数不是真的：要告诉用户。""",
    """
The skill lab (skill_*, baseline_*, project_*, …) finds out which prompt is better and why, and makes a better one.
- Keep prompts ("skills") with skill_save and test cases with baseline_save (generate drafts some; ask the user before accept), choose skills and baselines with project_create, then project_run: it first returns a plan of calls and cost. Show the user the plan, and call again with confirm=true only once they agree (or give max_calls / max_usd).
- A run belongs to the server: a call that times out or is cancelled loses nothing and the run goes on. project_status tells how far it is; project_run again follows it.
- With scores: analysis_run finds the segments that do it, skill_recompose makes a new skill of them, iteration_start searches for a better combination; leaderboard_query shows all tests. If a result is awaiting_answer, you write the JSON its prompt asks for and call again with answer.
- Where a result says that a stand-in (rehearsal, fake) answered, its scores are not real: say so to the user.""",
)
"""What is added where these tools are there."""

LAB_TITLES = {
    "skill_list": Text("技能列表", "List skills"),
    "skill_get": Text("查看技能", "Show a skill"),
    "skill_save": Text("保存或导入技能", "Save or import a skill"),
    "skill_tag": Text("给技能或基线打标签", "Tag a skill or baseline"),
    "baseline_list": Text("基线列表", "List baselines"),
    "baseline_get": Text("查看基线", "Show a baseline"),
    "baseline_save": Text("保存基线和用例", "Save a baseline and its cases"),
    "project_create": Text("新建测试项目", "Make a test project"),
    "project_run": Text("运行测试项目", "Run a test project"),
    "project_status": Text("测试项目的进展", "How test projects stand"),
    "project_report": Text("测试报告", "Report a test project"),
    "analysis_run": Text("差异分析", "Analyse what makes skills better"),
    "skill_recompose": Text("用片段重组技能", "Make a skill of segments"),
    "iteration_start": Text("搜索更好的技能", "Search for a better skill"),
    "iteration_stop": Text("结束搜索", "End a search"),
    "leaderboard_query": Text("排行榜", "Leaderboard"),
}

LAB_DESCRIPTIONS = {
    "skill_list": "List the skills (prompts) of the lab with tags and best scores. Use it to find ids.",
    "skill_get": "Show a skill: content (paged), tags, versions, where it comes from, or what changed.",
    "skill_save": "Keep a new skill (name, content, purpose), change one (each change is a new version), archive it, or import one.",
    "skill_tag": "Add or remove a tag, let a model propose some (auto), approve or reject a proposed one. If awaiting_answer: write the JSON its prompt asks for, call again with answer.",
    "baseline_list": "List the baselines (sets of test cases). Use it to find ids.",
    "baseline_get": "Show a baseline's cases and the drafts that wait for review.",
    "baseline_save": "Keep a baseline (name, purpose, cases), change it or its cases, let a model draft cases (generate), accept or reject drafts. If awaiting_answer: write the JSON its prompt asks for, call again with answer.",
    "project_create": "Choose skills and baselines to test; returns what a run would take. Costs nothing yet.",
    "project_run": "Run or resume a project: returns the plan first if it may cost money. The run goes on if this call times out: follow it with project_status or by calling again.",
    "project_status": "List projects, or show how one stands: progress, ranking with intervals and ties, its plan, analysis or search.",
    "project_report": "Write a project's report into the folder exchange: html for people, junit for CI, csv for every case.",
    "analysis_run": "Find the segments that make the better skills of a project better; use it after a run. If awaiting_answer: write the JSON its prompt asks for, call again with answer.",
    "skill_recompose": "Make a new skill of a project's segments; kept ones stay word for word. If awaiting_answer: write the JSON its prompt asks for, call again with answer.",
    "iteration_start": "Search for a better skill out of a project's segments, or go on with a search: returns the plan first if it may cost money. It goes on if this call times out.",
    "iteration_stop": "End a project's search; the best so far is kept.",
    "leaderboard_query": "Show how skills did on baselines over all projects, and which scores are out of date.",
}

LAB_TEXTS: dict[str, Text] = {
    # --- lists
    "lab_skills": Text("{count} 个技能", "{count} skills"),
    "lab_no_skills": Text(
        "用 skill_save 存一个，或在终端运行 personalab lab samples 安装样例",
        "Keep one with skill_save, or install the samples in a terminal: personalab lab samples",
    ),
    "lab_baselines": Text("{count} 个基线", "{count} baselines"),
    "lab_cases": Text("{count} 个用例", "{count} cases"),
    "lab_projects": Text("{count} 个测试项目", "{count} projects"),
    "lab_board": Text("{count} 项成绩", "{count} tests"),
    "lab_more": Text("（还有更多：cursor={cursor}）", "(there is more: cursor={cursor})"),
    "lab_cases_cut": Text(
        "（长文本只显示开头：baseline_get(baseline_id={baseline_id}, case_id=…) 显示全文）",
        "(long texts show their beginning only: baseline_get(baseline_id={baseline_id}, case_id=…) shows one whole)",
    ),
    "lab_same_content": Text("（内容没有变化）", "(the content did not change)"),
    "lab_content_cut": Text(
        "（内容只显示开头：skill_get(skill_id={skill_id}) 显示全文）",
        "(its beginning only: skill_get(skill_id={skill_id}) shows all of it)",
    ),
    # --- what is refused
    "lab_not_with": Text(
        "和 {use} 一起用时，{names} 不起作用；请去掉", "With {use}, {names} would do nothing; leave that out"
    ),
    "lab_only_there": Text(
        "{names} 只用于已有的：请用 {use} 说明是哪一个，或去掉",
        "{names} is for one that is there already: name it with {use}, or leave that out",
    ),
    # --- what was saved
    "lab_created": Text("已新建 {kind} {id} {name} {version}", "Made the {kind} {id} {name} {version}"),
    "lab_updated": Text("已保存 {kind} {id} {name} {version}", "Saved the {kind} {id} {name} {version}"),
    "lab_same": Text(
        "没有变化：{kind} {id} {name} {version}", "Nothing changed: {kind} {id} {name} {version}"
    ),
    "lab_case_refused": Text(
        "第 {number} 个用例没有保存（之前的 {done} 个已保存）：{reason}",
        "Case number {number} was not saved ({done} before it were): {reason}",
    ),
    "lab_tags": Text("{name} 的标签：{tags}", "Tags of {name}: {tags}"),
    "lab_tags_wait": Text("等待审核（approve 或 reject）：{tags}", "Waiting for approve or reject: {tags}"),
    "lab_drafts_wait": Text(
        "{count} 个草稿等待审核：问过用户后用 baseline_save 的 accept 或 reject",
        "{count} drafts wait for review: ask the user, then baseline_save with accept or reject",
    ),
    # --- projects
    "lab_project_made": Text(
        "已新建测试项目 {project}：{tasks} 个任务，模型 {model}",
        "Made the project {project}: {tasks} tasks, model {model}",
    ),
    "lab_plan": Text(
        "计划：还要 {calls} 次调用（执行 {execute_calls}，评分 {judge_calls}，检验评分者 {control_calls}），约 {input_tokens} + {output_tokens} token，费用 {cost}；已完成 {done}/{tasks}，已用 {calls_made} 次、{spent}",
        "Plan: {calls} calls are left ({execute_calls} to execute, {judge_calls} to judge, {control_calls} to test the judges), about {input_tokens} + {output_tokens} tokens, cost {cost}; {done} of {tasks} tasks are done, {calls_made} calls and {spent} were used",
    ),
    "lab_within": Text("限额：{calls} 次调用，{usd} 美元", "Limit: {calls} calls, {usd} US dollars"),
    "lab_over": Text(
        "限额 {calls} 次调用、{usd} 美元不够：剩下的会标为跳过",
        "The limit of {calls} calls and {usd} US dollars does not suffice: the rest will be skipped",
    ),
    "lab_confirm": Text(
        "这会花钱，还没有开始。把计划给用户看；用户同意后用同样的参数加 confirm=true 再调用，或给出限额",
        "This may cost money and has not begun. Show the user the plan; once they agree, call again with the same arguments and confirm=true, or give a limit",
    ),
    "lab_search_plan": Text(
        "搜索至多约 {evaluations} 次评估，每次 {calls_each} 次调用，共至多约 {calls} 次（模型 {models}）；max_evaluations 可以限制它",
        "The search takes at most about {evaluations} evaluations of {calls_each} calls each, {calls} calls in all (models: {models}); max_evaluations limits it",
    ),
    "lab_runs_on": Text(
        "{project} 正在运行：用 project_status 看进度",
        "{project} is running: project_status tells how far it is",
    ),
    "lab_is_searched": Text(
        "{project} 正在搜索更好的技能；请等它结束，或先用 iteration_stop",
        "A search is running in {project}; wait for its end, or use iteration_stop first",
    ),
    "lab_is_run": Text(
        "{project} 正在运行测试；请等它结束，或先用 project_run(pause=true)",
        "{project} is being run; wait for its end, or use project_run(pause=true) first",
    ),
    "run_cancelled": Text(
        "服务器正在关闭，{project} 的运行已中断；已完成的不会丢失，再调用一次就接着做",
        "The server is shutting down and the run of {project} was interrupted; what is done is kept, call again to go on",
    ),
    "stage.execute": Text("执行", "executing"),
    "stage.judge": Text("评分", "judging"),
    "stage.controls": Text("检验评分者", "testing the judges"),
    "run_step": Text("{stage} {done}/{total}", "{stage} {done} of {total}"),
    "run_round": Text("第 {number} 轮：{step}", "round {number}: {step}"),
    "run_failed": Text("，失败 {count}", ", {count} failed"),
    "lab_run_done": Text(
        "{project} 已完成：共 {total}，完成 {completed}，失败 {failed}，跳过 {skipped}，花费 {cost}",
        "{project} is done: {completed} of {total} completed, {failed} failed, {skipped} skipped, {cost} spent",
    ),
    "lab_run_interrupted": Text(
        "{project} 没有全部完成：共 {total}，完成 {completed}，失败 {failed}，花费 {cost}；再调用 project_run 就接着做",
        "{project} is not whole: {completed} of {total} completed, {failed} failed, {cost} spent; project_run again goes on",
    ),
    "lab_budget_used": Text(
        "限额已用完（{reason}）；给出更高的 max_calls 或 max_usd 再运行",
        "The limit is used up ({reason}); run again with a higher max_calls or max_usd",
    ),
    "lab_now_stopping": Text(
        "{project} 正在停下：等正在进行的调用结束", "{project} is stopping: calls under way come to their end"
    ),
    "lab_now_interrupted": Text(
        "{project} 已暂停；project_run 接着做", "{project} is paused; project_run goes on with it"
    ),
    "lab_now_done": Text("{project} 已经完成", "{project} had come to its end"),
    "lab_now_pending": Text("{project} 还没有运行", "{project} has not been run"),
    "lab_now_running": Text("{project} 正在运行", "{project} is running"),
    "lab_search_stopping": Text(
        "{project} 的搜索正在停下：等正在进行的调用结束；iteration_start 接着做",
        "The search in {project} is stopping: calls under way come to their end; iteration_start goes on with it",
    ),
    "lab_search_interrupted": Text(
        "{project} 的搜索已暂停；iteration_start 接着做",
        "The search in {project} is paused; iteration_start goes on with it",
    ),
    "lab_search_done": Text(
        '{project} 的搜索已经结束：project_status(show="iteration") 查看结果',
        'The search in {project} had come to its end: project_status(show="iteration") tells how',
    ),
    "lab_now_skipped": Text(
        "这个用例以后的运行都不做（{project}）", "The case is left out of the next runs of {project}"
    ),
    "lab_now_open": Text("这个用例又会运行（{project}）", "The case takes part again in {project}"),
    "lab_standing": Text(
        "{name}（{project}）：{status}，{completed_tasks}/{total_tasks} 完成，{failed_tasks} 失败，模型 {model}，{calls_made} 次调用，花费 {spent}",
        "{name} ({project}): {status}, {completed_tasks} of {total_tasks} completed, {failed_tasks} failed, model {model}, {calls_made} calls, {spent} spent",
    ),
    "lab_counts": Text(
        "{completed} 完成，{failed} 失败，{skipped} 跳过",
        "{completed} completed, {failed} failed, {skipped} skipped",
    ),
    "lab_ties": Text("= 表示分不出高下", "= cannot be told apart"),
    "lab_unreal": Text(
        "注意：回答来自替身（{versions}），分数不是真的",
        "Note: a stand-in answered ({versions}); the scores are not real",
    ),
    "lab_reported": Text(
        "报告在数据目录的 {folder}/{name}（{size} 字节）；{not_passed} 个结果没有通过",
        "The report lies in the data root's {folder}/{name} ({size} bytes); {not_passed} results did not pass",
    ),
    # --- what was found out
    "lab_best": Text("最好：{name}（{id}）", "Best: {name} ({id})"),
    "lab_leaders": Text("各维度领先：{leaders}", "Leaders by dimension: {leaders}"),
    "lab_no_segments_yet": Text("没有找到优势片段", "No segments were found"),
    "lab_segments_left": Text(
        "（另有 {count} 个片段没有显示：见 project_report）", "({count} more segments: see project_report)"
    ),
    "lab_recomposed": Text("新技能 {id} {name} {version}", "The new skill is {id} {name} {version}"),
    "lab_retention": Text(
        "规则这样理解：保留 {kept}；去掉 {dropped}",
        "The rules were understood so: keep {kept}; drop {dropped}",
    ),
    "lab_searched": Text(
        "{rounds} 轮，{evaluations} 个得分（结束原因：{cause}）",
        "{rounds} rounds, {evaluations} scores (ended by: {cause})",
    ),
    "lab_search_open": Text(
        "{rounds} 轮，{evaluations} 个得分；还没有结束：iteration_start 接着做",
        "{rounds} rounds, {evaluations} scores; it has not ended: iteration_start goes on with it",
    ),
    "lab_search_over": Text(
        "搜索早已结束，什么都没有做；要更多轮请给更大的 max_rounds，另起一次请用 fresh=true",
        "The search had ended before and nothing was done; for more rounds give a larger max_rounds, for another "
        "search fresh=true",
    ),
    "lab_best_found": Text("最好：{name} {score}", "Best: {name} {score}"),
    "lab_corrected": Text(
        "复测校正后：{score}（{low}–{high}）", "Corrected by a re-test: {score} ({low}–{high})"
    ),
    "lab_estimated": Text(
        "没有复测；估计为 {score}（{low}–{high}）",
        "It was not tested again; by estimate {score} ({low}–{high})",
    ),
    "lab_winner": Text("它已在库里：{skill_id}", "It is in the library: {skill_id}"),
    "lab_no_winner": Text("没有比原来的更好的组合", "No combination was better than the originals"),
}
