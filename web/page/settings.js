// How does a person see and change what is set?

import { api, at } from "./api.js";
import { fill, h } from "./dom.js";
import { busyButton, button, complain, confirm, field, toast } from "./ui.js";
import { languages, number, setLanguage, words } from "./words.js";

// Of a setting: its label and, where it has one, what stands beside its control.
const t = words("settings");
const DRAWN = ["preferences.summary_order", "preferences.conversation_load_all"];

const said = (name) => t(name.split(".").at(-1)).split("|");
const groupOf = (name) => (name.startsWith("preferences.") && !DRAWN.includes(name) ? "more" : name.split(".")[0]);

// What was changed and not saved outlives a look at another view.
let draft = {};

/** A language is called by its own name. */
const nameOf = (value) => languages().find(({ code }) => code === value)?.name;

/** Several radio buttons that are one field. */
function radios(name, choices) {
  const inputs = choices.map((word) => h("input", { type: "radio", name, value: word }));
  const node = h("fieldset", { class: "field choice" }, h("legend", {}, said(name)),
    inputs.map((input) => h("label", {}, input, nameOf(input.value) ?? t(input.value))));
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

/** The modules' switches; each is saved at once, for it stands in a file of its own. */
function modules(told) {
  const row = ([name, { trigger, enabled = trigger !== "off", file }]) => {
    const tick = h("input", { type: "checkbox", checked: enabled, onchange: () => busyButton(tick, async () => {
      await api.put(at`/api/settings/modules/${name}`, { on: tick.checked });
      toast(t("saved"), "good");
    }, (error) => {
      tick.checked = !tick.checked;
      complain(error);
    }) });
    return field(t(name), tick, trigger && enabled ? `${file}: ${trigger}` : file);
  };
  return h("section", { class: "card" }, h("h2", {}, t("modules")), Object.entries(told).map(row), h("p", { class: "hint" }, t("where")));
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
    h("div", { class: "save-bar" }, status, resetButton((now) => accept(now, context)), saving)));
  mark();
}

async function accept(told, context) {
  draft = {};
  await setLanguage(told.values["preferences.language"]);
  toast(t("saved"), "good");
  await context.refresh();
  document.querySelector(".save-bar .primary")?.focus({ preventScroll: true });
}

const resetButton = (done) => button(t("reset"), async () => {
  if (await confirm(t("ask"), t("lost"), t("reset"))) await done(await api.post("/api/settings/reset"));
});

export async function show(place, parts, context) {
  try {
    draw(place, await api.get("/api/settings"), context);
  } catch (error) {
    if (error.code !== "file_broken") throw error;
    fill(place, h("h1", {}, t("title")), h("p", { class: "fault", role: "alert" }, error.message), resetButton(() => location.reload()));
  }
  const ask = (event) => { if (Object.keys(draft).length) event.preventDefault(); };
  addEventListener("beforeunload", ask);
  return () => removeEventListener("beforeunload", ask);
}
