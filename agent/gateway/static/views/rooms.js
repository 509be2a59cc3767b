// Which rooms are out of comfort, stale or bad now? The home of the console.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/htm-preact.js";
import { beyond, byName, judge, keep, limits, newest, range, STATES } from "../comfort.js";
import { asHeard, now, useLive } from "../live.js";
import { Age, Heading, Icon, Mark, Note, Place, Spark } from "../parts.js";
import { count, groups, inText, list as enumerate, missing, number, parent, title } from "../words.js";

const BEYOND = 8; // rows that are there though not seen yet
const KEPT = "sanderling.rooms";

const SHOWN = [
  ["all", "All rooms", () => true],
  ["look", "Need a look", (r) => r.judged.state !== "well"],
  ["out", "Out of comfort", (r) => r.judged.state === "out"],
  ["stale", "Stale or missing", (r) => r.judged.state === "stale" || r.judged.state === "missing"],
  ["bad", "Bad or suspect", (r) => r.judged.state === "bad" || r.judged.state === "suspect"],
];

function remembered() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT)) ?? {};
  } catch {
    return {};
  }
}

/** Channels that get a column: the common ones first. */
function columns(rooms) {
  const found = new Map();
  for (const room of rooms) {
    for (const [name, reading] of Object.entries(room.channels ?? {})) {
      if (!found.has(name)) found.set(name, reading.unit ?? "");
    }
  }
  return [...found].sort(([a], [b]) => byName(a, b));
}

const COMPARE = {
  __proto__: null,
  state: (a, b) => STATES[a.judged.state].rank - STATES[b.judged.state].rank || a.order.localeCompare(b.order, "en", { numeric: true }),
  room: (a, b) => a.order.localeCompare(b.order, "en", { numeric: true }),
  age: (a, b) => (newest(a) ?? 0) - (newest(b) ?? 0),
};
const byChannel = (channel) => (a, b) => (b.channels?.[channel]?.value ?? -1e9) - (a.channels?.[channel]?.value ?? -1e9);

/** The rows to draw: rooms, or floors with their rooms. */
function lines(rooms, sort, grouped) {
  const compare = COMPARE[sort.by] ?? byChannel(sort.by);
  const sorted = [...rooms].sort((a, b) => (sort.down ? compare(b, a) : compare(a, b)) || COMPARE.room(a, b));
  if (!grouped) return sorted.map((room) => ({ room, key: room.area }));
  return [...groups(sorted, (room) => parent(room.area))]
    .sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }))
    .flatMap(([floor, members]) => [{ floor, members, key: `floor ${floor}` }, ...members.map((room) => ({ room, key: room.area }))]);
}

/** Which of `n` rows of `height` pixels are in the window, for an element in the page; all on paper. */
function useWindow(n, height) {
  const list = useRef();
  const paper = useRef(false);
  const [seen, set] = useState([0, 24]);
  const look = () => {
    if (!list.current) return;
    const top = -list.current.getBoundingClientRect().top;
    const from = paper.current ? 0 : Math.max(0, Math.floor(top / height) - BEYOND);
    const to = paper.current ? n : Math.min(n, Math.ceil((top + innerHeight) / height) + BEYOND);
    set((before) => (before[0] === from && before[1] === to ? before : [from, to]));
  };
  useLayoutEffect(look, [n, height]);
  useEffect(() => {
    const print = ({ type }) => {
      paper.current = type === "beforeprint";
      look();
    };
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    addEventListener("beforeprint", print);
    addEventListener("afterprint", print);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
      removeEventListener("beforeprint", print);
      removeEventListener("afterprint", print);
    };
  }, [n, height]);
  return [list, seen];
}

