// The page's texts, numbers and times in the reader's language.

let known = { language: "", tag: "en", languages: [], views: {} };

/** The reader's language, as the server calls it. */
export const language = () => known.language;

/** The languages there are, each with its code, its own name, and whether prompts are written in it. */
export const languages = () => known.languages;

/** The page's languages other than the reader's. */
export const otherLanguages = () => known.languages.filter(({ code }) => code !== known.language);

/** Speak a language: one of ours, or the one that fits a browser's language best. */
export async function setLanguage(name) {
  const answer = await fetch(`/page/texts/${encodeURIComponent(name)}.json`);
  if (answer.ok) known = await answer.json();
  document.documentElement.lang = known.language;
}

/** A view's own words: const t = words("chat"); t("turn", {turn: 3}). In a text, {n|turn|turns} is "turn" where n is 1. */
export const words = (view) => (key, params = {}) =>
  (known.views[view]?.[key] ?? key).replace(/(?<!\{)\{(\w+)(?:\|([^{}|]*)\|([^{}|]*))?\}(?!\})/g,
    (_, name, one, many) => (one === undefined ? params[name] ?? "" : String(params[name]) === "1" ? one : many));

/** Write a time of the server as the reader does. */
export function when(text) {
  const time = new Date(text);
  if (!text || Number.isNaN(time.getTime())) return "";
  return new Intl.DateTimeFormat(known.tag, { dateStyle: "medium", timeStyle: "short" }).format(time);
}

/** Write a number as the reader does. */
export const number = (value, digits = 0) =>
  new Intl.NumberFormat(known.tag, { maximumFractionDigits: digits }).format(value);
