// How does a search for a better skill go, round by round?

import { api } from "./api.js";
import { fill, h, svg } from "./dom.js";
import { ask, block, faint, points, t, table } from "./lab.js";
import { button, field, loaded } from "./ui.js";

const [WIDTH, LEFT, LOW] = [640, 44, 200];

/** Show the search of a project; `watch(job, moved)` follows one that is begun here. */
export function showSearch(place, base, project, watch) {
  let seen;
  const draw = async () => {
    const found = await api.get(`${base}/iteration`);
    const begin = button(t(found.started ? "searchMore" : "searchStart"), async () => {
      project.running = await planned(base, project, found);
      if (project.running) watch(project.running, (round) => {
        if (round !== seen) draw().then((parts) => fill(place, parts), () => {});
        seen = round;
      });
    });
    return block("search", !project.running && begin, faint(found.started ? found.text.join(" · ") : t("noSearch")),
      found.rounds.length > 0 && [plot(found), h("details", {}, h("summary", {}, t("asTable")), table([t("round"), t("won"), t("bestSoFar"), t("tried")],
        found.rounds.map((row) => [row.round, `${points(row.score)} ${row.winner}`, points(row.best_so_far), row.candidates.map((one) => one.score === null ? t("out") : points(one.score)).join(", ")])))]);
  };
  return loaded(place, draw);
}

/** Show what a search takes at the most; where a person agrees, begin it. */
async function planned(base, project, found) {
  const rounds = h("input", { type: "number", min: 1, max: 1000, required: true, value: (found.max_rounds ?? 0) + (found.started && !found.completed_at ? 0 : 5) || 5 });
  const fresh = h("input", { type: "checkbox" });
  const bound = h("p", { class: "lab-note", role: "status" });
  const asked = () => ({ fresh: fresh.checked, max_rounds: Number(rounds.value) });
  const tell = () => rounds.validity.valid && api.post(`${base}/iteration/plan`, asked()).then((plan) => fill(bound, plan.text.join(" ")), (error) => fill(bound, error.message));
  await tell();
  return ask("search", h("div", { onchange: tell }, field(t("rounds"), rounds), found.started && field(t("fresh"), fresh), bound), project.is_free ? "start" : "startPaid", () => rounds.reportValidity() && api.post(`${base}/iteration`, { ...asked(), confirm: true }));
}

function plot({ rounds, start_score: start, best_score: best }) {
  const scores = [start, ...rounds.flatMap((row) => [row.score, ...row.candidates.map((one) => one.score)])].filter((one) => one !== null);
  if (!scores.length) return null;
  const bottom = Math.max(0, Math.floor(Math.min(...scores) / 5 - 1) * 5);
  const height = Math.min(100, Math.ceil(Math.max(...scores) / 5 + 1) * 5) - bottom;
  const last = rounds.at(-1).round;
  const x = (round) => LEFT + 20 + round / last * (WIDTH - LEFT - 40);
  const y = (score) => score === null ? LOW : LOW - (score - bottom) / height * (LOW - 20);
  const dot = (kind, round, score) => svg("circle", { class: kind, cx: x(round), cy: y(score), r: kind === "won" ? 6 : 4 });
  const label = (x, y, text) => svg("text", { x, y }, text);
  const steps = [[0, start], ...rounds.map((row) => [row.round, row.best_so_far])].filter(([, score]) => score !== null);
  return h("figure", { class: "lab-plot" }, svg("svg", { viewBox: `0 0 ${WIDTH} 230`, role: "img", "aria-label": t("plot", { start: points(start), best: points(best) }) },
    [0, 0.5, 1].map((share) => bottom + share * height).map((score) => [svg("line", { x1: LEFT, x2: WIDTH, y1: y(score), y2: y(score) }), label(LEFT / 2, y(score) + 4, points(score))]),
    rounds.map(({ round }) => round % Math.ceil(last / 12) === 0 && label(x(round), LOW + 22, round)),
    svg("path", { d: steps.map(([round, score], nth) => nth ? `H${x(round)}V${y(score)}` : `M${x(round)} ${y(score)}`).join("") }),
    rounds.flatMap((row) => row.candidates.map((one) => dot(one.score === null ? "out" : "tried", row.round, one.score))),
    [{ round: 0, score: start }, ...rounds].map((row) => row.score !== null && dot("won", row.round, row.score))),
  h("figcaption", { class: "row faint" }, ["bestSoFar", "won", "tried", "out"].map((kind) => h("span", { class: `lab-key ${kind}` }, t(kind)))));
}
