// How is a character or a world written?

import { api, at } from "./api.js";
import { bdi, fill, h } from "./dom.js";
import { button, confirm, field, toast } from "./ui.js";
import { languages, words } from "./words.js";

const t = words("editors");
const KINDS = {
  characters: { prefix: "char", text: "base_persona", list: "greetings", longest: 200000 },
  backgrounds: { prefix: "bg", text: "world_setting", list: "story_outline", longest: 10000 },
};
const drafts = new Map();

/** Write one of `kind` ("characters" or "backgrounds"); `id` is "+" for another one. */
export async function edit(place, kind, id, context) {
  const of = KINDS[kind];
  const isNew = id === "+";
  const key = `${kind}/${id}`;
  const whole = isNew ? { name: "", [of.text]: "", [of.list]: [] } : await api.get(at`/api/${kind}/${id}`);
  const draft = drafts.get(key);
  let kept = JSON.stringify(fields(kind, whole).values());
  let first = draft?.first ?? kept;
  const form = fields(kind, draft?.values ?? whole, isNew);
  drafts.delete(key);
  const isDirty = () => JSON.stringify(form.values()) !== kept;
  const save = button(t("save"), async () => {
    if (!page.reportValidity()) return;
    const values = form.values();
    const there = !isNew && JSON.stringify(fields(kind, await api.get(at`/api/${kind}/${id}`)).values());
    if (there && there !== first && there !== JSON.stringify(values) && !await confirm(t("changed"), t("overwrite"), t("save"))) return;
    try {
      await api.put(at`/api/${kind}/${isNew ? form.id() : id}`, { ...values, replace: !isNew });
    } catch (error) {
      if (error.code !== "entry_exists") throw error;
      return form.taken();
    }
    kept = first = JSON.stringify(values);
    toast(t("saved", { name: values.name }), "good");
    if (isNew) context.go("/");
  }, { class: "primary" });
  const page = h("form", { class: "editor", onsubmit: (event) => { event.preventDefault(); save.click(); } },
    h("a", { href: "#/" }, t("back")), h("h1", {}, isNew ? t(kind) : bdi(whole.name)), form.nodes,
    whole.card?.notes && h("details", {}, h("summary", {}, t("notes")), h("p", { class: "wraps", dir: "auto" }, whole.card.notes)), h("div", { class: "save-bar" }, save));
  fill(place, page);
  const over = new AbortController();
  addEventListener("beforeunload", (event) => { if (isDirty()) event.preventDefault(); }, over);
  addEventListener("click", async (event) => {
    const link = event.target.closest?.("a[href^='#/']");
    if (!link || !isDirty()) return;
    event.preventDefault();
    if (!await confirm(t("unsaved"), t("lose"), t("leave"))) return;
    kept = JSON.stringify(form.values());
    location.hash = link.hash;
  }, { signal: over.signal, capture: true });
  const here = location.hash;
  return () => {
    over.abort();
    if (!isDirty()) return;
    // The browser's own way back asks nobody: what was written waits for the return.
    drafts.set(key, { first, values: form.values() });
    if (location.hash !== here) toast(t("unsaved"), "bad", { label: t("goBack"), run: () => context.go(`/${key}`) });
  };
}

function fields(kind, whole, isNew) {
  const of = KINDS[kind];
  const id = h("input", { required: true, pattern: "[A-Za-z0-9][A-Za-z0-9_\\-]{0,63}", maxlength: 64, autocomplete: "off", spellcheck: "false", oninput: () => { made = null; } });
  // The id follows the name until someone writes one.
  let made = "";
  const name = h("input", { value: whole.name, required: true, pattern: ".*\\S.*", maxlength: 200, autocomplete: "off", dir: "auto", oninput: () => {
    if (made !== null) id.value = made = idFor(of.prefix, name.value);
  } });
  const text = h("textarea", { value: whole[of.text], required: true, maxlength: 200000, dir: "auto" });
  const language = kind === "characters" && h("select", {}, [["", t("auto")], ...languages().filter((one) => one.has_prompts).map(({ code, name }) => [code, name])].map(([value, label]) => h("option", { value }, label)));
  if (language) language.value = whole.language ?? "";
  if (isNew) name.dispatchEvent(new Event("input"));
  const list = lines(of, whole[of.list]);
  const called = field("ID", id, t("idHint"));
  return {
    nodes: [field(t("name"), name), isNew && called, field(t(of.text), text, t(`${of.text}Hint`)), language && field(t("language"), language),
      h("section", {}, h("h2", {}, t(of.list)), h("p", { class: "hint" }, t(`${of.list}Hint`)), list)],
    values: () => ({ name: name.value.trim(), [of.text]: text.value, [of.list]: list.values(), ...(language ? { language: language.value || null } : {}) }),
    id: () => id.value,
    taken: () => { called.fault(t("taken")); id.focus(); },
  };
}

