// What do I get within this deadline: kept, partial or refused, and why?

import { html, useEffect, useMemo, useRef, useState } from "../vendor/htm-preact.js";
import { areas as allAreas, get, may, post } from "../api.js";
import { nameOf } from "../live.js";
import { Bar, Failed, Heading, Icon, Note, Place, Table } from "../parts.js";
import { apart, count, duration, list, missing, ms, number, parent, plainly, refused, sentence, title, when, whole } from "../words.js";

const WINDOWS = [
  [60, "last minute"],
  [600, "last 10 minutes"],
  [3600, "last hour"],
  [10800, "last 3 hours"],
  [86400, "last 24 hours"],
  [259200, "last 3 days"],
];
const PERCENTILES = [90, 95, 99, 99.9];
const MAX_OFFERED = 12;

/** What can be asked: every room and every part of the building that has some. */
function offers(rooms) {
  const found = new Map();
  for (const { area, name } of rooms) {
    found.set(area, name || "");
    const parts = area.split("/");
    for (let n = 1; n < parts.length; n++) {
      const above = parts.slice(0, n).join("/");
      if (!found.get(above)?.rooms) found.set(above, { rooms: 0 });
      found.get(above).rooms += 1;
    }
  }
  return [...found]
    .map(([area, is]) => ({ area, say: typeof is === "string" ? is : count(is.rooms, "room") }))
    .sort((a, b) => a.area.localeCompare(b.area, "en", { numeric: true }));
}

/** Areas, and more of them as they were typed, with commas or spaces between. */
function withAreas(areas, typed) {
  const clean = typed.split(/[\s,;]+/).map((area) => area.replace(/^\/+|\/+$/g, ""));
  return [...new Set([...areas, ...clean.filter(Boolean)])];
}

/** A field for several areas, with completion: an ARIA combobox with a list. */
function Areas({ chosen, set, known }) {
  const [text, type] = useState("");
  const [at, point] = useState(-1);
  const [open, show] = useState(false);
  const input = useRef();
  const needle = text.trim().toLowerCase();
  const fitting = useMemo(
    () => known.filter((o) => !chosen.includes(o.area) && `${o.area} ${o.say}`.toLowerCase().includes(needle)).slice(0, MAX_OFFERED),
    [known, chosen, needle],
  );
  const add = (area) => {
    set((before) => withAreas(before, area));
    type("");
    point(-1);
    show(false);
  };
  // The list pushes the form down: it stays while a button is pressed, which would move away.
  const pressed = useRef(false);
  useEffect(() => {
    const press = ({ type: kind }) => (pressed.current = kind === "mousedown");
    for (const kind of ["mousedown", "mouseup"]) addEventListener(kind, press, true);
    return () => ["mousedown", "mouseup"].forEach((kind) => removeEventListener(kind, press, true));
  }, []);
  const leave = () => {
    const left = () => {
      show(false);
      if (text.trim()) add(text);
    };
    if (pressed.current) addEventListener("mouseup", () => setTimeout(left), { once: true });
    else left();
  };
  const key = (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      show(true);
      point((i) => Math.max(-1, Math.min(fitting.length - 1, i + (event.key === "ArrowDown" ? 1 : -1))));
    } else if (event.key === "Enter" && (at >= 0 || text.trim())) {
      event.preventDefault();
      add(at >= 0 ? fitting[at].area : text);
    } else if (event.key === "Escape") {
      show(false);
      point(-1);
    } else if (event.key === "Backspace" && !text && chosen.length) set(chosen.slice(0, -1));
  };
  const listed = open && fitting.length > 0;
  useEffect(() => {
    document.getElementById(`offer-${at}`)?.scrollIntoView({ block: "nearest" });
  }, [at]);
  return html`<div class="combo">
    <label for="areas">Areas</label>
    <div class="tokens">
      ${chosen.map((area) => html`<span class="token" key=${area}>${nameOf(area) || area}<button type="button" aria-label="Remove ${area}" onClick=${() => { set(chosen.filter((a) => a !== area)); input.current.focus(); }}>×</button></span>`)}
      <input id="areas" ref=${input} role="combobox" aria-autocomplete="list" aria-expanded=${listed} aria-controls="offers" aria-activedescendant=${listed && at >= 0 ? `offer-${at}` : null} autocomplete="off" spellcheck="false" placeholder=${chosen.length ? "and …" : "a room or a part of the building: b1/f4"} value=${text}
        onInput=${(e) => { type(e.target.value); show(true); point(-1); }} onFocus=${() => show(true)} onBlur=${leave} onKeyDown=${key} />
    </div>
    <ul id="offers" role="listbox" aria-label="Areas that there are" hidden=${!listed}>${fitting.map((o, i) => html`<li key=${o.area} id="offer-${i}" role="option" aria-selected=${i === at} onMouseDown=${(e) => { e.preventDefault(); add(o.area); }}><b>${o.area}</b> <small>${o.say}</small></li>`)}</ul>
  </div>`;
}

