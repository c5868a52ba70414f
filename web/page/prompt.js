// What does the next turn send to the model, and why?

import { api, at } from "./api.js";
import { bdi, fill, h } from "./dom.js";
import { turnsText } from "./growth.js";
import { button, dialog, field, loaded } from "./ui.js";
import { number, words } from "./words.js";

const t = words("prompt");

/** A button that shows what would be sent if the draft were said now. */
export const promptButton = (context) =>
  h("button", { type: "button", "aria-haspopup": "dialog", onclick: () => openInspector(context) }, t("open"));

/** Show what the next turn sends; a person may suppose other words. */
function openInspector({ instanceId, draft }) {
  const text = h("textarea", { rows: 1, maxlength: 200000, value: draft() });
  const place = h("div", { "aria-live": "polite" });
  const look = () => loaded(place, async () => shown(await api.post(at`/api/instances/${instanceId}/prompt`, { text: text.value })));
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    look();
  });
  look();
  return dialog({ title: t("title"), wide: true, body: h("div", { class: "inspector" },
    h("div", { class: "ask" }, field(t("said"), text, t("hint")), button(t("look"), look, { class: "primary" })), place) });
}

function shown(found) {
  const { tokens, sections } = found;
  const out = sections.filter((one) => !one.included);
  const warned = (text) => h("p", { class: "warned" }, "⚠️ ", text);
  const zone = (name, limit) => [h("h3", {}, t(name)), limited(t("warning"), tokens[name], limit, "warn"),
    sections.filter((one) => one.zone === name && one.included).map((one) => part(one, found, limit))];
  return [
    found.too_long && warned(found.too_long), found.warnings.map((one) => warned([one.message, one.suggestion].filter(Boolean).join(" · "))),
    h("p", { class: "faint" }, t("intro", { ...found, ...tokens })), limited(t("total"), tokens.total, tokens.max_total, "bad", tokens.is_counted ? "" : "+"),
    zone("head", tokens.head_warning), zone("middle", tokens.middle_warning),
    h("details", { class: "part" }, h("summary", {}, t("out", { count: out.length })), h("ul", {}, out.map((one) => h("li", {}, one.title, why(one.why), entries(one, found))))),
  ];
}

const why = (...text) => h("span", { class: "why" }, text);
const tokensText = (count) => `${number(count)} tokens`;

/** Tell how long something is, and how long it may be; `more` is "+" where it was not counted to its end. */
function limited(label, value, limit, over, more = "") {
  const said = `${number(value)}${more} / ${tokensText(limit)}`;
  return h("div", { class: "limited" }, h("div", { class: "spread" }, h("span", { class: "faint" }, label), said), bar(label, value, limit, said, value > limit ? over : ""));
}

function bar(label, value, limit, said, kind = "") {
  const piece = h("span");
  piece.style.setProperty("width", `${Math.min(100, 100 * value / limit)}%`);
  return h("div", { class: `bar ${kind}`, role: "meter", "aria-label": label, "aria-valuemax": limit, "aria-valuenow": Math.min(value, limit), "aria-valuetext": said }, piece);
}

/** A section; its text is put in when someone looks. */
function part(one, found, limit) {
  const inside = h("div");
  const said = tokensText(one.tokens);
  return h("details", { class: "part", ontoggle: () => { if (!inside.firstChild) fill(inside, within(one, found)); } },
    h("summary", {}, h("span", { class: "spread" }, h("strong", {}, one.title), h("span", { class: "faint" }, said)), why(one.why), bar(one.title, one.tokens, limit, said)), inside);
}

const within = (one, found) => [
  h("div", { class: "wraps", dir: "auto", tabindex: "0", role: "group", "aria-label": one.title }, one.text),
  one.cut && h("p", { class: "hint" }, t("cut", { shown: number(one.text.length), count: number(one.characters) })),
  h("ul", {}, one.name === "recalled_events" && found.recalled.map((event) => h("li", {}, bdi(event.text),
    why([event.session_id, event.turns && turnsText(event.turns), t("sure", { share: Math.round(event.confidence * 100) }), event.reason].filter(Boolean).join(" · "))))),
  entries(one, found),
];

/** The entries of lorebooks that were called up for a section, also those that had no room. */
const entries = (one, { lore }) => h("ul", {}, lore.filter((hit) => hit.section === one.name).map((hit) =>
  h("li", {}, bdi(hit.name), why(bdi(hit.book), " · ", tokensText(hit.tokens), " · ", hit.why))));
