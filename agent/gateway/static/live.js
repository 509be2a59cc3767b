// What is so now, for every view: the state of the stream, and what to say when it is silent.

import { useEffect, useState } from "./vendor/htm-preact.js";
import { apply, empty, follow } from "./feed.js";

export const live = empty();
const listeners = new Set();
const alarms = new Set();
let frame = 0;

/** Views are told once a frame, however much came. */
function changed() {
  if (frame) return;
  const tell = () => {
    frame = 0;
    for (const listener of listeners) listener();
  };
  frame = document.hidden ? setTimeout(tell, 1000) : requestAnimationFrame(tell);
}

function take(type, data) {
  if (type === "whole") {
    Object.assign(live, data);
    Object.setPrototypeOf(live.rooms, null); // a message to another thread keeps none
  } else if (!apply(live, type, data)) return;
  if (type === "alert" || type === "gap") for (const alarm of alarms) alarm(data);
  changed();
}

export function begin() {
  if (!window.SharedWorker) return follow(take);
  const worker = new SharedWorker("/static/shared_feed.js", { type: "module", name: "sanderling" });
  let spoke = false;
  worker.port.onmessage = ({ data }) => {
    spoke = true;
    take(data.type, data.data);
  };
  worker.onerror = () => {
    if (!spoke) follow(take);
    spoke = true;
  };
  worker.port.start();
  addEventListener("pagehide", () => worker.port.postMessage("bye"));
  // A page that comes back out of the browser's cache has said goodbye.
  addEventListener("pageshow", (event) => event.persisted && location.reload());
}

/** The gateway's time now, by its own clock. */
export const now = () => Date.now() + live.ahead;

/** Render again when something came, and every `every_ms`, for ages go on. */
export function useLive(every_ms = 1000) {
  const [, again] = useState(0);
  useEffect(() => {
    const listener = () => again((n) => n + 1);
    listeners.add(listener);
    const timer = setInterval(listener, every_ms);
    return () => {
      listeners.delete(listener);
      clearInterval(timer);
    };
  }, [every_ms]);
  return live;
}

/** Be told of each alert that comes from now on. */
export function useAlarm(told) {
  useEffect(() => {
    alarms.add(told);
    return () => alarms.delete(told);
  }, [told]);
}

const SILENT_ROUNDS = 6;
const isSilent = (state, at) => state.heard !== null && at - state.heard > Math.max(30, state.every_s * SILENT_ROUNDS) * 1000;

/** A room as it counts now: without news its values grow old here, too, whoever is away. */
export const asHeard = (room, state = live, at = Date.now()) => (room.state === "live" && isSilent(state, at) ? { ...room, state: "stale", reason: "" } : room);

/** Why no alerts come now, or "". */
export const unalerted = (state = live) => (state.link === "away" ? "the gateway does not answer" : state.source?.alerts) || "";

/** What is wrong with the way to the fleet, in a sentence, or "". */
export function trouble(state = live, at = Date.now()) {
  if (state.link === "away") {
    return { since: state.linkSince, text: "The gateway does not answer. Values below are as old as they say; this page resumes by itself when it is back." };
  }
  if (state.source?.state === "away") {
    const why = state.source.message ? ` (${state.source.message})` : "";
    return { since: state.sourceSince, text: `The master gives no values${why}. Values below are as old as they say.` };
  }
  if (state.link === "live" && isSilent(state, at)) {
    return { since: state.heard, text: "No values have come for a while: the master may be away. Values below are as old as they say." };
  }
  return null;
}

export const nameOf = (area) => live.rooms[area]?.name || "";
export const unitOf = (area, channel) => live.rooms[area]?.channels?.[channel]?.unit || "";