/** What a service gives, and its objective if one was agreed on. */
const promise = (s) => [s.capability || "all channels", s.latency_ms ? `p${s.percentile} ≤ ${ms(s.latency_ms)}` : ""].filter(Boolean).join(", ");

/** kept, late, partial or refused: a state and a sentence. */
export function verdict(answer, slo) {
  const objective = `p${slo.percentile} ≤ ${ms(slo.latency_ms)}`;
  const { answered, asked } = answer.coverage ?? { answered: 0, asked: 0 };
  if (answer.status === "refused") return ["refused", `Refused. ${refused(answer.reason)}.`, plainly(answer.message)];
  const took = `in ${ms(answer.elapsed_ms)}`;
  if (answer.status === "partial" && !answered) return ["partial", `No answer: ${asked === 1 ? "the area did not answer" : `none of ${count(asked, "area")} answered`}, after ${ms(answer.elapsed_ms)}.`, `Objective: ${objective}. An answer without any area does not keep it.`];
  if (answer.status === "partial") return ["partial", `Partial: ${answered} of ${count(asked, "area")} answered ${took}.`, `Objective: ${objective}. An answer with areas missing does not keep it.`];
  const all = asked === 1 ? "The area" : `All ${whole(asked)} areas`;
  if (answer.slo_met) return ["kept", `Kept: ${all.toLowerCase().replace(/^all/, "all")} answered ${took}.`, `Objective: ${objective}; ${ms(Math.floor(slo.latency_ms - answer.elapsed_ms))} to spare.`];
  return ["late", `Complete, but late: ${all.toLowerCase()} answered ${took}.`, `Objective: ${objective}; ${ms(answer.elapsed_ms - slo.latency_ms)} over it. The answer is whole all the same.`];
}

/** What came late and why, in sentences. */
function lateness(answer, slo) {
  const told = [];
  for (const task of answer.tasks ?? []) {
    if (task.total_ms > task.budget_ms) {
      told.push(`${task.iad} took ${ms(task.total_ms)} of its budget of ${ms(task.budget_ms)}.`);
    }
  }
  const slowest = (answer.tasks ?? []).reduce((a, b) => (b.total_ms > (a?.total_ms ?? -1) ? b : a), null);
  if (!told.length && slowest && answer.status !== "refused") {
    told.push(`Nothing came late. ${slowest.iad} was the last, with ${ms(slowest.total_ms)} of its ${ms(slowest.budget_ms)}.`);
  }
  if (slowest && answer.elapsed_ms > slo.latency_ms && !answer.tasks.some((t) => t.total_ms > t.budget_ms)) {
    told.push(`Every domain kept its budget; ${ms(answer.elapsed_ms - slowest.total_ms)} went by between the domains and in putting the answer together.`);
  }
  return told;
}

