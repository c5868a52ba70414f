// What does one turn look like?

import { bdi, h } from "./dom.js";
import { growing, rich, withoutMarkers } from "./text.js";
import { complain } from "./ui.js";
import { when, words } from "./words.js";

const t = words("chat_turn");
const CLOSING = /^.*<\/think(?:ing)?>\s*(.*)$/is;

/**
 * Draw a turn. `live`: the reply that is being written in it; `retry`: tries again, where that is possible; `awaited`:
 * written elsewhere; `markers`: whether plot markers are shown; `fold(attempt)`: how a reply's reasoning is folded.
 */
export function drawTurn({ turn, user, replies, summaries: before }, { name, live, retry, awaited, markers, fold }) {
  const title = turn === 0 ? t("opening") : t("turn", { turn });
  const earlier = replies.filter((reply) => reply.attempt < (live?.attempt ?? replies.length));
  const last = live ? null : replies.at(-1);
  const thoughts = (reply) => reply.has_reasoning && folded(fold(reply.attempt)).element;
  const speech = last && speechOf(last);
  return h("article", { class: "turn", "aria-label": title },
    summaries(before), h("h2", {}, title),
    user && said("mine", who(t("you"), user.timestamp), shown(user.content)),
    earlier.length > 0 && h("details", { class: "tries" }, h("summary", {}, t("tries", { count: earlier.length })),
      earlier.map((reply) => [thoughts(reply), speechOf(reply) && shown(speechOf(reply), markers), notices(reply)])),
    live && said("writing", who(bdi(name)), live.thoughts, live.element, h("p", { class: "hint" }, t("writing"))),
    last && (speech ? said(kind(last), who(bdi(name), last.timestamp), thoughts(last), shown(speech, markers)) : thoughts(last)),
    awaited ? h("p", { class: "turn-note" }, t("elsewhere")) : !live && (last || user) && notices(last, retry));
}

/** What happened before a turn or a session, in a few words. */
export const summaries = (texts) => texts.length > 0 && h("details", { class: "before", open: texts.length < 4 },
  h("summary", {}, t("before", { count: texts.length })), h("ul", {}, texts.map((text) => h("li", { dir: "auto", class: "wraps" }, text))));

/** What a reply that has ended is read out as. */
export const spokenReply = (done) => (done.empty ? t("empty") : withoutMarkers(done.content).slice(0, 5000));

const said = (how, ...children) => h("div", { class: `said ${how}`, "aria-busy": how === "writing" && "true" }, children);
const shown = (text, markers) => h("div", { class: "words" }, rich(text, markers));
const who = (name, time) => h("p", { class: "who" }, h("strong", {}, name), time && h("time", { datetime: time }, when(time)));
const kind = (reply) => !reply ? "missing" : reply.error ? "error" : reply.interrupted || !reply.closed ? "interrupted" : reply.empty ? "empty" : "";

/** What the character says in a reply: not that there is none, and not why it failed. */
const speechOf = ({ content, note, empty }) => (empty ? "" : note ? content.slice(0, -note.length).trimEnd() : content);

/** What is to be known about a reply, beside what it says. */
function notices(reply, retry) {
  const how = kind(reply);
  const text = reply?.note ? `⚠️ ${reply.note}` : t(how === "interrupted" && reply.empty ? "stopped" : how);
  return [reply?.truncated && h("p", { class: "turn-note" }, t("truncated")),
    how && h("div", { class: how === "error" ? "turn-note error" : "turn-note" }, h("span", { dir: "auto" }, text), retry && h("button", { onclick: retry }, t("retry")))];
}

/** What the model thought, folded. `kept`: {open, text}, for the next drawing; `opening` is called before it opens; `load` fetches the text. */
function folded({ kept, opening, load }) {
  const label = h("summary", { onclick: () => { if (!element.open) opening(); } }, t("reasoning"));
  const text = document.createTextNode(kept.text);
  const element = h("details", { class: "reasoning", open: kept.open, ontoggle: () => {
    kept.open = element.open;
    if (kept.open) load?.().then((whole) => { opening(); text.data = kept.text = whole; }, complain);
  } }, label, h("div", { class: "wraps", dir: "auto" }, text));
  return { element, label, text };
}

/**
 * A reply that is being written: what comes is shown a few times a second, less often the longer that takes. `grew` is
 * called when something was shown.
 */
export function liveReply(attempt, text, { markers, fold, grew }) {
  const element = h("div", { class: "words" });
  const thoughts = folded(fold);
  let grow = growing(element, markers);
  let [spoken, waiting, thought, timer, pause] = ["", text, "", 0, 30];

  function flush() {
    const begun = performance.now();
    clearTimeout(timer);
    timer = 0;
    spoken += waiting;
    // The text before it was reasoning; the server sends it again as such.
    const [, rest] = waiting.includes(">") && CLOSING.exec(spoken) || [];
    if (rest !== undefined) restart(rest);
    grow(waiting);
    fold.kept.text = thought;
    const known = thoughts.text.data;
    if (thought.startsWith(known)) thoughts.text.appendData(thought.slice(known.length));
    else thoughts.text.data = thought;
    thoughts.label.textContent = t(spoken ? "reasoning" : "thinking");
    thoughts.element.hidden = !thought;
    element.hidden = !spoken && Boolean(thought);
    waiting = "";
    grew();
    pause = Math.min(Math.max(30, 4 * (performance.now() - begun)), 1000);
  }

  function restart(whole) {
    element.replaceChildren();
    grow = growing(element, markers);
    spoken = waiting = whole;
  }

  const later = () => { timer ||= setTimeout(flush, pause); };
  return {
    attempt, element, flush, kept: fold.kept, thoughts: thoughts.element,
    add(piece) {
      waiting += piece;
      later();
    },
    think(piece, anew) {
      thought = anew ? piece : thought + piece;
      later();
    },
    replace(whole) {
      restart(whole);
      spoken = "";
      flush();
    },
  };
}
