// What should a person know while a story goes on? One warning of a kind, the newest, until a turn comes without it.

import { bdi, fill, h } from "./dom.js";
import { dialog, remember } from "./ui.js";
import { words } from "./words.js";

const t = words("warnings");

/** The warnings of one story: `add(warning)` while a turn runs, `settle()` when it is over, `clear()`. */
export function warningsArea(instanceId) {
  const key = `warnings:${instanceId}`;
  let known = new Map(JSON.parse(sessionStorage.getItem(key) ?? "[]"));
  let told = new Set();
  const list = h("ul", { id: "warning-list", hidden: true });
  const badge = h("button", { class: "badge", id: "warning-badge", "aria-expanded": "false", "aria-controls": list.id, onclick: () => {
    list.hidden = !list.hidden;
    badge.setAttribute("aria-expanded", String(!list.hidden));
  } });
  const element = h("section", { class: "warnings", "aria-labelledby": badge.id }, badge, list);

  function keep(warnings) {
    known = new Map(warnings);
    remember(key, JSON.stringify([...known]));
    element.hidden = known.size === 0;
    badge.textContent = t("badge", { count: known.size });
    fill(list, [...known.values()].map(row), h("li", { class: "hint", id: "warning-hint" }, t("hint")));
  }

  keep(known);
  return {
    element,
    add(warning) {
      told.add(warning.category);
      known.delete(warning.category);
      keep([...known, [warning.category, warning]]);
    },
    settle() {
      keep([...known].filter(([category]) => told.has(category)));
      told = new Set();
    },
    clear: () => keep([]),
  };
}

const row = (warning) => h("li", {}, h("button", {
  class: "warning", "aria-describedby": "warning-hint", ondblclick: () => open(warning),
  // A keyboard or a screen reader has no second click to wait for.
  onclick: (event) => { if (event.detail === 0) open(warning); },
}, bdi(`⚠️ ${warning.message}${warning.current_value === undefined ? "" : t("value", { value: warning.current_value })}`)));

function open({ message, current_value: value, threshold, suggestion }) {
  const tokens = (count) => count !== undefined && `${count} tokens`;
  const rows = { kind: message, current: tokens(value), threshold: tokens(threshold), action: suggestion?.replace(/^建议/, ""), effect: value !== undefined && t("effects") };
  dialog({ title: t("title"), body: h("dl", { class: "warning-detail" },
    Object.entries(rows).map(([name, text]) => text && [h("dt", {}, t(name)), h("dd", {}, bdi(text))])) });
}
