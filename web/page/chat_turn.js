// What does one turn look like?

import { bdi, h } from "./dom.js";
import { growing, rich } from "./text.js";
import { when, words } from "./words.js";

const t = words("chat_turn");

/** Draw a turn. `live`: the reply that is being written in it; `retry`: tries again, where that is possible; `awaited`: written elsewhere. */
export function drawTurn({ turn, user, replies, summaries: before }, { name, live, retry, awaited }) {
  const title = turn === 0 ? t("opening") : t("turn", { turn });
  const earlier = replies.filter((reply) => reply.attempt < (live?.attempt ?? replies.length));
  const last = live ? null : replies.at(-1);
  return h("article", { class: "turn", "aria-label": title },
    summaries(before), h("h2", {}, title),
    user && said("mine", who(t("you"), user.timestamp), shown(user.content)),
    earlier.length > 0 && h("details", { class: "tries" }, h("summary", {}, t("tries", { count: earlier.length })),
      earlier.map((reply) => [shown(reply.content), ending(reply)])),
    live && said("writing", who(bdi(name)), live.element, h("p", { class: "hint" }, t("writing"))),
    last && said(kind(last), who(bdi(name), last.timestamp), shown(last.content)),
    awaited ? h("p", { class: "turn-note" }, t("elsewhere")) : !live && (last || user) && ending(last, retry));
}

/** What happened before a turn or a session, in a few words. */
export const summaries = (texts) => texts.length > 0 && h("details", { class: "before", open: texts.length < 4 },
  h("summary", {}, t("before", { count: texts.length })), h("ul", {}, texts.map((text) => h("li", { dir: "auto", class: "wraps" }, text))));

const said = (how, ...children) => h("div", { class: `said ${how}`, "aria-busy": how === "writing" && "true" }, children);
const shown = (text) => h("div", { class: "words" }, rich(text));
const who = (name, time) => h("p", { class: "who" }, h("strong", {}, name), time && h("time", { datetime: time }, when(time)));
const kind = (reply) => !reply ? "missing" : reply.error ? "error" : reply.interrupted || !reply.closed ? "interrupted" : reply.empty ? "empty" : "";
const ending = (reply, retry) => kind(reply) && h("div", { class: `turn-note ${kind(reply)}` }, t(kind(reply)), retry && h("button", { onclick: retry }, t("retry")));

/** A reply that is being written: what comes is shown a few times a second, less often the longer that takes. */
export function liveReply(attempt, text, shown) {
  const element = h("div", { class: "words" });
  let grow = growing(element);
  let waiting = text;
  let timer = 0;
  let pause = 30;
  function flush() {
    const begun = performance.now();
    clearTimeout(timer);
    timer = 0;
    grow(waiting);
    waiting = "";
    shown();
    pause = Math.min(Math.max(30, 4 * (performance.now() - begun)), 1000);
  }
  return {
    attempt, element, flush,
    add(piece) {
      waiting += piece;
      timer ||= setTimeout(flush, pause);
    },
    replace(whole) {
      element.replaceChildren();
      grow = growing(element);
      waiting = whole;
      flush();
    },
  };
}
