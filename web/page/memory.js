// What does a character know of a person, and how is it searched, mended, forgotten?

import { api, at, runJob } from "./api.js";
import { add, bdi, fill, h } from "./dom.js";
import { button, complain, confirm, dialog, empty, loaded, progressBar, toast } from "./ui.js";
import { when, words } from "./words.js";

const t = words("memory");
const KINDS = ["profile", "event", "mind"];
const SIGNS = { add: "+", replace: "~", remove: "−", cite: "=" };
const ORIGINS = { memorize: "learn", edit: "by_hand", undo: "undo" };

export const show = (place, [, agent, user]) => (agent ? showOne(place, agent, user) : showAll(place, ""));

const rows = (items) => h("ul", { class: "plain" }, items);
const quiet = (label, work, props) => button(label, work, { class: "quiet", ...props });
const own = (text) => h("span", { dir: "auto", class: "wraps" }, text);
const knows = (agent, user) => t("knows").split("|").map((part) => ({ a: bdi(agent), u: user ? bdi(user) : t("player") })[part] ?? part);
const off = (told) => !told.enabled && h("p", { class: "card warned" }, t("is_off"), h("a", { href: "#/settings" }, t("settings")));

async function showAll(place, query) {
  const told = await api.get(`/api/memories${query}`);
  const card = (one) => h("li", { class: "card" },
    h("h2", {}, h("a", { href: at`#/memory/${one.agent_id}/${one.user_id}` }, knows(one.agent_name, one.user_id !== told.player && one.user_id))),
    h("p", { class: "faint" }, t(one.memory_id ? "counts" : "nothing", one), h("br"), when(one.updated_at)));
  fill(place, h("h1", {}, t("title")), off(told),
    told.memories.length ? h("ul", { class: "cards" }, told.memories.map(card)) : empty(t("nobody"), h("a", { class: "button primary", href: "#/" }, t("library"))),
    told.after && button(t("more"), () => showAll(place, `?after=${told.after}`)));
}

