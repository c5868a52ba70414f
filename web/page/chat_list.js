// How is a session of thousands of turns shown? Only the turns near the eye are in the page; the rest is empty space.

import { h } from "./dom.js";

const PAGE = 50;
const NEAR_END = 48;
const GUESS = 220;

/**
 * Make a list of turns by their place in the session. `draw(turn, isLast, place)` gives a turn's element, `load(before, count)`
 * fetches a page ({first, turns}), `moved(atEnd)` hears whether the newest turn is in sight.
 */
export function turnList({ label, draw, load, moved }) {
  const [head, above, below, tail] = [h("div"), h("div"), h("div"), h("div")];
  const scroller = h("div", { class: "turns", role: "log", "aria-live": "off", "aria-label": label, tabindex: "0" }, head, above, below, tail);
  const nodes = new Map();
  const asked = new Set();
  let [turns, heights, total, atEnd, anchor] = [[], [], 0, true, null];
  let [drawing, width, seen, guess, moving, staying] = [0, 0, 0, GUESS, 0, false];

  const sizes = new ResizeObserver(() => {
    if (width !== scroller.clientWidth) [heights, guess] = [[], GUESS];
    width = scroller.clientWidth;
    later();
  });
  sizes.observe(scroller);

  const later = () => { drawing ||= requestAnimationFrame(() => {
    drawing = 0;
    list.grew();
    if (staying) moved(atEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 2);
    staying = false;
  }); };

  function scrollTo(top) {
    scroller.scrollTop = top;
    seen = scroller.scrollTop;
  }

  /** Put the turns around the eye into the page, and keep what is being read where it is. */
  function arrange() {
    if (guess === GUESS) guess = heights.filter(Boolean).sort((one, other) => one - other).find((_, at, all) => at >= all.length >> 1) ?? GUESS;
    for (let pass = 0, changed = true; changed && pass < 4; pass += 1) {
      const [first, last, before, after] = around((place) => heights[place] || guess);
      above.style.setProperty("height", `${before}px`);
      below.style.setProperty("height", `${after}px`);
      changed = put(first, last);
      const held = nodes.get(anchor?.place);
      const off = held ? held.offsetTop - scroller.scrollTop - anchor.from : 0;
      if (atEnd) scrollTo(scroller.scrollHeight);
      // To set the place, even to what it is, would end the movement of a key or a wheel: till then the space gives way.
      else if (off && moving && before > off) above.style.setProperty("height", `${before - off}px`);
      else if (off) scrollTo(scroller.scrollTop + off);
    }
    if (!anchor) mark();
  }

  /** Find which turns are within a screen of the eye, and how much space stands before and after them. */
  function around(height) {
    const screen = scroller.clientHeight || innerHeight;
    let [whole, top] = [0, scroller.scrollTop - above.offsetTop];
    for (let place = 0; place < total; place += 1) {
      if (place === anchor?.place) top = whole - anchor.from;
      whole += height(place);
    }
    if (atEnd) top = whole - screen;
    let [first, last, before, y] = [0, 0, 0, 0];
    for (; last < total && y < top + 2 * screen; last += 1) {
      y += height(last);
      if (y < top - screen) [first, before] = [last + 1, y];
    }
    return [first, last, before, whole - y];
  }

  function put(first, last) {
    let changed = false;
    for (const place of nodes.keys()) if (place < first || place >= last) drop(place);
    for (let place = last - 1, next = below; place >= first; place -= 1) {
      let node = nodes.get(place);
      if (!node) {
        node = turns[place] ? draw(turns[place], place === total - 1, place) : missing(place);
        nodes.set(place, node);
        next.before(node);
        sizes.observe(node);
        changed = true;
      }
      next = node;
    }
    for (const [place, node] of nodes) if (turns[place]) heights[place] = node.offsetHeight;
    return changed;
  }

  /** Hold a turn's place until its page is there. */
  function missing(place) {
    const page = Math.floor(place / PAGE);
    const before = Math.min((page + 1) * PAGE, total);
    if (!asked.has(page)) {
      asked.add(page);
      load(before, before - page * PAGE).then((found) => asked.has(page) && list.add(found.first, found.turns, total), () => setTimeout(() => {
        asked.delete(page);
        for (const one of nodes.keys()) if (!turns[one]) drop(one);
        later();
      }, 3000));
    }
    const node = h("div", { class: "turn missing" });
    node.style.setProperty("height", `${guess}px`);
    return node;
  }

  function drop(place) {
    const node = nodes.get(place);
    if (!node) return;
    sizes.unobserve(node);
    node.remove();
    nodes.delete(place);
  }

  /** Remember which turn is at the top of the screen, and where exactly. */
  function mark() {
    anchor = null;
    for (const [place, node] of nodes) {
      const from = node.offsetTop - scroller.scrollTop;
      const isSeen = from + node.offsetHeight > 0 && from < scroller.clientHeight;
      if (isSeen && (!anchor || from < anchor.from)) anchor = { place, from };
    }
  }

  /** See where the person has scrolled to: the least way up leaves the end, a way down to near it is back at it. */
  function heed() {
    const { scrollTop } = scroller;
    if (scrollTop === seen) return;
    const rest = scroller.scrollHeight - scrollTop - scroller.clientHeight;
    atEnd = rest < 2 || scrollTop > seen && (atEnd || rest < NEAR_END);
    seen = scrollTop;
    mark();
  }

  scroller.addEventListener("scroll", () => {
    clearTimeout(moving);
    moving = setTimeout(() => {
      moving = 0;
      later();
    }, 200);
    heed();
    moved(atEnd);
    later();
  }, { passive: true });

  scroller.addEventListener("keydown", (event) => {
    if (event.target !== scroller || !["Home", "End"].includes(event.key)) return;
    event.preventDefault();
    if (event.key === "End") list.toEnd();
    else scroller.scrollTop = 0;
  });

  const list = {
    element: scroller, head, tail,
    /** Take in turns from a place on; those that are shown are drawn again. */
    add(first, found, count) {
      heed();
      if (count !== total) drop(total - 1); // it is not the last one any more
      total = count;
      found.forEach((turn, n) => {
        turns[first + n] = turn;
        drop(first + n);
      });
      arrange();
    },
    /** Draw the last turn again. */
    redraw() {
      heed();
      drop(total - 1);
      arrange();
    },
    grew() {
      heed();
      arrange();
    },
    /** Stay at what is being read: something is about to be opened there. */
    stay() {
      atEnd = false;
      staying = true;
      mark();
      later();
    },
    toEnd() {
      atEnd = true;
      arrange();
    },
    clear() {
      for (const place of nodes.keys()) drop(place);
      [turns, heights, total, atEnd, anchor, seen, guess] = [[], [], 0, true, null, 0, GUESS];
      asked.clear();
    },
    close() {
      sizes.disconnect();
      clearTimeout(moving);
    },
  };
  return list;
}
