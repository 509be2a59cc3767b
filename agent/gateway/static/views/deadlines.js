// Who is late and why? What the gateway saw of answers; for operators the queues of nodes, too.

import { html } from "../vendor/htm-preact.js";
import { may, session } from "../api.js";
import { useLive } from "../live.js";
import { Age, Answered, Bar, Heading, Note, Table, Tile, Tiles, useGet } from "../parts.js";
import { count, groups, kept, list, missing, ms, number, refused, sentence, when, whole } from "../words.js";

const MAX_LATE = 30;
const MAX_NAMED = 5;
const MAX_OPEN = 12;
const NAMES = { edfq: "EDFQ (earliest deadline first)", fifo: "FIFO (order of arrival)", sanderling: "sanderling", spr: "SPR", tedfq: "T-EDFQ" };
const KINDS = { __proto__: null, console: "this page’s rooms", "console-ask": "asked on this page", http: "asked over HTTP", readings: "pictures of rooms" };

const named = (kind) => html`<b>${kind.label || "no label"}</b><br /><small>${[KINDS[kind.label], kind.service].filter(Boolean).join(", ")}</small>`;

/** A label and service may have been asked with several objectives. */
const keyed = (kind) => `${kind.label} ${kind.service} ${kind.percentile} ${kind.latency_ms}`;

/** The nearest-rank percentile of numbers; NaN of none. */
export function percentile(numbers, p) {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted.length ? sorted[Math.max(Math.ceil((p / 100) * sorted.length - 1e-9), 1) - 1] : NaN;
}

const slowest = (seen) => seen.tasks.reduce((a, b) => (b.total_ms > (a?.total_ms ?? -1) ? b : a), null);
const between = (seen) => Math.max(0, seen.elapsed_ms - (slowest(seen)?.total_ms ?? 0));

/** Why an answer did not keep its objective, in words. */
export function why(seen, kind) {
  if (seen.status === "refused") return `Refused: ${refused(seen.reason).toLowerCase()}`;
  const gone = Object.entries(seen.missing ?? {}).map(([reason, n]) => `${count(n, "area")}: ${missing(reason)}`);
  if (gone.length) return `Not complete: ${list(gone)}`;
  const over = seen.tasks.filter((t) => t.total_ms > t.budget_ms).map((t) => `${t.iad} took ${ms(t.total_ms)} of its ${ms(t.budget_ms)}`);
  if (over.length) return `Queueing or reading: ${list(over)}`;
  return seen.elapsed_ms > kind.latency_ms ? `Communication: ${ms(between(seen))} went by between domains; each kept its budget` : "Not told";
}

function Kinds({ kinds }) {
  return html`<${Table} caption="Kinds of questions, by their label" hidden empty="No answer has come yet: ask something, or leave the rooms open for a while."
    head=${["Kind", { n: "In time" }, { n: "Objective" }, { n: "Answers" }, { n: "p50" }, { n: "p99" }, "p99 against the objective"]}
    rows=${kinds.map((kind) => {
      const took = kind.answers.filter((a) => a.status !== "refused").map((a) => a.elapsed_ms);
      const p99 = percentile(took, 99);
      return {
        key: keyed(kind),
        mark: p99 > kind.latency_ms ? "bad" : kind.late ? "warm" : "",
        cells: [named(kind), kept((kind.count - kind.late) / kind.count), `p${number(kind.percentile, kind.percentile % 1 ? 1 : 0)} ≤ ${ms(kind.latency_ms)}`, whole(kind.count), ms(percentile(took, 50)), ms(p99), html`<${Bar} value=${p99} limit=${kind.latency_ms} most=${kind.latency_ms * 1.5} />`],
      };
    })} />`;
}

/** Answers that did not keep their objective, the newest first; those alike counted together. */
function notKept(kinds) {
  const alike = new Map();
  for (const kind of kinds) {
    for (const seen of kind.answers.filter((a) => !a.slo_met)) {
      const text = why(seen, kind);
      const key = `${keyed(kind)} ${text}`;
      alike.set(key, { seen, kind, text, times: (alike.get(key)?.times ?? 0) + 1 });
    }
  }
  return [...alike.values()].sort((a, b) => b.seen.time_ms - a.seen.time_ms);
}

