// One project of the lab: run it, see who is better, on which case, and why.

import { api, at, follow } from "./api.js";
import { add, bdi, fill, h } from "./dom.js";
import { agreed, ask, block, faint, pill, points, quote, statusPill, t, table } from "./lab.js";
import { showSearch } from "./lab_search.js";
import { button, dialog, empty, field, loaded, progressBar, toast } from "./ui.js";

export async function showProject(place, name) {
  const base = at`/api/lab/projects/${name}`;
  const [head, busy, results, analysis, search] = Array.from("12345", () => h("div"));
  let leave = () => {};
  let project;
  fill(place, h("p", {}, h("a", { href: "#/lab" }, "← ", t("lab"))), head, busy, results, analysis, search);

  const refresh = async () => {
    project = await api.get(base);
    drawHead();
    if (project.running) watch(project.running);
    if (!project.has_results) return fill(results, empty(t("noResults")));
    return Promise.all([loaded(results, drawResults), loaded(analysis, drawAnalysis), showSearch(search, base, project, watch)]);
  };
  const pause = () => button(t("pause"), () => api.post(`${base}/pause`).then(refresh));

  const drawHead = () => {
    const { progress, running, status, has_results: begun } = project;
    const idle = !running && status !== "running";
    fill(head, h("h1", {}, bdi(project.name), " ", statusPill(project)), faint([progress.text, project.model, project.cost_text].join(" · ")), h("div", { class: "row" },
      idle && (progress.left > 0 || status !== "completed") && button(t(begun ? "resume" : "run"), () => begin(false), { class: "primary" }),
      idle && progress.failed > 0 && button(t("rerun"), () => begin(true)),
      !idle && !running && pause(),
      begun && [`${t("report")}:`, ["HTML", "JUnit", "CSV"].map((kind) => h("a", { href: `${base}/report?format=${kind.toLowerCase()}`, download: "" }, kind))]));
  };

  /** Show how far a job is until it ends, or the person leaves. */
  const watch = (job, moved = null) => {
    const bar = progressBar();
    bar.tell(t("begins"));
    fill(busy, h("div", { class: "card lab-block" }, add(bar, job.kind !== "lab_analysis" && pause(), job.kind === "lab_iteration" && button(t("end"), () => api.post(`${base}/iteration/stop`)))));
    leave();
    const ended = (state) => {
      leave();
      fill(busy);
      const told = state.error?.message || state.result?.budget;
      if (told) toast(told, "bad");
      return refresh();
    };
    leave = follow(at`/api/jobs/${job.job_id}/stream`, { done: ended, error: ended, lost: (forGood) => forGood && ended({}), progress: ({ stage, round, done, total }) => {
      if (total) bar.tell(`${round ? `${t("round", { n: round })} · ` : ""}${t(stage)} ${done}/${total}`, done, total);
      moved?.(round);
    } });
  };

  const begin = async (again) => {
    if (await planned(base, again)) await refresh();
  };

  const drawResults = async () => {
    const [ranking, matrix] = await Promise.all([api.get(`${base}/ranking`), api.get(`${base}/results`)]);
    return [ranking.notices.map((one) => h("p", { class: `lab-note ${one.loud && "banner"}` }, one.message)), rankingOf(ranking.rows), matrixOf(base, matrix)];
  };

  const drawAnalysis = async () => {
    const found = await api.get(`${base}/analysis`);
    const again = button(t("analyse"), async () => {
      if (await agreed(`${base}/analysis`)) await loaded(analysis, drawAnalysis);
    });
    const list = (word, text) => [h("h3", {}, t(word)), found[word].length ? found[word].map((row) => [h("div", { class: "wraps lab-text" }, row[text]),
      faint([row.id, row.skill, row.dimension_label, row.reason].filter(Boolean).join(" · "))]) : faint(t("nothing"))];
    return block("analysis", again, found.done ? [list("segments", "content"), list("issues", "description")] : faint(t("noAnalysis")));
  };

  await refresh();
  return () => leave();
}

