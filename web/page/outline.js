// Where does the story stand in its outline?

import { at } from "./api.js";
import { bdi, fill, h } from "./dom.js";
import { pairs } from "./words.js";

const t = pairs({
  title: ["故事大纲", "Outline"], completed: ["已完成", "done"], in_progress: ["进行中", "under way"], pending: ["未开始", "ahead"],
  none: ["这个故事没有大纲，可以自由发展。", "This story has no outline; it may go anywhere."], edit: ["编辑大纲", "Edit the outline"],
  off: ["导演已关闭：回复不会推进剧情。", "The director is off: replies do not move the plot."], settings: ["在设置中打开", "Switch it on in the settings"],
  quiet: ["已有 {count} 轮没有推进剧情", "No progress for {count} turns"],
});
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
}