function Results({ results }) {
  const channels = [...new Set(results.flatMap((r) => Object.keys(r.aggregate?.channels ?? {})))];
  if (!channels.length) return null;
  return channels.map(
    (channel) => html`<${Table} key=${channel} caption=${title(channel)} head=${["Area", { n: "Readings" }, { n: "Lowest" }, { n: "Mean" }, { n: "Highest" }, { n: "Last" }, { n: "Bad" }]}
      rows=${results.map((r) => {
        const c = r.aggregate?.channels?.[channel];
        return { key: r.area, cells: [html`<${Place} area=${r.area} name=${r.name || nameOf(r.area)} />`, c ? whole(c.count) : "–", number(c?.min), number(c?.mean), number(c?.max), number(c?.last), c?.bad ? whole(c.bad) : "–"] };
      })} />`,
  );
}

const SHAPE = { kept: "well", late: "stale", partial: "out", refused: "bad" };

function Result({ answer: came, asked }) {
  const { slo } = asked;
  const { there, unknown } = apart(came, slo);
  const answer = there ?? { ...came, missing: [] };
  const [state, headline, more] = there ? verdict(there, slo) : ["refused", unknown.length > 1 ? "There are no such areas." : "There is no such area.", ""];
  const tasks = answer.tasks ?? [];
  const most = Math.max(slo.latency_ms, answer.elapsed_ms ?? 0, ...tasks.map((t) => t.total_ms ?? 0)) * 1.05;
  return html`<section class="card result ${state}" aria-labelledby="result">
    <h2 id="result" tabindex="-1"><${Icon} kind=${SHAPE[state]} /> ${headline}</h2>
    ${more ? html`<p>${sentence(more)}</p>` : null}
    ${unknown.length ? html`<ul>${unknown.map((m) => html`<li key=${m.area}>No area <b>${m.area}</b>${m.nearest?.length ? html`; did you mean ${m.nearest[0]}?` : ": no sensor node has it, or one below it."}</li>`)}</ul>` : null}
    ${answer.missing?.length ? html`<h3>What is missing</h3><ul>${answer.missing.map((m) => html`<li key=${m.area}><b>${nameOf(m.area) || m.area}</b>: ${missing(m.reason)}${m.message ? ` (${m.message})` : ""}</li>`)}</ul>` : null}
    ${there && tasks.length ? html`<h3>Budgets, and what came late</h3>
      ${lateness(answer, slo).map((text) => html`<p>${text}</p>`)}
      <${Table} caption="Each domain's budget and time; the line in the bar is the budget" hidden head=${["Domain", "Time against budget", { n: "Time" }, { n: "Budget" }, { n: "Areas" }]}
        rows=${tasks.map((t) => ({ key: t.iad, mark: t.total_ms > t.budget_ms ? "bad" : "", cells: [t.iad, html`<${Bar} value=${t.total_ms} limit=${t.budget_ms} most=${most} />`, ms(t.total_ms), `p${number(t.percentile, 2).replace(/\.?0+$/, "")} ≤ ${ms(t.budget_ms)}`, `${t.coverage?.answered ?? "–"}/${t.coverage?.asked ?? "–"}`] }))} />
      <p class="quiet">How long it queued in a domain is told to nobody outside. ${may("operator") ? html`Queues of this domain’s nodes are in <a href="#/deadlines">Deadlines</a>` : "Its operator sees queues of nodes in Deadlines"}, times of each subtask in the <code>fleet report</code>.</p>` : null}
    ${answer.results?.length ? html`<h3>Readings</h3><${Results} results=${answer.results} />` : null}
    <details><summary>The answer as it came</summary><pre tabindex="0">${JSON.stringify(came, null, 1)}</pre></details>
  </section>`;
}

const covers = (above, area) => area === above || area.startsWith(`${above}/`);
const depth = ({ areas }) => Math.min(...(areas ?? []).map((area) => area.split("/").length), 99);

/** The service that reaches furthest, of those that have the area, if any does. */
function widest(services, area) {
  const there = area ? services.filter((each) => (each.areas ?? []).some((above) => covers(above, area))) : [];
  return [...(there.length ? there : services)].sort((a, b) => depth(a) - depth(b))[0];
}

