// What is comfortable, and so which rooms need a look. Pure, but for this browser's own limits.

import { missing, number, title } from "./words.js";

// Category II of EN 16798-1; limits are this browser's, and nobody else sees them.
export const DEFAULTS = { __proto__: null, temperature: [20, 26], humidity: [25, 60], co2: [0, 1000] };
const KEY = "sanderling.comfort";

export function limits() {
  try {
    return { __proto__: null, ...DEFAULTS, ...JSON.parse(localStorage.getItem(KEY) ?? "{}") };
  } catch {
    return { __proto__: null, ...DEFAULTS };
  }
}
export function keep(chosen) {
  try {
    localStorage.setItem(KEY, JSON.stringify(chosen));
  } catch {
    // A browser that keeps nothing goes on with what was entered.
  }
}

const WORDS = {
  __proto__: null,
  temperature: ["too cold", "too warm"],
  humidity: ["too dry", "too humid"],
  co2: ["too little CO₂", "stale air"],
};

// The worst first; each has a word, so that colour is never all there is.
export const STATES = {
  missing: { rank: 0, word: "Missing" },
  bad: { rank: 1, word: "Bad value" },
  stale: { rank: 2, word: "Stale" },
  out: { rank: 3, word: "Out of comfort" },
  suspect: { rank: 4, word: "Suspect" },
  well: { rank: 5, word: "Comfortable" },
};

/** Below a limit: −1; above: 1. By the value as it is shown: 60.0 is not above 60. */
export function beyond(value, [low, high]) {
  const shown = Math.round(value * 10) / 10;
  return shown < low ? -1 : shown > high ? 1 : 0;
}

/** How a room is: {state, why}. `bounds` by channel: [least, most]. */
export function judge(room, bounds) {
  const channels = Object.entries(room.channels ?? {});
  if (room.state === "missing") return { state: "missing", why: missing(room.reason) };
  const bad = channels.filter(([, r]) => r.quality === "bad").map(([name]) => name);
  if (bad.length) return { state: "bad", why: `${bad.map(title).join(", ")}: no measurement` };
  if (room.state === "stale") return { state: "stale", why: room.reason ? missing(room.reason) : "no new value" };
  const out = [];
  for (const [name, reading] of channels) {
    const bound = bounds[name];
    if (!bound || reading.value === null) continue;
    const [low, high] = WORDS[name] ?? [`${title(name)} too low`, `${title(name)} too high`];
    const side = beyond(reading.value, bound);
    if (side) out.push(side < 0 ? low : high);
  }
  if (out.length) return { state: "out", why: out.join(", ") };
  if (channels.some(([, r]) => r.quality === "suspect")) {
    return { state: "suspect", why: "a value may be wrong" };
  }
  if (!channels.length) return { state: "missing", why: "no values yet" };
  return { state: "well", why: "" };
}

export const range = ([low, high], unit) => `${number(low, 0)}–${number(high, 0)}${unit ? ` ${unit}` : ""}`;

/** The newest value's time of a room, or null. */
export function newest(room) {
  const times = Object.values(room.channels ?? {}).map((r) => r.time_ms).filter(Number.isFinite);
  return times.length ? Math.max(...times) : null;
}

const FIRST = ["temperature", "humidity", "co2"];

const place = (name) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);

/** The order of channels, by name, in every view: the common ones first. */
export const byName = (a, b) => place(a) - place(b) || a.localeCompare(b);
