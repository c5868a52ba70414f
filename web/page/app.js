// What is on the page, and how does a person get from one place to another?

import { api } from "./api.js";
import { fill, h } from "./dom.js";
import { complain, dialog, field } from "./ui.js";
import { language, setLanguage, words } from "./words.js";

const t = words("app");

// A view is a module with `show(place, parts, context)`, loaded when it is first needed; it may return a function that
// is called when the person leaves it.
const VIEWS = {
  "": () => import("./library.js"),
  characters: () => import("./library.js"),
  backgrounds: () => import("./library.js"),
  chat: () => import("./chat.js"),
  memory: () => import("./memory.js"),
  settings: () => import("./settings.js"),
  lab: () => import("./lab.js"),
};
const TABS = [["", "library", "📚"], ["memory", "memory", "🧠"], ["lab", "lab", "🧪"], ["settings", "settings", "⚙️"]];

const context = { info: null, go: (path) => { location.hash = path; }, refresh: show };
const main = h("main", { id: "main", tabindex: "-1" });
const nav = h("nav", { class: "tabs" });
let leave = null;
let shown = 0;

function parts() {
  return location.hash.replace(/^#\/?/, "").split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
}

async function show() {
  const turn = shown += 1;
  const [name, ...rest] = parts();
  leave?.();
  leave = null;
  drawFrame(name);
  document.body.dataset.view = name || "library";
  const place = h("div", { class: "view" });
  fill(main, place);
  const view = VIEWS[name];
  if (!view) return fill(place, h("h1", {}, t("lost")), h("a", { href: "#/" }, t("home")));
  try {
    const module = await view();
    if (turn !== shown) return undefined;
    const left = await module.show(place, [name, ...rest], context);
    if (turn === shown) leave = left ?? null;
    else left?.();
  } catch (error) {
    if (turn === shown) fill(place, h("p", { class: "fault", role: "alert" }, error.message));
    if (!error.status) console.error(error);
  }
  return undefined;
}

function drawFrame(name) {
  const at = ["characters", "backgrounds", "chat"].includes(name) ? "" : name;
  nav.setAttribute("aria-label", t("nav"));
  fill(nav, TABS.map(([path, key, icon]) => h("a", { href: `#/${path}`, "aria-current": path === at ? "page" : null },
    h("span", { class: "icon", "aria-hidden": "true" }, icon), h("span", {}, t(key)))));
  fill(header, h("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); main.focus(); } }, t("skip")),
    h("a", { class: "brand", href: "#/" }, h("img", { src: "/page/icon.svg", alt: "", width: 28, height: 28 }), "PersonaLab"),
    nav,
    h("div", { class: "tools" },
      h("a", { class: "quiet", href: "/docs" }, t("api")),
      h("button", { class: "quiet", lang: language() === "zh" ? "en" : "zh", onclick: switchLanguage }, t("language")),
      h("button", { class: "quiet", "aria-label": t("theme"), title: t("theme"), onclick: switchTheme }, "◐")));
  banner.hidden = !context.info?.is_rehearsal;
  fill(banner, t("rehearsal"));
}

const header = h("header", { class: "top" });
const banner = h("p", { class: "banner", hidden: true });

async function switchLanguage() {
  const wanted = language() === "zh" ? "en" : "zh";
  try {
    await api.put("/api/settings", { values: { "preferences.language": wanted } });
  } catch (error) {
    return complain(error);
  }
  await setLanguage(wanted);
  return show();
}

function switchTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
  setTheme(now === "dark" ? "light" : "dark");
  localStorage.setItem("theme", document.documentElement.dataset.theme);
}

function setTheme(name) {
  if (name === "dark" || name === "light") document.documentElement.dataset.theme = name;
}

let asking = false;
addEventListener("login-needed", async () => {
  if (asking) return;
  asking = true;
  const input = h("input", { type: "password", autocomplete: "current-password", autofocus: true });
  await dialog({ title: t("login"), body: field(t("token"), input), actions: [{
    label: t("enter"), kind: "primary", run: () => api.post("/api/login", { token: input.value || "-" }),
  }] });
  asking = false;
  start().catch(complain);
});

const spoken = navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";

async function start() {
  await setLanguage(spoken); // the way in needs words before anything is known
  context.info = await api.get("/api/info");
  let wanted = context.info.language;
  if (!context.info.language_is_chosen && spoken !== wanted) {
    await api.put("/api/settings", { values: { "preferences.language": spoken } });
    wanted = spoken;
  }
  if (wanted !== spoken) await setLanguage(wanted);
  await show();
}

setTheme(localStorage.getItem("theme"));
document.body.append(header, banner, main);
addEventListener("hashchange", () => show().then(() => { if (!main.contains(document.activeElement)) main.focus({ preventScroll: true }); }));
start().catch(complain);
