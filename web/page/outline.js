// Where does the story stand in its outline?

import { at } from "./api.js";
import { bdi, fill, h } from "./dom.js";
import { words } from "./words.js";

const t = words("outline");
const SIGNS = { completed: "✓", in_progress: "●", pending: "○" };

/** Show the outline with where each point stands. */
export function drawOutline(place, { outline, plot_state: plot, current_point: current, director_enabled: isOn, background }) {
  const point = ({ index, content, status }) => h("li", { class: status, "aria-current": index === current && "step" },
    h("span", { class: "sign", "aria-hidden": "true" }, SIGNS[status]), h("span", { class: "wraps" }, bdi(`${index}. ${content}`), h("small", {}, t(status))));
  fill(place, h("h2", {}, t("title")),
    !isOn && h("p", { class: "hint" }, t("off"), " ", h("a", { href: "#/settings" }, t("settings"))),
    outline.length ? h("ol", { class: "outline" }, outline.map(point)) : h("p", { class: "faint" }, t("none")),
    isOn && outline.length > 0 && plot.no_update_count > 0 && h("p", { class: "hint" }, t("quiet", { count: plot.no_update_count })),
    background && h("a", { href: at`#/backgrounds/${background.id}` }, t("edit")));
  showCurrent(place);
}

/** Scroll a long outline to where the story is. */
export const showCurrent = (place) => place.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
