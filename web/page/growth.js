// How does a person sum a session up or let a character grow, see what changed, and take it back?

import { api, at, followJob } from "./api.js";
import { diff } from "./diff.js";
import { bdi, fill, h } from "./dom.js";
import { button, complain, confirm, dialog, loaded, progressBar, toast } from "./ui.js";
import { when, words } from "./words.js";

const t = words({
  zh: {
    summary: "📝 汇总", persona: "🧠 更新记忆", look: "先预览", go: "现在开始", stage: "正在进行：{done}/{total}…", preview: "预览，尚未保存", undo: "撤销", undone: "已撤销", discard: "放弃", keep: "保留", show: "查看",
    "summary.about": "把当前会话写成情节点，以后可以回忆；故事带着最后几轮对话在新会话里继续，原来的会话不变。", "summary.done": "汇总完成：{count} 个情节点", "summary.undo": "撤销上次汇总",
    sure: "故事回到汇总之前的会话；之后说的话移到一边保存，不会删除。", sessions: "{session_id} → {new_session_id}，带上最后 {kept_turns} 轮", plot: "详细经过", turn: "第 {first} 轮", turns: "第 {first}–{last} 轮",
    "persona.about": "角色回顾最近的对话，写下自己成了怎样的人，并记住玩家的事。", "persona.done": "角色成长了（第 {revision} 版）", "persona.unchanged": "最近的对话没有改变角色", learned: "从 {turns} 轮对话了解玩家",
    again: "保存时模型会重新作答，文字可能略有不同；结果可以撤销。", added: "新增", removed: "删去", grown: "成长人格", base: "初始人格（不变）", none: "还没有成长。", history: "成长记录", revision: "第 {revision} 版", hand: "手工修改", edited: "之后有人手工修改过。",
  },
  en: {
    summary: "📝 Sum up", persona: "🧠 Update memory", look: "Preview first", go: "Do it now", stage: "Under way: {done}/{total}…", preview: "Preview, not saved yet", undo: "Undo", undone: "Undone", discard: "Discard", keep: "Keep", show: "Show",
    "summary.about": "The session becomes points that can be recalled; the story goes on in a new session with the last few turns, and the old one stays as it is.", "summary.done": "Summed up: {count} points", "summary.undo": "Undo the last summary",
    sure: "The story goes back to the session before it; what was said since is set aside, not deleted.", sessions: "{session_id} → {new_session_id}, with the last {kept_turns} turns", plot: "In detail", turn: "turn {first}", turns: "turns {first}–{last}",
    "persona.about": "The character looks back on the last turns, notes who it has become, and remembers what it learned about you.", "persona.done": "The character has grown (revision {revision})", "persona.unchanged": "The last turns did not change the character", learned: "About you: {turns} turns to learn from",
    again: "To save, the model is asked again: the words may differ a little, and you can undo it.", added: "added", removed: "removed", grown: "Who the character has become", base: "Who it was made as (never changes)", none: "It has not grown yet.", history: "How it grew", revision: "Revision {revision}", hand: "by hand", edited: "Edited by hand since.",
  },
});

/** A story's buttons: `place` shows progress while the dialog is closed, `changed` hears when the story has changed. */
export const summaryButton = (context) => new Task("summary", context).button;
export const memoryButton = (context) => new Task("persona", context).button;

class Task {
  constructor(kind, { instanceId, place = h("div"), changed = () => {} }) {
    Object.assign(this, { kind, instanceId, place, changed });
    this.path = at`/api/instances/${instanceId}/` + kind;
    this.body = h("div", { class: "growth" });
    this.button = h("button", { type: "button", "aria-haspopup": "dialog", onclick: () => this.open() }, t(kind));
    // What was begun before the page was loaded, or in another tab, is followed.
    api.get(at`/api/jobs?subject=${instanceId}`).then(({ jobs }) => {
      const job = jobs.find((one) => one.kind === kind && one.status === "running");
      if (job && !this.bar) this.follow(job);
    }).catch(() => {});
  }

  async open(state) {
    if (this.close) return;
    const opened = dialog({ title: t(this.kind), wide: true, body: (close) => { this.close = close; return this.body; } });
    if (this.bar) fill(this.body, this.bar);
    else if (state) this.tell(state);
    else this.ask();
    await opened;
    this.close = null;
    if (this.bar) fill(this.place, this.bar);
    this.after?.();
  }

  ask(error) {
    const panel = h("div");
    const undo = async () => { if (await confirm(t("summary.undo"), t("sure"), t("undo"))) await this.undo(); };
    fill(this.body, error && h("p", { class: "fault", role: "alert" }, error.message), h("p", {}, t(`${this.kind}.about`)),
      ends(this.kind === "summary" && button(t("summary.undo"), undo, { class: "quiet" }), this.begin("look", true), this.begin("go", false)), panel);
    if (this.kind === "persona") personaPanel(panel, this.instanceId, this.changed);
  }

