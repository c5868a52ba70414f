// What is in the library, and how does a story begin?

import { api, at } from "./api.js";
import { bdi, fill, h } from "./dom.js";
import { chooseFiles, exportDialog } from "./importing.js";
import { complain, dialog, empty, field } from "./ui.js";
import { number, when, words } from "./words.js";

const t = words("library");
const MANY = 8;
const KINDS = {
  instances: { card: storyCard, make: "newStory", go: begin, none: "first" },
  characters: { card: characterCard, make: "newCharacter", none: "nobody" },
  backgrounds: { card: worldCard, make: "newWorld", none: "nowhere" },
};

/** `#/` is the library; `#/characters/ID` and `#/backgrounds/ID` (or `+`) are its editors. */
export async function show(place, [view, id], context) {
  if (view && id) return (await import("./editors.js")).edit(place, view, id, context);
  const all = { context };
  await Promise.all(Object.keys(KINDS).map(async (kind) => { all[kind] = (await api.get(`/api/${kind}`))[kind]; }));
  fill(place, home(all));
  return null;
}

function home(all) {
  const shelves = Object.keys(KINDS).map((kind) => shelf(kind, all));
  const count = h("p", { class: "faint", role: "status" });
  const search = h("input", { type: "search", placeholder: t("search"), "aria-label": t("search"), oninput: () => {
    const wanted = search.value.trim().toLowerCase();
    const found = shelves.reduce((sum, each) => sum + each.draw(wanted), 0);
    count.textContent = wanted && t("found", { count: number(found) });
  } });
  const many = Object.keys(KINDS).some((kind) => all[kind].length > MANY);
  return [
    h("div", { class: "spread" }, h("h1", {}, t("title")), many && h("div", { class: "seek" }, search), opener(t("import"), () => chooseFiles(all.context))),
    h("p", { class: "faint" }, t("dropHint")), count, shelves,
  ];
}

/** One of the three lists; `draw(wanted)` shows what has these words, and tells how many. */
function shelf(kind, all) {
  const { card, make, go, none } = KINDS[kind];
  const known = all[kind].map((one) => [one, JSON.stringify(Object.values(one)).toLowerCase()]);
  const list = h("ul", { class: "cards" });
  const made = h("section", { class: "shelf", "aria-labelledby": `shelf-${kind}` },
    h("div", { class: "spread" }, h("h2", { id: `shelf-${kind}` }, t(kind)), go
      ? all.characters.length > 0 && opener(`+ ${t(make)}`, () => go(all), { class: known.length ? "primary" : "" })
      : h("a", { class: "button", href: `#/${kind}/+` }, `+ ${t(make)}`)),
    known.length ? null : empty(t(none)), list);
  made.draw = (wanted) => {
    const found = known.filter(([, text]) => text.includes(wanted)).map(([one]) => one);
    fill(list, found.map((one) => h("li", { class: "card entry" }, one.error
      ? [h("h3", {}, bdi(one.name ?? one.instance_id)), h("p", { class: "fault" }, one.error)] : card(one, all))));
    made.hidden = Boolean(wanted) && !found.length;
    return found.length;
  };
  made.draw("");
  return made;
}

function storyCard({ instance_id: id, character, background, last, turns, running, created_at: begun }) {
  const place = `#${at`/chat/${id}`}`;
  return [
    head(character, place, background ? bdi(background.name) : t("noWorld")),
    h("p", { class: last?.notice ? "clamp faint" : "clamp", dir: "auto" }, last ? [!last.by_character && h("b", {}, t("you"), ": "), last.text] : t("silence")),
    h("p", { class: "faint row" }, turns > 0 && t("turns", { count: number(turns) }), h("span", {}, when(last?.timestamp || begun)), running && h("span", { class: "pill accent" }, t("running"))),
    foot("instance", id, `${character.name} (${id})`, false, h("a", { class: "button primary", href: place, ...named("goOn", character.name) }, t("goOn"))),
  ];
}

function characterCard(one, all) {
  const { character_id: id, name, excerpt, has_lorebook: book } = one;
  return [
    head(one, `#/characters/${id}`, book && t("lorebook")), h("p", { class: "clamp", dir: "auto" }, excerpt),
    foot("character", id, name, book, opener(t("begin"), () => begin(all, id), { class: all.instances.length ? "" : "primary", ...named("begin", name) })),
  ];
}