/** Make an id of a name by its Latin letters, or else by a number that the name gives. */
function idFor(prefix, name) {
  const slug = name.normalize("NFKD").replace(/[^\x20-\x7e]|'/g, "").toLowerCase().replace(/[^a-z0-9]+/g, "_").slice(0, 48).replace(/^_+|_+$/g, "");
  // Short ones may be names that some systems keep for devices.
  if (slug.length > 1) return slug.length > 4 ? slug : `${prefix}_${slug}`;
  return name && `${prefix}_${[...name].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) >>> 0, 7).toString(16)}`;
}

/** A list of texts that can be added to, taken from and put in another order. */
function lines({ list: what, longest }, texts) {
  const list = h("ol", { class: "lines" });
  const told = h("p", { class: "faint", role: "status" });
  let dragged = null;
  const rows = () => [...list.children];
  const renumber = () => rows().forEach((row, place) => {
    row.area.setAttribute("aria-label", t(`one_${what}`, { count: place + 1 }));
    row.place.textContent = place + 1;
  });
  const move = (row, step, focus) => {
    const other = rows()[rows().indexOf(row) + step];
    if (!other) return;
    other[step < 0 ? "before" : "after"](row);
    renumber();
    focus.focus();
    told.textContent = t("moved", { count: row.place.textContent });
  };
  const insert = (text, before = null) => {
    const area = h("textarea", { value: text, maxlength: longest, rows: 1, dir: "auto", onkeydown: (event) => {
      const step = event.altKey && { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      move(row, step, area);
    } });
    const tool = (key, sign, run) => h("button", { type: "button", class: "quiet", "aria-label": t(key), title: t(key), onclick: (event) => run(event.currentTarget) }, sign);
    const handle = h("span", { class: "handle", draggable: "true", "aria-hidden": "true", ondragstart: ({ dataTransfer }) => {
      dragged = row;
      row.classList.add("dragged");
      dataTransfer.setData("text/plain", "");
      dataTransfer.setDragImage(row, 0, 0);
    }, ondragend: () => { row.classList.remove("dragged"); dragged = null; renumber(); } }, "⠿");
    const place = h("span", { class: "place", "aria-hidden": "true" });
    const row = h("li", {}, handle, place, area, h("span", { class: "row" }, tool("up", "↑", (me) => move(row, -1, me)), tool("down", "↓", (me) => move(row, 1, me)), tool("remove", "×", () => remove(row))));
    Object.assign(row, { area, place });
    list.insertBefore(row, before);
    renumber();
    return row;
  };
  const remove = (row) => {
    const next = row.nextElementSibling;
    row.remove();
    renumber();
    ((next ?? list.lastElementChild)?.area ?? more).focus();
    if (row.area.value) toast(t("removed"), "info", { label: t("undo"), run: () => insert(row.area.value, next?.isConnected ? next : null).area.focus() });
  };
  list.addEventListener("dragover", (event) => {
    const over = event.target.closest("li");
    if (!dragged || !over) return;
    event.preventDefault();
    const { top, height } = over.getBoundingClientRect();
    if (over !== dragged) over[event.clientY < top + height / 2 ? "before" : "after"](dragged);
  });
  const more = button(t("add"), () => insert("").area.focus());
  for (const text of texts) insert(text);
  const made = h("div", {}, list, told, more);
  made.values = () => rows().map((row) => row.area.value).filter((text) => text.trim());
  return made;
}
