// Numbers, times, ages and reasons, as people say them. Pure. Tables that are asked for names of
// others' making have no prototype: a channel may be called "constructor".

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const MINUTE = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short" });
const KNOWN = { __proto__: null, temperature: "Temperature", humidity: "Humidity", co2: "CO₂", pressure: "Pressure" };

// Controls, and signs that turn what stands beside them: words of nodes and clients may have them.
const TURNING = /[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;
const ESCAPED = /\\u(?:00[789]|20[26])/i;
const seen = (text) => text.replace(TURNING, "\ufffd");

/** What the gateway says in JSON, with such signs as ones that are seen. They stand there as they are,
 * but for files that others wrote, such as a plan. */
export function parsed(json) {
  const text = seen(json);
  return ESCAPED.test(text) ? JSON.parse(text, (_, value) => (typeof value === "string" ? seen(value) : value)) : JSON.parse(text);
}

export const sameDay = (a, b) => new Date(a).toDateString() === new Date(b).toDateString();

/** Whether it is a time that JavaScript knows: a node's clock may say anything. */
export const isTime = (ms) => Number.isFinite(ms) && Math.abs(ms) <= 8.64e15;

/** 14:03:12, with the day if that is not today. */
export function when(ms, now = Date.now()) {
  if (!isTime(ms)) return "an unknown time";
  if (sameDay(ms, now)) return CLOCK.format(ms);
  return `${sameDay(ms, now - 86_400_000) ? "yesterday" : DAY.format(ms)} ${MINUTE.format(ms)}`;
}
export const minute = (ms) => MINUTE.format(ms);
export const day = (ms) => DAY.format(ms);

/** A duration in one or two units: 340 ms, 12 s, 5 min, 2 h 10 min, 3 d 4 h. */
export function duration(ms) {
  if (!Number.isFinite(ms)) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1).replace(/\.0$/, "")} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  const all = Math.floor(s);
  const two = (big, bigName, small, smallName) => {
    const rest = Math.floor((all % big) / small);
    return `${Math.floor(all / big)} ${bigName}${rest ? ` ${rest} ${smallName}` : ""}`;
  };
  if (s < 600) return two(60, "min", 1, "s");
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return two(3600, "h", 60, "min");
  return two(86400, "d", 3600, "h");
}

/** How long something lasts since then, in whole seconds. */
export const lasting = (since, at = Date.now()) => duration(Math.max(1000, Math.floor((at - since) / 1000) * 1000));

/** How old a value is: short, in one unit, so that a column of them can be compared. */
export function age(ms) {
  if (!Number.isFinite(ms)) return "–";
  const s = Math.max(0, ms) / 1000;
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

const TOO_LONG = 1e15; // three hundred digits would push everything beside them aside

export function number(value, digits) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (Math.abs(value) >= TOO_LONG) return value.toExponential(2).replace("e+", "e").replace("-", "−");
  const shown = digits ?? (Math.abs(value) >= 1000 ? 0 : 1);
  const text = value.toLocaleString("en-GB", { minimumFractionDigits: shown, maximumFractionDigits: shown });
  return text.replace("-", "−");
}
export const whole = (value) => number(value, 0);
export const percent = (share, digits = 0) => (Number.isFinite(share) ? `${number(share * 100, digits)} %` : "–");
/** A share that kept an objective, rounded down: 98.96 % are not the 99 % that were promised. */
export const kept = (share) => percent(share === null ? NaN : Math.floor(share * 1e3 + 1e-6) / 1e3, 1);
/** A small share, which is never said to be none. */
export const portion = (share) => (share > 0 && share < 0.001 ? "less than 0.1 %" : percent(share, 1));
export const ms = (value) => (Number.isFinite(value) ? `${number(value, value > 0 && value < 10 ? 1 : 0)} ms` : "–");
export const withUnit = (value, unit) => (unit && value !== null ? `${number(value)} ${unit}` : number(value));

/** 3 rooms, 1 room. */
export const count = (n, one, many = `${one}s`) => `${whole(n)} ${n === 1 ? one : many}`;

