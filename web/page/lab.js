// The lab: what is compared, who leads, and what waits for a person's word?

import { api, at, runJob } from "./api.js";
import { bdi, fill, h } from "./dom.js";
import { button, confirm, dialog, empty, field, loaded, toast } from "./ui.js";
import { when, words } from "./words.js";

export const t = words("lab");

const TABS = { "": ["projects", projects], skills: ["skills", skills], leaderboard: ["board", board], tags: ["tags", tags] };

export async function show(place, [, name = "", project], context) {
  if (name === "projects" && project) return (await import("./lab_project.js")).showProject(place, project);
  const [key, draw] = TABS[name] ?? TABS[""];
  const content = h("section");
  const count = h("span", { class: "pill accent", hidden: true });
  const told = ({ length }) => {
    count.textContent = length;
    count.hidden = !length;
  };
  fill(place, h("h1", {}, t("lab")), faint(t("intro")), h("nav", { class: "lab-tabs", "aria-label": t("lab") },
    Object.entries(TABS).map(([path, [word]]) => h("a", { href: `#/lab/${path}`, "aria-current": word === key && "page" }, t(word), word === "tags" && [" ", count]))), content);
  if (key !== "tags") api.get("/api/lab/tags").then(({ waiting }) => told(waiting), () => {});
  return loaded(content, async () => [h("h2", {}, t(key)), await draw(context, told)]);
}

/** Do something by a job that may cost a call; where it does, ask first. */
export async function agreed(path, body) {
  const begin = (ok) => runJob(path, { ...body, confirm: ok });
  const ended = await begin(false).catch(async (error) => {
    if (error.code !== "lab_not_confirmed") throw error;
    return await confirm(t("goOn"), t("costs")) && begin(true);
  });
  if (ended.error) throw new Error(ended.error.message);
  return ended.result;
}

/** Ask for something in a dialog, or cancel. */
export const ask = (title, body, label, run) => dialog({ title: t(title), body: h("div", {}, body), actions: [{ label: t("cancel") }, { label: t(label), kind: "primary", run }] });

/** Write a score as the server and the terminal do; what is unknown is a dash, never 0. */
export const points = (value) => value?.toFixed(1) ?? "–";

export const faint = (...parts) => h("p", { class: "faint" }, parts);

/** A part of a page with its heading; `tool` stands beside it. */
export const block = (word, tool, ...parts) => h("section", { class: "card lab-block" }, h("div", { class: "spread" }, h("h2", {}, t(word)), tool), parts);

export const pill = (text, kind = "") => h("span", { class: `pill ${kind}` }, bdi(text));

export const statusPill = ({ status, status_text: text, running }) => pill(text, running ? "accent" : { completed: "good", interrupted: "warn" }[status]);

/** A text of someone, as it was written. */
export const quote = (label, value) => [h("h3", {}, label), h("pre", { class: "wraps lab-text", tabindex: "0" }, value || "–")];

/** A table that scrolls by itself; the first cell of a row is its heading. */
export const table = (head, rows, label = head[0], kind = "") => h("div", { class: `scroll ${kind}`, tabindex: "0", role: "region", "aria-label": label }, h("table", {},
  h("thead", {}, h("tr", {}, head.map((text) => h("th", { scope: "col" }, bdi(text))))),
  h("tbody", {}, rows.map(([first, ...cells]) => h("tr", {}, h("th", { scope: "row" }, first), cells.map((cell) => h("td", {}, cell)))))));

// --- projects

const unread = (texts) => texts.map((text) => h("p", { class: "lab-note wraps" }, text));

async function projects(context) {
  const { projects: found, unread: lost } = await api.get("/api/lab/projects");
  const make = button(t("newProject"), () => create(context, found.length), { class: "primary" });
  return [unread(lost), !found.length ? empty(t("noProjects"), make) : [h("p", {}, make), h("ul", { class: "cards" }, found.map((row) => h("li", { class: "card" },
    h("h3", {}, h("a", { href: at`#/lab/projects/${row.project}` }, bdi(row.name)), " ", statusPill(row)),
    h("p", { class: "row" }, [...row.skills, ...row.baselines].map((one) => pill(one.name))),
    faint(row.progress.text, " · ", when(row.updated_at), " · ", bdi(row.model)))))]];
}

const assets = () => Promise.all(["skills", "baselines"].map(async (kind) => {
  const { [kind]: rows, unread: lost } = await api.get(`/api/lab/${kind}`);
  return Object.assign(rows, { notes: [unread(lost), !rows.length && empty(t("noAssets"))] });
}));