function worldCard({ background_id: id, name, excerpt, points, has_lorebook: book }, all) {
  return [
    h("h3", {}, h("a", { href: `#/backgrounds/${id}` }, bdi(name))),
    h("p", { class: "faint" }, t("points", { count: number(points) }), book && ` · ${t("lorebook")}`), h("p", { class: "clamp", dir: "auto" }, excerpt),
    foot("background", id, name, book, all.characters.length > 0 && opener(t("begin"), () => begin(all, "", id), named("begin", name))),
  ];
}

/** A button that opens something stays as it is meanwhile, so that the focus comes back to it. */
const opener = (label, open, props = {}) => h("button", { type: "button", ...props, onclick: open }, label);
/** Tell what a control is for where several have the same words. */
const named = (key, name) => ({ "aria-label": `${t(key)}: ${name}` });
const head = ({ name, picture }, place, below) => h("div", { class: "head" }, avatar(name, picture),
  h("div", {}, h("h3", {}, h("a", { href: place }, bdi(name))), h("div", { class: "faint" }, below)));
const foot = (kind, id, name, book, go) => h("div", { class: "row foot" },
  opener("⇩", () => exportDialog(kind, id, name, book).catch(complain), { class: "quiet", title: t("export"), ...named("export", name) }),
  kind !== "instance" && h("a", { class: "quiet", href: `#/${kind}s/${id}`, title: t("edit"), ...named("edit", name) }, "✎"), go);

/** A picture, or the first letter of the name until there is one. */
function avatar(name, picture) {
  const made = h("span", { class: "avatar", "aria-hidden": "true" }, h("span", {}, [...name.trim()][0] ?? "?"),
    picture && h("img", { src: picture, alt: "", loading: "lazy", onerror: (event) => event.target.remove() }));
  made.style.setProperty("--hue", [...name].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) % 360, 7));
  return made;
}

/** Ask whom to meet, where and how it opens, then begin. */
function begin({ instances, characters, backgrounds, context }, character, world) {
  const able = characters.filter((one) => !one.error);
  const option = (value, label) => h("option", { value }, label);
  const who = h("select", {}, able.map((one) => option(one.character_id, one.name)));
  const where = h("select", { onchange: () => { world = where.value; } }, option("", t("noWorld")),
    backgrounds.filter((one) => !one.error).map((one) => option(one.background_id, one.name)));
  const how = h("select", {});
  const said = h("blockquote", { class: "wraps", dir: "auto" });
  const opening = h("div", { hidden: true }, field(t("opens"), how), said);
  let greetings = [];
  how.onchange = () => {
    const text = greetings[how.value - 1] ?? "";
    said.textContent = text.replace(/\{\{char\}\}/gi, () => who.selectedOptions[0].text).replace(/\{\{user\}\}/gi, t("you").toLowerCase());
    said.hidden = !text;
  };
  const meet = async () => {
    const id = who.value;
    const whole = await api.get(at`/api/characters/${id}`);
    if (who.value !== id) return;
    // Where they met last; else a world that speaks of this character. What the person chose stays.
    where.value = world ?? instances.find((one) => one.character?.id === id && one.background)?.background.id ?? whole.worlds[0] ?? "";
    if (where.selectedIndex < 0) where.value = "";
    greetings = whole.greetings;
    fill(how, greetings.map((_, place) => option(place + 1, t("greeting", { count: place + 1 }))), option(0, t("silent")));
    opening.hidden = !greetings.length;
    how.onchange();
  };
  let met;
  who.onchange = () => { met = meet(); };
  if (character) who.value = character;
  who.onchange();
  return dialog({
    title: t("newStory"), body: h("div", {}, field(t("who"), who), field(t("where"), where), opening),
    actions: [{ label: t("start"), kind: "primary", run: async () => {
      await met.catch(meet);
      const story = await api.post("/api/instances", { character_id: who.value, background_id: where.value || null, greeting: greetings.length ? Number(how.value) : null });
      context.go(at`/chat/${story.instance_id}`);
    } }],
  });
}
