// What lives where, why, and what would move? For operators.

import { html } from "../vendor/htm-preact.js";
import { session } from "../api.js";
import { Answered, ForOperators, Heading, Mark, NoOperator, Note, Spark, Table, Tile, Tiles, useGet } from "../parts.js";
import { age, count, duration, ms, number, whole } from "../words.js";

const perS = (seconds) => (Number.isFinite(seconds) ? `${number(seconds * 1000, seconds < 0.01 ? 1 : 0)} ms/s` : "–");
const rate = (topic) => topic.per_s ?? (topic.sources ?? []).reduce((sum, s) => sum + s.per_s, 0);

/** Units of all masters, with where each lives and where it is pinned. */
export function units(known) {
  const pins = new Map(known.flatMap(({ facts }) => (facts.pins ?? []).map((p) => [`${p.unit.kind} ${p.unit.name}`, p.iad])));
  return known.flatMap(({ facts, silent }) => [
    ...(facts.topics ?? []).map((t) => ({ kind: "processor", name: t.name, at: facts.iad, silent, pinned: pins.get(`processor ${t.name}`), topic: t })),
    ...(facts.homes ?? []).map((h) => ({ kind: "home", name: h.name, at: facts.iad, silent, pinned: pins.get(`home ${h.name}`) })),
  ]);
}

/** Why a unit moves, in an operator's word: both of a plan and of a move by hand are asked for. */
export const why = (reason) => (reason === "plan" ? "asked" : reason);

function Report({ report }) {
  if (report.ok === false) return html`<${Note} kind="bad"><p>${report.message}</p><//>`;
  const known = report.known ?? [];
  const moves = report.moves ?? [];
  const all = units(known);
  const costs = report.costs ?? [];
  const own = known[0]?.facts;
  const delay = (iad) => own?.delays?.find((d) => d.iad === iad)?.p50_ms;
  const cost = costs.at(-1);
  const waiting = moves.filter((m) => !["done", "settled", "aborted", "over"].includes(m.state));
  return html`
    <${Tiles}><${Tile} value=${whole(known.length)} label="masters" /><${Tile} value=${whole(all.length)} label="units" /><${Tile} value=${whole(waiting.length)} label="moves under way or waiting" /><${Tile} value=${cost ? (cost.cost === null || cost.cost === undefined ? "∞" : perS(cost.cost)) : "–"} label="cost now: delay of all subscribers" /><//>
    ${costs.length > 1 ? html`<p class="quiet"><${Spark} values=${costs.map((c) => c.cost ?? null)} width=${240} height=${36} /> from ${perS(costs[0].cost)} ${duration(costs[0].age_s * 1000)} ago to ${perS(cost.cost)} now${costs.some((c) => c.cost === null || c.cost === undefined) ? "; gaps: a limit or an objective was not kept" : ""}.</p>` : null}
    <h2>Masters</h2>
    <p class="quiet">Those that ${own?.iad ?? "this master"} hears of: itself, and the masters that it exchanges measurements with.</p>
    <${Table} caption="Masters" hidden head=${["Master", "State", { n: "Units" }, { n: "Cores" }, { n: "Delay" }, { n: "Told" }]}
      rows=${known.map(({ facts, age_s, silent }) => ({ key: facts.iad, mark: silent ? "bad" : "", cells: [html`<b>${facts.iad}</b>`, html`<${Mark} state=${silent ? "stale" : facts.mode && facts.mode !== "open" ? "suspect" : "well"} word=${silent ? "silent" : (facts.mode ?? "open")} />`, whole((facts.topics?.length ?? 0) + (facts.homes?.length ?? 0)), whole(facts.cores ?? 1), ms(delay(facts.iad)), facts === own ? "now" : facts.epoch ? `${age(age_s * 1000)} ago` : "never"] }))} />
    <h2>What lives where</h2>
    <${Table} caption="Units" hidden empty="No unit: neither topics nor homes that may move." head=${["Unit", "Lives at", "Pinned to", { n: "Messages" }, { n: "CPU" }, { n: "Latency" }, { n: "Objective" }]}
      rows=${all.map((u) => ({ key: `${u.kind} ${u.name}`, mark: u.topic?.slo && u.topic.latency_ms > u.topic.slo.latency_ms ? "bad" : "", cells: [html`<b>${u.name}</b> <small>${u.kind}${u.topic?.processor ? `, ${u.topic.processor}` : ""}</small>`, u.at, u.pinned || "–", u.topic ? `${number(rate(u.topic))}/s` : "–", u.topic && Number.isFinite(u.topic.cpu_ms) ? `${number(u.topic.cpu_ms, 2)} ms` : "–", u.topic && Number.isFinite(u.topic.latency_ms) ? `${number(u.topic.latency_ms)} ms` : "–", u.topic?.slo ? `p${u.topic.slo.percentile} ≤ ${ms(u.topic.slo.latency_ms)}` : "–"] }))} />
    <h2>Moves</h2>
    <${Table} caption="Moves" hidden empty="Nothing has moved, and nothing would." head=${["Unit", "From", "To", "Why", { text: "State" }, { n: "Saves" }, { n: "Pause" }]}
      rows=${moves.map((m, i) => ({ key: `${i} ${m.unit.name}`, mark: m.trouble ? "bad" : "", cells: [html`<b>${m.unit.name}</b> <small>${m.unit.kind}</small>`, m.source, m.target, why(m.reason), `${m.state}${m.trouble ? `: ${m.trouble}` : ""}`, perS(m.gain), Number.isFinite(m.pause_ms) ? `${number(m.pause_ms)} ms` : "–"] }))} />
    <p class="quiet">Automatic moves must save more than ${perS(report.move_cost ?? 0)}. Prices of each master: <code>fleet placement why UNIT</code></p>`;
}

export default function Placement() {
  return html`<${Heading} text="Placement"><p class="lead">What lives on which master, and what moves.</p><//>
    <${ForOperators}><${Asked} /><//>`;
}

function Asked() {
  if (!session.operator) return html`<${NoOperator} />`;
  return html`<${Polled} />`;
}

function Polled() {
  const found = useGet("placement", 10_000);
  return html`<${Answered} of=${found}>${(report) => html`<${Report} report=${report} />`}<//>`;
}
