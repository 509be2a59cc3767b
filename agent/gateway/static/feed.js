// The one stream of the gateway: what it says becomes a state. Runs in a shared worker, so that all
// tabs have one connection between them, and in the page where there are no shared workers.

import { parsed } from "./words.js";

const MAX_ALERTS = 500;
const MAX_SPARK = 60;
const AGAIN_MS = 5000;
const EVENTS = ["snapshot", "rooms", "source", "alert", "gap", "raised"];
const STATES = { l: "live", s: "stale", m: "missing" };
const QUALITIES = { g: "good", s: "suspect", b: "bad" };

export const empty = () => ({
  link: "connecting", // live | away
  linkSince: Date.now(),
  ahead: 0, // the gateway's clock less ours, ms
  every_s: 5,
  order: [], // areas, in the order by which events number them
  rooms: { __proto__: null }, // by area, which may be called as what every object has
  missing: [], // areas without an answer of which no room is known
  raised: null,
  alerts: [], // the newest first; what was lost among them, as `gap`
  position: null,
  heard: null, // when values last came, by our clock
  source: null, // {state: starting | up | away | idle, message, alerts: why none come}
  sourceSince: 0,
});

/** Whether it is a message of a topic, which comes by the way of alerts and is none. */
export const isOfTopic = (entry) => entry.attributes?.topic !== undefined;

/** Take in one event of the stream; true if something changed that is seen. */
export function apply(state, type, data, now = Date.now()) {
  switch (type) {
    case "open":
    case "away":
      return link(state, type === "open" ? "live" : "away", now);
    case "snapshot":
      // Behind where we are: the log began anew, and so do its numbers.
      if (Number.isFinite(data.position) && !(state.position <= data.position)) state.position = data.position;
      Object.assign(state, { ahead: data.time_ms - now, heard: now, every_s: data.every_s, raised: data.raised, missing: data.missing });
      state.order = data.rooms.map((room) => room.area);
      state.rooms = Object.setPrototypeOf(Object.fromEntries(data.rooms.map((room) => [room.area, room])), null);
      return source(state, data.source, now);
    case "rooms":
      Object.assign(state, { ahead: data.time_ms - now, heard: now, missing: data.missing ?? [] });
      changes(state, data);
      return true;
    case "source":
      return source(state, data, now);
    case "alert":
    case "gap":
      if (state.position !== null && data.position <= state.position) return false;
      state.position = data.position;
      if (isOfTopic(data)) return false;
      state.alerts = [data, ...state.alerts].slice(0, MAX_ALERTS);
      return true;
    case "raised":
      state.raised = data.raised;
      return true;
    default:
      return false;
  }
}

/** Each attempt to reach the gateway that fails tells of it again: it is away since the first. */
function link(state, told, now) {
  if (told !== state.link) Object.assign(state, { link: told, linkSince: now });
  return true;
}

function source(state, told, now) {
  if (told.state !== state.source?.state) state.sourceSince = now;
  state.source = told;
  return true;
}

/** What changed, in columns: numbers of rooms, a letter of state for each, channels. */
function changes(state, data) {
  const [first, last] = data.rooms;
  const numbers = data.dense ? Array.from({ length: last - first + 1 }, (_, i) => first + i) : data.rooms;
  numbers.forEach((number, i) => {
    const before = state.rooms[state.order[number]];
    if (!before) return;
    const room = { ...before, state: STATES[data.states[i]], reason: data.reasons?.[number] ?? "", channels: { ...before.channels } };
    for (const [name, column] of Object.entries(data.channels)) {
      const quality = QUALITIES[column.quality[i]];
      if (!quality) continue; // it has no such channel
      const value = column.values[i];
      const { unit = "", spark = [] } = before.channels[name] ?? {};
      const longer = room.state === "live" ? [...spark, quality === "bad" ? null : value].slice(-MAX_SPARK) : spark;
      room.channels[name] = { value, time_ms: data.time_ms - column.ages_s[i] * 1000, quality, unit, spark: longer };
    }
    state.rooms[room.area] = room;
  });
}

/** Follow the stream for ever; `told(type, data)` for each event, "open" and "away" among them. */
export function follow(told) {
  let position = null;
  let source = null;
  const open = () => {
    // Where the browser gave up by itself, the new connection says how far we are.
    source = new EventSource(`/api/v1/stream${position === null ? "" : `?last_event_id=${position}`}`);
    source.onopen = () => told("open");
    source.onerror = () => {
      told("away");
      if (source.readyState !== EventSource.CLOSED) return; // it tries again by itself, and resumes
      source.close();
      setTimeout(open, AGAIN_MS);
    };
    for (const type of EVENTS) {
      source.addEventListener(type, (event) => {
        const data = parsed(event.data);
        if (event.lastEventId) position = Number(event.lastEventId);
        told(type, type === "alert" || type === "gap" ? { ...data, position } : data);
      });
    }
  };
  open();
  return () => source.close();
}