function Late({ late }) {
  const most = Math.max(1, ...late.map(({ seen, kind }) => Math.max(seen.elapsed_ms, kind.latency_ms))) * 1.05;
  const parts = (seen) => [{ kind: "execution", value: seen.elapsed_ms - between(seen) }, { kind: "communication", value: between(seen) }];
  return html`<h2>Late, refused or not complete</h2>
    ${late.length ? html`<p class="legend"><span class="key execution"></span> in the slowest domain: queueing and reading <span class="key communication"></span> between domains: communication. The line is the objective.</p>` : null}
    <${Table} caption="Answers that were late, refused or not complete, the newest first" hidden empty="Every answer was complete and in time." head=${["When", { text: "Why" }, "Kind", { n: "Took" }, { n: "Objective" }, "Where the time went"]}
      rows=${late.map(({ seen, kind, text, times }, i) => ({ key: `${seen.time_ms} ${i}`, cells: [html`${when(seen.time_ms)} <small>(<${Age} ms=${seen.time_ms} /> ago)</small>`, times > 1 ? `${text} (${whole(times)} times, this the last)` : text, html`${kind.label || "no label"} <small>${kind.service}</small>`, ms(seen.elapsed_ms), ms(kind.latency_ms), html`<${Bar} limit=${kind.latency_ms} most=${most} parts=${parts(seen)} />`] }))} />`;
}

function Domains({ kinds }) {
  const rows = kinds.flatMap((kind) => {
    return [...groups(kind.answers.flatMap((a) => a.tasks), (task) => task.iad)].map(([iad, all]) => ({ iad, kind, all, budget: all.at(-1).budget_ms, p99: percentile(all.map((t) => t.total_ms), 99) }));
  });
  if (!rows.length) return null;
  return html`<h2>By domain</h2><${Table} caption="Each domain's time against its budget" hidden head=${["Domain", "Kind", { n: "Tasks" }, { n: "Over budget" }, { n: "Budget" }, { n: "p50" }, { n: "p99" }, "p99 against its budget"]}
    rows=${rows.map((d) => ({ key: `${d.iad} ${keyed(d.kind)}`, mark: d.p99 > d.budget ? "bad" : "", cells: [d.iad, html`${d.kind.label || "no label"} <small>${d.kind.service}</small>`, whole(d.all.length), whole(d.all.filter((t) => t.total_ms > t.budget_ms).length), ms(d.budget), ms(percentile(d.all.map((t) => t.total_ms), 50)), ms(d.p99), html`<${Bar} value=${d.p99} limit=${d.budget} most=${d.budget * 1.5} />`] }))} />`;
}