export default function Ask({ asked }) {
  const [known, setKnown] = useState([]);
  const [services, setServices] = useState([]);
  const [chosen, choose] = useState(asked.area ? [asked.area] : []);
  const [last, setLast] = useState(600);
  const [percentile, setPercentile] = useState(99);
  const [latency, setLatency] = useState(500);
  const [service, setService] = useState(asked.service ?? "");
  const [state, set] = useState({});
  const run = useRef(0);
  useEffect(() => {
    const stop = new AbortController();
    // Without completion, areas and services are typed.
    allAreas(stop.signal).then((found) => setKnown(offers(found)), () => {});
    get("services", stop.signal).then(({ services: found }) => {
      setServices(found);
      if (found.length && !found.some(({ name }) => name === "default")) setService((typed) => typed || widest(found, asked.area).name);
    }, () => {});
    return () => stop.abort();
  }, []);
  useEffect(() => {
    if (state.answer) document.getElementById("result")?.focus({ preventScroll: false });
  }, [state.answer]);

  const ask = async (event) => {
    event.preventDefault();
    const named = withAreas(chosen, event.target.elements.areas.value);
    if (!named.length) return set({ problem: { message: "Name an area first." } });
    const mine = ++run.current;
    const question = { areas: named, form: "aggregate", window: { last_s: last }, slo: { percentile, latency_ms: latency }, label: "console-ask" };
    if (service) question.service = service;
    set({ waiting: named });
    try {
      const answer = await post("query", question);
      if (mine === run.current) set({ answer, asked: question });
    } catch (problem) {
      if (mine !== run.current) return;
      // A refusal is an answer, too.
      if (problem.reason) set({ answer: { ...problem.body, status: "refused", reason: problem.reason, message: problem.body.detail, retry: problem.retry }, asked: question });
      else set({ problem });
    }
  };

  return html`
    <${Heading} text="Ask"><p class="lead">A question with an objective: the fleet serves the most urgent work first, and says what it could keep.</p><//>
    ${may("asker") ? null : html`<${Note}><p>Your token may look, not ask. The operator makes one that may: <code>fleet gateway token create NAME --role asker</code></p><//>`}
    <form class="card ask" onSubmit=${ask}>
      <${Areas} chosen=${chosen} set=${choose} known=${known} />
      <label>Window <select value=${last} onChange=${(e) => setLast(Number(e.target.value))}>${WINDOWS.map(([s, words]) => html`<option value=${s}>${words}</option>`)}</select></label>
      <fieldset class="objective"><legend>Objective</legend>
        <label><span class="unseen">Share of such questions, percent</span><select value=${percentile} onChange=${(e) => setPercentile(Number(e.target.value))}>${PERCENTILES.map((p) => html`<option value=${p}>${p} %</option>`)}</select></label>
        <span>within</span>
        <label><span class="unseen">Milliseconds</span><input type="number" min="1" max="900000" step="any" required value=${latency} onInput=${(e) => setLatency(e.target.valueAsNumber)} /></label><span>ms</span>
      </fieldset>
      <label>Service <input list="services" value=${service} placeholder="default" autocomplete="off" spellcheck="false" onInput=${(e) => setService(e.target.value.trim())} /><datalist id="services">${services.map((s) => html`<option value=${s.name}>${promise(s)}</option>`)}</datalist></label>
      <button class="main" disabled=${state.waiting || !may("asker")}>${state.waiting ? "Asking …" : "Ask"}</button>
    </form>
    <div role="status" aria-live="polite">${state.waiting ? html`<p class="quiet">Asking ${list(state.waiting)} …</p>` : null}</div>
    ${state.problem ? html`<${Failed} problem=${state.problem} />` : null}
    ${state.answer ? html`<${Result} answer=${state.answer} asked=${state.asked} />` : null}`;
}