function useNarrow() {
  const query = useMemo(() => matchMedia("(max-width: 47.99rem)"), []);
  const [narrow, set] = useState(query.matches);
  useEffect(() => {
    const changed = () => set(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  return narrow;
}

function Value({ reading, bound }) {
  if (!reading) return html`<span class="none">–</span>`;
  const { value, unit, quality } = reading;
  if (quality === "bad" || value === null) return html`<span class="value bad">bad</span>`;
  const out = bound && beyond(value, bound);
  return html`<span class="value ${out ? "out" : ""}"><b>${number(value)}</b> <small>${unit}</small>${quality === "suspect" ? html`<b class="suspect"> ?<span class="unseen"> suspect</span></b>` : null}</span>`;
}

function Row({ room, shown, bounds, index }) {
  return html`<div role="row" class="line ${room.judged.state}" aria-rowindex=${index + 2}>
    <span role="cell" class="state"><${Mark} state=${room.judged.state} why=${room.judged.why} /></span>
    <span role="cell" class="name"><${Place} area=${room.area} name=${room.name} /></span>
    ${shown.map(([name]) => html`<span role="cell" class="reading" key=${name}><${Value} reading=${room.channels?.[name]} bound=${bounds[name]} /><${Spark} values=${room.channels?.[name]?.spark} /></span>`)}
    <span role="cell" class="age"><${Age} ms=${newest(room)} /></span>
  </div>`;
}

/** A heading that sorts; a second time, the other way round. */
function Head({ by, sort, set, children }) {
  const on = sort.by === by;
  return html`<span role="columnheader" class=${by} aria-sort=${on ? (sort.down ? "descending" : "ascending") : "none"}><button type="button" onClick=${() => set({ by, down: on && !sort.down })}>${children}<span class="arrow" aria-hidden="true">${on ? (sort.down ? "↓" : "↑") : ""}</span></button></span>`;
}

function Floor({ floor, members, index, span }) {
  const look = members.filter((r) => r.judged.state !== "well").length;
  return html`<div role="row" class="line floor" aria-rowindex=${index + 2}><span role="cell" aria-colspan=${span}><b>${floor}</b> ${count(members.length, "room")}${look ? `, ${look} ${look === 1 ? "needs" : "need"} a look` : ", all comfortable"}</span></div>`;
}

function Limits({ bounds, shown, set }) {
  const known = shown.filter(([name]) => bounds[name]);
  const change = (name, at) => (event) => {
    const value = event.target.valueAsNumber;
    if (!Number.isFinite(value)) return;
    const next = { __proto__: null, ...bounds, [name]: bounds[name].map((v, i) => (i === at ? value : v)) };
    keep(next);
    set(next);
  };
  return html`<details class="limits"><summary>Comfort: ${known.map(([name, unit]) => `${inText(name)} ${range(bounds[name], unit)}`).join(", ") || "no limits"}</summary>
    <div class="fields">${known.map(([name, unit]) => html`<fieldset key=${name}><legend>${title(name)}, ${unit}</legend><label>from <input type="number" step="any" value=${bounds[name][0]} onChange=${change(name, 0)} /></label> <label>to <input type="number" step="any" value=${bounds[name][1]} onChange=${change(name, 1)} /></label></fieldset>`)}</div>
    <p class="quiet">Kept in this browser only. Unless you change them: category II of EN 16798-1.</p></details>`;
}

export default function Rooms() {
  const state = useLive();
  const [kept] = useState(remembered);
  const [words, search] = useState(kept.words ?? "");
  const [filter, setFilter] = useState(kept.filter ?? "all");
  const [sort, setSort] = useState(kept.sort ?? { by: "state", down: false });
  const [grouped, group] = useState(kept.grouped ?? false);
  const [bounds, setBounds] = useState(limits);
  const narrow = useNarrow();
  useEffect(() => sessionStorage.setItem(KEPT, JSON.stringify({ words, filter, sort, grouped })), [words, filter, sort, grouped]);

  const rooms = Object.values(state.rooms).map((room) => ({ ...room, judged: judge(asHeard(room), bounds), order: room.name || room.area }));
  const known = columns(rooms);
  const shown = known.slice(0, narrow ? 2 : 3);
  const needle = words.trim().toLowerCase();
  const found = rooms.filter((r) => `${r.area} ${r.name} ${r.judged.why}`.toLowerCase().includes(needle));
  const [, , wanted] = SHOWN.find(([key]) => key === filter) ?? SHOWN[0];
  const rows = lines(found.filter(wanted), sort, grouped);
  const height = narrow ? 80 : 52;
  const [list, [from, to]] = useWindow(rows.length, height);
  const look = rooms.filter((r) => r.judged.state !== "well").length;

  const key = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !event.target.matches(".place")) return;
    const places = [...list.current.querySelectorAll(".place")];
    const next = places[places.indexOf(event.target) + step];
    if (!next) return;
    event.preventDefault();
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  const sorting = { sort, set: setSort };

  return html`
    <${Heading} text="Rooms"><p class="lead" role="status">${
      state.heard === null
        ? "Asking for the rooms …"
        : look === 0
          ? rooms.length === 1
            ? "The room is comfortable."
            : `All ${count(rooms.length, "room")} are comfortable.`
          : html`<b>${look} of ${count(rooms.length, "room")} ${look === 1 ? "needs" : "need"} a look</b>, ${rooms.length - look} comfortable.`
    }</p><//>
    <div class="tools">
      <label class="search"><span class="unseen">Search rooms</span><input type="search" placeholder="Search: 4.13, b1/f4, too warm …" value=${words} onInput=${(e) => search(e.target.value)} /></label>
      <div class="chips" role="group" aria-label="Show">${SHOWN.map(([name, text, test]) => {
        const n = found.filter(test).length;
        return html`<button type="button" key=${name} aria-pressed=${filter === name} onClick=${() => setFilter(name)}>${text} <b>${n}</b></button>`;
      })}</div>
      ${narrow ? html`<label class="sorted">Sort by <select value=${sort.by} onChange=${(e) => setSort({ by: e.target.value, down: false })}><option value="state">State</option><option value="room">Room</option>${shown.map(([name]) => html`<option value=${name}>${title(name)}</option>`)}<option value="age">Age</option></select></label>` : null}
      <label class="check"><input type="checkbox" checked=${grouped} onChange=${(e) => group(e.target.checked)} /> By floor</label>
    </div>
    <${Limits} bounds=${bounds} shown=${known} set=${setBounds} />
    <div role="table" class="rooms" style=${{ "--n": shown.length }} aria-label="Rooms" aria-rowcount=${rows.length + 1} onKeyDown=${key}>
      <div role="rowgroup" class="head"><div role="row" class="line" aria-rowindex="1">
        <${Head} by="state" ...${sorting}>State<//><${Head} by="room" ...${sorting}>Room<//>
        ${shown.map(([name]) => html`<${Head} by=${name} key=${name} ...${sorting}>${title(name)}<//>`)}
        <${Head} by="age" ...${sorting}>Age<//>
      </div></div>
      <div role="rowgroup" class="body" ref=${list}>
        <div class="gap" role="presentation" style=${{ height: `${from * height}px` }}></div>
        ${rows.slice(from, to).map((line, i) => (line.room ? html`<${Row} key=${line.key} room=${line.room} shown=${shown} bounds=${bounds} index=${from + i} />` : html`<${Floor} key=${line.key} ...${line} index=${from + i} span=${shown.length + 3} />`))}
        <div class="gap" role="presentation" style=${{ height: `${(rows.length - Math.min(to, rows.length)) * height}px` }}></div>
      </div>
    </div>
    ${state.missing.length ? html`<${Note} kind="warm"><p><b>No answer from</b> ${enumerate(state.missing.map((gap) => `${gap.area} (${missing(gap.reason)})`))}.</p><//>` : null}
    ${state.heard !== null && !rows.length ? html`<p class="quiet none-found"><${Icon} kind="missing" /> ${rooms.length ? "No room fits this search." : "No room is known yet. They appear here as nodes report."}</p>` : null}`;
}
