"""Texts of the page and its API, in Chinese and in English."""

from __future__ import annotations

from personalab.texts.forms import Text
from personalab.texts.prompt import PROMPT

WEB: dict[str, Text] = {
    **PROMPT,
    "web_is_at": Text(
        "PersonaLab：请在浏览器中打开 {url} （MCP：{url}/mcp，接口说明：{url}/docs；Ctrl+C 结束）",
        "PersonaLab: open {url} in a browser (MCP: {url}/mcp, the API: {url}/docs; Ctrl+C ends it)",
    ),
    "foreign_host": Text(
        "请求用的主机名不是这台服务器的；要允许它，请用 --allow-host 启动",
        "The request calls this server by a name that is not its own; start it with --allow-host to allow the name",
    ),
    "foreign_origin": Text(
        "请求来自别的网站，已拒绝；请从本服务器自己的页面操作",
        "The request comes from a page of another site and is refused; use this server's own page",
    ),
    "form_refused": Text(
        "请求不能以表单的形式发送；请用 content-type: application/json（导入文件用 application/octet-stream）",
        "A request cannot be sent as a form; send it with content-type: application/json (files to import with application/octet-stream)",
    ),
    "host_name_wrong": Text(
        "--allow-host 不能是 {name}；请给出主机名，例如 lab.example",
        "--allow-host cannot be {name}; give the name of a host, such as lab.example",
    ),
    "token_wanted": Text(
        "需要令牌：请在页面上输入 PERSONALAB_TOKEN，或发送 Authorization: Bearer TOKEN",
        "A token is needed: enter PERSONALAB_TOKEN on the page, or send the header Authorization: Bearer TOKEN",
    ),
    "token_wrong": Text(
        "令牌不对；请输入启动服务器时设置的 PERSONALAB_TOKEN",
        "That is not the token; enter the PERSONALAB_TOKEN the server was started with",
    ),
    "body_too_large": Text(
        "请求太大（上限 {limit}）；请分成几次发送，未登录时请先登录",
        "The request is too large (the limit is {limit}); send less at once, or log in first if you have not",
    ),
    "body_too_slow": Text(
        "请求内容传输太慢，已中断；请检查网络后重试",
        "The request body arrived too slowly and was cut off; check the connection and try again",
    ),
    "too_many_logins": Text(
        "令牌错误次数过多；请 {seconds} 秒后再试",
        "Too many wrong tokens; try again in {seconds} s",
    ),
    "turn_running": Text(
        "故事 {instance_id} 的回复还在写；请等它写完，或先停止",
        "The reply of story {instance_id} is still being written; wait for it, or stop it first",
    ),
    "no_turn": Text(
        "会话 {session_id} 里没有第 {turn} 轮",
        "Session {session_id} has no turn {turn}",
    ),
    "no_attempt": Text(
        "第 {turn} 轮没有第 {attempt} 次回复",
        "Turn {turn} has no reply number {attempt}",
    ),
    "turn_unanswered": Text(
        "第 {turn} 轮还没有回复；请重试",
        "Turn {turn} has no reply yet; try it again",
    ),
    "internal_error": Text(
        "服务器内部出错；已写入的内容都在，详情见服务器日志",
        "Something went wrong inside the server; what was written is safe, and its log says more",
    ),
    "bad_request": Text(
        "请求的 {field} 不对：{reason}",
        "{field} of the request is wrong: {reason}",
    ),
    "no_such_address": Text(
        "没有这个地址：{path}；所有地址见 /docs",
        "There is nothing at {path}; /docs lists what there is",
    ),
    "wrong_method": Text(
        "{path} 不接受 {method}；见 /docs",
        "{path} does not take {method}; see /docs",
    ),
    "too_many_requests": Text(
        "请求太频繁；请 {seconds} 秒后再试",
        "Too many requests; try again in {seconds} s",
    ),
    "too_many_watchers": Text(
        "同时连接的流已达上限（{limit}）；请关掉一些页面后再试",
        "The server is at its limit of {limit} open streams; close some pages and try again",
    ),
    "no_picture": Text(
        "角色 {character_id} 没有可显示的图片；导入带图片的角色卡即可",
        "Character {character_id} has no picture that can be shown; import a card that comes in one",
    ),
    "import_type_wrong": Text(
        "导入的内容类型应为 application/octet-stream，内容就是文件本身",
        "What is imported is sent as application/octet-stream, the body being the file itself",
    ),
    "import_broke_off": Text(
        "文件没有传完，什么也没有导入；请再试一次",
        "The file did not arrive whole, and nothing was brought in; try again",
    ),
    "too_many_jobs": Text(
        "服务器同时进行的任务已满（{limit}）；请稍后再试",
        "The server is at its limit of {limit} tasks at once; try again later",
    ),
    "no_job": Text(
        "没有任务 {job_id}；服务器可能重启过，没有做完的请再做一次",
        "There is no task {job_id}; the server may have been started again: begin anew what was not done",
    ),
    "job_running": Text(
        "{subject} 已有任务在进行；请等它完成，或先停止",
        "Something is already being done with {subject}; wait for it, or stop it first",
    ),
    "change_not_newest": Text(
        "{agent_id} 对 {user_id} 的记忆此后又有改动；请在历史里查看，再逐个撤销",
        "What {agent_id} knows about {user_id} has changed since; look at its history and undo change by change",
    ),
    "entry_changed": Text(
        "这一条此后已改成“{text}”，没有保存；请取消后再看一眼",
        "This was changed since, and nothing is saved: it says “{text}” now; cancel and look again",
    ),
    "lab_not_confirmed": Text(
        "这会调用 {models}（{calls} 次），可能花钱；请先看计划，再用 confirm: true 确认",
        "This would call {models} ({calls} calls) and may cost money; see the plan first, then confirm with confirm: true",
    ),
    # --- the lab
    "web_lab_open": Text("未运行", "not run"),
    "web_lab_broken": Text("读不出", "unreadable"),
    "web_lab_unread": Text(
        "没有列出 {name}：{reason}",
        "{name} is not listed: {reason}",
    ),
    "web_lab_progress": Text(
        "{completed_tasks}/{total_tasks} 项完成，{failed_tasks} 项失败",
        "{completed_tasks} of {total_tasks} tasks completed, {failed_tasks} failed",
    ),
    "web_lab_current": Text("有效", "current"),
    "web_lab_skill_updated": Text("技能已更新", "skill changed since"),
    "web_lab_baseline_updated": Text("基线已更新", "baseline changed since"),
    "web_lab_both_updated": Text("技能和基线都已更新", "both changed since"),
    "web_lab_free": Text("不花钱：模型在本机运行。", "It costs nothing: the models run here."),
    "web_lab_rehearsal": Text(
        "不花钱：由排练替身按规则作答和评审，分数不是真实模型的。",
        "It costs nothing: the rehearsal stand-in answers and judges by rule. Its scores are not a real model's.",
    ),
    "web_lab_cost": Text("约 {usd}。", "About {usd}."),
    "web_lab_cost_unknown": Text(
        "花费还不知道：没有调用报过价；可以设上限来保护自己。",
        "What it costs is not known: no call has told its price. A limit protects you.",
    ),
    "web_lab_plan": Text(
        "{calls} 次调用：作答 {execute_calls}，评审 {judge_calls}，检验评审 {control_calls}；"
        "约 {input_tokens} 个输入 token、{output_tokens} 个输出 token。",
        "{calls} calls: {execute_calls} answers, {judge_calls} judgements, {control_calls} to test the judges; "
        "about {input_tokens} tokens in and {output_tokens} out.",
    ),
    "web_lab_plan_nothing": Text(
        "没有剩下要做的：再运行一次不花任何调用。", "Nothing is left to do: another run makes no call."
    ),
    "web_lab_over": Text(
        "超出上限：做不完的会标为跳过。", "That is over the limit: what cannot be done is marked as skipped."
    ),
    "web_lab_search_plan": Text(
        "最多 {evaluations} 次评测，{calls} 次调用。", "{evaluations} evaluations, {calls} calls at the most."
    ),
    "web_lab_search_over": Text(
        "这次迭代已经结束；加轮数才会继续。", "This search has come to its end; more rounds let it go on."
    ),
    "web_lab_spent": Text("{calls} 次调用，已花 {usd}", "{calls} calls, {usd} spent"),
    "web_lab_spent_nothing": Text("{calls} 次调用，没有花钱", "{calls} calls, nothing spent"),
    "web_lab_spent_unknown": Text("{calls} 次调用，花费未知", "{calls} calls, cost unknown"),
    "web_lab_tie": Text("并列：区间重叠，分不出高下", "a tie: the intervals overlap"),
    "web_lab_behind": Text(
        "逐例比较确实落后第一名：{value}（{low} 到 {high}）",
        "case by case surely behind the first: {value} ({low} to {high})",
    ),
    "web_lab_difference": Text(
        "与第一名逐例相差 {value}（{low} 到 {high}）",
        "case by case {value} to the first ({low} to {high})",
    ),
    "web_lab_gain": Text("比无技能 {value}", "{value} over no skill"),
    "web_lab_incomplete": Text("没有完成全部用例", "not all cases completed"),
    "web_lab_counts": Text(
        "完成 {completed}，失败 {failed}，跳过 {skipped}",
        "{completed} completed, {failed} failed, {skipped} skipped",
    ),
    "web_lab_detectable": Text(
        "小于 {value} 分的差别，这些用例看不出来。",
        "These cases could not show a difference of less than {value} points.",
    ),
    "web_lab_search_runs": Text("正在进行", "running"),
    "web_lab_search_paused": Text("已暂停", "paused"),
    "web_lab_search_ended": Text("已结束：{cause}", "ended: {cause}"),
    "web_lab_evaluations": Text("{count} 次评测", "{count} evaluations"),
    "web_lab_winner": Text("胜者：{name}，{score} 分", "winner: {name}, {score} points"),
    "web_lab_no_winner": Text(
        "没有找到比原有技能更好的；最好的仍是 {name}（{score} 分）",
        "nothing better than the originals was found; the best is {name} ({score} points)",
    ),
    "web_lab_corrected": Text("校正后 {score}（{low}–{high}）", "corrected {score} ({low}–{high})"),
    "web_lab_estimated": Text(
        "校正后约 {score}（{low}–{high}，没有重测）",
        "corrected about {score} ({low}–{high}, not tested again)",
    ),
}
