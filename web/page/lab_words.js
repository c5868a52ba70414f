// Which words does the lab use? What its figures mean, the server says.

import { words } from "./words.js";

export const t = words("lab");

/** Write a score as the server and the terminal do; what is unknown is a dash, never 0. */
export const points = (value) => value?.toFixed(1) ?? "–";
