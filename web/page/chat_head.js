// What stands above a chat: who, where, and what else can be done with the story?

import { api, at } from "./api.js";
import { bdi, fill, h } from "./dom.js";
import { showCurrent } from "./outline.js";
import { complain, dialog, field } from "./ui.js";
import { words } from "./words.js";

const t = words("chat_head");

/** Make the headline; `aside` is the outline it opens on a phone, `changed` is called when the story has another world. */
export function chatHead(state, aside, changed) {
  const world = h("span", { class: "pill clip" });
  const tools = h("div", { class: "row chat-tools" });
  const drawer = h("button", { class: "quiet drawer", "aria-expanded": "false", "aria-controls": aside.id, onclick: () => open(!aside.classList.contains("open")) }, "☰ ", t("outline"));
  const open = (yes) => {
    aside.classList.toggle("open", yes);
    drawer.setAttribute("aria-expanded", String(yes));
    showCurrent(aside);
  };
  return {
    element: h("header", { class: "chat-head" }, h("h1", { class: "clip" }, bdi(state.character.name)), world, tools, drawer, menu(state, changed)),
    tools, open,
    draw({ background }) {
      world.hidden = !background;
      fill(world, bdi(background?.name ?? ""));
    },
  };
}

function menu({ instance_id: instanceId, character }, changed) {
  const item = (name, work) => h("button", { class: "quiet", onclick: () => { box.open = false; box.firstChild.focus(); work().catch(complain); } }, t(name));
  const box = h("details", { class: "menu", onfocusout: (event) => { box.open &&= box.contains(event.relatedTarget); } },
    h("summary", { "aria-label": t("menu"), title: t("menu") }, "⋯"), h("div", { class: "card" },
      item("world", () => changeWorld(instanceId, changed)),
      h("a", { class: "quiet", href: at`#/memory/${character.id}` }, t("memory")),
      item("export", async () => (await import("./importing.js")).exportDialog("instance", instanceId, character.name))));
  return box;
}

async function changeWorld(instanceId, changed) {
  const path = at`/api/instances/${instanceId}`;
  const [{ backgrounds }, { background }] = await Promise.all([api.get("/api/backgrounds"), api.get(path)]);
  const choice = h("select", {}, h("option", { value: "" }, t("nowhere")),
    backgrounds.map((one) => h("option", { value: one.background_id, selected: one.background_id === background?.id }, one.name || one.background_id)));
  await dialog({ title: t("world"), body: field(t("label"), choice, t("keep")), actions: [{ label: t("change"), kind: "primary", run: async () => {
    await api.put(`${path}/background`, { background_id: choice.value || null });
    await changed();
  } }] });
}