  begin = (key, dryRun) => button(t(key), async () => { this.follow(await api.post(this.path, { dry_run: dryRun })); }, { class: dryRun ? "" : "primary" });

  async follow({ job_id: id }) {
    const bar = this.bar = progressBar(() => api.post(at`/api/jobs/${id}/stop`));
    fill(this.close ? this.body : this.place, bar);
    const state = await followJob(id, (told) => { if (told.total) bar.tell(t("stage", told), told.done, told.total); }).catch((error) => ({ error }));
    bar.remove();
    this.bar = null;
    this.ended(state);
  }

  ended(state) {
    const is = state.status === "done" && state.result.status;
    const action = is === "done" ? { label: t("undo"), run: () => this.undo().catch(complain) } : { label: t("show"), run: () => this.open(state) };
    const say = () => { this.after = null; toast(is ? this.headline(state.result) : state.error?.message ?? "⏹", is ? "good" : "bad", is && action); };
    if (is && is !== "preview") this.changed();
    if (!this.close) return say();
    if (is === "done") this.after = say;
    return this.tell(state);
  }

  headline = (result) => t(result.status === "preview" ? "preview" : `${this.kind}.${result.status}`, { ...result, count: result.points?.length });

  /** Show what came of it; where nothing did, why, with the way to begin again. */
  tell({ status, result, error }) {
    if (status !== "done") return this.ask(error);
    const title = h("h3", { tabindex: "-1" }, this.headline(result));
    const leave = (key, kind) => h("button", { type: "button", class: kind, onclick: () => this.close() }, t(key));
    const last = { preview: [leave("discard"), this.begin("go", false)], done: [button(t("undo"), () => this.undo()), leave("keep", "primary")] };
    fill(this.body, title, this.kind === "summary" ? points(result) : grown(result, () => this.close()),
      result.warnings.map((one) => h("p", { class: "warned" }, "⚠️ ", one.message)),
      result.status === "preview" && h("p", { class: "hint" }, t("again")), ends(last[result.status] ?? leave("OK", "primary")));
    return title.focus();
  }

  async undo() {
    await api.post(`${this.path}/undo`);
    this.after = null;
    this.close?.();
    toast(t("undone"), "good");
    this.changed();
  }
}

const ends = (...buttons) => h("div", { class: "row ends" }, buttons);

/** Name the turns from the first to the last. */
export const turnsText = ([first, last = first]) => t(first === last ? "turn" : "turns", { first, last });
const pill = (turns) => [" ", h("span", { class: "pill" }, turnsText(turns))];
const wrapped = (...text) => h("div", { class: "wraps", dir: "auto" }, text);
const folded = (label, ...inside) => h("details", {}, h("summary", {}, label), inside);

const points = (result) => [h("p", { class: "faint" }, t("sessions", result)),
  h("ol", {}, result.points.map((one) => h("li", {}, bdi(one.summary), pill(one.turns), folded(t("plot"), wrapped(one.plot)))))];

const grown = ({ status, before, evolved_persona: after, changes, memory }, leave) => [
  status !== "unchanged" && changed(before, after, changes),
  memory?.turns > 0 && h("p", {}, h("a", { href: "#/memory", onclick: leave }, t("learned", memory)))];

/** Show how a text changed and on which turns that rests; what is new or gone is also said, not only coloured. */
function changed(before, after, changes) {
  const said = (tag, key, text) => text && h(tag, {}, h("span", { class: "unseen" }, `[${t(key)}] `), text);
  const parts = diff(before, after).map((one) => one.same ?? [said("del", "removed", one.removed), said("ins", "added", one.added)]);
  return [wrapped(parts), h("ul", {}, changes.map((one) => h("li", {}, bdi(one.change), one.turns.map((turn) => pill([turn])))))];
}

/** Show who a character is in a story and how it grew, with a way to take the last change back. */
export const personaPanel = (place, instanceId, told = () => {}) => loaded(place, async () => {
  const path = at`/api/instances/${instanceId}/persona`;
  const found = await api.get(path);
  const undo = () => api.post(`${path}/undo`).then(() => {
    told();
    personaPanel(place, instanceId, told);
  });
  return h("section", { class: "growth" }, h("h3", {}, t("grown")), wrapped(found.evolved_persona || t("none")), folded(t("base"), wrapped(found.base_persona)),
    found.edited_by_hand && h("p", { class: "warned" }, t("edited")),
    found.count > 0 && [h("div", { class: "spread" }, h("h3", {}, t("history")), button(t("undo"), undo)), found.revisions.reverse().map(step)]);
});

/** One step of a character's growth; what it changed is worked out when someone looks. */
function step(one) {
  const inside = h("div");
  const made = folded([t("revision", one), " ", h("span", { class: "faint" }, when(one.time), " · ", one.by === "hand" ? t("hand") : bdi(one.model ?? ""))], inside);
  made.ontoggle = () => { if (!inside.firstChild) fill(inside, changed(one.before, one.after, one.changes)); };
  return made;
}
