// What is on the page, and how does a person get from one place to another?

import { api } from "./api.js";
import { fill, h } from "./dom.js";
import { acceptDrops } from "./importing.js";
import { complain, dialog, field } from "./ui.js";
import { language, otherLanguages, setLanguage, words } from "./words.js";

const t = words("app");

// A view is a module with `show(place, parts, context)`, loaded when it is first needed; it may return a function that
// is called when the person leaves it.
const VIEWS = {
  __proto__: null,
  "": () => import("./library.js"),
  characters: () => import("./library.js"),
  backgrounds: () => import("./library.js"),
  chat: () => import("./chat.js"),
  memory: () => import("./memory.js"),
  settings: () => import("./settings.js"),
  lab: () => import("./lab.js"),
};
const TABS = [["", "library", "📚"], ["memory", "memory", "🧠"], ["lab", "lab", "🧪"], ["settings", "settings", "⚙️"]];

const context = { info: null, go: (path) => { location.hash = path; }, refresh };
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
  try {
    const module = await view();
    if (turn !== shown) return;
    const left = await module.show(place, [name, ...rest], context);
    if (turn === shown) leave = left ?? null;
    else left?.();
  } catch (error) {
    const isGone = !view || [404, 422].includes(error.status); // 422: no id looks like this
    if (turn === shown) fill(place, trouble(isGone ? t("lost") : error.message, !isGone && refresh));
    if (!error.code && !isGone) console.error(error);
  }
  document.title = [main.querySelector("h1")?.textContent, "PersonaLab"].filter(Boolean).join(" · ");
}

const trouble = (text, again) => h("div", { class: "empty", role: "alert" }, h("h1", {}, text),
  h("div", { class: "row" }, again && h("button", { onclick: again }, t("retry")), h("a", { class: "button", href: "#/" }, t("home"))));

/** Draw the view anew; the eye and the keyboard stay where they were, as far as they can. */
async function refresh() {
  const top = scrollY;
  await show();
  scrollTo(0, top);
  enter();
}

const enter = () => { if (!main.contains(document.activeElement)) main.focus({ preventScroll: true }); };

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
      otherLanguages().map(({ code, name }) => h("button", { class: "quiet", lang: code, onclick: () => switchLanguage(code) }, name)),
      h("button", { class: "quiet", "aria-label": t("theme"), title: t("theme"), onclick: switchTheme }, "◐")));
  banner.hidden = !context.info?.is_rehearsal;
  fill(banner, t("rehearsal"));
}

const header = h("header", { class: "top" });
const banner = h("p", { class: "banner", hidden: true });

async function switchLanguage(wanted) {
  try {
    await api.put("/api/settings", { values: { "preferences.language": wanted } });
  } catch (error) {
    return complain(error);
  }
  await setLanguage(wanted);
  await refresh();
  return header.querySelector(".tools button").focus();
}

const look = document.documentElement.dataset;
look.theme = localStorage.theme ?? "";

function switchTheme() {
  const now = look.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  localStorage.theme = look.theme = now === "dark" ? "light" : "dark";
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
  start();
});

const start = () => arrive().catch((error) => { fill(main, trouble(error.message, start)); });

async function arrive() {
  await setLanguage(navigator.language); // the way in needs words before anything is known
  const spoken = language();
  context.info = await api.get("/api/info");
  let wanted = context.info.language;
  if (!context.info.language_is_chosen && spoken !== wanted) {
    await api.put("/api/settings", { values: { "preferences.language": spoken } }).catch(complain);
    wanted = spoken;
  }
  if (wanted !== spoken) await setLanguage(wanted);
  await show();
}

document.body.prepend(header, banner, main);
acceptDrops(context);
addEventListener("hashchange", () => show().then(enter));
start();
