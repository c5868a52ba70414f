// How is what a model or a person wrote shown? A little Markdown becomes elements; everything else stays text.

import { h } from "./dom.js";
import { words } from "./words.js";

const t = words("text");
// Where something may begin. No character is looked at often: a text of nothing but brackets takes no longer than another.
const BEGINS = /[`*[]|https?:\/\//g;
const MARKER = /\[PROGRESS:[^\]\n]{0,40}\]/y;
const READABLE_MARKER = /^\[PROGRESS:(\d{1,9}):(completed|in_progress|pending)\]$/;
const OPEN_MARKER = /^\[PROGRESS:[^\]\n]{0,40}$/;
const MARKED = `([*_\`]{0,3})${MARKER.source}`;
const MARKER_LINE = new RegExp(`(?:^|(?<=\\n))[ \\t]*(?:${MARKED}\\1[ \\t]*)+(?:\\n|$)|${MARKED}\\2`, "g");
const TARGET = /\]\(\s{0,9}([^\s()[\]]{1,2000})\s{0,9}\)/y;
const BARE = /https?:\/\/[^\s<>"'`*[\]（）()，。！？、；：”’」』】]+/y;

/** Turn a text into nodes: paragraphs, *emphasis*, **strong**, `code`, http links, plot markers (or none of those). */
export const rich = (text, markers = true) =>
  (markers ? text : withoutMarkers(text)).replace(/\r\n?/g, "\n").split(/\n{2,}/).map((block) => paragraph(inline(block)));

/** Remove the plot markers from a text, with the lines that hold nothing else. */
export const withoutMarkers = (text) => (text.includes("[PROGRESS:") ? text.replace(MARKER_LINE, "").trimEnd() : text);

// Every paragraph finds its own direction, and what turns directions around ends with it.
const paragraph = (...children) => h("p", { dir: "auto" }, ...children);

/**
 * Show a text that grows: whole paragraphs are drawn once, the last one stays plain until it is whole. What may become
 * a plot marker is shown when it is one, or cannot be one any more.
 */
export function growing(place, markers = true) {
  let [raw, held, line, last] = ["", "", null, null];
  const begin = () => {
    last = document.createTextNode("");
    line = paragraph(last);
    place.append(line);
  };
  const put = (text) => text.split(new RegExp(`(${MARKER.source})`)).forEach((part, at) => {
    if (at % 2 === 0) last.appendData(part);
    else if (markers) line.append(chip(part), last = document.createTextNode(""));
  });
  begin();
  return (piece) => {
    const text = held + piece;
    const end = openMarker(text);
    held = text.slice(end);
    raw += text.slice(0, end);
    const cut = raw.lastIndexOf("\n\n");
    if (cut < 0) return put(text.slice(0, end));
    line.replaceWith(...rich(raw.slice(0, cut), markers).filter((one) => one.textContent));
    raw = raw.slice(cut + 2);
    begin();
    return put(raw);
  };
}

/** Find where a text ends in what may become a plot marker. */
function openMarker(text) {
  const at = text.lastIndexOf("[");
  const tail = text.slice(at);
  return at >= 0 && ("[PROGRESS:".startsWith(tail) || OPEN_MARKER.test(tail)) ? at : text.length;
}

/** A plot marker in few words; what the model wrote is its title. */
function chip(marker) {
  const [, index, status] = READABLE_MARKER.exec(marker) ?? [];
  return h("span", { class: "marker", title: marker }, index ? t("marker", { index, status: t(status) }) : marker);
}

function inline(text) {
  const nodes = [];
  const known = { text, closing: 0 };
  let seen = 0;
  BEGINS.lastIndex = 0;
  for (let found; (found = BEGINS.exec(text));) {
    const at = found.index;
    const [node, end] = READERS[found[0][0]](known, at) ?? [];
    if (node) {
      nodes.push(text.slice(seen, at), node);
      seen = end;
    }
    BEGINS.lastIndex = end ?? at + 1;
  }
  nodes.push(text.slice(seen));
  return nodes;
}

function code({ text }, at) {
  const end = text.indexOf("`", at + 1);
  const body = text.slice(at + 1, end);
  return end > at + 1 && !body.includes("\n") ? [h("code", {}, body), end + 1] : null;
}

function stars({ text }, at) {
  const wide = text[at + 1] === "*" ? 2 : 1;
  const end = text.indexOf("*", at + wide);
  const body = text.slice(at + wide, end);
  if (end <= at + wide || body !== body.trim() || body.includes("\n")) return wide === 2 ? [null, at + 2] : null;
  if (wide === 2) return text[end + 1] === "*" ? [h("strong", {}, body), end + 2] : [null, end];
  return [h("em", {}, body), end + 1];
}

function bracket(known, at) {
  const { text } = known;
  MARKER.lastIndex = at;
  const marker = MARKER.exec(text);
  if (marker) return [chip(marker[0]), MARKER.lastIndex];
  if (known.closing >= 0 && known.closing <= at) known.closing = text.indexOf("](", at);
  if (known.closing < 0 || text.lastIndexOf("[", known.closing) !== at) return null;
  const label = text.slice(at + 1, known.closing);
  TARGET.lastIndex = known.closing;
  const target = label.includes("\n") ? null : TARGET.exec(text);
  const link = target && outward(target[1], label || target[1]);
  return link ? [link, TARGET.lastIndex] : null;
}

function bare({ text }, at) {
  BARE.lastIndex = at;
  let address = BARE.exec(text)?.[0] ?? "";
  while (".,;:!?".includes(address.at(-1) ?? "x")) address = address.slice(0, -1);
  const link = outward(address, address);
  return link ? [link, at + address.length] : [null, at + Math.max(address.length, 1)];
}

/** A link to the web opens elsewhere and learns nothing of us; any other kind of link stays the text it was. */
function outward(address, label) {
  if (!/^https?:/i.test(address) || !URL.canParse(address)) return null;
  const { href } = new URL(address);
  return h("a", { href, target: "_blank", rel: "noopener noreferrer", title: href }, label);
}

const READERS = { "`": code, "*": stars, "[": bracket, h: bare };
