// How does a person see and change what is set?

import { api } from "./api.js";
import { fill, h } from "./dom.js";
import { button, complain, confirm, field, toast } from "./ui.js";
import { number, pairs, setLanguage } from "./words.js";

// Of a setting: its label and, where it has one, what stands beside its control.
const t = pairs({
  title: ["设置", "Settings"], thresholds: ["【阈值】", "Thresholds"], limits: ["【限制】", "Limits"],
  preferences: ["【偏好设置】", "Preferences"], more: ["【更多】", "More"], modules: ["【功能开关】", "Modules"],
  reset: ["恢复默认", "Restore defaults"], save: ["保存", "Save"], saved: ["已保存，下一轮起生效", "Saved, from the next turn on"],
  same: ["没有改动", "Nothing has changed"], unsaved: ["{count} 项改动未保存", "Not saved yet: {count}"], ask: ["恢复默认设置？", "Restore the defaults?"],
  lost: ["除语言外，所有设置（包括你的名字）恢复默认。", "All settings but the language become what they were at first, your name too."],
  range: ["{low}–{high}，默认 {usual}", "{low}–{high}, usually {usual}"],
  whole: ["请输入 {low} 到 {high} 之间的整数", "Enter a whole number from {low} to {high}"], on: ["开", "on"], off: ["关", "off"],
  where: ["在数据目录的文件里修改，下一轮起生效。", "Change them in these files of the data folder; they hold from the next turn on."],
  rag_fallback_threshold: ["容错处理触发阈值|连续N次未更新后触发", "Remind of the plot after|turns without progress"],
  summary_last_n_turns: ["汇总保留轮数|轮", "Kept after a summary|turns"],
  max_total_tokens: ["Prompt总长度上限|tokens", "Longest prompt|tokens"],
  middle_section_warning_tokens: ["中间区域警告阈值|tokens|ℹ️ 超过此值会显示警告，但不会截断", "Warn of a long middle part beyond|tokens|ℹ️ Beyond this you are warned; nothing is cut"],
  conversation_max_tokens: ["会话文件最大token数|tokens", "Longest session file|tokens"],
  summary_order: ["新会话初始内容顺序", "A new session begins with"],
  summary_first: ["先放摘要，再放对话", "the summary, then the last turns"],
  last_n_first: ["先放对话，再放摘要", "the last turns, then the summary"],
  conversation_load_all: ["全量读取会话文件", "Read session files whole"],
  language: ["语言", "Language"], zh: ["中文", "中文"], en: ["English", "English"],
  durability: ["写入方式", "Writing"], os: ["交给系统（快）", "Leave it to the system (fast)"],
  fsync: ["每次落盘（断电不丢）", "To the disk each time (outlives a power cut)"],
  auto_summarize: ["超过警告阈值时自动汇总", "Sum up by itself beyond the warning threshold"],
  auto_memorize_turns: ["自动更新记忆|轮一次；0 为关闭", "Learn about you by itself every|turns; 0 for never"],
  player_name: ["你的名字|角色文本里的 {{user}}", "Your name|{{user}} in a character's texts"],
  on_disconnect: ["关闭页面时，正在写的回复", "When you close the page, a reply being written"],
  continue: ["继续写完", "goes on"], interrupt: ["中断", "is interrupted"],
  director: ["导演（剧情推进）", "Director (moves the plot)"], recall: ["回忆", "Recall"],
  memory: ["对玩家的记忆", "Memory of the player"], lorebook: ["世界书", "Lorebooks"],
});
const DRAWN = ["preferences.summary_order", "preferences.conversation_load_all"];

const said = (name) => t(name.split(".").at(-1)).split("|");
const groupOf = (name) => (name.startsWith("preferences.") && !DRAWN.includes(name) ? "more" : name.split(".")[0]);

// What was changed and not saved outlives a look at another view.
let draft = {};

/** Several radio buttons that are one field. */
function radios(name, choices) {
  const inputs = choices.map((word) => h("input", { type: "radio", name, value: word }));
  const node = h("fieldset", { class: "field choice" }, h("legend", {}, said(name)),
    inputs.map((input) => h("label", {}, input, t(input.value))));
  node.fault = () => {};
  const now = () => inputs.find((one) => one.checked);
  return { node, check: () => null, focus: () => (now() ?? inputs[0]).focus(), get: () => now()?.value,
    set: (value) => inputs.forEach((one) => { one.checked = one.value === value; }) };
}

