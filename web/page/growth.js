// How does a person sum a session up or let a character grow, see what changed, and take it back?

import { api, at, followJob } from "./api.js";
import { diff } from "./diff.js";
import { bdi, fill, h } from "./dom.js";
import { button, complain, confirm, dialog, loaded, progressBar, toast } from "./ui.js";
import { when, words } from "./words.js";

const t = words("growth");

/** A story's buttons: `place` shows progress while the dialog is closed, `changed` hears when the story has changed. */
export const summaryButton = (context) => new Task("summary", context).button;
export const memoryButton = (context) => new Task("persona", context).button;

class Task {
  constructor(kind, { instanceId, place, changed }) {
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
      ends(this.kind === "summary" && button(t("summary.undo"), undo, { class: "quiet" }), this.begin("look", { dry_run: true }), this.begin("go", {})), panel);
    if (this.kind === "persona") personaPanel(panel, this.instanceId, this.changed);
  }

  begin = (key, how) => button(t(key), () => api.post(this.path, how).then((job) => { this.follow(job); }, (error) => this.ask(error)), { class: how.dry_run ? "" : "primary" });

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
    const action = is === "done" ? { label: t("undo"), run: this.undo } : { label: t("show"), run: () => this.open(state) };
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
    const last = { preview: [leave("discard"), this.begin("save", { as_shown: true })], done: [button(t("undo"), this.undo), leave("keep", "primary")] };
    fill(this.body, title, this.kind === "summary" ? points(result) : grown(result, () => this.close()),
      result.warnings.map((one) => h("p", { class: "warned" }, "⚠️ ", one.message)),
      result.status === "preview" && h("p", { class: "hint" }, t("again")), ends(last[result.status] ?? leave("OK", "primary")));
    return title.focus();
  }

  undo = () => api.post(`${this.path}/undo`).then(() => {
    this.after = null;
    this.close?.();
    toast(t("undone"), "good");
    this.changed();
  }, (error) => (this.close ? this.ask(error) : complain(error)));
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
  memory?.turns > 0 && h("p", {}, h("a", { href: "#/memory", onclick: leave }, t(status === "preview" ? "toLearn" : "learned", { ...memory, count: memory.steps.length })))];

/** Show how a text changed and on which turns that rests; what is new or gone is also said, not only coloured. */
function changed(before, after, changes) {
  const said = (tag, key, text) => text && h(tag, {}, h("span", { class: "unseen" }, `[${t(key)}] `), text);
  const parts = diff(before, after).map((one) => one.same ?? [said("del", "removed", one.removed), said("ins", "added", one.added)]);
  return [wrapped(parts), h("ul", {}, changes.map((one) => h("li", {}, bdi(one.change), one.turns.map((turn) => pill([turn])))))];
}

/** Show who a character is in a story and how it grew, with a way to take the last change back. */
const personaPanel = (place, instanceId, told) => loaded(place, async () => {
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
