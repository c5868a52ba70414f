// Which words does the lab use? What its figures mean, the server says.

import { number, words } from "./words.js";

export const t = words("lab");

/** Write a score; what is unknown is a dash, never 0. */
export const points = (value) => value === null ? "–" : number(value, 1);
