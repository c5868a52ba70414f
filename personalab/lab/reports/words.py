"""Texts of the reports, in Chinese and in English."""

from __future__ import annotations

from personalab.texts.forms import Language, Text, fill


def word(key: str, language: Language, **params: object) -> str:
    """Return the words of a key; a key without words is returned itself."""
    text = WORDS.get(key)
    return fill(getattr(text, language), **params) if text else key


WORDS: dict[str, Text] = {
    "report": Text("技能实验报告", "Skill lab report"),
    "contents": Text("目录", "Contents"),
    # --- the head
    "status": Text("状态", "Status"),
    "created": Text("创建", "Created"),
    "scored": Text("评分", "Scored"),
    "made": Text("生成", "Report made"),
    "model": Text("模型", "Model"),
    "executor": Text("执行器", "Executor"),
    "judges": Text("评审", "Judges"),
    "repeats": Text("重复", "Repeats"),
    "repeats_value": Text("每例 {runs} 次，每次评 {judged} 遍", "{runs} per case, judged {judged}×"),
    "size": Text("规模", "Size"),
    "size_value": Text("{skills} 个技能 × {cases} 个用例", "{skills} skills × {cases} cases"),
    "pass_score": Text("及格线", "Pass score"),
    "costs": Text("花费", "Cost"),
    "calls_value": Text("{calls} 次调用", "{calls} calls"),
    "tokens_value": Text("{input} + {output} token", "{input} + {output} tokens"),
    "partly_priced": Text("{priced} 次有价格", "{priced} with a price"),
    "judge_gap": Text("{model}（对照相差 {gap} 分）", "{model} (control gap {gap})"),
    "pending": Text("未开始", "pending"),
    "running": Text("进行中", "running"),
    "completed": Text("已完成", "completed"),
    "interrupted": Text("已中断", "interrupted"),
    "failed": Text("失败", "failed"),
    "skipped": Text("跳过", "skipped"),
    "broken": Text("文件损坏", "broken file"),
    "not_run": Text("未运行", "not run"),
    # --- the verdict
    "verdict_leads": Text(
        "{name} 领先：{mean} 分，与其余技能的差距超出误差。",
        "{name} leads with {mean}; no other interval reaches its own.",
    ),
    "verdict_tied": Text(
        "{name} 得分最高（{mean}），与另外 {count} 个技能的区间重叠，名次并列。",
        "{name} has the highest score ({mean}); its interval overlaps {count} more, so they rank as ties.",
    ),
    "verdict_paired": Text(
        "逐个用例比较，它比 {name} 高 {gap} 分（{low} 到 {high}）。",
        "Compared case by case it leads {name} by {gap} ({low} to {high}).",
    ),
    "verdict_alike": Text(
        "逐个用例比较也分不出高下。", "Comparing them case by case does not tell them apart either."
    ),
    "verdict_plain": Text("{name} 得分最高：{mean} 分。", "{name} has the highest score: {mean}."),
    "verdict_none": Text("还没有任何得分。", "Nothing has been scored yet."),
    "detectable": Text(
        "逐个用例比较时，用这些用例看不出小于 {points} 分的差异。",
        "Compared case by case, a difference under {points} points could not be seen with these cases.",
    ),
    # --- the ranking
    "ranking": Text("排名", "Ranking"),
    "ranking_note": Text(
        "点是平均分，横线是 95% 区间；同一组的区间重叠，算并列。横轴从 {low} 到 {high}。",
        "The dot is the average, the line its 95 % interval; skills of one tie group overlap. "
        "The axis goes from {low} to {high}.",
    ),
    "rank": Text("名次", "Rank"),
    "skill": Text("技能", "Skill"),
    "score": Text("得分", "Score"),
    "average": Text("平均", "Average"),
    "interval": Text("95% 区间", "95 % interval"),
    "spread": Text("标准差", "Spread (sd)"),
    "tie_group": Text("并列组", "Tie group"),
    "behind": Text("与第一名之差", "Against the first"),
    "gain": Text("比无技能", "Over no skill"),
    "cases_done": Text("完成 / 失败 / 跳过", "Done / failed / skipped"),
    "no_skill": Text("无技能对照", "no-skill arm"),
    "incomplete": Text("用例不全", "incomplete set"),
    "strip": Text("{name}：平均 {mean}，区间 {low}–{high}", "{name}: average {mean}, interval {low}–{high}"),
    "strip_plain": Text("{name}：平均 {mean}", "{name}: average {mean}"),
    "strip_none": Text("{name}：没有得分", "{name}: no score"),
    # --- dimensions and categories
    "dimensions": Text("各维度得分", "Score by dimension"),
    "dimensions_note": Text(
        "满格是该维度的满分。显示前 {shown} 名；全部数字见下表。",
        "A full track is the most points of that dimension. The first {shown} are drawn; the table has all.",
    ),
    "of_points": Text("满分 {points}", "of {points}"),
    "all_figures": Text("全部数字", "All figures"),
    "dimensions_caption": Text(
        "每个技能在各维度和各类用例上的平均分", "Average of each skill by dimension and by category of cases"
    ),
    "functional_correctness": Text("功能正确性", "Functional correctness"),
    "robustness": Text("健壮性", "Robustness"),
    "readability": Text("可读性", "Readability"),
    "conciseness": Text("简洁性", "Conciseness"),
    "complexity_control": Text("复杂度控制", "Complexity control"),
    "format_compliance": Text("格式规范性", "Format compliance"),
    "standard": Text("标准", "Standard"),
    "boundary": Text("边界", "Boundary"),
    "exception": Text("异常", "Exception"),
    # --- the matrix
    "matrix": Text("技能 × 用例", "Skills × cases"),
    "matrix_caption": Text(
        "每个用例上的总分：颜色越深分越高；▾ 低于及格线，✕ 失败，– 跳过，! 文件损坏，· 未运行",
        "Total score of each skill on each case: the darker, the higher; "
        "▾ below the pass score, ✕ failed, – skipped, ! broken file, · not run",
    ),
    "case": Text("用例", "Case"),
    "category": Text("类别", "Category"),
    "baseline": Text("基线", "Baseline"),
    "too_large": Text(
        "矩阵有 {cells} 格，只显示分数；答案和评语见结果文件。",
        "The matrix has {cells} cells: only scores are shown; answers and reasons stand in the result files.",
    ),
    "answers": Text("答案与评语", "Answers and reasons"),
    "answers_note": Text(
        "按用例展开；过长的文字只显示开头。", "Open a case to compare its answers; long texts are cut."
    ),
    "input": Text("输入", "Input"),
    "expected": Text("期望", "Expected"),
    "answer": Text("答案", "Answer"),
    "reasoning": Text("评语", "Reasons"),
    "error": Text("错误", "Error"),
    "cut": Text("……还有 {count} 个字符", "… {count} more characters"),
    "left_out": Text(
        "报告太大，这里不再显示文字；见结果文件。",
        "The report would be too large: the texts stand in the result files.",
    ),
    "seconds": Text("{value} 秒", "{value} s"),
    # --- the iteration
    "iteration": Text("迭代", "Iteration"),
    "iteration_note": Text(
        "线是至今最好的得分；实心点是每轮的胜者，空心点是其他候选；菱形是{diamond}。",
        "The line is the best score so far; filled dots are the winners of rounds, hollow ones other candidates; "
        "the diamond is {diamond}.",
    ),
    "diamond_corrected": Text("复测校正后的得分", "the score corrected by a re-test"),
    "diamond_estimated": Text("估计的得分，没有复测", "an estimate of the score, which was not tested again"),
    "round": Text("轮次", "Round"),
    "strategy": Text("策略", "Strategy"),
    "winner": Text("胜者", "Winner"),
    "best_so_far": Text("至今最好", "Best so far"),
    "plateau": Text("平台期", "Plateau"),
    "candidates": Text("候选", "Candidates"),
    "candidates_value": Text("{scored} 个得分，{out} 个出局", "{scored} scored, {out} out"),
    "rounds_caption": Text("每一轮的结果", "What each round gave"),
    "stopped": Text("停止原因", "Stopped by"),
    "evaluations": Text("评估次数", "Evaluations"),
    "start": Text("起点", "Start"),
    "best": Text("最好", "Best"),
    "corrected": Text("校正后", "Corrected"),
    "estimated": Text("估计（未复测）", "Estimate (not re-tested)"),
    "progress_title": Text("迭代的进展", "Progress of the iteration"),
    "progress_desc": Text("{rounds} 轮，从 {start} 到 {best}", "{rounds} rounds, from {start} to {best}"),
    "threshold_reached": Text("达到目标分", "target score reached"),
    "threshold": Text("达到目标分", "target score reached"),
    "max_rounds": Text("轮次用完", "all rounds done"),
    "manual": Text("人工停止", "stopped by hand"),
    "budget": Text("预算用完", "budget used up"),
    "exhausted": Text("没有新的候选", "no new candidate left"),
    "no_skill_name": Text("无技能", "No skill"),
    # --- the diff
    "diff": Text("胜者与原版的差异", "Winner against parent"),
    "diff_caption": Text(
        "− 只在“{parent}”里，+ 只在“{winner}”里", "− only in “{parent}”, + only in “{winner}”"
    ),
    "diff_same": Text("两者文字相同。", "Both texts are the same."),
    "diff_cut": Text("差异太长，只显示开头。", "The difference is long; only its beginning is shown."),
    "diff_skipped": Text("……{count} 行相同", "… {count} equal lines"),
    # --- the analysis
    "analysis": Text("分析", "Analysis"),
    "segments": Text("优势片段", "Segments that help"),
    "issues": Text("问题", "Issues"),
    "more": Text("……还有 {count} 项", "… {count} more"),
    # --- notices
    "notices": Text("请先看这里", "Read this first"),
    "notice_rehearsal": Text(
        "这些不是真实模型的成绩：结果来自 {versions}（演练或假的执行器）。",
        "These are not scores of a real model: results come from {versions}, a rehearsal or a fake executor.",
    ),
    "notice_unfinished": Text(
        "项目还没有跑完：{missing} / {total} 个任务没有结果。",
        "The project is not finished: {missing} of {total} tasks have no result.",
    ),
    "notice_failed": Text(
        "失败的任务：{count} 个，不计入平均分。", "Failed tasks: {count}; they are in no average."
    ),
    "notice_skipped": Text("跳过的任务：{count} 个。", "Skipped tasks: {count}."),
    "notice_incomplete": Text(
        "{names} 没有完成全部用例，平均分不能直接相比，排在后面。",
        "{names} did not complete all cases: the averages cannot be compared, and rank last.",
    ),
    "notice_no_summary": Text(
        "这不是最后的排名：由目前已有的结果算出。",
        "This is not the final ranking: it is made of the results so far.",
    ),
    "notice_broken": Text("{file} 读不出来：{reason}", "{file} cannot be read: {reason}"),
    "notice_more_broken": Text("还有 {count} 个文件读不出来。", "{count} more files cannot be read."),
    "notice_doubt": Text(
        "{file} 自相矛盾：{field} 是 {reason}", "{file} contradicts itself: {field} is {reason}"
    ),
    "notice_judge": Text(
        "评审 {judge} 没有分清好坏答案（相差 {gap} 分）：不要相信这些分数。",
        "The judge {judge} did not tell good answers from bad ones (gap {gap}): do not trust these scores.",
    ),
    "notice_self_judged": Text(
        "评审和答题用的是同一个模型（{model}），可能偏向自己。",
        "The judge is the model that answered ({model}); it may favour itself.",
    ),
    "notice_one_case": Text(
        "只有一个用例：没有区间，也分不出高下。",
        "There is one case only: no intervals, and no telling skills apart.",
    ),
}
