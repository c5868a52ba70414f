// In which language is the page?

let current = "zh";
let known = {};

/** The reader's language, "zh" or "en". */
export const language = () => current;

/** Speak a language; its words stand in words/zh.json and words/en.json, by view. */
export async function setLanguage(name) {
  current = name === "en" ? "en" : "zh";
  document.documentElement.lang = current;
  const told = await fetch(`/page/words/${current}.json`);
  if (told.ok) known = await told.json();
}

/** A view's own words: const t = words("chat"); t("turn", {turn: 3}) */
export const words = (view) => (key, params = {}) =>
  (known[view]?.[key] ?? key).replace(/(?<!\{)\{(\w+)\}(?!\})/g, (_, name) => params[name] ?? "");

/** Write a time of the server as the reader does. */
export function when(text) {
  const time = new Date(text);
  if (!text || Number.isNaN(time.getTime())) return "";
  const style = { dateStyle: "medium", timeStyle: "short" };
  return new Intl.DateTimeFormat(current === "zh" ? "zh-CN" : "en", style).format(time);
}

/** Write a number as the reader does. */
export const number = (value, digits = 0) =>
  new Intl.NumberFormat(current === "zh" ? "zh-CN" : "en", { maximumFractionDigits: digits }).format(value);