/** b1/f4/r413 → b1/f4. */
export const parent = (area) => area.split("/").slice(0, -1).join("/") || area;
export const title = (channel) => KNOWN[channel] ?? channel.replaceAll("_", " ").replace(/^./, (c) => c.toUpperCase());
/** A channel inside a sentence. */
export const inText = (channel) => (channel in KNOWN && channel !== "co2" ? KNOWN[channel].toLowerCase() : title(channel));
/** With a capital, unless it begins with what is typed like that, such as p99=500ms. */
export const sentence = (text) => (text && !/^\S*[=[\d]/.test(text) ? text[0].toUpperCase() + text.slice(1) : text);

/** A refusal of a question in the words of one who has typed areas, not numbered them. */
export const plainly = (text) => text?.replace(/^areas\[\d+\] is no area: ('.*?'|".*?")/, "$1 is no area");

/** Things by what `key` says of each, in the order in which they come. O(things). */
export function groups(things, key) {
  const found = new Map();
  for (const each of things) {
    const of = key(each);
    if (found.has(of)) found.get(of).push(each);
    else found.set(of, [each]);
  }
  return found;
}

/** "a", "a and b", "a, b and c". */
export function list(words) {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

// Why an area is missing from an answer, or from the page.
const MISSING = {
  __proto__: null,
  no_node: "no sensor node covers it",
  node_down: "its sensor node is down",
  timeout: "no answer in time",
  no_data: "no readings in this window",
  no_channel: "nothing there measures this",
  node_error: "its sensor node reported an error",
  iad_unreachable: "the master of its domain does not answer",
  too_large: "more readings than one answer may hold",
};
/** Whether nobody knows such an area: a mistake of the question, as `agent/client/unknown_areas.py` has it. */
const isUnknown = (gap) => gap.reason === "no_node" && Boolean(gap.unknown || gap.nearest?.length);

/** The answer about the areas that there are, null if there are none of them, and the unknown ones. */
export function apart(answer, slo) {
  const unknown = (answer.missing ?? []).filter(isUnknown);
  if (!unknown.length) return { there: answer, unknown };
  const gaps = answer.missing.filter((gap) => !isUnknown(gap));
  const asked = Math.max(0, answer.coverage.asked - unknown.length);
  const there = { ...answer, missing: gaps, coverage: { ...answer.coverage, asked } };
  if (!gaps.length) Object.assign(there, { status: "complete", slo_met: answer.elapsed_ms <= slo.latency_ms });
  return { there: asked ? there : null, unknown };
}

export const missing = (reason) => MISSING[reason] ?? (reason || "no reason was given").replaceAll("_", " ");

// Why a query was refused.
const REFUSED = {
  __proto__: null,
  malformed: "The question cannot be read",
  infeasible: "No node can be that fast, not even an idle one",
  unknown_service: "There is no such service",
  overloaded: "The fleet has too much to do at the moment",
  over_rate: "You ask more often than was agreed",
  not_authorised: "You may not ask this",
};
export const refused = (reason) => REFUSED[reason] ?? (reason || "Refused").replaceAll("_", " ");

// As `agent/edge/events/trigger_runner.py` words it: condition: channel value unit, rate, time.
const FIGURE = "(-?[\\d.]+(?:e[+-]?\\d+)?|-?inf|nan)";
const TRIGGER = new RegExp(`^(.+): (\\S+) ${FIGURE} \\S+(?:, ${FIGURE} a minute)?(?:, for (\\d+) s)?$`);

/** A node's words on a trigger that it raised: {condition, measured}; `unitOf` knows the unit of a
 * channel. Other words are what was measured, as they are. */
export function raisedBy(text, unitOf = () => "") {
  const found = TRIGGER.exec(text);
  if (!found) return { condition: "", measured: text };
  const [, condition, channel, value, rate, seconds] = found;
  const unit = unitOf(channel);
  const parts = [`${inText(channel)} ${withUnit(Number(value), unit)}`];
  if (rate) parts.push(`${Number(rate) > 0 ? "rising" : "falling"} by ${number(Math.abs(Number(rate)), 2)}${unit ? ` ${unit}` : ""} a minute`);
  if (Number(seconds)) parts.push(`for ${duration(seconds * 1000)}`);
  return { condition, measured: `${parts.join(", ")} when it was raised` };
}

/** What a notification says, in a line. */
export function told(attributes, names = () => "") {
  const { kind, trigger, metric, value, area, topic, iad } = attributes;
  if (kind === "lost") {
    const n = attributes.count ?? attributes.last - attributes.first + 1;
    return Number.isFinite(n) ? `${count(n, "alert")} lost` : "Alerts lost, nobody knows how many";
  }
  const where = area ? ` in ${names(area) || area}` : "";
  // Any client may publish one, with any attributes.
  if (topic !== undefined) return `${kind === "input" || !kind ? "message" : kind} of topic ${topic} from ${iad}${where}`;
  const with_ = value === undefined || value === null ? "" : `, ${metric ?? "value"} ${number(value)}`;
  return `${trigger ?? metric ?? "alert"} ${kind ?? ""}${where}${with_}`.replace(/ +/g, " ");
}
