// What changed between two texts, word by word?

// A character of Chinese, Japanese or Korean is a word of its own.
const WORDS = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]|[\p{L}\p{N}\p{M}_]+|\s+|[^]/gu;
const SENTENCES = /[^。！？!?.\n]*[。！？!?.\n]+|[^。！？!?.\n]+/gu;
const MOST_CELLS = 9_000_000;

/** Compare two texts: [{same}, {removed, added}, …]. Long ones sentence by sentence, the longest as a whole. */
export function diff(before, after) {
  for (const parts of [WORDS, SENTENCES]) {
    const [a, b] = [before, after].map((text) => text.match(parts) ?? []);
    if (a.length * b.length <= MOST_CELLS) return joined(compared(a, b));
  }
  return [{ removed: before, added: after }];
}

/** Tell along the longest common subsequence what stayed, went and came. */
function compared(a, b) {
  const rows = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) rows[i][j] = a[i] === b[j] ? rows[i + 1][j + 1] + 1 : Math.max(rows[i + 1][j], rows[i][j + 1]);
  }
  const found = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && a[i] === b[j]) found.push(["same", a[i++], j++]);
    else if (j === b.length || i < a.length && rows[i + 1][j] >= rows[i][j + 1]) found.push(["removed", a[i++]]);
    else found.push(["added", b[j++]]);
  }
  return found;
}

/** Join neighbours; a single character that stayed between two changes is read more easily as part of them. */
function joined(parts) {
  const made = [];
  for (const [kind, text] of parts) {
    if (!made.length || (kind === "same") !== ("same" in made.at(-1))) made.push(kind === "same" ? { same: "" } : { removed: "", added: "" });
    made.at(-1)[kind] += text;
  }
  for (let at = made.length - 2; at > 0; at -= 1) {
    const [before, { same }, after] = made.slice(at - 1, at + 2);
    if (same?.trim().length > 1 || same === undefined) continue;
    made.splice(at - 1, 3, { removed: before.removed + same + after.removed, added: before.added + same + after.added });
  }
  return made;
}