function Queues({ nodes, silent }) {
  const several = new Set(nodes.map((n) => n.iad)).size > 1 || (silent.length && nodes.length);
  const called = (n) => (several ? `${n.iad} ${n.node}` : n.node);
  const busy = nodes.filter((n) => n.queued > 0).sort((a, b) => b.queued - a.queued);
  const more = busy.length - MAX_NAMED;
  const named = busy.slice(0, MAX_NAMED).map((n) => `${called(n)} (${whole(n.queued)})`);
  return html`<h2>Queues at nodes now</h2>
    ${silent.length ? html`<${Note} kind="bad"><p><b>Not told:</b> ${list(silent)}; ${silent.length > 1 ? "their masters do" : "its master does"} not answer.</p><//>` : null}
    <p>${busy.length ? html`<b>Work waits at ${count(busy.length, "node")}</b>: ${list(more > 0 ? [...named, `${more} more`] : named)}.` : nodes.length ? "Nothing waits." : ""}</p>
    ${nodes.length ? html`<details open=${nodes.length <= MAX_OPEN}><summary>${count(nodes.length, "node")}</summary><${Table} caption="Queues at nodes" hidden head=${["Node", ...(several ? ["Domain"] : []), "State", { n: "Waiting" }, { n: "Idle pods" }, { n: "Pods" }]}
    rows=${[...nodes].sort((a, b) => b.queued - a.queued || called(a).localeCompare(called(b), "en", { numeric: true })).map((n) => ({ key: called(n), mark: n.queued && !n.idle_pods ? "warm" : "", cells: [n.node, ...(several ? [n.iad] : []), n.state, whole(n.queued), whole(n.idle_pods), whole(n.pods)] }))} /></details>` : null}`;
}

/** The demo's comparison: each class's p99 under both policies. */
function Comparison() {
  const [answer] = useGet("comparison", 30_000);
  const runs = answer?.virtual?.length ? answer.virtual : (answer?.real ?? []);
  if (!runs.length) return null;
  const most = Math.max(...runs.flatMap((r) => r.classes.map((c) => Math.max(c.p99_ms ?? 0, c.slo_ms)))) * 1.05;
  const asked = (c) => answer.questions?.[c.kind] ?? `class ${c.kind}`;
  return html`<h2>The same load, in two orders</h2>
    <p>${number(answer.rate_per_s)} questions a second, served ${runs.map((r) => NAMES[r.policy] ?? r.policy).join(" and then ")}${runs === answer.virtual ? ", in virtual time" : ""}. The bar is the 99th percentile, the line the objective.</p>
    <div class="pair">${runs.map((run) => {
      const missed = run.classes.filter((c) => c.p99_ms > c.slo_ms);
      return html`<section class="card" key=${run.policy}><h3>${NAMES[run.policy] ?? run.policy}</h3>
        <p>${missed.length ? html`<b>Misses the objective of ${list(missed.map(asked))}.</b>` : html`<b>Every question keeps its objective.</b>`}</p>
        <${Table} caption="${run.policy}: 99th percentiles" hidden head=${[{ text: "Question" }, "p99 against the objective", { n: "p99" }, { n: "Objective" }, { n: "Within" }]}
          rows=${run.classes.map((c) => ({ key: c.kind, mark: c.p99_ms > c.slo_ms ? "bad" : "", cells: [sentence(asked(c)), html`<${Bar} value=${c.p99_ms} limit=${c.slo_ms} most=${most} />`, `${ms(c.p99_ms)}${c.p99_ms > c.slo_ms ? " late" : ""}`, ms(c.slo_ms), kept(c.within_slo)] }))} /></section>`;
    })}</div>`;
}

function Seen({ kinds, nodes, silent = [] }) {
  const answers = kinds.reduce((sum, kind) => sum + kind.count, 0);
  const late = kinds.reduce((sum, kind) => sum + kind.late, 0);
  const partial = kinds.reduce((sum, kind) => sum + kind.partial, 0);
  return html`
    <${Tiles}><${Tile} value=${whole(answers)} label="answers that this gateway saw" /><${Tile} value=${answers ? kept((answers - late) / answers) : "–"} label="came in time" /><${Tile} value=${whole(late)} label="late or refused" state=${late ? "bad" : ""} /><${Tile} value=${whole(partial)} label="in time, but not whole" state=${partial ? "warm" : ""} /><//>
    <${Kinds} kinds=${kinds} />
    <${Late} late=${notKept(kinds).slice(0, MAX_LATE)} />
    <${Domains} kinds=${kinds} />
    ${nodes.length || silent.length ? html`<${Queues} nodes=${nodes} silent=${silent} />` : html`<${Note}><p>${may("operator") && !session.operator ? "Queues of nodes are shown where the gateway’s configuration names the operator’s address." : "Queues of nodes are shown to their domain’s operator only."}</p><//>`}`;
}

export default function Deadlines() {
  useLive(5000);
  const found = useGet("deadlines", 5000);
  // One element for the answer, one for the comparison: either may come first, and Preact would put
  // it before its siblings.
  return html`<div>
    <${Heading} text="Deadlines"><p class="lead">Who is late, and why.</p><//>
    <section><${Answered} of=${found}>${(answer) => html`<${Seen} ...${answer} />`}<//></section>
    <section><${Comparison} /></section>
  </div>`;
}
