// In which language is the page?

let current = "zh";

/** The reader's language, "zh" or "en". */
export const language = () => current;

export function setLanguage(name) {
  current = name === "en" ? "en" : "zh";
  document.documentElement.lang = current;
}

/** Make a view's own dictionary: const t = words({zh: {hi: "你好，{name}"}, en: {hi: "Hello, {name}"}}); t("hi", {name}) */
export function words(known) {
  return (key, params = {}) => {
    const text = known[current][key] ?? known.en[key] ?? key;
    return text.replace(/(?<!\{)\{(\w+)\}(?!\})/g, (_, name) => params[name] ?? "");
  };
}

/** The same of pairs: const t = pairs({hi: ["你好，{name}", "Hello, {name}"]}); */
export function pairs(known) {
  const side = (place) => Object.fromEntries(Object.entries(known).map(([key, both]) => [key, both[place]]));
  return words({ zh: side(0), en: side(1) });
}

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