async function showOne(place, agent, user) {
  const link = (tail = "", more = {}) => `/api/memory${tail}?${new URLSearchParams({ agent_id: agent, ...user && { user_id: user }, ...more })}`;
  let memory;

  /** Fetch and show all; `focus` is the entry to go back to. */
  async function load(focus) {
    memory = await api.get(link());
    fill(head, h("h1", {}, knows(memory.agent_name, !memory.is_player && memory.user_id)), off(memory));
    history.hidden = forgetAll.hidden = !memory.memory_id;
    learn.hidden = !memory.stories.length;
    box.value = "";
    draw();
    if (focus) (lists.querySelector(`[data-id="${focus}"] button`) ?? lists.querySelector("button")).focus();
  }
  const all = () => [!KINDS.some((kind) => memory[kind].length) && empty(t("how"), h("a", { class: "button", href: "#/settings" }, t("settings"))), KINDS.map(section)];
  const draw = () => fill(lists, all());
  function section(kind) {
    const write = () => {
      list.prepend(h("li", {}, editor("", (text) => change(api.post(link("/entries"), { content_type: kind, text })), load)));
      list.querySelector("textarea").focus();
    };
    const list = rows(memory[kind].map(row));
    return h("section", { class: "card" }, h("div", { class: "spread" }, h("h2", {}, t(kind)),
      quiet(`+ ${t("add")}`, write, { "aria-label": `${t("add")}: ${t(kind)}` })), list);
  }
  /** Wait for a change and show what came of it. */
  async function change(call, focus) {
    const { change: made } = await call;
    if (!made) toast(t("known"));
    await load(focus ?? made?.steps[0].content_id);
    return made;
  }
  function editor(text, save, cancel) {
    const area = h("textarea", { value: text, maxlength: 2000, dir: "auto", "aria-label": t("edit"), onkeydown: (event) => {
      if (event.key === "Escape") cancel();
      if (event.key !== "Enter" || event.isComposing || event.keyCode === 229) return;
      event.preventDefault();
      saving.click();
    } });
    const saving = button(t("save"), () => (area.value.trim() ? save(area.value) : area.focus()), { class: "primary" });
    return h("div", { class: "stack" }, area, h("div", { class: "row" }, saving, button(t("cancel"), () => cancel())));
  }
  function row(entry) {
    const id = entry.content_id;
    const path = link(`/entries/${id}`);
    const edit = () => {
      fill(item, editor(entry.text, (text) => change(api.put(path, { text, was: entry.text }), id), () => load(id)));
      item.querySelector("textarea").focus();
    };
    const forget = async () => {
      const made = await change(api.delete(path), "none");
      toast(t("gone"), "info", { label: t("undo"), run: () => change(api.post(link("/undo"), { change_id: made.change_id }), id).catch(complain) });
    };
    const from = entry.sources.at(-1);
    const item = h("li", { class: "known", data: { id } },
      h("div", {}, own(entry.text), h("p", { class: "faint" }, when(entry.updated_at), !from ? ` · ${t("by_hand")}` : entry.reason && [" · ", bdi(entry.reason)])),
      h("div", { class: "row" }, from && quiet(t("source"), () => openSource(from)), quiet(t("edit"), edit), quiet(t("forget"), forget)));
    return item;
  }

  const search = (event) => {
    event.preventDefault();
    const query = box.value;
    if (!query.trim()) return draw();
    return loaded(lists, async () => {
      const { hits } = await api.get(link("/search", { query }));
      return box.value ? h("section", { class: "card" }, h("h2", { role: "status" }, t("found", { count: hits.length })), rows(hits.map(row))) : all();
    });
  };
  const history = button(t("history"), async () => {
    const { changes } = await api.get(link("/changes"));
    const step = (one) => h("p", {}, `${SIGNS[one.verb]} ${t(one.content_type)}: `, one.before !== one.after && one.before && h("del", { dir: "auto" }, one.before), " ",
      one.after && own(one.after), h("span", { class: "faint" }, " ", bdi(one.reason)));
    await dialog({ title: t("history"), wide: true, body: rows(changes.map((one) => h("li", {},
      h("p", { class: "faint" }, when(one.at), " · ", t(ORIGINS[one.origin])), one.steps.map(step)))),
    actions: [{ label: t("undo_last"), run: () => change(api.post(link("/undo"))) }] });
  });
  const learn = button(`🧠 ${t("learn")}`, async () => {
    let job;
    let count = 0;
    const bar = progressBar(() => api.post(at`/api/jobs/${job.job_id}/stop`));
    lists.before(bar);
    try {
      for (const story of memory.stories) {
        const tell = (news) => bar.tell(story, news.done, news.total);
        const { status, result, error } = await runJob(at`/api/instances/${story}/learn`, {}, { progress: tell, begun: (begun) => { job = begun; } });
        if (status === "error") throw error;
        count += result?.steps ?? 0;
        if (status !== "done") break;
      }
      toast(t("learned", { count }), "good");
    } finally {
      bar.remove();
      await load();
    }
  });
  const forgetAll = button(t("forget_all"), async () => {
    if (!await confirm(t("forget_all"), t("lost"), t("forget"))) return;
    await api.delete(link());
    toast(t("gone"), "good");
    await load();
  }, { class: "danger" });
  const head = h("div");
  const lists = h("div", { class: "stack" });
  const box = h("input", { type: "search", maxlength: 2000, "aria-label": t("search"), placeholder: t("search"), oninput: () => box.value || draw() });
  fill(place, h("a", { href: "#/memory" }, `← ${t("title")}`), head, h("div", { class: "spread finding" },
    h("form", { role: "search", onsubmit: search }, box), h("div", { class: "row" }, learn, history, forgetAll)), lists);
  await load();
}

/** Show the messages something was learned from, and what was said around them. */
async function openSource({ conversation_id: id, messages }) {
  let first = Math.max(0, (messages[0] ?? 0) - 2);
  const list = rows();
  const grow = async () => {
    const told = await api.get(at`/api/memory/conversations/${id}?first=${first}`);
    first += 50;
    add(list, told.messages.map((one) => h("li", { class: messages.includes(one.message_index) ? "cited" : "" }, h("strong", {}, t(one.role)), " ", own(one.content))));
    more.hidden = first >= told.turn_count;
    return told;
  };
  const more = button(t("more"), grow);
  const { created_at: time, story } = await grow();
  await dialog({ title: t("source"), wide: true, body: (close) => [h("p", { class: "faint" }, when(time), " ",
    story && h("a", { href: at`#/chat/${story.instance_id}/${story.session_id}`, onclick: () => close() }, `${story.instance_id} · ${story.turns.join("–")}`)), list, more] });
}
