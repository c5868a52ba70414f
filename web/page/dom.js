// How are elements made? Text is only ever a text node: nothing that a model or a person wrote becomes markup.

const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "open", "selected"]);

/** Make an element: h("button", {class: "primary", onclick: go}, "Go"). Children: nodes, texts, arrays, null. */
export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false && !PROPERTIES.has(name)) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (PROPERTIES.has(name)) node[name] = value;
    else if (name === "data") Object.assign(node.dataset, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  add(node, children);
  return node;
}

/** Make an SVG element, for plots. */
export function svg(tag, props = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props)) if (value !== null) node.setAttribute(name, value);
  add(node, children);
  return node;
}

/** Add children to a node. */
export function add(node, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

/** Replace everything in a node. */
export function fill(node, ...children) {
  node.replaceChildren();
  return add(node, ...children);
}

/** Show a name or a short text of someone: whatever direction it has, what stands around it keeps its own. */
export const bdi = (text, props = {}) => h("bdi", props, text);
