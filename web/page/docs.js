// What can be asked of the server? Everything that /openapi.json describes, to read and to search.

import { fill, h } from "./dom.js";
import { otherLanguages, setLanguage, words } from "./words.js";

const t = words("docs");
const code = (...children) => h("code", {}, ...children);

/** Write a schema in a line; a name leads to its own description. */
function form(schema) {
  if (schema?.$ref) {
    const name = schema.$ref.split("/").at(-1);
    return h("a", { href: `#schema-${name}`, onclick: () => { document.getElementById(`schema-${name}`).open = true; } }, name);
  }
  const some = schema?.anyOf ?? schema?.oneOf ?? schema?.allOf;
  if (some) return some.map((one, at) => [at ? " | " : "", form(one)]);
  const values = schema?.enum ?? (schema && "const" in schema ? [schema.const] : null);
  if (values) return values.map((one) => JSON.stringify(one)).join(" | ");
  if (schema?.type === "array") return [form(schema.items), "[]"];
  if (schema?.additionalProperties?.type) return ["{…: ", form(schema.additionalProperties), "}"];
  return schema?.type ?? "any";
}

const limits = (schema) => Object.entries(schema ?? {}).filter(([name]) => /^m|pattern|format|default/.test(name)).map(([name, value]) => `${name} ${JSON.stringify(value)}`).join(", ");

/** Show rows of [name, schema, required, description] under a heading. */
const table = (key, rows) => rows.length > 0 && [key && h("h3", {}, t(key)), h("table", {}, h("tbody", {}, rows.map(([name, schema, required, text]) =>
  h("tr", {}, h("th", { scope: "row" }, code(name), required && h("small", {}, ` ${t("required")}`)),
    h("td", {}, code(form(schema))), h("td", {}, text ?? schema?.description, " ", h("small", {}, limits(schema)))))))];

function operation(path, method, told) {
  const asked = (told.parameters ?? []).map((one) => [`${one.name} (${one.in})`, one.schema, one.required, one.description]);
  const body = Object.entries(told.requestBody?.content ?? {}).map(([type, { schema }]) => [type, schema, told.requestBody.required]);
  const answers = Object.entries(told.responses).filter(([status]) => status < 400).flatMap(([status, { content, description }]) =>
    Object.entries(content ?? { "": {} }).map(([type, { schema }]) => [`${status} ${type}`, schema, false, description]));
  answers.push([Object.keys(told.responses).filter((status) => status >= 400).join(" "), { $ref: "/ErrorBody" }]);
  const node = h("details", {}, h("summary", {}, h("b", { class: method }, method.toUpperCase()), code(path), h("span", {}, told.summary)),
    h("p", {}, told.description), table("parameters", asked), table("body", body), table("answers", answers));
  return { node, text: `${method} ${path} ${told.summary} ${told.description} ${told.tags}`.toLowerCase() };
}

const described = ([name, { description, properties, required, ...schema }]) => h("details", { id: `schema-${name}` }, h("summary", {}, code(name)),
  h("p", {}, description),
    properties ? table("", Object.entries(properties).map(([key, one]) => [key, one, required?.includes(key)])) : code(form(schema)));

function show(api) {
  const groups = {};
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, told] of Object.entries(methods)) (groups[told.tags[0]] ??= []).push(operation(path, method, told));
  }
  const sections = Object.entries(groups).map(([tag, found]) => ({ found, node: h("section", {}, h("h2", {}, t(tag)), found.map((one) => one.node)) }));
  const count = h("p", { role: "status" });
  const search = h("input", { type: "search", id: "search", oninput: filter });
  function filter() {
    const wanted = search.value.toLowerCase().split(" ");
    let shown = 0;
    for (const { found, node } of sections) {
      let left = found.length;
      for (const one of found) if (one.node.hidden = !wanted.every((word) => one.text.includes(word))) left -= 1;
      node.hidden = !left;
      shown += left;
    }
    count.textContent = shown ? t("count", { count: shown }) : t("none");
  }
  fill(document.body, h("main", { class: "view docs" },
    h("div", { class: "head" }, h("h1", {}, t("title")), h("a", { href: "/openapi.json" }, "openapi.json"), h("a", { href: "/" }, t("back")),
      otherLanguages().map(({ code, name }) => h("button", { class: "quiet", lang: code, onclick: () => setLanguage(code).then(() => show(api)) }, name))),
    h("label", { for: "search" }, t("search")), search, count, sections.map((one) => one.node),
    h("section", {}, h("h2", {}, t("schemas")), Object.entries(api.components.schemas).map(described))));
  filter();
}

async function read(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(answer.status === 401 ? t("token") : answer.status);
  return answer.json();
}

try {
  await setLanguage(navigator.language);
  const info = await read("/api/info");
  if (info.language_is_chosen) await setLanguage(info.language);
  show(await read("/openapi.json"));
} catch (error) {
  fill(document.body, h("main", { class: "view docs" }, h("h1", {}, t("title")),
    h("p", { role: "alert" }, t("failed"), error.message), h("a", { href: "/" }, t("back"))));
}