/** The control of one setting: {node, get, set, check, focus}. */
function control(name, rule, usual) {
  if (rule.type === "choice") return radios(name, rule.words);
  const tick = rule.type === "switch";
  const whole = rule.type === "whole";
  const input = h("input", { name, ...tick ? { type: "checkbox" } : whole ? { type: "number", min: rule.low, max: rule.high } : { autocomplete: "off", maxlength: rule.longest } });
  const range = whole && t("range", { low: number(rule.low), high: number(rule.high), usual: number(usual) });
  const [label, beside, note] = said(name);
  const node = field(label, input, note ? [note, h("br"), range] : range || null);
  if (beside) input.after(h("label", { class: "unit", for: input.id }, beside));
  const get = () => (tick ? input.checked : whole && /^\d{1,15}$/.test(input.value) ? Number(input.value) : input.value);
  const fits = (value) => !whole || Number.isInteger(value) && rule.low <= value && value <= rule.high;
  return { node, get, check: () => (fits(get()) ? null : t("whole", rule)), focus: () => input.focus(),
    set: (value) => { input[tick ? "checked" : "value"] = value; } };
}

function modules(told) {
  const rows = Object.entries(told).map(([name, { trigger, enabled = trigger !== "off", file }]) => h("li", { class: "spread" },
    t(name), h("span", { class: "row" }, h("code", {}, file),
      h("span", { class: enabled ? "pill good" : "pill" }, trigger ?? t(enabled ? "on" : "off")))));
  return h("section", { class: "card" }, h("h2", {}, t("modules")), h("ul", { class: "plain" }, rows), h("p", { class: "hint" }, t("where")));
}

/** Lay out the settings; `context.refresh` draws all anew when they were saved. */
function draw(place, told, context) {
  const items = new Map();
  const status = h("p", { class: "unsaved", role: "status" });
  const mark = () => {
    const count = Object.keys(draft).length;
    status.textContent = count ? t("unsaved", { count }) : "";
    for (const [name, item] of items) item.node.classList.toggle("changed", name in draft);
  };
  const row = (name) => {
    const item = control(name, told.rules[name], told.defaults[name]);
    item.set(draft[name] ?? told.values[name]);
    item.node.addEventListener("input", () => {
      if (item.get() === told.values[name]) delete draft[name]; else draft[name] = item.get();
      item.node.fault(null);
      mark();
    });
    item.node.addEventListener("change", () => item.node.fault(item.check()));
    items.set(name, item);
    return item.node;
  };
  const save = async () => {
    const wrong = [...items.values()].filter((item) => { item.node.fault(item.check()); return item.check(); });
    if (wrong.length) return wrong[0].focus();
    if (!Object.keys(draft).length) return toast(t("same"));
    try {
      return await accept(await api.put("/api/settings", { values: draft }), context);
    } catch (error) {
      const named = [...items].find(([name]) => error.code === "setting_out_of_range" && error.message.includes(name));
      if (!named) return complain(error);
      named[1].node.fault(error.message);
      return named[1].focus();
    }
  };
  const saving = button(t("save"), save, { class: "primary", type: "submit" });
  const group = (title) => h("section", { class: "card" }, h("h2", {}, t(title)),
    Object.keys(told.rules).filter((name) => groupOf(name) === title).map(row));
  fill(place, h("h1", {}, t("title")), h("form", { class: "settings stack", novalidate: true, onsubmit: (event) => event.preventDefault() },
    told.notices.map((text) => h("p", { class: "fault", role: "alert" }, text)),
    ["thresholds", "limits", "preferences", "more"].map(group), modules(told.modules),
    h("div", { class: "save-bar" }, status, resetButton(context), saving)));
  mark();
}

async function accept(told, context) {
  draft = {};
  setLanguage(told.values["preferences.language"]);
  toast(t("saved"), "good");
  await context.refresh();
}

const resetButton = (context) => button(t("reset"), async () => {
  if (await confirm(t("ask"), t("lost"), t("reset"))) await accept(await api.post("/api/settings/reset"), context);
});

export async function show(place, parts, context) {
  try {
    draw(place, await api.get("/api/settings"), context);
  } catch (error) {
    if (error.code !== "file_broken") throw error;
    fill(place, h("h1", {}, t("title")), h("p", { class: "fault", role: "alert" }, error.message), resetButton(context));
  }
  const ask = (event) => { if (Object.keys(draft).length) event.preventDefault(); };
  addEventListener("beforeunload", ask);
  return () => removeEventListener("beforeunload", ask);
}
