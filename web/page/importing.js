// How do files come in by drag and drop, and how do things leave as files?

import { api, at, runJob } from "./api.js";
import { bdi, fill, h } from "./dom.js";
import { button, complain, dialog, download, field, progressBar } from "./ui.js";
import { words } from "./words.js";

const t = words("importing");
const MOST = 64 * 1024 * 1024;

// --- in

/** Let files be dropped anywhere on the page. */
export function acceptDrops(context) {
  const overlay = h("div", { class: "drop", hidden: true });
  document.body.append(overlay);
  const on = (name, handler) => addEventListener(name, (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    handler(event);
  });
  on("dragenter", () => {
    fill(overlay, h("div", {}, h("h2", {}, `📥 ${t("drop")}`), h("p", { class: "faint" }, ".png .json .charx .jsonl")));
    overlay.hidden = false;
  });
  on("dragover", () => {});
  on("dragleave", (event) => { overlay.hidden = !event.relatedTarget; });
  on("drop", ({ dataTransfer: { items, files } }) => {
    overlay.hidden = true;
    if ([...items].some((item) => item.webkitGetAsEntry?.()?.isDirectory)) complain(new Error(t("folder")));
    else if (files.length) importFiles(files, context);
  });
}

/** Ask for files. */
export function chooseFiles(context) {
  const input = h("input", { type: "file", multiple: true, accept: ".png,.json,.jsonl,.charx,.zip", onchange: () => importFiles(input.files, context) });
  input.click();
}

/** Bring files in one after another, cards before chats, and show what each became. */
async function importFiles(files, context) {
  const isChat = (file) => /\.jsonl$/i.test(file.name);
  const rows = [...files].sort((one, other) => isChat(one) - isChat(other)).map(fileRow);
  const count = h("p", { class: "faint", role: "status" });
  const here = location.hash;
  const closed = dialog({ title: t("title"), wide: true, body: h("div", {}, count, h("ul", { class: "plain arrivals" }, rows)), actions: [{ label: t("close"), kind: "primary" }] });
  for (const [place, row] of rows.entries()) {
    await row.run();
    count.textContent = `${place + 1} / ${rows.length}`;
  }
  await closed;
  if (location.hash === here) context.refresh();
}

/** A file and what becomes of it; `run(character, onConflict)` brings it in. */
function fileRow(file) {
  const state = h("div", {}, "…");
  const row = h("li", {}, h("strong", {}, bdi(file.name)), state);
  const refuse = async ({ message, code }) => fill(state, ["character_needed", "chat_nameless"].includes(code)
    ? await whose(row).catch((error) => error.message) : h("p", { class: "fault" }, message));
  row.run = async (character, onConflict) => {
    if (file.size > MOST) return refuse({ message: t("tooLarge") });
    const bar = progressBar();
    bar.tell(t("reading"));
    fill(state, bar);
    try {
      const path = at`/api/import?wait=false&name=${file.name.slice(-200)}` + (character ? at`&character=${character}` : "") + (onConflict ? at`&on_conflict=${onConflict}` : "");
      const body = new Blob([file], { type: "application/octet-stream" });
      const { status, result, error } = await runJob(path, body, { progress: ({ name }) => bar.tell(name) });
      if (status !== "done") return refuse(error ?? { message: t("stopped") });
      return fill(state, result.imported.map((entry) => [became(entry), conflict(entry, (choice) => row.run(character, choice))]), result.not_indexed && h("p", { class: "hint" }, result.not_indexed));
    } catch (error) {
      return refuse(error);
    }
  };
  return row;
}

const became = ({ kind, id, name, outcome, notes }) => h("div", {}, h("span", { class: `pill ${{ same: "", exists: "warn" }[outcome] ?? "good"}` }, t(outcome)), ` ${t(kind)} `,
  h("a", { href: `#/${kind === "instance" ? "chat" : `${kind}s`}/${id}`, onclick: (event) => event.target.closest("dialog").close() }, bdi(name)), notes.map((note) => h("p", { class: "hint" }, note)));

/** What can be done about a card that differs from the character whose id it carries; leaving it alone needs no button. */
const conflict = ({ options }, choose) => options.length > 0 && h("div", { class: "row" }, options.filter((option) => option !== "skip").map((option) => button(t(option), () => choose(option))));

async function whose(row) {
  const { characters } = await api.get("/api/characters");
  const who = h("select", {}, characters.map((one) => h("option", { value: one.character_id }, one.name)));
  return h("div", { class: "row whose" }, field(t("whose"), who), button(t("title"), () => row.run(who.value)));
}

// --- out

/** Ask in which format a "character", "background" or "instance" is to leave, and give the file. */
export async function exportDialog(kind, id, name, hasBook = false) {
  const { formats } = await api.get(`/api/export/formats?kind=${kind}`);
  const able = formats.filter(({ format }) => hasBook || !["lorebook", "world-info"].includes(format));
  const form = h("div", { role: "radiogroup", "aria-label": t("save") }, able.map(({ format, ending }, place) => h("label", { class: "row choice" },
    h("input", { type: "radio", name: "format", value: format, checked: place === 0 }), t(format.replace("-", "_")), h("span", { class: "faint" }, `.${ending}`))));
  await dialog({ title: t("export", { name }), body: form, actions: [{ label: t("save"), kind: "primary", run: async () => {
    const answer = await api.file(at`/api/export?kind=${kind}&id=${id}&format=${form.querySelector(":checked").value}`);
    download(await answer.blob(), decodeURIComponent(/filename\*=UTF-8''([^;]+)/.exec(answer.headers.get("content-disposition"))[1]));
  } }] });
}
