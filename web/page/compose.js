// How does a person say something?

import { h } from "./dom.js";
import { button, remember } from "./ui.js";
import { number, words } from "./words.js";

const LONGEST = 200_000;
const t = words("compose");

/**
 * Make the place to write in. `say({text, request_id})` tells whether it was said; the same words sent again after a lost
 * answer carry the same id, so that they are one turn. `writing(yes)` on the result shows Stop instead of Send.
 */
export function composer({ instanceId, say, stop }) {
  const key = `draft:${instanceId}`;
  const fault = h("p", { class: "fault", role: "alert", hidden: true });
  const hint = h("span", { class: "hint", id: "say-hint" });
  const input = h("textarea", { rows: 1, "aria-label": t("say"), placeholder: t("say"), "aria-describedby": "say-hint", value: sessionStorage.getItem(key) ?? "", oninput: changed });
  const sending = h("button", { class: "primary", onclick: send }, t("send"));
  const stopping = button(t("stop"), async () => { await stop(); input.focus(); }, { class: "stop" });
  let asked = null;
  let isBusy = false;
  let isWriting = false;

  input.addEventListener("keydown", (event) => {
    // An Enter that only chooses a word of an input method sends nothing.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    send();
  });

  function changed() {
    remember(key, input.value);
    fail(isTooLong() ? t("long", { count: number([...input.value].length) }) : "");
    fit();
    settle();
  }

  function fit() {
    input.style.setProperty("height", "auto");
    input.style.setProperty("height", `${input.scrollHeight + 2}px`);
  }

  const isTooLong = () => input.value.length > LONGEST && [...input.value].length > LONGEST;

  function settle() {
    sending.hidden = isWriting;
    stopping.hidden = !isWriting;
    sending.disabled = isBusy || !input.value.trim() || isTooLong();
    hint.textContent = t(isWriting ? "writing" : "hint");
  }

  function fail(text) {
    fault.textContent = text;
    fault.hidden = !text;
  }

  async function send() {
    const text = input.value;
    if (sending.disabled || isWriting) return;
    if (asked?.text !== text) asked = { text, request_id: fresh() };
    isBusy = true;
    settle();
    fail("");
    try {
      if (await say(asked)) {
        asked = null;
        if (input.value.startsWith(text)) input.value = input.value.slice(text.length); // what was typed meanwhile stays
        changed();
      }
    } catch (error) {
      fail(error.status ? error.message : `${error.message} ${t("again")}`);
    }
    isBusy = false;
    settle();
  }

  settle();
  return {
    element: h("div", {}, h("div", { class: "compose" }, input, sending, stopping), h("div", { class: "spread" }, hint, fault)),
    draft: () => input.value, stop: () => stopping.click(), focus: () => input.focus({ preventScroll: true }), fit, fail,
    writing(yes) {
      if (!yes && document.activeElement === stopping) input.focus();
      isWriting = yes;
      settle();
    },
  };
}

const fresh = () => crypto.getRandomValues(new Uint32Array(4)).join("-");
