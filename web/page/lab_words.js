// Which words does the lab use? What its figures mean, the server says.

import { number, pairs } from "./words.js";

export const t = pairs({
  lab: ["实验室", "Lab"], intro: ["哪个提示词更好？每个技能回答每个用例，盲评打分，再排名。", "Which prompt is better? Every skill answers every case, is judged blind, and ranked."],
  projects: ["项目", "Projects"], skills: ["技能", "Skills"], board: ["排行榜", "Leaderboard"], tags: ["待批标签", "Tags to approve"], newProject: ["新建项目", "New project"],
  create: ["创建", "Create"], cancel: ["取消", "Cancel"], noProjects: ["还没有项目。选几个技能和一个基线来比较。", "None yet. Choose skills and a baseline to compare."],
  name: ["名称", "Name"], baselines: ["基线", "Baselines"], options: ["更多选项", "More options"], model: ["模型", "Model"],
  modelHint: ["留空用默认的；如 openai:NAME、opus", "Empty: the default. Such as openai:NAME, opus"], noSkill: ["加一组“无技能”作对照", "Add an arm without a skill"],
  pick: ["请至少选一个技能和一个基线", "Choose one skill and one baseline at least"], experiment: ["实验 {n}", "Experiment {n}"], best: ["最高 {score} 分", "best {score}"],
  archived: ["已归档", "archived"], version: ["版本", "Version"], suggest: ["让模型建议标签", "Let a model suggest tags"], suggested: ["{n} 个新标签等你批准", "{n} new tags wait for you"],
  see: ["去看看", "See them"], noTags: ["没有。打开一个技能，可以让模型建议。", "None. Open a skill to let a model suggest some."],
  waiting: ["{n} 个标签等你决定", "{n} tags wait for your word"], approve: ["批准", "Approve"], reject: ["拒绝", "Reject"],
  noBoard: ["还没有。先运行一个项目。", "None yet. Run a project first."], score: ["分数", "Score"], tested: ["测试时间", "Tested"], state: ["状态", "State"],
  costs: ["这会调用一次模型，可能花钱。", "This calls a model and may cost money."], goOn: ["继续", "Go on"], run: ["运行", "Run"], resume: ["继续运行", "Go on"],
  rerun: ["重跑失败项", "Run failed ones again"], pause: ["暂停", "Pause"], end: ["结束并出报告", "End with a report"], report: ["报告", "Report"], plan: ["运行前的计划", "Before it runs"],
  max_calls: ["调用上限（合计）", "Most calls (in all)"], max_usd: ["花费上限（美元）", "Most money (US$)"], start: ["开始", "Start"],
  startPaid: ["同意花费并开始", "Agree to the cost and start"], controls: ["检验评审", "Testing the judge"], execute: ["作答", "Answering"], judge: ["评审", "Judging"],
  round: ["第 {n} 轮", "Round {n}"], begins: ["正在开始…", "Beginning…"], ranking: ["排名", "Ranking"],
  noResults: ["还没有结果，运行后会在这里。", "No results yet. Run it, and they appear here."], matrix: ["结果矩阵", "Results"], case: ["用例", "Case"], more: ["显示更多", "Show more"],
  input: ["输入", "Input"], expected: ["期望", "Expected"], answer: ["回答", "Answer"], reasons: ["评语", "Reasons"], wrong: ["错误", "Error"], analysis: ["分析", "Analysis"],
  analyse: ["分析优势", "Find out why"], noAnalysis: ["让模型指出哪些段落让技能更好。", "A model points out what makes a skill better."], segments: ["有帮助的段落", "Segments that help"],
  issues: ["不足", "What is missing"], nothing: ["没有找到。", "Nothing was found."], search: ["迭代：寻找更好的技能", "Search for a better skill"],
  noSearch: ["用测试过的技能的段落组合新候选，逐轮筛选。", "Candidates are made of the tested skills' segments, round by round."], searchStart: ["开始迭代", "Start a search"],
  searchMore: ["继续迭代", "Search on"], rounds: ["最多轮数", "Most rounds"], fresh: ["重新开始（旧的保留）", "Begin anew (keeps the old one)"],
  plot: ["每轮得分：从 {start} 到 {best}", "Score by round: from {start} to {best}"], asTable: ["以表格查看", "As a table"], bestSoFar: ["至今最好", "Best so far"],
  won: ["本轮胜者", "Winner of the round"], tried: ["候选", "Candidates"], out: ["被筛掉", "screened out"],
});

/** Write a score; what is unknown is a dash, never 0. */
export const points = (value) => value === null ? "–" : number(value, 1);