async function create(context, count) {
  const found = await assets();
  const name = h("input", { value: t("experiment", { n: count + 1 }), maxlength: 200 });
  const picks = found.map((rows, nth) => h("fieldset", { class: "lab-picks" }, h("legend", {}, t(nth ? "baselines" : "skills")), rows.notes, rows.map((row) => h("label", {},
    h("input", { type: "checkbox", value: row.id, checked: row.purpose === found[1][0]?.purpose }), h("span", {}, bdi(row.name), " ", pill(row.purpose))))));
  const model = h("input", { maxlength: 200 });
  const noSkill = h("input", { type: "checkbox" });
  const more = h("details", {}, h("summary", {}, t("options")), field(t("noSkill"), noSkill), field(t("model"), model, t("modelHint")));
  const made = await ask("newProject", [field(t("name"), name), picks, more], "create", () => {
    const [skill_ids, baseline_ids] = picks.map((part) => [...part.querySelectorAll(":checked")].map((one) => one.value));
    if (!skill_ids.length || !baseline_ids.length) throw new Error(t("pick"));
    return api.post("/api/lab/projects", { name: name.value, skill_ids, baseline_ids, options: { no_skill_arm: noSkill.checked, model: model.value || null } });
  });
  if (made) context.go(at`#/lab/projects/${made.project}`);
}

// --- skills and baselines

async function skills(context) {
  const cards = (rows, kind) => [rows.notes, h("ul", { class: "cards" }, rows.map((row) => h("li", { class: "card" },
    h("h3", {}, button(bdi(row.name), () => openAsset(row, kind, context), { class: "link" })), h("p", { class: "wraps" }, bdi(row.description)),
    h("p", { class: "row" }, pill(row.version), row.tags.map((tag) => pill(tag, "accent")),
      row.testSummary && pill(t("best", { score: points(row.testSummary.best_score) }), row.testSummary.staleness === "current" ? "good" : "warn")))))];
  const [all, baselines] = await assets();
  return [cards(all, "skill"), h("h2", { class: "lab-block" }, t("baselines")), cards(baselines, "baseline")];
}

async function openAsset(row, kind, context) {
  const body = h("div");
  const load = async (version) => {
    const found = await api.get(at`/api/lab/${kind}s/${row.id}?version=${version}`);
    const versions = h("select", { onchange: () => loaded(body, () => load(versions.value)) }, found.versions.map((one) => h("option", { selected: one === version }, one)));
    return [field(t("version"), versions), found.content && h("pre", { class: "wraps lab-text", tabindex: "0" }, found.content),
      found.cases?.map((one) => h("details", {}, h("summary", {}, bdi(one.name)), quote(t("input"), one.input), quote(t("expected"), one.expected_output)))];
  };
  fill(body, await load(row.version));
  await dialog({ title: bdi(row.name), body, wide: true, actions: [{ label: t("suggest"), run: async () => {
    const done = await agreed("/api/lab/tags/propose", { kind, asset_id: row.id });
    return done ? toast(t("suggested", { n: done.proposed.length }), "good", { label: t("see"), run: () => context.go("#/lab/tags") }) : false;
  } }] });
}

// --- all projects

async function board() {
  const { groups, warnings } = await api.get("/api/lab/leaderboard");
  if (!groups.length) return empty(t("noBoard"), h("a", { class: "button", href: "#/lab" }, t("projects")));
  return [warnings.map((text) => h("p", { class: "lab-note" }, text)), groups.map((group) => h("div", { class: "card lab-block" },
    h("h3", {}, bdi(group.baseline_name), " ", pill(group.baseline_purpose), group.is_archived && pill(t("archived"), "warn")),
    table(["skills", "score", "case", "projects", "tested", "state"].map((word) => t(word)), group.records.map((row, nth) => [[`${nth + 1}. `, bdi(row.skill_name), " ", pill(row.skill_version_tested)], h("strong", {}, points(row.avg_score)),
      `${row.completed_cases}/${row.case_count}`, bdi(row.project_name), when(row.tested_at), pill(row.staleness_text, row.staleness === "current" ? "good" : "warn")]), group.baseline_name)))];
}

// --- tags

async function tags(context, told) {
  let left = (await api.get("/api/lab/tags")).waiting;
  const place = h("div");
  const live = h("p", { role: "status" });
  const draw = () => {
    told(left);
    live.textContent = t("waiting", { n: left.length });
    fill(place, left.length ? left.map((row) => h("div", { class: "lab-tag spread" }, h("span", {}, pill(row.value, "accent"), " ", bdi(row.asset_name)), h("div", { class: "row" }, ["approve", "reject"].map((verdict) =>
      button(t(verdict), () => judge(row, verdict), { "aria-label": `${t(verdict)}: ${row.value}` }))))) : empty(t("noTags"), h("a", { class: "button", href: "#/lab/skills" }, t("skills"))));
  };
  const judge = async (row, verdict) => {
    await api.post(`/api/lab/tags/${verdict}`, { kind: row.kind, asset_id: row.asset_id, tag: row.tag_id });
    const next = Math.min(left.indexOf(row), left.length - 2);
    left = left.filter((one) => one !== row);
    draw();
    place.children[Math.max(0, next)].querySelector("button, a").focus();
  };
  draw();
  return [live, place];
}