/** Show what a run takes; where a person agrees, begin it. */
async function planned(base, again) {
  const plan = await api.get(`${base}/plan?rerun_failed=${again}`);
  const limits = ["max_calls", "max_usd"].map((name) => [name, h("input", { type: "number", min: 0, step: name === "max_usd" && "any", value: plan[name] ?? "" })]);
  return ask("plan", [plan.text.map((text) => h("p", {}, text)), !plan.is_free && limits.map(([name, input]) => field(t(name), input))], plan.needs_confirm ? "startPaid" : "start", () => {
    if (!limits.every(([, input]) => input.reportValidity())) return false;
    const asked = { confirm: true, rerun_failed: again };
    for (const [name, { value }] of limits) if (value !== `${plan[name] ?? ""}`) asked[name] = value ? Number(value) : null;
    return api.post(`${base}/run`, asked);
  });
}

const rankingOf = (rows) => block("ranking", null, h("ol", { class: "lab-ranks" }, rows.map((row) => {
  const bar = h("div", { class: "lab-bar" });
  const [low, high] = row.interval ?? [row.mean, row.mean];
  bar.style.setProperty("--low", low);
  bar.style.setProperty("--high", high);
  const rank = row.tied ? `${rows.find((one) => one.tie_group === row.tie_group).rank}=` : row.rank;
  return h("li", {}, h("strong", {}, rank ?? "–"), h("div", {}, bdi(row.name), " ", pill(row.version), row.mean !== null && bar, faint(row.notes.join(" · "))),
    h("div", { class: "num" }, h("strong", {}, points(row.mean)), row.interval && faint(`${points(low)}–${points(high)}`)));
})));

function matrixOf(base, matrix) {
  const rowsOf = (page) => page.cases.map((row) => [[bdi(row.name), " ", pill(row.category_text)], ...row.cells.map((cell, nth) => {
    const skill = page.skills[nth];
    const made = button(cell.text, () => openCell(base, skill, row), { class: `lab-cell ${cell.status}`, "aria-label": `${skill.name}, ${row.name}: ${cell.text}` });
    made.style.setProperty("--share", cell.total ?? 0);
    return made;
  })]);
  const place = h("div", { onkeydown: move });
  const draw = (page) => fill(place, table([t("case"), ...page.skills.map((one) => one.name)], rowsOf(page), t("matrix"), "lab-matrix"), page.next_offset !== null && button(t("more"), async () => {
    const next = await api.get(`${base}/results?offset=${page.next_offset}`);
    draw({ ...next, cases: [...page.cases, ...next.cases] });
  }));
  draw(matrix);
  return block("matrix", null, place);
}

function move(event) {
  const cell = event.target.closest("td");
  const [down, across] = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key] ?? [];
  const row = cell?.parentNode;
  const to = row?.parentNode.rows[row.sectionRowIndex + down]?.cells[cell.cellIndex + across]?.querySelector("button");
  if (!to) return;
  event.preventDefault();
  to.focus();
}

async function openCell(base, skill, row) {
  const path = `${base}/cell?${new URLSearchParams({ skill_id: skill.skill_id, case_id: row.case_id, baseline_id: row.baseline_id, version: skill.version })}`;
  const found = await api.get(path);
  const answer = quote(t("answer"), found.answer);
  const more = h("p");
  const rest = (offset) => fill(more, offset !== null && button(t("more"), async () => {
    const next = await api.get(`${path}&offset=${offset}`);
    answer[1].append(next.answer);
    rest(next.next_offset);
  }));
  rest(found.next_offset);
  await dialog({ title: [bdi(skill.name), " · ", bdi(row.name)], wide: true, body: h("div", {},
    h("p", { class: "row" }, pill(found.total === null ? found.text : `${found.text} / 100`, "accent"), found.scores.map((one) => pill(`${one.label} ${+points(one.score)}/${one.maximum}`)), h("span", { class: "faint" }, found.model_version)),
    found.error && quote(t("wrong"), found.error), found.reasoning && quote(t("reasons"), found.reasoning), answer, more, quote(t("input"), found.input), quote(t("expected"), found.expected)) });
}
