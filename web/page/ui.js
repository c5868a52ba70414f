// Which pieces do all views share?

import { add, fill, h } from "./dom.js";
import { words } from "./words.js";

const t = words("ui");
// It is there before anything is said: what comes together with its region is not read out.
const toasts = h("div", { id: "toasts", role: "status" });
document.body.append(toasts);

/** Say something briefly at the edge of the page; kind: "info", "good" or "bad". */
export function toast(message, kind = "info", action = null) {
  const leave = () => note.remove();
  const note = h("div", { class: `toast ${kind}` }, h("span", {}, message),
    action && h("button", { class: "link", onclick: () => { leave(); action.run(); } }, action.label),
    h("button", { class: "quiet", "aria-label": t("close"), onclick: leave }, "×"));
  // What stands outside an open dialog is covered and out of reach.
  [document.body, ...document.querySelectorAll("dialog[open]")].at(-1).append(toasts);
  toasts.append(note);
  setTimeout(leave, kind === "bad" || action ? 12000 : 5000);
}

/** Keep something for a reload, unless it is more than the browser keeps. */
export function remember(key, value) {
  try {
    sessionStorage.setItem(key, value);
  } catch { /* Only a reload would miss it. */ }
}

/** Say what went wrong. */
export const complain = (error) => toast(error.message, "bad");

/**
 * Open a dialog; `body` is a node or a function of `close`; `actions` is a list of {label, kind, run} whose `run` may
 * return false (or a promise of it) to stay open. Resolves to what it was closed with.
 */
export function dialog({ title, body, actions = [], wide = false }) {
  return new Promise((resolve) => {
    const before = document.activeElement;
    let told;
    const close = (value) => {
      told = value;
      box.close();
    };
    const content = typeof body === "function" ? body(close) : body;
    const failed = h("p", { class: "fault", role: "alert", hidden: true });
    const buttons = actions.map(({ label, kind = "", run }) => {
      const button = h("button", { type: "button", class: kind, onclick: () => busyButton(button, async () => {
        failed.hidden = true;
        const value = run ? await run() : undefined;
        if (value !== false) close(value);
      }, (error) => { failed.textContent = error.message; failed.hidden = false; }) }, label);
      return button;
    });
    const id = `dialog-${fields += 1}`;
    const box = h("dialog", { class: wide ? "wide" : "", "aria-labelledby": id },
      h("header", {}, h("h2", { id }, title),
        h("button", { type: "button", class: "quiet", "aria-label": t("close"), onclick: () => close() }, "×")),
      h("div", { class: "dialog-body" }, content), failed,
      buttons.length ? h("footer", {}, buttons) : null);
    box.addEventListener("close", () => { document.body.append(toasts); box.remove(); before?.focus?.(); resolve(told); });
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.isComposing || event.keyCode === 229 || event.defaultPrevented) return;
      if (event.target.matches("input:not([type=checkbox], [type=radio], [type=file])")) box.querySelector("footer .primary")?.click();
    });
    document.body.append(box);
    box.showModal();
    (box.querySelector("[autofocus]") ?? box.querySelector(".dialog-body :is(input, textarea, select)"))?.focus();
  });
}

/** Ask before something that cannot be taken back; resolves to whether to do it. */
export const confirm = (title, text, label = t("ok")) =>
  dialog({ title, body: h("p", {}, text), actions: [
    { label: t("cancel"), run: () => null }, { label, kind: "primary danger", run: () => true },
  ] }).then(Boolean);

/** Do something while a button is disabled; failures are said (or handed to `failed`). */
export async function busyButton(button, work, failed = complain) {
  if (button.disabled) return undefined;
  const focused = document.activeElement === button;
  button.disabled = true;
  button.setAttribute("aria-busy", "true");
  try {
    return await work();
  } catch (error) {
    failed(error);
    return undefined;
  } finally {
    button.disabled = false;
    button.removeAttribute("aria-busy");
    // A disabled button loses the focus; a dialog that its work opened could not give it back.
    if (focused && document.activeElement === document.body) button.focus();
  }
}

/** A button that is busy while its work is. */
export function button(label, work, props = {}) {
  const made = h("button", { type: "button", ...props, onclick: () => busyButton(made, work) }, label);
  return made;
}

let fields = 0;

/** A labelled control; `fault(text)` on the result says what is wrong with it. hint: a line below. */
export function field(label, control, hint = null) {
  const id = control.id ||= `field-${fields += 1}`;
  const fault = h("p", { class: "fault", id: `${id}-fault`, role: "alert", hidden: true });
  const notes = [hint && h("p", { class: "hint", id: `${id}-hint` }, hint), fault];
  control.setAttribute("aria-describedby", `${hint ? `${id}-hint ` : ""}${id}-fault`);
  const tick = control.type === "checkbox";
  const made = h("div", { class: tick ? "field tick" : "field" },
    tick ? [control, h("label", { for: id }, label)] : [h("label", { for: id }, label), control], notes);
  made.fault = (text) => {
    fault.textContent = text ?? "";
    fault.hidden = !text;
    control.setAttribute("aria-invalid", text ? "true" : "false");
  };
  return made;
}

/** Show that something is being fetched, then what `load` gives, or what went wrong with a way to try again. */
export async function loaded(place, load) {
  fill(place, h("p", { class: "faint", "aria-busy": "true" }, t("loading")));
  try {
    fill(place, await load());
  } catch (error) {
    fill(place, h("div", { class: "empty" }, h("p", { class: "fault", role: "alert" }, error.message),
      h("button", { onclick: () => loaded(place, load) }, t("retry"))));
  }
}

/** A progress bar with words and, where it can be stopped, a button; `tell(text, done, total)` moves it. */
export function progressBar(stop = null) {
  const bar = h("progress", { max: 1 });
  const text = h("span", {});
  const made = h("div", { class: "progress", role: "status" }, bar, text, stop && button(t("stop"), stop));
  made.tell = (said, done, total) => {
    text.textContent = said;
    if (total) bar.value = done / total; else bar.removeAttribute("value");
  };
  return made;
}

/** What to show where there is nothing yet: a sentence and the next step. */
export const empty = (text, ...actions) => h("div", { class: "empty" }, h("p", {}, text), add(h("div", { class: "row" }), actions));

/** Give a file to the person. */
export function download(blob, name) {
  const url = URL.createObjectURL(blob);
  const link = h("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
